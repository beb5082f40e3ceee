"""The final report of pgbench, versions 8.2 to 18, as a record.

:func:`parse_report` reads the standard output of one run. Which lines a report has depends on the
client's version and options: an absent line leaves ``None``, an unknown one (a fork's) is kept as
it is. The format facts are those of ``pgbench.c``, function ``printResults``, of each version.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from benchkit.errors import FormatError
from benchkit.postgres.versions import has
from benchkit.workload.report_lines import TPS_KINDS, ReportLines


@dataclass(frozen=True, kw_only=True)
class StatementLatency:
    """One row of the per-statement table (``-r``, 9.1+).

    Attributes
    ----------
    script_index
        Number of the script, from 0, as in the transaction log.
    latency_ms
        Mean latency [ms]. A statement that never ran: None up to 10, 0 from 11 on.
    failures, retries
        Counts; failures from 15 on, retries also only with ``--max-tries`` other than 1.
    text
        The statement as printed; from 12 on only its first line.
    """

    script_index: int
    latency_ms: float | None
    failures: int | None = None
    retries: int | None = None
    text: str


@dataclass(frozen=True, kw_only=True)
class TransactionStatistics:
    """What pgbench prints of a run and of each script alike.

    Attributes
    ----------
    failed, serialization_failures, deadlock_failures
        Transactions that failed (15+), and by kind with ``--failures-detailed``.
    retried, retries
        Transactions tried again, total of repeated tries (15+, ``--max-tries`` other than 1).
    skipped
        Transactions not started because they were late (9.5+, ``-R`` with ``-L``).
    latency_average_ms, latency_stddev_ms
        Latency [ms]. With ``-R`` from the scheduled start, so it includes the lag.
    tps
        Rate [1/s]. None if no transaction succeeded, whatever was printed: that is no rate of 0.
    """

    failed: int | None = None
    serialization_failures: int | None = None
    deadlock_failures: int | None = None
    retried: int | None = None
    retries: int | None = None
    skipped: int | None = None
    latency_average_ms: float | None = None
    latency_stddev_ms: float | None = None
    tps: float | None = None


@dataclass(frozen=True, kw_only=True)
class ScriptReport(TransactionStatistics):
    """The block of one script in a run of several (9.6+).

    Attributes
    ----------
    name
        Script path, or ``<builtin: ...>``.
    weight, target_pct, share_pct
        The weight asked for, the share it makes, the share it had [%].
    attempted
        Transactions that ended in any way or were skipped. Printed by 18; up to 14 known if some
        were skipped, since these are within the printed number (and in 9.6 and 10 in ``tps``).
    processed
        Transactions that succeeded.
    """

    name: str
    weight: int | None = None
    target_pct: float | None = None
    share_pct: float | None = None
    attempted: int | None = None
    processed: int | None = None


@dataclass(frozen=True, kw_only=True)
class Report(TransactionStatistics):
    """What pgbench printed at the end of a run. What was not printed is None.

    Attributes
    ----------
    client_version, server_version
        From the banner (14+); the server's only where it differs. Texts, may hold blanks.
    transaction_type, scale, partition_method, partitions, query_mode, clients, threads, max_tries
        As printed. Before 9.0 no line tells the threads: it is one. With custom scripts the scale
        is the one given, whatever the tables hold.
    transactions_per_client, duration_s
        What ``-t`` and ``-T`` [s] asked for; a run can last longer than asked.
    transactions
        Transactions that succeeded; in 9.6 and 10 with skipped ones, see :func:`comparable_tps`.
    transactions_planned_printed
        The number behind the stroke under ``-t``. From 9.6 on a 32-bit product, which can
        overflow: use :attr:`transactions_planned`.
    above_latency_limit, latency_limit_ms
        Transactions slower than the limit of ``-L``, and the limit [ms].
    latency_includes_failures
        The average counts failed tries too (15+).
    schedule_lag_average_ms, schedule_lag_max_ms
        How late transactions started under ``-R`` [ms].
    connection_time_ms
        14+: of all connections at the start, or the mean of one connection under ``-C`` [ms].
    tps_kind
        What pgbench says of the figure in ``tps``, one of
        :data:`~benchkit.workload.report_lines.TPS_KINDS`.
    tps_including_connections
        The other figure of versions up to 13 [1/s]; the one to use under ``-C``, where
        "excluding" leaves out most of what was asked for.
    zipfian_cache_overflows
        11 only.
    statements, scripts
        Rows of the per-statement tables; the blocks of the scripts if there were several.
    unknown_lines
        Lines that no version known here prints.
    """

    client_version: str | None = None
    server_version: str | None = None
    transaction_type: str | None = None
    scale: int | None = None
    partition_method: str | None = None
    partitions: int | None = None
    query_mode: str | None = None
    clients: int | None = None
    threads: int | None = None
    max_tries: int | None = None
    transactions_per_client: int | None = None
    duration_s: int | None = None
    transactions: int | None = None
    transactions_planned_printed: int | None = None
    above_latency_limit: int | None = None
    latency_limit_ms: float | None = None
    latency_includes_failures: bool = False
    schedule_lag_average_ms: float | None = None
    schedule_lag_max_ms: float | None = None
    connection_time_ms: float | None = None
    tps_kind: str | None = None
    tps_including_connections: float | None = None
    zipfian_cache_overflows: int | None = None
    statements: tuple[StatementLatency, ...] = ()
    scripts: tuple[ScriptReport, ...] = ()
    unknown_lines: tuple[str, ...] = ()

    @property
    def transactions_planned(self) -> int | None:
        """Clients times transactions per client, which is what ``-t`` asks for."""
        if self.clients is None or self.transactions_per_client is None:
            return None
        return self.clients * self.transactions_per_client

    @property
    def failure_share(self) -> float | None:
        """Failed transactions per transaction due, 0 to 1; None before 15 or if none was due."""
        due = (self.transactions or 0) + (self.failed or 0) + (self.skipped or 0)
        return None if self.failed is None or due <= 0 else self.failed / due

    @property
    def latency_without_lag_ms(self) -> float | None:
        """Mean latency [ms] from the actual start, under ``-R``; comparable with a run without."""
        if self.latency_average_ms is None or self.schedule_lag_average_ms is None:
            return None
        return self.latency_average_ms - self.schedule_lag_average_ms

    def to_dict(self) -> dict[str, Any]:
        """Return the record in plain JSON types; NaN and infinities are None already."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        return plain


