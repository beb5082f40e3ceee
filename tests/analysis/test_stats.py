"""The numbers are checked by closed formulas and tables, the claims by simulation."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from benchkit.analysis.stats import (
    Estimate,
    Values,
    drift_per_minute,
    format_percent,
    format_ratio,
    holm,
    mean_interval,
    paired_ratio,
    rounds_needed,
    t_interval,
)
from benchkit.analysis.verdicts import judge
from benchkit.errors import InputError

T_2 = 4.302652729911275  # quantiles 0.975 of Student's t, from a table
T_4 = 2.776445105197793
NAN, INFINITY = math.nan, math.inf
VERDICTS = Path(__file__).parents[2] / "benchmarks" / "verdicts.py"


def estimate(
    ratio: float, low: float | None, high: float | None, p_value: float | None = 0.01
) -> Estimate:
    return Estimate(
        ratio=ratio,
        low=low,
        high=high,
        confidence=0.95,
        rounds=5,
        dropped=0,
        p_value=p_value,
        log_sd=0.1,
    )


def noise(kind: str, generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Log tps, a row for each experiment, its trials in the order of time."""
    levels = generator.normal(0, 0.19, shape)
    if kind == "autocorrelated":
        for trial in range(1, shape[1]):
            levels[:, trial] *= math.sqrt(1 - 0.61**2)
            levels[:, trial] += 0.61 * levels[:, trial - 1]
    if kind == "slow outliers":
        levels[generator.random(shape) < 0.05] += math.log(0.5)
    if kind == "drift":
        levels -= 0.02 * np.arange(shape[1])
    return levels


def shuffled(
    kind: str, generator: np.random.Generator, experiments: int, rounds: int, cells: int = 2
) -> NDArray[np.float64]:
    """Log tps of complete rounds in random order, shape (experiments, rounds, cells)."""
    levels = noise(kind, generator, (experiments, rounds * cells))
    return generator.permuted(levels.reshape(experiments, rounds, cells), axis=-1)


def at_most(share: float, repeats: int) -> float:
    """Return `share` plus three standard errors of a simulation."""
    return share + 3 * math.sqrt(share * (1 - share) / repeats)


KINDS = ("independent", "autocorrelated", "slow outliers", "drift")


