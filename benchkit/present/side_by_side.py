"""Reports of several machines, shown side by side, with whether they may be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchkit.analysis.comparable import differences, may_compare, one_machine
from benchkit.analysis.metrics import METRICS
from benchkit.analysis.side_by_side import (
    REPORT,
    compare_reports,
    comparison_notes,
    factors_of,
    side_by_side,
)
from benchkit.analysis.stats import format_ratio
from benchkit.errors import Faults
from benchkit.experiment.ledger import Record
from benchkit.present.notes import show_note
from benchkit.present.tables import show_table
from benchkit.units import by_size

if TYPE_CHECKING:
    import pandas as pd

Records = Mapping[str, Record]


def show_comparability(records: Records) -> None:
    """Show whether reports may be compared, then all in which they differ, the worst first."""
    import pandas as pd

    if len(records) < 2:
        whose = f" of {next(iter(records))}" if records else ""
        show_note(
            f"This is one machine's half{whose}. Run the notebook on another machine and give "
            "both executed notebooks: then the two are shown side by side here."
        )
        return
    found = differences(records)
    judged = may_compare(found)
    show_note(judged.text, judged.kind)
    if same := one_machine(records):
        show_note(same, "warning")
    if found:
        rows = [{"What": d.what, **d.values, "Weight": d.weight} for d in found]
        caption = "In what the reports differ, the worst first"
        show_table(pd.DataFrame(rows), caption=caption, row_header="What")


def show_side_by_side(
    records: Records, *, rows: str, columns: str, caption: str, metric: str = "tps"
) -> None:
    """Show a metric with a row per report and level of a factor, a column per level of another.

    Means are without the highest and the lowest trial, as the published protocol has it; where
    no cell has three trials, of all trials. Other factors stay at their first levels.

    Parameters
    ----------
    records
        Label -> record.
    rows, columns
        Factors.
    metric
        A name from ``benchkit.analysis.metrics.METRICS``.

    Raises
    ------
    InputError
        An unknown factor or metric.
    """
    _check_factors(records, rows, columns)
    frame = side_by_side(records, metric)
    kind = "Means without the highest and the lowest trial"
    if frame["mean"].isna().all():
        frame = side_by_side(records, metric, trim=False)
        kind = "Means of all trials, too few to leave out the highest and the lowest"
    frame, held = _first_levels(frame, rows, columns)
    notes = [f"{kind}, with intervals of 95 %. A dash: too few usable trials.", *held]
    show_table(_crossed(frame, rows, columns, metric), caption=caption, notes=notes)


def show_report_comparisons(
    records: Records, *, against: str, caption: str, metric: str = "tps"
) -> None:
    """Show the ratios of the reports to one of them, with intervals and verdicts in words.

    Parameters and errors are those of :func:`~benchkit.analysis.side_by_side.compare_reports`.
    """
    import pandas as pd

    rows = [
        {
            "Report": f"{item.level} against {item.against}",
            **item.context,
            "Difference": format_ratio(item.estimate),
            "Verdict": item.verdict.text,
        }
        for item in compare_reports(records, against, metric)
    ]
    how = "Intervals of 95 %, not paired; verdicts Holm-adjusted over the rows."
    notes = [how, *comparison_notes(records, metric)]
    show_table(pd.DataFrame(rows), caption=caption, notes=notes)


def _check_factors(records: Records, *names: str) -> None:
    faults = Faults()
    known = factors_of(records)
    for name in names:
        if name not in known:
            faults.unknown("factor", name, known, kind="factor")
    faults.raise_any()


def _first_levels(frame: pd.DataFrame, rows: str, columns: str) -> tuple[pd.DataFrame, list[str]]:
    """Keep each report's first level of the factors that the table does not show."""
    held = []
    for name in frame.columns[: frame.columns.get_loc(REPORT)]:
        if name not in (rows, columns) and frame[name].nunique() > 1:
            first = frame.groupby(REPORT, sort=False)[name].transform("first")
            frame = frame[first.isna() | (frame[name] == first)]
            held.append(f"{name} is at {', '.join(first.dropna().drop_duplicates())}.")
    return frame, held


def _crossed(frame: pd.DataFrame, rows: str, columns: str, metric: str) -> pd.DataFrame:
    import pandas as pd

    digits = METRICS[metric].digits
    texts: dict[tuple[str, str, str], str | None] = {}
    for _, row in frame.iterrows():
        texts[row[REPORT], row[rows], row[columns]] = _cell_text(row, digits)
    across = by_size(frame[columns].dropna())
    lines: list[dict[str, Any]] = [
        {"Report": report, rows: level}
        | {f"{columns} {label}": texts.get((report, level, label)) for label in across}
        for report in dict.fromkeys(frame[REPORT])
        for level in by_size(frame[rows].dropna())
    ]
    return pd.DataFrame(lines)


def _cell_text(row: Mapping[str, Any] | pd.Series[Any], digits: int) -> str | None:
    import pandas as pd

    mean, low, high = (
        None if pd.isna(row[name]) else f"{row[name]:,.{digits}f}"
        for name in ("mean", "low", "high")
    )
    return mean if mean is None or low is None else f"{mean} [{low}, {high}]"
