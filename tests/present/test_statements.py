"""Tables and bars of the latencies of statements."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from benchkit.analysis.published import read_published
from benchkit.analysis.results import Results
from benchkit.analysis.statements import compare_statements, comparison_rows, published_statements
from benchkit.errors import InputError
from benchkit.present import statements
from tests.present.conftest import NASTY, alt

Shown = list[dict[str, Any]]


def measured(results: Results) -> Results:
    """The record with latencies added: END takes 1 ms less with HOT, another statement the same."""
    for item in results.record.entries:
        number, saved = item["round"], 1.0 if item["levels"]["updates"] == "HOT" else 0.0
        latencies = {"\\set aid 1": 0.001, f"{NASTY};": 0.2, "END;": 2 + 0.1 * number - saved}
        item["result"]["statements"] = [
            {"script_index": 0, "latency_ms": round(ms, 3), "text": text}
            for text, ms in latencies.items()
        ]
    return results


def test_the_table_shows_both_latencies_the_difference_and_a_verdict(
    results: Results, shown: Shown
) -> None:
    statements.show_statements(
        measured(results), "updates", level="HOT", against="not HOT", caption="Where"
    )
    text = shown[0]["text/plain"]
    head = text.splitlines()[2].split("  ")
    assert [title for title in map(str.strip, head) if title][:3] == [
        "Statement",
        "Latency, not HOT (ms)",
        "Latency, HOT (ms)",
    ]
    end = next(line for line in text.splitlines() if line.startswith("END"))
    for part in ("2.200", "1.200", "-1.000 [-1.000, -1.000]", "0.545 [", "faster: -45"):
        assert part in end
    assert "no difference" in text
    assert "set aid" not in text
    for words in ("rounded to 0.001 ms", "paired by round", "Holm"):
        assert words in text
    assert "<script" not in shown[0]["text/html"]


def test_without_latencies_the_table_is_refused(results: Results, shown: Shown) -> None:
    with pytest.raises(InputError, match="per_statement"):
        statements.show_statements(
            results, "updates", level="HOT", against="not HOT", caption="Where"
        )
    assert shown == []


def test_bars_of_published_and_measured_state_the_largest_difference(
    results: Results, shown: Shown
) -> None:
    table = read_published("release_comparison_statements")
    compared = compare_statements(measured(results), "updates", level="HOT", against="not HOT")
    statements.plot_statements(
        {
            "published": published_statements(table, "9.3.5", "9.4b3"),
            "here": comparison_rows(compared),
            "elsewhere": pd.DataFrame(),
        }
    )
    assert alt(shown[0]) == (
        "Mean latency of each statement. published, 9.4b3 against 9.3.5: all 1.217 ms against "
        "1.238 ms; the largest difference is in END, 0.358 against 0.390 ms. here, HOT against "
        "not HOT: all 1.400 ms against 2.400 ms; the largest difference is in END, 1.200 against "
        "2.200 ms. elsewhere: no figures."
    )
