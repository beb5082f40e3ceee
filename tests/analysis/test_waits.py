"""Time in wait events, from trials with known numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.analysis.results import Results
from benchkit.analysis.waits import labelled_cells, waits
from benchkit.errors import InputError
from benchkit.experiment.ledger import Record

Events = dict[str, int]


def entry(clients: str, events: Events | None, **changes: Any) -> dict[str, Any]:
    """A run of 10 s with 1,000 transactions and 10 looks: a session seen once is 1 ms."""
    looks = 10 if events is not None else 0
    return {
        "levels": {"clients": clients, "script": "tpcb-like"},
        "twin": False,
        "status": "usable",
        "result": {"transactions": 1000, "wall_s": 10.0},
        "waits": {"looks": looks, "events": events},
    } | changes


def results(*entries: dict[str, Any]) -> Results:
    clients = list(dict.fromkeys(item["levels"]["clients"] for item in entries))
    cells = [{"levels": {"clients": n, "script": "tpcb-like"}, "twin": False} for n in clients]
    specification = {
        "factors": {"clients": clients, "script": ["tpcb-like"]},
        "baseline": {"clients": clients[0], "script": "tpcb-like"},
        "cells": cells,
    }
    return Results(
        Record(directory=Path("/nowhere"), specification=specification, entries=list(entries))
    )


def test_time_per_transaction_is_averaged_over_usable_trials() -> None:
    rejected = entry("8", {"CPU": 1000}, status="rejected")
    twin = entry("8", {"CPU": 1000}, twin=True)
    unsampled = entry("8", None)
    failed = entry("8", None, status="failed", result={})
    found = waits(
        results(
            entry("16", {"CPU": 20, "Lock:tuple": 30}),
            entry("8", {"CPU": 10, "Lock:tuple": 4}),
            entry("8", {"CPU": 30}),
            *(rejected, twin, unsampled, failed),
        )
    )
    assert list(found.columns) == ["8", "16"]
    assert found.to_dict() == {
        "8": {"CPU": 20.0, "Lock:tuple": 2.0},
        "16": {"CPU": 20.0, "Lock:tuple": 30.0},
    }
    assert found.index.name == "event"


def test_the_smaller_ones_are_together_as_other() -> None:
    events = {"CPU": 9, "IO:WalSync": 8, "Lock:tuple": 2, "LWLock:A": 1, "LWLock:unseen": 0}
    found = waits(results(entry("8", events)), most=2)
    assert found["the cell"].to_dict() == {"CPU": 9.0, "IO:WalSync": 8.0, "other": 3.0}
    assert list(waits(results(entry("8", events)), most=4).index)[-1] == "LWLock:A"


def test_what_a_server_does_not_tell_is_missing_and_not_0() -> None:
    found = waits(
        results(
            entry("1", {"CPU": 5, "IO:WalSync": 5}),
            entry("2", {"CPU or untold": 7, "Lock": 3}),  # 9.5
            entry("3", None),
            entry("4", {"CPU": 1}),
        )
    )
    assert found["1"].dropna().to_dict() == {"CPU": 5.0, "IO:WalSync": 5.0}
    assert found["2"].dropna().to_dict() == {"CPU or untold": 7.0, "Lock": 3.0}
    assert found["3"].isna().all()
    assert found["4"].dropna().to_dict() == {"CPU": 1.0, "IO:WalSync": 0.0}


def test_records_of_before_have_no_waits() -> None:
    old = entry("8", None)
    del old["waits"]
    found = waits(results(old, entry("9", {"CPU": 1})))
    assert found["8"].isna().all()


def test_cells_are_called_by_what_tells_them_apart() -> None:
    two = results(entry("16", {}), entry("8", {}))
    assert list(labelled_cells(two)) == ["8", "16"]
    assert labelled_cells(two, clients=16) == {"the cell": {"clients": "16", "script": "tpcb-like"}}
    with pytest.raises(InputError, match="unknown level"):
        waits(two, clients=7)


def test_an_event_that_versions_spell_differently_is_one_row() -> None:
    older, newer = entry("1", {"IO:WALSync": 4}), entry("2", {"IO:WalSync": 2})
    found = waits(results(older, newer))
    assert found.to_dict() == {"1": {"IO:WalSync": 4.0}, "2": {"IO:WalSync": 2.0}}
