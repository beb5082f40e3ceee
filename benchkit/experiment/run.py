"""An experiment: cells and rounds, measured one after the other, recorded at once, resumable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from benchkit.errors import BenchkitError, BuildError, Faults, InputError
from benchkit.experiment.design import Cell, Levels, label_of, make_cells, shuffled_rounds
from benchkit.experiment.fitting import OWN_CLIENT
from benchkit.experiment.ledger import Ledger, Record
from benchkit.experiment.opening import asked_of, open_run
from benchkit.experiment.runner import Runner, Until, planned_rounds
from benchkit.experiment.watch import Standing as Standing
from benchkit.experiment.watch import Watch as Watch
from benchkit.experiment.watch import print_lines as print_lines
from benchkit.measure import host
from benchkit.measure.alike import made_alike
from benchkit.measure.checks import check_requests, preflight
from benchkit.measure.finding import Finding, worst_first
from benchkit.measure.gates import Limits
from benchkit.measure.needs import Needs, check_memory, needs_of
from benchkit.measure.probe import PROBE_S, noise_findings
from benchkit.measure.request_checks import round_findings
from benchkit.measure.trial import TrialRequest
from benchkit.postgres import builds, workplace
from benchkit.postgres.builds import Build
from benchkit.postgres.settings import Value
from benchkit.units import show_bytes
from benchkit.workload.disk import free_bytes
from benchkit.workload.pgbench import Workload


class Experiment:
    """Factors, a workload and rounds; everything is checked when it is made.

    Parameters
    ----------
    name
        Names the directory of its runs.
    factors
        Name -> levels, as a list of values or a mapping label -> value. A factor is ``build``, a
        field of :class:`Workload`, a PostgreSQL setting, a named group (levels are mappings of
        settings and workload fields), or SQL run after loading (levels are texts).
    workload
        What holds for every cell unless a factor says otherwise.
    rounds
        Every round measures every cell once, in random order.
    sessions
        The rounds are shared among so many sessions, each on tables loaded afresh: what one load
        happens to put where on the disk then counts as noise. Intervals are over sessions, so
        three are needed.
    until
        Ends the run before its last round when enough is known, such as
        ``benchkit.Until(precision=0.05)``; None measures all rounds.
    baseline
        Factor -> label that others are compared with. The first cell that has these levels is
        entered twice: the twin shows the experiment's own noise.
    settings, build, client, checksums
        Likewise for every cell. `client` is the newest pgbench found unless named; ``"own"`` takes
        each build's own.
    same_settings
        Set alike what the builds have different defaults of, unless it is asked for.
    grids
        Which factors are crossed with each other; a factor not named in a grid stays at its first
        level there. None crosses all with all.
    seed
        Of the random order; None draws one and records it.
    allow_assertions
        Measure builds with assertions too.

    Raises
    ------
    InputError
        Every fault at once; nothing was started.
    """

    def __init__(
        self,
        name: str,
        *,
        factors: Mapping[str, Levels],
        workload: Workload,
        rounds: int = 5,
        sessions: int = 1,
        baseline: Mapping[str, Any] | None = None,
        settings: Mapping[str, Value] | None = None,
        build: Build | str | Path = "",
        client: Build | str | Path = "",
        checksums: bool = False,
        grids: Sequence[Sequence[str]] | None = None,
        seed: int | None = None,
        allow_assertions: bool = False,
        same_settings: bool = False,
        until: Until | None = None,
        limits: Limits | None = None,
    ) -> None:
        faults = Faults()
        _check_plan(name, rounds, sessions, until, faults)
        self.name = name
        self.rounds, self.sessions = rounds, sessions
        self.baseline = {key: label_of(level) for key, level in (baseline or {}).items()}
        self.seed = seed
        self.same_settings, self.until = same_settings, until
        base = replace(
            _base_request(build, "" if client == OWN_CLIENT else client, faults),
            workload=workload,
            settings=dict(settings or {}),
            checksums=checksums,
            limits=limits or Limits(),
        )
        fits = {"same_settings": same_settings, "own_client": client == OWN_CLIENT}
        cells = make_cells(base, factors, grids, self.baseline, faults, **fits)
        try:
            check_requests([cell.request for cell in cells], assertions=allow_assertions)
        except InputError as error:
            faults.extend(error)
        if faults.found:
            raise InputError(faults.found, remark=_needs_words(cells, rounds))
        cores = host.usable_cores()
        self.cells = [_settled(cell, cores) for cell in cells]
        self.factors = {name: _levels_of(self.cells, name) for name in factors}

    def check(self, *, probe_s: float = PROBE_S) -> list[Finding]:
        """List what may make these numbers wrong, worst first. Starts no server.

        Parameters
        ----------
        probe_s
            How long to try whether the machine is quiet, in seconds; 0 does not.
        """
        requests = [cell.request for cell in self.cells]
        machine = host.fingerprint(workplace.home())
        found = [
            *check_memory(self.needs(), machine),
            *noise_findings(probe_s),
            *preflight(requests),
            *round_findings(self.rounds),
            *(made_alike(requests) if self.same_settings else []),
        ]
        found += [
            Finding(
                severity="info",
                name="fitted to the build",
                evidence=note,
                fix="name it for each version, if this is not what is meant",
            )
            for note in dict.fromkeys(note for cell in self.cells for note in cell.notes)
        ]
        return worst_first(found)

    def describe(self) -> str:
        """Say in a few words what will be measured, and what that takes."""
        needs = self.needs()
        memory = show_bytes(needs.memory_bytes)
        free, has = free_bytes(workplace.home()), psutil.virtual_memory().total
        return (
            f"{needs.trials} trials{' at the most' if self.until else ''}: {self.rounds} rounds of "
            f"{len(self.cells)} cells, one the twin."
            f"\nTime: {needs.duration_words}."
            f"\nDisk: {show_bytes(needs.disk_bytes)} of {show_bytes(free)} that are free."
            f"\nMemory: {memory} of {show_bytes(has)}, beside the page cache."
        )

    def needs(self) -> Needs:
        """Work out the disk, memory and time that a whole run takes."""
        return needs_of([cell.request for cell in self.cells], self.rounds, self.sessions)

    def run(self, *, watch: Watch | None = None, fresh: bool = False) -> Record:
        """Measure every trial that is not recorded yet.

        An unfinished run with the same specification on this machine is continued with exactly the
        missing trials; otherwise a new run begins. What killed runs left behind (processes,
        sockets, directories) is removed first.

        Parameters
        ----------
        watch
            Called as things go on; None prints a line for each trial.
        fresh
            Begin a new run even if there is an unfinished one.

        Returns
        -------
        Record
            Of the complete run.

        Raises
        ------
        KeyboardInterrupt
            After the running server was removed; what was finished is in the ledger.
        """
        notes = [*workplace.sweep()]
        with self._ledger(notes, fresh=fresh) as ledger:
            notes += ledger.record.notes
            needs = self.needs()
            runner = Runner(
                self.name,
                ledger,
                watch or print_lines,
                guess_s=needs.trial_s,
                notes=tuple(notes),
            )
            runner.go(planned_rounds(ledger, self.cells, self.until))
            return ledger.record

    def _ledger(self, notes: list[str], *, fresh: bool) -> Ledger:
        asked = {
            "rounds": self.rounds,
            "sessions": self.sessions,
            "factors": self.factors,
            "baseline": self.baseline,
            "until": self.until and dict(self.until.describe(self.rounds)),
            "cells": asked_of(self.cells),
        }
        return open_run(
            self.name,
            asked,
            machine=host.fingerprint(workplace.home()),
            seed=self.seed,
            order=lambda seed: shuffled_rounds(self.cells, self.rounds, seed),
            notes=notes,
            fresh=fresh,
        )


def _check_plan(name: str, rounds: int, sessions: int, until: Until | None, faults: Faults) -> None:
    if not name.replace("_", "").replace("-", "").isalnum():
        faults.add("name", f"{name!r}: letters, digits, _ and - only")
    if not isinstance(rounds, int) or rounds < 1:
        faults.add("rounds", f"{rounds!r} is not a number of rounds")
    elif not isinstance(sessions, int) or sessions < 1 or rounds % sessions:
        faults.add("sessions", f"{rounds} rounds cannot be shared equally among {sessions!r}")
    elif sessions > 1 and until is not None:
        faults.add("sessions", "the looks of `until` are planned in rounds: one session only")


def _base_request(
    build: Build | str | Path, client: Build | str | Path, faults: Faults
) -> TrialRequest:
    found: list[Build] = []
    searches: dict[str, Callable[[], Build]] = {
        "build": lambda: builds.find(build),
        "client": lambda: builds.find(client) if client else builds.newest_client(),
    }
    for where, search in searches.items():
        try:
            found.append(search())
        except BuildError as error:
            faults.add(where, str(error))
    if len(found) < len(searches):
        faults.raise_any()
    return TrialRequest(build=found[0], client=found[1], workload=Workload())


def _needs_words(cells: Sequence[Cell], rounds: int) -> str:
    """Say what a refused experiment would take, where that can be said."""
    try:
        return f"The whole experiment needs: {needs_of([c.request for c in cells], rounds).text}."
    except (TypeError, ValueError, ArithmeticError, BenchkitError):
        return ""  # the values that were refused give no sum


def _settled(cell: Cell, cores: int) -> Cell:
    request = cell.request
    workload = request.workload.settled(request.client, cores)
    return replace(cell, request=replace(request, workload=workload))


def _levels_of(cells: Sequence[Cell], name: str) -> list[str]:
    return list(dict.fromkeys(cell.levels[name] for cell in cells))
