"""A run that ends before its last round because enough is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchkit.experiment.ledger import Record, read_record
from benchkit.experiment.run import Experiment
from benchkit.postgres.builds import Build
from benchkit.workload.pgbench import Workload


class AfterTwo:
    """Says stop after the second round."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def describe(self, rounds: int) -> Mapping[str, Any]:
        """Tell the looks."""
        return {"looks": [2, rounds]}

    def reason_to_stop(self, record: Record, rounds_done: int, spent_s: float) -> str:
        """Stop after two rounds."""
        assert spent_s > 0
        self.asked.append((rounds_done, len(record.entries)))
        return "it is enough" if rounds_done == 2 else ""


@pytest.mark.server
@pytest.mark.slow
def test_a_rule_ends_the_run_which_is_then_whole(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHKIT_RUNS", str(tmp_path))
    rule = AfterTwo()
    experiment = Experiment(
        "early",
        factors={"clients": [1]},
        workload=Workload(scale=1, duration_s=1, script="select-only"),
        rounds=4,
        build=build,
        client=build,
        until=rule,
    )
    assert "8 trials at the most" in experiment.describe()
    record = experiment.run(watch=lambda standing: None)
    assert rule.asked == [(1, 2), (2, 4)]
    assert record.stopped == {"rounds": 2, "reason": "it is enough"}
    assert (len(record.entries), record.planned, record.complete) == (4, 4, True)
    again = read_record(record.directory)
    assert (again.stopped, again.complete) == (record.stopped, True)
    another = experiment.run(watch=lambda standing: None)
    assert another.directory != record.directory  # nothing was left to go on with
