"""pgbench at work: loading tables, and one run with its watchdog."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from benchkit.errors import FormatError, WorkloadError
from benchkit.postgres import cluster, workplace
from benchkit.postgres.account import spawn
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.server import ServerProcess, connect
from benchkit.postgres.settings import Value, catalogue, render
from benchkit.workload.pgbench import (
    Workload,
    load_arguments,
    pgbench_arguments,
    tables,
)
from benchkit.workload.progress import ClientErrors, Progress, parse_errors, parse_progress
from benchkit.workload.report import Report, parse_report
from benchkit.workload.scripts import own_texts, place_scripts

# For loading only: the template is synced as a whole before it gets its name, and without WAL for
# the bulk load its clone is small.
_LOADING: dict[str, Value] = {
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "fsync": False,
    "autovacuum": False,
    "maintenance_work_mem": "256MB",
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of pgbench: what it was asked, what it printed, what it used.

    Attributes
    ----------
    started_at
        Epoch seconds on this host's clock.
    wall_s
        From the start of the program to its end: connecting included.
    cpu_s
        CPU time that pgbench itself used, user and system, in seconds.
    timed_out
        The watchdog ended it.
    report
        None where pgbench printed none, or none that could be read (`report_error` says why).
    """

    command: tuple[str, ...]
    exit_code: int
    started_at: float
    wall_s: float
    cpu_s: float
    timed_out: bool
    stdout: str
    stderr: str
    report: Report | None
    report_error: str
    progress: list[Progress] = field(default_factory=list)
    errors: ClientErrors

    @property
    def evidence(self) -> str:
        """Command, exit code and last lines, for an error message."""
        tail = self.stderr.strip().splitlines()[-8:]
        return "\n".join([f"{' '.join(self.command)}  (exit code {self.exit_code})", *tail])


