"""How the throughput changes in the course of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchkit.analysis.results import Results
from benchkit.analysis.stats import drift_per_minute, mean_interval

if TYPE_CHECKING:
    import pandas as pd

SHORTEST_SLOPE_S = 8


def drift(results: Results, **where: Any) -> pd.DataFrame:
    """Give, per cell, how much the throughput changes in the course of a run.

    The slope of each trial's throughput over time, in per cent a minute, and over the trials
    its mean with a t interval: the spread between trials counts, not only that inside one.
    Trials of less than eight seconds have no slope: it would be noise, made large.
    """
    import pandas as pd

    rows = []
    for levels in results.cells(**where):
        slopes = [
            drift_per_minute(part["time_s"].tolist(), part["tps"].tolist()).value
            for _, part in results.series_of(levels).groupby("key")
            if part["time_s"].max() >= SHORTEST_SLOPE_S - 0.5
        ]
        interval = mean_interval(slopes, log=False)
        columns = {"slope": interval.value, "from": interval.low, "to": interval.high}
        rows.append(dict(levels) | {"trials": len(slopes)} | columns)
    frame = pd.DataFrame(rows)
    return frame.drop(columns=[n for n in results.factors if frame[n].nunique() == 1])
