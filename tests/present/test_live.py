from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.experiment.run import Standing, print_lines
from benchkit.present import live
from benchkit.workload.progress import Progress


def standing(event: str, done: int, **more: Any) -> Standing:
    return Standing(event=event, done=done, planned=20, left_s=180, **more)


def test_outside_a_notebook_there_are_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert live.live() is print_lines
    entry = {"result": {"comparable_tps": 1234.5}, "status": "usable"}
    print_lines(standing("trial", 7, cell="HOT", entry=entry))
    assert capsys.readouterr().out == "7/20 trials, 3 min left: HOT: 1,234 tps\n"


def test_markup_says_where_it_stands_and_escapes() -> None:
    second = Progress(time_s=1.0, tps=99.0, latency_ms=None, latency_stddev_ms=None)
    now = standing("second", 7, cell="<b>x</b>", step="run", round_number=2, progress=second)
    text = live._markup(now, "last one")
    assert "7/20 trials, 3 min left" in text
    assert "&lt;b&gt;x&lt;/b&gt; (run, 99 transactions/s)" in text
    assert "width:35.0%" in text


def test_a_rejected_trial_is_not_shown_as_a_number() -> None:
    gates = [{"rejects": True, "message": "too late"}]
    entry = {"result": {"comparable_tps": 5.0}, "status": "rejected", "gates": gates}
    display = live._Display()
    display._show = lambda standing: None  # type: ignore[method-assign]
    display(standing("trial", 1, cell="c", entry=entry))
    assert display.last == "c: rejected: too late"


def test_the_runner_is_told_in_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress"
    monkeypatch.setenv(live.PROGRESS_FILE, str(path))
    failed = {"result": {}, "status": "failed", "gates": [], "error": "no"}
    live._tell_runner(standing("start", 0))
    live._tell_runner(standing("trial", 1, cell="c", entry=failed))
    assert path.read_text() == "0/20 trials, 3 min left\n1/20 trials, 3 min left: c: failed: no\n"