def run_pgbench(
    workload: Workload,
    client: Build,
    *,
    host: str,
    directory: Path,
    duration_s: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Run:
    """Run pgbench once and wait for its end.

    Its output goes to files in `directory`, so that it is there even if benchkit is killed.

    Parameters
    ----------
    directory
        A fresh directory inside the server's instance.
    duration_s
        For a warm-up: another duration.
    on_progress
        Called with each second's progress, while it runs.
    """
    client = reachable(client)
    placed = place_scripts(own_texts(workload.scripts, workload.script_texts), directory)
    version = client.pgbench or client.version
    arguments = pgbench_arguments(
        workload, version, host=host, placed=placed, duration_s=duration_s
    )
    command = [str(client.program("pgbench")), *arguments]
    out, err = directory / "stdout.txt", directory / "stderr.txt"
    limit_s = workload.limit_s + (duration_s or 0)
    started_at, started = time.time(), time.monotonic()
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = spawn(
            command,
            directory=directory,
            stdout=stdout,
            stderr=stderr,
            library_path=client.library_path,
        )
        try:
            cpu_s, timed_out = _wait(process, limit_s, _Tail(err, on_progress))
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    wall_s = time.monotonic() - started
    return _finished(command, process.returncode, started_at, wall_s, cpu_s, timed_out, out, err)


def _finished(
    command: Sequence[str],
    exit_code: int,
    started_at: float,
    wall_s: float,
    cpu_s: float,
    timed_out: bool,
    out: Path,
    err: Path,
) -> Run:
    stdout, stderr = (path.read_text("utf-8", "replace") for path in (out, err))
    report, report_error = None, ""
    try:
        report = parse_report(stdout)
    except FormatError as error:
        report_error = str(error)
    return Run(
        command=tuple(command),
        exit_code=exit_code,
        started_at=started_at,
        wall_s=wall_s,
        cpu_s=cpu_s,
        timed_out=timed_out,
        stdout=stdout,
        stderr=stderr,
        report=report,
        report_error=report_error,
        progress=parse_progress(stderr),
        errors=parse_errors(stderr),
    )


class _Tail:
    """Reads what a growing file has new, once a second, and passes progress lines on."""

    def __init__(self, path: Path, on_progress: Callable[[Progress], None] | None) -> None:
        self.path, self.on_progress, self.read_bytes = path, on_progress, 0

    def __call__(self) -> None:
        if self.on_progress is None:
            return
        with self.path.open("rb") as file:
            file.seek(self.read_bytes)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self.read_bytes += len(whole)
        for progress in parse_progress(whole.decode("utf-8", "replace")):
            self.on_progress(progress)


def _wait(
    process: subprocess.Popen[bytes], limit_s: float, each_second: Callable[[], None]
) -> tuple[float, bool]:
    """Wait for the end with the child's resource usage; kill the group at the limit.

    The kernel wakes us at the end of the process (pidfd, Linux 5.3 on), so that waiting takes no
    CPU from what is measured and the end is not noticed late.
    """
    deadline = time.monotonic() + limit_s
    timed_out = False
    with contextlib.ExitStack() as stack:
        descriptors = []
        if hasattr(os, "pidfd_open"):
            descriptors = [os.pidfd_open(process.pid)]
            stack.callback(os.close, descriptors[0])
        while True:
            select.select(descriptors, [], [], 1.0 if descriptors else 0.02)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                process.returncode = os.waitstatus_to_exitcode(status)
                each_second()  # the last one came with the end
                return usage.ru_utime + usage.ru_stime, timed_out
            each_second()
            if time.monotonic() > deadline and not timed_out:
                timed_out = True
                os.killpg(process.pid, signal.SIGKILL)


def loaded_template(
    build: Build, client: Build, workload: Workload, *, sql: Sequence[str] = (), checksums: bool
) -> tuple[Path, dict[str, Any]]:
    """Give a cluster with pgbench's tables, from the cache or loaded now.

    After loading, rows and indexes are counted (a load can end half-way with exit code 0), then
    every version gets the same preparation: vacuum, freeze, analyze, checkpoint.

    Parameters
    ----------
    sql
        Run after loading, each item by itself; the result is a template of its own.

    Returns
    -------
    tuple
        The data directory to clone, and the template's description.

    Raises
    ------
    WorkloadError
        The load failed, or the tables are not what they should be.
    """
    build, client = reachable(build), reachable(client)
    contents = _contents(client, workload)
    base = None

    def load(data_dir: Path) -> dict[str, Any]:
        return _load(build, client, workload, data_dir)

    template, description = cluster.template(
        build, contents=contents, load=load, checksums=checksums
    )
    if sql:
        base = template
        template, description = cluster.template(
            build,
            contents=_contents(client, workload, sql),
            load=lambda data_dir: _run_sql(build, data_dir, sql),
            checksums=checksums,
            base=base,
        )
    return template, description


def _contents(client: Build, workload: Workload, sql: Sequence[str] = ()) -> dict[str, Any]:
    """Describe what a template holds."""
    contents = {
        "load": "pgbench",
        "client": client.pgbench and client.pgbench.text,
        "scale": workload.scale,
        "fillfactor": workload.fillfactor,
    }
    return contents | ({"sql": list(sql)} if sql else {})


def is_loaded(
    build: Build, client: Build, workload: Workload, *, sql: Sequence[str] = (), checksums: bool
) -> bool:
    """Tell whether :func:`loaded_template` has this cluster already."""
    contents = _contents(client, workload, sql)
    return cluster.has_template(reachable(build), contents, checksums=checksums)


@contextlib.contextmanager
def _loading_server(
    build: Build, data_dir: Path
) -> Iterator[tuple[ServerProcess, psycopg.Connection[dict[str, Any]]]]:
    known = catalogue(build)
    settings = {name: value for name, value in _LOADING.items() if name in known}
    cluster.write_settings(data_dir, render(settings))
    with workplace.Instance() as instance:
        server = ServerProcess(build, data_dir, instance, timeout_s=120)
        try:
            with connect(build, server.host, "postgres") as connection:
                yield server, connection
                connection.execute("VACUUM FREEZE ANALYZE")
                connection.execute("CHECKPOINT")
        finally:
            server.stop("fast")
    cluster.write_settings(data_dir, "")


def _load(build: Build, client: Build, workload: Workload, data_dir: Path) -> dict[str, Any]:
    started = time.monotonic()
    version = client.pgbench or client.version
    with _loading_server(build, data_dir) as (server, connection):
        words = load_arguments(workload, version, host=server.host)
        done = client.run("pgbench", *words, directory=data_dir.parent, timeout_s=24 * 3600)
        if done.exit_code != 0:
            raise WorkloadError("pgbench could not load its tables", evidence=done.evidence)
        _check_tables(connection, workload, tables(version))
    return {"seconds": round(time.monotonic() - started, 2)}


def _check_tables(
    connection: psycopg.Connection[dict[str, Any]], workload: Workload, names: dict[str, str]
) -> None:
    expected = {"accounts": 100_000, "branches": 1, "tellers": 10}
    for noun, per_scale in expected.items():
        found = count_rows(connection, names[noun])
        if found != per_scale * workload.scale:
            raise WorkloadError(
                f"{names[noun]} holds {found:,} rows after loading, not "
                f"{per_scale * workload.scale:,}"
            )
    rows = connection.execute(
        "SELECT count(*) AS n FROM pg_indexes WHERE tablename = %s", [names["accounts"]]
    ).fetchone()
    if not rows or rows["n"] < 1:
        raise WorkloadError(f"{names['accounts']} has no index after loading")


def _run_sql(build: Build, data_dir: Path, sql: Sequence[str]) -> dict[str, Any]:
    with _loading_server(build, data_dir) as (_, connection):
        for statement in sql:
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                raise WorkloadError(
                    "the SQL to run after loading failed", evidence=f"{statement}\n{error}"
                ) from error
    return {}


def count_rows(connection: psycopg.Connection[dict[str, Any]], table: str) -> int:
    """Count a table's rows."""
    from psycopg import sql

    query = sql.SQL("SELECT count(*) AS n FROM {}").format(sql.Identifier(table))
    row = connection.execute(query).fetchone()
    return int(row["n"]) if row else 0
