from __future__ import annotations

import json
from typing import Any

from benchkit.analysis.claims import Claim
from benchkit.analysis.results import Results
from benchkit.present import summary
from benchkit.present.tables import MISSING
from tests.present.conftest import NASTY

Shown = list[dict[str, Any]]


def html(shown: Shown) -> str:
    return "".join(bundle["text/html"] for bundle in shown)


def test_comparisons_show_ratio_interval_verdict_and_twin(results: Results, shown: Shown) -> None:
    summary.show_comparisons(results.compare("updates"), results, caption="HOT")
    text = shown[0]["text/plain"]
    assert "HOT against not HOT" in text
    assert "1.100" in text
    assert "faster: +10.0 %" in text or "not judged" in text
    assert "Twin (the baseline against itself): +0.5 %" in text
    assert "<script" not in html(shown)


def test_trials_show_the_rejected_one_with_its_reason(results: Results, shown: Shown) -> None:
    summary.show_trials(results)
    text = shown[0]["text/plain"]
    assert "All 10 trials as measured, 1 of them not usable" in text
    assert f"exit code: {NASTY}" in text
    assert "<script" not in html(shown)
    assert "&lt;script&gt;" in html(shown)


def test_summary_has_a_row_per_metric_and_a_dash_for_what_is_missing(
    results: Results, shown: Shown
) -> None:
    metrics = ["tps", "hot_branches_pct", "full_page_images_per_transaction"]
    summary.show_summary(results, metrics, caption="Cells")
    text = shown[0]["text/plain"]
    assert "HOT updates of branches (% of updates)" in text
    assert "95.0" in text
    line = next(line for line in text.splitlines() if line.startswith("Full-page"))
    assert line.split()[-2:] == [MISSING, MISSING]


def test_claims_are_confirmed_or_not_testable(results: Results, shown: Shown) -> None:
    claims = [
        Claim("HOT is faster", "2.2", results.ratio("updates", "HOT", "not HOT"), 1.0),
        Claim("8.3 is faster", "2.2", None, 1.5, None, "needs 8.2"),
    ]
    summary.show_claims(claims, results)
    text = shown[0]["text/plain"]
    assert "not testable here" in text
    assert "needs 8.2" in text


def test_provenance_escapes_and_names_what_repeats_the_run(results: Results, shown: Shown) -> None:
    summary.show_provenance(results.record)
    text = shown[0]["text/plain"]
    for word in ("PostgreSQL 18.6", "seed 7", "shared_buffers=128MB", "run r1"):
        assert word in text
    assert "<script" not in html(shown)


def test_embedded_run_is_plain_json(results: Results, shown: Shown) -> None:
    summary.embed(results.record)
    bundle = json.loads(json.dumps(shown[0], allow_nan=False))
    assert len(bundle[summary.RUN_MIME]["trials"]) == 10
    assert "10 trials" in bundle["text/plain"]