class TestPairedRatio:
    def test_three_rounds_by_hand(self) -> None:
        # Log ratios 1, 2 and 3 times log 2: mean 2, standard deviation 1, t = 2 sqrt(3).
        found = paired_ratio([20, 40, 80], [10, 10, 10])
        assert found.ratio == pytest.approx(4)
        assert found.low == pytest.approx(2 ** (2 - T_2 / math.sqrt(3)))
        assert found.high == pytest.approx(2 ** (2 + T_2 / math.sqrt(3)))
        # With 2 degrees of freedom the two-sided p-value is 1 - t / sqrt(2 + t^2).
        assert found.p_value == pytest.approx(1 - math.sqrt(12 / 14))
        assert found.log_sd == pytest.approx(math.log(2))
        assert (found.rounds, found.dropped, found.confidence) == (3, 0, 0.95)
        assert not found.differs

    def test_five_rounds_against_the_table(self) -> None:
        found = paired_ratio([math.exp(x) for x in (0.1, 0.2, 0.3, 0.4, 0.5)], [1.0] * 5)
        half_width = T_4 * math.sqrt(0.025) / math.sqrt(5)
        assert found.low == pytest.approx(math.exp(0.3 - half_width))
        assert found.differs

    def test_other_confidence(self) -> None:
        # With 2 degrees of freedom the quantile q is (2q - 1) sqrt(2 / (4q (1 - q))).
        found = paired_ratio([2, 4, 8], [1, 1, 1], confidence=0.9)
        quantile = 0.9 * math.sqrt(2 / (4 * 0.95 * 0.05))
        assert found.high == pytest.approx(2 ** (2 + quantile / math.sqrt(3)))

    def test_swapping_the_sides_inverts(self) -> None:
        one, other = [5.0, 7.0, 6.5, 9.0], [4.0, 7.5, 6.0, 7.0]
        forth, back = paired_ratio(one, other), paired_ratio(other, one)
        assert forth.ratio is not None
        assert forth.low is not None
        assert back.ratio == pytest.approx(1 / forth.ratio)
        assert back.high == pytest.approx(1 / forth.low)
        assert back.p_value == pytest.approx(forth.p_value)

    def test_what_a_whole_round_suffers_cancels(self) -> None:
        host = [1.0, 0.5, 0.1, 3.0]
        found = paired_ratio([110 * h for h in host], [100 * h for h in host])
        assert found.low == pytest.approx(1.1)
        assert found.high == pytest.approx(1.1)
        assert found.differs

    @pytest.mark.parametrize("bad", [None, NAN, INFINITY, 0.0, -1.0])
    def test_an_unusable_value_drops_its_round(self, bad: float | None) -> None:
        kept = paired_ratio([2, 4, 8], [1, 1, 1])
        assert paired_ratio([2, 4, bad, 8], [1, 1, 1, 1]) == dataclasses.replace(kept, dropped=1)
        assert paired_ratio([2, 4, 5, 8], [1, 1, bad, 1]) == dataclasses.replace(kept, dropped=1)

    def test_two_rounds_have_no_interval(self) -> None:
        found = paired_ratio([2, 8], [1, 1])
        assert found.ratio == pytest.approx(4)
        assert (found.low, found.high, found.p_value) == (None, None, None)
        assert found.log_sd == pytest.approx(math.log(2) * math.sqrt(2))

    def test_one_round_has_no_spread_and_none_no_ratio(self) -> None:
        assert paired_ratio([2], [1]).ratio == pytest.approx(2)
        assert paired_ratio([2], [1]).log_sd is None
        nothing = paired_ratio([None], [1])
        assert (nothing.ratio, nothing.rounds, nothing.dropped) == (None, 0, 1)

    def test_the_same_ratio_in_every_round_collapses(self) -> None:
        found = paired_ratio([2, 4, 6], [1, 2, 3])
        assert (found.low, found.high) == (found.ratio, found.ratio)
        assert (found.p_value, found.log_sd) == (0, 0)
        equal = paired_ratio([7, 8, 9], [7, 8, 9])
        assert (equal.ratio, equal.low, equal.high, equal.p_value) == (1, 1, 1, 1)

    def test_rounding_of_floating_point_is_no_difference(self) -> None:
        assert paired_ratio([0.1 + 0.2] * 3, [0.3] * 3).p_value == 1

    def test_an_end_beyond_all_numbers_is_infinite(self) -> None:
        assert paired_ratio([1e300, 1, 1e-300], [1e-5, 1, 1]).high == INFINITY

    def test_unequal_lengths_are_refused(self) -> None:
        with pytest.raises(InputError, match="3 of treatment, 2 of baseline"):
            paired_ratio([1, 2, 3], [1, 2])

    @pytest.mark.parametrize("confidence", [0, 1, 95, NAN])
    def test_impossible_confidence_is_refused(self, confidence: float) -> None:
        with pytest.raises(InputError, match="not between 0 and 1"):
            paired_ratio([1, 2, 3], [1, 2, 2], confidence=confidence)


class TestMeanInterval:
    def test_geometric(self) -> None:
        mean, low, high = mean_interval([10, 20, 40])
        assert mean == pytest.approx(20)
        assert low == pytest.approx(20 / 2 ** (T_2 / math.sqrt(3)))
        assert high == pytest.approx(20 * 2 ** (T_2 / math.sqrt(3)))

    def test_arithmetic_keeps_zero_and_negative(self) -> None:
        mean, low, high = mean_interval([0, 2, -2, None], log=False)
        assert mean == pytest.approx(0)
        assert low == pytest.approx(-T_2 * 2 / math.sqrt(3))
        assert high == pytest.approx(T_2 * 2 / math.sqrt(3))

    def test_geometric_leaves_zero_out(self) -> None:
        mean, low, high = mean_interval([0, None, NAN, 4, 9])
        assert mean == pytest.approx(6)
        assert (low, high) == (None, None)

    def test_nothing(self) -> None:
        assert mean_interval([]) == (None, None, None)


class TestHolm:
    def test_by_hand(self) -> None:
        # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1; the last may not fall below 0.06.
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_missing_values_do_not_count(self) -> None:
        assert holm([None, 0.02, NAN, 0.03]) == [None, pytest.approx(0.04), None, 0.04]

    def test_never_above_1_and_one_alone_unchanged(self) -> None:
        assert holm([0.9, 0.8, 0.7]) == [1, 1, 1]
        assert holm([0.3]) == [0.3]
        assert holm([]) == []


