"""How large a difference is, and how sure that is.

Cells of one round ran close together and in random order: what the host did to one of them it
could as well have done to the other. Differences are therefore taken within a round, as ratios.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from benchkit.errors import Fault, InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Values = Sequence[float | None]

FEWEST_ROUNDS = 3
MOST_ROUNDS = 1000
FEWEST_DRIFT_POINTS = 30
ROUNDING = 12  # decimals of a log ratio: what lies below comes from floating point


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A ratio treatment / baseline, its interval, and the p-value (two-sided) of "ratio = 1".

    `ratio` is the geometric mean over `rounds`, `log_sd` the standard deviation of their log
    ratios. None: `ratio` without a round, `log_sd` below two rounds, the others below three.
    `dropped` counts the rounds left out because a value was missing or not positive. `unit` is
    what `rounds` counts: rounds, or sessions of several rounds each.
    """

    ratio: float | None
    low: float | None
    high: float | None
    confidence: float
    rounds: int
    dropped: int
    p_value: float | None
    log_sd: float | None
    unit: str = "round"

    @property
    def differs(self) -> bool:
        """Whether there is an interval and it does not hold 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


class Interval(NamedTuple):
    """A value and the ends of its confidence interval, all in one unit; None where unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def t_interval(samples: Floats, confidence: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Mean, half width of Student's t interval, and two-sided p-value of "the mean is 0".

    Parameters
    ----------
    samples
        Shape ``(..., n)`` with n >= 2; the three results have the shape ``(...)``. Without
        variance the half width is 0 and the p-value 0, or 1 where the mean is exactly 0.
    confidence
        Between 0 and 1, as everywhere here; else :class:`~benchkit.errors.InputError`.
    """
    import numpy as np
    from scipy.special import stdtr

    count, mean = samples.shape[-1], samples.mean(axis=-1)
    error = samples.std(axis=-1, ddof=1) / math.sqrt(count)
    t = np.divide(np.abs(mean), error, out=np.where(mean == 0, 0.0, np.inf), where=error > 0)
    return mean, t_quantile(confidence, count - 1) * error, 2 * stdtr(count - 1, -t)


def paired_ratio(treatment: Values, baseline: Values, *, confidence: float = 0.95) -> Estimate:
    """Estimate the ratio treatment / baseline from values paired by round.

    Parameters
    ----------
    treatment, baseline
        One value per round, rounds in the same order, both in the same unit. A round with a
        missing (None, NaN, infinite) or non-positive value is left out. Different lengths raise
        :class:`~benchkit.errors.InputError`.

    Notes
    -----
    The paired t interval on logarithms. The geometric mean of ratios does not depend on which
    side is called the baseline (Fleming and Wallace, CACM 29(3), 1986). When all rounds give the
    same ratio the interval collapses to it and the p-value is 0, or 1 for a ratio of 1: right
    for counts that are the same in every run, too sure for a latency rounded to a few digits.
    """
    import numpy as np

    above, below = _columns(treatment=treatment, baseline=baseline)
    usable = np.isfinite(above) & np.isfinite(below) & (above > 0) & (below > 0)
    logs = np.round(np.log(above[usable]) - np.log(below[usable]), ROUNDING)
    interval, p_value = _summary(logs, confidence, log=True)
    return Estimate(
        ratio=interval.value,
        low=interval.low,
        high=interval.high,
        confidence=confidence,
        rounds=logs.size,
        dropped=usable.size - logs.size,
        p_value=p_value,
        log_sd=float(logs.std(ddof=1)) if logs.size >= 2 else None,
    )


def mean_interval(values: Values, confidence: float = 0.95, log: bool = True) -> Interval:
    """Mean of one cell's values with its own t interval; missing values are left out.

    `log`: geometric, for positive measures (0 and less are left out too); else arithmetic. Two
    such intervals do not say whether two cells differ; that is what :func:`paired_ratio` is for.
    """
    import numpy as np

    (given,) = _columns(values=values)
    samples = given[np.isfinite(given) & ((given > 0) | (not log))]
    return _summary(np.log(samples) if log else samples, confidence, log=log)[0]


def holm(p_values: Values) -> list[float | None]:
    """Adjust the p-values of comparisons made at once, so that 5 % hold for all together.

    A missing p-value (None, NaN) stays None and does not count as a comparison.
    Source: Holm, Scandinavian Journal of Statistics 6, 65-70, 1979.
    """
    known = sorted((p, at) for at, p in enumerate(p_values) if p is not None and not math.isnan(p))
    adjusted: list[float | None] = [None] * len(p_values)
    floor = 0.0  # an adjusted value is never below that of a smaller p
    for rank, (p, at) in enumerate(known):
        floor = max(floor, min(1.0, p * (len(known) - rank)))
        adjusted[at] = floor
    return adjusted


def rounds_needed(log_sd: float, target: float, *, confidence: float = 0.95) -> int | None:
    """Fewest rounds whose t interval has a half width of at most `target` on the log scale.

    `log_sd` is the standard deviation of the log ratios. None: more than 1,000 (`MOST_ROUNDS`).
    """
    import numpy as np

    rounds = np.arange(FEWEST_ROUNDS, MOST_ROUNDS + 1, dtype=float)
    half_widths = t_quantile(confidence, rounds - 1) * log_sd / np.sqrt(rounds)
    enough = rounds[half_widths <= target]
    return int(enough[0]) if enough.size and target > 0 else None


def drift_per_minute(time_s: Values, values: Values, *, confidence: float = 0.95) -> Interval:
    """Slope of a measure over the time of one run, in percent per minute.

    Parameters
    ----------
    time_s, values
        Pairs, about evenly spaced, such as seconds and tps of pgbench's progress lines. Those
        with a missing or non-positive value (a stall) are left out. There is no slope below 3
        points, and no interval below 30 or when they are worth 3 independent ones or fewer.
        Different lengths raise :class:`~benchkit.errors.InputError`.

    Notes
    -----
    Least squares on logarithms. A second resembles the one before it, so n residuals count as
    n (1 - r) / (1 + r), r being their correlation at lag 1 (Santer et al., Journal of Geophysical
    Research 105, 7337-7356, 2000). In short series r comes out too low, for a fitted line by
    about (2 + 4 r) / n: this is undone, and half a standard error added. Simulated false alarms
    are then about 5 % or fewer for r up to 0.8 (30 points, r = 0.8: 15 % before).
    """
    import numpy as np

    seconds, levels = _columns(time_s=time_s, values=values)
    usable = np.isfinite(seconds) & np.isfinite(levels) & (levels > 0)
    order = np.argsort(seconds[usable], kind="stable")
    minutes, logs = seconds[usable][order] / 60, np.log(levels[usable][order])
    if logs.size < 3 or minutes[0] == minutes[-1]:
        return Interval()
    minutes, logs = minutes - minutes.mean(), logs - logs.mean()
    spread = float(minutes @ minutes)
    slope = float(minutes @ logs) / spread
    half_width = _slope_half_width(logs - slope * minutes, spread, confidence)
    ends = [slope] if half_width is None else [slope, slope - half_width, slope + half_width]
    with np.errstate(over="ignore"):  # infinite is what such an end is
        return Interval(*(100 * np.expm1(ends)).tolist())


def format_percent(*ratios: float) -> tuple[str, ...]:
    """Write ratios as percentages: 1.234 is "+23.4". Decimals (1 to 3) as the smallest needs."""
    percentages = [100 * (ratio - 1) for ratio in ratios]
    smallest = min((abs(p) for p in percentages if abs(p) >= 0.0005), default=1.0)
    decimals = next((d for d in (1, 2) if smallest >= 0.5 * 10**-d), 3)
    return tuple(f"{round(p, decimals) + 0.0:+.{decimals}f}" for p in percentages)  # no "-0.0"


def format_ratio(estimate: Estimate) -> str:
    """Write an estimate as "+23.4 % [+19.8, +27.1]", or "+23.4 % (no interval)"."""
    if estimate.ratio is None:
        return "not measured"
    if estimate.low is None or estimate.high is None:
        return f"{format_percent(estimate.ratio)[0]} % (no interval)"
    ratio, low, high = format_percent(estimate.ratio, estimate.low, estimate.high)
    return f"{ratio} % [{low}, {high}]"


def _columns(**columns: Values) -> list[Floats]:
    import numpy as np

    if len({len(values) for values in columns.values()}) > 1:
        counts = ", ".join(f"{len(values)} of {name}" for name, values in columns.items())
        problem = f"the values are pairs, but there are {counts}"
        raise InputError([Fault(where=" and ".join(columns), problem=problem)])
    return [np.asarray(values, dtype=float) for values in columns.values()]


def t_quantile(confidence: float, freedom: Floats | float) -> Floats:
    """How many standard errors the half width of a two-sided t interval has."""
    import numpy as np
    from scipy.special import stdtrit  # a third of the import time of scipy.stats

    if not 0 < confidence < 1:
        problem = f"{confidence!r} is not between 0 and 1; usual is 0.95"
        raise InputError([Fault(where="confidence", problem=problem)])
    return np.asarray(stdtrit(freedom, (1 + confidence) / 2), dtype=float)


def _summary(samples: Floats, confidence: float, *, log: bool) -> tuple[Interval, float | None]:
    """Mean and interval, taken back from the log scale if asked, and the p-value of mean 0."""
    import numpy as np

    unit = np.exp if log else np.positive
    if samples.size < FEWEST_ROUNDS:
        return Interval(float(unit(samples.mean())) if samples.size else None), None
    mean, half_width, p_value = t_interval(samples, confidence)
    with np.errstate(over="ignore"):  # infinite is what such an end is
        ends = unit(np.array([mean, mean - half_width, mean + half_width]))
    return Interval(*ends.tolist()), float(p_value)


def _slope_half_width(residuals: Floats, spread: float, confidence: float) -> float | None:
    count, squares = residuals.size, float(residuals @ residuals)
    if count < FEWEST_DRIFT_POINTS:
        return None
    if squares < count * 10.0 ** (-2 * ROUNDING):
        return 0.0  # a perfect line
    lag_1 = (count * float(residuals[1:] @ residuals[:-1]) / squares + 2) / (count - 4)
    standard_error = math.sqrt(max(0.0, 1 - lag_1**2) / count)
    lag_1 = max(0.0, lag_1 + standard_error / 2)  # a negative one would narrow the interval
    effective = count * (1 - lag_1) / (1 + lag_1)
    if effective <= 3:
        return None
    error = math.sqrt(squares / (effective - 2) / spread)
    return float(t_quantile(confidence, effective - 2)) * error
