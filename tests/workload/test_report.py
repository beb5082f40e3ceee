"""Reports of every version family, read back; broken ones refused.

The samples are composed, one per family and option, with invented numbers: the report in a
``.txt``, what it says in the ``.json`` beside it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchkit.errors import FormatError
from benchkit.workload.report import Report, comparable_tps, parse_report
from benchkit.workload.report_lines import TPS_KINDS

EXCLUDING, WITHOUT_INITIAL, WITH_RECONNECTIONS, INCLUDING = TPS_KINDS
SAMPLES = {
    path.stem.removeprefix("report-"): path for path in Path(__file__).parent.glob("*/*.txt")
}
RECORDED = Path(
    os.environ.get("BENCHKIT_REPORTS", Path(__file__).parents[3] / "shared" / "pgbench-reports")
)


def sample(name: str) -> str:
    return SAMPLES[name].read_text()


def summary(name: str) -> str:
    """The report up to the blocks of scripts and the statements."""
    return re.split(r"^(?:SQL script|script statistics|statement lat)", sample(name), flags=re.M)[0]


def said(value: Any) -> Any:
    """A record as plain data without what is absent, so that a comparison sees every field."""
    if isinstance(value, dict):
        return {name: said(held) for name, held in value.items() if held not in (None, [])}
    return [said(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", SAMPLES)
def test_a_report_is_read_whole(name: str) -> None:
    expected = json.loads(SAMPLES[name].with_suffix(".json").read_text())
    assert said(parse_report(sample(name)).to_dict()) == {
        "latency_includes_failures": False,
        **expected,
    }


@pytest.mark.parametrize("name", SAMPLES)
def test_lines_may_come_in_any_order_and_with_windows_line_ends(name: str) -> None:
    lines = summary(name).splitlines()
    shuffled = random.Random(name).sample(lines, len(lines))
    report = dataclasses.replace(parse_report("\n".join(lines)), unknown_lines=())
    assert dataclasses.replace(parse_report("\r\n".join(shuffled)), unknown_lines=()) == report


def test_statement_text_is_never_taken_for_a_summary_line() -> None:
    header = "transaction type: x.sql\nstatement latencies in milliseconds:\n"
    report = parse_report(header + "         1.500  tps = 7 (x)\nscaling factor: 9\n")
    assert [row.text for row in report.statements] == ["tps = 7 (x)\nscaling factor: 9"]
    assert (report.tps, report.scale) == (None, None)
    report = parse_report(header + "\t1.500000\ttps = 7 (x)\n\t-nan\tscaling factor: 9\n")
    assert [row.text for row in report.statements] == ["tps = 7 (x)", "scaling factor: 9"]
    assert [row.latency_ms for row in report.statements] == [1.5, None]


@pytest.mark.parametrize("nan", ["nan", "-nan", "NaN", "inf", "-inf", "Infinity", "-1.#IND00"])
def test_nan_and_infinities_are_absent_values(nan: str) -> None:
    text = f"latency average = {nan} ms\ntps = {nan} ({EXCLUDING})\n"
    text += f"rate limit schedule lag: avg {nan} (max 0.125) ms\n"
    report = parse_report(text + f"number of failed transactions: 0 ({nan}%)\n")
    assert (report.tps, report.latency_average_ms, report.schedule_lag_average_ms) == (None,) * 3
    assert (report.schedule_lag_max_ms, report.failed) == (0.125, 0)


@pytest.mark.parametrize("line", ["tps = 12.5 (of late)", "tps = 12.5", "tps: many (x)", "tps ="])
def test_a_throughput_of_unknown_meaning_is_refused_and_quoted(line: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_report(sample("8.4-time") + line + "\n")
    assert line in caught.value.message


@pytest.mark.parametrize(
    "text", ["", "\n\n", "pgbench (18.1)\n", "starting vacuum...end.\n", "tps"]
)
def test_a_text_without_a_report_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="no report"):
        parse_report(text)


@pytest.mark.parametrize("name", SAMPLES)
def test_two_reports_in_a_text_are_refused(name: str) -> None:
    with pytest.raises(FormatError, match="more than one report"):
        parse_report(summary(name) + summary(name))


def test_planned_transactions_do_not_overflow() -> None:
    report = parse_report(sample("16-nothing-ran"))
    assert report.transactions_planned == 4_000_000_000
    assert report.transactions_planned_printed == -294_967_296
    assert parse_report(sample("8.4-time")).transactions_planned is None


def test_shares_and_latency_that_pgbench_leaves_to_the_reader() -> None:
    assert parse_report(sample("15-retries")).failure_share == 600 / 9600
    assert parse_report(sample("18-all-failed")).failure_share == 1.0
    assert parse_report(sample("16-nothing-ran")).failure_share is None
    assert parse_report(sample("9.5-limit")).failure_share is None
    assert parse_report(sample("9.4-rate")).latency_without_lag_ms == pytest.approx(4.667)
    assert parse_report(sample("13-partitions")).latency_without_lag_ms is None


@pytest.mark.parametrize(
    ("version", "reconnect", "expected"),
    [
        (80422, False, 120.0),
        (90000, False, 100.0),  # connection time divided by threads: too high
        (90426, False, 100.0),
        (90500, False, 120.0),
        (90603, False, 90.0),  # a quarter of the "processed" was skipped
        (100023, False, 90.0),
        (110000, False, 120.0),
        (130014, True, 100.0),
        (100023, True, 75.0),
    ],
)
def test_the_comparable_throughput_depends_on_the_client(
    version: int, reconnect: bool, expected: float
) -> None:
    report = Report(tps=120.0, tps_including_connections=100.0, transactions=400, skipped=100)
    assert comparable_tps(report, version, reconnect=reconnect) == expected


def test_the_comparable_throughput_of_a_modern_client_is_the_printed_one() -> None:
    report = parse_report(sample("14-connect"))
    assert comparable_tps(report, 140009, reconnect=True) == report.tps == 438.356164
    assert comparable_tps(parse_report(sample("16-nothing-ran")), 160003) is None


class Printed:
    """A report as pgbench of a version prints it, with what is to be read from it."""

    def __init__(self, version: int, draw: st.DrawFn) -> None:
        self.version, self.draw = version, draw
        self.lines: list[str] = []
        self.fields: dict[str, Any] = {}

    def count(self) -> int:
        return self.draw(st.integers(0, 10**12))

    def real(self, decimals: int = 3) -> float:
        thousandths: int = self.draw(st.integers(1, 10**12))
        return thousandths / 10.0**decimals

    def say(self, line: str, **fields: Any) -> None:
        """Print a line; ``{}`` in it are the fields, ``(%)`` is a share."""
        blank = " " if self.version < 150000 else ""
        share = f"({self.draw(st.sampled_from(['0.000', '97.125', 'NaN', '-nan']))}{blank}%)"
        values = (f"{value:.3f}" if type(value) is float else value for value in fields.values())
        self.lines.append(line.replace("(%)", share).format(*values))
        self.fields |= fields

    def header(self, per_client: int | None) -> None:
        kinds = ["<builtin: select only>", "my script.sql", "TPC-B (sort of)"]
        if self.version >= 140000:
            self.say("pgbench ({}, server {})", client_version="14.3 (x (y))", server_version="9.6")
        self.say("transaction type: {}", transaction_type=self.draw(st.sampled_from(kinds)))
        self.say("scaling factor: {}", scale=self.count())
        if self.version >= 130000:
            self.say("partition method: {}", partition_method="hash")
            self.say("partitions: {}", partitions=self.count())
        if self.version >= 80400:
            self.say("query mode: {}", query_mode="extended")
        self.say("number of clients: {}", clients=self.count())
        if self.version >= 90000:
            self.say("number of threads: {}", threads=self.count())
        if self.version >= 150000:
            self.say("maximum number of tries: {}", max_tries=self.count())
        done = "number of transactions actually processed: {}"
        if per_client is None:
            self.say("duration: {} s", duration_s=self.count())
            self.say(done, transactions=self.count())
        else:
            self.say("number of transactions per client: {}", transactions_per_client=per_client)
            planned = self.draw(st.integers(-(2**31), 2**31))
            fields = {"transactions": self.count(), "transactions_planned_printed": planned}
            self.say(done + "/{}", **fields)

    def failures(self) -> None:
        self.say("number of failed transactions: {} (%)", failed=self.count())
        self.say("number of serialization failures: {} (%)", serialization_failures=self.count())
        self.say("number of deadlock failures: {} (%)", deadlock_failures=self.count())
        self.say("number of transactions retried: {} (%)", retried=self.count())
        self.say("total number of retries: {}", retries=self.count())

    def limit(self) -> None:
        self.say("number of transactions skipped: {} (%)", skipped=self.count())
        fields = {"latency_limit_ms": 12.5, "above_latency_limit": self.count()}
        of = "/99" if self.version >= 110000 else ""
        line = "number of transactions above the {} ms latency limit: {}" + of + " (%)"
        self.say(line.replace("{} ms", "12.5 ms").replace("{}", str(fields["above_latency_limit"])))
        self.fields |= fields

    def latency(self, *, measured: bool) -> None:
        colon = self.version < 90600 or (self.version == 90600 and not measured)
        mark = ":" if colon else " ="
        line = f"latency average{mark} {{}} ms"
        if self.version >= 150000 and not measured:
            line += " (including failures)"
            self.fields["latency_includes_failures"] = True
        self.say(line, latency_average_ms=self.real())
        if measured:
            self.say(f"latency stddev{mark} {{}} ms", latency_stddev_ms=self.real())
            lag = {"schedule_lag_average_ms": self.real(), "schedule_lag_max_ms": self.real()}
            self.say("rate limit schedule lag: avg {} (max {}) ms", **lag)

    def throughput(self, *, reconnect: bool) -> None:
        tps, kind = self.real(6), EXCLUDING
        if self.version < 140000:
            self.fields["tps_including_connections"] = including = self.real(6)
            self.lines.append(f"tps = {including:.6f} ({INCLUDING})")
        else:
            kind = WITH_RECONNECTIONS if reconnect else WITHOUT_INITIAL
            time = "average" if reconnect else "initial"
            self.say(time + " connection time = {} ms", connection_time_ms=self.real())
        self.lines.append(f"tps = {tps:.6f} ({kind})")
        self.fields |= {"tps": tps, "tps_kind": kind}


@st.composite
def printed_reports(draw: st.DrawFn) -> Printed:
    versions = [80200, 80400, 90000, 90400, 90500, 90600, 90601, 110000, 130000, 140000, 150000]
    printed = Printed(draw(st.sampled_from([*versions, 180000])), draw)
    measured, reconnect = draw(st.booleans()), draw(st.booleans())
    timed = printed.version >= 80400 and draw(st.booleans())
    printed.header(None if timed else printed.count())
    if printed.version >= 150000:
        printed.failures()
    if printed.version >= 90500 and measured:
        printed.limit()
    if printed.version >= 90400:
        printed.latency(measured=measured)
    printed.throughput(reconnect=reconnect)
    return printed


@settings(deadline=None, max_examples=150)
@given(printed_reports())
def test_what_a_version_prints_is_what_is_read(printed: Printed) -> None:
    report = parse_report("\n".join(printed.lines) + "\n")
    expected = {"latency_includes_failures": False} | printed.fields
    assert said(report.to_dict()) == expected


STATEMENTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r"), min_size=1, max_size=40
).filter(lambda text: text[0] not in " \t" and text.strip() == text)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 10**9), STATEMENTS), min_size=1, max_size=4),
    st.sampled_from(["9.1", "9.6", "14", "15", "15 retries", "18", "18 retries"]),
)
def test_any_statement_survives_every_table_layout(rows: list[tuple[int, str]], kind: str) -> None:
    header, row = {
        "9.1": ("statement latencies in milliseconds:", "\t{0:.6f}\t{1}"),
        "9.6": (" - statement latencies in milliseconds:", "   {0:11.3f}  {1}"),
        "14": ("statement latencies in milliseconds:", "   {0:11.3f}  {1}"),
        "15": ("statement latencies in milliseconds and failures:", "   {0:11.3f}  {2:10d}  {1}"),
        "15 retries": (
            "statement latencies in milliseconds, failures and retries:",
            "   {0:11.3f}  {2:10d}  {3:10d}  {1}",
        ),
        "18": (" - statement latencies in milliseconds and failures:", "   {0:11.3f}  {2:10d} {1}"),
        "18 retries": (
            "statement latencies in milliseconds, failures and retries:",
            "   {0:11.3f}  {2:10d} {3:10d} {1}",
        ),
    }[kind]
    lines = [row.format(count / 1000, text, count, count + 1) for count, text in rows]
    report = parse_report("\n".join(["scaling factor: 1", header, *lines]))
    read = [(round((row.latency_ms or 0) * 1000), row.text) for row in report.statements]
    assert read == rows
    assert {row.failures is None for row in report.statements} == {kind in ("9.1", "9.6", "14")}
    assert report.scale == 1
    assert not report.unknown_lines


def check_any_text(text: str) -> None:
    try:
        report = parse_report(text)
    except FormatError:
        return
    assert json.loads(json.dumps(dataclasses.asdict(report), allow_nan=False)) == report.to_dict()


@settings(deadline=None, max_examples=150)
@given(st.one_of(st.text(), st.binary().map(lambda octets: octets.decode("latin-1"))))
def test_any_text_gives_a_report_or_a_format_error(text: str) -> None:
    check_any_text(text)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_a_damaged_report_gives_a_report_or_a_format_error(name: str, data: st.DataObject) -> None:
    text = sample(name)
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 60)))
    check_any_text(text[:start] + data.draw(st.text(max_size=10)) + text[stop:])


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded reports here")
def test_every_recorded_report_is_read() -> None:
    recorded = {path: path.read_text() for path in RECORDED.glob("*.stdout.txt")}
    assert recorded
    for path, text in recorded.items():
        report = parse_report(text)
        assert not report.unknown_lines, path.name
        assert report.clients, path.name
        assert report.tps, path.name
