"""Real servers for the tests, and the proof that nothing of them stays behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

# Set before benchkit is imported: a home that the unprivileged account can enter (pytest's own
# temporary directories are closed to it) and a place for runs that is not the project's.
_PLACE = Path(tempfile.mkdtemp(prefix="bk-tests-"))
_PLACE.chmod(0o755)
(_PLACE / "t").mkdir()
(_PLACE / "t").chmod(0o1777)
os.environ["TMPDIR"] = tempfile.tempdir = str(_PLACE / "t")
os.environ["BENCHKIT_HOME"] = str(_PLACE / "home")
os.environ["BENCHKIT_RUNS"] = str(_PLACE / "runs")
os.environ["MPLBACKEND"] = "agg"

from benchkit.errors import BuildError
from benchkit.postgres import builds, workplace
from benchkit.postgres.builds import Build
from benchkit.postgres.server import Server

LOCK = Path("/tmp/benchkit-machine.lock")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pg",
        default=os.environ.get("BENCHKIT_TEST_PG", ""),
        help="the PostgreSQL to test with: a version or a bin directory (or BENCHKIT_TEST_PG)",
    )


# What continuous integration installs: wheels, npm packages and Debian's.
EXPECTED_MAJORS = ("10", "12", "14", "15", "16", "17", "18")


def pytest_report_header(config: pytest.Config) -> str:
    found = builds.discover()
    try:
        tested = str(builds.find(config.getoption("--pg")).version)
    except BuildError:
        tested = "not found"
    texts = ", ".join(build.version.text for build in found)
    majors = {build.version.major for build in found}
    missing = ", ".join(major for major in EXPECTED_MAJORS if major not in majors)
    skipped = f"; not here, and so not tested: {missing}" if missing else ""
    return f"PostgreSQL: testing with {tested}; found {texts or 'none'}{skipped}"


@pytest.fixture(scope="session")
def build(request: pytest.FixtureRequest) -> Build:
    """The build that the tests use."""
    return builds.find(request.config.getoption("--pg"))


@pytest.fixture(scope="session")
def server(build: Build) -> Iterator[Server]:
    """A running server with pgbench's tables not loaded; shared, so leave it as it was."""
    with Server(build, {"shared_buffers": "32MB"}) as running:
        yield running


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A temporary directory that the unprivileged account can enter."""
    path = Path(tempfile.mkdtemp(prefix="bk-tests-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fail the session if a process, a socket directory, an instance or the lock is left."""
    yield
    processes = workplace.processes_inside(_PLACE)
    sockets = list((_PLACE / "t").glob("benchkit-*"))
    instances = list((_PLACE / "home" / "instances").glob("*"))
    try:
        lock = f"process {os.getpid()}:" in LOCK.read_text()
    except FileNotFoundError:  # another session may remove its own at any moment
        lock = False
    shutil.rmtree(_PLACE, ignore_errors=True)
    assert not processes, f"processes are left: {processes}"
    assert not sockets, f"socket directories are left: {sockets}"
    assert not instances, f"instances are left: {instances}"
    assert not lock, f"{LOCK} is left"