class TestRoundsNeeded:
    def test_from_the_table(self) -> None:
        # 6 rounds: 2.5706 / sqrt(6) = 1.049; 7 rounds: 2.4469 / sqrt(7) = 0.925.
        assert rounds_needed(0.1, 0.1) == 7

    @pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
    def test_is_the_fewest(self, confidence: float) -> None:
        needed = rounds_needed(0.2, 0.05, confidence=confidence)
        assert needed is not None
        half_widths = []
        for rounds in (needed - 1, needed):
            spread = np.tile([1.0, -1.0], rounds)[:rounds]
            samples = 0.2 * (spread - spread.mean()) / spread.std(ddof=1)
            half_widths.append(float(t_interval(samples, confidence)[1]))
        assert half_widths[0] > 0.05 >= half_widths[1]

    def test_limits(self) -> None:
        assert rounds_needed(0.0, 0.1) == 3
        assert rounds_needed(0.1, 0.0) is None
        assert rounds_needed(0.1, 1e-4) is None


class TestJudge:
    @pytest.mark.parametrize(
        ("better", "words", "kinds"),
        [
            ("higher", None, ("faster", "slower")),
            ("lower", None, ("slower", "faster")),
            ("lower", ("more", "less"), ("more", "less")),
            ("higher", ("more", "less"), ("more", "less")),
        ],
    )
    def test_a_difference(
        self,
        better: Literal["higher", "lower"],
        words: tuple[Literal["more"], Literal["less"]] | None,
        kinds: tuple[str, str],
    ) -> None:
        above, below = estimate(1.234, 1.198, 1.271), estimate(0.8, 0.7, 0.9)
        up = judge(above, better=better, words=words)
        down = judge(below, better=better, words=words)
        assert (up.kind, down.kind) == kinds
        assert up.text == f"{kinds[0]}: +23.4 % [+19.8, +27.1]"
        assert down.text == f"{kinds[1]}: -20.0 % [-30.0, -10.0]"
        assert up.more_rounds is None

    def test_a_difference_within_the_margin_is_named_and_called_small(self) -> None:
        verdict = judge(estimate(1.02, 1.012, 1.028), margin=0.05)
        assert verdict.kind == "faster"
        assert verdict.text == "faster: +2.0 % [+1.2, +2.8], smaller than 5 %"

    def test_no_difference_names_the_bound_rounded_up(self) -> None:
        verdict = judge(estimate(0.99, 0.9636, 1.017, 0.3))
        assert (verdict.kind, verdict.text) == ("no difference", "no difference larger than 3.7 %")
        assert judge(estimate(1.01, 0.99, 1.03, 0.3)).text == "no difference larger than 3.0 %"
        assert judge(estimate(1, 1 - 1e-9, 1, 0.3)).text == "no difference larger than 0.1 %"

    def test_the_margin_is_the_same_in_both_directions(self) -> None:
        assert judge(estimate(1.0, 1 / 1.05, 1.05, 0.5)).kind == "no difference"
        assert judge(estimate(1.0, 0.9999 / 1.05, 1.05, 0.5)).kind == "undecided"
        assert judge(estimate(1.0, 1 / 1.05, 1.0501, 0.5)).kind == "undecided"
        assert judge(estimate(1.0, 0.92, 1.08, 0.5), margin=0.1).kind == "no difference"

    def test_equal_in_every_round(self) -> None:
        verdict = judge(paired_ratio([7, 8, 9], [7, 8, 9]))
        assert verdict.text == "no difference: the same in every round"

    def test_too_few_rounds(self) -> None:
        verdict = judge(paired_ratio([2, None], [1, 1]))
        assert verdict.kind == "not judged"
        assert verdict.text == "not judged: 1 of the 3 rounds needed (1 left out)"
        assert verdict.more_rounds == 2

    def test_a_twin_that_differs_forbids_every_claim(self) -> None:
        twin = estimate(1.06, 1.02, 1.1)
        for found in (estimate(2, 1.9, 2.1), estimate(1, 0.99, 1.01), estimate(1, 0.5, 2)):
            verdict = judge(found, twin=twin)
            assert verdict.kind == "not judged"
            assert "differs by +6.0 % [+2.0, +10.0]: this run cannot tell" in verdict.text

    def test_a_twin_without_interval_forbids_too(self) -> None:
        verdict = judge(estimate(2, 1.9, 2.1), twin=estimate(1, None, None, None))
        assert verdict.kind == "not judged"
        assert "has too few rounds" in verdict.text

    def test_a_twin_that_agrees_does_not_matter(self) -> None:
        found = estimate(2, 1.9, 2.1)
        assert judge(found, twin=estimate(1, 0.98, 1.03)) == judge(found)

    def test_the_adjusted_p_decides(self) -> None:
        found = estimate(1.234, 1.198, 1.271, p_value=0.02)
        assert judge(found, adjusted_p=0.04).kind == "faster"
        verdict = judge(found, adjusted_p=0.08)
        assert verdict.kind == "undecided"
        assert "[+19.8, +27.1] (adjusted p = 0.08 among all comparisons); about" in verdict.text

    def test_undecided_says_how_many_more_rounds(self) -> None:
        # Mean log 1.05, standard deviation 0.1: t / sqrt(n) must fall to 0.4879, the distance to
        # 1. 18 rounds: 2.1098 / sqrt(18) = 0.4973; 19 rounds: 2.1009 / sqrt(19) = 0.4820.
        found = paired_ratio([1.05 * math.exp(x) for x in (-0.1, 0.0, 0.1)], [1, 1, 1])
        verdict = judge(found)
        assert verdict.more_rounds == 19 - 3
        assert verdict.text.startswith("undecided: +5.0 % [")
        assert verdict.text.endswith("; about 16 more rounds would decide")
        assert found.p_value is not None
        together = judge(found, adjusted_p=2 * found.p_value).more_rounds
        needed = rounds_needed(0.1, math.log(1.05), confidence=0.975)
        assert needed is not None
        assert together == needed - 3

    def test_undecided_without_a_difference_aims_at_the_margin(self) -> None:
        found = paired_ratio([math.exp(x) for x in (-0.1, 0.0, 0.1)], [1, 1, 1])
        needed = rounds_needed(0.1, math.log(1.05))
        assert needed is not None
        assert judge(found).more_rounds == needed - 3

    def test_one_more_round_is_written_so(self) -> None:
        found = dataclasses.replace(estimate(1.2, 0.99, 1.45, 0.06), log_sd=0.2, rounds=7)
        assert judge(found).text.endswith("about 1 more round would decide")

    def test_hopeless(self) -> None:
        found = paired_ratio([math.exp(x) for x in (-1.0, 0.0, 1.0)], [1, 1, 1])
        verdict = judge(found)
        assert (verdict.kind, verdict.more_rounds) == ("undecided", None)
        assert "not in 1000 rounds" in verdict.text


