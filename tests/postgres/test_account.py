"""Who runs the programs, and what they get from the caller's environment: nothing."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError, InputError
from benchkit.postgres.account import Account, account, clean_environment, run, spawn
from tests.postgres.conftest import needs_root, wait_until


@pytest.fixture
def fresh() -> Iterator[None]:
    """Find the account anew, in the test and after it."""
    account.cache_clear()
    yield
    account.cache_clear()


def test_no_server_runs_as_root() -> None:
    assert account().uid != 0
    assert account().switch == (os.geteuid() == 0)


@needs_root
@pytest.mark.usefixtures("fresh")
def test_the_account_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHKIT_USER", "nobody")
    entry = pwd.getpwnam("nobody")
    assert account() == Account(
        name="nobody", uid=entry.pw_uid, gid=entry.pw_gid, home=entry.pw_dir, switch=True
    )


@needs_root
@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("name", ["nosuchaccount", "root"])
def test_an_account_that_will_not_do_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHKIT_USER", name)
    with pytest.raises(InputError, match=f"BENCHKIT_USER: no unprivileged account '{name}'") as hit:
        account()
    assert "did you mean 'root'" not in str(hit.value)


@needs_root
@pytest.mark.usefixtures("fresh")
def test_a_misspelt_account_gets_its_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHKIT_USER", "nobdy")
    with pytest.raises(InputError, match="did you mean 'nobody'"):
        account()


@pytest.mark.usefixtures("fresh")
def test_a_user_id_without_a_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 2_000_123)
    with pytest.raises(InputError, match="2000123 has no name"):
        account()


def test_the_environment_has_nothing_that_changes_results(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "PGHOST", "PGHOSTADDR", "PGPORT", "PGOPTIONS", "PGUSER", "PGDATA", "PGTZ", "PGSERVICE",
        "PGDATESTYLE", "PG_COLOR", "PGBENCH_RANDOM_SEED", "LC_MESSAGES", "LC_TIME", "LANG",
        "LANGUAGE", "TZDIR", "LD_PRELOAD", "PYTHONPATH",
    ):  # fmt: skip
        monkeypatch.setenv(name, "xx")
    monkeypatch.setenv("LC_ALL", "xx")
    monkeypatch.setenv("TZ", "Mars/Olympus")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    environment = clean_environment()
    assert set(environment) <= {"PATH", "TMPDIR", "HOME", "LC_ALL", "TZ"}
    assert (environment["LC_ALL"], environment["TZ"]) == ("C", "UTC")
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["HOME"] == account().home


def test_own_libraries_come_before_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    assert clean_environment()["LD_LIBRARY_PATH"] == "/theirs"
    assert clean_environment("/ours")["LD_LIBRARY_PATH"] == "/ours:/theirs"
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert clean_environment("/ours")["LD_LIBRARY_PATH"] == "/ours"


def test_a_program_runs_as_the_account_in_a_session_of_its_own() -> None:
    done = run(["sh", "-c", "id -u; id -g; id -G; echo $$; ps -o sid= -p $$"])
    uid, gid, groups, pid, session = done.stdout.split("\n")[:5]
    user = account()
    assert (int(uid), int(gid)) == (user.uid, user.gid)
    if user.switch:
        assert groups == gid
    assert int(session) == int(pid)


def test_a_program_gets_neither_input_nor_open_files(open_directory: Path) -> None:
    with (open_directory / "held open").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        done = run(["sh", "-c", f"cat; echo >&{held.fileno()}"])
    assert (done.stdout, done.exit_code) == ("", 2)
    assert (open_directory / "held open").read_text() == ""


def test_what_a_program_left_is_kept(open_directory: Path) -> None:
    done = run(["sh", "-c", "pwd; echo one >&2; echo two >&2; exit 3"], directory=open_directory)
    assert (done.exit_code, done.stdout) == (3, f"{open_directory}\n")
    assert done.evidence.splitlines() == [
        "sh -c pwd; echo one >&2; echo two >&2; exit 3  (exit code 3)",
        "one",
        "two",
    ]


def test_output_that_is_no_text_is_kept_readable() -> None:
    assert run(["printf", r"a\377b"]).stdout == "a\N{REPLACEMENT CHARACTER}b"


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BenchkitError, match="/no/such/program could not be started"):
        run(["/no/such/program"])


def test_a_program_that_hangs_is_killed_with_its_children() -> None:
    started = time.monotonic()
    with pytest.raises(BenchkitError, match="did not end within 0 s and was killed"):
        run(["sh", "-c", "sleep 4321; true"], timeout_s=0.4)
    assert time.monotonic() - started < 5
    wait_until(lambda: "sleep 4321" not in _commands())


def _commands() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout


def test_an_interrupt_while_waiting_ends_the_program() -> None:
    code = (
        "from benchkit.postgres.account import run\n"
        "print('waiting', flush=True)\n"
        "run(['sleep', '4322'])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: "sleep 4322" in _commands())
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert "KeyboardInterrupt" in err
    assert "sleep 4322" not in _commands()


def test_a_started_program_keeps_no_pipe_open(open_directory: Path) -> None:
    with (open_directory / "out").open("wb") as out:
        process = spawn(["sh", "-c", "echo here"], directory=open_directory, stdout=out, stderr=out)
        assert process.wait(10) == 0
    assert (open_directory / "out").read_text() == "here\n"


def test_the_kernel_is_asked_what_the_account_may_do(open_directory: Path) -> None:
    file = open_directory / "file"
    file.touch(0o644)
    closed = open_directory / "closed"
    closed.mkdir(0o700)
    (closed / "inside").touch(0o644)
    user = account()
    assert user.can("r", file)
    assert not user.can("x", file)
    assert user.can("x", open_directory)
    assert user.can("r", closed / "inside") != user.switch
    user.own(closed)
    assert user.can("r", closed / "inside")
    assert closed.stat().st_uid == user.uid
