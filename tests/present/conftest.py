"""A run's record with known numbers, as it would stand on disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchkit.analysis.results import Results
from benchkit.experiment.ledger import Record

NASTY = "<script>alert('x')</script>"
TPS = {"HOT": [1100.0, 1210.0, 990.0], "not HOT": [1000.0, 1100.0, 900.0]}


def alt(bundle: dict[str, Any]) -> str:
    """The text alternative of a figure that was shown."""
    found = re.search(r'alt="([^"]*)"', bundle["text/html"])
    assert found is not None
    return found[1]


def entry(level: str, number: int, tps: float, *, twin: bool = False) -> dict[str, Any]:
    """One usable trial, with the fields that the presenters read."""
    table = {"n_tup_upd": 1000, "n_tup_hot_upd": 950 if level == "HOT" else 0}
    dead = {"n_dead_tup": {"before": 0, "after": 50}}
    build = {
        "version": "18.6",
        "origin": NASTY,
        "configure": ["--a"],
        "compiler": "gcc",
        "cflags": "-O2",
    }
    workload = {"threads": 1, "cache": "cloned"}
    return {
        "key": f"{level}-{number}-{twin}",
        "levels": {"updates": level, "note": NASTY},
        "twin": twin,
        "round": number,
        "position": 1,
        "status": "usable",
        "gates": [],
        "error": "",
        "asked": {"build": build, "client": build | {"pgbench": "18.6"}, "workload": workload},
        "effective": {"shared_buffers": "128MB"},
        "result": {
            "comparable_tps": tps,
            "latency_average_ms": 4000 / tps,
            "transactions": 3000,
            "wall_s": 3.0,
            "client_cpu_s": 0.6,
        },
        "counters": {
            "tables": {f"pgbench_{noun}": table | dead for noun in ("branches", "accounts")},
            "wal": {"bytes": 3_000_000, "full_page_images": None},
        },
    }


def rejected(level: str, number: int) -> dict[str, Any]:
    """A trial that a gate rejected, with a hostile reason."""
    gate = {"name": "exit code", "rejects": True, "message": NASTY}
    return entry(level, number, 5.0) | {"status": "rejected", "gates": [gate], "key": "bad"}


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Two cells and the twin over three rounds, one rejected trial more."""
    entries = [
        entry(level, number, tps)
        for level, values in TPS.items()
        for number, tps in enumerate(values, 1)
    ]
    entries += [entry("not HOT", n, tps + 5, twin=True) for n, tps in enumerate(TPS["not HOT"], 1)]
    entries.append(rejected("HOT", 4))
    cells = [
        {
            "levels": {"updates": level, "note": NASTY},
            "twin": twin,
            "notes": [],
            "asked": entry(level, 1, 1.0)["asked"] | {"settings": {"shared_buffers": "128MB"}},
        }
        for level, twin in (("HOT", False), ("not HOT", False), ("not HOT", True))
    ]
    specification = {
        "experiment": "test",
        "run_id": "r1",
        "benchkit": "0",
        "rounds": 4,
        "seed": 7,
        "factors": {"updates": ["HOT", "not HOT"], "note": [NASTY]},
        "baseline": {"updates": "not HOT"},
        "cells": cells,
        "order": [[0, 1, 2]] * 4,
        "host": {"memory_bytes": 1024**3, "cpu_model": NASTY},
    }
    (tmp_path / "series").mkdir()
    for item in entries:
        seconds = pd.DataFrame({"time_s": [2.0, 4.0, 6.0, 8.0]})
        tps = item["result"]["comparable_tps"]
        seconds["tps"] = [tps, tps * 0.99, tps * 0.98, tps * 0.97]
        seconds.to_parquet(tmp_path / "series" / f"{item['key']}.parquet")
    return Record(directory=tmp_path, specification=specification, entries=entries)


@pytest.fixture
def results(record: Record) -> Results:
    """The same as results."""
    return Results(record)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was displayed, as MIME bundles, in order."""
    bundles: list[dict[str, Any]] = []

    def keep(data: dict[str, Any], *_: Any, **__: Any) -> None:
        bundles.append(data)

    monkeypatch.setattr("IPython.display.display", keep)
    return bundles
