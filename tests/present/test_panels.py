"""Panels of published and measured figures: what they say and how they are laid out."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from benchkit.analysis.published import read_published
from benchkit.errors import InputError
from benchkit.present import figures as drawing
from benchkit.present import panels
from tests.present.conftest import alt

Shown = list[dict[str, Any]]
CURVE: dict[str, Any] = {"x": "clients", "y": "tps", "colour": "build", "y_title": "Throughput"}


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were shown, drawn once so that their layout is final."""
    kept: list[Figure] = []
    show = drawing.show_figure

    def keep(figure: Figure, **texts: str) -> None:
        show(figure, **texts)
        kept.append(figure)

    monkeypatch.setattr(panels, "show_figure", keep)
    return kept


def measured(*labels: str) -> pd.DataFrame:
    """Two builds over labels of clients, with intervals."""
    rows = [
        (build, label, tps + 10.0 * at, tps - 5, tps + 25)
        for build, tps in (("17", 50.0), ("18", 60.0))
        for at, label in enumerate(labels)
    ]
    return pd.DataFrame(rows, columns=["build", "clients", "tps", "low", "high"])


def published(megabytes: int) -> pd.DataFrame:
    frame = read_published("buffer_eviction")
    return frame[frame["shared_buffers_mb"] == megabytes]


def test_curves_of_numbers_and_of_texts_state_their_course(
    shown: Shown, figures: list[Figure]
) -> None:
    tables = {"published": published(500), "here": measured("128", "16")}
    panels.plot_panels(tables, **CURVE)
    assert "HEAD from 56,248 at 8 to 56,552 at 128, highest 121,341 at 32" in alt(shown[0])
    assert "here: 17 from 60.00 at 16 to 50.00 at 128" in alt(shown[0])
    left, right = figures[0].axes
    assert [label.get_text() for label in left.get_xticklabels()] == ["8", "16", "32", "64", "128"]
    assert [label.get_text() for label in right.get_xticklabels()] == ["16", "128"]
    ends = right.collections[0].get_segments()[0][:, 1].tolist()  # type: ignore[attr-defined]
    assert ends == [45.0, 75.0]


def test_a_panel_without_figures_says_so(shown: Shown, figures: list[Figure]) -> None:
    unknown = measured("8").assign(tps=float("nan"))
    panels.plot_panels({"a": pd.DataFrame(), "b": unknown, "c": measured("8")}, **CURVE)
    assert alt(shown[0]).startswith("Throughput. a: no figures. b: no figures. c: 17 50.00 at 8")
    texts = [[text.get_text() for text in axes.texts] for axes in figures[0].axes[:3]]
    assert texts == [["no figures"], ["no figures"], []]


def test_the_legend_and_the_labels_lie_beside_the_panels(
    shown: Shown, figures: list[Figure]
) -> None:
    frame = read_published("version_regression")
    builds = frame[frame["duration_s"] == 1800].assign(by="published")
    panels.plot_panels({"p": builds, "q": builds}, x="build", y="tps", colour="by", y_title="tps")
    panels.plot_panels(
        {str(mb): published(mb) for mb in (500, 1024, 14336, 15360)}, share_y=True, **CURVE
    )
    for figure in figures:
        figure.draw_without_rendering()
        legend = figure.legends[0].get_window_extent()
        for axes in figure.axes:
            assert axes.get_tightbbox().y0 > legend.y1  # type: ignore[union-attr]
        inside = figure.get_tightbbox()
        assert inside.x0 >= 0
        assert inside.x1 <= figure.get_figwidth()
    assert figures[1].get_figwidth() <= 9
    assert len({axes.get_ylim() for axes in figures[1].axes}) == 1
    boxes = [label.get_window_extent() for label in figures[1].axes[0].get_xticklabels()]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_a_name_has_one_colour_in_all_panels(shown: Shown, figures: list[Figure]) -> None:
    only_18 = measured("8").query("build == '18'")
    panels.plot_panels({"both": measured("8"), "one": only_18}, **CURVE)
    both, one = (axes.lines for axes in figures[0].axes)
    assert both[1].get_label() == one[0].get_label() == "18"
    assert both[1].get_color() == one[0].get_color() != both[0].get_color()


def test_what_cannot_be_drawn_is_refused(shown: Shown) -> None:
    with pytest.raises(InputError, match="unknown column 'clients'"):
        panels.plot_panels({"a": pd.DataFrame({"client": [1]})}, **CURVE)
    with pytest.raises(InputError, match="there are none"):
        panels.plot_heatmaps({})


def test_heatmaps_share_a_scale_that_is_symmetric_about_1(
    shown: Shown, figures: list[Figure]
) -> None:
    one = pd.DataFrame([[4.0, 1.0], [float("nan"), 0.0]], index=["a", "b"], columns=[8, 16])
    two = pd.DataFrame([[0.5]], index=["c"], columns=[8])
    panels.plot_heatmaps({"p": one, "m": two, "e": pd.DataFrame()}, what="ratio of tps")
    assert alt(shown[0]) == (
        "Ratio of tps. p: a 1.00 at 16 to 4.00 at 8; b has none. m: c 0.50 throughout. "
        "e: no figures."
    )
    first, second = (axes.images[0] for axes in figures[0].axes[:2])
    low, high = first.get_clim()
    assert low == pytest.approx(-high)
    assert second.get_clim() == first.get_clim()
    fields = {text.get_text(): text.get_color() for text in figures[0].axes[0].texts}
    assert set(fields) == {"4.00", "1.00", "\N{EN DASH}"}
    assert fields["4.00"] == "white"
    assert fields["1.00"] == fields["\N{EN DASH}"] != "white"
