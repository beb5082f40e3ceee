"""Figures: the markup, the house style, and nothing left behind."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from PIL import Image

from benchkit.errors import InputError
from benchkit.present.figures import (
    DOTS_PER_INCH,
    PALETTE,
    figure_html,
    house_style,
    new_figure,
)


class Attributes(HTMLParser):
    """The attributes of the img element, as a browser would see them."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.image: dict[str, str | None] = {}
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.image = dict(attrs)


def picture(markup: str) -> bytes:
    found = re.search(r'src="data:image/png;base64,([^"]+)"', markup)
    assert found
    return base64.b64decode(found[1])


def test_figure_is_one_element_with_the_picture_inside() -> None:
    figure, _ = new_figure(width_in=3, height_in=2)
    markup = figure_html(figure, alt="flat line", caption="Nothing happens.")
    assert markup.startswith("<figure")
    assert markup.endswith("<figcaption>Nothing happens.</figcaption></figure>")
    size = Image.open(io.BytesIO(picture(markup))).size
    assert size == (3 * DOTS_PER_INCH, 2 * DOTS_PER_INCH)


def test_texts_are_escaped() -> None:
    figure, _ = new_figure(width_in=1, height_in=1)
    markup = figure_html(figure, alt='a "quoted" <b>', caption="1 < 2 & <script>")
    assert Attributes(markup).image["alt"] == 'a "quoted" <b>'
    assert "<script>" not in markup
    assert "1 &lt; 2 &amp; &lt;script&gt;" in markup


def test_no_caption_leaves_no_empty_element() -> None:
    figure, _ = new_figure(width_in=1, height_in=1)
    assert "figcaption" not in figure_html(figure, alt="dot", caption=" ")


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_a_figure_without_text_alternative_is_refused(alt: str) -> None:
    figure, _ = new_figure(width_in=1, height_in=1)
    with pytest.raises(InputError, match="alt: empty"):
        figure_html(figure, alt=alt)


def test_the_same_figure_gives_the_same_bytes() -> None:
    markups = set()
    for _ in range(2):
        figure, axes = new_figure(width_in=2, height_in=2)
        axes.plot([1, 2, 3])
        markups.add(figure_html(figure, alt="line"))
    assert len(markups) == 1


def test_new_figure_leaves_global_settings_and_pyplot_alone() -> None:
    def settings() -> dict[str, object]:
        # The backend is chosen when it is first looked at, whoever looks.
        return {key: value for key, value in mpl.rcParams.items() if key != "backend"}

    before, open_figures = settings(), plt.get_fignums()
    new_figure()
    assert settings() == before
    assert plt.get_fignums() == open_figures


def test_house_style_ends_with_its_block() -> None:
    before = mpl.rcParams["legend.frameon"]
    with house_style():
        assert mpl.rcParams["legend.frameon"] is False
    assert mpl.rcParams["legend.frameon"] == before


def test_lines_take_the_palette_in_order() -> None:
    _, axes = new_figure()
    lines = axes.plot([[1, 2], [2, 3]])
    assert [line.get_color() for line in lines] == list(PALETTE[:2])


def test_panels_come_as_from_pyplot() -> None:
    assert new_figure(rows=2, columns=3)[1].shape == (2, 3)
    assert new_figure(columns=2)[1].shape == (2,)


def test_letters_are_large_enough_on_every_panel() -> None:
    figure, axes = new_figure(columns=2)
    axes[1].plot([1, 2])
    figure.canvas.draw()
    assert {label.get_fontsize() for panel in axes for label in panel.get_xticklabels()} == {11}


@pytest.mark.slow
def test_palette_is_seaborns() -> None:
    import seaborn as sns

    assert tuple(sns.color_palette("colorblind").as_hex()) == PALETTE
