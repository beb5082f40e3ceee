"""Which runs: factors, levels, cells, rounds, and their random order."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import itertools
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchkit.errors import BuildError, Faults
from benchkit.experiment.fitting import fitted
from benchkit.experiment.ledger import project_root
from benchkit.measure.trial import TrialRequest
from benchkit.postgres import builds
from benchkit.postgres.builds import Build
from benchkit.postgres.settings import catalogue
from benchkit.workload.pgbench import FIELDS, Workload
from benchkit.workload.scripts import is_file

Levels = Mapping[str, Any] | Sequence[Any]
TWIN = "twin"
# What a factor cannot be called, since tables of results have a column of that name, or their
# functions an argument.
RESERVED = frozenset(
    {
        "key", "position", "reason", "round", "status", "twin",
        "accounts_growth_mb", "branches_growth_mb", "buffer_hit_pct", "checkpoints",
        "buffer_reads_per_transaction", "client_cpu_pct", "dead_tuples",
        "disk_read_kb_per_transaction", "disk_written_kb_per_transaction",
        "evictions_per_transaction", "full_page_images_per_transaction", "hot_accounts_pct",
        "hot_branches_pct", "hot_tellers_pct", "latency_average_ms", "latency_stddev_ms", "tps",
        "wal_bytes_per_transaction",
        "epoch_s", "failed", "lag_ms", "latency_ms", "retried", "retries", "skipped", "time_s",
        "against", "caption", "colour", "factor", "level", "margin", "metric", "metrics",
        "results", "self", "trials", "x", "x_title",
        "client_side", "event", "high", "low", "mean", "meta", "most", "ratio", "report",
        "statement", "trim", "value", "verdict",
    }
)  # fmt: skip


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

    def loaded(self, name: str) -> Cell:
        """Give the same cell on tables of another load."""
        return dataclasses.replace(self, request=dataclasses.replace(self.request, load=name))

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


def label_of(value: Any) -> str:
    """Give the label of a level: a build's version, a mix as pgbench has it, else its text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}@{label_of(item)}" for name, item in value.items())
    return value.label if isinstance(value, Build) else str(value)


def _is_group(name: str, value: Any) -> bool:
    """Tell whether a level sets several things; a mapping of scripts is the one value of a mix."""
    return isinstance(value, Mapping) and name != "script"


def labelled(name: str, levels: Levels, faults: Faults) -> dict[str, Any]:
    """Give every level of a factor its label: the key of a mapping, else :func:`label_of`."""
    where = f"factor {name}"
    if name in RESERVED:
        faults.add(where, "results have a column or an argument of this name: choose another")
    if isinstance(levels, str) or not isinstance(levels, Mapping | Iterable):
        faults.add(where, f"{levels!r}: levels are a list of values, or a mapping label -> value")
        return {}
    pairs = list(levels.items()) if isinstance(levels, Mapping) else [(v, v) for v in levels]
    if not pairs:
        faults.add(where, "has no levels")
    named: dict[str, Any] = {}
    for label, value in ((label_of(key), value) for key, value in pairs):
        if label in named:
            faults.add(where, f"two levels are called {label!r}: give a mapping label -> value")
        named[label] = value
    return named


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
    """Check the names in grids and baseline."""
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

    What a factor is follows from its name and its value: ``build``; a field of the workload (a
    mapping for ``script`` is a mix of scripts); any other mapping, a named group of settings and
    workload fields; a setting of the build; or, for any
    other name with texts as levels, SQL run after loading. None leaves all as it is.
    """
    if value is None:
        return request
    if _is_group(name, value):
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


def is_sql(name: str, levels: Levels, known_settings: Iterable[str]) -> bool:
    """Tell whether a factor's levels are SQL: labelled texts under a name that is nothing else."""
    if name == "build" or name in FIELDS or name.lower() in known_settings or "." in name:
        return False
    return isinstance(levels, Mapping) and all(
        isinstance(statement, str)
        for value in levels.values()
        for statement in (value if isinstance(value, list | tuple) else [value or ""])
    )