def comparable_tps(
    report: Report, client_version_num: int, *, reconnect: bool = False
) -> float | None:
    """Give the throughput [1/s] that may be compared between clients of different versions.

    Parameters
    ----------
    report
        What pgbench printed.
    client_version_num
        Version of that pgbench, as in 90423 or 150018.
    reconnect
        The run was made with ``-C``, a connection for every transaction.

    Notes
    -----
    9.0 to 9.4 divide the time spent on connections by threads instead of clients, so their
    "excluding" figure is too high, the more so the fewer threads (corrected in 9.5, commit
    a16db3a07d). The "including" one is taken, which is a little low in a short run.

    9.6 and 10 count a transaction skipped under ``-R`` with ``-L`` as processed, in every rate too
    (corrected in 11, commit 16827d4424). Its share is taken off.

    Under ``-C`` up to 13 the "excluding" figure leaves out the reconnections, which are always in
    from 14 on. The "including" one is taken.
    """
    inflated = has(client_version_num, "pgbench subtracts too much connection time")
    partial = reconnect and not has(client_version_num, "pgbench -C counts reconnections")
    tps = report.tps_including_connections if inflated or partial else report.tps
    counts_skipped = has(client_version_num, "pgbench counts skipped transactions as processed")
    if tps is not None and counts_skipped and report.skipped and report.transactions:
        tps *= max(report.transactions - report.skipped, 0) / report.transactions
    return tps or None


def parse_report(stdout: str) -> Report:
    """Read the final report of one run.

    Lines of the standard error mixed in end in ``unknown_lines``.

    Raises
    ------
    FormatError
        No line of a report is there (the banner of 14+ alone is none); a throughput line that
        cannot be read or whose label is unknown; two reports in one text.
    """
    lines = ReportLines(stdout)
    if not lines.found_any:
        raise FormatError(
            "This output of pgbench holds no report",
            evidence="\n".join(line[:200] for line in stdout.split("\n")[-6:]),
            advice="read the standard error of the run: pgbench says there why it stopped",
        )
    return Report(
        **lines.values | _throughput(lines) | _latency(lines.values),
        statements=tuple(StatementLatency(**row) for row in lines.statements),
        scripts=tuple(_script(values) for values in lines.scripts),
        unknown_lines=tuple(lines.unknown),
    )


def _throughput(lines: ReportLines) -> dict[str, Any]:
    kind = next((kind for kind in TPS_KINDS if kind in lines.tps), None)
    # 8.2 to 9.3 print 0.000000 when nothing ran, 18 when all transactions failed.
    return {
        "tps": lines.tps[kind] or None if kind else None,
        "tps_kind": kind,
        "tps_including_connections": lines.tps.get(TPS_KINDS[-1]) or None,
    }


def _latency(values: dict[str, Any]) -> dict[str, Any]:
    # Without stddev the average is computed from the run time. 9.4, 9.5 and 9.6.0 take -T for that,
    # which is 0 under -t (corrected in a minor release): the 0.000 they print is no measurement.
    computed = values.get("latency_stddev_ms") is None
    if computed and values.get("latency_average_ms") == 0.0:
        return {"latency_average_ms": None}
    return {}


def _script(values: dict[str, Any]) -> ScriptReport:
    values = values | {"tps": values.get("tps") or None}
    # No line of failures: up to 14, where the number of transactions includes skipped ones.
    if values.get("skipped") and "failed" not in values and "processed" in values:
        values["attempted"] = values["processed"]
        values["processed"] -= values["skipped"]
    return ScriptReport(**values)
