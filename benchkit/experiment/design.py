"""Which runs: factors, levels, cells, rounds, and their random order."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchkit.errors import BuildError, Faults
from benchkit.measure.trial import TrialRequest
from benchkit.postgres import builds
from benchkit.postgres.builds import Build
from benchkit.postgres.settings import catalogue, translate
from benchkit.workload.pgbench import FIELDS

Levels = Mapping[str, Any] | Sequence[Any]
TWIN = "twin"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One combination of levels, and the request that measures it.

    Attributes
    ----------
    levels
        Factor -> label of its level.
    twin
        True for the second entry of the baseline.
    notes
        What was translated for the build.
    """

    levels: Mapping[str, str]
    request: TrialRequest
    twin: bool = False
    notes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A short text for people."""
        words = [f"{name}={level}" for name, level in self.levels.items()] or ["(one cell)"]
        return ", ".join([*words, TWIN] if self.twin else words)

    def key(self, round_number: int) -> str:
        """Identify a trial: a hash of everything that was asked, and its round."""
        spec = {
            "levels": dict(self.levels),
            "twin": self.twin,
            "round": round_number,
            "asked": self.request.describe(),
        }
        return digest(spec)


def digest(data: Mapping[str, Any]) -> str:
    """Hash plain data, independent of the order of its keys."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def labelled(levels: Levels) -> dict[str, Any]:
    """Give every level its label: the key of a mapping, else the value's text."""
    if isinstance(levels, Mapping):
        return {str(label): value for label, value in levels.items()}
    return {_label(value): value for value in levels}


def _label(value: Any) -> str:
    return value.label if isinstance(value, Build) else str(value)


def crossings(
    factors: Mapping[str, Mapping[str, Any]],
    grids: Sequence[Sequence[str]] | None,
) -> list[dict[str, str]]:
    """List the combinations of labels.

    Parameters
    ----------
    factors
        Name -> label -> value.
    grids
        Which factors are crossed with each other; in each grid, a factor that is not named stays at
        its first level. None crosses all.

    Returns
    -------
    list of dict
        Each combination once.
    """
    combinations: dict[tuple[str, ...], dict[str, str]] = {}
    for grid in grids or [list(factors)]:
        axes = [
            list(levels) if name in grid else list(levels)[:1] for name, levels in factors.items()
        ]
        for labels in itertools.product(*axes):
            combinations.setdefault(labels, dict(zip(factors, labels, strict=True)))
    return list(combinations.values())


def check_names(
    factors: Mapping[str, Mapping[str, Any]],
    grids: Sequence[Sequence[str]] | None,
    baseline: Mapping[str, str],
    faults: Faults,
) -> None:
    """Check the names in grids and baseline, and that every factor has levels."""
    for name, levels in factors.items():
        if not levels:
            faults.add(f"factor {name}", "has no levels")
    for grid in grids or []:
        for name in grid:
            if name not in factors:
                faults.unknown("grids", name, factors, kind="factor")
    for name, label in baseline.items():
        if name not in factors:
            faults.unknown("baseline", name, factors, kind="factor")
        elif label not in factors[name]:
            faults.unknown(f"baseline {name}", label, factors[name], kind="level")


def apply_level(request: TrialRequest, name: str, value: Any, faults: Faults) -> TrialRequest:
    """Put one level into a request.

    What a factor is follows from its name and its value: ``build``; a field of the workload; a
    mapping (a named group of settings and workload fields); a setting of the build; or, for any
    other name with texts as levels, SQL run after loading. None leaves all as it is.
    """
    if value is None:
        return request
    if isinstance(value, Mapping):
        for inner, item in value.items():
            request = apply_level(request, inner, item, faults)
        return request
    if name == "build":
        try:
            return dataclasses.replace(request, build=builds.find(value))
        except BuildError as error:
            faults.add("build", str(error))
            return request
    if name in FIELDS:
        workload = dataclasses.replace(request.workload, **{name: value})
        return dataclasses.replace(request, workload=workload)
    return dataclasses.replace(request, settings={**request.settings, name: value})


def is_sql(name: str, levels: Mapping[str, Any], known_settings: Iterable[str]) -> bool:
    """Tell whether a factor's levels are SQL: labelled texts under a name that is nothing else."""
    if name == "build" or name in FIELDS or name.lower() in known_settings:
        return False
    return all(value is None or isinstance(value, str | list | tuple) for value in levels.values())


def make_cells(
    base: TrialRequest,
    factors: Mapping[str, Levels],
    grids: Sequence[Sequence[str]] | None,
    baseline: Mapping[str, str],
    faults: Faults,
) -> list[Cell]:
    """Turn factors into cells; the baseline's twin comes last.

    Faults are noted; the cells are only good where there are none.
    """
    named = {name: labelled(levels) for name, levels in factors.items()}
    check_names(named, grids, baseline, faults)
    if faults.found:
        return []
    known = {name.lower() for name in catalogue(base.build)}
    texts = {
        name
        for name, levels in named.items()
        if isinstance(factors[name], Mapping) and is_sql(name, levels, known)
    }
    _check_factor_names(base, named, texts, known, faults)
    cells = []
    for labels in crossings(named, grids):
        request = base
        # A factor that is one setting wins over a group that holds it too.
        values = {name: named[name][label] for name, label in labels.items()}
        for name in sorted(values, key=lambda name: not isinstance(values[name], Mapping)):
            value = values[name]
            if name in texts:
                statements = [value] if isinstance(value, str) else list(value or [])
                added = tuple(item for item in statements if item.strip())
                request = dataclasses.replace(request, sql=(*request.sql, *added))
            else:
                request = apply_level(request, name, value, faults)
        settings, notes = translate(request.settings, request.build)
        request = dataclasses.replace(request, settings=settings)
        cells.append(Cell(levels=labels, request=request, notes=tuple(notes)))
    return [*cells, *_twin(cells, baseline)]


def _check_factor_names(
    base: TrialRequest,
    named: Mapping[str, Mapping[str, Any]],
    texts: set[str],
    known: set[str],
    faults: Faults,
) -> None:
    for name, levels in named.items():
        grouped = all(value is None or isinstance(value, Mapping) for value in levels.values())
        settings = {n.lower() for build in _builds(named, base) for n in catalogue(build)} | known
        if not (
            name == "build"
            or name in FIELDS
            or name in texts
            or grouped
            or "." in name
            or name.lower() in settings
        ):
            faults.unknown("factors", name, {"build", *FIELDS, *settings}, kind="factor")


def _builds(named: Mapping[str, Mapping[str, Any]], base: TrialRequest) -> list[Build]:
    found = [base.build]
    for value in named.get("build", {}).values():
        try:
            found.append(builds.find(value))
        except BuildError:
            continue
    return found


def _twin(cells: Sequence[Cell], baseline: Mapping[str, str]) -> list[Cell]:
    for cell in cells:
        if all(cell.levels[name] == label for name, label in baseline.items()):
            return [dataclasses.replace(cell, twin=True)]
    return []


def shuffled_rounds(cells: Sequence[Cell], rounds: int, seed: int) -> list[list[int]]:
    """Give the order: for each round, every cell's index once, in random order."""
    generator = random.Random(seed)
    order = []
    for _ in range(rounds):
        indexes = list(range(len(cells)))
        generator.shuffle(indexes)
        order.append(indexes)
    return order
