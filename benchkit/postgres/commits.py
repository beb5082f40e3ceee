"""Commits of a PostgreSQL repository as builds, each made by the user's own command when needed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from benchkit.errors import BuildError, Faults
from benchkit.postgres import workplace
from benchkit.postgres.builds import Build, inspect

_MARK = "benchkit-built"  # in the prefix of a build that was finished
_TAIL_LINES = 12


def commits(
    repository: str | Path, between: str, command: str
) -> tuple[dict[str, Callable[[], Build]], dict[str, str]]:
    """List the commits of a range as builds that are made when they are first needed.

    Parameters
    ----------
    repository
        A git repository of PostgreSQL; it is read only.
    between
        ``good..bad``: the commits after `good` up to `bad`, along first parents, and `good` itself.
    command
        What builds and installs a commit, with ``{commit}`` and ``{prefix}``; run without a shell
        in the repository's directory. Exit code 0 and an installation in the prefix are success.

    Returns
    -------
    tuple
        Short commit -> function that gives its build (`BuildError` where it fails); and short
        commit -> its subject.

    Raises
    ------
    InputError
        No repository, an unknown commit, an empty range, or a command without the two names.
    """
    faults = Faults()
    place = Path(repository).expanduser().absolute()
    words = _words(command, faults)
    good, dots, bad = between.partition("..")
    if not (good and dots and bad) or bad.startswith(".") or good.startswith("-"):
        faults.add("commits", f"{between!r}: a range is good..bad")
        faults.raise_any()
    listed: list[tuple[str, str, str]] = []
    try:
        for what in ([f"{good}^!"], [f"{good}..{bad}"]):
            arguments = ["log", "--reverse", "--first-parent", "--format=%H%x09%h%x09%s", *what]
            lines = _git(place, *arguments).splitlines()
            listed += [(*line.split("\t", 2),) for line in lines]  # type: ignore[misc]
            if not lines:
                faults.add("commits", f"{between!r} holds no commit after {good}")
    except BuildError as error:
        faults.add("commits", str(error))
    faults.raise_any()
    made = {
        short: functools.partial(build_commit, full, words, repository=place)
        for full, short, _ in listed
    }
    return dict(made), {short: subject for _, short, subject in listed}


def _words(command: str, faults: Faults) -> list[str]:
    words: list[str] = []
    try:
        words = shlex.split(command)
    except ValueError as error:
        faults.add("build command", f"{command!r}: {error}")
    for name in ("{commit}", "{prefix}"):
        if not any(name in word for word in words):
            faults.add("build command", f"{command!r} lacks {name}")
    if words and not shutil.which(words[0]):
        faults.add("build command", f"there is no program {words[0]!r}")
    return words


def _git(repository: Path, *arguments: str) -> str:
    try:
        # --end-of-options is not known to every git: what begins with - is refused by itself.
        done = subprocess.run(
            ["git", "-C", str(repository), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise BuildError("git cannot be run", evidence=str(error)) from error
    if done.returncode:
        raise BuildError(f"git in {repository} says", evidence=done.stderr)
    return done.stdout


def build_commit(commit: str, words: list[str], *, repository: Path) -> Build:
    """Build a commit by a command, once: what is built already is used again.

    It lies in benchkit's home, by command and commit; a build that did not end is made anew.

    Raises
    ------
    BuildError
        The command failed, or left no PostgreSQL in the prefix; with the end of its output.
    """
    key = hashlib.sha256("\0".join(words).encode()).hexdigest()[:8]
    prefix = workplace.home() / "commits" / key / commit
    if not (prefix / _MARK).exists():
        shutil.rmtree(prefix, ignore_errors=True)
        prefix.mkdir(parents=True)
        _run(commit, words, prefix, repository)
        inspect(prefix)
        (prefix / _MARK).write_text(shlex.join(words) + "\n", "utf-8")
    return inspect(prefix, origin=f"commit {commit[:10]}")


def _run(commit: str, words: list[str], prefix: Path, repository: Path) -> None:
    asked = [w.replace("{commit}", commit).replace("{prefix}", str(prefix)) for w in words]
    log = prefix.with_name(f"{prefix.name}.log")
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                asked,
                cwd=repository,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BuildError(f"{asked[0]} could not be started", evidence=str(error)) from error
        try:
            exit_code = process.wait()
        finally:
            # Also on an interrupt: what the command started must not go on beside a measurement.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if exit_code:
        tail = log.read_text("utf-8", "replace").splitlines()[-_TAIL_LINES:]
        raise BuildError(
            f"commit {commit[:10]} could not be built: exit code {exit_code}",
            evidence="\n".join([shlex.join(asked), *tail]),
            advice=f"the whole output is in {log}",
        )


def builds_or_commits(
    builds: list[str], repository: str, between: str, command: str
) -> tuple[dict[str, Callable[[], Build]] | list[str], dict[str, str]]:
    """Give what a person named to be searched: builds that are there, or commits to be built.

    Raises
    ------
    InputError
        Both or parts of both were named, and what :func:`commits` finds wrong.
    """
    named = [bool(builds), bool(repository or between or command)]
    faults = Faults()
    if all(named):
        faults.add("candidates", "builds and commits were named: one of them is searched")
    faults.raise_any()
    if not named[1]:
        return builds, {}
    return commits(repository or ".", between, command)
