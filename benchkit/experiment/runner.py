"""Going through an experiment's rounds: measuring what is missing, until enough is known."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from benchkit.experiment.design import Cell, session_of
from benchkit.experiment.ledger import Ledger, Record
from benchkit.experiment.watch import Standing, Watch
from benchkit.measure.trial import Trial, forget_load, measure

Round = tuple[int, Sequence[Cell]]  # its number from 1, and its cells in the order to measure


class Until(Protocol):
    """A rule that ends an experiment before its last round, see `benchkit.analysis.stopping`."""

    def describe(self, rounds: int) -> Mapping[str, Any]:
        """Give the rule as plain data: what counts for a run of so many rounds at the most."""

    def reason_to_stop(self, record: Record, rounds_done: int, spent_s: float) -> str:
        """Say why enough was measured after a whole round; "" goes on."""


def planned_rounds(ledger: Ledger, cells: Sequence[Cell], until: Until | None) -> Iterator[Round]:
    """Give the rounds of the recorded order; `until` is asked after each, None measures all.

    With several sessions each has loads of its own, removed when it is over.
    """
    orders = ledger.record.specification["order"]
    sessions = ledger.record.specification.get("sessions", 1)
    run_id = ledger.record.specification["run_id"]
    for number, order in enumerate(orders, 1):
        session = session_of(number, len(orders), sessions) if sessions > 1 else 0
        name = f"{run_id}, session {session}"
        ours = [cell.loaded(name) for cell in cells] if session else cells
        yield number, [ours[index] for index in order]
        if session and session_of(number + 1, len(orders), sessions) != session:
            for cell in ours:
                forget_load(cell.request)
        if _stops(ledger, number, until):
            return


def _stops(ledger: Ledger, number: int, until: Until | None) -> bool:
    """Ask the rule after a whole round, and record that it says stop."""
    record = ledger.record
    if record.stopped is not None:
        return bool(number >= record.stopped["rounds"])
    if until is None or len(record.entries) >= record.planned:
        return False
    spent_s = sum(sum(entry["steps_s"].values()) for entry in record.entries)
    reason = until.reason_to_stop(record, number, spent_s)
    if reason:
        ledger.stop(number, reason)
    return bool(reason)


class Runner:
    """Measures the trials of rounds that are not in the ledger yet.

    Parameters
    ----------
    guess_s
        About how long a trial takes, in seconds, until some were measured.
    notes
        What the watcher is told at the start.
    """

    def __init__(
        self,
        name: str,
        ledger: Ledger,
        watch: Watch,
        *,
        guess_s: float,
        notes: tuple[str, ...] = (),
    ) -> None:
        self._name, self._ledger, self._watch = name, ledger, watch
        self._guess_s, self._notes = guess_s, notes
        self._spent_s: list[float] = []

    def go(self, rounds: Iterable[Round]) -> None:
        """Measure until there are no more rounds; the next one is asked for after the last."""
        done = {entry["key"] for entry in self._ledger.record.entries}
        self._tell("start")
        for number, cells in rounds:
            for position, cell in enumerate(cells, 1):
                key = cell.key(number)
                if key not in done:
                    self._measure(cell, key, number, position)
        self._tell("end")

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
            may_end_early=record.may_end_early,
            directory=self._ledger.directory,
            notes=self._notes,
            **more,
        )
        try:
            self._watch(standing)
        except Exception as error:
            # Not an error of the trial that is being measured: it must not be recorded as one.
            raise RuntimeError(f"the watcher failed at {event!r}: {error}") from error
