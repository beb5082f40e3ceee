"""How runs went over time: the curve with its checkpoints, and a table of what is not even."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchkit.analysis.over_time import checkpoints_of, over_time
from benchkit.analysis.results import Results
from benchkit.analysis.stats import FEWEST_ROUNDS
from benchkit.present.figures import PALETTE, new_figure, show_figure
from benchkit.present.notes import show_note
from benchkit.present.plots import axis_title, legend
from benchkit.present.tables import show_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_TITLES = {
    "warm_up_s": "warm-up",
    "warm_up": "throughput in it",
    "stalled_s": "stalled",
    "longest_stall_s": "longest stall",
    "checkpoints": "checkpoints a trial",
}
# What is left out together where no cell has it, and what it is then called.
_WITH = {"warm_up_s": ["warm_up"], "stalled_s": ["longest_stall_s"], "checkpoints": []}
_NOUNS = {
    "warm_up_s": "a warm-up (in runs of 10 s and more)",
    "stalled_s": "stalls",
    "checkpoints": "checkpoints",
}


def show_over_time(results: Results, **where: str) -> None:
    """Show what is not even in the course of the runs of each cell, and say what that means."""
    frame = over_time(results, **where)
    labels = [name for name in results.factors if name in frame]
    for text in _found(frame, labels):
        show_note(text, "warning")
    empty = [name for name in ("warm_up_s", "stalled_s", "checkpoints") if not frame[name].any()]
    shown = frame.drop(columns=[column for name in empty for column in (name, *_WITH[name])])
    shown = shown.rename(columns=_TITLES)
    units = dict.fromkeys(["slope", "from", "to"], "%/min")
    units |= dict.fromkeys(["warm-up", "stalled", "longest stall"], "s")
    units |= {"throughput in it": "of the rest"}
    formats = {"throughput in it": ".2f", "checkpoints a trial": ".1f"}
    show_table(
        shown,
        caption="In the course of a run",
        units={name: unit for name, unit in units.items() if name in shown},
        formats={name: form for name, form in formats.items() if name in shown},
        notes=_notes(frame, empty),
    )


def _found(frame: pd.DataFrame, labels: list[str]) -> list[str]:
    """Say which cells slow down, begin otherwise than they go on, or stall."""
    texts = []
    for row in frame.to_dict("records"):
        cell = ", ".join(f"{name} {row[name]}" for name in labels) or "the cell"
        if row["to"] is not None and row["to"] < 0:
            texts.append(
                f"Slows down as it goes: {cell}, {row['slope']:+.1f} % a minute "
                f"[{row['from']:+.1f}, {row['to']:+.1f}]. Its mean depends on how long it ran."
            )
        if row["warm_up_s"]:
            texts.append(
                f"Begins otherwise than it goes on: {cell}, the first {row['warm_up_s']} s at "
                f"{row['warm_up']:.2f} of the rest. They are in its mean: a warm-up (warm_up_s) "
                "would keep them out."
            )
        if row["stalled_s"]:
            texts.append(
                f"Stalls: {cell}, {row['stalled_s']} s in {row['trials']} trials below a tenth of "
                f"their median, the longest {row['longest_stall_s']} s."
            )
    return texts


def _notes(frame: pd.DataFrame, empty: list[str]) -> list[str]:
    if not frame["trials"].any():
        return ["There is no second-by-second series of these trials: nothing was looked for."]
    notes = [
        "Slope: change of throughput, its interval over the trials (95 % for all cells together)."
    ]
    if frame["slope"].isna().all():
        notes.append("The trials are too short for a slope: eight seconds are needed.")
    elif frame["to"].isna().all():
        notes.append(f"Fewer than {FEWEST_ROUNDS} trials a cell: no interval of a slope.")
    elif not (frame["to"] < 0).any():
        notes.append("No cell slows down for certain as it goes on.")
    looked_for = [name for name in empty if frame[name].notna().all()]
    if frame["trials"].max() < FEWEST_ROUNDS:
        looked_for = [name for name in looked_for if name != "warm_up_s"]
    if looked_for:
        notes.append(f"Not found in any cell: {', '.join(_NOUNS[name] for name in looked_for)}.")
    return notes


def plot_over_time(results: Results, *, colour: str, caption: str = "", **where: str) -> None:
    """Show throughput second by second: every round thin, the mean over rounds thick.

    Bars along the bottom are checkpoints, one row a cell, where the servers logged them.
    """
    figure, axes = new_figure()
    words, marks = [], 0
    for number, levels in enumerate(results.cells(**where)):
        part = results.series_of(levels)
        if part.empty:
            continue
        _draw_series(axes, part, PALETTE[number % len(PALETTE)], levels[colour])
        first, last = _ends(part)
        text = f"{levels[colour]}: {first:,.0f} at the start, {last:,.0f} at the end"
        drawn = _draw_checkpoints(axes, results, levels, number, float(part["time_s"].max()))
        marks += drawn
        words.append(text + (f", {drawn} checkpoints" if drawn else ""))
    axes.set_xlabel("time in the measured run (s)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel(axis_title("tps"))
    axes.set_ylim(bottom=0)
    legend(axes, colour)
    alt = f"Throughput over time. {'; '.join(words) or 'No series.'}."
    marked = " Bars along the bottom: checkpoints." if marks else ""
    show_figure(figure, alt=alt, caption=caption + marked)


def _draw_series(axes: Axes, part: Any, colour: str, label: str) -> None:
    for _, single in part.groupby("key"):
        axes.plot(single["time_s"], single["tps"], color=colour, alpha=0.25, linewidth=1)
    mean = part.assign(second=part["time_s"].round()).groupby("second")["tps"].mean()
    axes.plot(mean.index, mean.to_numpy(), color=colour, linewidth=2.5, label=label)


def _draw_checkpoints(
    axes: Axes, results: Results, levels: dict[str, str], row: int, length_s: float
) -> int:
    spans = [
        (begin, length_s if end is None else min(end, length_s))
        for begin, end in checkpoints_of(results, levels)
        if begin < length_s
    ]
    height = 0.015 + 0.025 * row
    for begin, end in spans:
        width = max(end - begin, length_s / 200)
        axes.plot(
            [begin, begin + width],
            [height, height],
            color=PALETTE[row % len(PALETTE)],
            linewidth=5,
            alpha=0.6,
            solid_capstyle="butt",
            transform=axes.get_xaxis_transform(),
        )
    return len(spans)


def _ends(part: Any) -> tuple[float, float]:
    """Give the mean throughput of the first and of the last fifth of the runs."""
    end = part["time_s"].max()
    first = part[part["time_s"] <= end / 5 + 1]["tps"].mean()
    last = part[part["time_s"] >= end * 4 / 5]["tps"].mean()
    return float(first), float(last)
