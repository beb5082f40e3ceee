"""Where servers live on disk, and how nothing of them is left behind.

benchkit's home (``BENCHKIT_HOME``, else the platform's cache directory) holds::

    templates/<key>/     loaded clusters, cloned for each trial
    builds/<key>/        copies of builds that the unprivileged account cannot reach
    instances/<id>/      one directory per server or load at work, with a lock held by its owner

Every process of an instance has its working directory inside the instance's directory. That, and
not a process id, is its identity: ids are reused, and the children of a killed server change their
names. The owner holds a lock on a file in the directory; the kernel frees it when the owner dies,
however it dies, so a leftover is recognised without guessing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from benchkit.errors import BenchkitError, BusyError
from benchkit.postgres.account import account

# unix(7): sun_path holds 108 bytes with the closing zero on Linux, 104 on macOS.
SOCKET_PATH_BYTES = 103
SOCKET_NAME = ".s.PGSQL.5432"


def home() -> Path:
    """Give benchkit's home, made if it is not there.

    Raises
    ------
    BenchkitError
        It cannot be made, or the account that runs the servers cannot enter it.
    """
    import platformdirs

    place = os.environ.get("BENCHKIT_HOME")
    if not place:
        find = platformdirs.site_cache_path if os.geteuid() == 0 else platformdirs.user_cache_path
        place = str(find("benchkit", appauthor=False))
    path = Path(place).expanduser().resolve()
    try:
        for directory in (path, path / "templates", path / "builds", path / "instances"):
            directory.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise BenchkitError(
            f"benchkit's home {path} cannot be made",
            evidence=str(error),
            advice="set BENCHKIT_HOME to a directory on the disk to be measured",
        ) from error
    if not account().can("x", path / "instances"):
        raise BenchkitError(
            f"the account {account().name}, which runs the servers, cannot enter {path}",
            advice="set BENCHKIT_HOME to a directory that every account can enter",
        )
    return path


class Instance:
    """A directory of benchkit's home with everything that belongs to one server.

    Use it as a context manager. On leaving, every process with its working directory inside is
    ended, and the directory and its socket directory are removed.

    Attributes
    ----------
    directory
        Mode 0700, owned by the account that runs the server.
    socket_dir
        A short directory for the Unix socket, mode 0700; made on first use.
    """

    def __init__(self) -> None:
        root = home() / "instances"
        with _locked(root.parent / "instances.lock"):
            self.directory = root / secrets.token_hex(4)
            self.directory.mkdir(mode=0o700)
            self._lock = _open_lock(self.directory / "owner.lock")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        account().own(self.directory)

    @property
    def socket_dir(self) -> Path:
        """The directory of the socket, in the system's temporary directory."""
        path = _socket_dir(self.directory.name)
        if not path.exists():
            path.mkdir(mode=0o700)
            account().own(path)
        return path

    def make_directory(self, name: str) -> Path:
        """Make a directory inside, owned by the account."""
        path = self.directory / name
        path.mkdir(mode=0o700)
        account().own(path)
        return path

    def close(self) -> None:
        """End what runs inside and remove the directories."""
        _remove_instance(self.directory)
        self._lock.close()

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sweep() -> list[str]:
    """Remove what killed runs left in benchkit's home: processes, sockets, directories.

    Only instances whose owner is dead are touched.

    Returns
    -------
    list of str
        What was removed, in words.
    """
    root = home() / "instances"
    removed = []
    with _locked(root.parent / "instances.lock"):
        for directory in sorted(path for path in root.iterdir() if path.is_dir()):
            with contextlib.ExitStack() as stack:
                try:
                    lock = stack.enter_context(_open_lock(directory / "owner.lock"))
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
                ended = _remove_instance(directory)
                removed.append(f"leftover {directory.name} of a killed run ({ended} processes)")
    return removed


def _remove_instance(directory: Path) -> int:
    ended = end_processes_inside(directory)
    for path in (_socket_dir(directory.name), directory):
        shutil.rmtree(path, ignore_errors=True)
    return ended


def end_processes_inside(directory: Path, *, grace_s: float = 5) -> int:
    """End every process whose working directory is inside a directory.

    First SIGQUIT, at which a postmaster ends its children and frees its shared memory, then
    SIGKILL.

    Returns
    -------
    int
        How many processes were found.
    """
    found = processes_inside(directory)
    if not found:
        return 0
    for send in (signal.SIGQUIT, signal.SIGKILL):
        for pid in processes_inside(directory):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, send)
        deadline = time.monotonic() + grace_s
        while processes_inside(directory) and time.monotonic() < deadline:
            time.sleep(0.02)
    return len(found)


def processes_inside(directory: Path) -> list[int]:
    """List the processes, other than this one, whose working directory is inside a directory."""
    import psutil

    inside = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            place = Path(process.cwd())
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and place.is_relative_to(directory) and process.pid != os.getpid():
                inside.append(process.pid)
    return inside


def _socket_dir(name: str) -> Path:
    for root in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108  (the shortest there is)
        path = root / f"benchkit-{name}"
        if len(os.fsencode(path / SOCKET_NAME)) <= SOCKET_PATH_BYTES:
            return path
    raise BenchkitError(f"the path of a socket in {path} is longer than {SOCKET_PATH_BYTES} bytes")


@contextlib.contextmanager
def under_construction(target: Path) -> Iterator[Path]:
    """Build a directory beside others, and put it in its place only when it is complete.

    The body fills the directory that it is given. On success all is synced to disk, then renamed:
    a half-made one never has the final name. Whoever comes second finds the first one's and drops
    its own.
    """
    with Instance() as instance:
        unfinished = instance.make_directory("unfinished")
        yield unfinished
        os.sync()
        with contextlib.suppress(FileExistsError, OSError):
            unfinished.rename(target)
        if not target.is_dir():
            raise BenchkitError(f"{target} could not be put in place")


@contextlib.contextmanager
def machine_lock(
    purpose: str, *, wait_s: float = 86400, path: Path | None = None
) -> Iterator[None]:
    """Hold the lock of the whole machine: never two measured runs at once.

    The kernel frees it when its holder dies. The file is removed by the holder at the end.

    Parameters
    ----------
    purpose
        What is measured, shown to whoever waits.
    wait_s
        How long to wait for another benchkit, in seconds.

    Raises
    ------
    BusyError
        Another one held it for all of `wait_s`; says which.
    """
    place = path or Path("/tmp/benchkit-machine.lock")  # noqa: S108  (one for all users)
    deadline = time.monotonic() + wait_s
    while True:
        file = _open_lock(place)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(file, place):
                break
            file.close()
        except BlockingIOError:
            holder = file.read(200) or "unknown"
            file.close()
            if time.monotonic() >= deadline:
                raise BusyError(
                    "another benchkit measures on this machine", evidence=holder
                ) from None
            time.sleep(0.05)
    try:
        file.truncate(0)
        file.write(f"process {os.getpid()}: {purpose}")
        file.flush()
        yield
    finally:
        with contextlib.suppress(OSError):
            place.unlink()
        file.close()


def _same_file(file: IO[str], path: Path) -> bool:
    # The holder before us may have removed the file between our open and our lock.
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _open_lock(path: Path) -> IO[str]:
    # Without O_CREAT first: the kernel refuses O_CREAT on another user's file in /tmp.
    for flags in (os.O_RDWR, os.O_RDWR | os.O_CREAT):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            if flags & os.O_CREAT:
                os.fchmod(descriptor, 0o666)
            return os.fdopen(descriptor, "r+", encoding="utf-8")
    raise FileNotFoundError(path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with _open_lock(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