def make_cells(
    base: TrialRequest,
    factors: Mapping[str, Levels],
    grids: Sequence[Sequence[str]] | None,
    baseline: Mapping[str, str],
    faults: Faults,
    *,
    same_settings: bool = False,
    own_client: bool = False,
) -> list[Cell]:
    """Turn factors into cells, each fitted to its build; the baseline's twin comes last.

    Faults are noted; the cells are only good where there are none.
    """
    own = Faults()
    named = {name: labelled(name, levels, own) for name, levels in factors.items()}
    check_names(named, grids, baseline, own)
    faults.found += own.found
    if own.found:
        return []
    found = _find_builds(named, faults)
    known = {name.lower() for build in (base.build, *found) for name in catalogue(build)}
    texts = {name for name, levels in factors.items() if is_sql(name, levels, known)}
    unknown = _unknown_factors(named, texts, known, faults)
    _check_groups(named, faults)
    chosen = []
    for labels in crossings(named, grids):
        values = {name: named[name][label] for name, label in labels.items()}
        levels = {name: value for name, value in values.items() if name not in unknown}
        chosen.append((labels, _with_levels(base, levels, texts, faults)))
    alike = [request.build for _, request in chosen] if same_settings else []
    cells = []
    for labels, wanted in chosen:
        request, notes = fitted(wanted, alike=alike, own_client=own_client)
        request = dataclasses.replace(request, workload=_with_notebook_scripts(request.workload))
        cells.append(Cell(levels=labels, request=request, notes=tuple(notes)))
    return [*cells, *_twin(cells, baseline, faults)]


def _with_levels(
    request: TrialRequest, values: Mapping[str, Any], texts: set[str], faults: Faults
) -> TrialRequest:
    # A factor that is one setting wins over a group that holds it too.
    for name in sorted(values, key=lambda name: not _is_group(name, values[name])):
        value = values[name]
        if name in texts:
            statements = [value] if isinstance(value, str) else list(value or [])
            added = tuple(item for item in statements if item.strip())
            request = dataclasses.replace(request, sql=(*request.sql, *added))
        else:
            request = apply_level(request, name, value, faults)
    return request


def _with_notebook_scripts(workload: Workload) -> Workload:
    """Read the scripts that are not in the working directory but beside the notebooks.

    The working directory is the notebook's in JupyterLab and the caller's under papermill. The name
    of a script stays as it is given, so that both are the same experiment.
    """
    root = project_root()
    if root is None or not isinstance(workload.script, str | Mapping):
        return workload
    texts = dict(workload.script_texts)
    for script in workload.scripts:
        name, place = str(script.name), root / "notebooks"
        if not (script.builtin or name in texts or is_file(name)) and is_file(name, place):
            # What cannot be read is no script; the check says so.
            with contextlib.suppress(OSError, UnicodeError):
                texts[name] = (place / name).read_text("utf-8")
    return dataclasses.replace(workload, script_texts=texts)


def _find_builds(named: dict[str, dict[str, Any]], faults: Faults) -> list[Build]:
    """Find the builds of the factor ``build``, once, in place of what names them."""
    levels = named.get("build", {})
    for label, value in levels.items():
        try:
            levels[label] = None if value is None else builds.find(value)
        except BuildError as error:
            faults.add("build", str(error))
            levels[label] = None
    return [build for build in levels.values() if build is not None]


def _unknown_factors(
    named: Mapping[str, Mapping[str, Any]], texts: set[str], known: set[str], faults: Faults
) -> set[str]:
    """Note the factors that are nothing known; a near miss of a name is no SQL."""
    unknown = set()
    accepted = {"build", *FIELDS, *known}
    for name, levels in named.items():
        grouped = all(value is None or _is_group(name, value) for value in levels.values())
        if grouped or name.lower() in accepted or "." in name:
            continue
        near = difflib.get_close_matches(name.lower(), accepted, n=1, cutoff=0.85)
        if name not in texts or near:
            faults.unknown("factors", name, accepted, kind="factor")
            unknown.add(name)
    return unknown


def _check_groups(named: Mapping[str, Mapping[str, Any]], faults: Faults) -> None:
    """Check that no two groups set the same thing: the one would silently win."""
    owners: dict[str, str] = {}
    for name, levels in named.items():
        groups = [value for value in levels.values() if _is_group(name, value)]
        for inner in sorted({key.lower() for group in groups for key in group}):
            if owners.setdefault(inner, name) != name:
                faults.add("factors", f"{owners[inner]} and {name} both set {inner}")


def _twin(cells: Sequence[Cell], baseline: Mapping[str, str], faults: Faults) -> list[Cell]:
    for cell in cells:
        if all(cell.levels[name] == label for name, label in baseline.items()):
            return [dataclasses.replace(cell, twin=True)]
    levels = ", ".join(f"{name}={label}" for name, label in baseline.items())
    faults.add("baseline", f"no cell has {levels}: no grid crosses these factors")
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


def session_of(round_number: int, rounds: int, sessions: int) -> int:
    """Give the session of a round, both from 1: rounds are shared equally, in order."""
    return (round_number - 1) * sessions // rounds + 1
