"""What may be said of a difference, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from benchkit.analysis.stats import (
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    Estimate,
    format_ratio,
    rounds_needed,
)

Direction = Literal["faster", "slower", "more", "less"]
Kind = Literal[Direction, "no difference", "undecided", "not judged"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What may be said: the kind, the sentence, and about how many more rounds would decide."""

    kind: Kind
    text: str
    more_rounds: int | None = None


def judge(
    estimate: Estimate,
    *,
    adjusted_p: float | None = None,
    margin: float = 0.05,
    twin: Estimate | None = None,
    better: Literal["higher", "lower"] = "higher",
    words: tuple[Direction, Direction] | None = None,
) -> Verdict:
    """Say in words what an estimate allows to be said.

    Parameters
    ----------
    adjusted_p
        Its p-value after :func:`holm`, if several comparisons are judged at once. The interval
        in the text stays that of the single comparison.
    margin
        The smallest difference that matters (0.05 is 5 %): "no difference" is an interval
        within [1 / (1 + margin), 1 + margin] that does not show a difference.
    twin
        The twin against the baseline; unless it has an interval that holds 1, nothing is claimed.
    better
        Whether a ratio above 1 is "faster" (tps: higher) or "slower" (latency: lower).
    words
        What to call a ratio above 1 and one below 1 instead: ("more", "less") for bytes.

    Notes
    -----
    `more_rounds` supposes that ratio and spread stay as seen: about an even chance. Judging after
    every round until it pleases finds differences that are not there: plan the looks, and share
    the error among them (a higher confidence for each).
    """
    if estimate.low is None or estimate.high is None or estimate.p_value is None:
        left_out = f" ({estimate.dropped} left out)" if estimate.dropped else ""
        text = f"not judged: {estimate.rounds} of the {FEWEST_ROUNDS} {estimate.unit}s needed"
        text += left_out
        return Verdict(kind="not judged", text=text, more_rounds=FEWEST_ROUNDS - estimate.rounds)
    if twin is not None and (twin.low is None or twin.differs):
        found = f"differs by {format_ratio(twin)}" if twin.differs else f"has too few {twin.unit}s"
        consequence = "this run cannot tell its own noise from a difference"
        text = f"not judged: the twin, identical to the baseline, {found}: {consequence}"
        return Verdict(kind="not judged", text=text)
    p = estimate.p_value if adjusted_p is None else adjusted_p
    small = 1 / (1 + margin) <= estimate.low and estimate.high <= 1 + margin
    if estimate.differs and p < 1 - estimate.confidence:
        first = (estimate.low > 1) == (words is not None or better == "higher")
        word = (words or ("faster", "slower"))[0 if first else 1]
        note = f", smaller than {100 * margin:g} %" if small else ""
        return Verdict(kind=word, text=f"{word}: {format_ratio(estimate)}{note}")
    if not small:
        return _undecided(estimate, p, margin)
    bound_pct = 100 * max(estimate.high - 1, 1 - estimate.low)
    rounded_up = max(1, math.ceil(10 * bound_pct - 1e-6)) / 10
    size = (
        f" larger than {rounded_up:.1f} %" if bound_pct else f": the same in every {estimate.unit}"
    )
    return Verdict(kind="no difference", text=f"no difference{size}")


def _undecided(estimate: Estimate, p: float, margin: float) -> Verdict:
    more = _rounds_to_decide(estimate, p, margin)
    advice = f"about {more} more {estimate.unit}{'' if more == 1 else 's'} would decide"
    if more is None:
        advice = f"not in {MOST_ROUNDS} {estimate.unit}s: make trials longer or the host quieter"
    among = f" (adjusted p = {p:.2g} among all comparisons)" if estimate.differs else ""
    text = f"undecided: {format_ratio(estimate)}{among}; {advice}"
    return Verdict(kind="undecided", text=text, more_rounds=more)


def _rounds_to_decide(estimate: Estimate, p: float, margin: float) -> int | None:
    """Additional rounds until the interval leaves 1, or lies within the margin."""
    if estimate.ratio is None or estimate.log_sd is None or estimate.p_value is None:
        return None
    shift = abs(math.log(estimate.ratio))
    # What Holm multiplied the p-value by is asked of the interval as a smaller error.
    share = estimate.p_value / p if p > estimate.p_value else 1.0
    adjusted, width = 1 - (1 - estimate.confidence) * share, math.log1p(margin) - shift
    leave_1 = rounds_needed(estimate.log_sd, shift, confidence=adjusted)
    fit_margin = rounds_needed(estimate.log_sd, width, confidence=estimate.confidence)
    needed = min((n for n in (leave_1, fit_margin) if n is not None), default=None)
    return None if needed is None else max(1, needed - estimate.rounds)
