"""Where servers live on disk, and how nothing of them is left behind.

benchkit's home (``BENCHKIT_HOME``, else the platform's cache directory) holds::

    templates/<key>/     loaded clusters, cloned for each trial
    builds/<key>/        copies of builds that the unprivileged account cannot reach
    commits/<key>/       builds that a search had made, by the command that made them
    instances/<id>/      one directory per server or load at work, with a lock held by its owner

The owner of an instance holds a lock on a file in its directory; the kernel frees it when the
owner dies, however it dies, so a leftover is recognised without guessing.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from benchkit.errors import BenchkitError, BusyError
from benchkit.postgres.account import account
from benchkit.postgres.processes import end_processes_inside as end_processes_inside
from benchkit.postgres.processes import processes_inside as processes_inside

# unix(7): sun_path holds 108 bytes with the closing zero on Linux, 104 on macOS.
SOCKET_PATH_BYTES = 103
SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_NOTE = "socket"  # a link in the instance's directory


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
            if not directory.is_dir():
                directory.mkdir(parents=True, exist_ok=True)
                if account().switch:  # also where root's umask is 077
                    directory.chmod(0o755)
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
        A short directory for the Unix socket, mode 0700; made on first use, removed at the end.
    """

    def __init__(self) -> None:
        root = home() / "instances"
        with _locked(root.parent / "instances.lock"):
            self.directory = root / secrets.token_hex(4)
            self.directory.mkdir(mode=0o700)
            self._lock = _open_lock(self.directory / "owner.lock")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        account().own(self.directory)

    @functools.cached_property
    def socket_dir(self) -> Path:
        """The directory of the socket, with a path that is short enough for one.

        Raises
        ------
        BenchkitError
            It cannot be made. One that is there already is another's: it is not used.
        """
        path = _choose_socket_dir(self.directory.name)
        try:
            # Noted first: whoever sweeps may have another TMPDIR.
            (self.directory / _SOCKET_NOTE).symlink_to(path)
            path.mkdir(mode=0o700)
        except OSError as error:
            raise BenchkitError(
                "the directory for the server's socket cannot be made", evidence=str(error)
            ) from error
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
        try:
            _remove_instance(self.directory)
        finally:
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
    with contextlib.suppress(OSError):
        socket_dir = (directory / _SOCKET_NOTE).readlink()
        if socket_dir.name == f"benchkit-{directory.name}":
            shutil.rmtree(socket_dir, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
    return ended


def _choose_socket_dir(name: str) -> Path:
    for root in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108  (the shortest there is)
        path = root / f"benchkit-{name}"
        short = len(os.fsencode(path / SOCKET_NAME)) <= SOCKET_PATH_BYTES
        if short and account().can("x", root):
            return path
    raise BenchkitError(
        f"there is no directory for the server's socket: {path} is longer than "
        f"{SOCKET_PATH_BYTES} bytes or closed to {account().name}"
    )


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
        with contextlib.suppress(OSError):
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
    # Without O_CREAT first: the kernel refuses O_CREAT on another user's file in /tmp. Tried more
    # than once, since another may make or remove the file between the two.
    for create in (0, os.O_CREAT | os.O_EXCL) * 20:
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | create
            descriptor = os.open(path, flags, 0o666)
            if create:
                os.fchmod(descriptor, 0o666)
            return os.fdopen(descriptor, "r+", encoding="utf-8")
    raise FileNotFoundError(path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with _open_lock(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
