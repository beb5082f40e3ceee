"""What pgbench is asked to do: the exact words for each version, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from benchkit.errors import Faults
from benchkit.postgres.builds import Build
from benchkit.postgres.versions import parse_version
from benchkit.workload import pgbench
from benchkit.workload.pgbench import (
    FIELDS,
    Workload,
    as_record,
    check_workload,
    load_arguments,
    pgbench_arguments,
    tables,
)

HEAD = ["-n", "-h", "/socket", "-p", "5432", "-U", "postgres", "-c", "4"]
PLACED = {"my own.sql": Path("/place/script-1.sql")}


def client(version: str | None) -> Build:
    """Describe a build with a pgbench of a version, of which no file is needed."""
    parsed = parse_version(version or "18.6")
    return Build(
        bin_dir=Path("/nowhere/bin"),
        version=parsed,
        origin="test",
        configure=(),
        compiler=None,
        cflags=None,
        pgbench=parsed if version else None,
        fingerprint="0" * 16,
    )


def arguments(version: str, **fields: Any) -> list[str]:
    workload = Workload(**{"clients": 4, "threads": 2, "duration_s": 10, **fields})
    return pgbench_arguments(workload, parse_version(version), host="/socket", placed=PLACED)


def faults_of(workload: Workload, build: Build | None = None) -> list[str]:
    faults = Faults()
    check_workload(workload, build or client("18.6"), faults)
    return [str(fault) for fault in faults.found]


# The words


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("8.2.23", ["-t", "50"]),
        ("8.4.22", ["-T", "10", "-M", "simple"]),
        ("9.0.23", ["-j", "2", "-T", "10", "-M", "simple"]),
        ("9.3.18", ["-j", "2", "-T", "10", "-M", "simple"]),
        ("9.4.0", ["-j", "2", "-T", "10", "-M", "simple", "-P", "1"]),
        ("9.6.4", ["-j", "2", "-T", "10", "-M", "simple", "-P", "1", "-b", "tpcb-like@1"]),
        ("12.22", ["-j", "2", "-T", "10", "-M", "simple", "-P", "1", "-b", "tpcb-like@1"]),
        ("15.20", ["-j", "2", "-T", "10", "-M", "simple", "-P", "1", "-b", "tpcb-like@1"]),
        ("18.6", ["-j", "2", "-T", "10", "-M", "simple", "-P", "1", "-b", "tpcb-like@1"]),
    ],
)
def test_words_of_a_run_by_version(version: str, expected: list[str]) -> None:
    asked: dict[str, Any] = {"duration_s": 0, "transactions": 50} if version == "8.2.23" else {}
    assert arguments(version, **asked) == [*HEAD, *expected, "postgres"]


@pytest.mark.parametrize(
    ("version", "script", "expected"),
    [
        ("8.4.22", "tpcb-like", []),
        ("8.4.22", "simple-update", ["-N"]),
        ("9.5.8", "select-only", ["-S"]),
        ("9.6.4", "select-only", ["-b", "select-only@1"]),
        ("18.6", "simple-update", ["-b", "simple-update@1"]),
    ],
)
def test_builtin_scripts_have_a_weight_from_9_6(
    version: str, script: str, expected: list[str]
) -> None:
    words = arguments(version, script=script)
    assert words[-1 - len(expected) :] == [*expected, "postgres"]
    assert ("-b" in words) == ("-b" in expected)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("9.5.8", "/place/script-1.sql"), ("9.6.4", "/place/script-1.sql@1")],
)
def test_own_scripts_have_a_weight_from_9_6(version: str, expected: str) -> None:
    assert arguments(version, script="my own.sql")[-3:] == ["-f", expected, "postgres"]


def test_scripts_of_a_mix_keep_their_order() -> None:
    mix = {"select-only": 9, "my own.sql": 2, "tpcb-like": 0}
    assert arguments("18.6", script=mix)[-7:] == [
        *["-b", "select-only@9", "-f", "/place/script-1.sql@2", "-b", "tpcb-like@0", "postgres"]
    ]


def test_every_option_that_a_workload_can_ask_for() -> None:
    words = arguments(
        "18.6",
        protocol="prepared",
        rate_per_s=1234567.5,
        latency_limit_ms=0.25,
        per_statement=True,
        reconnect=True,
        seed=7,
    )
    assert words == [
        *HEAD,
        *["-j", "2", "-T", "10", "-M", "prepared", "-P", "1", "-R", "1234567.5", "-L", "0.25"],
        *["-r", "-C", "--random-seed=7", "-b", "tpcb-like@1", "postgres"],
    ]


def test_a_warm_up_is_the_same_run_with_another_duration() -> None:
    workload = Workload(clients=4, threads=2, transactions=50)
    version = parse_version("18.6")
    measured = pgbench_arguments(workload, version, host="/socket")
    warm_up = pgbench_arguments(workload, version, host="/socket", duration_s=3)
    assert measured[measured.index("-t") + 1] == "50"
    assert warm_up == [*measured[:11], "-T", "3", *measured[13:]]
    silent = pgbench_arguments(workload, version, host="/socket", progress=False)
    assert "-P" not in silent


@pytest.mark.parametrize(
    ("version", "fillfactor", "expected"),
    [
        ("8.3.23", 100, ["-i", "-s", "3"]),
        ("8.3.23", 80, ["-i", "-s", "3", "-F", "80"]),
        ("9.3.18", 100, ["-i", "-q", "-s", "3"]),
        ("18.6", 80, ["-i", "-q", "-s", "3", "-F", "80"]),
    ],
)
def test_words_of_a_load(version: str, fillfactor: int, expected: list[str]) -> None:
    workload = Workload(scale=3, fillfactor=fillfactor, duration_s=1)
    words = load_arguments(workload, parse_version(version), host="/socket")
    assert words == [*expected, "-h", "/socket", "-p", "5432", "-U", "postgres", "postgres"]


def test_names_of_the_tables() -> None:
    assert tables(parse_version("8.3.23"))["branches"] == "branches"
    assert tables(parse_version("8.4.22"))["branches"] == "pgbench_branches"


# Threads


@pytest.mark.parametrize(
    ("version", "clients", "cores", "expected"),
    [
        ("8.4.22", 8, 16, 1),
        ("9.0.23", 9, 8, 3),
        ("9.5.8", 7, 8, 1),
        ("9.5.8", 8, 8, 4),
        ("9.6.4", 7, 8, 4),
        ("18.6", 2, 16, 2),
        ("18.6", 8, 1, 1),
    ],
)
def test_threads_follow_cores_clients_and_version(
    version: str, clients: int, cores: int, expected: int
) -> None:
    workload = Workload(clients=clients, duration_s=1)
    assert workload.settled(client(version), cores).threads == expected


def test_threads_that_were_asked_for_stay() -> None:
    workload = Workload(clients=8, threads=8, duration_s=1)
    assert workload.settled(client("18.6"), 2).threads == 8


# Limits, sizes, records


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"duration_s": 10}, 70),
        ({"transactions": 10}, 6 * 3600),
        ({"duration_s": 10, "time_limit_s": 5}, 5),
    ],
)
def test_time_limit(fields: dict[str, Any], expected: float) -> None:
    assert Workload(**fields).limit_s == expected


def test_a_record_carries_the_script_itself(tmp_path: Path) -> None:
    path = tmp_path / "mine.sql"
    path.write_text("SELECT 1;\n")
    workload = Workload(script=str(path), duration_s=1)
    assert as_record(workload)["script_texts"] == {str(path): "SELECT 1;\n"}
    assert as_record(workload)["script"] == str(path)
    assert not as_record(Workload(duration_s=1))["script_texts"]


def test_a_settled_workload_keeps_the_script_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "mine.sql"
    path.write_text("SELECT 1;\n")
    mix = {str(path): 1, "select-only": 2}
    settled = Workload(script=mix, duration_s=1).settled(client("18.6"), 2)
    path.write_text("SELECT 2;\n")
    mix["select-only"] = 3
    assert as_record(settled)["script_texts"] == {str(path): "SELECT 1;\n"}
    assert as_record(settled)["script"] == {str(path): 1, "select-only": 2}
    assert "script_texts" not in FIELDS


def test_a_mix_is_recorded_as_plain_data_and_can_be_hashed() -> None:
    mix = MappingProxyType({"select-only": 9, "tpcb-like": 1})
    workload = Workload(script=mix, duration_s=1)
    assert json.loads(json.dumps(as_record(workload)))["script"] == dict(mix)
    again = dataclasses.replace(workload, script=dict(mix))
    assert {workload, again, Workload(duration_s=1)} == {workload, Workload(duration_s=1)}


def test_which_scripts_are_used() -> None:
    assert Workload().uses("tpcb-like")
    mixed = Workload(script={"select-only": 9, "tpcb-like": 1, "simple-update": 0})
    assert mixed.uses("tpcb-like")
    assert not mixed.uses("simple-update")


# What is refused


def test_a_good_workload_has_no_fault() -> None:
    assert faults_of(Workload(duration_s=1)) == []
    assert faults_of(Workload(transactions=1, rate_per_s=2, latency_limit_ms=0.5)) == []


def test_every_bad_value_is_named_at_once() -> None:
    workload = Workload(
        scale=0,
        clients=2,
        threads=3,
        duration_s=-1,
        protocol="preparred",
        cache="warm",
        rate_per_s=math.nan,
        latency_limit_ms=math.inf,
        fillfactor=101,
        seed=-1,
        script="tpcb-lik",
    )
    found = "\n".join(faults_of(workload))
    for part in (
        "scale: 0 is below 1",
        "threads: 3 threads for 2 clients",
        "duration_s: -1 is below 0",
        "protocol: unknown protocol 'preparred'; did you mean 'prepared'?",
        "(accepted: extended, prepared, simple)",
        "cache: unknown cache 'warm'",
        "(accepted: cloned, cold, prewarmed, uncached)",
        "rate_per_s: nan is not a number",
        "latency_limit_ms: inf is not a number",
        "fillfactor: 101 is above 100",
        "seed: -1 is below 0",
        "script: 'tpcb-lik' is neither a built-in script nor a file; did you mean 'tpcb-like'?",
        "(accepted: select-only, simple-update, tpcb-like)",
    ):
        assert part in found
    assert len(faults_of(workload)) == 10


def test_a_wrong_type_does_not_hide_the_other_faults() -> None:
    wrong: dict[str, Any] = {"scale": "10", "clients": True, "duration_s": 1.5, "fillfactor": 5}
    wrong["script"] = {"tpcb": True}
    workload = dataclasses.replace(Workload(), **wrong)
    assert faults_of(workload) == [
        "script: weight of 'tpcb': True is not a whole number",
        "scale: '10' is not of type int",
        "clients: True is not of type int",
        "duration_s: 1.5 is not of type int",
        "fillfactor: 5 is below 10",
    ]


@pytest.mark.parametrize("fields", [{}, {"duration_s": 1, "transactions": 1}])
def test_a_run_has_a_duration_or_a_number_of_transactions(fields: dict[str, Any]) -> None:
    (found,) = faults_of(Workload(**fields))
    assert found.startswith("duration_s: a run needs a duration or a number of transactions, one")
    assert f"transactions={fields.get('transactions', 0)}" in found


def test_old_clients_have_32_bits_for_account_ids() -> None:
    large = Workload(scale=pgbench.SCALE_OF_32_BITS + 1, transactions=1)
    assert faults_of(large, client("9.2.24")) == [
        "scale: pgbench 9.2.24 has no accounts beyond 2^31"
    ]
    assert faults_of(large, client("9.3.18")) == []


def test_a_build_without_pgbench() -> None:
    assert faults_of(Workload(duration_s=1), client(None)) == [
        "client: PostgreSQL 18.6 in /nowhere/bin has no pgbench"
    ]


@pytest.mark.parametrize(
    ("version", "fields", "expected"),
    [
        ("8.3.23", {"duration_s": 1}, "duration_s: pgbench 8.3.23 has no -T"),
        ("8.3.23", {"warm_up_s": 1, "transactions": 9}, "warm_up_s: pgbench 8.3.23 has no"),
        ("8.3.23", {"protocol": "prepared", "transactions": 9}, "protocol: pgbench 8.3.23 has no"),
        ("8.2.23", {"fillfactor": 90, "transactions": 9}, "fillfactor: pgbench 8.2.23 has no"),
        ("8.4.22", {"threads": 2, "clients": 2}, "threads: pgbench 8.4.22 has no -j"),
        ("9.0.23", {"per_statement": True}, "per_statement: pgbench 9.0.23 has no -r"),
        ("9.3.18", {"rate_per_s": 5}, "rate_per_s: pgbench 9.3.18 has no -R"),
        ("9.4.0", {"latency_limit_ms": 5}, "latency_limit_ms: pgbench 9.4.0 has no -L"),
        ("10.23", {"seed": 5}, "seed: pgbench 10.23 has no --random-seed"),
        ("9.5.8", {"threads": 2, "clients": 3}, "threads: pgbench 9.5.8 wants a multiple"),
    ],
)
def test_what_the_client_cannot_do(version: str, fields: dict[str, Any], expected: str) -> None:
    asked = fields if "transactions" in fields else {"duration_s": 1, **fields}
    (found,) = faults_of(Workload(**asked), client(version))
    assert found.startswith(expected)


# Scripts, read by the real pgbench


def test_a_script_that_this_client_understands(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "my one @home.sql"
    path.write_text("\\set aid random(1, 10)\nSELECT :aid;\n")
    assert faults_of(Workload(script=str(path), duration_s=1), build) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SELECT 1;\n\\setrandom x 1 10\n", 2),
        ("\\set x 1 +\n", 1),
        ("SELECT 1;\nSELECT 2;\n\\connection to server\n", 3),
    ],
)
def test_a_script_that_this_client_refuses(
    build: Build, tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "bad.sql"
    path.write_text(text)
    (found,) = faults_of(Workload(script=str(path), duration_s=1), build)
    assert found.startswith(f"script: pgbench {build.pgbench} refuses {path}:")
    assert f"bad.sql:{line}:" in found


def test_every_script_of_a_mix_is_read(build: Build, tmp_path: Path) -> None:
    texts = {"good": "SELECT 1;\n", "bad": "\\set x 1 +\n", "worse": "\\nonsense\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.sql").write_text(text)
    good, bad, worse, none = (f"{tmp_path}/{name}.sql" for name in (*texts, "none"))
    mix = {"select-only": 1, good: 1, bad: 0, worse: 3, none: -1}
    # A rate that is none is no fault of the scripts, which pgbench would say.
    found = faults_of(Workload(script=mix, duration_s=1, rate_per_s=math.nan), build)
    assert [fault.split(":\n")[0] for fault in found] == [
        f"script: weight of {none!r}: -1 is not from 0 to 2147483647",
        "rate_per_s: nan is not a number to work with",
        f"script: {none!r} is neither a built-in script nor a file"
        " (accepted: select-only, simple-update, tpcb-like)",
        f"script: pgbench {build.pgbench} refuses {bad}",
        f"script: pgbench {build.pgbench} refuses {worse}",
    ]


def test_a_script_that_is_known_needs_no_file(build: Build) -> None:
    known = {"no file.sql": "SELECT 1;\n"}
    workload = Workload(script="no file.sql", script_texts=known, duration_s=1)
    assert faults_of(workload, build) == []
    assert as_record(workload)["script_texts"] == known


def test_an_empty_script_is_refused(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "empty.sql"
    path.write_text("-- nothing\n")
    assert len(faults_of(Workload(script=str(path), duration_s=1), build)) == 1


def test_a_script_that_cannot_be_read(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "latin.sql"
    path.write_bytes("SELECT 'é';\n".encode("latin-1"))
    (found,) = faults_of(Workload(script=str(path), duration_s=1), build)
    assert found.startswith(f"script: {path} cannot be read as UTF-8")
    (found,) = faults_of(Workload(script=str(tmp_path), duration_s=1), build)
    assert "neither a built-in script nor a file" in found
