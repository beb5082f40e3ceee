"""Standard error of pgbench: progress lines and dead clients, in every spelling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchkit.workload.progress import ClientErrors, Progress, parse_errors, parse_progress

RECORDED = Path(
    os.environ.get("BENCHKIT_REPORTS", Path(__file__).parents[3] / "shared" / "pgbench-reports")
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (  # 9.4 to 14
            "progress: 5.0 s, 731.4 tps, lat 8.125 ms stddev 2.250",
            Progress(time_s=5.0, tps=731.4, latency_ms=8.125, latency_stddev_ms=2.25),
        ),
        (  # 9.5 to 14 with -R and -L
            "progress: 15.0 s, 99.5 tps, lat 3.500 ms stddev 0.750, lag 0.625 ms, 17 skipped",
            Progress(
                time_s=15.0, tps=99.5, latency_ms=3.5, latency_stddev_ms=0.75, lag_ms=0.625,
                skipped=17,
            ),
        ),
        (  # 9.6+ with --progress-timestamp
            "progress: 1460000123.250 s, 12.0 tps, lat 1.000 ms stddev 0.125",
            Progress(epoch_s=1460000123.25, tps=12.0, latency_ms=1.0, latency_stddev_ms=0.125),
        ),
        (  # 15+
            "progress: 2.0 s, 45.0 tps, lat 22.500 ms stddev 4.000, 6 failed",
            Progress(time_s=2.0, tps=45.0, latency_ms=22.5, latency_stddev_ms=4.0, failed=6),
        ),
        (  # 15+ with -R, -L and --max-tries
            "progress: 3.0 s, 45.0 tps, lat 22.500 ms stddev 4.000, 6 failed, lag 1.125 ms, "
            "8 skipped, 9 retried, 11 retries",
            Progress(
                time_s=3.0, tps=45.0, latency_ms=22.5, latency_stddev_ms=4.0, lag_ms=1.125,
                skipped=8, failed=6, retried=9, retries=11,
            ),
        ),
        (  # up to 10: nothing divided by nothing
            "progress: 4.0 s, 0.0 tps, lat -nan ms stddev -nan, lag -nan ms",
            Progress(time_s=4.0, tps=0.0, latency_ms=None, latency_stddev_ms=None),
        ),
        (  # from 11 on zeros instead, which are no measurement either
            "progress: 4.0 s, 0.0 tps, lat 0.000 ms stddev 0.000, 5 failed, lag 0.000 ms",
            Progress(time_s=4.0, tps=0.0, latency_ms=None, latency_stddev_ms=None, failed=5),
        ),
        (  # one transaction in a long interval: 0.0 is a rounded rate
            "progress: 60.0 s, 0.0 tps, lat 41250.500 ms stddev 0.000",
            Progress(time_s=60.0, tps=0.0, latency_ms=41250.5, latency_stddev_ms=0.0),
        ),
    ],
)  # fmt: skip
def test_a_line_of_progress(line: str, expected: Progress) -> None:
    assert parse_progress(line + "\n") == [expected]
    assert parse_errors(line + "\n") == ClientErrors()


def test_progress_among_other_lines_keeps_its_order() -> None:
    stderr = (
        "starting vacuum...end.\r\n"
        "progress: 1.0 s, 10.0 tps, lat 1.000 ms stddev 0.500\r\n"
        "NOTICE:  half way\r"
        "progress: 2.0 s, 20.0 tps, lat 1.000 ms stddev 0.500\n"
        "progress: 3.0 s, 30.0 tps, lat 1.0"  # killed while it wrote
    )
    assert [(line.time_s, line.tps) for line in parse_progress(stderr)] == [
        (1.0, 10.0),
        (2.0, 20.0),
    ]
    assert parse_errors(stderr).messages == (
        "NOTICE:  half way",
        "progress: 3.0 s, 30.0 tps, lat 1.0",
    )


LINE = "progress: 7.0 s, 1234.5 tps, lat 6.543 ms stddev 2.109, 3 failed, lag 0.123 ms, 4 skipped"


@pytest.mark.parametrize("length", [*range(LINE.index(" ms stddev 2.109"))])
def test_a_torn_line_gives_no_progress(length: int) -> None:
    assert parse_progress(LINE[:length]) == []


@settings(deadline=None)
@given(
    st.integers(0, 10**7),
    st.booleans(),
    st.integers(1, 10**9),
    st.tuples(*[st.integers(0, 10**9)] * 3),
    st.tuples(*[st.none() | st.integers(0, 10**12)] * 4),
)
def test_what_is_printed_is_read(
    time: int,
    is_epoch: bool,
    tenths: int,
    thousandths: tuple[int, int, int],
    counts: tuple[int | None, int | None, int | None, int | None],
) -> None:
    clock = f"{time}.125" if is_epoch else f"{time}.5"
    latency, stddev, lag = (number / 1000 for number in thousandths)
    names = ("failed", "skipped", "retried", "retries")
    parts = [f", {n} {name}" for name, n in zip(names, counts, strict=True) if n is not None]
    line = f"progress: {clock} s, {tenths / 10:.1f} tps, lat {latency:.3f} ms stddev {stddev:.3f}"
    [progress] = parse_progress(line + f", lag {lag:.3f} ms" + "".join(parts))
    assert (progress.epoch_s if is_epoch else progress.time_s) == float(clock)
    assert (progress.time_s is None) == is_epoch
    assert progress.tps == tenths / 10
    assert (progress.latency_ms, progress.latency_stddev_ms, progress.lag_ms) == (
        latency,
        stddev,
        lag,
    )
    assert tuple(getattr(progress, name) for name in names) == counts


ABORTS = {
    "8.2": "Client 3 aborted in state 6: ERROR:  out of shared memory",
    "8.4": "Client 3 aborted in state 6. Probably the backend died while processing.",
    "9.5": "Client 3 aborted in establishing connection.",
    "9.6": "client 3 aborted in state 6; perhaps the backend died while processing",
    "10": "client 3 aborted in command 6 of script 0; perhaps the backend died while processing",
    "11": "client 3 aborted in command 6 (SQL) of script 0; division by zero",
    "12": "client 3 script 0 aborted in command 6 query 0: ERROR:  division by zero",
    "13": "pgbench: error: client 3 script 0 aborted in command 6 query 0: ERROR:  division",
    "15": "pgbench: error: client 3 aborted while rolling back the transaction after an error",
    "15 pipeline": "pgbench: error: client 3 aborted: end of script reached with pipeline open",
    "16": "pgbench: error: client 3 aborted while establishing connection",
}


@pytest.mark.parametrize("version", ABORTS)
def test_an_aborted_client_is_found_in_every_spelling(version: str) -> None:
    errors = parse_errors(f"starting vacuum...end.\n{ABORTS[version]}\n")
    assert errors == ClientErrors(aborted_clients=(3,), messages=(ABORTS[version],))


def test_clients_are_counted_once_and_in_order() -> None:
    lines = [ABORTS["13"].replace("3", number, 1) for number in ("12", "3", "12", "0")]
    assert parse_errors("\n".join(lines)).aborted_clients == (0, 3, 12)


@pytest.mark.parametrize("prefix", ["", "pgbench: error: ", "pgbench: fatal: "])
def test_the_run_says_that_it_is_incomplete(prefix: str) -> None:
    line = prefix + "Run was aborted; the above results are incomplete."
    assert parse_errors(line + "\n") == ClientErrors(incomplete=True, messages=(line,))


@pytest.mark.parametrize(
    "line",
    [  # 15+ with --verbose-errors; the script's own words
        "pgbench: client 3 got an error in command 1 (SQL) of script 0; ERROR:  deadlock detected",
        "pgbench: client 3 repeats the transaction after the error (try 1/4)",
        "pgbench: client 3 ends the failed transaction (try 4/4)",
        "client 3 receives ERROR:  current transaction is aborted",
        "pgbench: setting random seed to 42",
        "scale option ignored, using count from pgbench_branches table (5)",
    ],
)
def test_other_lines_are_kept_but_are_no_abort(line: str) -> None:
    assert parse_errors(line + "\n") == ClientErrors(messages=(line,))


def test_routine_lines_of_all_versions_are_passed_over() -> None:
    stderr = """
