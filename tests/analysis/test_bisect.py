"""What a search's record says, and what is to be measured next."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchkit.analysis.bisect import FirstChange, Found
from benchkit.errors import InputError
from benchkit.experiment.ledger import Record

LABELS = ["a", "b", "c", "d", "e"]


def entry(label: str, number: int, tps: float, **changes: Any) -> dict[str, Any]:
    return {
        "key": f"{label}-{number}",
        "levels": {"candidate": label},
        "twin": False,
        "round": number,
        "position": 1,
        "status": "usable",
        "gates": [],
        "error": "",
        "result": {"comparable_tps": tps},
        "counters": {},
    } | changes


def searched(
    blocks: Sequence[dict[str, float]],
    *more: dict[str, Any],
    stopped: dict[str, Any] | None = None,
    labels: Sequence[str] = LABELS,
) -> Record:
    """A record of rounds, each with the throughput of some candidates."""
    entries = [
        entry(label, number, tps)
        for number, block in enumerate(blocks, 1)
        for label, tps in block.items()
    ]
    specification = {
        "factors": {"candidate": list(labels)},
        "search": dict(FirstChange().describe()) | {"most_trials": 100, "about": {"d": "Slow"}},
    }
    return Record(
        directory=Path("/nowhere"),
        specification=specification,
        entries=[*entries, *more],
        stopped=stopped,
    )


CHANGED_AT_D = [{"a": 1000.0 + n, "c": 1001.0, "d": 900.0 + n, "e": 901.0} for n in range(12)]


def test_every_fault_of_a_rule_at_once() -> None:
    with pytest.raises(InputError) as caught:
        FirstChange(smallest_change=5, error=0, metric="tsp")
    assert [fault.where for fault in caught.value.faults] == ["smallest_change", "error", "metric"]


def test_the_first_round_measures_the_ends() -> None:
    labels, reason = FirstChange().next_round(searched([]), {})
    assert (labels[0], labels[-1], reason) == ("a", "e", "")


def test_it_goes_on_until_the_answer_is_known() -> None:
    labels, _ = FirstChange().next_round(searched(CHANGED_AT_D[:1]), {})
    assert "a" in labels
    labels, reason = FirstChange().next_round(searched(CHANGED_AT_D), {})
    assert labels == []
    assert reason == "the answer is known, with an error of at most 5 %"


def test_what_was_found() -> None:
    found = Found(searched(CHANGED_AT_D, stopped={"rounds": 12, "reason": "known"}))
    assert found.decided
    assert (found.first, found.before) == ("d", ["c"])
    assert found.change.value == pytest.approx(0.9, abs=0.005)
    frame = found.frame()
    assert frame["candidate"].tolist() == ["a", "c", "d", "e"]
    assert frame["trials"].tolist() == [12] * 4
    assert frame["ratio"].tolist() == pytest.approx([1, 1, 0.9, 0.9], abs=0.01)
    assert frame["probability"].iloc[2] > 0.95


def test_nothing_changed_is_an_answer_too() -> None:
    same = [{"a": 1000.0 + n, "c": 1000.0, "e": 1000.0 + n} for n in range(12)]
    found = Found(searched(same))
    assert found.nothing_changed
    assert (found.first, found.before, found.change.value) == (None, [], None)


def test_undecided_names_what_is_left() -> None:
    found = Found(searched(CHANGED_AT_D[:1]))
    assert not found.decided
    assert found.first is None
    assert {"c", "d"} & set(found.among)


def test_what_fails_twice_is_left_out_and_named() -> None:
    closed = {
        "status": "rejected",
        "gates": [{"name": "server", "rejects": True, "message": "went down"}],
    }
    bad = [entry("c", number, 1.0, **closed) for number in (20, 21)]
    blocks = [{"a": 1000.0 + n, "b": 1000.0, "d": 900.0 + n, "e": 900.0} for n in range(12)]
    assert "c" in Found(searched(blocks, bad[0])).labels
    assert Found(searched(blocks, bad[0])).left_out == {}
    found = Found(searched(blocks, *bad))
    assert found.left_out == {"c": "2 trials, none usable: went down"}
    assert (found.first, found.before) == ("d", ["b", "c"])
    labels, _ = FirstChange().next_round(searched(blocks[:2], *bad), {"b": "no compiler"})
    assert not {"b", "c"} & set(labels)


def test_an_end_that_cannot_be_measured_ends_the_search() -> None:
    labels, reason = FirstChange().next_round(searched([]), {"e": "no compiler"})
    assert labels == []
    assert reason == "e, an end of the list, cannot be measured: no compiler"


def test_a_measure_that_is_nothing_is_no_measure() -> None:
    record = searched([{"a": 0.0, "e": 5.0}, {"a": 0.0, "e": 5.0}])
    labels, reason = FirstChange().next_round(record, {})
    assert labels == []
    assert reason.endswith("2 trials, none usable: throughput was 0 or not counted")


def test_a_run_that_is_no_search_is_refused() -> None:
    record = searched([])
    experiment = dataclasses.replace(record, specification={"factors": {}})
    with pytest.raises(InputError, match="fault") as caught:
        Found(experiment)
    assert "no search" in str(caught.value)


def test_rounds_that_lack_a_trial_count_with_what_they_have() -> None:
    blocks = [dict(block) for block in CHANGED_AT_D]
    for number, label in [(2, "a"), (5, "c"), (7, "d")]:
        del blocks[number][label]
    found = Found(searched(blocks, entry("d", 8, 9e9, status="rejected")))
    assert found.first == "d"
    assert found.frame()["trials"].tolist() == [11, 11, 11, 12]
