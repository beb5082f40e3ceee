"""Going through an experiment's order: measuring what is missing, stopping when enough is known."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from benchkit.experiment.design import Cell
from benchkit.experiment.ledger import Ledger, Record
from benchkit.experiment.watch import Standing, Watch
from benchkit.measure.trial import Trial, measure


class Until(Protocol):
    """A rule that ends an experiment before its last round, see `benchkit.analysis.stopping`."""

    def describe(self, rounds: int) -> Mapping[str, Any]:
        """Give the rule as plain data: what counts for a run of so many rounds at the most."""

    def reason_to_stop(self, record: Record, rounds_done: int, spent_s: float) -> str:
        """Say why enough was measured after a whole round; "" goes on."""


class Runner:
    """Measures the trials of a ledger's order that are not in it yet.

    Parameters
    ----------
    guess_s
        About how long a trial takes, in seconds, until some were measured.
    until
        Asked after each whole round; None measures all rounds.
    notes
        What the watcher is told at the start.
    """

    def __init__(
        self,
        name: str,
        cells: Sequence[Cell],
        ledger: Ledger,
        watch: Watch,
        *,
        guess_s: float,
        until: Until | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._name, self._cells, self._ledger, self._watch = name, cells, ledger, watch
        self._guess_s, self._until, self._notes = guess_s, until, notes
        self._spent_s: list[float] = []

    def go(self) -> None:
        """Measure until the order is done or the rule says stop."""
        done = {entry["key"] for entry in self._ledger.record.entries}
        self._tell("start")
        for number, order in enumerate(self._ledger.record.specification["order"], 1):
            for position, index in enumerate(order, 1):
                key = self._cells[index].key(number)
                if key not in done:
                    self._measure(self._cells[index], key, number, position)
            if self._stops(number):
                break
        self._tell("end")

    def _stops(self, number: int) -> bool:
        """Ask the rule after a whole round, and record that it says stop."""
        record = self._ledger.record
        if record.stopped is not None:
            return bool(number >= record.stopped["rounds"])
        if self._until is None or len(record.entries) >= record.planned:
            return False
        spent_s = sum(sum(entry["steps_s"].values()) for entry in record.entries)
        reason = self._until.reason_to_stop(record, number, spent_s)
        if reason:
            self._ledger.stop(number, reason)
        return bool(reason)

    def _measure(self, cell: Cell, key: str, round_number: int, position: int) -> None:
        about = {"cell": cell.label, "round_number": round_number}
        started = time.monotonic()
        trial: Trial = measure(
            cell.request,
            purpose=f"{self._name}: {cell.label}",
            on_step=lambda step: self._tell("step", step=step, **about),
            on_progress=lambda second: self._tell("second", step="run", progress=second, **about),
        )
        context = {
            "levels": dict(cell.levels),
            "twin": cell.twin,
            "round": round_number,
            "position": position,
        }
        entry = self._ledger.append(key, trial, context)
        self._spent_s.append(time.monotonic() - started)
        self._tell("trial", entry=entry, **about)

    def _tell(self, event: str, **more: Any) -> None:
        record = self._ledger.record
        missing = record.planned - len(record.entries)
        each_s = self._guess_s
        if self._spent_s:
            # The first trials load their clusters: the median forgets them.
            each_s = sorted(self._spent_s)[len(self._spent_s) // 2]
        standing = Standing(
            event=event,
            done=len(record.entries),
            planned=record.planned,
            left_s=missing * each_s,
            directory=self._ledger.directory,
            notes=self._notes,
            **more,
        )
        try:
            self._watch(standing)
        except Exception as error:
            # Not an error of the trial that is being measured: it must not be recorded as one.
            raise RuntimeError(f"the watcher failed at {event!r}: {error}") from error
