"""A server: a data directory, started from a build with settings; nothing of it stays behind."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psycopg

from benchkit.errors import Fault, Faults, InputError, ServerError
from benchkit.postgres import cluster, workplace
from benchkit.postgres.account import spawn
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.connection import connect as connect
from benchkit.postgres.connection import start_options
from benchkit.postgres.log import last_fatal
from benchkit.postgres.log import log_errors as log_errors
from benchkit.postgres.processes import free_shared_memory, shared_memory
from benchkit.postgres.settings import (
    Value,
    as_shown,
    check_settings,
    not_default,
    not_in_effect,
    render,
)
from benchkit.postgres.versions import has

DATABASE = "postgres"

_MODES = ("fast", "immediate", "killed")


@dataclass(frozen=True, kw_only=True)
class Stop:
    """How a server was stopped: ``fast``, ``immediate``, ``killed`` or ``already down``."""

    how: str
    seconds: float
    exit_code: int | None


class Server:
    """A PostgreSQL server of benchkit's own, used as a context manager.

    On entering, the cluster is made (or cloned), started, and every setting asked for is read
    back. On leaving, the server is stopped and everything of it is removed from disk.

    Parameters
    ----------
    build
        Which PostgreSQL.
    settings
        Settings by name; they go to an included file, so that the defaults stay as they are.
    template
        A stopped data directory to clone; None makes an empty cluster with initdb.
    checksums
        Data checksums, for a cluster made with initdb.
    start_timeout_s
        How long the start may take, in seconds (recovery of a large cluster takes long).

    Raises
    ------
    InputError
        A setting is unknown, refused or benchkit's own; nothing was started.

    Attributes
    ----------
    steps_s
        What each step took: clone, start, ... in seconds.
    """

    def __init__(
        self,
        build: Build,
        settings: Mapping[str, Value] | None = None,
        *,
        template: Path | None = None,
        checksums: bool = False,
        start_timeout_s: float = 120,
    ) -> None:
        self.build = reachable(build)
        self.settings = dict(settings or {})
        faults = Faults()
        check_settings(self.settings, self.build, faults)
        faults.raise_any()
        self.steps_s: dict[str, float] = {}
        self._timeout_s = start_timeout_s
        self._source = template
        self._checksums = checksums
        self._instance: workplace.Instance | None = None
        self._process: ServerProcess | None = None

    def __enter__(self) -> Server:
        self._instance = workplace.Instance()
        try:
            self._make_cluster()
            cluster.write_settings(self.data_dir, render(self.settings))
            started = time.monotonic()
            self._process = ServerProcess(
                self.build, self.data_dir, self.instance, timeout_s=self._timeout_s
            )
            self.check_settings()
            self.steps_s["start"] = time.monotonic() - started
        except BaseException:
            self.close()
            raise
        return self

    @property
    def instance(self) -> workplace.Instance:
        """Where it lives; there from entering to leaving."""
        if self._instance is None:
            raise ServerError("the server was not started")
        return self._instance

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self.instance.directory / "data"

    def _make_cluster(self) -> None:
        started = time.monotonic()
        if self._source is None:
            self.instance.make_directory("data")
            cluster.initdb(self.build, self.data_dir, checksums=self._checksums)
        else:
            cluster.check_source(self._source, self.build)
            cluster.clone(self._source, self.data_dir)
        self.steps_s["initdb" if self._source is None else "clone"] = time.monotonic() - started

    @property
    def process(self) -> ServerProcess:
        """The server process, running or ended."""
        if self._process is None:
            raise ServerError("the server was not started")
        return self._process

    @property
    def host(self) -> str:
        """The directory of the Unix socket, as clients want it."""
        return self.process.host

    def connect(self, database: str = DATABASE) -> psycopg.Connection[dict[str, Any]]:
        """Open a connection: autocommit, rows as dicts, nothing prepared, ISO dates."""
        return connect(self.build, self.host, database)

    def check_settings(self) -> None:
        """Read back every setting that was asked for.

        Raises
        ------
        ServerError
            One is not in effect (names all, with both values), or the server lets nobody in.
        """
        try:
            with self.connect() as connection:
                rows = connection.execute("SELECT * FROM pg_settings").fetchall()
        except psycopg.OperationalError as error:
            raise ServerError(
                f"PostgreSQL {self.build.version} started, but no connection to it can be made",
                evidence=f"{error}\n{last_fatal(self.process.log())}",
            ) from error
        wrong = not_in_effect(self.settings, rows)
        # The server may write a value in another way than it was asked for.
        shown = as_shown({name: self.settings[name] for name in wrong}, self.build)
        lines = [
            f"{name}: asked {wrong[name][0]!r}, {wrong[name][1]!r}"
            for name in not_in_effect(shown, rows)
        ]
        if lines:
            raise ServerError("settings are not in effect", evidence="\n".join(lines))

    def changed_settings(self) -> dict[str, str]:
        """Read the settings that are not at their built-in defaults, as people write them."""
        with self.connect() as connection:
            return not_default(connection.execute("SELECT * FROM pg_settings ORDER BY name"))

    def stop(self, how: str = "fast") -> Stop:
        """Stop the server, keep its files. See :meth:`ServerProcess.stop`."""
        return self.process.stop(how)

    def close(self) -> None:
        """Stop the server if it runs, and remove everything of it."""
        try:
            if self._process is not None:
                self._process.stop("immediate")
        finally:
            if self._instance is not None:
                self._instance.close()

    def __exit__(self, *_: object) -> None:
        self.close()


class ServerProcess:
    """One running postmaster on a data directory of benchkit's own.

    The program is started directly, not by pg_ctl: the process is then our child, which is known
    by identity, whose end is seen at once, and whose start is not quantised to pg_ctl's polling
    (one second before version 10).

    Raises
    ------
    ServerError
        The server did not start; carries the log's last FATAL with its DETAIL and HINT.
    """

    def __init__(
        self, build: Build, data_dir: Path, instance: workplace.Instance, *, timeout_s: float
    ) -> None:
        self.build = build
        self.data_dir = data_dir
        self.host = str(instance.socket_dir)
        self.log_path = instance.directory / "server.log"
        self._memory: set[str] = set()
        with self.log_path.open("ab") as log:
            self.process = self._spawn(start_options(build.version, data_dir, self.host), log)
        self._wait_until_ready(timeout_s)
        self._memory = shared_memory([self.pid])

    def _spawn(self, words: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return spawn(
            [self.build.program("postgres"), "-D", self.data_dir, *words],
            directory=self.data_dir,
            stdout=log,
            stderr=log,
            library_path=self.build.library_path,
        )

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        return self.process.pid

    def alive(self) -> bool:
        """Tell whether the postmaster runs."""
        return self.process.poll() is None

    def log(self) -> str:
        """Everything the server wrote so far."""
        return self.log_path.read_text("utf-8", "replace")

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            while not self._ready():
                if not self.alive():
                    raise ServerError(
                        f"PostgreSQL {self.build.version} did not start "
                        f"(exit code {self.process.returncode})",
                        evidence=last_fatal(self.log()),
                    )
                if time.monotonic() > deadline:
                    raise ServerError(
                        f"PostgreSQL {self.build.version} was not ready after {timeout_s:.0f} s "
                        "and was stopped",
                        evidence=last_fatal(self.log()),
                        advice="a longer start_timeout_s, if it was in recovery",
                    )
                time.sleep(0.005)
        except BaseException:
            self.stop("immediate")
            raise

    def _ready(self) -> bool:
        if has(self.build.version, "postmaster.pid status line"):
            try:
                lines = (self.data_dir / "postmaster.pid").read_text("ascii").splitlines()
            except OSError:
                return False
            return len(lines) > 7 and lines[7].strip() == "ready" and lines[0] == str(self.pid)
        time.sleep(0.02)
        try:
            connect(self.build, self.host, DATABASE).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: str = "fast", *, timeout_s: float = 120) -> Stop:
        """Stop the server and say how it went.

        Parameters
        ----------
        how
            ``fast`` (a shutdown checkpoint, escalated to immediate after `timeout_s` seconds),
            ``immediate`` (no checkpoint: the next start recovers), or ``killed``.

        Raises
        ------
        InputError
            `how` is something else.
        """
        if how not in _MODES:
            problem = f"{how!r} is no way to stop (accepted: {', '.join(_MODES)})"
            raise InputError([Fault(where="how", problem=problem)])
        if not self.alive():
            if self.process.returncode < 0:  # by another's hand: the kernel's, short of memory
                free_shared_memory(self._memory)
            return Stop(how="already down", seconds=0.0, exit_code=self.process.returncode)
        started = time.monotonic()
        steps = {"fast": (signal.SIGINT, timeout_s), "immediate": (signal.SIGQUIT, 10.0)}
        for step in _MODES[_MODES.index(how) : -1]:
            self.process.send_signal(steps[step][0])
            if self._ended(steps[step][1]):
                return self._stopped(step, started)
        workplace.end_processes_inside(self.data_dir, at_once=True)
        self.process.kill()
        self.process.wait()
        return self._stopped("killed", started)

    def _ended(self, timeout_s: float) -> bool:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _stopped(self, how: str, started: float) -> Stop:
        seconds = time.monotonic() - started
        return Stop(how=how, seconds=seconds, exit_code=self.process.returncode)
