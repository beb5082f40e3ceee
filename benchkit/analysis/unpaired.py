"""Means and ratios of values that no round pairs: trials of two reports, made at two times.

What a machine did to one report it did not do to the other. The interval therefore holds the
spread within each report and nothing of what changed between them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchkit.analysis.stats import (
    FEWEST_ROUNDS,
    ROUNDING,
    Estimate,
    Interval,
    Values,
    t_quantile,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def unpaired_ratio(treatment: Values, baseline: Values, *, confidence: float = 0.95) -> Estimate:
    """Estimate the ratio treatment / baseline of two independent sets of values.

    Parameters
    ----------
    treatment, baseline
        Values in the same unit, in any number and order. Those that are missing (None, NaN,
        infinite) or not positive are left out.

    Returns
    -------
    Estimate
        The ratio of geometric means. `rounds` is the smaller number of values, `dropped` counts
        those left out on both sides. Fewer than three values on a side: no interval.

    Raises
    ------
    InputError
        The confidence is not between 0 and 1.

    Notes
    -----
    Welch's t interval on logarithms, see :func:`welch_interval`. `log_sd` is the standard error
    times the root of `rounds`: for n values on each side the standard deviation of the log ratio
    of one value to another. Who makes an interval of `log_sd` and `rounds` as for pairs (a table
    of claims, the rounds still needed) uses `rounds` - 1 degrees of freedom. Welch's are never
    fewer, so that this interval is right or somewhat too wide.
    """
    above, below = _logs(treatment), _logs(baseline)
    rounds = min(above.size, below.size)
    known = Interval()
    p_value = error = None
    if rounds:
        known = Interval(float(above.mean() - below.mean()))
    if rounds >= 2:
        error = float(_welch_error(above, below)[0])
    if rounds >= FEWEST_ROUNDS:
        shift, half_width, p = (float(part) for part in welch_interval(above, below, confidence))
        known, p_value = Interval(shift, shift - half_width, shift + half_width), p
    ratio, low, high = (None if end is None else _exp(end) for end in known)
    return Estimate(
        ratio=ratio,
        low=low,
        high=high,
        confidence=confidence,
        rounds=rounds,
        dropped=len(treatment) + len(baseline) - above.size - below.size,
        p_value=p_value,
        log_sd=None if error is None else error * math.sqrt(rounds),
    )


def welch_interval(
    above: Floats, below: Floats, confidence: float = 0.95
) -> tuple[Floats, Floats, Floats]:
    """Difference of two means, half width of its interval, p-value of "the difference is 0".

    Parameters
    ----------
    above, below
        Shapes ``(..., n)`` and ``(..., m)``, n and m >= 2; the three results have the shape
        ``(...)``. Without variance the half width is 0 and the p-value 0, or 1 where there is no
        difference.

    Notes
    -----
    Unequal variances are allowed. Source: Welch, Biometrika 34, 28-35, 1947; the degrees of
    freedom are those of Welch (1938) and Satterthwaite (1946). Simulated coverage of a nominal
    95 %: 94.8 or more at seven values, 94.0 where the spread of four is three times that of seven.
    """
    import numpy as np
    from scipy.special import stdtr

    shift = np.round(above.mean(axis=-1) - below.mean(axis=-1), ROUNDING)
    error, freedom = _welch_error(above, below)
    t = np.divide(np.abs(shift), error, out=np.where(shift == 0, 0.0, np.inf), where=error > 0)
    return shift, t_quantile(confidence, freedom) * error, 2 * stdtr(freedom, -t)


def _welch_error(above: Floats, below: Floats) -> tuple[Floats, Floats]:
    """Give the standard error of a difference of means, and its degrees of freedom."""
    import numpy as np

    parts = [side.var(axis=-1, ddof=1) / side.shape[-1] for side in (above, below)]
    total = parts[0] + parts[1]
    total = np.where(total < 10.0 ** (-2 * ROUNDING), 0.0, total)  # floating point, not spread
    shares = [np.divide(part, total, out=np.ones_like(total), where=total > 0) for part in parts]
    counts = [side.shape[-1] - 1 for side in (above, below)]
    freedom = 1 / sum(share**2 / count for share, count in zip(shares, counts, strict=True))
    return np.sqrt(total), np.asarray(freedom)


def trimmed_interval(values: Values, confidence: float = 0.95) -> Interval:
    """Mean without the highest and the lowest value, with its interval.

    Parameters
    ----------
    values
        Of one cell; missing ones (None, NaN, infinite) are left out. The mean needs three, the
        interval four; of four it is very wide.

    Raises
    ------
    InputError
        The confidence is not between 0 and 1.

    Notes
    -----
    The interval is :func:`trimmed_t_interval`. It is not that of the mean of the values that are
    left, which takes no account of the two that were dropped and is far too narrow.
    """
    samples = _finite(values)
    if samples.size < 3:
        return Interval()
    if samples.size == 3:
        return Interval(sorted(samples.tolist())[1])
    mean, half_width = (float(part) for part in trimmed_t_interval(samples, confidence))
    return Interval(mean, mean - half_width, mean + half_width)


def trimmed_t_interval(samples: Floats, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Mean without the highest and lowest value of each set, and half width of its t interval.

    Parameters
    ----------
    samples
        Shape ``(..., n)`` with n >= 4; the two results have the shape ``(...)``.

    Notes
    -----
    Of the n values h = n - 2 are left. The squared standard error is SSD / (h (h - 1)), SSD being
    the sum of squared deviations of the winsorised values (highest and lowest replaced by their
    neighbours), with h - 1 degrees of freedom. Source: Tukey and McLaughlin, Sankhya A 25,
    331-352, 1963; Yuen, Biometrika 61, 165-170, 1974. Simulated coverage of a nominal 95 %: 94.3
    at seven values, 93.7 at four and five (normal logarithms with a spread of 3 to 20 %).
    """
    import numpy as np

    ordered = np.sort(samples, axis=-1)
    kept = ordered[..., 1:-1]
    winsorised = np.concatenate([kept[..., :1], kept, kept[..., -1:]], axis=-1)
    squares = winsorised.var(axis=-1) * samples.shape[-1]
    left = kept.shape[-1]
    error = np.sqrt(squares / (left * (left - 1)))
    return kept.mean(axis=-1), t_quantile(confidence, left - 1) * error


def _finite(values: Values) -> Floats:
    import numpy as np

    given: Floats = np.asarray(values, dtype=float)
    return given[np.isfinite(given)]


def _logs(values: Values) -> Floats:
    import numpy as np

    given = _finite(values)
    return np.log(given[given > 0])


def _exp(log: float) -> float:
    import numpy as np

    with np.errstate(over="ignore"):  # infinite is what such an end is
        return float(np.exp(log))
