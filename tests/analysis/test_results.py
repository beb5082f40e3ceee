"""What is said of trials with known numbers."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchkit.analysis.over_time import over_time
from benchkit.analysis.results import Results
from benchkit.analysis.stats import holm, paired_ratio
from benchkit.errors import InputError
from benchkit.experiment.ledger import Record
from benchkit.postgres.builds import Build

T_2 = 4.302652729911275  # quantile 0.975 of Student's t, 2 degrees of freedom, from a table
Levels = dict[str, str]


def entry(levels: Levels, number: int, tps: float | None, **changes: Any) -> dict[str, Any]:
    twin = changes.pop("twin", False)
    name = ",".join(levels.values()) + ("-twin" if twin else "")
    return {
        "key": f"{name}-{number}",
        "levels": levels,
        "twin": twin,
        "round": number,
        "position": 1,
        "status": "usable",
        "gates": [],
        "error": "",
        "asked": {},
        "result": {"comparable_tps": tps, "transactions": 100},
        "counters": {},
    } | changes


def rejected(levels: Levels, number: int, tps: float, *reasons: str) -> dict[str, Any]:
    gates = [{"name": "gate", "rejects": True, "message": text} for text in reasons]
    return entry(levels, number, tps, status="rejected", gates=gates)


def record(
    factors: Mapping[str, Sequence[str]],
    entries: Sequence[dict[str, Any]],
    *,
    cells: Sequence[Levels] | None = None,
    baseline: Levels | None = None,
    directory: Path = Path("/nowhere"),
) -> Record:
    """Make a record; the twin is that of the baseline, which is the first cell unless named."""
    if cells is None:
        cells = [{}]
        for name, labels in factors.items():
            cells = [{**cell, name: label} for cell in cells for label in labels]
    chosen = next(cell for cell in cells if (baseline or {}).items() <= cell.items())
    specification = {
        "factors": {name: list(labels) for name, labels in factors.items()},
        "baseline": baseline or {},
        "cells": [
            *({"levels": levels, "twin": False} for levels in cells),
            {"levels": chosen, "twin": True},
        ],
        "order": [],
    }
    return Record(directory=directory, specification=specification, entries=list(entries))


def series_of(levels: Levels, values: Sequence[float], **changes: Any) -> list[dict[str, Any]]:
    return [entry(levels, number, tps, **changes) for number, tps in enumerate(values, 1)]


OLD, NEW = {"build": "old"}, {"build": "new"}
QUIET = series_of(OLD, [101, 198, 301, 399], twin=True)  # a twin within 1 %
BUILDS = {"build": ["old", "new"]}


def two(
    old: Sequence[float], new: Sequence[float], *more: dict[str, Any], twin: Any = QUIET
) -> Results:
    entries = [*series_of(OLD, old), *series_of(NEW, new), *twin, *more]
    return Results(record(BUILDS, entries))


def faults(caught: pytest.ExceptionInfo[InputError]) -> list[str]:
    return [str(fault) for fault in caught.value.faults]


# The table


def test_a_row_for_every_trial_the_rejected_ones_too() -> None:
    bad = rejected(OLD, 2, 9e9, "too late", "too many")
    failed = entry(NEW, 2, None, status="failed", error="ServerError: no", result={})
    results = Results(record(BUILDS, [entry(OLD, 1, 100.0), bad, failed]))
    frame = results.frame
    assert frame["status"].tolist() == ["usable", "rejected", "failed"]
    assert frame["reason"].tolist() == ["", "gate: too late; gate: too many", "ServerError: no"]
    assert frame["build"].tolist() == ["old", "old", "new"]
    assert frame["tps"].tolist()[:2] == [100.0, 9e9]
    assert math.isnan(frame["tps"].iloc[2])
    assert frame["twin"].dtype == bool
    assert frame["hot_accounts_pct"].isna().all()
    assert results.usable["key"].tolist() == ["old-1"]
    assert results.unusable["key"].tolist() == ["old-2", "new-2"]


def test_a_run_without_a_trial_is_a_table_without_a_row() -> None:
    results = Results(record(BUILDS, []))
    assert len(results.frame) == len(results.usable) == len(results.unusable) == 0
    assert {"build", "round", "twin", "status", "reason", "tps"} <= set(results.frame.columns)
    assert results.flags() == {}
    (compared,) = results.compare("build")
    assert compared.verdict.kind == "not judged"
    assert results.summary(["tps"])["trials"].tolist() == [0, 0]
    assert over_time(results)["slope"].isna().all()
    assert results.series.empty


def test_remarks_of_gates_that_only_flag_are_counted() -> None:
    flag = {"name": "client CPU", "rejects": False, "message": "busy"}
    reject = {"name": "duration", "rejects": True, "message": "long"}
    entries = [entry(OLD, n, 1.0, gates=[flag]) for n in (1, 2)]
    entries.append(entry(OLD, 3, 1.0, gates=[flag, reject], status="rejected"))
    assert Results(record(BUILDS, entries)).flags() == {"client CPU": 3}


# Pairing


def test_ratios_are_taken_within_a_round() -> None:
    # Between rounds the host is two to four times as fast; within each, new is 10 % faster.
    results = two([100, 200, 300, 400], [110, 220, 330, 440])
    estimate = results.ratio("build", "new", "old")
    assert estimate.ratio == pytest.approx(1.1)
    assert estimate.low == pytest.approx(1.1)
    assert (estimate.rounds, estimate.dropped, estimate.log_sd) == (4, 0, 0.0)


def test_the_interval_is_that_of_the_log_ratios() -> None:
    results = two([100, 100, 100], [110, 120, 130])
    logs = [math.log(ratio) for ratio in (1.1, 1.2, 1.3)]
    mean = sum(logs) / 3
    sd = math.sqrt(sum((log - mean) ** 2 for log in logs) / 2)
    estimate = results.ratio("build", "new", "old")
    assert estimate.ratio == pytest.approx((1.1 * 1.2 * 1.3) ** (1 / 3))
    assert estimate.low == pytest.approx(math.exp(mean - T_2 * sd / math.sqrt(3)))
    assert estimate.high == pytest.approx(math.exp(mean + T_2 * sd / math.sqrt(3)))


def test_the_order_of_the_trials_does_not_matter() -> None:
    results = two([100, 200, 300], [110, 240, 390])
    shuffled = dataclasses.replace(results.record, entries=results.record.entries[::-1])
    assert Results(shuffled).ratio("build", "new", "old") == results.ratio("build", "new", "old")


def test_missing_and_rejected_trials_leave_their_round_out() -> None:
    more = [
        rejected(NEW, 4, 9e9, "bad"),
        entry(OLD, 5, 500.0),  # new was not measured any more
        entry(NEW, 6, None, status="usable"),
        entry(OLD, 6, 600.0),
    ]
    estimate = two([100, 200, 300, 400], [110, 220, 330], *more).ratio("build", "new", "old")
    assert (estimate.rounds, estimate.dropped) == (3, 3)
    assert estimate.ratio == pytest.approx(1.1)


def test_the_twin_is_not_counted_among_its_cell() -> None:
    results = two([100, 200], [110, 220], twin=series_of(OLD, [1.0, 1.0], twin=True))
    assert results.values(OLD, "tps") == {1: 100.0, 2: 200.0}
    assert results.values(OLD, "tps", twin=True) == {1: 1.0, 2: 1.0}
    assert results.ratio("build", "new", "old").ratio == pytest.approx(1.1)
    twin = results.twin()
    assert twin is not None
    assert twin.ratio == pytest.approx(math.sqrt(1 / 100 / 200))


def test_a_run_without_a_twin() -> None:
    results = two([100, 200, 300], [110, 220, 331])
    cells = [cell for cell in results.record.specification["cells"] if not cell["twin"]]
    specification = {**results.record.specification, "cells": cells}
    alone = Results(dataclasses.replace(results.record, specification=specification))
    assert alone.twin() is None
    (compared,) = alone.compare("build")
    assert compared.verdict.kind == "faster"


# Comparisons


def test_a_comparison_is_judged_with_the_twin_beside_it() -> None:
    (compared,) = two([100, 200, 300, 400], [110, 221, 330, 441]).compare("build")
    assert (compared.level, compared.against, compared.context) == ("new", "old", {})
    assert compared.label == "new against old"
    assert compared.verdict.kind == "faster"
    assert compared.adjusted_p == compared.estimate.p_value


@pytest.mark.parametrize(
    ("twin", "words"),
    [
        ([120, 241, 360, 482], "differs by +20."),
        ([100, 200], "has too few rounds"),
        ([], "has too few rounds"),
    ],
)
def test_a_twin_that_differs_or_is_not_there_stops_every_claim(
    twin: list[float], words: str
) -> None:
    results = two([100, 200, 300, 400], [150, 301, 450, 601], twin=series_of(OLD, twin, twin=True))
    (compared,) = results.compare("build")
    assert compared.verdict.kind == "not judged"
    assert words in compared.verdict.text


def test_too_few_rounds_are_not_judged() -> None:
    (compared,) = two([100, 200], [150, 300]).compare("build")
    assert compared.verdict.kind == "not judged"
    assert compared.estimate.low is None


def test_several_levels_are_adjusted_by_holm() -> None:
    factors = {"clients": ["1", "2", "4", "8"]}
    values = {
        "1": [100, 200, 300, 400],
        "2": [110, 228, 366, 420],  # p = 0.03 alone
        "4": [150, 290, 460, 610],
        "8": [90, 215, 290, 420],
    }
    entries = [e for label, tps in values.items() for e in series_of({"clients": label}, tps)]
    entries += series_of({"clients": "1"}, [101, 198, 301, 399], twin=True)
    compared = Results(record(factors, entries)).compare("clients")
    assert [item.level for item in compared] == ["2", "4", "8"]
    alone = [paired_ratio(values[label], values["1"]).p_value for label in ("2", "4", "8")]
    assert [item.estimate.p_value for item in compared] == alone
    assert [item.adjusted_p for item in compared] == holm(alone)
    assert compared[1].adjusted_p == pytest.approx(3 * (alone[1] or 0))
    assert compared[0].estimate.differs
    assert [item.verdict.kind for item in compared] == ["undecided", "faster", "undecided"]
    pair = [e for e in entries if e["levels"]["clients"] in "12"]
    (single,) = Results(record({"clients": ["1", "2"]}, pair)).compare("clients")
    assert single.verdict.kind == "faster"


GRID = {"updates": ["HOT", "not HOT"], "memory": ["small", "large"]}


def grid(**ratios: float) -> Results:
    """Make a crossed run in which HOT has the given ratio for each memory."""
    entries = []
    for memory, ratio in ratios.items():
        for number, base in enumerate((100.0, 200.0, 300.0, 401.0), 1):
            noise = 1 + 0.001 * number
            hot = {"updates": "HOT", "memory": memory}
            entries.append(entry({**hot, "updates": "not HOT"}, number, base))
            entries.append(entry(hot, number, base * ratio * noise))
    baseline = {"updates": "not HOT"}
    twin = series_of({"updates": "not HOT", "memory": "small"}, [101, 198, 301, 399], twin=True)
    return Results(record(GRID, [*entries, *twin], baseline=baseline))


def test_levels_are_compared_wherever_all_else_is_equal() -> None:
    compared = grid(small=1.5, large=2.0).compare("updates")
    assert [(item.level, item.against, item.context) for item in compared] == [
        ("HOT", "not HOT", {"memory": "small"}),
        ("HOT", "not HOT", {"memory": "large"}),
    ]
    assert [item.estimate.ratio for item in compared] == pytest.approx([1.5, 2.0], rel=0.01)
    assert compared[0].label == "HOT against not HOT (memory=small)"


def test_only_some_cells_are_compared() -> None:
    (compared,) = grid(small=1.5, large=2.0).compare("updates", memory="large")
    assert compared.context == {}
    assert compared.estimate.ratio == pytest.approx(2.0, rel=0.01)


def test_another_level_to_compare_with() -> None:
    (compared,) = grid(small=1.5, large=2.0).compare("updates", against="HOT", memory="large")
    assert (compared.level, compared.against) == ("not HOT", "HOT")
    assert compared.verdict.kind == "slower"


def test_other_factors_stay_at_their_first_levels_in_a_ratio() -> None:
    results = grid(small=1.5, large=2.0)
    assert results.ratio("updates", "HOT", "not HOT").ratio == pytest.approx(1.5, rel=0.01)
    large = results.ratio("updates", "HOT", "not HOT", memory="large")
    assert large.ratio == pytest.approx(2.0, rel=0.01)


def test_a_metric_says_what_more_of_it_is() -> None:
    def with_wal(item: dict[str, Any], byte_count: int) -> dict[str, Any]:
        return item | {"counters": {"wal": {"bytes": byte_count}}}

    entries = [with_wal(entry(OLD, n, 100.0), 1000 + n) for n in range(1, 5)]
    entries += [with_wal(entry(NEW, n, 100.0), 2000 - n) for n in range(1, 5)]
    entries += [with_wal(entry(OLD, n, 100.0, twin=True), 1003 + n % 2) for n in range(1, 5)]
    (compared,) = Results(record(BUILDS, entries)).compare(
        "build", metric="wal_bytes_per_transaction"
    )
    assert compared.verdict.kind == "more"
    assert compared.estimate.ratio == pytest.approx(2, rel=0.02)


def test_a_margin_makes_a_small_difference_none() -> None:
    same = two([100, 200, 300, 400], [101, 198, 303, 398])
    (narrow,) = same.compare("build", margin=0.001)
    (wide,) = same.compare("build", margin=0.05)
    assert narrow.verdict.kind == "undecided"
    assert wide.verdict.kind == "no difference"


# Labels and unknown names


def test_values_do_for_labels(build: Build) -> None:
    label = build.version.text
    factors = {"build": [label, "old"], "clients": ["1", "8"]}
    entries = [
        entry({"build": name, "clients": clients}, n, 100.0 * n)
        for n in (1, 2, 3)
        for name in factors["build"]
        for clients in factors["clients"]
    ]
    results = Results(record(factors, entries))
    assert results.cells(build=build, clients=8) == [{"build": label, "clients": "8"}]
    assert results.ratio("clients", 8, 1, build=build).ratio == 1.0
    assert results.compare("build", against=build, clients=8)[0].level == "old"
    assert results.values({"clients": 8, "build": build}, "tps")[3] == 300.0
    assert len(results.summary(["tps"], clients=8)) == 2


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda r: r.compare("bild"), ["results: unknown factor 'bild'; did you mean 'build'?"]),
        (
            lambda r: r.compare("build", against="odl", metric="tsp"),
            ["metric: unknown metric 'tsp'; did you mean 'tps'?"],
        ),
        (lambda r: r.compare("build", against="odl"), ["factor build: unknown level 'odl'; did"]),
        (
            lambda r: r.ratio("build", "nw", "old", metric="tsp", bild="x"),
            [
                "factor build: unknown level 'nw'; did you mean 'new'?",
                "results: unknown factor 'bild'; did you mean 'build'?",
                "metric: unknown metric 'tsp'; did you mean 'tps'?",
            ],
        ),
        (lambda r: r.ratio("build", "new", "odl"), ["factor build: unknown level 'odl'; did"]),
        (lambda r: r.cells(build=3), ["factor build: unknown level '3' (accepted: new, old)"]),
        (lambda r: r.summary(["tsp", "tps"]), ["metric: unknown metric 'tsp'; did you mean"]),
        (lambda r: over_time(r, bild="x"), ["results: unknown factor 'bild'"]),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(call: Any, expected: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        call(two([1, 2, 3], [1, 2, 3]))
    found = faults(caught)
    assert len(found) == len(expected)
    assert all(fault.startswith(start) for fault, start in zip(found, expected, strict=True))


def test_a_cell_that_no_grid_holds_is_not_taken_for_one_without_trials() -> None:
    cells = [
        {"updates": "HOT", "memory": "small"},
        {"updates": "not HOT", "memory": "small"},
        {"updates": "HOT", "memory": "large"},
    ]
    results = Results(record(GRID, [], cells=cells))
    with pytest.raises(InputError) as caught:
        results.ratio("updates", "HOT", "not HOT", memory="large")
    (found,) = faults(caught)
    assert found.startswith("results: no cell was planned with updates=not HOT, memory=large")
    with pytest.raises(InputError):
        results.summary(["tps"], updates="not HOT", memory="large")
    assert [item.context for item in results.compare("updates", against="not HOT")] == [{}]


# Summary and series


def test_a_summary_has_a_row_for_each_cell() -> None:
    more = rejected(OLD, 3, 9e9, "bad")
    results = two([100, 400], [110, 440], more)
    summary = results.summary(["tps", "hot_accounts_pct"])
    assert summary["build"].tolist() == ["old", "new"]
    assert summary["trials"].tolist() == [2, 2]
    assert summary["Throughput"].tolist() == pytest.approx([200, 220])  # geometric
    assert summary["HOT updates of accounts"].isna().all()


def test_a_summary_leaves_out_what_does_not_vary() -> None:
    summary = grid(small=1.5, large=2.0).summary(["tps"], memory="small")
    assert list(summary.columns) == ["updates", "trials", "Throughput"]


def test_counts_are_averaged_as_they_are() -> None:
    def hot(number: int, count: int) -> dict[str, Any]:
        table = {"n_tup_upd": 100, "n_tup_hot_upd": count}
        return entry(OLD, number, 1.0) | {"counters": {"tables": {"accounts": table}}}

    results = Results(record(BUILDS, [hot(1, 0), hot(2, 10), hot(3, 50)]))
    assert results.summary(["hot_accounts_pct"])["HOT updates of accounts"].iloc[0] == 20.0


@pytest.fixture
def with_series(tmp_path: Path) -> Results:
    """Make a run in which old loses exactly 10 % a minute, and new nothing; 60 s each."""
    (tmp_path / "series").mkdir()
    entries = [
        *series_of(OLD, [100.0, 100.0, 100.0]),
        *series_of(NEW, [100.0, 100.0, 100.0]),
        *series_of(OLD, [100.0] * 3, twin=True),
        rejected(NEW, 4, 1.0, "bad"),
        entry(NEW, 5, 100.0),  # without a series
    ]
    for item in entries[:-1]:
        change = 0.9 if item["levels"] == OLD and not item["twin"] else 1.0
        if item["status"] != "usable" or item["twin"]:
            change = 5.0
        seconds = [float(second) for second in range(1, 61)]
        start = 100.0 * item["round"]
        frame = pd.DataFrame(
            {"time_s": seconds, "tps": [start * change ** (second / 60) for second in seconds]}
        )
        frame.to_parquet(tmp_path / "series" / f"{item['key']}.parquet")
    return Results(record(BUILDS, entries, directory=tmp_path))


def test_series_of_usable_trials_without_the_twin(with_series: Results) -> None:
    series = with_series.series
    assert len(series) == 6 * 60
    assert set(series["key"]) == {f"{name}-{n}" for name in ("old", "new") for n in (1, 2, 3)}
    first = series[(series["build"] == "old") & (series["round"] == 2)]
    assert first["tps"].iloc[-1] == pytest.approx(180.0)


def test_drift_is_found_where_it_is(with_series: Results) -> None:
    slopes = over_time(with_series)
    assert slopes["build"].tolist() == ["old", "new"]
    assert slopes["trials"].tolist() == [3, 3]
    assert slopes["slope"].tolist() == pytest.approx([-10.0, 0.0], abs=1e-6)
    assert slopes["to"].iloc[0] < 0
    alone = over_time(with_series, build="new")
    assert list(alone.columns)[:4] == ["trials", "slope", "from", "to"]


def test_results_do_not_change_the_record() -> None:
    results = two([100, 200, 300], [110, 220, 330])
    before = copy.deepcopy(results.record.entries)
    results.frame["tps"] = 0.0
    results.compare("build")
    results.summary(["tps"])
    assert results.record.entries == before
