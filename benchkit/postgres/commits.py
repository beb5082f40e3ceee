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
_GRACE_S = 10


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
    words = _words(command, place, faults)
    good, dots, bad = between.partition("..")
    if not (good and dots and bad) or bad.startswith(".") or good.startswith("-"):
        faults.add("commits", f"{between!r}: a range is good..bad")
        faults.raise_any()
    listed: list[tuple[str, str, str]] = []
    try:
        for what in (f"{good}^!", f"{good}..{bad}"):
            lines = _log(place, what)
            listed += lines
            if not lines:
                faults.add("commits", f"{between!r} holds no commit after {good}")
        if not faults.found and not _is_ancestor(place, good, bad):
            base = _git(place, "merge-base", good, bad).strip()[:12]
            faults.add(
                "commits", f"{good} is no ancestor of {bad}: begin at {base}, where they part"
            )
    except BuildError as error:
        faults.add("commits", str(error))
    faults.raise_any()
    made = {
        short: functools.partial(build_commit, full, words, repository=place)
        for full, short, _ in listed
    }
    return dict(made), {short: subject for _, short, subject in listed}


def _words(command: str, repository: Path, faults: Faults) -> list[str]:
    """Split a command; its program is looked for from here, then in the repository."""
    words: list[str] = []
    try:
        words = shlex.split(command)
    except ValueError as error:
        faults.add("build command", f"{command!r}: {error}")
    for name in ("{commit}", "{prefix}"):
        if not any(name in word for word in words):
            faults.add("build command", f"{command!r} lacks {name}")
    if words:
        places = [words[0], str(repository / words[0])]
        program = next(filter(None, map(shutil.which, places)), None)
        if program is None:
            faults.add("build command", f"there is no program {words[0]!r}")
        else:
            words[0] = str(Path(program).absolute())
    return words


def _log(repository: Path, what: str) -> list[tuple[str, str, str]]:
    """List commits, oldest first: whole hash, short hash, subject."""
    arguments = [
        "--reverse",
        "--first-parent",
        "--abbrev=12",
        "--format=%H%x09%h%x09%s",
        what,
        "--",
    ]
    lines = _git(repository, "-c", "log.showSignature=false", "log", *arguments).split("\n")
    found = (line.split("\t", 2) for line in lines if line)
    return [(full, short, subject) for full, short, subject in found]


def _is_ancestor(repository: Path, good: str, bad: str) -> bool:
    return not _git(repository, "rev-list", "-1", good, f"^{bad}", "--").strip()


def _git(repository: Path, *arguments: str) -> str:
    try:
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

    It lies in benchkit's home, by command and commit; a build that did not end is made anew. A
    command is another one when a file that it names (a script, say) has changed.

    Raises
    ------
    BuildError
        The command failed, or left no PostgreSQL in the prefix; with the end of its output.
    """
    prefix = workplace.home() / "commits" / _key(words) / commit
    if not (prefix / _MARK).exists():
        shutil.rmtree(prefix, ignore_errors=True)
        prefix.mkdir(parents=True)
        _run(commit, words, prefix, repository)
        try:
            inspect(prefix)
        except BuildError as error:
            log = prefix.with_name(f"{prefix.name}.log")
            raise BuildError(
                f"the command left no PostgreSQL for commit {commit[:12]}",
                evidence=str(error),
                advice=f"its output is in {log}",
            ) from error
        (prefix / _MARK).write_text(shlex.join(words) + "\n", "utf-8")
    return inspect(prefix, origin=f"commit {commit[:10]}")


def _key(words: list[str]) -> str:
    """Tell one way of building from another: by the words, and by the files that they name."""
    known = hashlib.sha256()
    for word in words:
        known.update(word.encode() + b"\0")
        if Path(word).is_file():
            known.update(Path(word).read_bytes())
    return known.hexdigest()[:8]


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
            # Told of its end before it is reaped: until then its group's number is its own.
            if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            else:
                process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGTERM)  # a command may have something to put away
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            raise
        finally:
            if process.returncode is None:
                # What it started must not go on beside a measurement.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            exit_code = process.wait()
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
