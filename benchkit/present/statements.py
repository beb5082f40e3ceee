"""Latencies of statements: what was published and what was measured, in the same form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchkit.analysis.results import Results
from benchkit.analysis.statements import StatementComparison, compare_statements
from benchkit.present.figures import PALETTE, house_style, show_figure
from benchkit.present.panels import MOST_COLUMNS, empty_panel, panel_grid
from benchkit.present.tables import show_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Longer names would leave no room for bars where two panels stand side by side.
LONGEST_BESIDE = 20
NOTES = (
    "Latency: the mean over the run as pgbench reports it, rounded to 0.001 ms by clients from "
    "9.6 on; here the mean over the rounds that both have.",
    "Differences and ratios are paired by round, with intervals of 95 %.",
    "Verdicts are Holm-adjusted over the rows of this table, each with the twin's figure for the "
    "same statement beside it.",
)


def show_statements(
    results: Results, factor: str, *, level: Any, against: Any, caption: str, **where: Any
) -> None:
    """Show the latency of each statement under two levels, side by side with the difference.

    Parameters and errors are those of
    :func:`~benchkit.analysis.statements.compare_statements`; client-side commands are left out.
    """
    import pandas as pd

    compared = compare_statements(results, factor, level=level, against=against, **where)
    frame = pd.DataFrame([_row(item) for item in compared])
    units = dict.fromkeys(frame.columns[1:4], "ms")
    formats = dict.fromkeys(frame.columns[1:3], ".3f")
    show_table(
        frame, caption=caption, units=units, formats=formats, notes=NOTES, row_header="Statement"
    )


def _row(item: StatementComparison) -> dict[str, Any]:
    difference, estimate = item.difference_ms, item.estimate
    return {
        "Statement": item.statement,
        f"Latency, {item.against}": item.against_ms,
        f"Latency, {item.level}": item.level_ms,
        "Difference": _with_interval("+.3f", difference.value, difference.low, difference.high),
        "Ratio": _with_interval(".3f", estimate.ratio, estimate.low, estimate.high),
        "Verdict": item.verdict.text,
    }


def _with_interval(
    form: str, value: float | None, low: float | None, high: float | None
) -> str | None:
    if value is None:
        return None
    if low is None or high is None:
        return f"{value:{form}} (no interval)"
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def plot_statements(panels: Mapping[str, pd.DataFrame], *, caption: str = "") -> None:
    """Show each statement's latency under two levels as bars, a panel for each table.

    Parameters
    ----------
    panels
        Title -> rows of :func:`~benchkit.analysis.statements.published_statements` or of
        :func:`~benchkit.analysis.statements.comparison_rows`. A table without rows gives a panel
        that says so.

    Raises
    ------
    InputError
        No panel.
    """
    names = [len(name) for table in panels.values() if len(table) for name in table["statement"]]
    most = max((len(table) for table in panels.values()), default=0)
    figure, all_axes = panel_grid(
        list(panels),
        height_in=1.6 + 0.45 * max(most, 2),
        columns=1 if max(names, default=0) > LONGEST_BESIDE else MOST_COLUMNS,
    )
    words = []
    for axes, (title, table) in zip(all_axes, panels.items(), strict=True):
        if table.empty:
            empty_panel(axes)
            words.append(f"{title}: no figures")
            continue
        _draw_bars(axes, table)
        words.append(f"{title}, {_largest(table)}")
    alt = f"Mean latency of each statement. {'. '.join(words)}."
    show_figure(figure, alt=alt, caption=caption)


def _draw_bars(axes: Axes, table: pd.DataFrame) -> None:
    for number, side in enumerate(("against", "level")):
        places = [row + 0.4 * (number - 0.5) for row in range(len(table))]
        bars = axes.barh(
            places,
            table[f"{side}_ms"].tolist(),
            height=0.38,
            color=PALETTE[number],
            label=str(table[side].iloc[0]),
        )
        texts = table[f"{side}_ms"].map("{:.3f}".format, na_action="ignore").fillna("").tolist()
        axes.bar_label(bars, texts, padding=3, fontsize=9)
    axes.set_yticks(range(len(table)), table["statement"].tolist())
    axes.set_ylim(len(table) - 0.4, -0.6)  # the script's first statement on top
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.16)
    axes.set_xlabel("mean latency (ms)")
    with house_style():
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.9 / axes.bbox.height * 72), ncols=2)


def _largest(table: pd.DataFrame) -> str:
    """Tell the total of both, and which statement makes most of the difference."""
    level, against = table["level"].iloc[0], table["against"].iloc[0]
    totals = f"{level} against {against}: all {table['level_ms'].sum():.3f} ms"
    totals += f" against {table['against_ms'].sum():.3f} ms"
    sizes = (table["level_ms"] - table["against_ms"]).abs()
    if sizes.isna().all():
        return totals
    row = table.iloc[int(sizes.argmax())]
    pair = f"{row['level_ms']:.3f} against {row['against_ms']:.3f} ms"
    return f"{totals}; the largest difference is in {row['statement']}, {pair}"
