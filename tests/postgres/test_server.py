"""Servers: started as asked, stopped as said, and gone without a trace on every path."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from benchkit.errors import InputError, ServerError
from benchkit.postgres import cluster
from benchkit.postgres.account import account, spawn
from benchkit.postgres.builds import Build
from benchkit.postgres.processes import processes_inside
from benchkit.postgres.server import Server, ServerProcess
from benchkit.postgres.settings import Value
from benchkit.postgres.workplace import SOCKET_PATH_BYTES, Instance, sweep
from tests.postgres.conftest import (
    Start,
    changed_cluster,
    empty_cluster,
    line_of,
    nothing_is_left,
    one_of_each_major,
    wait_until,
)

pytestmark = pytest.mark.server


# Started


@pytest.mark.slow
def test_every_version_starts_answers_and_goes(each_build: Build, home: Path) -> None:
    with Server(each_build, {"work_mem": "7MB"}) as server:
        with server.connect() as connection:
            row = connection.execute(
                "SELECT current_setting('work_mem') AS memory, version() AS version"
            ).fetchone()
        assert row
        assert row["memory"] == "7MB"
        assert row["version"].startswith(f"PostgreSQL {each_build.version}")
        assert set(server.steps_s) == {"initdb", "start"}
        assert all(0 < seconds < 60 for seconds in server.steps_s.values())
        assert server.changed_settings()["work_mem"] == "7MB"
    assert nothing_is_left(home)


def test_a_server_never_entered_leaves_nothing(build: Build, home: Path) -> None:
    server = Server(build)
    assert nothing_is_left(home)
    with pytest.raises(ServerError, match="was not started"):
        _ = server.process
    with pytest.raises(ServerError, match="was not started"):
        _ = server.data_dir
    server.close()


def test_a_server_can_be_entered_again(build: Build, home: Path) -> None:
    server = Server(build, template=empty_cluster(build))
    for _ in range(2):
        with server:
            assert server.process.alive()
            host = server.host
        assert not server.process.alive()
        assert server.host == host
        assert not Path(host).exists()
    assert nothing_is_left(home)


def test_it_listens_on_a_private_socket_only(server: Server) -> None:
    process = psutil.Process(server.process.pid)
    assert process.net_connections(kind="inet") == []
    place = Path(server.host)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert place.stat().st_uid == account().uid
    assert (place / ".s.PGSQL.5432").is_socket()
    assert len(os.fsencode(place / ".s.PGSQL.5432")) <= SOCKET_PATH_BYTES
    assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700


def test_it_runs_as_the_account_in_a_session_of_its_own(server: Server) -> None:
    process = psutil.Process(server.process.pid)
    assert process.uids().real == process.uids().effective == account().uid
    assert process.gids().effective == account().gid
    # An interrupt of the terminal or the notebook goes to the caller's process group.
    assert os.getpgid(process.pid) == process.pid != os.getpgid(0)
    assert os.getsid(process.pid) == process.pid
    assert Path(process.cwd()) == server.data_dir


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc here")
def test_it_sees_nothing_of_the_callers_environment(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGOPTIONS", "PGTZ", "PGPORT", "PGDATA", "LC_TIME", "LANG", "PGBENCH_RANDOM_SEED"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("TZ", "Mars/Olympus")
    with Server(build, template=empty_cluster(build)) as server:
        block = Path(f"/proc/{server.process.pid}/environ").read_bytes()
        variables = dict(item.split("=", 1) for item in block.decode().split("\0") if "=" in item)
    # PostgreSQL sets PGDATA-like variables of its own only for its children.
    names = {"PATH", "TMPDIR", "HOME", "LC_ALL", "TZ", "LD_LIBRARY_PATH"}
    assert set(variables) <= names | {"PG_OOM_ADJUST_FILE"}
    assert (variables["LC_ALL"], variables["TZ"]) == ("C", "UTC")


def test_it_starts_where_the_temporary_directory_has_a_long_name(
    build: Build, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = open_directory / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with Server(build, template=empty_cluster(build)) as server, server.connect():
        assert not Path(server.host).is_relative_to(deep)


# Refused before anything is started


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"shared_bufers": "1GB"}, "did you mean 'shared_buffers'"),
        ({"data_directory": "/elsewhere"}, "is set by benchkit itself"),
        ({"work_mem": "64mb"}, "did you mean '64MB'"),
        ({"x.y\nfsync": "off"}, "is no name of a setting"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_anything_starts(
    build: Build, home: Path, asked: dict[str, Value], says: str
) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        Server(build, asked)
    assert nothing_is_left(home)


# Failed starts: the cause is in the error, and nothing is left


def failure(
    build: Build, settings: dict[str, Value] | None = None, *, template: Path | None = None
) -> str:
    """The text of the error with which a server does not start."""
    server = Server(build, settings, template=template or empty_cluster(build))
    with pytest.raises(ServerError) as caught:
        server.__enter__()
    return str(caught.value)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"wal_level": "minimal"}, "FATAL:  WAL streaming"),
        ({"shared_preload_libraries": "nosuch"}, 'FATAL:  could not access file "nosuch"'),
        (
            {"max_connections": 5, "superuser_reserved_connections": 9},
            "superuser_reserved_connections",
        ),
        ({"session_preload_libraries": "nosuch"}, "no connection to it can be made"),
    ],
    ids=str,
)
def test_a_start_that_fails_says_what_the_log_says(
    build: Build, home: Path, asked: dict[str, Value], says: str
) -> None:
    text = failure(build, asked)
    assert says in text
    assert nothing_is_left(home)


def test_the_hint_comes_with_the_cause(build: Build) -> None:
    text = failure(build, {"shared_buffers": "7000GB"})
    assert re.search(r"FATAL:  could not map .*\n.*HINT:  This error usually means", text), text
    assert "(exit code 1)" in text


def open_to_all(data_dir: Path) -> None:
    data_dir.chmod(0o777)


def without_wal(data_dir: Path) -> None:
    for path in (data_dir / "pg_wal").iterdir():
        if path.is_file():
            path.unlink()


def without_control_file(data_dir: Path) -> None:
    (data_dir / "global" / "pg_control").unlink()


def with_an_unknown_setting(data_dir: Path) -> None:
    (data_dir / "postgresql.auto.conf").write_text("checkpoint_segments = 32\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (open_to_all, r"FATAL: .* invalid permissions\n.*DETAIL:  Permissions should be u=rwx"),
        (without_wal, r"PANIC:  could not locate a valid checkpoint record"),
        (without_control_file, r"could not (find|open) .*pg_control"),
        (
            with_an_unknown_setting,
            r'LOG:  unrecognized configuration parameter "checkpoint_segments" in file .*\n'
            r".*FATAL:  configuration file .* contains errors",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_damaged_cluster_says_what_is_wrong(
    build: Build, home: Path, change: Callable[[Path], None], says: str
) -> None:
    with changed_cluster(build, change) as template:
        text = failure(build, template=template)
    assert re.search(says, text), text
    assert nothing_is_left(home)


def test_a_cluster_of_another_version_is_refused(build: Build, home: Path) -> None:
    others = [found for found in one_of_each_major() if found.version.major != build.version.major]
    if not others:
        pytest.skip("only one major version is here")
    text = failure(others[0], template=empty_cluster(build))
    assert f"is a cluster of PostgreSQL {build.version.major}, not of {others[0].version}" in text
    assert nothing_is_left(home)


def test_what_is_no_cluster_is_refused(build: Build, home: Path, open_directory: Path) -> None:
    assert f"{open_directory} is no cluster" in failure(build, template=open_directory)
    assert nothing_is_left(home)


@pytest.mark.slow
def test_a_cluster_with_files_elsewhere_is_not_cloned(
    build: Build, home: Path, open_directory: Path
) -> None:
    def move_wal(data_dir: Path) -> None:
        shutil.move(data_dir / "pg_wal", open_directory / "wal")
        (data_dir / "pg_wal").symlink_to(open_directory / "wal")

    def with_tablespace(data_dir: Path) -> None:
        (data_dir / "pg_tblspc" / "16384").symlink_to(open_directory)

    for change in (move_wal, with_tablespace):
        with changed_cluster(build, change) as template:
            text = failure(build, template=template)
        assert "has files elsewhere, which its clones would change" in text
        assert f"-> {open_directory}" in text
    assert nothing_is_left(home)


def test_a_clone_does_not_become_the_server_of_another_directory(build: Build) -> None:
    def point_elsewhere(data_dir: Path) -> None:
        with (data_dir / "postgresql.conf").open("a") as file:
            file.write("data_directory = '/elsewhere'\nport = 1\nlisten_addresses = '*'\n")

    with changed_cluster(build, point_elsewhere) as template:
        with Server(build, template=template) as server, server.connect() as connection:
            row = connection.execute("SHOW data_directory").fetchone()
        assert row == {"data_directory": str(server.data_dir)}


def test_a_setting_that_is_overruled_is_not_in_effect(build: Build, home: Path) -> None:
    def overrule(data_dir: Path) -> None:
        (data_dir / "postgresql.auto.conf").write_text(
            "work_mem = '64MB'\ncheckpoint_completion_target = '0.5'\n"
        )

    asked: dict[str, Value] = {
        "work_mem": "8MB",
        "checkpoint_completion_target": 0.9,
        "fsync": True,
    }
    with changed_cluster(build, overrule) as template:
        text = failure(build, asked, template=template)
    assert text.splitlines() == [
        "settings are not in effect",
        "  work_mem: asked '8MB', '65536kB'",
        "  checkpoint_completion_target: asked '0.9', '0.5'",
    ]
    assert nothing_is_left(home)


def test_a_stale_lock_file_with_a_reused_process_id_does_not_matter(build: Build) -> None:
    with Instance() as other:
        sleeper = spawn(
            ["sleep", "99"],
            directory=other.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def leave_lock(data_dir: Path) -> None:
            (data_dir / "postmaster.pid").write_text(f"{sleeper.pid}\n{data_dir}\n1\n5432\n")

        with changed_cluster(build, leave_lock) as template:
            with Server(build, template=template) as server:
                assert server.process.alive()
            assert (template / "postmaster.pid").exists()
        assert sleeper.poll() is None
    sleeper.wait()


@pytest.mark.slow
def test_a_taken_socket_names_who_has_it(build: Build) -> None:
    with Server(build, template=empty_cluster(build)) as server:
        second = server.instance.directory / "second"
        cluster.clone(empty_cluster(build), second)
        with pytest.raises(ServerError, match=r"lock file .* already exists") as caught:
            ServerProcess(server.build, second, server.instance, timeout_s=60)
        assert f"(PID {server.process.pid})" in caught.value.evidence
        assert server.process.alive()


def in_recovery_for_ever(data_dir: Path) -> None:
    (data_dir / "recovery.signal").touch()
    with (data_dir / "postgresql.conf").open("a") as file:
        file.write("restore_command = 'sleep 600'\n")


def test_a_start_that_takes_too_long_is_stopped(build: Build, home: Path) -> None:
    with changed_cluster(build, in_recovery_for_ever) as template:
        server = Server(build, template=template, start_timeout_s=0.5)
        with pytest.raises(ServerError, match="was not ready after 0 s and was stopped") as caught:
            server.__enter__()
    assert "start_timeout_s" in caught.value.advice
    assert nothing_is_left(home)


INTERRUPTED = """
    import pathlib, sys
    from benchkit.postgres import builds
    from benchkit.postgres.server import Server
    print("starting", flush=True)
    with Server(builds.find(sys.argv[1]), template=pathlib.Path(sys.argv[2])):
        pass
