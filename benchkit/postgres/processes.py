"""The processes at work in a directory, and their end.

Every process of a server has its working directory inside the server's directory. That, and not a
process id, is its identity: ids are reused, and the children of a killed server change their names.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil


def end_processes_inside(directory: Path, *, grace_s: float = 5, at_once: bool = False) -> int:
    """End every process that works inside a directory, see :func:`processes_inside`.

    First SIGQUIT, at which a postmaster ends its children and frees its shared memory, then
    SIGKILL and the removal of the shared memory.

    Parameters
    ----------
    grace_s
        How long to wait for the end after each signal, in seconds.
    at_once
        Begin with SIGKILL.

    Returns
    -------
    int
        How many processes were found.
    """
    found: set[int] = set()
    for send in (signal.SIGKILL,) if at_once else (signal.SIGQUIT, signal.SIGKILL):
        told: set[int] = set()
        memory: set[str] = set()
        deadline = time.monotonic() + grace_s
        while (pids := set(processes_inside(directory))) and time.monotonic() < deadline:
            new = pids - told  # all at first; then those that were forked since they were listed
            memory |= shared_memory(new) if send == signal.SIGKILL else set()
            for pid in new:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, send)
            told |= new
            time.sleep(0.02)
        free_shared_memory(memory)
        found |= told
    return len(found)


def processes_inside(directory: Path) -> list[int]:
    """List the processes whose working directory is inside a directory.

    Not listed are this process itself, those of root and those with a terminal: a server is never
    among them, but a person who looks at the files in a shell is.
    """
    import psutil

    inside = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid() or not Path(process.cwd()).is_relative_to(directory):
                continue
            alive = process.status() != psutil.STATUS_ZOMBIE
            ours = process.uids().effective != 0 and not _has_terminal(process)
            if alive and ours:
                inside.append(process.pid)
    return inside


def _has_terminal(process: psutil.Process) -> bool:
    # psutil knows only the terminals that were there when it looked first. proc(5): the seventh
    # field is the terminal, the second a name that may hold anything.
    with contextlib.suppress(FileNotFoundError):
        fields = Path(f"/proc/{process.pid}/stat").read_text("utf-8", "replace")
        return fields.rpartition(")")[2].split()[4] != "0"
    return process.terminal() is not None


def shared_memory(pids: Iterable[int]) -> set[str]:
    """List the shared memory of servers, which they cannot free when they are killed.

    POSIX segments by path, System V segments by id. Linux only: proc(5) shows the id of a System V
    segment as the inode of the mapping ``/SYSV...``.
    """
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines():
                *_, inode, path = line.split(maxsplit=5) if line.count(" ") > 5 else ("", "")
                if path.startswith("/SYSV"):
                    found.add(inode)
                elif path.startswith("/dev/shm/PostgreSQL."):  # noqa: S108
                    found.add(path)
    return found


def free_shared_memory(memory: Iterable[str]) -> None:
    """Remove shared memory that a killed server left; what is gone already does not matter.

    Parameters
    ----------
    memory
        As :func:`shared_memory` gave it while the server ran.
    """
    for item in memory:
        with contextlib.suppress(OSError):
            if item.startswith("/"):
                Path(item).unlink()
            else:
                subprocess.run(["ipcrm", "-m", item], capture_output=True)
