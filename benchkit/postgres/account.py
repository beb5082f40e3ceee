"""Who runs PostgreSQL's programs, and in which environment.

PostgreSQL refuses to run as root. Where benchkit runs as root (containers, CI), every program is
started as an unprivileged account instead: ``BENCHKIT_USER``, else ``postgres``, else ``nobody``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from benchkit.errors import BenchkitError, Fault, InputError, nearest


@dataclass(frozen=True, kw_only=True)
class Account:
    """The operating system's account that runs the servers.

    Attributes
    ----------
    switch
        True where benchkit is root and its children are started as this account.
    """

    name: str
    uid: int
    gid: int
    home: str
    switch: bool

    def own(self, path: Path) -> None:
        """Hand a file or directory to this account, where that is another than our own."""
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def can(self, test: str, path: Path) -> bool:
        """Tell whether the account may read (``test="r"``) or enter and execute (``"x"``) a path.

        The kernel is asked (by the program ``test``), so that access lists count too.
        """
        if not self.switch:
            return os.access(path, {"r": os.R_OK, "x": os.X_OK}[test])
        return subprocess.run(["test", f"-{test}", str(path)], **self._identity()).returncode == 0

    def _identity(self) -> dict[str, Any]:
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.switch else {}


@functools.cache
def account() -> Account:
    """Find the account that runs the servers.

    Raises
    ------
    InputError
        benchkit runs as root and ``BENCHKIT_USER`` names no account, or one that is root too; or
        it runs under a user id without a name, which initdb refuses.
    """
    if os.geteuid() != 0:
        try:
            return _of(pwd.getpwuid(os.geteuid()), switch=False)
        except KeyError:
            problem = f"the user id {os.geteuid()} has no name here, and initdb wants one"
            raise InputError([Fault(where="account", problem=problem)]) from None
    asked = os.environ.get("BENCHKIT_USER")
    for name in [asked] if asked else ["postgres", "nobody"]:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid != 0:
                return _of(entry, switch=True)
    known = [entry.pw_name for entry in pwd.getpwall() if entry.pw_uid != 0]
    problem = (
        f"no unprivileged account {asked!r}{nearest(asked, known)}"
        if asked
        else (
            "benchkit runs as root, PostgreSQL must not, and there is neither an account "
            "'postgres' nor 'nobody': name one"
        )
    )
    raise InputError([Fault(where="BENCHKIT_USER", problem=problem)])


def _of(entry: pwd.struct_passwd, *, switch: bool) -> Account:
    return Account(
        name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, home=entry.pw_dir, switch=switch
    )


def clean_environment(library_path: str = "") -> dict[str, str]:
    """Make the environment of every child: nothing of the caller's that could change a result.

    All ``PG*`` variables, locale, time zone and ``PGBENCH_RANDOM_SEED`` are left out; messages are
    untranslated, since some are parsed.

    Parameters
    ----------
    library_path
        Directories with the build's own shared libraries, put before ``LD_LIBRARY_PATH``.
    """
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    libraries = ":".join(filter(None, [library_path, os.environ.get("LD_LIBRARY_PATH", "")]))
    if libraries:
        kept["LD_LIBRARY_PATH"] = libraries
    return kept | {"HOME": account().home, "LC_ALL": "C", "TZ": "UTC"}


def spawn(
    command: Sequence[str | Path],
    *,
    directory: Path,
    stdout: IO[bytes] | int,
    stderr: IO[bytes] | int,
    library_path: str = "",
) -> subprocess.Popen[bytes]:
    """Start a program as the account, in a session of its own, and return at once.

    A session of its own, since an interrupt of the terminal or of a notebook's kernel goes to the
    whole process group, and a server before 12 would stop at it. Output goes to files or to
    nowhere: a server that inherits a pipe keeps its reader waiting for as long as it lives.
    """
    user = account()
    return subprocess.Popen(
        [str(part) for part in command],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=clean_environment(library_path),
        start_new_session=True,
        **user._identity(),
    )


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a program left: exit code, output, and the command for error messages."""

    command: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    @property
    def evidence(self) -> str:
        """Command, exit code and the last lines of its output, for an error message."""
        tail = (self.stderr or self.stdout).strip().splitlines()[-8:]
        return "\n".join([f"{' '.join(self.command)}  (exit code {self.exit_code})", *tail])


def run(
    command: Sequence[str | Path],
    *,
    directory: Path = Path("/"),
    timeout_s: float = 600,
    library_path: str = "",
) -> Finished:
    """Run a program as the account and wait for its end.

    Raises
    ------
    BenchkitError
        It could not be started, or did not end within `timeout_s` (its group is killed then).
    """
    words = tuple(str(part) for part in command)
    try:
        process = spawn(
            words,
            directory=directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            library_path=library_path,
        )
    except OSError as error:
        raise BenchkitError(f"{words[0]} could not be started", evidence=str(error)) from error
    try:
        out, err = process.communicate(timeout=timeout_s)
    except BaseException as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise BenchkitError(
                f"{words[0]} did not end within {timeout_s:.0f} s and was killed",
                evidence=" ".join(words),
            ) from error
        raise
    return Finished(
        command=words,
        exit_code=process.returncode,
        stdout=out.decode("utf-8", "replace"),
        stderr=err.decode("utf-8", "replace"),
    )