"""


def test_an_interrupted_start_leaves_nothing(build: Build, home: Path, start: Start) -> None:
    with changed_cluster(build, in_recovery_for_ever) as template:
        process = start(INTERRUPTED, build.bin_dir, template)
        line_of(process)

        def is_starting() -> bool:
            return any(
                "sleep" in psutil.Process(pid).name()
                for pid in processes_inside(home / "instances")
                if psutil.pid_exists(pid)
            )

        wait_until(is_starting)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in output
    assert nothing_is_left(home)


def test_a_failing_body_leaves_nothing(build: Build, home: Path) -> None:
    server = Server(build, template=empty_cluster(build))
    with pytest.raises(ZeroDivisionError), server:
        _ = 1 / 0
    assert nothing_is_left(home)


# Stopped


@pytest.mark.parametrize(("how", "exit_code"), [("fast", 0), ("immediate", None), ("killed", -9)])
def test_a_stop_is_recorded_as_it_went(
    build: Build, home: Path, how: str, exit_code: int | None
) -> None:
    with Server(build, template=empty_cluster(build)) as server:
        backend = server.connect()
        pids = [server.process.pid, *psutil.Process(server.process.pid).children()]
        stop = server.stop(how)
        assert stop.how == how
        assert 0 < stop.seconds < 5
        assert exit_code is None or stop.exit_code == exit_code
        assert not server.process.alive()
        assert processes_inside(server.data_dir) == []
        assert len(pids) > 3
        # Its files are kept, a clean stop is in its log, and it is not stopped twice.
        assert ("database system is shut down" in server.process.log()) == (how != "killed")
        again = server.stop("fast")
        assert (again.how, again.exit_code) == ("already down", stop.exit_code)
        with pytest.raises(psycopg.OperationalError):
            backend.execute("SELECT 1")
        backend.close()
    assert nothing_is_left(home)


def test_an_unknown_way_to_stop_stops_nothing(server: Server) -> None:
    with pytest.raises(InputError, match="'smart' is no way to stop") as caught:
        server.stop("smart")
    assert "fast, immediate, killed" in str(caught.value)
    assert server.process.alive()


@pytest.mark.slow  # the postmaster itself waits five seconds before it kills what is deaf
def test_a_stop_that_takes_too_long_becomes_immediate(build: Build) -> None:
    with Server(build, template=empty_cluster(build)) as server, server.connect() as connection:
        pid = connection.info.backend_pid
        os.kill(pid, signal.SIGSTOP)
        stop = server.process.stop("fast", timeout_s=0.2)
        assert stop.how == "immediate"
        assert not psutil.pid_exists(pid)


def test_a_server_that_died_is_seen(build: Build, home: Path) -> None:
    with Server(build, template=empty_cluster(build)) as server:
        os.kill(server.process.pid, signal.SIGKILL)
        wait_until(lambda: not server.process.alive())
        stop = server.stop()
        assert (stop.how, stop.exit_code) == ("already down", -9)
    assert nothing_is_left(home)


# A killed run


HOLDER = """
    import pathlib, sys, threading, time
    from benchkit.postgres import builds
    from benchkit.postgres.server import Server
    with Server(builds.find(sys.argv[1]), template=pathlib.Path(sys.argv[2])) as server:
        connection = server.connect()
        busy = threading.Thread(target=connection.execute, args=["SELECT pg_sleep(999)"])
        busy.daemon = True
        busy.start()
        print(server.process.pid, server.host, server.data_dir, flush=True)
        time.sleep(999)
