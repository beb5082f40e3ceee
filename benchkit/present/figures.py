"""Figures in one house style, shown with a text alternative that survives every viewer.

A shared notebook opens untrusted: JupyterLab then strips scripts, SVG and ``aria-label``. What is
left to carry a text alternative is ``<img alt>`` inside ``text/html``, so that is what is written.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchkit.errors import Fault, InputError
from benchkit.present.notes import show_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The "colorblind" palette of seaborn 0.13, spelled out: asking seaborn for it costs two seconds.
PALETTE = (
    "#0173b2",
    "#de8f05",
    "#029e73",
    "#d55e00",
    "#cc78bc",
    "#ca9161",
    "#fbafe4",
    "#949494",
    "#ece133",
    "#56b4e9",
)
TEXT_COLOUR = "#222222"
GRID_COLOUR = "#dddddd"
# 7 inches at 180 dots are 1260 pixels: sharp on a phone of 3 dots per pixel and on paper.
DOTS_PER_INCH = 180
# CSS defines the inch as 96 pixels; the width attribute keeps a sharp picture from growing.
CSS_PIXELS_PER_INCH = 96


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house style for the length of a ``with`` block.

    matplotlib's global settings are back as they were afterwards. Needed only for what is made
    after :func:`new_figure`, such as legends.
    """
    import matplotlib as mpl

    with mpl.rc_context(_settings()):
        yield


def _settings() -> Any:
    from cycler import cycler

    return {
        "axes.axisbelow": True,
        "axes.edgecolor": "#666666",
        "axes.grid": True,
        "axes.labelcolor": TEXT_COLOUR,
        "axes.labelsize": 12,
        "axes.prop_cycle": cycler(color=PALETTE),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 13,
        "figure.facecolor": "white",
        "font.size": 12,
        "grid.color": GRID_COLOUR,
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "legend.fontsize": 11,
        "lines.linewidth": 1.8,
        "text.color": TEXT_COLOUR,
        "xtick.color": TEXT_COLOUR,
        "xtick.labelsize": 11,
        "ytick.color": TEXT_COLOUR,
        "ytick.labelsize": 11,
    }


def new_figure(
    *, width_in: float = 7.0, height_in: float = 4.2, rows: int = 1, columns: int = 1
) -> tuple[Figure, Any]:
    """Make an empty figure in the house style.

    The figure is unknown to pyplot: nothing shows it by itself, and nothing keeps it in memory.

    Parameters
    ----------
    width_in, height_in
        Size of the whole figure, in inches. A phone shows 7 inches at about half their size,
        where the letters are still to be read; a wider figure's are not.
    rows, columns
        How many panels.

    Returns
    -------
    tuple
        The figure, and its axes: one ``Axes`` for a single panel, otherwise an array of shape
        ``(rows, columns)`` without the dimensions of length 1, as ``pyplot.subplots`` gives them.
    """
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        axes = figure.subplots(rows, columns)
    for panel in figure.axes:
        # Ticks are made when first drawn, long after the style is gone: say their size here.
        panel.tick_params(labelsize=11, colors=TEXT_COLOUR)
        panel.grid(visible=True, color=GRID_COLOUR, linewidth=0.8)
    return figure, axes


def figure_html(figure: Figure, *, alt: str, caption: str = "") -> str:
    """Write a figure as one ``<figure>`` element with the picture inside it.

    Parameters
    ----------
    figure
        A matplotlib figure; drawn, not changed, and left open.
    alt
        What the picture shows, for those who cannot see it: the finding, not the kind of plot.
    caption
        Text under the picture; "" for none.

    Returns
    -------
    str
        HTML with a PNG as ``data:`` URL; texts are escaped.

    Raises
    ------
    InputError
        ``alt`` is empty.
    """
    if not alt.strip():
        problem = "empty; say in a sentence what the figure shows"
        raise InputError([Fault(where="alt", problem=problem)])
    width_px = round(figure.get_figwidth() * CSS_PIXELS_PER_INCH)
    below = f"<figcaption>{html.escape(caption.strip())}</figcaption>" if caption.strip() else ""
    return (
        f'<figure style="margin:1em 0"><img alt="{html.escape(alt.strip())}" width="{width_px}" '
        f'style="max-width:100%;height:auto" '
        f'src="data:image/png;base64,{_png_base64(figure)}">{below}</figure>'
    )


def _png_base64(figure: Figure) -> str:
    target = io.BytesIO()
    # Without the software's name in it the same figure is the same bytes under every release.
    figure.savefig(target, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return base64.b64encode(target.getvalue()).decode("ascii")


def show_figure(figure: Figure, *, alt: str, caption: str = "") -> None:
    """Show a figure in the notebook and close it.

    Parameters
    ----------
    figure
        A matplotlib figure, from :func:`new_figure` or from pyplot.
    alt, caption
        As in :func:`figure_html`. Where no HTML is shown, ``alt`` stands for the figure.

    Raises
    ------
    InputError
        ``alt`` is empty.
    """
    import matplotlib.pyplot as plt

    markup = figure_html(figure, alt=alt, caption=caption)
    plt.close(figure)  # else the inline backend shows a pyplot figure a second time, without alt
    show_html(markup, alt.strip())
