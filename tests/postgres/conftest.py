"""A home of one's own for a test, and other processes to kill."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.postgres import builds, cluster, workplace
from benchkit.postgres.account import account
from benchkit.postgres.builds import Build

Start = Callable[..., subprocess.Popen[str]]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can set this up")
needs_another_account = pytest.mark.skipif(
    os.geteuid() == 0, reason="root may do what this forbids"
)


SESSION_HOME = Path(os.environ["BENCHKIT_HOME"])


def one_of_each_major() -> list[Build]:
    """The builds on this machine, one of each major version."""
    found: dict[str, Build] = {}
    for build in builds.discover():
        found.setdefault(build.version.major, build)
    return list(found.values())


@pytest.fixture(params=one_of_each_major(), ids=lambda build: f"PostgreSQL {build.version.major}")
def each_build(request: pytest.FixtureRequest) -> Build:
    """Every major version that is here, one after the other."""
    found: Build = request.param
    return found


@functools.cache
def empty_cluster(build: Build) -> Path:
    """An empty, stopped data directory of a build, small and quick to clone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHKIT_HOME", str(SESSION_HOME))  # it outlives the home of a test
        return cluster.template(build, contents={"for": "tests"}, load=_without_templates)[0]


def _without_templates(data_dir: Path) -> dict[str, str]:
    # No test makes a database, so the files of template0 and template1 are not missed.
    for number in ("1", "4"):
        shutil.rmtree(data_dir / "base" / number, ignore_errors=True)
    return {}


@contextlib.contextmanager
def changed_cluster(build: Build, change: Callable[[Path], object]) -> Iterator[Path]:
    """A stopped data directory in which something was changed."""
    with workplace.Instance() as instance:
        data_dir = instance.directory / "data"
        cluster.clone(empty_cluster(build), data_dir)
        change(data_dir)
        for path in data_dir.iterdir():
            account().own(path)
        yield data_dir


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A benchkit home of the test's own; the test fails if anything at work is left in it."""
    path = Path(tempfile.mkdtemp(prefix="bk-tests-")).resolve()
    path.chmod(0o755)
    monkeypatch.setenv("BENCHKIT_HOME", str(path))
    yield path
    processes = workplace.processes_inside(path)
    left = [item.name for item in (path / "instances").glob("*")]
    workplace.end_processes_inside(path)
    shutil.rmtree(path, ignore_errors=True)
    assert not processes, f"processes are left: {processes}"
    assert not left, f"instances are left: {left}"


def nothing_is_left(home: Path) -> bool:
    """Whether nothing is left of the servers of a test's own home."""
    others = {path.name for path in (SESSION_HOME / "instances").glob("*")}
    sockets = {
        path.name.removeprefix("benchkit-")
        for path in Path(tempfile.gettempdir()).glob("benchkit-*")
    }
    instances = list((home / "instances").glob("*"))
    return not (sockets - others or instances or workplace.processes_inside(home))


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python code in a process of its own; it is killed at the end, if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def start_code(code: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | environment,
        )
        started.append(process)
        return process

    yield start_code
    for process in started:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints."""
    assert process.stdout
    line = process.stdout.readline()
    assert line, f"the process ended with {process.wait()}"
    return line.strip()


def wait_until(condition: Callable[[], object], *, timeout_s: float = 10) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)
