"""Each gate is closed by evidence made for it, and by nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from benchkit.measure.gates import Evidence, Gate, Limits, closed_gates
from benchkit.workload.pgbench import Workload
from benchkit.workload.progress import ClientErrors
from benchkit.workload.report import Report
from benchkit.workload.run import Run

WORKLOAD = Workload(scale=1, clients=2, threads=1, duration_s=10)
REPORT = Report(transactions=10_000, tps=1000.0, failed=0)


def run(**changes: Any) -> Run:
    return dataclasses.replace(
        Run(
            command=("pgbench",),
            exit_code=0,
            started_at=0.0,
            wall_s=10.0,
            cpu_s=1.0,
            timed_out=False,
            stdout="",
            stderr="",
            report=REPORT,
            report_error="",
            errors=ClientErrors(),
        ),
        **changes,
    )


def evidence(measured: Run | None = None, **changes: Any) -> Evidence:
    return dataclasses.replace(
        Evidence(
            run=measured or run(),
            workload=WORKLOAD,
            scale_in_tables=1,
            log_errors=(),
            server_alive=True,
            clock_jump_s=0.0,
            reset_counters=(),
        ),
        **changes,
    )


def report(**fields: Any) -> Run:
    return run(report=dataclasses.replace(REPORT, **fields))


def names(found: Evidence, limits: Limits | None = None) -> list[str]:
    return [gate.name for gate in closed_gates(found, limits or Limits())]


def only(found: Evidence) -> Gate:
    (gate,) = closed_gates(found, Limits())
    return gate


def test_a_sound_run_passes_every_gate() -> None:
    assert names(evidence()) == []


@pytest.mark.parametrize(
    ("found", "name", "message"),
    [
        (
            evidence(run(exit_code=2, errors=ClientErrors(messages=("one", "two", "three")))),
            "exit code",
            "pgbench ended with 2: two | three",
        ),
        (
            evidence(run(exit_code=-9, stderr="killed\n")),
            "exit code",
            "pgbench ended with -9: killed",
        ),
        (
            evidence(run(timed_out=True, exit_code=-9, wall_s=70.2)),
            "time limit",
            "pgbench did not end and was killed after 70 s",
        ),
        (
            evidence(run(errors=ClientErrors(aborted_clients=(0, 3)))),
            "aborted clients",
            "2 client(s) aborted; the load was smaller",
        ),
        (
            evidence(run(report=None, report_error="This output of pgbench holds no report")),
            "report",
            "pgbench left no report: This output of pgbench holds no report",
        ),
        (
            evidence(report(tps=None, transactions=0)),
            "report",
            "no transaction completed",
        ),
        (
            evidence(report(failed=200)),
            "failed transactions",
            "200 of 10,200 transactions failed (2.0%)",
        ),
        (
            evidence(report(skipped=200)),
            "skipped transactions",
            "200 of 10,200 transactions skipped (2.0%)",
        ),
        (evidence(report(tps=1100.0)), "duration", "ran 9.1 s where 10 s were asked"),
        (evidence(report(tps=500.0)), "duration", "ran 20.0 s where 10 s were asked"),
        (evidence(scale_in_tables=10), "scale", "the tables hold scale 10, asked was 1"),
        (
            evidence(log_errors=("ERROR:  out of memory", "PANIC:  no")),
            "server log",
            "2 error(s), the first: ERROR:  out of memory",
        ),
        (evidence(server_alive=False), "server", "the server went down during the run"),
        (evidence(clock_jump_s=-3.0), "clock", "the wall clock jumped by -3.0 s"),
        (
            evidence(reset_counters=("pg_stat_wal was reset between the snapshots",)),
            "counters",
            "pg_stat_wal was reset between the snapshots",
        ),
        (
            evidence(warm_up=run(exit_code=2, errors=ClientErrors(messages=("bad",)))),
            "warm-up",
            "pgbench ended with 2: bad",
        ),
        (
            evidence(warm_up=run(timed_out=True, exit_code=-9, wall_s=64.0)),
            "warm-up",
            "pgbench did not end and was killed after 64 s",
        ),
    ],
)
def test_each_gate_rejects_and_says_why(found: Evidence, name: str, message: str) -> None:
    assert only(found) == Gate(name=name, rejects=True, message=message)


def test_gates_that_only_flag() -> None:
    busy = only(evidence(run(cpu_s=9.5)))
    assert busy.name == "client CPU"
    assert busy.message == "pgbench used 95% of its 1 thread(s): it may be the limit itself"
    late = only(evidence(counters_complete=False))
    assert late.name == "counters"
    assert "end of the run" in late.message
    assert not busy.rejects
    assert not late.rejects


def test_two_threads_may_use_twice_the_cpu_of_one() -> None:
    workload = dataclasses.replace(WORKLOAD, threads=2)
    assert names(evidence(run(cpu_s=17.0), workload=workload)) == []
    assert names(evidence(run(cpu_s=19.0), workload=workload)) == ["client CPU"]


def test_limits_are_limits() -> None:
    strict = Limits(failed_share=0, duration_share=0.001, clock_jump_s=0.01, client_cpu_share=0.05)
    almost = evidence(report(failed=1, tps=1100.0), clock_jump_s=0.02)
    generous = Limits(duration_share=0.2)
    assert names(almost, strict) == ["failed transactions", "duration", "clock", "client CPU"]
    assert names(almost, generous) == []
    assert names(evidence(report(failed=101))) == []
    assert names(evidence(report(failed=102))) == ["failed transactions"]


def test_half_a_second_is_allowed_to_a_short_run() -> None:
    workload = dataclasses.replace(WORKLOAD, duration_s=1)
    within, beyond = report(transactions=1400), report(transactions=1600)
    assert names(evidence(within, workload=workload)) == []
    assert names(evidence(beyond, workload=workload)) == ["duration"]


def test_duration_from_the_rate_that_counts_connecting() -> None:
    # Up to 13 the other rate leaves connecting out: with -C, or in 9.0 to 9.4, most of the run.
    reconnecting = report(tps=3000.0, tps_including_connections=1000.0)
    assert names(evidence(reconnecting)) == []
    slow = report(tps=3000.0, tps_including_connections=500.0)
    assert only(evidence(slow)).message == "ran 20.0 s where 10 s were asked"


@pytest.mark.parametrize(
    ("fields", "closed"),
    [
        ({"transactions": 200, "failed": 0}, []),
        ({"transactions": 199, "failed": 1}, []),
        ({"transactions": 198, "failed": 1, "skipped": 1}, []),
        ({"transactions": 200, "failed": None, "skipped": 2}, []),  # 9.6 and 10 count them in
        ({"transactions": 150, "failed": 0}, ["transactions"]),
        ({"transactions": 150, "failed": 50}, ["failed transactions"]),
    ],
)
def test_transactions_asked_for_are_those_that_ended(
    fields: dict[str, Any], closed: list[str]
) -> None:
    workload = dataclasses.replace(WORKLOAD, duration_s=0, transactions=100)
    assert names(evidence(report(**fields), workload=workload)) == closed


def test_too_few_transactions_are_counted_out() -> None:
    workload = dataclasses.replace(WORKLOAD, duration_s=0, transactions=100)
    gate = only(evidence(report(transactions=150), workload=workload))
    assert gate.message == "150 transactions ended where 200 were asked"


def test_failures_that_pgbench_counts_are_judged_by_their_share() -> None:
    lines = (
        "2026-01-01 00:00:00 UTC [9] ERROR:  could not serialize access due to concurrent update",
        "2026-01-01 00:00:00 UTC [9] ERROR:  deadlock detected",
    )
    assert names(evidence(report(failed=2), log_errors=lines)) == []
    # Before 15 pgbench does not count them: the client is dead.
    assert names(evidence(report(failed=None), log_errors=lines)) == ["server log"]
    mixed = (*lines, "ERROR:  division by zero")
    gate = only(evidence(report(failed=2), log_errors=mixed))
    assert gate.message == "1 error(s), the first: ERROR:  division by zero"


def test_without_a_report_other_gates_still_close() -> None:
    found = evidence(
        run(report=None, report_error="none", exit_code=1, stderr="no server"),
        server_alive=False,
        scale_in_tables=None,
    )
    assert names(found) == ["exit code", "report", "server"]


def test_an_aborted_warm_up_leaves_a_cache_that_was_not_asked_for() -> None:
    warm_up = run(errors=ClientErrors(aborted_clients=(1,)))
    assert only(evidence(warm_up=warm_up)).message == "1 client(s) aborted; the load was smaller"
    assert names(evidence(warm_up=run())) == []


def test_a_quota_that_held_the_run_back_is_flagged() -> None:
    (gate,) = closed_gates(evidence(throttled_s=1.25), Limits())
    assert (gate.name, gate.rejects) == ("throttled", False)
    assert "held processes back for 1.2 s" in gate.message
    assert names(evidence(throttled_s=0.0)) == names(evidence(throttled_s=None)) == []
