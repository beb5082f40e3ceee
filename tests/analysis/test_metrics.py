"""Figures are read off a trial as they are, and what was not counted is None, never 0."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from benchkit.analysis.metrics import METRICS
from benchkit.experiment.design import RESERVED

ENTRY: dict[str, Any] = {
    "asked": {"workload": {"threads": 2}},
    "result": {
        "comparable_tps": 1000.0,
        "tps": 999.0,
        "transactions": 10_000,
        "latency_average_ms": 8.0,
        "latency_stddev_ms": 2.5,
        "wall_s": 10.0,
        "client_cpu_s": 5.0,
    },
    "counters": {
        "tables": {
            "pgbench_accounts": {
                "n_tup_upd": 10_000,
                "n_tup_hot_upd": 9_000,
                "n_dead_tup": {"before": 1, "after": 30},
            },
            "pgbench_branches": {
                "n_tup_upd": 10_000,
                "n_tup_hot_upd": 10_000,
                "n_dead_tup": {"before": 0, "after": 5},
            },
            "pgbench_tellers": {
                "n_tup_upd": 10_000,
                "n_tup_hot_upd": 0,
                "n_dead_tup": {"before": 0, "after": 7},
            },
        },
        "wal": {"bytes": 50_000_000, "full_page_images": 2_500},
        "sizes_bytes": {
            "tables": {
                "pgbench_accounts": {"before": 10 * 1024**2, "after": 12 * 1024**2},
                "pgbench_branches": {"before": 8192, "after": 8192},
            }
        },
        "database": {"blks_hit": 990, "blks_read": 10},
        "buffers": {"evicted": 5},
        "checkpoints": {"timed": 1, "requested": 2},
    },
    "machine": {"disk_read_bytes": 20_480_000, "disk_written_bytes": 10_240_000},
}

EXPECTED = {
    "tps": 1000.0,
    "latency_average_ms": 8.0,
    "latency_stddev_ms": 2.5,
    "hot_accounts_pct": 90.0,
    "hot_branches_pct": 100.0,
    "hot_tellers_pct": 0.0,
    "wal_bytes_per_transaction": 5000.0,
    "full_page_images_per_transaction": 0.25,
    "accounts_growth_mb": 2.0,
    "branches_growth_mb": 0.0,
    "dead_tuples": 42.0,
    "buffer_hit_pct": 99.0,
    "buffer_reads_per_transaction": 0.001,
    "evictions_per_transaction": 0.0005,
    "disk_read_kb_per_transaction": 2.0,
    "disk_written_kb_per_transaction": 1.0,
    "checkpoints": 3.0,
    "client_cpu_pct": 25.0,
}


def entry(**changes: Any) -> dict[str, Any]:
    """Copy the entry with some parts changed; two underscores lead from a part into it."""
    changed = copy.deepcopy(ENTRY)
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = changed
        for name in parents:
            inner = inner[name]
        inner[last] = value
    return changed


def read(name: str, found: dict[str, Any]) -> float | None:
    return METRICS[name].read(found)


def test_every_metric_is_tested() -> None:
    assert set(EXPECTED) == set(METRICS)


@pytest.mark.parametrize("name", sorted(METRICS))
def test_figures_of_a_known_trial(name: str) -> None:
    assert read(name, ENTRY) == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize("name", sorted(METRICS))
def test_nothing_is_none(name: str) -> None:
    empties: list[dict[str, Any]] = [
        {},
        {"result": {}, "counters": {}},
        {"result": None, "counters": None},
    ]
    for empty in empties:
        assert read(name, empty) is None


def test_a_server_without_hot_counters() -> None:
    tables = {
        "accounts": {"n_tup_upd": 10_000, "n_tup_hot_upd": None},  # 8.2: not there
        "branches": {"n_tup_upd": 10_000},
        "tellers": {"n_tup_upd": None, "n_tup_hot_upd": None},
    }
    old = entry(counters__tables=tables)
    for name in ("hot_accounts_pct", "hot_branches_pct", "hot_tellers_pct", "dead_tuples"):
        assert read(name, old) is None


def test_tables_of_8_3_and_before_have_no_prefix() -> None:
    tables = {"accounts": {"n_tup_upd": 100, "n_tup_hot_upd": 25}}
    sizes = {"tables": {"accounts": {"before": 0, "after": 1024**2}}}
    old = entry(counters__tables=tables, counters__sizes_bytes=sizes)
    assert read("hot_accounts_pct", old) == 25.0
    assert read("accounts_growth_mb", old) == 1.0


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("hot_accounts_pct", {"counters__tables__pgbench_accounts__n_tup_upd": 0}),
        ("wal_bytes_per_transaction", {"result__transactions": 0}),
        ("wal_bytes_per_transaction", {"result__transactions": None}),
        ("wal_bytes_per_transaction", {"counters__wal__bytes": None}),
        (
            "accounts_growth_mb",
            {"counters__sizes_bytes__tables__pgbench_accounts__before": None},
        ),
        ("buffer_hit_pct", {"counters__database": {"blks_hit": 0, "blks_read": 0}}),
        ("buffer_hit_pct", {"counters__database__blks_read": None}),
        ("evictions_per_transaction", {"counters__buffers__evicted": None}),
        ("disk_read_kb_per_transaction", {"machine__disk_read_bytes": None}),
        ("disk_written_kb_per_transaction", {"machine": {}}),
        ("checkpoints", {"counters__checkpoints__timed": None}),
        ("client_cpu_pct", {"result__wall_s": None}),
        ("client_cpu_pct", {"result__client_cpu_s": None}),
        ("dead_tuples", {"counters__tables__pgbench_tellers__n_dead_tup__after": None}),
    ],
)
def test_a_figure_without_its_parts_is_none(name: str, change: dict[str, Any]) -> None:
    assert read(name, entry(**change)) is None


def test_a_count_of_zero_is_a_count() -> None:
    found = entry(
        counters__wal__full_page_images=0, counters__checkpoints={"timed": 0, "requested": 0}
    )
    assert read("full_page_images_per_transaction", found) == 0.0
    assert read("checkpoints", found) == 0.0


def test_threads_that_are_not_known_count_as_one() -> None:
    assert read("client_cpu_pct", entry(asked={})) == 50.0


def test_what_a_ratio_above_one_is_called() -> None:
    assert METRICS["tps"].words == ("faster", "slower")
    assert METRICS["latency_average_ms"].words == ("slower", "faster")
    assert METRICS["wal_bytes_per_transaction"].words == ("more", "less")


def test_titles_tell_metrics_apart() -> None:
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)
    assert all(metric.name == name for name, metric in METRICS.items())


def test_no_factor_can_have_the_name_of_a_metric() -> None:
    assert set(METRICS) <= RESERVED
