"""Processes known by where they work, and ended with all that they hold."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from benchkit.postgres import processes
from benchkit.postgres.account import account, spawn
from benchkit.postgres.builds import Build
from benchkit.postgres.processes import end_processes_inside, processes_inside
from benchkit.postgres.server import Server
from tests.postgres.conftest import empty_cluster, needs_root, wait_until

NOWHERE = subprocess.DEVNULL


@pytest.fixture
def place(open_directory: Path) -> Path:
    account().own(open_directory)
    return open_directory


def started(place: Path, script: str) -> subprocess.Popen[bytes]:
    process = spawn(["sh", "-c", script], directory=place, stdout=NOWHERE, stderr=NOWHERE)
    wait_until(lambda: processes_inside(place))
    return process


def test_an_idle_directory_has_no_processes(place: Path) -> None:
    assert processes_inside(place) == []
    assert end_processes_inside(place) == 0


def test_a_process_is_known_by_its_directory(place: Path) -> None:
    below = place / "a" / "b"
    below.mkdir(parents=True)
    beside = Path(f"{place}-beside")
    beside.mkdir()
    process = started(below, "exec sleep 99")
    try:
        assert processes_inside(place) == [process.pid]
        assert processes_inside(beside) == []
        assert processes_inside(place / "a" / "bc") == []
    finally:
        assert end_processes_inside(place) == 1
        beside.rmdir()
    assert process.wait(1) == -signal.SIGQUIT


def test_a_process_is_found_after_its_directory_was_removed(place: Path) -> None:
    (place / "gone").mkdir()
    process = started(place / "gone", "exec sleep 99")
    (place / "gone").rmdir()
    assert processes_inside(place) == [process.pid]
    end_processes_inside(place)
    process.wait(1)


def test_children_and_deaf_processes_are_ended_too(place: Path) -> None:
    process = started(place, "trap '' QUIT; sleep 99 & sleep 99")
    wait_until(lambda: len(processes_inside(place)) == 3)
    begun = time.monotonic()
    assert end_processes_inside(place, grace_s=0.2) == 3
    assert time.monotonic() - begun < 2
    assert processes_inside(place) == []
    process.wait(1)


def test_at_once_is_without_a_warning(place: Path) -> None:
    process = started(place, "trap 'echo warned >warned' QUIT; sleep 99")
    end_processes_inside(place, at_once=True)
    assert process.wait(1) == -signal.SIGKILL
    assert not (place / "warned").exists()


def test_a_child_forked_since_its_parent_was_listed_is_ended_too(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = started(place, "sleep 99 & sleep 99")
    wait_until(lambda: len(processes_inside(place)) == 3)
    looks = iter([[process.pid]])
    monkeypatch.setattr(
        processes, "processes_inside", lambda path: next(looks, None) or processes_inside(path)
    )
    assert end_processes_inside(place, at_once=True) == 3
    assert processes_inside(place) == []
    process.wait(1)


def test_this_process_is_not_ended(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert os.getpid() not in processes_inside(place)
    assert end_processes_inside(place) == 0


@pytest.mark.skipif(not shutil.which("setsid"), reason="no setsid here")
def test_a_person_in_a_shell_is_not_ended(place: Path) -> None:
    user = account()
    other = {"user": user.uid, "group": user.gid, "extra_groups": []} if user.switch else {}
    ours, theirs = pty.openpty()
    command = ["setsid", "--ctty", "sleep", "99"]
    process = subprocess.Popen(command, cwd=place, stdin=theirs, **other)  # type: ignore[call-overload]
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        assert Path(f"/proc/{process.pid}/cwd").resolve() == place
        assert processes_inside(place) == []
        assert end_processes_inside(place) == 0
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


@needs_root
def test_root_at_work_in_the_directory_is_not_ended(place: Path) -> None:
    process = subprocess.Popen(["sleep", "99"], cwd=place, start_new_session=True)
    try:
        assert processes_inside(place) == []
    finally:
        process.kill()
        process.wait()


def shared_memory(server: Server) -> tuple[set[Path], str]:
    """A server's POSIX segments, and the id of its System V segment."""
    maps = Path(f"/proc/{server.process.pid}/maps").read_text().splitlines()
    paths = {Path(line.split()[-1]) for line in maps if "/dev/shm/PostgreSQL." in line}
    return paths, (server.data_dir / "postmaster.pid").read_text().split("\n")[6].split()[1]


def system_v_segments() -> set[str]:
    listing = subprocess.run(["ipcs", "-m"], capture_output=True, text=True).stdout
    return {line.split()[1] for line in listing.splitlines() if line.startswith("0x")}


@pytest.mark.server
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no POSIX shared memory to look at")
@pytest.mark.parametrize("how", ["fast", "immediate", "killed"])
def test_a_server_leaves_no_shared_memory(build: Build, how: str) -> None:
    with Server(build, template=empty_cluster(build)) as server:
        paths, segment = shared_memory(server)
        assert paths
        assert segment in system_v_segments()
        server.stop(how)
        assert not [path for path in paths if path.exists()]
        assert segment not in system_v_segments()


@pytest.mark.server
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no POSIX shared memory to look at")
def test_a_server_killed_by_the_kernel_leaves_no_shared_memory(build: Build) -> None:
    with Server(build, template=empty_cluster(build)) as server:
        paths, segment = shared_memory(server)
        os.kill(server.process.pid, signal.SIGKILL)
        wait_until(lambda: not server.process.alive())
        assert segment in system_v_segments()
    assert not [path for path in paths if path.exists()]
    assert segment not in system_v_segments()
