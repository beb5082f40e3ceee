"""What is refused before anything starts, and what a preflight warns of."""

from __future__ import annotations

import dataclasses
import resource
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import Fault, InputError
from benchkit.measure import cache, host
from benchkit.measure.checks import check_requests, preflight
from benchkit.measure.finding import Finding
from benchkit.measure.trial import TrialRequest
from benchkit.postgres.builds import Build
from benchkit.postgres.versions import parse_version
from benchkit.workload import disk
from benchkit.workload.pgbench import Workload


def request(build: Build, **changes: Any) -> TrialRequest:
    workload = changes.pop("workload", None) or Workload(
        **{"scale": 1, "clients": 1, "duration_s": 1, **changes.pop("fields", {})}
    )
    return TrialRequest(
        build=build, client=changes.pop("client", build), workload=workload, **changes
    )


def faults_of(*requests: TrialRequest, assertions: bool = False) -> list[str]:
    try:
        check_requests(requests, assertions=assertions)
    except InputError as error:
        return [str(fault) for fault in error.faults]
    return []


def client(build: Build, version: str) -> Build:
    return dataclasses.replace(build, pgbench=parse_version(version))


def names(findings: list[Finding], severity: str) -> set[str]:
    return {finding.name for finding in findings if finding.severity == severity}


# Refused


def test_what_can_be_done_is_not_refused(build: Build) -> None:
    assert faults_of(request(build)) == []
    assert faults_of() == []


def test_faults_of_all_cells_are_collected_once(build: Build) -> None:
    bad = [
        request(build, fields={"scale": 0}),
        request(build, fields={"scale": 0}, settings={"shared_bufers": "1GB"}),
        request(build, fields={"protocol": "fast"}, settings={"work_mem": "4 KB"}),
        request(build),
    ]
    found = faults_of(*bad)
    assert found[0] == "scale: 0 is below 1"
    assert found[1].startswith("settings shared_bufers: unknown setting 'shared_bufers'; did you")
    assert found[2].startswith("protocol: unknown protocol 'fast'")
    assert found[3].startswith("settings work_mem: '4 KB' has the unit 'KB'; did you mean '4kB'?")
    assert len(found) == 4


def test_a_wrong_type_is_a_fault_like_others(build: Build) -> None:
    wrong: dict[str, Any] = {"clients": "8", "scale": None}
    workload = dataclasses.replace(Workload(duration_s=1), **wrong)
    assert faults_of(request(build, workload=workload)) == [
        "scale: None is not of type int",
        "clients: '8' is not of type int",
    ]


@pytest.mark.parametrize(("clients", "refused"), [(98, False), (99, True)])
def test_clients_against_the_default_of_max_connections(
    build: Build, clients: int, refused: bool
) -> None:
    found = faults_of(request(build, fields={"clients": clients}))
    assert bool(found) == refused
    if refused:
        assert found == [
            "clients: 99 clients and benchkit's two connections exceed max_connections=100; set "
            "max_connections to 109"
        ]


def test_clients_against_a_max_connections_that_was_asked_for(build: Build) -> None:
    fields = {"clients": 20}
    assert faults_of(request(build, fields=fields, settings={"Max_Connections": 22})) == []
    (found,) = faults_of(request(build, fields=fields, settings={"Max_Connections": 21}))
    assert "exceed max_connections=21" in found


@pytest.mark.parametrize(
    ("version", "limits", "refused"),
    [
        ("15.20", (1024, 1 << 20), True),
        ("18.6", (1024, 1 << 20), False),
        ("18.6", (1024, 1024), True),
        ("15.20", (resource.RLIM_INFINITY, resource.RLIM_INFINITY), False),
    ],
)
def test_clients_against_open_files(
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    limits: tuple[int, int],
    refused: bool,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: limits)
    asked = request(
        build,
        fields={"clients": 1015},
        settings={"max_connections": 2000},
        client=client(build, version),
    )
    assert faults_of(asked) == (
        [
            f"clients: 1015 clients of pgbench {version} exceed the limit of 1024 open files "
            "(ulimit -n)"
        ]
        if refused
        else []
    )


