"""The table of what the sessions waited for."""

from __future__ import annotations

from typing import Any

from benchkit.analysis.results import Results
from benchkit.analysis.waits import waits
from benchkit.measure.waits import CPU, CPU_OR_UNTOLD
from benchkit.present.tables import show_table

_NOTES = (
    "Time of all sessions in the event per transaction, in ms; sampled once a second from "
    "pg_stat_activity, mean over the usable trials.",
    f"{CPU}: running, or waiting for a processor.",
    "Wait events need PostgreSQL 9.6. A dash: the server does not tell, or was not sampled.",
)


def show_waits(results: Results, caption: str, most: int = 8, **where: Any) -> None:
    """Show a row per wait event and a column per cell, in ms per transaction.

    Parameters
    ----------
    most
        How many events have a row of their own.
    **where
        Only the cells with these levels of factors.

    Raises
    ------
    InputError
        An unknown factor or level, or no such cell was planned.
    """
    frame = waits(results, most, **where).rename_axis("Wait event").reset_index()
    notes = list(_NOTES)
    if CPU_OR_UNTOLD in set(frame["Wait event"]):
        notes[1] += f" {CPU_OR_UNTOLD}: servers before 10 do not tell all waits, those for the "
        notes[1] += "disk among them."
    show_table(frame, caption=caption, notes=notes, row_header="Wait event")
