"""Published and measured side by side, in one form: curves and heatmaps.

Each panel is a table of plain numbers, so that it does not matter who measured them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from benchkit.present.figures import PALETTE, house_style, new_figure, show_figure
from benchkit.units import by_size

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_panels(
    panels: Mapping[str, pd.DataFrame],
    *,
    x: str,
    y: str,
    colour: str,
    y_title: str,
    caption: str = "",
    share_y: bool = False,
) -> None:
    """Draw curves, a panel for each table.

    Parameters
    ----------
    panels
        Title -> table with the columns `x`, `y`, `colour`, and ``low`` and ``high`` where there
        is an interval. An empty table gives a panel that says so.
    x, y, colour
        Columns; `x` may hold numbers or labels.
    share_y
        One scale for all panels, where the numbers can be compared as they are.
    """
    figure, all_axes = _panels(len(panels))
    words = []
    for axes, (title, table) in zip(all_axes, panels.items(), strict=True):
        axes.set_title(title)
        axes.set_xlabel(x.replace("_", " "))
        places = {label: at for at, label in enumerate(by_size(table[x].tolist()))}
        for number, (name, line) in enumerate(table.groupby(colour, sort=False)):
            _draw_line(axes, line, places, x, y, PALETTE[number % len(PALETTE)], str(name))
            best = line.sort_values(y).iloc[-1]
            words.append(f"{title}, {name}: highest {best[y]:,.4g} at {best[x]}")
        axes.set_xticks(range(len(places)), [str(label) for label in places])
        axes.set_ylim(bottom=0)
        if table.empty:
            axes.text(0.5, 0.5, "no figures", transform=axes.transAxes, ha="center")
        else:
            with house_style():
                axes.legend(title=colour.replace("_", " "), fontsize=9)
    all_axes[0].set_ylabel(y_title)
    if share_y:
        top = max(axes.get_ylim()[1] for axes in all_axes)
        for axes in all_axes:
            axes.set_ylim(0, top)
    show_figure(figure, alt=f"{y_title}. {'; '.join(words) or 'No figures'}.", caption=caption)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure, axes = new_figure(width_in=4.6 * count if count > 1 else 7.0, columns=count)
    return figure, list(axes) if count > 1 else [axes]


def _draw_line(
    axes: Axes,
    line: pd.DataFrame,
    places: Mapping[object, int],
    x: str,
    y: str,
    colour: str,
    name: str,
) -> None:
    ordered = line.assign(place=line[x].map(places)).sort_values("place")
    axes.plot(ordered["place"], ordered[y], "o-", color=colour, label=name)
    if {"low", "high"} <= set(ordered.columns):
        axes.vlines(ordered["place"], ordered["low"], ordered["high"], color=colour, linewidth=2)


def plot_heatmaps(
    panels: Mapping[str, pd.DataFrame], *, caption: str = "", what: str = "ratio"
) -> None:
    """Draw ratios as heatmaps, a panel for each table: rows and columns as in the table.

    The number stands in each field; 1 is white, more is blue, less is orange, on a logarithmic
    scale that is the same in all panels.
    """
    import numpy as np

    figure, all_axes = _panels(len(panels))
    values = [np.log(table.to_numpy(dtype=float)) for table in panels.values()]
    reach = max([0.05, *(float(np.nanmax(np.abs(v))) for v in values if np.isfinite(v).any())])
    words = []
    for axes, (title, table), logs in zip(all_axes, panels.items(), values, strict=True):
        axes.grid(visible=False)
        axes.imshow(logs, cmap="PuOr", vmin=-1.4 * reach, vmax=1.4 * reach, aspect="auto")
        axes.set_title(title)
        axes.set_xticks(range(table.shape[1]), [str(name) for name in table.columns])
        axes.set_yticks(range(table.shape[0]), [str(name) for name in table.index])
        axes.set_xlabel(str(table.columns.name or "").replace("_", " "))
        for row, column in np.ndindex(*table.shape):
            ratio = float(np.exp(logs[row, column]))
            text = f"{ratio:.2f}" if np.isfinite(ratio) else "\N{EN DASH}"
            axes.text(column, row, text, ha="center", va="center", fontsize=11)
            words.append(f"{title}, {table.index[row]} at {table.columns[column]}: {text}")
    show_figure(figure, alt=f"{what.capitalize()}. {'; '.join(words)}.", caption=caption)