def test_assertions_only_if_asked_for(build: Build) -> None:
    asserting = dataclasses.replace(build, debug_assertions=True)
    (found,) = faults_of(request(asserting, client=build))
    assert found.startswith(f"build: PostgreSQL {build.version}")
    assert "allow_assertions=True" in found
    assert faults_of(request(asserting, client=build), assertions=True) == []


def test_checksums_of_a_version_without(build: Build) -> None:
    old = dataclasses.replace(build, version=parse_version("9.2.24"))
    (found,) = faults_of(request(old, client=build, checksums=True))
    assert found == "checksums: PostgreSQL 9.2.24 has no data checksums (9.3 brought them)"


def test_a_build_that_cannot_prewarm(
    build: Build, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = request(build, fields={"cache": "prewarmed"})
    bare = tmp_path / "extension"
    bare.mkdir()
    monkeypatch.setattr(cache, "configuration", lambda bin_dir: {"SHAREDIR": str(tmp_path)})
    (found,) = faults_of(asked)
    assert found.startswith(
        f"cache: PostgreSQL {build.version} in {build.bin_dir} has no extension"
    )
    (bare / "pg_prewarm.control").touch()
    assert faults_of(asked) == []


def test_the_disk_is_checked_beside_everything_else(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda place: 10 * 1024**3)
    found = faults_of(
        request(build, fields={"scale": 2000}), request(build, fields={"protocol": "fast"})
    )
    assert len(found) == 2
    assert any("at most about scale" in fault for fault in found)


def test_an_input_error_lists_its_faults(build: Build) -> None:
    with pytest.raises(InputError) as caught:
        check_requests([request(build, fields={"scale": 0})], assertions=False)
    assert caught.value.faults == (Fault(where="scale", problem="0 is below 1"),)
    assert str(caught.value) == "This cannot be done: 1 fault.\n  - scale: 0 is below 1"


# Warned of


def test_worst_first_and_each_once(build: Build) -> None:
    unsafe = {
        "fsync": False,
        "full_page_writes": "off",
        "autovacuum": 0,
        "SYNCHRONOUS_commit": "off",
    }
    asked = request(build, fields={"clients": 4}, settings=unsafe)
    found = preflight([asked, asked])
    order = [finding.severity for finding in found]
    assert order == sorted(order, key=["bad", "warning", "info"].index)
    assert len(found) == len(set(found))
    assert {"fsync is off", "full_page_writes is off"} <= names(found, "bad")
    expected = {"autovacuum is off", "synchronous_commit is off", "scale below clients"}
    assert expected <= names(found, "warning")
    assert all(finding.evidence and finding.fix for finding in found)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cache": "cold", "warm_up_s": 5}, True),
        ({"cache": "cold"}, False),
        ({"cache": "uncached", "warm_up_s": 5}, False),
    ],
)
def test_a_warm_up_warms_a_cold_cache(build: Build, fields: dict[str, Any], said: bool) -> None:
    found = [
        finding
        for finding in preflight([request(build, fields=fields)])
        if finding.name == "a cold cache that is warmed up"
    ]
    assert bool(found) == said
    assert all('cache="uncached"' in finding.fix for finding in found)


def test_builds_of_two_compilations_are_told(build: Build) -> None:
    other = dataclasses.replace(build, fingerprint="another", compiler="another compiler")
    name = "builds compiled differently"
    assert name in names(preflight([request(build), request(other, client=build)]), "warning")
    assert name not in names(preflight([request(build), request(build)]), "warning")


def test_the_machine_is_looked_at(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = {
        "swap_used_bytes": 3 << 20,
        "filesystem_type": "tmpfs",
        "scaling_governor": "powersave",
        "usable_cores": 2,
        "hypervisor": True,
    }
    monkeypatch.setattr(host, "fingerprint", lambda place: machine)
    monkeypatch.setattr(host, "other_postgres", lambda place: ["pid 1: postgres"])
    found = preflight([])
    assert names(found, "bad") == {"data directory in memory"}
    assert names(found, "warning") == {
        "the machine swaps",
        "CPU frequency varies",
        "another PostgreSQL server",
    }
    assert names(found, "info") == {"client and server share the cores", "virtual machine"}


def test_nothing_is_said_of_a_machine_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "fingerprint", lambda place: {"usable_cores": None})
    monkeypatch.setattr(host, "other_postgres", lambda place: [])
    assert preflight([]) == []
