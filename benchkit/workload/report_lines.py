"""The lines of pgbench's final report, one by one; :mod:`.report` makes the record of them.

A report is read without a fixed order: every line is known by its own text, the bulleted lines and
the per-statement rows by the heading they stand under. Rows of statements are never looked at as
anything else, since a statement can hold any text.
"""

from __future__ import annotations

import math
import re
from typing import Any

from benchkit.errors import FormatError

# In the order in which one is taken as the main figure: up to 13, 14+, 14+ with -C, up to 13.
TPS_KINDS = (
    "excluding connections establishing",
    "without initial connection time",
    "including reconnection times",
    "including connections establishing",
)

# NaN and infinities up to 11 as the C library spells them (the last two: Windows), 12+ as NaN.
_REAL = r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|[Nn]a[Nn](?:\(ind\))?|[Ii]nf(?:inity)?|1\.#[A-Z0-9]+)"
_COUNT = "-?[0-9]{1,18}"
_TEXTS = {"client_version", "server_version", "partition_method", "query_mode", "name", "label"}
_REALS = ("_ms", "_pct", "tps")
_REMARK = "latency_includes_failures"


def _kind(name: str) -> str:
    if name == _REMARK:
        return r"\ \(including\ failures\)"
    return ".+?" if name in _TEXTS else _REAL if name.endswith(_REALS) else _COUNT


def _line(template: str) -> re.Pattern[str]:
    """Make a pattern: ``{name}`` a value, ``[...]`` optional, ``(%)`` a share, not kept."""
    pattern = re.escape(template).replace(r"\[", "(?:").replace(r"\]", ")?")
    pattern = re.sub(r"\\\{(\w+)\\\}", lambda name: f"(?P<{name[1]}>{_kind(name[1])})", pattern)
    pattern = pattern.replace(r"\(%\)", rf"\({_REAL} ?%\)")  # up to 14 a blank before the sign
    # 9.6.0 has a colon where the average is computed from the run time, "=" where it is measured.
    return re.compile(pattern.replace(r"\ =", " ?[:=]"))


_STATISTICS = (
    _line("number of failed transactions: {failed} (%)"),
    _line("number of serialization failures: {serialization_failures} (%)"),
    _line("number of deadlock failures: {deadlock_failures} (%)"),
    _line("number of transactions retried: {retried} (%)"),
    _line("total number of retries: {retries}"),
    _line("number of transactions skipped: {skipped} (%)"),
    _line("latency stddev = {latency_stddev_ms} ms"),
)
_SUMMARY = (
    *_STATISTICS,
    _line("pgbench ({client_version}[, server {server_version}])"),
    re.compile(r"transaction type: *(?P<transaction_type>.*)"),
    _line("scaling factor: {scale}"),
    _line("partition method: {partition_method}"),
    _line("partitions: {partitions}"),
    _line("query mode: {query_mode}"),
    _line("number of clients: {clients}"),
    _line("number of threads: {threads}"),
    _line("maximum number of tries: {max_tries}"),
    _line("number of transactions per client: {transactions_per_client}"),
    _line("duration: {duration_s} s"),
    _line(
        "number of transactions actually processed: {transactions}[/{transactions_planned_printed}]"
    ),
    _line("zipfian cache array overflowed {zipfian_cache_overflows} time(s)"),
    _line(
        "number of transactions above the {latency_limit_ms} ms latency limit: "
        "{above_latency_limit}[/{_processed}] (%)"
    ),
    _line("latency average = {latency_average_ms} ms[{latency_includes_failures}]"),
    _line("rate limit schedule lag: avg {schedule_lag_average_ms} (max {schedule_lag_max_ms}) ms"),
    _line("initial connection time = {connection_time_ms} ms"),
    _line("average connection time = {connection_time_ms} ms"),
)
_SCRIPT = (
    *_STATISTICS,
    _line("latency average = {latency_average_ms} ms"),
    _line("weight = {weight}[ (targets {target_pct}% of total)]"),  # 9.6.0 "=", then a colon
    # Up to 17 with the rate; 18 has the rate in a line of its own.
    _line("{processed} transactions ({share_pct}% of total, tps = {tps})"),
    _line("{attempted} transactions ({share_pct}% of total)"),
    _line("number of transactions actually processed: {processed} (tps = {tps})"),
)
_TPS = _line("tps = {tps} ({label})")
_TPS_START = re.compile(r"tps\s*[:=]")
_SCRIPT_HEADING = _line("SQL script {_number}: {name}")
_TABLE_HEADING = re.compile(
    r"(?:- )?statement latencies in milliseconds"
    r"(?P<counts> and failures|, failures and retries)?(?:, file (?P<file>[0-9]{1,9}))?:"
)
# Numbers from the left, the rest is text: after two blanks, one blank in 18, a tab up to 9.5.
_ROWS = {
    heading: re.compile(rf"\s+(?P<latency_ms>{_REAL}){counts}(?:\t| {{1,2}})(?P<text>.*)")
    for heading, counts in {
        None: "",
        " and failures": rf"\s+(?P<failures>{_COUNT})",
        ", failures and retries": rf"\s+(?P<failures>{_COUNT})\s+(?P<retries>{_COUNT})",
    }.items()
}


