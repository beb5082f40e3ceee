"""pgbench at work: one run with its watchdog."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchkit.errors import FormatError
from benchkit.postgres.account import spawn
from benchkit.postgres.builds import Build, reachable
from benchkit.workload.pgbench import Workload, pgbench_arguments
from benchkit.workload.progress import ClientErrors, Progress, parse_errors, parse_progress
from benchkit.workload.report import Report, parse_report
from benchkit.workload.scripts import own_texts, place_scripts


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