class TestFormat:
    def test_percent(self) -> None:
        assert format_percent(1.234, 0.5, 1) == ("+23.4", "-50.0", "+0.0")
        assert format_percent(13) == ("+1200.0",)

    def test_small_differences_get_decimals(self) -> None:
        assert format_percent(1.001, 1.0002) == ("+0.10", "+0.02")
        assert format_percent(0.99998) == ("-0.002",)

    def test_there_is_no_negative_zero(self) -> None:
        assert format_percent(1 - 1e-9) == ("+0.0",)

    def test_ratio(self) -> None:
        assert format_ratio(estimate(1.234, 1.198, 1.271)) == "+23.4 % [+19.8, +27.1]"
        assert format_ratio(estimate(1.234, None, None, None)) == "+23.4 % (no interval)"
        assert format_ratio(paired_ratio([], [])) == "not measured"


class TestDrift:
    def test_an_exact_slope(self) -> None:
        seconds = list(range(1, 61))
        found = drift_per_minute(seconds, [500 * math.exp(-0.01 * s / 60) for s in seconds])
        assert found == pytest.approx([100 * math.expm1(-0.01)] * 3)

    def test_a_constant_has_none(self) -> None:
        assert drift_per_minute(list(range(60)), [500.0] * 60) == pytest.approx([0, 0, 0])

    def test_stalls_and_order_do_not_matter(self) -> None:
        seconds: Values = [3, 1, None, 2, 0, 4]
        values: Values = [800, 200, 7, None, 100, 0]
        per_second = math.log(8) / 3
        slope, low, high = drift_per_minute(seconds, values)
        assert slope == pytest.approx(100 * math.expm1(60 * per_second))
        assert (low, high) == (None, None)

    @pytest.mark.parametrize("count", [0, 1, 2])
    def test_too_short_for_a_slope(self, count: int) -> None:
        assert drift_per_minute([1.0, 2.0][:count], [5.0, 6.0][:count]) == (None, None, None)

    def test_no_time_passes(self) -> None:
        assert drift_per_minute([5, 5, 5], [1, 2, 3]) == (None, None, None)

    def test_too_short_for_an_interval(self) -> None:
        values = np.random.default_rng(1).lognormal(5, 0.1, 30).tolist()
        assert drift_per_minute(list(range(29)), values[:29]).low is None
        assert drift_per_minute(list(range(30)), values).low is not None

    def test_one_slow_wave_is_worth_too_few_points(self) -> None:
        values = [math.exp(0.3 * math.sin(2 * math.pi * s / 40)) for s in range(40)]
        slope, low, high = drift_per_minute(list(range(40)), values)
        assert slope is not None
        assert (low, high) == (None, None)

    def test_by_plain_formulas(self) -> None:
        values = np.random.default_rng(5).lognormal(6, 0.2, 100)
        seconds = np.arange(100) / 2.0
        line = np.polynomial.Polynomial.fit(seconds, np.log(values), 1)
        rest = np.log(values) - line(seconds)
        slope = float(line.convert().coef[1])
        found = drift_per_minute(seconds.tolist(), values.tolist())
        assert found.value == pytest.approx(100 * math.expm1(60 * slope))
        # Independent values: the interval is wider than the textbook's, by the guard on r only.
        textbook = 1.984 * math.sqrt(rest @ rest / 98 / np.sum((seconds - 24.75) ** 2))
        assert found.high is not None
        assert textbook <= math.log1p(found.high / 100) / 60 - slope < 1.4 * textbook

    def test_unequal_lengths_are_refused(self) -> None:
        with pytest.raises(InputError, match="2 of time_s, 1 of values"):
            drift_per_minute([1, 2], [1])

    @pytest.mark.parametrize("kind", ["independent", "autocorrelated"])
    def test_false_alarms(self, kind: str) -> None:
        repeats, seconds = 600, list(range(30))
        levels = np.exp(noise(kind, np.random.default_rng(7), (repeats, 30)))
        found = [drift_per_minute(seconds, row.tolist()) for row in levels]
        alarms = sum(not low <= 0 <= high for _, low, high in found if low and high)
        assert alarms / repeats <= at_most(0.05, repeats)


