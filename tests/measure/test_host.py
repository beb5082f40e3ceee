from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchkit.measure import host

if TYPE_CHECKING:
    from benchkit.postgres.server import Server

CGROUP_V2 = "0::/user.slice/bench\n"
CGROUP_V1 = "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/init\n0::/\n"


def plant(root: Path, files: dict[str, str]) -> Path:
    """Write a tree as /proc and /sys would show it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def twelve_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(12)), raising=False)


@pytest.mark.usefixtures("twelve_cores")
@pytest.mark.parametrize(
    ("quota", "cores"),
    [("400000 100000", 4), ("250000 100000", 2), ("50000 100000", 1), ("max 100000", 12)],
)
def test_cpu_quota_limits_the_usable_cores(tmp_path: Path, quota: str, cores: int) -> None:
    group = "sys/fs/cgroup/user.slice/bench/cpu.max"
    plant(tmp_path, {"proc/self/cgroup": CGROUP_V2, group: quota})
    assert host.usable_cores(tmp_path) == cores


@pytest.mark.usefixtures("twelve_cores")
def test_affinity_limits_the_usable_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7}, raising=False)
    assert host.usable_cores(tmp_path) == 3


def test_quota_of_an_ancestor_counts(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/self/cgroup": CGROUP_V2,
            "sys/fs/cgroup/user.slice/bench/cpu.max": "max 100000",
            "sys/fs/cgroup/user.slice/cpu.max": "150000 100000",
        },
    )
    assert host.cpu_quota_cores(tmp_path) == 1.5


@pytest.mark.parametrize(("quota", "cores"), [("300000", 3.0), ("-1", None)])
def test_version_1_quota_is_found_where_only_the_container_is_mounted(
    tmp_path: Path, quota: str, cores: float | None
) -> None:
    folder = "sys/fs/cgroup/cpu,cpuacct"
    plant(
        tmp_path,
        {
            "proc/self/cgroup": CGROUP_V1,
            f"{folder}/cpu.cfs_quota_us": quota,
            f"{folder}/cpu.cfs_period_us": "100000",
        },
    )
    assert host.cpu_quota_cores(tmp_path) == cores


def test_memory_limit_is_the_least_of_the_ancestors(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/self/cgroup": CGROUP_V2,
            "sys/fs/cgroup/user.slice/bench/memory.max": "max",
            "sys/fs/cgroup/user.slice/memory.max": "2147483648",
        },
    )
    assert host.memory_limit_bytes(tmp_path) == 2 * 1024**3


@pytest.mark.parametrize(("shown", "limit"), [("9223372036854771712", None), ("1048576", 1048576)])
def test_version_1_memory_without_limit_is_none(
    tmp_path: Path, shown: str, limit: int | None
) -> None:
    file = "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes"
    plant(tmp_path, {"proc/self/cgroup": CGROUP_V1, file: shown})
    assert host.memory_limit_bytes(tmp_path) == limit


def test_throttling_is_summed_over_the_groups(tmp_path: Path) -> None:
    stat = "usage_usec 9\nnr_periods 50\nnr_throttled {}\nthrottled_usec {}\n"
    plant(
        tmp_path,
        {
            "proc/self/cgroup": CGROUP_V2,
            "sys/fs/cgroup/user.slice/bench/cpu.stat": stat.format(3, 1000),
            "sys/fs/cgroup/user.slice/cpu.stat": stat.format(4, 500),
            "sys/fs/cgroup/cpu.stat": "usage_usec 12\n",
        },
    )
    assert host.throttling(tmp_path) == {"nr_throttled": 7, "throttled_usec": 1500}


def test_version_1_throttling_is_shown_in_microseconds(tmp_path: Path) -> None:
    stat = "nr_periods 5\nnr_throttled 2\nthrottled_time 7000000\n"
    file = "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.stat"
    plant(tmp_path, {"proc/self/cgroup": CGROUP_V1, file: stat})
    assert host.throttling(tmp_path) == {"nr_throttled": 2, "throttled_usec": 7000}


def test_throttling_that_is_not_counted_is_none(tmp_path: Path) -> None:
    assert host.throttling(tmp_path) == {"nr_throttled": None, "throttled_usec": None}


def test_kernel_and_processor_are_read_from_the_tree(tmp_path: Path) -> None:
    cpu = "sys/devices/system/cpu"
    plant(
        tmp_path,
        {
            "proc/cpuinfo": "processor\t: 0\nmodel name\t: Model 7 @ 3 GHz\nflags\t\t: fpu vme\n",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{cpu}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{cpu}/intel_pstate/no_turbo": "1\n",
            "sys/devices/system/node/node0/cpulist": "0\n",
            "sys/devices/system/node/node1/cpulist": "1\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "sys/class/dmi/id/product_name": "Some Server\n",
            "proc/sys/kernel/random/boot_id": "b00-1d\n",
            "run/.containerenv": "",
        },
    )
    expected = {
        "cpu_model": "Model 7 @ 3 GHz",
        "scaling_governor": "performance, powersave",
        "turbo": False,
        "numa_nodes": 2,
        "clock_source": "tsc",
        "transparent_huge_pages": "madvise",
        "hypervisor": False,
        "product_name": "Some Server",
        "boot_id": "b00-1d",
        "container": "podman",
    }
    found = host.fingerprint(tmp_path, root=tmp_path)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("file", "text", "turbo"),
    [
        ("intel_pstate/no_turbo", "0", True),
        ("cpufreq/boost", "1", True),
        ("cpufreq/boost", "0", False),
    ],
)
def test_turbo_of_both_drivers(tmp_path: Path, file: str, text: str, turbo: bool) -> None:
    plant(tmp_path, {f"sys/devices/system/cpu/{file}": text})
    assert host.fingerprint(tmp_path, root=tmp_path)["turbo"] is turbo


def test_virtual_machine_and_container_are_recognised(tmp_path: Path) -> None:
    plant(
        tmp_path,
        {
            "proc/cpuinfo": "flags\t\t: fpu hypervisor vme\n",
            "proc/self/cgroup": "0::/kubepods.slice/pod7\n",
        },
    )
    found = host.fingerprint(tmp_path, root=tmp_path)
    assert (found["hypervisor"], found["container"]) == (True, "kubepods")


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    found = host.fingerprint(tmp_path / "not" / "there", root=tmp_path)
    unreadable = {
        *("cpu_quota_cores", "memory_limit_bytes", "numa_nodes", "scaling_governor", "turbo"),
        *("clock_source", "hypervisor", "product_name", "container", "boot_id"),
    }
    assert {found[name] for name in unreadable} == {None}
    assert found["disk_free_bytes"]
    json.dumps(found, allow_nan=False)


def test_fingerprint_of_this_machine_is_plain_json(tmp_path: Path) -> None:
    found = host.fingerprint(tmp_path)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["hostname"] == platform.node()
    assert found["memory_bytes"]
    assert found["filesystem_type"]


def test_mounts_are_unescaped_and_keep_no_accounts(tmp_path: Path) -> None:
    line = (
        r"36 35 98:0 /mnt1 /my\040disk rw,noatime master:1 shared:2 - nfs4 server:/a\040b "
        "rw,hard,username=me,password=secret,addr=10.0.0.1\n"
    )
    plant(tmp_path, {"proc/self/mountinfo": line + "torn line\n"})
    assert host.mounted(tmp_path) == [
        {
            "filesystem_mount": "/my disk",
            "filesystem_type": "nfs4",
            "filesystem_device": "server:/a b",
            "filesystem_options": "rw,noatime,hard",
        }
    ]


def test_data_directory_lies_on_the_last_of_the_nearest_mounts(tmp_path: Path) -> None:
    data = tmp_path / "data"
    lines = [
        f"1 0 8:1 / {data.parent} rw - xfs /dev/under rw",
        f"2 0 8:2 / {data.parent} rw - ext4 /dev/over rw,data=ordered",
        "3 0 8:3 / / rw - btrfs /dev/root rw",
        f"4 0 8:4 / {data}base rw - tmpfs none rw",
    ]
    plant(tmp_path, {"proc/self/mountinfo": "\n".join(lines)})
    found = host.fingerprint(data, root=tmp_path)
    assert found["filesystem_device"] == "/dev/over"
    assert found["filesystem_options"] == "rw,data=ordered"


@pytest.fixture
def postmaster(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that the process table shows as a server with its data directory."""
    program, data = tmp_path / "postgres", tmp_path / "ours" / "data"
    program.symlink_to(Path(sys.executable).resolve())
    data.mkdir(parents=True)
    command = [str(program), "-ISc", "import time; time.sleep(60)", "--password=secret"]
    process = subprocess.Popen(command, cwd=data)
    yield process
    process.kill()
    process.wait()


def test_servers_elsewhere_are_reported_without_their_command_line(
    postmaster: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    found = [line for line in host.other_postgres(tmp_path / "else") if str(tmp_path) in line]
    assert len(found) == 1
    assert found[0].startswith(f"pid {postmaster.pid}: ")
    assert found[0].endswith(f"data directory {tmp_path}/ours/data")
    assert "secret" not in found[0]


@pytest.mark.usefixtures("postmaster")
def test_our_own_servers_are_not_reported(tmp_path: Path) -> None:
    assert not [line for line in host.other_postgres(tmp_path / "ours") if str(tmp_path) in line]


@pytest.mark.server
def test_a_server_is_reported_once_and_its_backends_not(server: Server, tmp_path: Path) -> None:
    with server.connect() as connection:
        folder = connection.execute("SHOW data_directory").fetchone()
        assert folder is not None
        line = f"data directory {Path(folder['data_directory']).resolve()}"
        assert sum(found.endswith(line) for found in host.other_postgres(tmp_path)) == 1
        ours = Path(folder["data_directory"]).parent
        assert not [found for found in host.other_postgres(ours) if found.endswith(line)]
