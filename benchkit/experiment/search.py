"""An experiment that chooses what to measure next by what it has measured: along an ordered list.

Which levels a round measures is up to a :class:`Strategy`; cells are made when they are first
needed, so that a level may be something that is costly to come by, such as a commit to be built.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from benchkit.errors import BuildError, Faults, InputError
from benchkit.experiment.design import Cell
from benchkit.experiment.ledger import Ledger, Record
from benchkit.experiment.opening import asked_of, open_run
from benchkit.experiment.run import Experiment
from benchkit.experiment.runner import Round, Runner
from benchkit.experiment.watch import Watch, print_lines
from benchkit.measure import host
from benchkit.measure.finding import Finding
from benchkit.measure.trial import forget_load
from benchkit.postgres import workplace
from benchkit.units import show_bytes, show_duration

FACTOR = "candidate"
FEWEST_CANDIDATES = 2
_COMMON = (
    "workload", "settings", "build", "client", "checksums", "same_settings", "limits",
    "allow_assertions",
)  # fmt: skip


class Strategy(Protocol):
    """What chooses the rounds of a search, see `benchkit.analysis.bisect`."""

    def describe(self) -> Mapping[str, Any]:
        """Give the rule as plain data."""

    def typical_trials(self, candidates: int) -> int:
        """Say about how many trials a search among so many takes."""

    def next_round(self, record: Record, unbuilt: Mapping[str, str]) -> tuple[list[str], str]:
        """Choose the candidates of the next round from the whole rounds so far.

        Parameters
        ----------
        unbuilt
            Candidates that could not be built, with the reason.

        Returns
        -------
        tuple
            Labels; none when it is enough, with the reason.
        """


class Search:
    """Candidates in order, the good end first, and a strategy that goes through them.

    Parameters
    ----------
    name
        Names the directory of its runs.
    candidates
        Label -> level as of a factor: a build, or a mapping of what is set (settings, workload
        fields, ``build``); or a function without arguments that makes one when it is needed and
        raises BuildError where it cannot.
    about
        Label -> what a person knows it by, such as a commit's subject.
    most_trials
        When to give up.
    fresh_loads
        Load the tables anew for every round: slower, but then what one load happens to put where is
        noise, and cannot pass for a change of the candidate that has it.
    **common
        What holds for all, as parameters of :class:`Experiment`: workload, settings, client,
        checksums, same_settings, limits, allow_assertions, and build where levels have none.

    Raises
    ------
    InputError
        Every fault at once; nothing was started. Candidates that are still to be made are checked
        when they are.
    """

    tell: Callable[[str], None] = staticmethod(lambda text: None)  # what is being built

    def __init__(
        self,
        name: str,
        candidates: Mapping[str, Any],
        *,
        strategy: Strategy,
        most_trials: int = 400,
        fresh_loads: bool = False,
        seed: int | None = None,
        about: Mapping[str, str] | None = None,
        **common: Any,
    ) -> None:
        faults = Faults()
        for key in common:
            if key not in _COMMON:
                faults.unknown("search", key, _COMMON, kind="argument")
        if len(candidates) < FEWEST_CANDIDATES:
            faults.add("candidates", f"{len(candidates)}: a search needs two at least")
        if most_trials < FEWEST_CANDIDATES:
            faults.add("most_trials", f"{most_trials!r} is less than one pair")
        faults.raise_any()
        self.name, self.seed, self.about = name, seed, dict(about or {})
        self.labels = [str(label) for label in candidates]
        self._levels = dict(zip(self.labels, candidates.values(), strict=True))
        self._strategy, self._most_trials, self._common = strategy, most_trials, common
        self._fresh_loads = fresh_loads
        self._cells: dict[str, Cell] = {}
        self._unbuilt: dict[str, str] = {}
        # What is wrong is said now: of what is there all, of what is still to be made the load.
        if not any(callable(level) for level in self._levels.values()):
            self._known  # noqa: B018
        else:
            Experiment(name, factors={}, workload=common["workload"])

    @functools.cached_property
    def _known(self) -> Experiment:
        """The candidates that are there already as an experiment, the ends among them.

        Raises
        ------
        BuildError
            One of the ends cannot be built.
        """
        ends = {self.labels[0], self.labels[-1]}
        there = [name for name in self.labels if name in ends or not callable(self._levels[name])]
        return self._experiment(there)

    def _experiment(self, labels: Sequence[str]) -> Experiment:
        """Check candidates beside each other, and keep their cells."""
        made_levels = {label: self._made(label) for label in labels}
        levels = {
            label: level if isinstance(level, Mapping) else {"build": level}
            for label, level in made_levels.items()
        }
        made = Experiment(self.name, factors={FACTOR: levels}, seed=self.seed, **self._common)
        for cell in made.cells[:-1]:  # the last one is the twin
            self._cells.setdefault(cell.levels[FACTOR], cell)
        return made

    def _made(self, label: str) -> Any:
        level = self._levels[label]
        if callable(level):
            self.tell(f"building {label} {self.about.get(label, '')}".rstrip())
            with workplace.machine_lock(f"{self.name}: building {label}"):
                level = self._levels[label] = level()
        return level

    def _cell(self, label: str) -> Cell | None:
        """Give a candidate's cell; None where it cannot be built."""
        if label not in self._cells:
            try:
                # Beside both ends: what is set alike depends on all that are compared.
                self._experiment([self.labels[0], label, self.labels[-1]])
            except BuildError as error:
                self._unbuilt[label] = str(error)
                return None
            except InputError as error:
                # Of the build, such as assertions: it is left out. Of the disk, say: of them all.
                if {fault.where for fault in error.faults} - {"build"}:
                    raise
                self._unbuilt[label] = str(error)
                return None
        return self._cells[label]

    def check(self) -> list[Finding]:
        """List what may make these numbers wrong, worst first; builds the ends if need be."""
        return [item for item in self._known.check() if item.name != "few rounds"]

    def describe(self) -> str:
        """Say in a few words what will be measured, and what that takes."""
        needs = self._known.needs()
        database = max(cell.request.workload.database_bytes for cell in self._known.cells)
        typical = min(self._strategy.typical_trials(len(self.labels)), self._most_trials)
        return (
            f"{len(self.labels)} candidates, from {self.labels[0]} to {self.labels[-1]}: about "
            f"{typical} trials where the change is twice the noise of a trial, at most "
            f"{self._most_trials}."
            f"\nTime: about {show_duration(typical * needs.trial_s)}, at most "
            f"{show_duration(self._most_trials * needs.trial_s)}, without building."
            f"\nDisk: {show_bytes(needs.disk_bytes)} for those known, and "
            f"{show_bytes(database)} for each one more that is measured; kept in the cache."
            f"\nMemory: {show_bytes(needs.memory_bytes)}, beside the page cache."
        )

    def run(self, *, watch: Watch | None = None, fresh: bool = False) -> Record:
        """Measure until the strategy says that it is enough.

        An unfinished search with the same specification on this machine is continued.

        Parameters
        ----------
        watch, fresh
            As of :meth:`Experiment.run`.

        Returns
        -------
        Record
            Of the ended search; ``stopped`` says why it ended.
        """
        notes = [*workplace.sweep()]
        needs = self._known.needs()
        with self._ledger(notes, fresh=fresh) as ledger:
            told = (*notes, *ledger.record.notes)
            watch = watch or print_lines
            runner = Runner(self.name, ledger, watch, guess_s=needs.trial_s, notes=told)
            runner.go(self._rounds(ledger))
            return ledger.record

    def _ledger(self, notes: list[str], *, fresh: bool) -> Ledger:
        asked = {
            "rounds": self._most_trials // FEWEST_CANDIDATES,
            "sessions": 1,
            "factors": {FACTOR: self.labels},
            "baseline": {FACTOR: self.labels[0]},
            "until": None,
            "search": dict(self._strategy.describe())
            | {
                "most_trials": self._most_trials,
                "fresh_loads": self._fresh_loads,
                "about": self.about,
            },
            "cells": asked_of(cell for cell in self._known.cells if not cell.twin),
        }
        machine = host.fingerprint(workplace.home())
        return open_run(
            self.name,
            asked,
            machine=machine,
            seed=self.seed,
            order=lambda seed: [],
            notes=notes,
            fresh=fresh,
        )

    def _rounds(self, ledger: Ledger) -> Iterator[Round]:
        seed = ledger.record.specification["seed"]
        # The last round may lack trials: it comes out the same again.
        number = max((entry["round"] for entry in ledger.record.entries), default=1)
        while ledger.record.stopped is None:
            earlier = [entry for entry in ledger.record.entries if entry["round"] < number]
            whole = replace(ledger.record, entries=earlier)
            labels, reason = self._strategy.next_round(whole, self._unbuilt)
            if len(earlier) + len(labels) > self._most_trials:
                labels, reason = [], f"the limit of {self._most_trials} trials was reached"
            if not labels:
                ledger.stop(number - 1, reason, unbuilt=self._unbuilt)
                return
            random.Random(f"{seed} {number}").shuffle(labels)
            cells = [cell for cell in map(self._cell, labels) if cell is not None]
            if len(cells) < len(labels):
                continue
            if self._fresh_loads:
                name = f"{ledger.record.specification['run_id']}, round {number}"
                cells = [cell.loaded(name) for cell in cells]
            yield number, cells
            for cell in cells:
                forget_load(cell.request)
            number += 1
