"""Claims: what was published, what is measured here, and whether the one bears out the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchkit.analysis.stats import Estimate, format_ratio

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
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
    """

    statement: str
    published: str = ""
    estimate: Estimate | None = None
    at_least: float | None = None
    at_most: float | None = None
    remark: str = ""

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
        least = self.at_least or 0.0
        most = float("inf") if self.at_most is None else self.at_most
        if least <= estimate.low and estimate.high <= most:
            return "confirmed"
        if estimate.high < least or estimate.low > most:
            return "refuted"
        return "undecided"


def claims_table(claims: Sequence[Claim], *, twin: Estimate | None) -> pd.DataFrame:
    """Give one row per claim; none is decided when the twin differs from the baseline.

    Parameters
    ----------
    twin
        The ratio of the twin to the baseline, from :meth:`Results.twin`.
    """
    import pandas as pd

    noisy = twin is not None and twin.differs
    rows = []
    for claim in claims:
        decided = claim.verdict in ("confirmed", "refuted")
        rows.append(
            {
                "Claim": claim.statement,
                "Published": claim.published,
                "Measured here": format_ratio(claim.estimate) if claim.estimate else None,
                "Verdict": "undecided" if noisy and decided else claim.verdict,
                "Remark": "the twin differs from the baseline"
                if noisy and decided
                else claim.remark,
            }
        )
    return pd.DataFrame(rows)
