"""What is read off a trial: each figure by name, with title, unit and what more of it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchkit.analysis.verdicts import Direction

Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One figure of a trial.

    Attributes
    ----------
    read
        Gives it from a trial's entry in the ledger, None where it was not measured.
    words
        What a ratio above and below 1 is called.
    """

    name: str
    title: str
    unit: str
    read: Callable[[Entry], float | None]
    words: tuple[Direction, Direction] = ("more", "less")
    digits: int = 1


def _path(entry: Entry, *names: str) -> Any:
    value: Any = entry
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _result(name: str) -> Callable[[Entry], float | None]:
    return lambda entry: _path(entry, "result", name)


def _ratio(above: float | None, below: float | None, factor: float = 1.0) -> float | None:
    if above is None or not below:
        return None
    return factor * above / below


def _per_transaction(*names: str, factor: float = 1.0) -> Callable[[Entry], float | None]:
    def read(entry: Entry) -> float | None:
        return _ratio(_path(entry, *names), _path(entry, "result", "transactions"), factor)

    return read


def _table(entry: Entry, noun: str) -> Mapping[str, Any]:
    tables = _path(entry, "counters", "tables") or {}
    return tables.get(f"pgbench_{noun}") or tables.get(noun) or {}


def _hot_share(noun: str) -> Callable[[Entry], float | None]:
    def read(entry: Entry) -> float | None:
        table = _table(entry, noun)
        return _ratio(table.get("n_tup_hot_upd"), table.get("n_tup_upd"), 100)

    return read


def _growth(noun: str) -> Callable[[Entry], float | None]:
    def read(entry: Entry) -> float | None:
        sizes = _path(entry, "counters", "sizes_bytes", "tables") or {}
        size = sizes.get(f"pgbench_{noun}") or sizes.get(noun) or {}
        if size.get("after") is None or size.get("before") is None:
            return None
        return float(size["after"] - size["before"]) / 1024**2

    return read


def _dead(entry: Entry) -> float | None:
    tables = [_table(entry, noun) for noun in ("accounts", "branches", "tellers")]
    dead = [_path(table, "n_dead_tup", "after") for table in tables]
    known = [count for count in dead if count is not None]
    return float(sum(known)) if len(known) == len(tables) else None


def _hit_share(entry: Entry) -> float | None:
    hit = _path(entry, "counters", "database", "blks_hit")
    read = _path(entry, "counters", "database", "blks_read")
    return None if hit is None or read is None else _ratio(hit, hit + read, 100)


def _client_cpu(entry: Entry) -> float | None:
    threads = _path(entry, "asked", "workload", "threads") or 1
    wall_s = _path(entry, "result", "wall_s")
    return _ratio(_path(entry, "result", "client_cpu_s"), wall_s and wall_s * threads, 100)


_METRICS = (
    Metric(
        name="tps",
        title="Throughput",
        unit="transactions/s",
        read=_result("comparable_tps"),
        words=("faster", "slower"),
        digits=0,
    ),
    Metric(
        name="latency_average_ms",
        title="Average latency",
        unit="ms",
        read=_result("latency_average_ms"),
        words=("slower", "faster"),
        digits=2,
    ),
    Metric(
        name="latency_stddev_ms",
        title="Standard deviation of latency",
        unit="ms",
        read=_result("latency_stddev_ms"),
        digits=2,
    ),
    Metric(
        name="hot_accounts_pct",
        title="HOT updates of accounts",
        unit="% of updates",
        read=_hot_share("accounts"),
    ),
    Metric(
        name="hot_branches_pct",
        title="HOT updates of branches",
        unit="% of updates",
        read=_hot_share("branches"),
    ),
    Metric(
        name="hot_tellers_pct",
        title="HOT updates of tellers",
        unit="% of updates",
        read=_hot_share("tellers"),
    ),
    Metric(
        name="wal_bytes_per_transaction",
        title="WAL",
        unit="bytes/transaction",
        read=_per_transaction("counters", "wal", "bytes"),
        digits=0,
    ),
    Metric(
        name="full_page_images_per_transaction",
        title="Full-page images",
        unit="per transaction",
        read=_per_transaction("counters", "wal", "full_page_images"),
        digits=3,
    ),
    Metric(
        name="accounts_growth_mb",
        title="Growth of accounts",
        unit="MB",
        read=_growth("accounts"),
        digits=2,
    ),
    Metric(
        name="branches_growth_mb",
        title="Growth of branches",
        unit="MB",
        read=_growth("branches"),
        digits=2,
    ),
    Metric(name="dead_tuples", title="Dead tuples at the end", unit="", read=_dead, digits=0),
    Metric(name="buffer_hit_pct", title="Buffer hits", unit="% of accesses", read=_hit_share),
    Metric(
        name="buffer_reads_per_transaction",
        title="Buffers read into shared_buffers",
        unit="per transaction",
        read=_per_transaction("counters", "database", "blks_read"),
        digits=3,
    ),
    Metric(
        name="evictions_per_transaction",
        title="Buffers evicted",
        unit="per transaction",
        read=_per_transaction("counters", "buffers", "evicted"),
        digits=3,
    ),
    Metric(
        name="disk_read_kb_per_transaction",
        title="Read from disk by the machine",
        unit="kB/transaction",
        read=_per_transaction("machine", "disk_read_bytes", factor=1 / 1024),
        digits=2,
    ),
    Metric(
        name="disk_written_kb_per_transaction",
        title="Written to disk by the machine",
        unit="kB/transaction",
        read=_per_transaction("machine", "disk_written_bytes", factor=1 / 1024),
        digits=2,
    ),
    Metric(
        name="checkpoints",
        title="Checkpoints",
        unit="",
        read=lambda entry: _checkpoints(_path(entry, "counters", "checkpoints") or {}),
        digits=0,
    ),
    Metric(
        name="client_cpu_pct",
        title="CPU of pgbench",
        unit="% of its threads",
        read=_client_cpu,
        digits=0,
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _METRICS}


def _checkpoints(counts: Mapping[str, Any]) -> float | None:
    timed, requested = counts.get("timed"), counts.get("requested")
    return None if timed is None or requested is None else float(timed + requested)
