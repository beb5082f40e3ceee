"""The place of a change, believed from noisy blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchkit.analysis.changepoint import ChangePoint
from benchmarks.searches import search
from benchmarks.verdicts import NOISE

CHANGE = math.log(0.9)


def even(count: int = 400) -> np.ndarray:
    """A machine without noise worth the name."""
    return np.random.default_rng(1).normal(0, 0.001, count)


def test_before_anything_is_measured_half_is_for_nothing() -> None:
    belief = ChangePoint(5, smallest_change=0.05)
    assert belief.probabilities.tolist() == pytest.approx([0.5, 0.125, 0.125, 0.125, 0.125])
    # Between what is and what is not: the other end is in the first block.
    assert belief.next_block() == [0, 3, 4]


@pytest.mark.parametrize("first", [1, 2, 17, 62, 63])
def test_on_a_quiet_machine_every_place_is_found_in_few_trials(first: int) -> None:
    answer, trials = search(even(), first, np.random.default_rng(2))
    assert answer == first
    assert trials <= 36


def test_on_a_quiet_machine_nothing_is_found_where_nothing_is() -> None:
    answer, trials = search(even(), None, np.random.default_rng(2))
    assert answer == 0
    assert trials <= 24


def test_the_size_of_the_change_is_estimated() -> None:
    belief = ChangePoint(4, smallest_change=0.05)
    noise = np.random.default_rng(3).normal(0, 0.01, (20, 3))
    for row in noise:
        belief.add({0: 7 + row[0], 1: 7 + row[1], 2: 7 + CHANGE + row[2]})
    assert belief.probabilities.argmax() == 2
    value, low, high = belief.change(2)
    assert value is not None
    assert low is not None
    assert high is not None
    assert low < 0.9 < high
    assert value == pytest.approx(0.9, abs=0.01)
    assert high - low < 0.03


@pytest.mark.parametrize("ratio", [0.01, 0.05, 0.2, 8.0])
def test_a_change_by_orders_of_magnitude_keeps_its_size(ratio: float) -> None:
    belief = ChangePoint(3, smallest_change=0.05)
    for row in np.random.default_rng(3).normal(0, 0.03, (6, 3)):
        belief.add({0: row[0], 1: row[1], 2: math.log(ratio) + row[2]})
    assert belief.settled(0.05)
    assert belief.probabilities.argmax() == 2
    value, low, high = belief.change(2)
    assert value == pytest.approx(ratio, rel=0.05)
    assert low is not None
    assert high is not None
    assert low < ratio < high


def test_what_the_host_does_to_a_whole_block_is_no_change() -> None:
    belief = ChangePoint(3, smallest_change=0.05)
    for level in (5.0, 7.0, 6.0, 9.0, 8.0, 5.5):
        belief.add({0: level, 1: level + 0.002, 2: level - 0.001})
    assert belief.probabilities[0] > 0.95


def test_one_trial_gone_wrong_does_not_decide() -> None:
    belief = ChangePoint(3, smallest_change=0.05)
    noise = np.random.default_rng(4).normal(0, 0.01, (8, 3))
    for row in noise:
        belief.add(dict(enumerate(row.tolist())))
    before = belief.probabilities[0]
    belief.add({0: 0.0, 1: 0.0, 2: math.log(0.5)})
    assert before > 0.95
    assert belief.probabilities[0] > 0.9


def test_a_block_without_the_good_end_says_something_and_one_trial_says_nothing() -> None:
    belief = ChangePoint(3, smallest_change=0.05)
    start = belief.probabilities.copy()
    belief.add({1: 5.0})
    belief.add({})
    assert belief.probabilities.tolist() == start.tolist()
    for _ in range(6):
        belief.add({1: 5.0, 2: 5.0 + CHANGE})
    assert belief.probabilities.argmax() == 2


def test_places_that_cannot_be_measured_are_stood_for_by_the_next() -> None:
    belief = ChangePoint(6, smallest_change=0.05, missing=[2, 3])
    assert belief.probabilities.tolist() == pytest.approx([0.5, 0.1, 0, 0, 0.3, 0.1])
    for _ in range(8):
        belief.add({0: 0.0, 1: 0.001, 2: 9.9, 4: CHANGE, 5: CHANGE})
    assert belief.likeliest(0.95) == [4]
    assert not {2, 3} & set(belief.next_block())


def test_two_places_are_one_pair() -> None:
    assert ChangePoint(2, smallest_change=0.05).next_block() == [0, 1]


def test_the_likeliest_places_hold_the_probability_asked_for() -> None:
    belief = ChangePoint(5, smallest_change=0.05)
    assert belief.likeliest(0.4) == [0]
    assert belief.likeliest(0.6) == [0, 1]
    assert belief.likeliest(1.0) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_of_a_hundred_searches_ninety_five_are_right() -> None:
    generator = np.random.default_rng(20261201)
    levels = NOISE["independent, normal"](generator, 100, 400) * (0.05 / 0.19)
    wrong, trials = 0, []
    for row in levels:
        first = int(generator.integers(1, 64))
        answer, used = search(row, first, generator)
        wrong += answer != first
        trials.append(used)
    assert wrong <= 5
    # A quarter of six rounds of all builds, which are right as often (benchmarks/searches.py).
    assert np.mean(trials) <= 64 * 6 / 4
