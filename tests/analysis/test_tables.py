"""Published and measured figures in one form."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from benchkit.analysis.published import read_published
from benchkit.analysis.results import Results
from benchkit.analysis.tables import means, pivot, ratios, relative
from benchkit.errors import InputError
from tests.analysis.test_results import (
    BUILDS,
    NEW,
    OLD,
    QUIET,
    T_2,
    entry,
    record,
    rejected,
    series_of,
)

SWEEP = {"build": ["a", "b"], "clients": ["128", "16"]}


def test_means_are_geometric_with_their_interval_and_without_twin_or_rejected() -> None:
    entries = [*series_of(OLD, [50, 100, 200]), *QUIET, entry(NEW, 1, 7.0), rejected(NEW, 2, 1e9)]
    frame = means(Results(record(BUILDS, entries)))
    assert frame.columns.tolist() == ["build", "tps", "low", "high", "trials"]
    old, new = (row for _, row in frame.iterrows())
    half_width = T_2 * math.log(2) / math.sqrt(3)
    assert old["tps"] == pytest.approx(100)
    assert old["low"] == pytest.approx(100 * math.exp(-half_width))
    assert old["high"] == pytest.approx(100 * math.exp(half_width))
    assert (old["trials"], new["trials"], new["tps"]) == (3, 1, pytest.approx(7))
    assert math.isnan(new["low"])


def test_means_are_in_order_of_size_and_checked() -> None:
    results = Results(record(SWEEP, []))
    frame = means(results, "latency_average_ms", build="b")
    assert frame["clients"].tolist() == ["16", "128"]
    assert frame["latency_average_ms"].isna().all()
    with pytest.raises(InputError, match="unknown metric 'tpss'; did you mean 'tps'"):
        means(results, "tpss")
    with pytest.raises(InputError, match="unknown level '7'"):
        means(results, clients=7)


def test_published_figures_become_ratios_to_a_build() -> None:
    frame = read_published("version_regression")
    short = relative(frame[frame["duration_s"] == 300], "tps", by=["clients"], build="9.3")
    table = pivot(short, rows="build", columns="clients", value="tps")
    assert table.columns.map(int).tolist() == [20, 80, 400]
    slower = table.loc["9.4devel"].to_numpy(dtype=float)
    assert slower.tolist() == pytest.approx([0.67, 0.24, 0.67], abs=0.005)
    assert set(table.loc["9.3"]) == {1.0}


def test_relative_divides_the_interval_and_leaves_nan_without_baseline() -> None:
    rows = [("a", 8, 10.0), ("b", 8, 20.0), ("b", 16, 5.0)]
    frame = pd.DataFrame(rows, columns=["build", "clients", "tps"]).assign(low=5.0, high=40.0)
    shown = relative(frame, "tps", by=["clients"], build="a")
    assert shown["tps"].tolist()[:2] == [1.0, 2.0]
    assert shown[["low", "high"]].iloc[1].tolist() == [0.5, 4.0]
    assert shown.iloc[2][["tps", "low", "high"]].isna().all()
    assert frame["tps"].tolist() == [10.0, 20.0, 5.0]
    by_number = relative(frame, "tps", by=["build"], clients="8")
    assert by_number["tps"].tolist() == [1.0, 1.0, 0.25]


def test_relative_refuses_what_is_ambiguous_or_unknown() -> None:
    frame = read_published("version_regression")
    with pytest.raises(InputError, match=r"several rows are the baseline of clients=80"):
        relative(frame, "tps", by=["clients"], build="8.4")
    with pytest.raises(InputError, match="unknown column 'client'; did you mean 'clients'"):
        relative(frame, "tps", by=["client"], build="9.3")
    with pytest.raises(InputError, match="names no baseline"):
        relative(frame, "tps", by=["clients"])


def test_ratios_carry_context_interval_and_kind_of_verdict() -> None:
    entries = [
        entry({"build": build, "clients": clients}, number, tps * number * factor)
        for clients, factor in (("16", 2.0), ("128", 0.5))
        for number in (1, 2, 3)
        for build, tps in (("a", 100.0), ("b", 100.0 * factor))
    ]
    compared = Results(record(SWEEP, entries)).compare("build")
    frame = ratios(compared)
    assert frame.columns.tolist()[:4] == ["clients", "level", "against", "ratio"]
    found = frame.set_index("clients")
    assert found.loc["16", "ratio"] == pytest.approx(2)
    assert found.loc["128", "high"] == pytest.approx(0.5)
    assert found["verdict"].tolist() == [item.verdict.kind for item in compared]
    assert ratios([]).empty


def test_pivot_orders_by_size_keeps_names_and_leaves_holes() -> None:
    rows = [("128MB", "128", 1.0), ("16MB", "16", 2.0), ("1GB", "128", 3.0)]
    frame = pd.DataFrame(rows, columns=["shared_buffers", "clients", "tps"])
    table = pivot(frame, rows="shared_buffers", columns="clients", value="tps")
    assert table.index.tolist() == ["16MB", "128MB", "1GB"]
    assert table.columns.tolist() == ["16", "128"]
    assert (table.index.name, table.columns.name) == ("shared_buffers", "clients")
    assert math.isnan(table.loc["16MB", "128"])  # type: ignore[arg-type]


def test_pivot_names_what_is_there_twice() -> None:
    frame = read_published("version_regression")
    with pytest.raises(
        InputError, match=r"more than one tps with build=8\.4, clients=80"
    ) as caught:
        pivot(frame, rows="build", columns="clients", value="tps")
    assert len(caught.value.faults) == 1
