"""Tidy tables of what was measured and of what was published, in the same form.

Frames of plain numbers, a row per figure: it does not matter who measured them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from benchkit.analysis.metrics import METRICS
from benchkit.analysis.results import Comparison, Results
from benchkit.analysis.stats import mean_interval
from benchkit.errors import Fault, Faults, InputError
from benchkit.experiment.design import label_of
from benchkit.units import by_size

if TYPE_CHECKING:
    import pandas as pd


def means(results: Results, metric: str = "tps", **where: Any) -> pd.DataFrame:
    """Give a row per cell with the mean of one metric and its interval; the twin is left out.

    Parameters
    ----------
    metric
        A name from ``benchkit.analysis.metrics.METRICS``, in its unit.
    **where
        Only the cells with these levels.

    Returns
    -------
    DataFrame
        A column per factor, with labels as text; one named after `metric`, ``low`` and ``high``
        (95 %; NaN below three trials) and ``trials``. Sizes are in order of size. The mean of
        ``tps`` is geometric.

    Raises
    ------
    InputError
        An unknown metric, factor or level, or no such cell was planned.
    """
    import pandas as pd

    if metric not in METRICS:
        faults = Faults()
        faults.unknown("metric", metric, METRICS, kind="metric")
        faults.raise_any()
    ranks = {name: by_size(levels) for name, levels in results.factors.items()}
    rows = []
    cells = results.cells(**where)
    for levels in sorted(cells, key=lambda cell: [ranks[n].index(cell[n]) for n in ranks]):
        values = list(results.values(levels, metric).values())
        mean, low, high = mean_interval(values, log=metric == "tps")
        figures = {metric: mean, "low": low, "high": high}
        rows.append(dict(levels) | figures | {"trials": len(values)})
    return pd.DataFrame(rows).astype(dict.fromkeys([metric, "low", "high"], float))


def relative(
    frame: pd.DataFrame, value: str, *, by: Sequence[str], **baseline: Any
) -> pd.DataFrame:
    """Divide each row's figure by that of its baseline.

    Parameters
    ----------
    frame
        From :func:`means`, or published.
    value
        The column to divide; ``low`` and ``high`` are divided by the same number where they are
        there. They remain the interval of the one mean: that of a ratio comes from
        :meth:`Results.compare <benchkit.analysis.results.Results.compare>`.
    by
        The columns in which a row and its baseline agree: ``["clients"]``.
    **baseline
        The baseline's levels: ``build="9.3"``. Compared as labels: 8 and "8" are the same.

    Returns
    -------
    DataFrame
        A copy; NaN where there is no baseline for a row.

    Raises
    ------
    InputError
        An unknown column, no baseline named, or several rows are the baseline of one.
    """
    _check_columns(frame, [value, *by, *baseline])
    if not baseline:
        raise InputError([Fault(where="relative", problem='names no baseline, as build="9.3"')])
    labels = {name: frame[name].map(label_of) for name in {*by, *baseline}}
    chosen = [
        all(labels[name].iloc[row] == label_of(level) for name, level in baseline.items())
        for row in range(len(frame))
    ]
    keys = [tuple(labels[name].iloc[row] for name in by) for row in range(len(frame))]
    base: dict[tuple[str, ...], float] = {}
    for key, figure, is_base in zip(keys, frame[value], chosen, strict=True):
        if is_base and key in base:
            place = ", ".join(f"{name}={label}" for name, label in zip(by, key, strict=True))
            problem = f"several rows are the baseline of {place or 'all'}: name more columns"
            raise InputError([Fault(where="by", problem=problem)])
        if is_base:
            base[key] = float(figure)
    divisors = [base.get(key, float("nan")) for key in keys]
    columns = [name for name in (value, "low", "high") if name in frame]
    return frame.assign(**{name: frame[name].astype(float) / divisors for name in columns})


def ratios(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Give a row per comparison of :meth:`Results.compare`, paired by round.

    Returns
    -------
    DataFrame
        A column per factor that tells the comparisons apart, ``level``, ``against``, ``ratio``,
        ``low``, ``high`` (95 %) and ``verdict``, the kind of it: "faster", "undecided".
    """
    import pandas as pd

    rows = [
        dict(item.context)
        | {"level": item.level, "against": item.against, "ratio": item.estimate.ratio}
        | {"low": item.estimate.low, "high": item.estimate.high, "verdict": item.verdict.kind}
        for item in comparisons
    ]
    context = dict.fromkeys(name for item in comparisons for name in item.context)
    known = ["level", "against", "ratio", "low", "high", "verdict"]
    frame = pd.DataFrame(rows, columns=[*context, *known])
    return frame.astype(dict.fromkeys(["ratio", "low", "high"], float))


def pivot(frame: pd.DataFrame, *, rows: str, columns: str, value: str) -> pd.DataFrame:
    """Bring a tidy table into the published form: one column's levels down, another's across.

    Sizes and numbers are in order of size ("16" before "128"), other labels as they come. The
    axes are named after the columns. NaN: the table has no such row.

    Raises
    ------
    InputError
        An unknown column, or two figures for one place.
    """
    _check_columns(frame, [rows, columns, value])
    twice = frame[frame.duplicated([rows, columns])]
    faults = Faults()
    for row, column in dict.fromkeys(zip(twice[rows], twice[columns], strict=True)):
        faults.add("pivot", f"more than one {value} with {rows}={row}, {columns}={column}")
    faults.raise_any()
    wide = frame.pivot(index=rows, columns=columns, values=value)
    ordered = wide.reindex(index=by_size(frame[rows]), columns=by_size(frame[columns]))
    return ordered.rename_axis(index=rows, columns=columns)


def _check_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    faults = Faults()
    for name in names:
        if name not in frame:
            faults.unknown("frame", name, map(str, frame.columns), kind="column")
    faults.raise_any()
