"""Rounds are added until enough is known, with looks that are planned before."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from benchkit.analysis.results import Results
from benchkit.analysis.stopping import Until, planned_looks
from benchkit.errors import InputError
from benchkit.experiment.ledger import Record
from tests.analysis.test_results import NEW, OLD, record, series_of

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1]
TWIN = [100.3, 100.8, 99.2, 100.1, 99.9, 100.0, 100.1, 99.9]
WILD = [60.0, 170.0, 90.0, 120.0, 200.0, 75.0, 110.0, 140.0]


def measured(new: Sequence[float], rounds: int = 40) -> Record:
    count = len(new)
    entries = [
        *series_of(OLD, STEADY[:count]),
        *series_of(OLD, TWIN[:count], twin=True),
        *series_of(NEW, new),
    ]
    made = record({"build": ["old", "new"]}, entries)
    order = {"order": [[0, 1, 2]] * rounds}
    return dataclasses.replace(made, specification={**made.specification, **order})


@pytest.mark.parametrize(
    ("rounds", "looks"),
    [
        (1, [1]),
        (4, [4]),
        (5, [5]),
        (6, [5, 6]),
        (10, [5, 8, 10]),
        (40, [5, 8, 12, 18, 27, 40]),
    ],
)
def test_looks_are_planned_and_end_with_the_last_round(rounds: int, looks: list[int]) -> None:
    assert planned_looks(rounds) == looks


def test_a_clear_difference_ends_at_a_look_and_only_there() -> None:
    rule = Until(precision=0.05)
    faster = [1.3 * value for value in STEADY]
    for count in (3, 4, 6, 7):
        assert rule.reason_to_stop(measured(faster[:count]), count, 0) == ""
    for count in (5, 8):
        assert "decided to 5 %" in rule.reason_to_stop(measured(faster[:count]), count, 0)


def test_no_difference_is_a_decision_too_if_it_is_as_precise_as_asked() -> None:
    same = measured([value * 1.001 for value in TWIN[:5]])
    assert Until(precision=0.05).reason_to_stop(same, 5, 0)
    assert Until(precision=0.001).reason_to_stop(same, 5, 0) == ""


def test_what_is_undecided_goes_on_until_the_time_is_up() -> None:
    noisy = measured(WILD[:5])
    assert Until().reason_to_stop(noisy, 5, 1e9) == ""
    rule = Until(time_budget_s=60)
    assert rule.reason_to_stop(noisy, 5, 59) == ""
    assert rule.reason_to_stop(noisy, 4, 60) == "the time budget of 60 s was spent"


def test_the_error_is_shared_among_the_looks() -> None:
    made = measured(WILD)
    plain = Results(made)
    rule = {"until": dict(Until().describe(40))}
    planned = Results(dataclasses.replace(made, specification={**made.specification, **rule}))
    assert plain.confidence == 0.95
    assert planned.confidence == pytest.approx(1 - 0.05 / 6)
    narrow, wide = (results.ratio("build", "new", "old") for results in (plain, planned))
    assert narrow.ratio == wide.ratio
    assert narrow.low is not None
    assert wide.low is not None
    assert wide.low < narrow.low


def test_every_fault_of_a_rule_at_once() -> None:
    with pytest.raises(InputError) as caught:
        Until(precision=5, time_budget_s=-1, metric="tsp")
    assert [fault.where for fault in caught.value.faults] == [
        "precision",
        "time_budget_s",
        "metric",
    ]
