from __future__ import annotations

from typing import Any

from benchkit.analysis.results import Results
from benchkit.present import plots
from tests.present.conftest import alt

Shown = list[dict[str, Any]]


def test_cells_state_their_means(results: Results, shown: Shown) -> None:
    plots.plot_cells(results, x="updates")
    assert alt(shown[0]) == "Throughput. HOT: 1,096; not HOT: 997."


def test_cells_with_colour_and_nothing_to_show(results: Results, shown: Shown) -> None:
    plots.plot_cells(results, x="note", colour="updates", metric="full_page_images_per_transaction")
    assert alt(shown[0]) == "Full-page images. Nothing was measured."


def test_ratios_state_the_interval(results: Results, shown: Shown) -> None:
    plots.plot_ratios(results.compare("updates"), twin=results.twin())
    assert "HOT against not HOT: +10.0 %" in alt(shown[0])
    plots.plot_ratios([])
    assert alt(shown[1]) == "Ratios with 95 % intervals. None."


def test_levels_that_are_sizes_are_in_order_of_size(results: Results) -> None:
    results.factors["updates"] = ["1GB", "32MB", "128kB"]
    cells = [{"updates": level} for level in results.factors["updates"]]
    assert plots._levels(results, cells, "updates") == ["128kB", "32MB", "1GB"]
