"""An executed notebook read back: it carries its run's specification and trials inside.

Such a notebook comes from another machine and another person. It is read as JSON and nothing of
it is run; every field that a reader of a record counts on is checked here, so that what is wrong
with a stranger's file is said of the file, and not by a traceback from somewhere else.

The format is that of the ledger (``format`` in the specification); a notebook is JSON with cells,
outputs and their data by MIME type (nbformat 4, ``nbformat.v4.schema.json``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchkit.errors import FormatError
from benchkit.experiment.design import RESERVED
from benchkit.experiment.ledger import FORMAT, Record
from benchkit.units import show_bytes

# An output of this type holds the run: run_dir (where its data lie), specification, trials.
RUN_MIME = "application/vnd.benchkit.run+json"
MOST_BYTES = 512 * 1024**2

# A shape is a tuple of types, [shape of each item], or {name: shape}; ANY: of all other names.
ANY = "*"
_Shape = tuple[type, ...] | list[Any] | dict[str, Any]
_TEXT: _Shape = (str,)
_KNOWN_TEXT: _Shape = (str, type(None))
_SCALAR: _Shape = (str, int, float, bool, type(None))
_TEXTS: _Shape = {ANY: _TEXT}
_BUILD: _Shape = {
    "version": _TEXT,
    "origin": _TEXT,
    "configure": (list, type(None)),
    "compiler": _KNOWN_TEXT,
    "cflags": _KNOWN_TEXT,
    "pgbench": _KNOWN_TEXT,
}
_CELL: _Shape = {
    "levels": _TEXTS,
    "twin": (bool,),
    "asked": {
        "build": _BUILD,
        "client": _BUILD,
        "workload": {"script": (str, dict), "script_texts": _TEXTS, "cache": _TEXT, ANY: _SCALAR},
        "settings": {ANY: _SCALAR},
        "sql": [_TEXT],
        "checksums": (bool,),
    },
}
_SPECIFICATION: _Shape = {
    "experiment": _TEXT,
    "run_id": _TEXT,
    "benchkit": _TEXT,
    "rounds": (int,),
    "seed": (int,),
    "factors": {ANY: [_TEXT]},
    "baseline": _TEXTS,
    "cells": [_CELL],
    "order": [[(int,)]],
    "host": {"memory_bytes": (int, type(None)), ANY: _SCALAR},
}
_STOPPED: _Shape = {"rounds": (int,), "reason": _TEXT}
_TRIAL: _Shape = {
    "key": _TEXT,
    "levels": _TEXTS,
    "twin": (bool,),
    "round": (int,),
    "position": (int,),
    "status": _TEXT,
    "gates": [{"name": _TEXT, "message": _TEXT, "rejects": (bool,)}],
    "error": _TEXT,
    "asked": (dict,),
    "effective": _TEXTS,
    "result": (dict,),
    "counters": (dict,),
    "host": {ANY: (str, int, float, bool, type(None), dict)},
}
_NUMBER = (int, float)
_KNOWN_NUMBER = (int, float, type(None))
_CHECKPOINT: _Shape = {"began_s": _KNOWN_NUMBER, "ended_s": _KNOWN_NUMBER, "cause": _TEXT}
_SEARCH: _Shape = {
    "smallest_change": _NUMBER,
    "error": _NUMBER,
    "metric": _TEXT,
    "most_trials": (int,),
    "about": _TEXTS,
}
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def read_report(path: str | Path, *, search: bool = False) -> Record:
    """Read the run that an executed notebook carries.

    Nothing of the notebook is executed. If it carries several such runs, the last one counts.

    Parameters
    ----------
    path
        An ``.ipynb`` file.
    search
        Read a search (see `benchkit.bisect`), not an experiment.

    Returns
    -------
    Record
        In the notebook's directory: second-by-second series are there only if the notebook still
        lies in the directory of its run.

    Raises
    ------
    FormatError
        The file cannot be read, is larger than 512 MB, is no notebook, carries no run, or one
        that is of another format or damaged.
    """
    path = Path(path)
    carried = [item for item in _carried(_read_json(path)) if _is_search(item) == search]
    told = carried[-1] if carried else None
    if told is None:
        raise FormatError(
            f"{path} carries no run",
            evidence=f"no output of type {RUN_MIME}",
            advice="run the notebook to its end, and save it with its outputs",
        )
    try:
        json.dumps(told, ensure_ascii=False, allow_nan=False).encode()  # no NaN, no half characters
        _check(told, {"specification": (dict,), "trials": [_TRIAL]}, "run")
        _check_format(told["specification"])
        _check(told["specification"], _SPECIFICATION, "specification")
        _check_levels(told["specification"], told["trials"])
        stopped = told.get("stopped")
        _check({"stopped": stopped}, {"stopped": (dict, type(None))}, "run")
        _check(stopped or {"rounds": 1, "reason": ""}, _STOPPED, "stopped")
        _check_later(told["specification"], stopped or {}, told["trials"])
    except ValueError as error:
        raise FormatError(
            f"{path} carries a run that cannot be read",
            evidence=str(error),
            advice="read it with the benchkit version that wrote it, or run the notebook again",
        ) from error
    return Record(
        directory=path.absolute().parent,
        specification=told["specification"],
        entries=told["trials"],
        stopped=stopped,
    )


def _read_json(path: Path) -> Any:
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            problem = f"it has {show_bytes(size)}, {show_bytes(MOST_BYTES)} is the most"
            raise ValueError(problem)
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        advice = "give an executed notebook, a file *.ipynb"
        raise FormatError(
            f"{path} cannot be read as a notebook", evidence=str(error), advice=advice
        ) from error


def _carried(notebook: Any) -> Iterator[Any]:
    """Give what the outputs carry, in the order of the notebook; other things are passed over."""
    for cell in _list(notebook, "cells"):
        for output in _list(cell, "outputs"):
            data = output.get("data") if isinstance(output, dict) else None
            if isinstance(data, dict) and RUN_MIME in data:
                yield data[RUN_MIME]


def _is_search(told: Any) -> bool:
    specification = told.get("specification") if isinstance(told, dict) else None
    return isinstance(specification, dict) and bool(specification.get("search"))


def _list(owner: Any, name: str) -> list[Any]:
    found = owner.get(name) if isinstance(owner, dict) else None
    return found if isinstance(found, list) else []


def _check(value: Any, shape: _Shape, where: str) -> None:
    """Compare a value with a shape; ValueError names the place that differs."""
    if isinstance(shape, tuple):
        _check_type(value, shape, where)
    elif isinstance(shape, list):
        _check_type(value, (list,), where)
        for number, item in enumerate(value):
            _check(item, shape[0], f"{where}[{number}]")
    else:
        _check_type(value, (dict,), where)
        missing = shape.keys() - value.keys() - {ANY}
        if missing:
            raise ValueError(f"{where} lacks {', '.join(sorted(missing))}")
        for name, item in value.items():
            if name in shape or ANY in shape:
                _check(item, shape[name if name in shape else ANY], f"{where}.{name}")


def _check_later(
    specification: dict[str, Any], stopped: dict[str, Any], trials: list[dict[str, Any]]
) -> None:
    """Check the fields that only later versions wrote, where they are."""
    later: list[tuple[dict[str, Any], str, _Shape]] = [
        (specification, "sessions", (int,)),
        (specification, "search", _SEARCH),
        (stopped, "unbuilt", _TEXTS),
        *((trial, "checkpoints", [_CHECKPOINT]) for trial in trials),
        *((trial, "started_at", _NUMBER) for trial in trials),
    ]
    for owner, name, shape in later:
        if name in owner:
            _check(owner[name], shape, name)


def _check_type(value: Any, kinds: tuple[type, ...], where: str) -> None:
    if type(value) not in kinds:  # exactly: true is no number here
        wanted = " or ".join(_WORDS[kind] for kind in kinds)
        raise ValueError(f"{where} is {_WORDS[type(value)]}, not {wanted}")
    if type(value) is int and abs(value) >= 2**63:
        raise ValueError(f"{where} is too large a number")


def _check_format(specification: Mapping[str, Any]) -> None:
    found = specification.get("format")
    if found != FORMAT:
        raise ValueError(f"it has format {found!r}, this benchkit reads {FORMAT}")


def _check_levels(specification: Mapping[str, Any], trials: list[dict[str, Any]]) -> None:
    """Check what the fields must be to each other."""
    factors = specification["factors"]
    reserved = factors.keys() & RESERVED
    if reserved:
        raise ValueError(f"no factor can be called {', '.join(sorted(reserved))}")
    listed = [("cells", cell) for cell in specification["cells"]]
    for where, item in [*listed, *(("trials", trial) for trial in trials)]:
        levels = item["levels"]
        if levels.keys() != factors.keys() or any(levels[n] not in factors[n] for n in factors):
            raise ValueError(f"{where} have the levels {levels}, the factors are {factors}")
    for trial in trials:
        # A file's name is made of it.
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,80}", trial["key"]):
            raise ValueError(f"{trial['key'][:80]!r} is not the key of a trial")
    for cell in specification["cells"]:
        for role in ("build", "client"):
            flags = cell["asked"][role]["configure"] or []
            _check(flags, [_TEXT], f"configure flags of the {role}")
