"""A server: a data directory, started from a build with settings; nothing of it stays behind."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import psycopg
from psycopg.rows import dict_row

from benchkit.errors import ServerError
from benchkit.postgres import cluster, workplace
from benchkit.postgres.account import spawn
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.settings import Value, not_default, not_in_effect, render
from benchkit.postgres.versions import has

PORT = 5432
DATABASE = "postgres"

# What is set in every server, whatever is measured: no TCP, a private socket, messages in a file
# that is benchkit's, and UTC, since the log's time stamps are compared with pgbench's.
_FIXED: dict[str, Value] = {
    "listen_addresses": "",
    "logging_collector": False,
    "log_destination": "stderr",
    "timezone": "UTC",
    "log_timezone": "UTC",
}

_SEVERITY = re.compile(r"\b(ERROR|FATAL|PANIC):  ")


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
        self.steps_s: dict[str, float] = {}
        self.instance = workplace.Instance()
        self.data_dir = self.instance.directory / "data"
        self._timeout_s = start_timeout_s
        self._source = template
        self._checksums = checksums
        self._process: ServerProcess | None = None

    def __enter__(self) -> Server:
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

    def _make_cluster(self) -> None:
        started = time.monotonic()
        if self._source is None:
            self.instance.make_directory("data")
            cluster.initdb(self.build, self.data_dir, checksums=self._checksums)
        else:
            cluster.clone(self._source, self.data_dir)
        self.steps_s["initdb" if self._source is None else "clone"] = time.monotonic() - started

    @property
    def process(self) -> ServerProcess:
        """The running server process."""
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process

    @property
    def host(self) -> str:
        """The directory of the Unix socket, as clients want it."""
        return str(self.instance.socket_dir)

    def connect(self, database: str = DATABASE) -> psycopg.Connection[dict[str, Any]]:
        """Open a connection: autocommit, rows as dicts, nothing prepared, ISO dates."""
        return connect(self.build, self.host, database)

    def check_settings(self) -> None:
        """Read back every setting that was asked for.

        Raises
        ------
        ServerError
            One is not in effect; names all, with both values.
        """
        with self.connect() as connection:
            rows = connection.execute("SELECT * FROM pg_settings").fetchall()
        wrong = not_in_effect(self.settings, rows)
        if wrong:
            lines = (f"{name}: asked {asked!r}, {real!r}" for name, (asked, real) in wrong.items())
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
        if self._process is not None:
            self._process.stop("immediate")
        self.instance.close()

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
        sockets = next(
            name
            for name in ("unix_socket_directories", "unix_socket_directory")
            if has(build.version, name)
        )
        options = _FIXED | {sockets: self.host, "port": PORT}
        words = [f"--{name}={value}" for name, value in _command_line(options).items()]
        with self.log_path.open("ab") as log:
            self.process = self._spawn(words, log)
        self._wait_until_ready(timeout_s)

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
        """
        if not self.alive():
            return Stop(how="already down", seconds=0.0, exit_code=self.process.returncode)
        started = time.monotonic()
        steps = {"fast": (signal.SIGINT, timeout_s), "immediate": (signal.SIGQUIT, 10.0)}
        for step in ["fast", "immediate"] if how == "fast" else [how]:
            if step not in steps:
                break
            self.process.send_signal(steps[step][0])
            if self._ended(steps[step][1]):
                return self._stopped(step, started)
        self.process.kill()
        workplace.end_processes_inside(self.data_dir)
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


def _command_line(options: Mapping[str, Value]) -> dict[str, str]:
    return {name: str(value).lower() if value in (True, False) else str(value)
            for name, value in options.items()}  # fmt: skip


def connect(build: Build, host: str, database: str) -> psycopg.Connection[dict[str, Any]]:
    """Open a control connection to any version from 8.2 on.

    Autocommit: counters are frozen inside a transaction. Nothing is prepared: 8.2 has no
    ``DEALLOCATE ALL``, which psycopg sends after a rollback.
    """
    options = "-c DateStyle=ISO"
    if has(build.version, "IntervalStyle"):
        options += " -c IntervalStyle=postgres"
    return psycopg.connect(
        host=host,
        port=PORT,
        user=cluster.SUPERUSER,
        dbname=database,
        autocommit=True,
        prepare_threshold=None,
        client_encoding="UTF8",
        application_name="benchkit",
        options=options,
        row_factory=dict_row,
        connect_timeout=10,
    )


def last_fatal(log: str) -> str:
    """Cut the last FATAL or PANIC out of a server log, with its DETAIL and HINT lines.

    Where there is none, the last lines of the log.
    """
    lines = log.splitlines()
    starts = [i for i, line in enumerate(lines) if re.search(r"\b(FATAL|PANIC):  ", line)]
    if not starts:
        return "\n".join(lines[-8:]) or "(the server wrote nothing)"
    end = starts[-1] + 1
    while end < len(lines) and re.search(r"\b(DETAIL|HINT|CONTEXT):  |^\t", lines[end]):
        end += 1
    return "\n".join(lines[starts[-1] : end])


def log_errors(log: str) -> list[str]:
    """List the lines of a server log with ERROR, FATAL or PANIC."""
    return [line for line in log.splitlines() if _SEVERITY.search(line)]


def stop_record(stop: Stop) -> dict[str, Any]:
    """Give a stop as plain data, for records."""
    return asdict(stop)
