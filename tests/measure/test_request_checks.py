"""What is asked for that misleads is told, and what is well asked for is not."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from benchkit.measure.finding import Finding
from benchkit.measure.record import TrialRequest
from benchkit.measure.request_checks import request_findings, round_findings
from benchkit.postgres.builds import Build
from benchkit.postgres.versions import parse_version
from tests.measure.test_checks import client, request

GB = 1024**3
MACHINE = {"memory_bytes": 8 * GB, "usable_cores": 8}


def all_names(asked: TrialRequest) -> list[str]:
    return [finding.name for finding in request_findings(asked, MACHINE)]


def named(name: str, asked: TrialRequest) -> list[Finding]:
    return [finding for finding in request_findings(asked, MACHINE) if finding.name == name]


GOOD: dict[str, Any] = {"scale": 300, "clients": 8, "duration_s": 600, "warm_up_s": 60}


def test_nothing_is_said_of_what_is_well_asked_for(build: Build) -> None:
    assert request_findings(request(build, fields=GOOD), MACHINE) == []


@pytest.mark.parametrize(
    ("name", "fields", "settings"),
    [
        ("every statement is logged", {}, {"log_statement": "all"}),
        ("every statement is logged", {}, {"log_min_duration_statement": 0}),
        ("every statement is logged", {}, {"log_duration": True}),
        ("track_io_timing is on", {}, {"track_io_timing": "on"}),
        ("archive_mode is on", {}, {"archive_mode": "always"}),
        ("shared_buffers above half of the memory", {}, {"shared_buffers": "5GB"}),
        ("database larger than memory", {"scale": 600}, {}),
        ("database fits into memory", {"scale": 50}, {}),
        ("few transactions", {"duration_s": 0, "transactions": 100}, {}),
        ("short run without a warm-up", {"duration_s": 10, "warm_up_s": 0}, {}),
        ("too few threads of pgbench", {"clients": 99, "threads": 1}, {}),
        ("many clients for the cores", {"clients": 300, "threads": 8, "scale": 300}, {}),
        ("a rate is offered", {"rate_per_s": 10.0}, {}),
        ("a connection for each transaction", {"reconnect": True}, {}),
        ("latency of every statement", {"per_statement": True}, {}),
        ("the same random numbers in every round", {"seed": 7}, {}),
    ],
)
def test_what_misleads_is_told_with_evidence_fix_and_reference(
    build: Build, name: str, fields: dict[str, Any], settings: dict[str, Any]
) -> None:
    (found,) = named(name, request(build, fields=GOOD | fields, settings=settings))
    assert found.evidence
    assert found.fix
    assert found.reference


@pytest.mark.parametrize(
    ("rounds", "severities"), [(1, ["warning"]), (2, ["warning"]), (3, ["info"]), (5, [])]
)
def test_few_rounds_are_told(rounds: int, severities: list[str]) -> None:
    assert [finding.severity for finding in round_findings(rounds)] == severities


def test_a_version_of_many_commits_is_told(build: Build) -> None:
    devel = dataclasses.replace(build, version=parse_version("19devel"))
    (found,) = named("not a release", request(devel, client=build))
    assert "19devel" in found.evidence


def test_a_short_run_is_only_worth_a_remark(build: Build) -> None:
    asked = request(build, fields={"duration_s": 10})
    (found,) = named("run shorter than a checkpoint cycle", asked)
    assert found.evidence.startswith("10 s against checkpoint_timeout=300 s")
    quick = request(build, fields={"duration_s": 31}, settings={"checkpoint_timeout": "30s"})
    assert named("run shorter than a checkpoint cycle", quick) == []


def test_a_safe_request_is_not_called_unsafe(build: Build) -> None:
    asked = request(build, settings={"fsync": True, "synchronous_commit": "local"})
    assert not [name for name in all_names(asked) if name.endswith(" is off")]


@pytest.mark.parametrize("script", ["select-only", "simple-update"])
def test_scale_below_clients_matters_for_tpcb_only(build: Build, script: str) -> None:
    asked = request(build, fields={"clients": 4, "script": script})
    assert named("scale below clients", asked) == []


def test_builds_that_are_not_for_measuring(build: Build) -> None:
    plain = dataclasses.replace(build, cflags="-O2 -g", configure=())
    unoptimised = dataclasses.replace(build, cflags="-g -O0", configure=())
    assert named("not a build for measuring", request(plain)) == []
    assert len(named("not a build for measuring", request(unoptimised))) == 1


def test_a_client_of_another_version(build: Build) -> None:
    (found,) = named("client of another version", request(build, client=client(build, "9.3.18")))
    assert found.evidence.startswith(f"pgbench 9.3.18 drives PostgreSQL {build.version}")
    assert named("client of another version", request(build)) == []
