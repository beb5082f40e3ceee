"""What the sampler tells when all is well, and that it tells why when it is not."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchkit.measure import waits
from benchkit.measure.waits import CPU_OR_UNTOLD, Connection, DiskCounter, WaitSampler
from benchkit.postgres.builds import Build
from benchkit.postgres.server import Server
from benchkit.postgres.versions import parse_version


def unreachable() -> Connection:
    raise AssertionError("nobody may connect")


def test_a_server_that_does_not_tell_is_null_with_a_reason() -> None:
    with WaitSampler(unreachable, parse_version("8.4.22")) as sampler:
        pass
    assert sampler.record() == {
        "interval_s": 1.0,
        "looks": 0,
        "events": None,
        "reason": "PostgreSQL 8.4.22 does not tell session states",
    }


@pytest.mark.parametrize(("version", "name"), [("9.6.24", CPU_OR_UNTOLD), ("10.1", "CPU")])
def test_cpu_is_only_said_where_every_wait_is_told(version: str, name: str) -> None:
    assert list(WaitSampler(unreachable, parse_version(version)).events) == [name]


@pytest.mark.server
def test_a_run_without_a_look_says_so(server: Server) -> None:
    with WaitSampler(lambda: server.connect("template1"), server.build.version) as sampler:
        pass
    found = sampler.record()
    assert (found["looks"], found["events"]) == (0, None)
    assert found["reason"] == "the run was over before the first look"


@pytest.mark.server
def test_no_connection_is_a_reason_and_no_error(server: Server) -> None:
    with WaitSampler(lambda: server.connect("nowhere"), server.build.version) as sampler:
        pass
    assert sampler.record()["reason"].startswith("no connection to sample with: ")


@pytest.mark.server
def test_a_connection_that_is_lost_ends_the_sampling_only(
    build: Build, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "INTERVAL_S", 0.01)
    monkeypatch.setattr(waits, "FIRST_S", 0.01)
    opened: list[Connection] = []

    def connect() -> Connection:
        opened.append(server.connect("template1"))
        return opened[0]

    with WaitSampler(connect, build.version) as sampler, server.connect() as mine:
        time.sleep(0.1)
        mine.execute("SELECT pg_terminate_backend(%s)", [opened[0].info.backend_pid])
        time.sleep(0.1)
    found = sampler.record()
    assert found["reason"].startswith("sampling ended: ")
    assert found["looks"] > 0
    assert found["events"] == {"CPU": 0}  # no pgbench was there
    assert opened[0].closed


# The disk


def tree(root: Path, read_kib: int, written_kib: int) -> None:
    (root / "proc").mkdir(exist_ok=True)
    text = f"nr_free_pages 1\npgpgin {read_kib}\npgpgout {written_kib}\npgpgin_other 7\n"
    (root / "proc/vmstat").write_text(text)


def test_the_disk_is_counted_in_bytes(tmp_path: Path) -> None:
    tree(tmp_path, 100, 1000)
    with DiskCounter(tmp_path) as disk:
        tree(tmp_path, 103, 1000)
    assert disk.record() == {"disk_read_bytes": 3072, "disk_written_bytes": 0, "reason": ""}


def test_a_system_without_the_counters_is_none_with_a_reason(tmp_path: Path) -> None:
    with DiskCounter(tmp_path) as disk:
        pass
    found = disk.record()
    assert (found["disk_read_bytes"], found["disk_written_bytes"]) == (None, None)
    assert found["reason"]
    json.dumps(found)
