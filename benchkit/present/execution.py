"""One notebook executed by papermill, in a kernel of this very Python, and how that ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchkit.errors import Fault, InputError
from benchkit.postgres import workplace
from benchkit.present.live import PROGRESS_FILE
from benchkit.present.report import SKIPPED_TAG, quiet, read_notebook

if TYPE_CHECKING:
    from jupyter_client.manager import AsyncKernelManager
    from papermill.exceptions import PapermillExecutionError

BAD_INPUT, CELL_ERROR, KERNEL_DIED, TIME_LIMIT, INTERRUPTED = 2, 3, 4, 5, 130
# A cell at work is interrupted and gets half of this to stop its servers and the like; then the
# kernel is told to terminate, and at the end killed.
BUSY_SHUTDOWN_S = 60
# With nothing at work there is less to wait for: ipykernel 7.4 at times waits for itself at its end
# (the main thread for the control thread, that one for a pipe already closed), 10 s or for good.
IDLE_SHUTDOWN_S = 8
START_S = 120
# nbclient waits 4 s for a cell's last output and then gives up; a busy machine may need more.
LAST_OUTPUT_S = 60
# unix(7): a socket's path holds 108 bytes on Linux, 104 on macOS; "-5" is added to it.
SOCKET_PATH_BYTES = 100
TRACEBACK_LINES = 25


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a notebook did not run to its end; ``evidence`` are a traceback's last lines."""

    message: str
    evidence: str
    exit_code: int


def own_kernel() -> str:
    """Find the name of a Jupyter kernel that runs this very Python.

    The name in a notebook is that of the machine it was written on, and the same name may stand
    for another Python here; so it is not looked at.

    Raises
    ------
    InputError
        No kernel runs this Python; the message lists what the known ones run.
    """
    from jupyter_client.kernelspec import KernelSpecManager

    specs = KernelSpecManager().get_all_specs()
    programs = {name: specs[name]["spec"]["argv"][0] for name in sorted(specs)}
    for name in sorted(programs, key=lambda name: name != "python3"):
        if _is_own(programs[name]):
            return name
    listing = ", ".join(f"{name} runs {program}" for name, program in programs.items())
    problem = (
        f"no Jupyter kernel runs {sys.executable} ({listing or 'there is none'}); try: "
        f"{sys.executable} -m ipykernel install --sys-prefix --name benchkit"
    )
    raise InputError([Fault(where="kernel", problem=problem)])


def _is_own(program: str) -> bool:
    # jupyter_client runs these three bare names with the interpreter it runs in itself.
    own = {"python", "python3", f"python3.{sys.version_info[1]}"}
    if program in own:
        return True
    # Two virtual environments link to one file: the directory tells them apart.
    ours, theirs = Path(sys.executable), Path(program)
    return theirs.parent.resolve() == ours.parent.resolve() and theirs.resolve() == ours.resolve()


def execute(
    path: Path,
    *,
    values: Mapping[str, Any],
    kernel: str,
    deadline: float | None,
    progress: bool,
) -> Failure | None:
    """Execute a notebook in place; the file holds the state after every cell.

    Parameters
    ----------
    path
        The notebook, with parameters that were checked before.
    values
        Parameter -> value, injected after the cell tagged ``parameters``.
    kernel
        Name of the kernel.
    deadline
        On the clock of ``time.monotonic``, in seconds; None: no limit.
    progress
        Pass on to stderr, line by line, what a running experiment tells of its progress.

    Returns
    -------
    Failure or None
        None if the last code cell ran to its end.
    """
    # An instance, so that the kernel's sockets are swept at the next start if we are killed.
    with workplace.Instance() as private:
        log_path = private.directory / "kernel.log"
        try:
            told = _told(private.directory / "progress", progress)
            with told as told_path, quiet(), _kernel_options(log_path, told_path) as options:
                if deadline is not None:
                    options["timeout_func"] = lambda cell: _remaining_s(deadline)
                _execute(path, values=values, kernel=kernel, options=options)
        except KeyboardInterrupt:
            return _failure("Interrupted", path, INTERRUPTED)
        except Exception as error:
            return _explain(error, path, deadline, log_path.read_text(errors="replace"))
    return _stopped_early(path)


def _execute(
    path: Path, *, values: Mapping[str, Any], kernel: str, options: dict[str, Any]
) -> None:
    import papermill

    # papermill fills {names} in a path from the parameters.
    target = str(path).replace("{", "{{").replace("}", "}}")
    papermill.execute_notebook(
        target,
        target,
        parameters=dict(values),
        kernel_name=kernel,
        language="python",
        progress_bar=False,
        **options,
    )


