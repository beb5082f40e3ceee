"""What is found in the course of runs: warm-up, stalls, checkpoints, drift."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchkit.analysis.over_time import checkpoints_of, over_time, stalls_of, warm_up
from benchkit.analysis.results import Results
from tests.analysis.test_results import BUILDS, OLD, entry, record


def runs(levels: np.ndarray) -> list[pd.DataFrame]:
    """Runs second by second, from throughput of shape (runs, seconds)."""
    seconds = np.arange(1.0, levels.shape[1] + 1)
    return [pd.DataFrame({"time_s": seconds, "tps": row}) for row in levels]


def noisy(count: int = 5, seconds: int = 60, sd: float = 0.05, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    levels: np.ndarray = 1000 * np.exp(generator.normal(0, sd, (count, seconds)))
    return levels


def test_a_slow_beginning_is_found_with_its_size() -> None:
    levels = noisy()
    levels[:, :12] *= 0.7
    found = warm_up(runs(levels))
    assert 10 <= found.seconds <= 14
    assert found.ratio.value == pytest.approx(0.7, abs=0.03)


def test_a_beginning_that_is_faster_is_one_too() -> None:
    levels = noisy()
    levels[:, :12] *= 1.3
    assert warm_up(runs(levels)).seconds == pytest.approx(12, abs=2)


def test_a_drift_all_the_way_is_no_warm_up() -> None:
    levels = noisy(sd=0.005) * np.linspace(1.3, 0.7, 60)
    assert warm_up(runs(levels)).seconds == 0


@pytest.mark.parametrize("levels", [noisy(2), noisy(seconds=9), noisy(0)])
def test_too_little_to_say(levels: np.ndarray) -> None:
    assert warm_up(runs(levels)).seconds == 0


def test_a_stalled_second_is_no_error() -> None:
    levels = noisy()
    levels[2, 30] = 0.0
    levels[3, 31] = np.nan
    assert warm_up(runs(levels)).seconds == 0


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_even_runs_have_no_warm_up_but_for_chance(correlation: float) -> None:
    generator = np.random.default_rng(7)
    alarms = 0
    for _ in range(400):
        noise = generator.normal(0, 0.1, (5, 60))
        for second in range(1, 60):
            fresh = noise[:, second] * np.sqrt(1 - correlation**2)
            noise[:, second] = correlation * noise[:, second - 1] + fresh
        level = generator.normal(0, 0.1, (5, 1))
        alarms += warm_up(runs(1000 * np.exp(noise + level))).seconds > 0
    assert alarms <= 0.05 * 400 + 9  # two standard errors


@pytest.mark.parametrize(
    ("tps", "expected"),
    [
        ([100, 90, 110, 100], []),
        ([100, 0, 0, 100, 5, 100, 100], [2, 1]),
        ([0, 100, 100, float("nan")], [1, 1]),
        ([0, 0, 0, 0], []),
        ([100, 0], []),
    ],
)
def test_stalls_are_seconds_far_below_the_median(tps: Sequence[float], expected: list[int]) -> None:
    assert stalls_of(pd.DataFrame({"tps": tps})) == expected


def test_a_row_a_cell(tmp_path: Path) -> None:
    (tmp_path / "series").mkdir()
    entries = []
    for number in (1, 2, 3):
        marked = [{"began_s": 5.0, "ended_s": 9.5, "cause": "time"}]
        item = entry(OLD, number, 900.0, checkpoints=marked)
        entries.append(item)
        levels = noisy(1, 20, seed=number)[0]
        levels[10] = 1.0
        frame = pd.DataFrame({"time_s": np.arange(1.0, 21), "tps": levels})
        frame.to_parquet(tmp_path / "series" / f"{item['key']}.parquet")
    results = Results(record(BUILDS, entries, directory=tmp_path))
    frame = over_time(results)
    assert frame["build"].tolist() == ["old", "new"]
    assert frame["trials"].tolist() == [3, 0]
    assert frame["stalled_s"].tolist() == [3, 0]
    assert frame["longest_stall_s"].tolist() == [1, 0]
    assert checkpoints_of(results, OLD) == [(5.0, 9.5)] * 3
    before = [{"began_s": None, "ended_s": 2.0, "cause": ""}]
    results.record.entries[0]["checkpoints"] = before
    assert checkpoints_of(results, OLD)[0] == (0.0, 2.0)
