"""Logs of transactions and of intervals, in the layouts of every version."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchkit.errors import FormatError
from benchkit.workload.logs import STATUSES, read_aggregate_log, read_transaction_log

RECORDED = Path(
    os.environ.get("BENCHKIT_REPORTS", Path(__file__).parents[3] / "shared" / "pgbench-reports")
)
Write = Callable[..., list[Path]]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the logs of a run's threads, named as pgbench names them."""

    def write_logs(*threads: str | bytes) -> list[Path]:
        paths = [tmp_path / f"pgbench_log.77{f'.{n}' if n else ''}" for n in range(len(threads))]
        for path, content in zip(paths, threads, strict=True):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return paths

    return write_logs


def rows(table: pd.DataFrame) -> list[tuple[object, ...]]:
    """The rows as plain values, None for null."""
    plain = table.astype(object).where(table.notna(), None)
    return list(plain.itertuples(index=False, name=None))


def test_8_2_logs_three_columns(write: Write) -> None:
    table = read_transaction_log(write("4 0 1500\n2 0 900\n4 1 1250\n"))
    assert rows(table) == [
        (4, 0, 1500, "ok", None, None, None, None),
        (2, 0, 900, "ok", None, None, None, None),
        (4, 1, 1250, "ok", None, None, None, None),
    ]


def test_threads_are_merged_in_the_order_of_time(write: Write) -> None:
    logs = write(
        "0 1 700 1 1500000000 250000\n0 2 800 0 1500000002 0\n", "1 1 900 0 1500000001 5\n"
    )
    table = read_transaction_log(logs)
    assert rows(table) == [
        (0, 1, 700, "ok", 1, 1500000000.25, None, None),
        (1, 1, 900, "ok", 0, 1500000001.000005, None, None),
        (0, 2, 800, "ok", 0, 1500000002.0, None, None),
    ]
    assert table.index.tolist() == [0, 1, 2]


def test_9_5_logs_lag_and_skipped_transactions(write: Write) -> None:
    logs = write("3 10 skipped 0 1500000000 500000 8125\n3 11 950 0 1500000001 0 15\n")
    assert rows(read_transaction_log(logs, rate=True)) == [
        (3, 10, None, "skipped", 0, 1500000000.5, 8125, None),
        (3, 11, 950, "ok", 0, 1500000001.0, 15, None),
    ]


@pytest.mark.parametrize("word", STATUSES[1:])
def test_15_logs_failures_and_retries(write: Write, word: str) -> None:
    logs = write(f"3 10 {word} 2 1500000000 500000 3\n3 11 950 0 1500000001 0 0\n")
    assert rows(read_transaction_log(logs, retries=True)) == [
        (3, 10, None, word, 2, 1500000000.5, None, 3),
        (3, 11, 950, "ok", 0, 1500000001.0, None, 0),
    ]


def test_both_optional_columns(write: Write) -> None:
    logs = write("5 9 serialization 1 1500000000 0 44 2\n")
    assert rows(read_transaction_log(logs, rate=True, retries=True)) == [
        (5, 9, None, "serialization", 1, 1500000000.0, 44, 2)
    ]


def test_types_are_the_same_with_and_without_rows(write: Write) -> None:
    full = read_transaction_log(write("1 1 7 0 1500000000 0\n", "1 2 failed 0 1500000000 1\n"))
    empty = read_transaction_log(write("", ""))
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()
    assert list(full["status"].cat.categories) == list(STATUSES)


@pytest.mark.parametrize("torn", ["1 2", "1 2 950 0 1500000001 25", "1 2 skip", "\x00"])
def test_a_torn_last_line_is_dropped(write: Write, torn: str) -> None:
    table = read_transaction_log(write("1 1 700 0 1500000000 250000\n" + torn))
    assert len(table) == 1


