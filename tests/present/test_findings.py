from __future__ import annotations

from typing import Any

from benchkit.measure.finding import Finding, worst_first
from benchkit.present.findings import show_findings

Shown = list[dict[str, Any]]

INFO = Finding(severity="info", name="a", evidence="seen", fix="nothing")
BAD = Finding(severity="bad", name="fsync is off", evidence="seen", fix="on", reference="manual")


def test_the_worst_is_on_top_and_each_is_there_once() -> None:
    warning = Finding(severity="warning", name="b", evidence="x", fix="y")
    assert worst_first([INFO, warning, BAD, INFO]) == [BAD, warning, INFO]


def test_findings_come_with_what_to_do_the_bad_ones_in_red(shown: Shown) -> None:
    show_findings([BAD, INFO])
    markup, text = shown[0]["text/html"], shown[0]["text/plain"]
    assert markup.index("Problem") < markup.index("<table")
    assert "fsync is off: seen. on (manual)" in markup
    assert text.splitlines() == [
        "What may mislead, found before measuring",
        "BAD      fsync is off: seen",
        "         What to do: on (manual)",
        "INFO     a: seen",
        "         What to do: nothing",
    ]


def test_alike_findings_are_one_row_and_long_ones_fit_a_terminal(shown: Shown) -> None:
    seen = [
        Finding(severity="info", name="a", evidence=f"build {n} " + "word " * 20, fix="nothing")
        for n in (1, 2)
    ]
    show_findings(seen)
    lines = shown[0]["text/plain"].splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("INFO") for line in lines) == 1
    assert "build 2" in shown[0]["text/plain"]


def test_nothing_found_is_said(shown: Shown) -> None:
    show_findings([])
    assert "found nothing" in shown[0]["text/plain"]
