"""The table of waits, as a reader gets it."""

from __future__ import annotations

from typing import Any

from benchkit.analysis.results import Results
from benchkit.present.tables import MISSING
from benchkit.present.waits import show_waits


def sample(results: Results, level: str, events: dict[str, int]) -> None:
    for entry in results.record.entries:
        if entry["levels"]["updates"] == level:
            entry["waits"] = {"looks": 3, "events": events}


def test_waits_have_a_row_per_event_and_a_dash_where_nothing_is_told(
    results: Results, shown: list[dict[str, Any]]
) -> None:
    sample(results, "HOT", {"CPU": 7, "Lock:<tuple>": 3})
    show_waits(results, "Waits of the cells")
    text = shown[0]["text/plain"]
    line = next(line for line in text.splitlines() if line.startswith("CPU"))
    assert line.split() == ["CPU", "2.333", MISSING]
    assert "sampled once a second" in text
    assert "waiting for a processor" in text
    assert "CPU or untold" not in text
    assert "&lt;tuple&gt;" in shown[0]["text/html"]


def test_servers_that_do_not_tell_all_waits_are_explained(
    results: Results, shown: list[dict[str, Any]]
) -> None:
    sample(results, "HOT", {"CPU": 6})
    sample(results, "not HOT", {"CPU or untold": 6})
    show_waits(results, "Waits")
    assert "servers before 10 do not tell all waits" in shown[0]["text/plain"]
