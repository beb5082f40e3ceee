"""A claim is decided by an interval, and by nothing while the twin differs."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.analysis.claims import Claim, claims_table
from benchkit.analysis.stats import Estimate
from benchkit.errors import InputError


def estimate(ratio: float, low: float | None, high: float | None) -> Estimate:
    return Estimate(
        ratio=ratio,
        low=low,
        high=high,
        confidence=0.95,
        rounds=5,
        dropped=0,
        p_value=None if low is None else 0.01,
        log_sd=0.1,
    )


FAST = estimate(2.0, 1.8, 2.2)
QUIET = estimate(1.0, 0.98, 1.02)


def claim(found: Estimate | None = FAST, **bounds: Any) -> Claim:
    return Claim(statement="faster", published="2.2x", estimate=found, **bounds)


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        ({"at_least": 1.5}, "confirmed"),
        ({"at_least": 1.8}, "confirmed"),
        ({"at_least": 2.0}, "undecided"),
        ({"at_least": 2.3}, "refuted"),
        ({"at_most": 2.5}, "confirmed"),
        ({"at_most": 2.0}, "undecided"),
        ({"at_most": 1.0}, "refuted"),
        ({"at_least": 1.5, "at_most": 2.5}, "confirmed"),
        ({"at_least": 1.9, "at_most": 2.1}, "undecided"),
        ({"at_most": 0}, "refuted"),
    ],
)
def test_the_interval_decides(bounds: dict[str, Any], verdict: str) -> None:
    assert claim(**bounds).verdict == verdict


def test_without_an_interval_nothing_is_decided() -> None:
    assert claim(estimate(9.0, None, None), at_least=1).verdict == "undecided"
    assert claim(None).verdict == "not testable here"
    assert claim(None, at_least=1).verdict == "not testable here"


@pytest.mark.parametrize(
    ("bounds", "complaint"),
    [
        ({}, "needs at_least or at_most"),
        ({"at_least": 2, "at_most": 1}, "no ratio is at least 2 and at most 1"),
    ],
)
def test_bounds_that_would_decide_without_a_measurement(
    bounds: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        claim(**bounds)


def rows(*claims: Claim, twin: Estimate | None) -> list[dict[Any, Any]]:
    frame = claims_table(claims, twin=twin)
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def test_a_row_for_each_claim() -> None:
    claims = [claim(at_least=1.5, remark="by another way"), claim(None, remark="one build only")]
    assert rows(*claims, twin=QUIET) == [
        {
            "Claim": "faster",
            "Published": "2.2x",
            "Measured here": "2.000 [1.800, 2.200]",
            "Borne out by": "at least 1.5",
            "Verdict": "confirmed",
            "Remark": "by another way",
        },
        {
            "Claim": "faster",
            "Published": "2.2x",
            "Measured here": None,
            "Borne out by": "",
            "Verdict": "not testable here",
            "Remark": "one build only",
        },
    ]


@pytest.mark.parametrize(
    ("twin", "why"),
    [
        (estimate(1.1, 1.05, 1.15), "the twin differs from the baseline"),
        (estimate(1.0, None, None), "the twin has too few rounds"),
    ],
)
def test_a_twin_that_says_nothing_good_decides_nothing(twin: Estimate, why: str) -> None:
    claims = [
        claim(at_least=1.5, remark="by another way"),
        claim(at_most=1.0),
        claim(at_least=2.0, remark="as it is"),
        claim(None),
    ]
    found = rows(*claims, twin=twin)
    assert [row["Verdict"] for row in found] == [*["undecided"] * 3, "not testable here"]
    assert [row["Remark"] for row in found] == [f"{why}; by another way", why, "as it is", ""]


def test_a_run_without_a_twin_decides() -> None:
    (row,) = rows(claim(at_least=1.5), twin=None)
    assert row["Verdict"] == "confirmed"


def test_a_figure_that_is_not_throughput_has_a_twin_of_its_own() -> None:
    differing = estimate(1.1, 1.05, 1.15)
    own = [claim(at_least=1.5, twin=differing), claim(at_least=1.5, twin=QUIET)]
    assert [row["Verdict"] for row in rows(*own, twin=QUIET)] == ["undecided", "confirmed"]
    assert [row["Verdict"] for row in rows(*own, twin=differing)] == ["undecided", "confirmed"]
