"""Records of a wal_buffers experiment as two machines would make them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.experiment.ledger import FORMAT, Record

FACTORS = {"wal_buffers": ["1MB", "512kB"], "scale": ["1", "10"]}
BUILD = {
    "version": "18.6",
    "origin": "path",
    "configure": ["--prefix=/opt/pg", "--with-icu", "CFLAGS=-O2"],
    "compiler": "gcc",
    "cflags": "-O2 -ffile-prefix-map=/build=.",
    "pgbench": "18.6",
    "assertions": False,
}
HOST = {
    "hostname": "one",
    "cpu_model": "Opteron",
    "machine": "x86_64",
    "usable_cores": 1,
    "memory_bytes": 2_000_000_000,
    "hypervisor": True,
    "filesystem_type": "ext4",
    "filesystem_device": "/dev/vda1",
    "os_name": "Debian GNU/Linux",
    "os_version": "12",
    "kernel": "Linux 6.1",
    "boot_id": "boot-1",
}
OTHER = {
    "hostname": "two",
    "os_name": "Ubuntu",
    "os_version": "24.04",
    "boot_id": "boot-2",
    "filesystem_device": "/dev/vdb",
    "memory_bytes": 2_060_000_000,
}
VALUES = (90.0, 100.0, 101.0, 103.0, 250.0)


def _cell(levels: Mapping[str, str], twin: bool) -> dict[str, Any]:
    workload = {
        "script": "tpcb-like",
        "script_texts": {},
        "cache": "cloned",
        "clients": 4,
        "duration_s": 10,
    }
    asked = {
        "build": BUILD,
        "client": BUILD,
        "workload": workload | {"scale": int(levels["scale"])},
        "settings": {"wal_buffers": levels["wal_buffers"]},
        "sql": [],
        "checksums": False,
    }
    return {"levels": levels, "twin": twin, "notes": [], "asked": asked}


def _trial(cell: Mapping[str, Any], key: str, number: int, tps: float) -> dict[str, Any]:
    return {
        "key": key,
        "levels": cell["levels"],
        "twin": cell["twin"],
        "round": number,
        "position": 1,
        "status": "usable",
        "gates": [],
        "error": "",
        "asked": cell["asked"],
        "effective": cell["asked"]["settings"] | {"TimeZone": "UTC", "ssl_cert_file": "/a"},
        "result": {"comparable_tps": tps, "transactions": 100},
        "counters": {},
        "host": {"boot_id": "boot-1"},
    }


def _share(cell: Mapping[str, Any], number: int, twin_pct: float) -> float:
    above_pct = twin_pct * number if twin_pct else (-1) ** number
    return 1 + above_pct / 100 if cell["twin"] else 1.0


def machine(
    directory: Path = Path("/nowhere"),
    *,
    host: Mapping[str, Any] | None = None,
    factor: float = 1.0,
    values: Sequence[float] = VALUES,
    twin_pct: float = 0.0,
) -> Record:
    """Make one machine's record: every cell has the same values, times a factor.

    The twin is `twin_pct` of the round's number above the baseline; with 0 it lies about it.
    """
    levels = [{"wal_buffers": w, "scale": s} for w in FACTORS["wal_buffers"] for s in ("1", "10")]
    cells = [*(_cell(item, twin=False) for item in levels), _cell(levels[0], twin=True)]
    trials = [
        _trial(cell, f"{place}-{number}", number, tps * factor * _share(cell, number, twin_pct))
        for place, cell in enumerate(cells)
        for number, tps in enumerate(values, 1)
    ]
    trials.append(_trial(cells[0], "bad", len(values) + 1, 1.0) | {"status": "rejected"})
    for trial in trials if host else []:
        trial["host"] = {"boot_id": (host or {}).get("boot_id")}
    specification = {
        "format": FORMAT,
        "experiment": "os_comparison",
        "run_id": "r1",
        "benchkit": "0",
        "rounds": len(values),
        "seed": 7,
        "factors": FACTORS,
        "baseline": levels[0],
        "cells": cells,
        "order": [list(range(len(cells)))] * len(values),
        "host": HOST | dict(host or {}),
    }
    plain = json.loads(json.dumps({"specification": specification, "trials": trials}))
    return Record(
        directory=directory, specification=plain["specification"], entries=plain["trials"]
    )
