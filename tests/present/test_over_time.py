from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from benchkit.analysis.results import Results
from benchkit.present.over_time import plot_over_time, show_over_time
from tests.present.conftest import alt

Shown = list[dict[str, Any]]


def test_what_slows_down_is_a_finding_of_its_own(results: Results, shown: Shown) -> None:
    show_over_time(results)
    texts = [bundle["text/plain"] for bundle in shown]
    assert len(texts) == 3
    assert texts[0].startswith("⚠ Warning: Slows down as it goes: updates HOT, -")
    assert "% a minute [" in texts[0]
    assert "In the course of a run" in texts[2]


def test_a_slow_beginning_and_a_stall_are_said(
    results: Results, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame(
        {
            "updates": ["HOT"], "trials": [3], "slope": [0.1], "from": [-1.0], "to": [1.2],
            "warm_up_s": [12], "warm_up": [0.7], "stalled_s": [4], "longest_stall_s": [3],
            "checkpoints": [1.0],
        }
    )  # fmt: skip
    monkeypatch.setattr("benchkit.present.over_time.over_time", lambda *_, **__: frame)
    show_over_time(results)
    texts = [bundle["text/plain"] for bundle in shown]
    assert "Begins otherwise than it goes on: updates HOT, the first 12 s at 0.70" in texts[0]
    assert "Stalls: updates HOT, 4 s in 3 trials" in texts[1]
    assert "No cell slows down for certain" in texts[2]


def test_over_time_states_begin_and_end(results: Results, shown: Shown) -> None:
    plot_over_time(results, colour="updates")
    assert "HOT: 1,100 at the start, 1,067 at the end" in alt(shown[0])


def test_checkpoints_are_drawn_and_counted(results: Results, shown: Shown) -> None:
    for item in results.record.entries:
        item["checkpoints"] = [
            {"began_s": 2.0, "ended_s": None, "cause": "time"},
            {"began_s": 900.0, "ended_s": 901.0, "cause": "after the run"},
        ]
    plot_over_time(results, colour="updates")
    assert "HOT: 1,100 at the start, 1,067 at the end, 3 checkpoints" in alt(shown[0])
    assert "Bars along the bottom: checkpoints." in shown[0]["text/html"]


def test_what_was_not_looked_for_is_not_said_to_be_absent(results: Results, shown: Shown) -> None:
    for path in results.record.directory.glob("series/*"):
        path.unlink()
    show_over_time(results)
    text = shown[-1]["text/plain"]
    assert "There is no second-by-second series" in text
    assert "Not found" not in text
    assert "No cell slows down" not in text
