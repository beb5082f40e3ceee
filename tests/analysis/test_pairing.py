"""Values paired by round, and rounds by session."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from benchkit.analysis.pairing import paired
from benchkit.analysis.results import Results
from benchkit.analysis.verdicts import judge
from tests.analysis.test_results import BUILDS, NEW, OLD, record, series_of


def by_threes(number: int) -> int:
    return (number - 1) // 3 + 1


def test_rounds_of_a_session_count_as_one() -> None:
    old = dict.fromkeys(range(1, 10), 100.0)
    ratios = [1.1, 1.2, 1.3, 1.0, 1.1, 1.05, 1.4, 1.3, 1.2]
    new = {number: 100.0 * ratio for number, ratio in enumerate(ratios, 1)}
    by_session = paired(new, old, session_of=by_threes)
    means = [math.exp(np.mean(np.log(ratios[at : at + 3]))) for at in (0, 3, 6)]
    expected = paired(dict(enumerate(means)), dict.fromkeys(range(3), 1.0))
    assert (by_session.rounds, by_session.unit, by_session.dropped) == (3, "session", 0)
    assert by_session.ratio == pytest.approx(expected.ratio)
    assert by_session.low == pytest.approx(expected.low)
    assert paired(new, old).unit == "round"


def test_a_round_that_is_missing_leaves_the_rest_of_its_session() -> None:
    new = {1: 110.0, 2: 120.0, 4: 110.0, 7: 110.0}
    old = {1: 100.0, 4: 100.0, 5: 100.0, 7: 100.0}
    found = paired(new, old, session_of=by_threes)
    assert found.ratio == pytest.approx(1.1)
    assert (found.dropped, found.rounds) == (2, 3)


def test_two_sessions_are_not_enough_and_it_says_so() -> None:
    new = dict.fromkeys(range(1, 7), 110.0)
    found = paired(new, dict.fromkeys(range(1, 7), 100.0), session_of=by_threes)
    assert judge(found).text == "not judged: 2 of the 3 sessions needed"


def test_results_know_the_sessions_of_a_run() -> None:
    values = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]
    entries = [*series_of(OLD, values), *series_of(NEW, [1.1 * v for v in values])]
    made = record(BUILDS, entries)
    sessions = {"sessions": 3, "rounds": 6}
    made = dataclasses.replace(made, specification={**made.specification, **sessions})
    found = Results(made).ratio("build", "new", "old")
    assert (found.rounds, found.unit) == (3, "session")


@pytest.mark.slow
def test_what_a_load_does_is_noise_only_over_sessions() -> None:
    # Each session's load shifts one of the sides by 5 %: rounds alone take that for a difference.
    generator = np.random.default_rng(5)
    alarms = {"round": 0, "session": 0}
    for _ in range(1000):
        load = np.repeat(generator.normal(0, 0.05, 4), 5)
        new = dict(enumerate(np.exp(load + generator.normal(0, 0.02, 20)).tolist(), 1))
        old = dict.fromkeys(range(1, 21), 1.0)
        alarms["round"] += paired(new, old).differs
        alarms["session"] += paired(new, old, session_of=lambda n: (n - 1) // 5).differs
    assert alarms["session"] <= 65
    assert alarms["round"] > 300
