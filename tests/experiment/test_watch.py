"""What a watcher sees in plain lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.experiment.watch import Standing, outcome, print_lines


def entry(status: str = "usable", **changes: Any) -> dict[str, Any]:
    return {
        "status": status,
        "gates": [],
        "error": "",
        "result": {"comparable_tps": 1234.5},
    } | changes


def gate(message: str, *, rejects: bool) -> dict[str, Any]:
    return {"name": "x", "rejects": rejects, "message": message}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (entry(), "1,234 tps"),
        (entry(gates=[gate("busy", rejects=False)]), "1,234 tps"),
        # A rejected trial has a throughput, which is no result.
        (
            entry("rejected", gates=[gate("late", rejects=True), gate("busy", rejects=False)]),
            "rejected: late",
        ),
        (entry("failed", result={}, error="ServerError: no\n  FATAL"), "failed: ServerError: no"),
    ],
)
def test_only_a_trial_that_may_be_trusted_shows_its_throughput(
    recorded: dict[str, Any], expected: str
) -> None:
    assert outcome(recorded) == expected


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    place = Path("runs/x")
    print_lines(
        Standing(event="start", done=0, planned=2, left_s=95, directory=place, notes=("a note",))
    )
    print_lines(Standing(event="step", done=0, planned=2, left_s=95, step="run"))
    print_lines(Standing(event="trial", done=1, planned=2, left_s=5, cell="a=1", entry=entry()))
    print_lines(Standing(event="end", done=2, planned=2, left_s=0))
    assert capsys.readouterr().out.splitlines() == [
        "a note",
        "runs/x: 0/2 trials, 1 min 35 s left",
        "1/2 trials, 5 s left: a=1: 1,234 tps",
    ]
    assert Standing(event="end", done=2, planned=2, left_s=0).line() == "2/2 trials"
