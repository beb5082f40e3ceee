from __future__ import annotations

from typing import Any

from benchkit.analysis.bisect import Found
from benchkit.present.search import search_words, show_search
from tests.analysis.test_bisect import CHANGED_AT_D, entry, searched
from tests.present.conftest import NASTY

Shown = list[dict[str, Any]]


def test_the_answer_stands_on_top_with_its_certainty(shown: Shown) -> None:
    show_search(Found(searched(CHANGED_AT_D)))
    note, table, figure = (bundle["text/plain"] for bundle in shown)
    for text in (note, figure):
        assert "The first changed one is d (Slow): throughput -" in text
        assert "(probability above 99 %; 48 trials)" in text
    assert "The last one without the change is c." in note
    assert "48 trials of 4 of 5 candidates" in table
    assert '<img alt="The first changed one' in shown[2]["text/html"]


def test_what_could_not_be_measured_is_said(shown: Shown) -> None:
    blocks = [{"a": 1000.0 + n, "b": 1000.0, "e": 900.0 + n} for n in range(12)]
    record = searched(
        blocks, stopped={"rounds": 12, "reason": "known", "unbuilt": {"c": NASTY, "d": "no"}}
    )
    show_search(Found(record))
    note = shown[0]["text/plain"]
    assert "The last one without the change is b; c, d in between could not be measured" in note
    assert f"Left out: c: {NASTY}" in shown[1]["text/plain"]
    assert "<script" not in "".join(bundle["text/html"] for bundle in shown)


def test_nothing_changed_and_undecided_are_said_as_such() -> None:
    same = [{"a": 1000.0 + n, "e": 1000.0 + n} for n in range(12)]
    words = search_words(Found(searched(same)))
    assert words.startswith("Nothing changed: no change of throughput of 5 % or more between a and")
    stopped = {"rounds": 1, "reason": "the limit of 4 trials was reached"}
    words = search_words(Found(searched(CHANGED_AT_D[:1], stopped=stopped)))
    assert words.startswith("Undecided: with 95 % probability")
    assert "the limit of 4 trials was reached" in words


def test_a_search_that_measured_nothing_usable_is_undecided() -> None:
    words = search_words(Found(searched([], entry("a", 1, 1.0, status="failed", error="no"))))
    assert words.startswith("Undecided: with 95 % probability nothing changed, or the first")
