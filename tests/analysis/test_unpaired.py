"""Unpaired ratios and trimmed means: known numbers, and their coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchkit.analysis.claims import Claim, claims_table
from benchkit.analysis.unpaired import (
    trimmed_interval,
    trimmed_t_interval,
    unpaired_ratio,
    welch_interval,
)
from benchkit.analysis.verdicts import judge
from benchkit.errors import InputError

SETS = 40_000


def test_it_is_welchs_test_on_logarithms() -> None:
    from scipy.stats import ttest_ind

    above, below = [110.0, 120, 100, 130, 111], [100.0, 99, 101, 100]
    found = unpaired_ratio([*above, None, -1.0], below)
    known = ttest_ind(np.log(above), np.log(below), equal_var=False)
    low, high = known.confidence_interval(0.95)
    assert found.p_value == pytest.approx(known.pvalue)
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert (found.rounds, found.dropped) == (4, 2)


def test_order_does_not_matter_and_the_other_way_round_is_the_inverse() -> None:
    above, below = [3.0, 1, 2, 7], [5.0, 4, 6]
    one, other = unpaired_ratio(above, below), unpaired_ratio(below[::-1], above)
    assert one.ratio is not None
    assert one.low is not None
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert other.high == pytest.approx(1 / one.low)


def test_fewer_than_three_values_on_a_side_give_no_interval() -> None:
    found = unpaired_ratio([2.0] * 9, [1.0, 1.0])
    assert (found.ratio, found.low, found.p_value) == (2.0, None, None)
    assert judge(found).text == "not judged: 2 of the 3 rounds needed"
    assert unpaired_ratio([], [1.0]).ratio is None


def test_values_without_a_spread_are_known_exactly() -> None:
    same = unpaired_ratio([5.0] * 3, [5.0] * 4)
    assert (same.ratio, same.low, same.high, same.p_value) == (1, 1, 1, 1)
    assert unpaired_ratio([6.0] * 3, [5.0] * 3).p_value == 0


def test_an_interval_made_anew_among_claims_is_never_narrower() -> None:
    above, below = [100.0, 101, 99, 100], [70.0, 90, 50, 110, 88]
    found = unpaired_ratio(above, below)
    assert found.low is not None
    # A bound just inside the interval's end: alone it is not confirmed, nor among others.
    claims = [Claim("more", "", found, at_least=found.low * 1.0001)] * 2
    assert claims_table(claims, twin=None)["Verdict"].tolist() == ["undecided"] * 2
    pairs = unpaired_ratio([100.0, 110, 120], [100.0, 105, 99])
    spreads = [np.log([100, 110, 120]).var(ddof=1), np.log([100, 105, 99]).var(ddof=1)]
    assert pairs.log_sd == pytest.approx(math.sqrt(sum(spreads)))


def test_a_confidence_of_95_is_an_input_error() -> None:
    with pytest.raises(InputError, match="confidence"):
        unpaired_ratio([1.0, 2, 3], [1.0, 2, 3], confidence=95)


def test_highest_and_lowest_are_dropped() -> None:
    assert trimmed_interval([7.0, 1, 1000, 5, None]).value == 6
    assert trimmed_interval([3.0, 1, 2]).value == 2
    assert trimmed_interval([3.0, 1]).value is None
    assert trimmed_interval([3.0, 1, 2]).low is None


def test_the_interval_takes_account_of_what_was_dropped() -> None:
    # By hand: 3, 3, 4, 5, 6, 7, 7 winsorised: squares 18; error = sqrt(18 / 20); t(4) = 2.7764.
    interval = trimmed_interval([1.0, 3, 4, 5, 6, 7, 99])
    assert interval.value == 5
    assert interval.high == pytest.approx(5 + 2.776445105 * math.sqrt(18 / 20))


@pytest.mark.parametrize("spread", [0.03, 0.1])
def test_coverage_of_the_trimmed_mean_at_seven_values(spread: float) -> None:
    samples = np.exp(np.random.default_rng(5).normal(0, spread, (SETS, 7)))
    mean, half_width = trimmed_t_interval(samples)
    assert np.mean(np.abs(mean - mean.mean()) <= half_width) >= 0.94


@pytest.mark.parametrize(("others", "times"), [(7, 1.0), (7, 3.0), (12, 0.3)])
def test_coverage_of_the_unpaired_ratio(others: int, times: float) -> None:
    generator = np.random.default_rng(6)
    above = generator.normal(0.5, 0.05, (SETS, 7))
    below = generator.normal(0.2, 0.05 * times, (SETS, others))
    shift, half_width, p_value = welch_interval(above, below)
    assert np.mean(np.abs(shift - 0.3) <= half_width) >= 0.94
    alike = welch_interval(above - 0.3, below)[2]
    assert np.mean(alike < 0.05) <= 0.06
    assert p_value.shape == (SETS,)