@pytest.mark.parametrize("rounds", [5, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_on_equal_and_on_different_servers(kind: str, rounds: int) -> None:
    repeats = 300
    tps = np.exp(shuffled(kind, np.random.default_rng(11), repeats, rounds)).tolist()
    alarms = missed = 0
    for experiment in tps:
        one, other = zip(*experiment, strict=True)
        alarms += judge(paired_ratio(one, other)).kind in ("faster", "slower")
        found = paired_ratio([1.2 * value for value in one], other)
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 1.2 <= found.high
    assert alarms / repeats <= at_most(0.05, repeats)
    assert missed / repeats <= at_most(0.05, repeats)


@pytest.mark.parametrize("rounds", [5, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_truth(kind: str, rounds: int) -> None:
    repeats = 10_000
    levels = shuffled(kind, np.random.default_rng(13), repeats, rounds)
    mean, half_width, p_value = t_interval(levels[..., 0] - levels[..., 1])
    missed = np.abs(mean) > half_width
    assert missed.mean() <= at_most(0.05, repeats)
    assert np.array_equal(missed, p_value < 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [5, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_several_comparisons_with_a_twin_raise_no_more_alarms(kind: str, rounds: int) -> None:
    repeats, treatments = 800, 4
    generator = np.random.default_rng(17)
    tps = np.exp(shuffled(kind, generator, repeats, rounds, treatments + 2))
    alarms = refused = 0
    for experiment in tps:
        baseline, *cells, twin_tps = experiment.T.tolist()
        twin = paired_ratio(twin_tps, baseline)
        found = [paired_ratio(cell, baseline) for cell in cells]
        adjusted = holm([one.p_value for one in found])
        verdicts = [
            judge(one, adjusted_p=p, twin=twin) for one, p in zip(found, adjusted, strict=True)
        ]
        alarms += any(verdict.kind in ("faster", "slower") for verdict in verdicts)
        refused += all(verdict.kind == "not judged" for verdict in verdicts)
    assert alarms / repeats <= at_most(0.05, repeats)
    assert refused / repeats <= at_most(0.05, repeats)


def test_the_published_table_of_verdicts() -> None:
    spec = importlib.util.spec_from_file_location("verdicts", VERDICTS)
    assert spec is not None
    assert spec.loader is not None
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    lines = script.table(simulations=20).splitlines()
    assert len(lines) == 2 + len(script.NOISE) * len(script.ROUNDS)
    assert {line.count("|") for line in lines} == {8}
    alarms, _, _, blocked_alarms, _ = script.percentages(script.NOISE["all three"], 10, 1000, 1)
    assert alarms < 7 < 30 < blocked_alarms