class ReportLines:
    """What the lines of one report say.

    Parameters
    ----------
    stdout
        The standard output of pgbench.

    Attributes
    ----------
    values
        The summary, by the names of :class:`~benchkit.workload.report.Report`.
    tps
        The throughput [1/s] by its label, of :data:`TPS_KINDS`.
    scripts, statements
        Blocks of scripts and rows of statements, by the names of their records.
    unknown
        The lines not understood.

    Raises
    ------
    FormatError
        A throughput that cannot be read or has an unknown label; a line that is there twice.
    """

    def __init__(self, stdout: str) -> None:
        self.values: dict[str, Any] = {}
        self.tps: dict[str, float | None] = {}
        self.scripts: list[dict[str, Any]] = []
        self.statements: list[dict[str, Any]] = []
        self.unknown: list[str] = []
        self._row: re.Pattern[str] | None = None
        self._row_script = 0
        self._row_continues = False
        # Not splitlines(): a statement or a path can hold the other separators it knows.
        for line in stdout.split("\n"):
            self._take(line.removesuffix("\r"))
        for row in self.statements:
            row["text"] = row["text"].rstrip("\n")

    @property
    def found_any(self) -> bool:
        """Whether a line of a report is there; the banner comes before the run and is none."""
        summary = self.values.keys() - {"client_version", "server_version"}
        return bool(summary or self.tps or self.scripts or self.statements)

    def _take(self, line: str) -> None:
        text = line.strip()
        if self._take_heading(text) or self._take_row(line) or not text:
            return
        if text.startswith("- "):
            # The block of a single script (9.6 to 10) only repeats the totals, and wrongly.
            block = self.scripts[-1] if self.scripts else {}
            known = _store(block, _SCRIPT, text.removeprefix("- "))
        else:
            known = self._take_throughput(text) or _store(self.values, _SUMMARY, text)
        if not known:
            self.unknown.append(line)

    def _take_heading(self, text: str) -> bool:
        script = _SCRIPT_HEADING.fullmatch(text)
        table = _TABLE_HEADING.fullmatch(text)
        if not (script or table or text == "script statistics:"):
            return False
        self._row, self._row_continues = None, False
        if script:
            self.scripts.append({"name": script["name"]})
        if table:
            file = int(table["file"] or 0)  # up to 9.5, from 1
            self._row = _ROWS[table["counts"]]
            self._row_script = max(file - 1 if file else len(self.scripts) - 1, 0)
        return True

    def _take_row(self, line: str) -> bool:
        match = self._row.fullmatch(line) if self._row else None
        if match:
            row = {name: _value(name, found) for name, found in match.groupdict().items()}
            self.statements.append({"script_index": self._row_script, **row})
            # 9.6 to 11 can print a statement of several lines; from 14 on there is a banner.
            short = "client_version" in self.values or "failures" in row
            self._row_continues = not short and not line.startswith("\t")
        elif self._row_continues:
            self.statements[-1]["text"] += "\n" + line
        return match is not None or self._row_continues

    def _take_throughput(self, text: str) -> bool:
        if not _TPS_START.match(text):
            return False
        match = _TPS.fullmatch(text)
        if match is None or match["label"] not in TPS_KINDS:
            raise FormatError(
                f"a throughput that no known version of pgbench prints: {text!r}",
                advice=f"known are 'tps = NUMBER (LABEL)' with {', '.join(TPS_KINDS)}",
            )
        _put(self.tps, match["label"], _value("tps", match["tps"]), text)
        return True


def _store(values: dict[str, Any], patterns: tuple[re.Pattern[str], ...], text: str) -> bool:
    match = next(filter(None, (pattern.fullmatch(text) for pattern in patterns)), None)
    for name, found in match.groupdict().items() if match else ():
        if found is not None and not name.startswith("_"):
            _put(values, name, _value(name, found), text)
    return match is not None


def _put(values: dict[str, Any], name: str, value: object, text: str) -> None:
    if name in values:
        raise FormatError(
            f"more than one report in a text: {text!r} comes when there is one already",
            advice="read the output of every run by itself",
        )
    values[name] = value


def _value(name: str, found: str) -> str | float | None:
    if name.endswith(_REALS):
        return _finite(found)
    if name == _REMARK:
        return True
    return found if name in _TEXTS or name in {"text", "transaction_type"} else int(found)


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:  # the Windows spellings
        return None
    return number if math.isfinite(number) else None
