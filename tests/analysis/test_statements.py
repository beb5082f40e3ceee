"""Latencies of statements, from reports and hand-made records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pytest

from benchkit.analysis.published import read_published
from benchkit.analysis.results import Results
from benchkit.analysis.statements import (
    compare_statements,
    comparison_rows,
    published_statements,
    statement_name,
    statements,
)
from benchkit.errors import InputError
from benchkit.workload.report import parse_report
from tests.analysis.test_results import BUILDS, NEW, OLD, T_2, entry, record

TPCB = {
    "\\set aid random(1, 100000 * :scale)": "set aid",
    "BEGIN;": "BEGIN",
    "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;": "UPDATE accounts",
    "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;": "SELECT accounts",
    "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;": "UPDATE tellers",
    "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;": "UPDATE branches",
    "INSERT INTO pgbench_history (tid, bid) VALUES (:tid, :bid);": "INSERT history",
    "END;": "END",
}
SET, UPDATE, END = (list(TPCB)[at] for at in (0, 2, 7))


def rows(latencies: Mapping[str, float | None], script: int = 0) -> list[dict[str, Any]]:
    return [
        {"script_index": script, "latency_ms": ms, "failures": None, "retries": None, "text": text}
        for text, ms in latencies.items()
    ]


def trials(
    levels: dict[str, str], latencies: Sequence[Mapping[str, float | None]], **changes: Any
) -> list[dict[str, Any]]:
    return [
        entry(levels, number, 1.0, result={"statements": rows(values)}, **changes)
        for number, values in enumerate(latencies, 1)
    ]


def results(*entries: Sequence[dict[str, Any]]) -> Results:
    return Results(record(BUILDS, [item for part in entries for item in part]))


def of(text: str, *values_ms: float) -> list[Mapping[str, float | None]]:
    return [{text: value} for value in values_ms]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *TPCB.items(),
        ("\\setrandom aid 1 :naccounts", "set aid"),
        ("setrandom aid", "set aid"),
        ("set nbranches", "set nbranches"),
        ("UPDATE accounts SET abalance = 1", "UPDATE accounts"),
        ("SELECT pgbench_accounts", "SELECT accounts"),
        ("INSERT pgbench_history", "INSERT history"),
        ("SELECT count(*)\n  FROM pgbench_accounts", "SELECT count(*) FROM pgbench_accounts"),
        ("SELECT " + "x" * 60, "SELECT " + "x" * 33),
        ("\\sleep 10 ms", "\\sleep 10 ms"),
    ],
)
def test_a_statement_has_one_name_in_all_versions(text: str, name: str) -> None:
    assert statement_name(text) == name


def test_the_frame_has_every_statement_of_usable_trials_once() -> None:
    report = "statement latencies in milliseconds and failures:\n" + "".join(
        f"{0.001 * at:11.3f}  {0:10d} {text}\n" for at, text in enumerate(TPCB)
    )
    listed = [asdict(row) for row in parse_report("scaling factor: 1\n" + report).statements]
    good = entry(OLD, 2, 1.0, result={"statements": listed})
    bad = entry(OLD, 3, 1.0, result={}, status="failed", error="no")
    frame = statements(results([good, bad], trials(OLD, of(END, 9.0), twin=True)))
    assert frame["statement"].tolist() == list(TPCB.values())
    assert frame["position"].tolist() == list(range(1, 9))
    assert frame["latency_ms"].tolist() == pytest.approx([0.001 * at for at in range(8)])
    assert frame["client_side"].tolist() == [True] + 7 * [False]
    assert set(frame["round"]) == {2}
    assert "twin" not in frame
    assert statements(results([good]), build="new").empty
    assert statements(results([entry(NEW, 1, 1.0)])).empty


def test_names_are_unique_among_namesakes_and_scripts() -> None:
    twice = rows({"SELECT 1;": 1.0}) + rows({"SELECT 1": 2.0, "END;": None})
    frame = statements(results([entry(OLD, 1, 1.0, result={"statements": twice})]))
    assert frame["statement"].tolist() == ["SELECT 1 (1)", "SELECT 1 (2)", "END"]
    assert math.isnan(frame["latency_ms"].iloc[2])
    two = rows({"END;": 1.0}) + rows({SET: 0.0, "END;": 2.0}, script=1)
    frame = statements(results([entry(OLD, 1, 1.0, result={"statements": two})]))
    assert frame["statement"].tolist() == ["script 1: END", "script 2: set aid", "script 2: END"]
    assert frame["position"].tolist() == [1, 1, 2]


def test_a_difference_is_paired_by_round_and_in_milliseconds() -> None:
    below = [{SET: 0.001, UPDATE: 1.0, END: 0.5 + 0.1 * n} for n in range(3)]
    above = [{SET: 0.002, UPDATE: ms, END: 0.4 + 0.1 * n} for n, ms in enumerate([1.1, 1.2, 1.3])]
    run = results(trials(OLD, below), trials(NEW, above), trials(OLD, below, twin=True))
    update, end = compare_statements(run, "build", level="new", against="old")
    assert (update.statement, end.statement) == ("UPDATE accounts", "END")
    assert (update.level, update.against) == ("new", "old")
    assert update.level_ms == pytest.approx(1.2)
    assert update.against_ms == pytest.approx(1.0)
    half_width = T_2 * 0.1 / math.sqrt(3)
    expected = [0.2, 0.2 - half_width, 0.2 + half_width]
    assert list(update.difference_ms) == pytest.approx(expected)
    assert update.estimate.ratio == pytest.approx((1.1 * 1.2 * 1.3) ** (1 / 3))
    assert end.difference_ms.value == pytest.approx(-0.1)
    assert end.verdict.kind == "faster"
    assert update.adjusted_p is not None
    assert update.estimate.p_value is not None
    assert update.adjusted_p >= update.estimate.p_value
    with_meta = compare_statements(run, "build", level="new", against="old", meta=True)
    assert [item.statement for item in with_meta] == ["set aid", "UPDATE accounts", "END"]
    frame = comparison_rows([update, end])
    assert frame["difference_ms"].tolist() == pytest.approx([0.2, -0.1])
    assert frame["verdict"].tolist() == [update.verdict.kind, "faster"]


def test_what_rounding_could_have_made_or_hidden_is_undecided() -> None:
    def kind(old: Sequence[float], new: Sequence[float]) -> str:
        run = results(trials(OLD, of(END, *old)), trials(NEW, of(END, *new)))
        run.record.specification["cells"].pop()  # no twin
        (found,) = compare_statements(run, "build", level="new", against="old")
        return found.verdict.kind

    assert kind([0.010] * 3, [0.011] * 3) == "undecided"
    assert kind([0.010] * 3, [0.010] * 3) == "undecided"
    assert kind([0.010] * 3, [0.013] * 3) == "slower"
    assert kind([0.010123] * 3, [0.011123] * 3) == "slower"  # printed with six decimals
    assert kind([0.200] * 3, [0.200] * 3) == "no difference"


def test_the_twin_of_the_same_statement_forbids_a_verdict() -> None:
    below = of(END, 0.5, 0.6, 0.7)
    run = results(
        trials(OLD, below),
        trials(NEW, of(END, 1.0, 1.2, 1.4)),
        trials(OLD, of(END, 0.6, 0.72, 0.84), twin=True),
    )
    (end,) = compare_statements(run, "build", level="new", against="old")
    assert end.verdict.kind == "not judged"
    assert "the twin, identical to the baseline, differs by +20.0 %" in end.verdict.text


def test_two_rounds_have_no_interval_and_a_lone_statement_no_difference() -> None:
    run = results(
        trials(OLD, of(UPDATE, 1.0, 2.0, 9.0)),
        trials(NEW, [{UPDATE: 2.0, END: 1.0}, {UPDATE: 4.0, END: 2.0}]),
    )
    update, end = compare_statements(run, "build", level="new", against="old")
    assert tuple(update.difference_ms) == (1.5, None, None)
    assert (update.level_ms, update.against_ms) == (3.0, 1.5)
    assert update.verdict.kind == "not judged"
    assert (end.level_ms, end.against_ms, end.difference_ms.value) == (1.5, None, None)


def test_without_statements_the_option_is_named() -> None:
    with pytest.raises(InputError, match="per_statement=True"):
        compare_statements(results([entry(OLD, 1, 1.0)]), "build", level="new", against="old")
    with pytest.raises(InputError, match="unknown level 'newer'"):
        compare_statements(results(), "build", level="newer", against="old")


def test_published_latencies_have_the_same_form() -> None:
    frame = read_published("release_comparison_statements")
    shown = published_statements(frame, "9.3.5", "9.4b3")
    assert shown["statement"].tolist() == list(TPCB.values())[1:]
    end = shown.set_index("statement").loc["END"]
    assert (end["against_ms"], end["level_ms"]) == (0.389587, 0.358340)
    assert end["difference_ms"] == pytest.approx(-0.031247)
    assert end["ratio"] == pytest.approx(0.9198, abs=1e-4)
    assert len(published_statements(frame, "9.3.5", "9.4b3", meta=True)) == 14
    with pytest.raises(InputError, match=r"the table has no '9\.4'"):
        published_statements(frame, "9.3.5", "9.4")
