"""How the throughput changes in the course of a run: drift, warm-up, stalls, checkpoints.

Nothing is cut from a result: what is found is shown beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from benchkit.analysis.results import Results
from benchkit.analysis.stats import Interval, drift_per_minute, mean_interval

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHORTEST_SLOPE_S = 8
SHORTEST_WARM_UP_RUN_S = 10
STALL_SHARE = 0.1  # a second with less than this share of its run's median throughput
# The end of a warm-up is chosen where it looks most like one, so its interval is asked for more.
_WARM_UP_ERROR = 0.01


class WarmUp(NamedTuple):
    """The beginning of a cell's runs that is not like the rest.

    `seconds` 0: none was found. `ratio`: its throughput to that of the rest, with its interval.
    """

    seconds: int
    ratio: Interval


def over_time(results: Results, **where: Any) -> pd.DataFrame:
    """Give, per cell, how its runs went over time.

    Returns
    -------
    pandas.DataFrame
        The factors that differ; ``trials``; ``slope``, ``from``, ``to`` (%/min, over the trials;
        the error of 5 % is shared among the cells); ``warm_up_s``; ``warm_up`` (throughput in it
        as a ratio to the rest); ``stalled_s`` (in all trials together); ``longest_stall_s``;
        ``checkpoints`` (a trial, None where the server does not count them).
    """
    import pandas as pd

    rows = []
    cells = results.cells(**where)
    for levels in cells:
        runs = list(_runs(results, levels))
        slope, warm = (
            drift(runs, confidence=1 - 0.05 / len(cells)),
            warm_up(runs, error=_WARM_UP_ERROR / len(cells)),
        )
        stalls = [length for run in runs for length in stalls_of(run)]
        columns = {
            "trials": len(runs),
            "slope": slope.value,
            "from": slope.low,
            "to": slope.high,
            "warm_up_s": warm.seconds,
            "warm_up": warm.ratio.value,
            "stalled_s": sum(stalls),
            "longest_stall_s": max(stalls, default=0),
            "checkpoints": _checkpoints(results, levels),
        }
        rows.append(dict(levels) | columns)
    frame = pd.DataFrame(rows)
    return frame.drop(columns=[n for n in results.factors if frame[n].nunique() == 1])


def _runs(results: Results, levels: dict[str, str]) -> Iterator[pd.DataFrame]:
    for _, part in results.series_of(levels).groupby("key"):
        yield part.sort_values("time_s")


def drift(runs: list[pd.DataFrame], *, confidence: float = 0.95) -> Interval:
    """Give the slope of throughput over time in %/min: its mean over runs with a t interval.

    The spread between runs counts, not only that inside one. Runs of less than eight seconds have
    no slope: it would be noise, made large.
    """
    slopes = [
        drift_per_minute(run["time_s"].tolist(), run["tps"].tolist()).value
        for run in runs
        if run["time_s"].max() >= SHORTEST_SLOPE_S - 0.5
    ]
    return mean_interval(slopes, confidence, log=False)


def warm_up(runs: list[pd.DataFrame], *, error: float = _WARM_UP_ERROR) -> WarmUp:
    """Find the beginning of runs that is not like the rest.

    Notes
    -----
    Where to cut is chosen by MSER on the mean of all runs (White, Simulation 69, 323-334, 1997):
    the cut after which the mean of what is left is known best. If it is half of the run there is
    no steady part, and nothing is said; nor if the interval over the runs of the ratio of
    beginning to rest holds 1. Even runs are called so in less than 5 %,
    by simulation (tests/analysis/test_over_time.py).
    """
    import numpy as np

    length = min((len(run) for run in runs), default=0)
    if length < SHORTEST_WARM_UP_RUN_S or len(runs) < 3:
        return WarmUp(0, Interval())
    levels = np.array([run["tps"].to_numpy(dtype=float)[:length] for run in runs])
    if not np.isfinite(levels).all() or (levels <= 0).any():
        levels = np.maximum(np.nan_to_num(levels), 1.0)  # a stalled second
    logs = np.log(levels)
    cut = _mser(logs.mean(axis=0))
    if not cut:
        return WarmUp(0, Interval())
    ratios = np.exp(logs[:, :cut].mean(axis=1) - logs[:, cut:].mean(axis=1))
    interval = mean_interval(ratios.tolist(), confidence=1 - error)
    if interval.low is None or interval.high is None or interval.low <= 1 <= interval.high:
        return WarmUp(0, Interval())
    return WarmUp(cut, interval)


def _mser(values: Floats) -> int:
    """Give the cut that MSER chooses in the first half, 0 for none: also if it is at its end."""
    import numpy as np

    count = values.size
    errors = [values[cut:].var() / (count - cut) for cut in range(count // 2 + 1)]
    cut = int(np.argmin(errors))
    return cut if cut < count // 2 - 1 else 0


def stalls_of(run: pd.DataFrame) -> list[int]:
    """List the lengths of a run's stalls, in seconds (progress lines)."""
    import numpy as np

    rates = np.nan_to_num(run["tps"].to_numpy(dtype=float))
    if rates.size < 3:
        return []
    stalled = rates < STALL_SHARE * np.median(rates)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], stalled, [False]]).astype(int)))
    return [int(length) for length in edges[1::2] - edges[::2]]


def checkpoints_of(results: Results, levels: dict[str, str]) -> list[tuple[float, float | None]]:
    """List the checkpoints in a cell's usable trials: begin and end in seconds of the run.

    Where a checkpoint began before the run, at 0; the end is None where it came after the run.
    """
    chosen = set(results.series_of(levels)["key"])
    return [
        (max(0.0, item["began_s"] or 0.0), item["ended_s"])
        for entry in results.record.entries
        if entry["key"] in chosen
        for item in entry.get("checkpoints") or []
    ]


def _checkpoints(results: Results, levels: dict[str, str]) -> float | None:
    """Give the mean number of checkpoints a trial, by the server's own count."""
    counts = list(results.values(levels, "checkpoints").values())
    return sum(counts) / len(counts) if counts else None
