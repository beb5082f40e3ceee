"""What the sessions of each cell waited for, per transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchkit.analysis.results import Results
from benchkit.measure.waits import CPU
from benchkit.units import by_size

if TYPE_CHECKING:
    import pandas as pd

Times = dict[str, float]


def waits(results: Results, most: int = 8, **where: Any) -> pd.DataFrame:
    """Give the time that a transaction spent in each wait event, by cell.

    Sessions seen in the event per look, times the run's wall time, divided by its transactions:
    the time of all sessions together that falls to one transaction. The mean over the usable
    trials of the cell that were sampled.

    Parameters
    ----------
    most
        How many events have a row, the largest over all shown cells; the rest together is the row
        ``other``.
    **where
        Only the cells with these levels of factors.

    Returns
    -------
    pandas.DataFrame
        A row per event (the index, ``event``), a column per cell, in ms. Missing where nothing was
        sampled, and where a server does not tell all events (before PostgreSQL 10) and this one
        was not seen.

    Raises
    ------
    InputError
        An unknown factor or level, or no such cell was planned.

    Notes
    -----
    A look a second is a sample: an event with a share of 1 % of a run of 10 s with one client is
    most likely not seen at all.
    """
    import pandas as pd

    cells = _spelled_alike(
        {
            label: _times_of(results, levels)
            for label, levels in labelled_cells(results, **where).items()
        }
    )
    totals: Times = {}
    for times in cells.values():
        for event, value in (times or {}).items():
            totals[event] = totals.get(event, 0.0) + value
    ranked = sorted((event for event in totals if totals[event]), key=lambda e: -totals[e])
    shown, rest = ranked[:most], ranked[most:]
    columns = {label: _column(times, shown, rest) for label, times in cells.items()}
    index = pd.Index([*shown, *(["other"] if rest else [])], name="event")
    return pd.DataFrame(columns, index=index, dtype=float)


def _spelled_alike(cells: dict[str, Times | None]) -> dict[str, Times | None]:
    """Give an event one name: 16 says WALSync where 18 says WalSync."""
    names: dict[str, str] = {}
    for times in cells.values():
        for event in times or {}:
            names[event.lower()] = event
    return {
        label: None if times is None else {names[event.lower()]: t for event, t in times.items()}
        for label, times in cells.items()
    }


def _column(
    times: Times | None, shown: Sequence[str], rest: Sequence[str]
) -> dict[str, float | None]:
    if times is None:
        return {}
    # Where CPU is told, every event is: one that was not seen took no time that shows.
    known = {event: times.get(event, 0.0 if _is_told(event, times) else None) for event in shown}
    return known | {"other": sum(times.get(event, 0.0) for event in rest)}


def _is_told(event: str, times: Times) -> bool:
    return CPU in times and (event == CPU or ":" in event)


def _times_of(results: Results, levels: Mapping[str, str]) -> Times | None:
    """Average the times by event over the sampled trials of a cell; None without one."""
    trials = [
        times
        for entry in results.record.entries
        if entry["status"] == "usable" and not entry["twin"] and entry["levels"] == levels
        if (times := _times_of_trial(entry)) is not None
    ]
    if not trials:
        return None
    events = dict.fromkeys(event for times in trials for event in times)
    return {event: sum(times.get(event, 0.0) for times in trials) / len(trials) for event in events}


def _times_of_trial(entry: Mapping[str, Any]) -> Times | None:
    sampled, result = entry.get("waits") or {}, entry["result"]
    transactions, wall_s = result.get("transactions"), result.get("wall_s")
    if not (sampled.get("events") and sampled["looks"] and transactions and wall_s):
        return None
    ms_per_session = 1000 * wall_s / sampled["looks"] / transactions
    return {event: count * ms_per_session for event, count in sampled["events"].items()}


def labelled_cells(results: Results, **where: Any) -> dict[str, dict[str, str]]:
    """Name the cells by the levels that tell them apart: label -> levels, by size of the levels.

    Parameters
    ----------
    **where
        Only the cells with these levels of factors.

    Raises
    ------
    InputError
        An unknown factor or level, or no such cell was planned.
    """
    cells = results.cells(**where)
    ranks = {name: by_size(levels) for name, levels in results.factors.items()}
    cells.sort(key=lambda levels: [ranks[name].index(levels[name]) for name in ranks])
    telling = [name for name in results.factors if len({levels[name] for levels in cells}) > 1]
    return {", ".join(levels[name] for name in telling) or "the cell": levels for levels in cells}
