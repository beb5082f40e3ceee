"""Nothing stays behind, and never two measurements at once, however a process dies."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError, BusyError
from benchkit.postgres import workplace
from benchkit.postgres.account import account, spawn
from benchkit.postgres.workplace import Instance, machine_lock, sweep, under_construction
from tests.postgres.conftest import Start, line_of, needs_root

# Home and its rooms


def test_home_is_made_where_it_is_asked_for(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHKIT_HOME", str(open_directory / "a" / "b"))
    place = workplace.home()
    assert place == open_directory / "a" / "b"
    assert {path.name for path in place.iterdir()} == {"templates", "builds", "instances"}
    assert workplace.home() == place


def test_home_that_cannot_be_made_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHKIT_HOME", "/proc/home")
    with pytest.raises(BenchkitError, match="home /proc/home cannot be made") as caught:
        workplace.home()
    assert "BENCHKIT_HOME" in caught.value.advice


@needs_root
def test_home_that_the_account_cannot_enter_is_said(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_directory.chmod(0o700)
    monkeypatch.setenv("BENCHKIT_HOME", str(open_directory / "home"))
    with pytest.raises(BenchkitError, match="cannot enter") as caught:
        workplace.home()
    assert account().name in str(caught.value)


def test_a_strict_umask_does_not_close_home(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHKIT_HOME", str(open_directory / "home"))
    before = os.umask(0o077)
    try:
        with Instance() as instance:
            assert account().can("x", instance.directory)
    finally:
        os.umask(before)


# Instances


def test_an_instance_is_the_accounts_alone_and_goes(home: Path) -> None:
    with Instance() as instance:
        assert instance.directory.parent == home / "instances"
        inner = instance.make_directory("data")
        sockets = instance.socket_dir
        assert instance.socket_dir == sockets
        for path in (instance.directory, inner, sockets):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            assert path.stat().st_uid == account().uid
    assert not instance.directory.exists()
    assert not sockets.exists()


def test_an_instance_ends_what_works_in_it() -> None:
    with Instance() as instance:
        process = spawn(
            ["sleep", "99"],
            directory=instance.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    assert process.wait(1) != 0


def test_an_instance_goes_when_its_body_fails(home: Path) -> None:
    instance = Instance()
    assert instance.socket_dir.is_dir()
    with pytest.raises(ZeroDivisionError), instance:
        _ = 1 / 0
    assert not list((home / "instances").iterdir())
    assert not instance.socket_dir.exists()


@pytest.mark.parametrize("length", [10, 60, 200])
def test_a_socket_fits_whatever_the_temporary_directory(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    deep = open_directory / ("é" * (length // 2))
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with Instance() as instance:
        path = instance.socket_dir / workplace.SOCKET_NAME
        assert len(os.fsencode(path)) <= workplace.SOCKET_PATH_BYTES
        assert (instance.socket_dir.parent == deep) == (length < 20)
    assert not instance.socket_dir.exists()


@needs_root
def test_a_socket_is_not_put_where_the_account_cannot_go(
    open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_directory.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(open_directory))
    with Instance() as instance:
        assert instance.socket_dir.parent == Path("/tmp")


def test_a_socket_directory_that_is_there_already_is_not_used(home: Path) -> None:
    assert home
    with Instance() as instance:
        theirs = Path(tempfile.gettempdir()) / f"benchkit-{instance.directory.name}"
        theirs.mkdir(mode=0o777)
        with pytest.raises(BenchkitError, match="socket cannot be made"):
            _ = instance.socket_dir
    shutil.rmtree(theirs, ignore_errors=True)


# Leftovers

HOLDER = """
    import sys, time
    from benchkit.postgres.account import spawn
    from benchkit.postgres.workplace import Instance
    import subprocess
    instance = Instance()
    sleeper = spawn(["sleep", "999"], directory=instance.directory,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(instance.directory, instance.socket_dir, sleeper.pid, flush=True)
    time.sleep(999)
"""


def test_a_leftover_of_a_killed_run_is_swept(home: Path, start: Start) -> None:
    assert sweep() == []
    owner = start(HOLDER)
    directory, sockets, sleeper = line_of(owner).split()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert Path(directory).is_dir()
    assert sweep() == [f"leftover {Path(directory).name} of a killed run (1 processes)"]
    assert not Path(directory).exists()
    assert not Path(sockets).exists()
    assert not Path(f"/proc/{sleeper}/exe").exists()
    assert sweep() == []


def test_a_leftover_is_swept_by_one_with_another_temporary_directory(
    home: Path, start: Start, open_directory: Path
) -> None:
    owner = start(HOLDER, TMPDIR=str(open_directory))
    _, sockets, _ = line_of(owner).split()
    assert Path(sockets).parent == open_directory
    owner.kill()
    owner.wait()
    assert len(sweep()) == 1
    assert not Path(sockets).exists()
    assert home


def test_who_is_at_work_is_not_swept(home: Path, start: Start) -> None:
    owner = start(HOLDER)
    directory, sockets, sleeper = line_of(owner).split()
    with Instance() as own:
        assert sweep() == []
        assert own.directory.is_dir()
    assert Path(directory).is_dir()
    assert Path(sockets).is_dir()
    os.kill(int(sleeper), 0)
    owner.kill()
    owner.wait()
    assert len(sweep()) == 1
    assert home


def test_an_instance_without_its_lock_is_a_leftover(home: Path) -> None:
    # Killed between making the directory and locking it.
    (home / "instances" / "deadbeef").mkdir(parents=True)
    assert sweep() == ["leftover deadbeef of a killed run (0 processes)"]


def test_a_note_of_another_place_removes_nothing_there(home: Path, open_directory: Path) -> None:
    theirs = open_directory / "precious"
    theirs.mkdir()
    directory = home / "instances" / "deadbeef"
    directory.mkdir(parents=True)
    (directory / "socket").symlink_to(theirs)
    assert len(sweep()) == 1
    assert theirs.is_dir()


def test_a_leftover_of_another_account_is_left_alone(home: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may sweep everybody's")
    directory = home / "instances" / "deadbeef"
    directory.mkdir(parents=True)
    (directory / "owner.lock").touch(0o000)
    assert sweep() == []
    shutil.rmtree(directory)


# Construction


def test_a_directory_gets_its_name_when_it_is_whole(home: Path) -> None:
    target = workplace.home() / "templates" / "one"
    with under_construction(target) as unfinished:
        (unfinished / "file").write_text("whole")
        assert not target.exists()
    assert (target / "file").read_text() == "whole"
    assert not list((home / "instances").iterdir())


def begin_and_fail(target: Path) -> None:
    with under_construction(target) as unfinished:
        (unfinished / "file").touch()
        raise ZeroDivisionError


def test_a_failed_construction_leaves_nothing(home: Path) -> None:
    target = workplace.home() / "templates" / "one"
    with pytest.raises(ZeroDivisionError):
        begin_and_fail(target)
    assert not target.exists()
    assert not list((home / "instances").iterdir())


def test_whoever_comes_second_takes_the_firsts(home: Path) -> None:
    target = workplace.home() / "templates" / "one"
    with under_construction(target) as second:
        (second / "file").write_text("second")
        with under_construction(target) as first:
            (first / "file").write_text("first")
    assert (target / "file").read_text() == "first"
    assert home


def test_a_construction_that_cannot_be_placed_is_said(home: Path) -> None:
    target = home / "no such directory" / "one"
    with (
        pytest.raises(BenchkitError, match="could not be put in place"),
        under_construction(target) as unfinished,
    ):
        (unfinished / "file").touch()


# One measurement at a time

MEASURER = """
    import pathlib, sys, time
    from benchkit.postgres.workplace import machine_lock
    path, purpose, hold_s = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    with machine_lock(purpose, path=path):
        print("inside", flush=True)
        time.sleep(hold_s)
"""


@pytest.fixture
def lock(open_directory: Path) -> Path:
    open_directory.chmod(0o1777)
    return open_directory / "machine.lock"


def test_the_lock_is_held_and_goes(lock: Path) -> None:
    with machine_lock("a trial", path=lock):
        assert lock.read_text() == f"process {os.getpid()}: a trial"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o666
    assert not lock.exists()


def test_the_lock_goes_when_the_measurement_fails(lock: Path) -> None:
    with pytest.raises(ZeroDivisionError), machine_lock("a trial", path=lock):
        _ = 1 / 0
    assert not lock.exists()
    with machine_lock("another", wait_s=0, path=lock):
        pass


def test_busy_names_the_holder(lock: Path, start: Start) -> None:
    other = start(MEASURER, lock, "HOT of Alice", 99)
    line_of(other)
    begun = time.monotonic()
    with pytest.raises(BusyError) as caught, machine_lock("mine", wait_s=0.3, path=lock):
        pass
    assert 0.3 <= time.monotonic() - begun < 3
    assert caught.value.evidence == f"process {other.pid}: HOT of Alice"


def test_the_same_process_cannot_measure_twice_at_once(lock: Path) -> None:
    with (
        machine_lock("one", path=lock),
        pytest.raises(BusyError),
        machine_lock("two", wait_s=0, path=lock),
    ):
        pass


def test_the_second_waits_for_the_first(lock: Path, start: Start) -> None:
    other = start(MEASURER, lock, "first", 0.5)
    line_of(other)
    begun = time.monotonic()
    with machine_lock("second", wait_s=20, path=lock):
        assert time.monotonic() - begun > 0.3
        assert lock.read_text().endswith("second")


def test_a_killed_holder_frees_the_lock(lock: Path, start: Start) -> None:
    other = start(MEASURER, lock, "doomed and with a long name", 99)
    line_of(other)
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert lock.exists()
    with machine_lock("heir", wait_s=1, path=lock):
        assert lock.read_text() == f"process {os.getpid()}: heir"
    assert not lock.exists()


def test_what_the_holder_starts_does_not_keep_the_lock(lock: Path) -> None:
    with machine_lock("one", path=lock):
        child = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        with machine_lock("two", wait_s=0, path=lock):
            pass
    finally:
        child.kill()
        child.wait()


def test_a_link_in_place_of_the_lock_is_not_followed(lock: Path, open_directory: Path) -> None:
    lock.symlink_to(open_directory / "elsewhere")
    with pytest.raises(OSError, match=r"machine\.lock"), machine_lock("one", path=lock):
        pass
    assert not (open_directory / "elsewhere").exists()


@needs_root
def test_another_users_lock_can_be_taken(lock: Path) -> None:
    # /tmp is sticky, and the kernel refuses O_CREAT there on a file of another's.
    lock.touch()
    lock.chmod(0o666)
    shutil.chown(lock, account().uid)
    with machine_lock("root's", wait_s=0, path=lock):
        assert lock.read_text().endswith("root's")
    assert not lock.exists()


WORKER = """
    import json, pathlib, sys, time
    from benchkit.postgres.workplace import machine_lock
    path, times = pathlib.Path(sys.argv[1]), []
    print("ready", flush=True)
    for i in range(12):
        with machine_lock(f"turn {i}", path=path, wait_s=60):
            entered = time.monotonic_ns()
            time.sleep(0.002 * (i % 3))
            times.append((entered, time.monotonic_ns()))
    print(json.dumps(times))
"""


@pytest.mark.slow
def test_never_two_inside_at_the_same_time(lock: Path, start: Start) -> None:
    workers = [start(WORKER, lock) for _ in range(4)]
    turns = []
    for worker in workers:
        line_of(worker)
    for worker in workers:
        turns += json.loads(line_of(worker))
    assert len(turns) == 4 * 12
    turns.sort()
    for (_, left), (entered, _) in itertools.pairwise(turns):
        assert left <= entered
    assert not lock.exists()


def test_the_first_to_come_makes_the_lock_of_all(open_directory: Path) -> None:
    before = os.umask(0o077)
    try:
        with machine_lock("strict", path=open_directory / "lock"):
            assert stat.S_IMODE((open_directory / "lock").stat().st_mode) == 0o666
    finally:
        os.umask(before)