starting vacuum...end.
starting vacuum pgbench_accounts...end.
NOTICE:  table "pgbench_tellers" does not exist, skipping
creating tables...
20000 tuples done.
100000 of 300000 tuples (33%) done (elapsed 0.25 s, remaining 0.50 s).
200000 of 300000 tuples (66%) done (elapsed 0.50 s, remaining 0.25 s)\r
300000 of 300000 tuples (100%) of pgbench_accounts done (elapsed 0.75 s, remaining 0.00 s)
set primary key...
NOTICE:  ALTER TABLE / ADD PRIMARY KEY will create implicit index "x_pkey" for table "x"
vacuum...done.
set primary keys...
done.
dropping old tables...
generating data (client-side)...
vacuuming...
creating primary keys...
creating foreign keys...
done in 0.50 s (drop tables 0.00 s, create tables 0.25 s, vacuum 0.25 s).
"""
    assert parse_errors(stderr) == ClientErrors()
    failed = 'starting vacuum...ERROR:  relation "pgbench_branches" does not exist'
    assert parse_errors(failed).messages == (failed,)


@settings(deadline=None)
@given(st.one_of(st.text(), st.binary().map(lambda octets: octets.decode("latin-1"))))
def test_any_text_is_read(text: str) -> None:
    errors = parse_errors(text)
    assert errors.aborted_clients == ()
    assert parse_progress(text) == []


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded reports here")
def test_every_recorded_line_of_progress_is_read() -> None:
    recorded = [path.read_text() for path in RECORDED.glob("*.stderr.txt")]
    assert recorded
    for text in recorded:
        assert len(parse_progress(text)) == text.count("progress: ")
        assert not parse_errors(text).aborted_clients