def test_windows_line_ends(write: Write) -> None:
    assert read_transaction_log(write("1 1 7\r\n1 2 8\r\n"))["latency_us"].tolist() == [7, 8]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("1 2\n", 1, "2 columns instead of 6"),
        ("1 1 7 0 1500000000 0 12\n", 1, "7 columns instead of 6"),
        ("1 1 7 0 1500000000 0\n1 2 7 0 1500000000\n", 2, "5 columns instead of 6"),
        ("1 1 7 0 1500000000 0\n1 2 7 0 1500000000 0 1\n", 2, "7 columns instead of 6"),
        ("1 1 7 0 1500000000 0\n\n1 2 7 0 1500000000 0\n", 2, "1 columns instead of 6"),
        ("1 1 7 0 1500000000 0\n1 2 lost 0 1500000000 0\n", 2, "'lost'"),
        ("1 1 ok 0 1500000000 0\n", 1, "'ok'"),
        ("1 1 skipped 0 1500000000 0\n1 1 nan 0 1500000000 0\n", 2, "'nan'"),
        ("1 1 7 0 1500000000 0\n1 2 7.5 0 1500000000 0\n", 2, "'7.5'"),
        ("1 1 7 failed 1500000000 0\n", 1, "'failed'"),
        ("1 1 7\n1 99999999999999999999 8\n", 2, "'99999999999999999999'"),
        ("1 1 7\n1 2 failed\n1 3 \n", 3, "''"),
    ],
)
def test_a_line_that_does_not_fit_is_named(
    write: Write, content: str, line: int, problem: str
) -> None:
    [path] = logs = write(content)
    with pytest.raises(FormatError) as caught:
        read_transaction_log(logs)
    assert f"{path}, line {line}: " in caught.value.message
    assert problem in caught.value.message


def test_no_log_and_a_lost_log_are_format_errors(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no log"):
        read_transaction_log([])
    with pytest.raises(FormatError, match="cannot be read"):
        read_transaction_log([tmp_path / "pgbench_log.1"])


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**6),
            st.integers(0, 10**12),
            st.integers(0, 10**12) | st.sampled_from(STATUSES[1:]),
            st.integers(0, 100),
            st.integers(0, 10**9),
            st.integers(0, 10**12),
            st.integers(0, 1000),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_what_is_logged_is_read(
    write: Write, logged: list[tuple[int, int, int | str, int, int, int, int]]
) -> None:
    lines = [
        f"{client} {number} {latency} {script} {1500000000 + n} {us % 10**6} {lag} {retries}"
        for n, (client, number, latency, script, us, lag, retries) in enumerate(logged)
    ]
    table = read_transaction_log(write("\n".join(lines) + "\n"), rate=True, retries=True)
    expected = [
        (
            client,
            number,
            *((None, latency) if isinstance(latency, str) else (latency, "ok")),
            script,
            1500000000 + n + us % 10**6 / 1e6,
            lag,
            retries,
        )
        for n, (client, number, latency, script, us, lag, retries) in enumerate(logged)
    ]
    assert rows(table) == expected


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=60) | st.text("0123456789 \n\r-.fi\x00", max_size=60))
def test_any_octets_give_a_table_or_a_format_error(write: Write, content: bytes | str) -> None:
    logs = write(content)
    octets = content if isinstance(content, bytes) else content.encode()
    with contextlib.suppress(FormatError):
        assert len(read_transaction_log(logs)) == octets.count(b"\n")
    with contextlib.suppress(FormatError):
        table = read_aggregate_log(logs, 90318, rate=False, latency_limit=False)
        assert len(table) <= octets.count(b"\n")