"""


def still_runs(process: psutil.Process) -> bool:
    # Whoever took over the children of the killed may be slow to bury them.
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def test_a_killed_run_is_swept_and_a_live_one_is_not(
    build: Build, home: Path, start: Start
) -> None:
    holder = start(HOLDER, build.bin_dir, empty_cluster(build))
    pid, host, data_dir = line_of(holder).split()
    postmaster = psutil.Process(int(pid))
    wait_until(lambda: len(processes_inside(Path(data_dir))) > 4)
    family = [postmaster, *postmaster.children(recursive=True)]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with Server(build, template=empty_cluster(build)) as live:
        assert postmaster.is_running()
        (said,) = sweep()
        assert re.fullmatch(r"leftover \w+ of a killed run \(\d+ processes\)", said)
        assert not [process for process in family if still_runs(process)]
        assert not Path(host).exists()
        assert not Path(data_dir).exists()
        with live.connect() as connection:
            assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
        assert sweep() == []
    assert nothing_is_left(home)


@pytest.mark.slow
def test_a_server_whose_files_were_removed_is_ended(build: Build, home: Path) -> None:
    with Server(build, template=empty_cluster(build)) as server:
        pid = server.process.pid
        shutil.rmtree(server.data_dir)
    assert not psutil.pid_exists(pid)
    assert nothing_is_left(home)
