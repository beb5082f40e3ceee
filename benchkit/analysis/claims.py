"""Claims: what was published, what is measured here, and whether the one bears out the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchkit.analysis.stats import Estimate, t_quantile
from benchkit.errors import Fault, InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Claim:
    """A published statement, and the ratio that tests it here.

    Attributes
    ----------
    statement
        What was claimed, in a sentence.
    published
        The published figure, as text; "" where there is none.
    estimate
        The ratio measured here; None where it cannot be measured.
    at_least, at_most
        The ratios that bear the claim out; None is no bound.
    remark
        Why it cannot be tested here, or in what the test differs from the original.
    twin
        The twin's ratio of the same figure, where that is not throughput: a claim is decided only
        if the twin does not differ from the baseline.

    Raises
    ------
    InputError
        An estimate without a bound, which every measurement would confirm; or bounds that leave
        nothing between them.
    """

    statement: str
    published: str = ""
    estimate: Estimate | None = None
    at_least: float | None = None
    at_most: float | None = None
    remark: str = ""
    twin: Estimate | None = None

    def __post_init__(self) -> None:
        least, most = self.at_least, self.at_most
        problem = ""
        if self.estimate is not None and least is None and most is None:
            problem = "needs at_least or at_most: without a bound everything bears it out"
        elif least is not None and most is not None and least > most:
            problem = f"no ratio is at least {least} and at most {most}"
        if problem:
            raise InputError([Fault(where=f"claim {self.statement!r}", problem=problem)])

    @property
    def bounds(self) -> str:
        """The ratios that bear it out, in words; "" where there are none."""
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} to {self.at_most:g}"
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "" if self.at_most is None else f"at most {self.at_most:g}"

    @property
    def verdict(self) -> str:
        """``confirmed``, ``refuted``, ``undecided`` or ``not testable here``.

        Confirmed is an interval wholly within the bounds, refuted one wholly outside.
        """
        estimate = self.estimate
        if estimate is None:
            return "not testable here"
        if estimate.low is None or estimate.high is None:
            return "undecided"
        least = 0.0 if self.at_least is None else self.at_least
        most = float("inf") if self.at_most is None else self.at_most
        if least <= estimate.low and estimate.high <= most:
            return "confirmed"
        if estimate.high < least or estimate.low > most:
            return "refuted"
        return "undecided"


def claims_table(claims: Sequence[Claim], *, twin: Estimate | None) -> pd.DataFrame:
    """Give one row per claim; none is decided when the twin does not show that it is the baseline.

    Each verdict is made at a confidence at which all of the table hold together (Bonferroni), so
    it can be undecided where the 95 % interval beside it alone would decide.

    Parameters
    ----------
    twin
        The ratio of the twin to the baseline, from :meth:`Results.twin`, for the claims that have
        none of their own. None: there is no twin.
    """
    import pandas as pd

    testable = sum(claim.estimate is not None for claim in claims)
    rows = []
    for claim in claims:
        verdict = _among(claim, testable).verdict
        doubt = _doubt(claim.twin or twin)
        doubted = bool(doubt) and verdict in ("confirmed", "refuted")
        rows.append(
            {
                "Claim": claim.statement,
                "Published": claim.published,
                "Measured here": _as_ratio(claim.estimate) if claim.estimate else None,
                "Borne out by": claim.bounds,
                "Verdict": "undecided" if doubted else verdict,
                "Remark": "; ".join(filter(None, [doubt if doubted else "", claim.remark])),
            }
        )
    return pd.DataFrame(rows)


def _as_ratio(estimate: Estimate) -> str:
    """Write a ratio as published ones are written: 2.2, not +120 %."""
    if estimate.ratio is None:
        return "not measured"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.ratio:.3g} (no interval)"
    digits = 3 if estimate.high < 10 else 1
    return f"{estimate.ratio:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def _among(claim: Claim, count: int) -> Claim:
    """Widen a claim's interval to that of one claim among several."""
    estimate = claim.estimate
    if estimate is None or estimate.ratio is None or estimate.low is None or not estimate.log_sd:
        return claim
    error = (1 - estimate.confidence) / count
    half_width = float(t_quantile(1 - error, estimate.rounds - 1)) * estimate.log_sd
    factor = math.exp(half_width / math.sqrt(estimate.rounds))
    low, high = estimate.ratio / factor, estimate.ratio * factor
    return replace(claim, estimate=replace(estimate, low=low, high=high))


def _doubt(twin: Estimate | None) -> str:
    """Say why a twin forbids a decision, as :func:`~benchkit.analysis.stats.judge` does."""
    if twin is None:
        return ""
    if twin.low is None:
        return "the twin has too few rounds"
    return "the twin differs from the baseline" if twin.differs else ""
