"""Whether a trial may be trusted: each gate that closes says why.

A trial with a closed gate is kept and shown, and never averaged. A gate that only flags leaves the
trial in the results, with the remark beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchkit.workload.pgbench import Workload
from benchkit.workload.run import Run


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A gate that closed (``rejects``) or flagged a trial, and why."""

    name: str
    rejects: bool
    message: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where the gates close.

    Attributes
    ----------
    failed_share
        Failed or skipped transactions, as a share of those attempted.
    duration_share
        How far the measured duration may lie from the one asked for, as a share of it; half a
        second is always allowed, for the last transaction of each client.
    clock_jump_s
        By how much the wall clock may move against the monotonic one.
    client_cpu_share
        CPU use of pgbench's threads from which it is suspected to be the limit itself.
    """

    failed_share: float = 0.01
    duration_share: float = 0.05
    clock_jump_s: float = 0.5
    client_cpu_share: float = 0.9


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the gates look at, beside pgbench's own output.

    Attributes
    ----------
    server_alive
        Whether the server stood through the run: neither gone nor restarted by itself.
    counters_complete
        Whether the server had counted all of the run when the counters were read.
    throttled_s
        How long the container's CPU quota held processes back during the run; None: no quota.
    """

    run: Run
    workload: Workload
    scale_in_tables: int | None
    log_errors: Sequence[str]
    server_alive: bool
    clock_jump_s: float
    reset_counters: Sequence[str]
    counters_complete: bool = True
    warm_up: Run | None = None
    throttled_s: float | None = None


# Errors that pgbench counts as failed transactions (15 on) and goes on after.
_COUNTED = re.compile("deadlock detected|could not serialize access")


def closed_gates(evidence: Evidence, limits: Limits) -> list[Gate]:
    """Apply every gate to a finished run."""
    run = evidence.run
    gates = [*_process_gates(run), *_server_gates(evidence)]
    if evidence.warm_up is not None:
        gates += [replace(gate, name="warm-up") for gate in _process_gates(evidence.warm_up)]
    if run.report is not None:
        gates += [*_count_gates(run, limits), *_duration_gates(run, evidence.workload, limits)]
    if abs(evidence.clock_jump_s) > limits.clock_jump_s:
        gates.append(_reject("clock", f"the wall clock jumped by {evidence.clock_jump_s:+.1f} s"))
    return [*gates, *_flags(evidence, limits)]


def _flags(evidence: Evidence, limits: Limits) -> Iterator[Gate]:
    run, threads = evidence.run, max(evidence.workload.threads, 1)
    busy = run.cpu_s / max(run.wall_s, 1e-9) / threads
    if busy > limits.client_cpu_share:
        text = f"pgbench used {busy:.0%} of its {threads} thread(s): it may be the limit itself"
        yield Gate(name="client CPU", rejects=False, message=text)
    if evidence.throttled_s:
        text = f"the container's CPU quota held processes back for {evidence.throttled_s:.1f} s"
        yield Gate(name="throttled", rejects=False, message=text)
    if not evidence.counters_complete:
        text = "the server's counters may lack the end of the run"
        yield Gate(name="counters", rejects=False, message=text)


def _reject(name: str, message: str) -> Gate:
    return Gate(name=name, rejects=True, message=message)


def _process_gates(run: Run) -> Iterator[Gate]:
    if run.timed_out:
        yield _reject("time limit", f"pgbench did not end and was killed after {run.wall_s:.0f} s")
    elif run.exit_code != 0:
        lines = run.errors.messages or [run.stderr.strip()[-300:]]
        yield _reject("exit code", f"pgbench ended with {run.exit_code}: {' | '.join(lines[-2:])}")
    if run.errors.aborted_clients:
        count = len(run.errors.aborted_clients)
        yield _reject("aborted clients", f"{count} client(s) aborted; the load was smaller")
    if run.report is None:
        yield _reject("report", f"pgbench left no report: {run.report_error}")
    elif run.report.tps is None:
        yield _reject("report", "no transaction completed")


def _count_gates(run: Run, limits: Limits) -> Iterator[Gate]:
    report = run.report
    if report is None:
        return
    for name, count in (("failed", report.failed), ("skipped", report.skipped)):
        attempted = (report.transactions or 0) + (count or 0)
        if count and count / attempted > limits.failed_share:
            share = count / attempted
            yield _reject(
                f"{name} transactions",
                f"{count:,} of {attempted:,} transactions {name} ({share:.1%})",
            )


def _duration_gates(run: Run, workload: Workload, limits: Limits) -> Iterator[Gate]:
    report = run.report
    if report is None or not report.tps or not report.transactions:
        return
    if workload.duration_s:
        # The printed duration is the one asked for; what was measured follows from count and rate.
        # Up to 13 one rate leaves connecting out, which under -C is most of the run.
        measured_s = report.transactions / (report.tps_including_connections or report.tps)
        allowed_s = max(0.5, workload.duration_s * limits.duration_share)
        if abs(measured_s - workload.duration_s) > allowed_s:
            yield _reject(
                "duration", f"ran {measured_s:.1f} s where {workload.duration_s} s were asked"
            )
        return
    # Failed and skipped ones ended too; 9.6 and 10 count skipped ones twice here.
    ended = report.transactions + (report.failed or 0) + (report.skipped or 0)
    asked = workload.transactions * workload.clients
    if ended < asked:
        yield _reject("transactions", f"{ended:,} transactions ended where {asked:,} were asked")


def _server_gates(evidence: Evidence) -> Iterator[Gate]:
    if not evidence.server_alive:
        yield _reject("server", "the server went down during the run")
    report = evidence.run.report
    counts = report is not None and report.failed is not None
    errors = [line for line in evidence.log_errors if not (counts and _COUNTED.search(line))]
    if errors:
        yield _reject("server log", f"{len(errors)} error(s), the first: {errors[0]}")
    for reason in evidence.reset_counters:
        yield _reject("counters", reason)
    scale = evidence.scale_in_tables
    if scale is not None and scale != evidence.workload.scale:
        yield _reject(
            "scale", f"the tables hold scale {scale}, asked was {evidence.workload.scale}"
        )
