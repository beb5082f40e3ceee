"""Plots of results. Each shows every run as a point and draws benchkit's own interval.

No bootstrap: at three to ten runs it is too narrow. Each returns nothing and shows a figure with a
text alternative that states the finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchkit.analysis.metrics import METRICS
from benchkit.analysis.results import Comparison, Results
from benchkit.analysis.stats import Estimate, format_ratio, mean_interval
from benchkit.present.figures import PALETTE, house_style, new_figure, show_figure
from benchkit.units import by_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_cells(
    results: Results,
    *,
    x: str,
    colour: str | None = None,
    metric: str = "tps",
    caption: str = "",
    x_title: str = "",
    **where: str,
) -> None:
    """Show a metric for the levels of one factor, coloured by another.

    Parameters
    ----------
    x, colour
        Factors.
    metric
        Name of a metric.
    x_title
        Title of the horizontal axis; the factor's name by default.
    **where
        Only cells with these levels.
    """
    found = METRICS[metric]
    figure, axes = new_figure()
    cells = results.cells(**where)
    groups = _levels(results, cells, colour) if colour else [""]
    places = _levels(results, cells, x)
    words = []
    highest = 0.0
    for number, group in enumerate(groups):
        shift = (number - (len(groups) - 1) / 2) * 0.18
        for place, level in enumerate(places):
            chosen = [c for c in cells if c[x] == level and (not colour or c[colour] == group)]
            values = [v for c in chosen for v in results.values(c, metric).values()]
            highest = max([highest, *values])
            mean = _draw_cell(axes, place + shift, values, PALETTE[number], group, first=not place)
            words += [f"{group} {level}: {mean:,.{found.digits}f}".strip()] if mean else []
    axes.set_xticks(range(len(places)), places)
    axes.set_xlim(-0.6, len(places) - 0.4)
    # The interval of three wild runs may reach far beyond all of them: it is cut, not the points.
    axes.set_ylim(0, min(axes.get_ylim()[1], highest * 1.4 or 1))
    axes.set_xlabel(x_title or x.replace("_", " "))
    axes.set_ylabel(axis_title(metric))
    legend(axes, colour)
    show_figure(
        figure, alt=f"{found.title}. {'; '.join(words) or 'Nothing was measured'}.", caption=caption
    )


def _levels(results: Results, cells: Sequence[dict[str, str]], factor: str) -> list[str]:
    present = {cell[factor] for cell in cells}
    return by_size(level for level in results.factors[factor] if level in present)


def axis_title(metric: str) -> str:
    """Give a metric's title with its unit."""
    found = METRICS[metric]
    return f"{found.title} ({found.unit})" if found.unit else found.title


def _draw_cell(
    axes: Axes, at: float, values: Sequence[float], colour: str, label: str, *, first: bool
) -> float | None:
    if not values:
        return None
    interval = mean_interval(list(values))
    if interval.value is None:
        return None
    axes.plot([at] * len(values), values, "o", color=colour, alpha=0.35, markersize=5)
    axes.plot([at], [interval.value], "D", color=colour, label=label if first else None)
    if interval.low is not None and interval.high is not None:
        axes.plot([at, at], [interval.low, interval.high], color=colour, linewidth=2.5)
    return interval.value


def legend(axes: Axes, title: str | None) -> None:
    """Add a legend headed by a factor, if anything drawn has a label."""
    if title and axes.get_legend_handles_labels()[0]:
        with house_style():
            axes.legend(title=title.replace("_", " "), loc="lower right")


def plot_ratios(
    comparisons: Sequence[Comparison], *, twin: Estimate | None = None, caption: str = ""
) -> None:
    """Show ratios with their intervals, and the twin's as a grey band: the run's own noise."""
    shown = [item for item in comparisons if item.estimate.ratio is not None]
    figure, axes = new_figure(height_in=1.6 + 0.5 * max(len(shown), 1))
    if twin is not None and twin.low is not None and twin.high is not None:
        axes.axvspan(twin.low, twin.high, color="#bbbbbb", alpha=0.5, label="twin (A/A)")
    axes.axvline(1, color="#444444", linewidth=1)
    for row, item in enumerate(reversed(shown)):
        estimate = item.estimate
        if estimate.low is not None and estimate.high is not None:
            axes.plot([estimate.low, estimate.high], [row, row], color=PALETTE[0], linewidth=2.5)
        axes.plot([estimate.ratio], [row], "D", color=PALETTE[0])
    axes.set_yticks(range(len(shown)), [_wrapped(item.label) for item in reversed(shown)])
    axes.set_ylim(-0.7, len(shown) - 0.3)
    axes.set_xlabel("ratio of throughput")
    if shown and shown[0].metric.name != "tps":
        axes.set_xlabel(f"ratio: {shown[0].metric.title.lower()}")
    with house_style():
        if axes.get_legend_handles_labels()[0]:
            axes.legend(loc="lower right", fontsize=9)
    words = "; ".join(f"{item.label}: {format_ratio(item.estimate)}" for item in shown)
    show_figure(figure, alt=f"Ratios with 95 % intervals. {words or 'None.'}", caption=caption)


def _wrapped(text: str) -> str:
    return text.replace(" (", "\n(")
