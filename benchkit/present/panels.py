"""Published and measured side by side, in one form: curves and heatmaps.

Each panel is a table of plain numbers, so that it does not matter who measured them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from benchkit.errors import Fault, Faults, InputError
from benchkit.present.figures import PALETTE, TEXT_COLOUR, house_style, new_figure, show_figure
from benchkit.present.tables import MISSING, write_number
from benchkit.units import by_size

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

MARKERS = "osD^vPX<>"  # one less than colours: together they repeat after 90
MOST_COLUMNS = 2
# A character of the tick labels' 11 points is about this wide.
CHARACTER_IN = 0.085
ROW_IN = 0.24
NO_FIGURE = "#d9d9d9"


class _Columns(NamedTuple):
    x: str
    y: str
    colour: str


def panel_grid(
    titles: Sequence[str], *, height_in: float = 3.4, columns: int = MOST_COLUMNS
) -> tuple[Figure, list[Axes]]:
    """Make a figure with a titled panel for each title, two in a row, 7 to 9 inches wide.

    Parameters
    ----------
    height_in
        Of a row of panels.
    columns
        Most panels in a row.

    Raises
    ------
    InputError
        No panel.
    """
    if not titles:
        raise InputError(
            [Fault(where="panels", problem="there are none: give a title and a table")]
        )
    across = min(columns, len(titles))
    down = math.ceil(len(titles) / across)
    figure, _ = new_figure(
        width_in=9.0 if across > 1 else 7.0,
        height_in=height_in * down + 0.5,
        rows=down,
        columns=across,
    )
    every: list[Axes] = figure.axes
    for left_over in every[len(titles) :]:
        left_over.set_axis_off()
    for panel, title in zip(every, titles, strict=False):
        panel.set_title(title)
    return figure, every[: len(titles)]


def empty_panel(axes: Axes) -> None:
    """Say in a panel that there is nothing to draw."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.text(0.5, 0.5, "no figures", transform=axes.transAxes, ha="center", va="center")


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
        is an interval, drawn as a vertical line. A table without figures gives a panel that says
        so.
    x, y, colour
        Columns. `x` may hold numbers or labels: they stand at equal distances, in order of size.
        One name in `colour` has one colour in all panels.
    y_title
        What `y` is, with its unit.
    share_y
        One scale for all panels, where the numbers can be compared as they are.

    Raises
    ------
    InputError
        No panel, or a table with rows lacks one of the columns.
    """
    columns = _Columns(x, y, colour)
    tables = {title: _drawable(title, table, columns) for title, table in panels.items()}
    figure, all_axes = panel_grid(list(tables))
    names = by_size(name for t in tables.values() if not t.empty for name in t[colour].tolist())
    words = []
    for axes, (title, table) in zip(all_axes, tables.items(), strict=True):
        if table.empty:
            empty_panel(axes)
            words.append(f"{title}: no figures")
        else:
            words.append(f"{title}: {'; '.join(_draw_panel(axes, table, columns, names))}")
    drawn = [a for a, t in zip(all_axes, tables.values(), strict=True) if not t.empty]
    top = max((axes.get_ylim()[1] for axes in drawn), default=1.0)
    for axes in drawn if share_y else []:
        axes.set_ylim(0, top)
    for axes in all_axes[::MOST_COLUMNS]:
        axes.set_ylabel(y_title)
    _legend_below(figure, drawn, colour, names)
    show_figure(figure, alt=f"{y_title}. {'. '.join(words)}.", caption=caption)


def _drawable(title: str, table: pd.DataFrame, columns: _Columns) -> pd.DataFrame:
    if table.empty:
        return table
    faults = Faults()
    for name in columns:
        if name not in table:
            faults.unknown(f"panel {title!r}", name, map(str, table.columns), kind="column")
    faults.raise_any()
    return table.dropna(subset=[columns.y])


def _draw_panel(
    axes: Axes, table: pd.DataFrame, columns: _Columns, names: Sequence[object]
) -> list[str]:
    """Draw the curves of one panel; give what each of them shows, in words."""
    labels = by_size(table[columns.x].tolist())
    words = []
    present = [name for name in names if (table[columns.colour] == name).any()]
    for rank, name in enumerate(present):
        line = table[table[columns.colour] == name]
        line = line.assign(place=line[columns.x].map(labels.index)).sort_values("place")
        has_interval = {"low", "high"} <= set(line.columns)
        # Side by side, else the intervals of two curves lie on each other.
        shift = 0.07 * (rank - (len(present) - 1) / 2) if has_interval else 0.0
        places, number = line["place"] + shift, names.index(name)
        ink, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
        axes.plot(places, line[columns.y], marker=marker, color=ink, label=str(name))
        if has_interval:
            axes.vlines(places, line["low"], line["high"], color=ink, linewidth=2)
        words.append(_course(str(name), line[columns.x].tolist(), line[columns.y].tolist()))
    _name_columns(axes, labels)
    axes.set_xlim(-0.4, len(labels) - 0.6)
    axes.set_xlabel(_written(columns.x))
    highest = table[[c for c in (columns.y, "high") if c in table]].max().max()
    axes.set_ylim(0, 1.08 * highest if highest > 0 else 1)  # room for the marker on top
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    return words


def _course(name: str, places: Sequence[object], values: Sequence[float]) -> str:
    """Tell how a curve goes: from where to where, and its highest point if that is between."""
    if len(values) == 1:
        return f"{name} {write_number(values[0])} at {places[0]}"
    points = [f"{write_number(v)} at {place}" for v, place in zip(values, places, strict=True)]
    best = max(range(len(values)), key=values.__getitem__)
    peak = f", highest {points[best]}" if 0 < best < len(values) - 1 else ""
    return f"{name} from {points[0]} to {points[-1]}{peak}"


def _name_columns(axes: Axes, labels: Sequence[object]) -> None:
    """Put a label at each rank of the x axis; turned, where they would run into each other."""
    texts = [str(label) for label in labels]
    axes.set_xticks(range(len(texts)), texts)
    longest_in = CHARACTER_IN * max(map(len, texts))
    across = axes.get_gridspec().ncols  # type: ignore[union-attr]
    figure = cast("Figure", axes.get_figure(root=True))
    if (longest_in + CHARACTER_IN) * len(texts) > figure.get_figwidth() / across - 1.2:
        _heighten(figure, longest_in / 2 / across)
        for label in axes.get_xticklabels():
            label.set(rotation=30, ha="right", rotation_mode="anchor")


def _legend_below(
    figure: Figure, drawn: Sequence[Axes], title: str, names: Sequence[object]
) -> None:
    handles: dict[str, Any] = {}
    for axes in drawn:
        found, labels = axes.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    ordered = [str(name) for name in names if str(name) in handles]
    if not ordered:
        return
    entry_in = CHARACTER_IN * max(map(len, ordered)) + 0.7
    across = max(1, min(len(ordered), int(figure.get_figwidth() / entry_in)))
    with house_style():
        figure.legend(
            [handles[name] for name in ordered],
            ordered,
            title=_written(title),
            loc="outside lower center",
            ncols=across,
        )
    _heighten(figure, ROW_IN * math.ceil(len(ordered) / across))


def _heighten(figure: Figure, more_in: float) -> None:
    """Make room for what stands beside the panels, so that these keep their height."""
    figure.set_figheight(figure.get_figheight() + more_in)


def _written(name: object) -> str:
    return "" if name is None else str(name).replace("_", " ")


def plot_heatmaps(
    panels: Mapping[str, pd.DataFrame], *, caption: str = "", what: str = "ratio"
) -> None:
    """Draw ratios as heatmaps, a panel for each table: rows and columns as in the table.

    The number stands in each field. 1 is white, more is purple, less is orange, on a logarithmic
    scale that is symmetric about 1 and the same in all panels; a grey field has no figure.

    Parameters
    ----------
    panels
        Title -> table of ratios, from :func:`~benchkit.analysis.tables.pivot`.
    what
        What the ratio is of, for the scale and the text alternative.

    Raises
    ------
    InputError
        No panel.
    """
    import numpy as np

    widest = max((table.shape[1] for table in panels.values()), default=0)
    tallest = max((table.shape[0] for table in panels.values()), default=0)
    height_in = 1.4 + 0.42 * max(tallest, 2)
    figure, all_axes = panel_grid(
        list(panels), height_in=height_in, columns=1 if widest > 8 else MOST_COLUMNS
    )
    logs = [_logarithms(table) for table in panels.values()]
    known = np.concatenate([values[np.isfinite(values)] for values in logs])
    reach = max(0.05, float(np.abs(known).max())) if known.size else 0.05
    words, image = [], None
    for axes, (title, table), values in zip(all_axes, panels.items(), logs, strict=True):
        axes.grid(visible=False)
        if not np.isfinite(values).any():
            empty_panel(axes)
            words.append(f"{title}: no figures")
            continue
        image = _draw_heatmap(axes, table, values, reach)
        words.append(f"{title}: {'; '.join(_ranges(table))}")
    if image is not None:
        bar = figure.colorbar(
            image, ax=all_axes, location="bottom", shrink=0.5, aspect=30, label=what
        )
        marks = [-reach, -reach / 2, 0, reach / 2, reach]
        bar.set_ticks(marks, labels=[f"{math.exp(mark):.2f}" for mark in marks])
        bar.ax.tick_params(labelsize=10, colors=TEXT_COLOUR)
    show_figure(figure, alt=f"{what.capitalize()}. {'. '.join(words)}.", caption=caption)


def _logarithms(table: pd.DataFrame) -> NDArray[Any]:
    import numpy as np

    ratios = table.to_numpy(dtype=float)
    usable = np.isfinite(ratios) & (ratios > 0)
    return np.log(np.where(usable, ratios, np.nan), out=np.full(ratios.shape, np.nan), where=usable)


def _draw_heatmap(axes: Axes, table: pd.DataFrame, logs: NDArray[Any], reach: float) -> Any:
    import matplotlib as mpl
    import numpy as np

    colours = mpl.colormaps["PuOr"].with_extremes(bad=NO_FIGURE)
    end = 1.2 * reach  # the ends of the scale are nearly black
    image = axes.imshow(
        np.ma.masked_invalid(logs), cmap=colours, vmin=-end, vmax=end, aspect="auto"
    )
    _name_columns(axes, table.columns.tolist())
    axes.set_yticks(range(table.shape[0]), [str(label) for label in table.index])
    axes.set_xlabel(_written(table.columns.name))
    axes.set_ylabel(_written(table.index.name))
    for row, column in np.ndindex(*table.shape):
        log = float(logs[row, column])
        known = math.isfinite(log)
        back = colours((log / end + 1) / 2) if known else mpl.colors.to_rgba(NO_FIGURE)
        axes.text(
            column,
            row,
            f"{math.exp(log):.2f}" if known else MISSING,
            ha="center",
            va="center",
            color=_readable_on(back[:3]),
            fontsize=11 if table.shape[1] <= 6 else 9,
        )
    return image


def _readable_on(background: Sequence[float]) -> str:
    """Choose the text of the higher contrast; relative luminance as in WCAG 2.2."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in background]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Against white (1) and against TEXT_COLOUR (0.016) the contrast is equal at 0.21.
    return "white" if luminance < 0.21 else TEXT_COLOUR


def _ranges(table: pd.DataFrame) -> list[str]:
    """Tell of each row its lowest and highest figure, and where they are."""
    words = []
    for name, row in table.iterrows():
        known = row[(row > 0) & (row < math.inf)]
        if known.empty:
            words.append(f"{name} has none")
            continue
        low, high = f"{known.min():.2f}", f"{known.max():.2f}"
        places = f"{low} at {known.idxmin()} to {high} at {known.idxmax()}"
        words.append(f"{name} {low} throughout" if low == high else f"{name} {places}")
    return words