@contextlib.contextmanager
def _told(path: Path, progress: bool) -> Iterator[Path]:
    """Pass on the lines that appear in a file, while the body runs; on a terminal in one place."""
    path.touch()
    over = threading.Event()
    on_terminal = sys.stderr.isatty()
    ending, width = ("\r", shutil.get_terminal_size().columns - 1) if on_terminal else ("\n", None)

    def follow() -> None:
        with path.open(encoding="utf-8") as file:
            while True:
                last_look = over.wait(0.5)
                for line in file:
                    sys.stderr.write(line.rstrip("\n")[:width].ljust(width or 0) + ending)
                    sys.stderr.flush()
                if last_look:
                    return

    thread = threading.Thread(target=follow, daemon=True)
    if progress:
        thread.start()
    try:
        yield path
    finally:
        over.set()
        if progress:
            thread.join()


def _remaining_s(deadline: float) -> float:
    # nbclient takes 0 for "no limit".
    return max(deadline - time.monotonic(), 0.001)


@contextlib.contextmanager
def _kernel_options(log_path: Path, told_path: Path) -> Iterator[dict[str, Any]]:
    """Give the kernel sockets in a private directory, time to end, and a file for its log."""
    from traitlets.config import Config

    settings: dict[str, Any] = {}
    address = str(log_path.with_name("kernel"))
    if os.name == "posix" and len(os.fsencode(address)) <= SOCKET_PATH_BYTES:
        # TCP ports are raced for, and open to every account of the machine.
        settings |= {"transport": "ipc", "ip": address}
    with log_path.open("wb") as log:
        manager = _kernel_manager(log, told_path)
        yield {
            "config": Config({"KernelManager": settings}),
            "kernel_manager_class": manager,
            "on_cell_execute": lambda **_: setattr(manager, "is_busy", True),
            "on_cell_executed": lambda **_: setattr(manager, "is_busy", False),
            "start_timeout": START_S,
            "iopub_timeout": LAST_OUTPUT_S,
        }


def _kernel_manager(log: IO[bytes], told_path: Path) -> type[AsyncKernelManager]:
    from jupyter_client.manager import AsyncKernelManager

    class OwnKernelManager(AsyncKernelManager):
        is_busy = False

        # The kernel would write its own complaints, such as those of an interrupt, to our stderr.
        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            own = {**(options.pop("env", None) or os.environ), PROGRESS_FILE: str(told_path)}
            await super().start_kernel(stdout=log, stderr=log, env=own, **options)

        async def shutdown_kernel(  # type: ignore[override]
            self, now: bool = False, restart: bool = False
        ) -> None:
            self.shutdown_wait_time = BUSY_SHUTDOWN_S if self.is_busy else IDLE_SHUTDOWN_S
            await super().shutdown_kernel(now=now, restart=restart)

    return OwnKernelManager


def _explain(error: Exception, path: Path, deadline: float | None, kernel_log: str) -> Failure:
    from nbclient.exceptions import CellTimeoutError
    from papermill.exceptions import PapermillExecutionError

    if isinstance(error, PapermillExecutionError):
        return _raised(error)
    if not isinstance(error, CellTimeoutError):  # DeadKernelError, or the kernel did not start
        message = f"The kernel died or did not answer ({type(error).__name__}: {error})"
    elif deadline is not None and time.monotonic() >= deadline:
        return _failure("The time limit was reached", path, TIME_LIMIT)
    else:
        message = f"The kernel's output did not arrive within {LAST_OUTPUT_S} s"
    last = "\n".join(kernel_log.splitlines()[-TRACEBACK_LINES:])
    return _failure(message, path, KERNEL_DIED, evidence=last)


def _failure(message: str, path: Path, exit_code: int, *, evidence: str = "") -> Failure:
    return Failure(message=message + _where(path), evidence=evidence, exit_code=exit_code)


def _raised(error: PapermillExecutionError) -> Failure:
    from nbconvert.filters import strip_ansi

    if error.ename in ("InputError", "BuildError"):  # it says all; nothing was started
        return Failure(message=error.evalue, evidence="", exit_code=BAD_INPUT)
    lines = strip_ansi("\n".join(error.traceback)).splitlines()  # type: ignore[no-untyped-call]
    return Failure(
        message=f"{error.ename}: {error.evalue}{_begin(error.source)}",
        evidence="\n".join(lines[-TRACEBACK_LINES:]),
        exit_code=CELL_ERROR,
    )


def _stopped_early(path: Path) -> Failure | None:
    """Find the first cell that should have run and did not: sys.exit(0) is no success."""
    for cell in read_notebook(path).cells:
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        if SKIPPED_TAG in cell.metadata.get("tags", []):
            continue
        ended = cell.metadata.get("papermill", {}).get("status") == "completed"
        if cell.execution_count is None or not ended:
            return Failure(
                message=f"The notebook ended before its last cell{_begin(cell.source)}",
                evidence="sys.exit, exit or quit in a cell ends a notebook without an error.",
                exit_code=CELL_ERROR,
            )
    return None


def _where(path: Path) -> str:
    """Say at which cell it was: the last one that papermill started."""
    source = ""
    for cell in read_notebook(path).cells:
        if cell.cell_type == "code" and cell.metadata.get("papermill", {}).get("start_time"):
            source = cell.source
    return _begin(source)


def _begin(source: str) -> str:
    lines = source.strip().splitlines()
    return f", in the cell that begins {lines[0][:80]!r}" if lines else ""