@pytest.mark.parametrize(
    ("version", "rate", "limit", "columns"),
    [
        (90318, False, False, 6),
        (90318, True, True, 6),
        (90426, False, False, 6),
        (90426, True, False, 10),
        (90426, True, True, 10),
        (90500, True, True, 11),
        (140011, False, True, 6),
        (140011, True, True, 11),
        (150000, False, False, 15),
        (180001, True, True, 15),
    ],
)
def test_the_columns_of_the_interval_log_follow_version_and_options(
    write: Write, version: int, rate: bool, limit: bool, columns: int
) -> None:
    for given_columns in (6, 10, 11, 15, 16):
        logs = write(" ".join(["1500000000", "4", *["1"] * (given_columns - 2)]) + "\n")
        if given_columns == columns:
            table = read_aggregate_log(logs, version, rate=rate, latency_limit=limit)
            assert table["start_epoch_s"].tolist() == [1500000000]
            assert bool(table["lag_average_ms"].notna().all()) == (rate and columns >= 10)
            assert bool(table["skipped"].notna().all()) == (rate and limit and columns >= 11)
        else:
            with pytest.raises(FormatError, match=f"line 1: {given_columns} columns instead of"):
                read_aggregate_log(logs, version, rate=rate, latency_limit=limit)


def test_before_9_3_there_is_no_log_of_intervals(write: Write) -> None:
    with pytest.raises(FormatError, match="no log of intervals"):
        read_aggregate_log(write(""), 90224, rate=False, latency_limit=False)


@pytest.mark.parametrize(("version", "transactions"), [(140011, 40), (150000, 50)])
def test_up_to_14_skipped_transactions_are_within_the_count(
    write: Write, version: int, transactions: int
) -> None:
    fields = "1500000000 50 80000 170000000 1000 4000 20000 11000000 100 900 10"
    logs = write(fields + (" 0 0 0 0" if version >= 150000 else "") + "\n")
    table = read_aggregate_log(logs, version, rate=True, latency_limit=True)
    assert table["transactions"].tolist() == [transactions]
    assert table["skipped"].tolist() == [10]
    assert table["latency_average_ms"].tolist() == [80.0 / transactions]
    assert table["lag_average_ms"].tolist() == [20.0 / transactions]


def test_threads_of_an_interval_are_added_up(write: Write) -> None:
    latencies = {0: [400, 600, 1100], 1: [300, 900]}
    lines = [
        f"1500000000 {len(us)} {sum(us)} {sum(one * one for one in us)} {min(us)} {max(us)}\n"
        for us in latencies.values()
    ]
    table = read_aggregate_log(write(*lines), 90600, rate=False, latency_limit=False)
    us = np.array(latencies[0] + latencies[1])
    assert table["transactions"].tolist() == [5]
    assert table["latency_average_ms"][0] == pytest.approx(us.mean() / 1000)
    assert table["latency_stddev_ms"][0] == pytest.approx(us.std() / 1000)
    assert (table["latency_min_ms"][0], table["latency_max_ms"][0]) == (0.3, 1.1)


def test_an_interval_without_a_transaction_has_no_latency(write: Write) -> None:
    nothing = " 0" * 9
    logs = write(
        f"1500000000 2 1000 500000 500 500{nothing}\n1500000001 0 0 0 0 0{nothing}\n",
        f"1500000000 0 0 0 0 0{nothing}\n",
    )
    table = read_aggregate_log(logs, 180001, rate=False, latency_limit=False)
    assert table["transactions"].tolist() == [2, 0]
    assert table["latency_min_ms"].tolist()[0] == 0.5
    assert table.filter(like="latency_").iloc[1].isna().all()
    assert table["deadlock_failures"].tolist() == [0, 0]


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded reports here")
def test_every_recorded_log_is_read_whole(write: Write) -> None:
    recorded = list(RECORDED.glob("*.logfile.txt"))
    assert recorded
    for path in recorded:
        content = re.sub("^#.*\n", "", path.read_text())  # the recorder's own note
        version = [int(part) for part in re.findall(r"[0-9]+", path.name)[:2]]
        number = version[0] * 10000 + (version[1] * 100 if version[0] < 10 else 0)
        if "-log-agg" in path.name:
            table = read_aggregate_log(write(content), number, rate=False, latency_limit=False)
            assert (table["transactions"] > 0).all(), path.name
        else:
            table = read_transaction_log(write(content))
            assert table["latency_us"].notna().all(), path.name
        assert len(table) == content.count("\n"), path.name
