"""Where a running experiment stands, for whoever watches it, and watching it in plain lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchkit.units import show_duration
from benchkit.workload.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a running experiment stands, for whoever watches it.

    Attributes
    ----------
    event
        ``start``, ``step``, ``second``, ``trial`` (one was recorded) or ``end``.
    left_s
        About how long it will still take, in seconds.
    may_end_early
        `planned` and `left_s` are the most that it can be.
    entry
        The trial just recorded.
    """

    event: str
    done: int
    planned: int
    left_s: float
    may_end_early: bool = False
    cell: str = ""
    round_number: int = 0
    step: str = ""
    progress: Progress | None = None
    entry: Mapping[str, Any] | None = None
    directory: Path | None = None
    notes: tuple[str, ...] = ()

    def line(self) -> str:
        """One line: ``7/20 trials, 3 min left``."""
        if self.done >= self.planned:
            return f"{self.done}/{self.planned} trials"
        bound = "at most " if self.may_end_early else ""
        return f"{self.done}/{bound}{self.planned} trials, {bound}{show_duration(self.left_s)} left"


Watch = Callable[[Standing], None]


def outcome(entry: Mapping[str, Any]) -> str:
    """Say in a few words how a trial went: its throughput only if it may be trusted."""
    tps = entry["result"].get("comparable_tps")
    if entry["status"] == "usable" and tps:
        return f"{tps:,.0f} tps"
    reasons = [gate["message"] for gate in entry["gates"] if gate["rejects"]]
    return f"{entry['status']}: {'; '.join(reasons) or entry['error'].partition(chr(10))[0]}"


def print_lines(standing: Standing) -> None:
    """Watch an experiment in plain lines, one for each trial."""
    if standing.event == "start":
        for note in standing.notes:
            print(note)  # noqa: T201
        print(f"{standing.directory}: {standing.line()}", flush=True)  # noqa: T201
    elif standing.event == "trial" and standing.entry is not None:
        shown = outcome(standing.entry)
        print(f"{standing.line()}: {standing.cell}: {shown}", flush=True)  # noqa: T201
