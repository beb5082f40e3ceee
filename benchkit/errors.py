"""The errors of benchkit, one tree, so that one ``except`` catches them all.

::

    BenchkitError
    ├── InputError          what was asked for cannot be done; nothing was started
    ├── BuildError          a PostgreSQL installation is missing or incomplete
    ├── ServerError         initdb, start, stop or a setting failed
    ├── WorkloadError       pgbench failed, or did not end
    ├── FormatError         a text or a file is not what it should be
    ├── BusyError           another benchkit measures on this machine
    └── NotebookError       a notebook failed, its kernel died, or it took too long

A message says what happened, shows the evidence (command, exit code, last lines of a log) and
says what to try. The three parts are attributes too; nobody needs to parse the text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class BenchkitError(Exception):
    """Base of every error that benchkit raises on purpose.

    Parameters
    ----------
    message
        What happened, one sentence.
    evidence
        What shows it: a command with its exit code, the last lines of a log.
    advice
        What to try next.
    """

    def __init__(self, message: str, *, evidence: str = "", advice: str = "") -> None:
        self.message = message
        self.evidence = evidence.strip()
        self.advice = advice
        super().__init__(message)

    def __str__(self) -> str:
        evidence = "\n".join(f"  {line}" for line in self.evidence.splitlines())
        advice = f"Try: {self.advice}" if self.advice else ""
        return "\n".join(part for part in (self.message, evidence, advice) if part)

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments are lost by the default reduction; workers send errors by pickle.
        return _rebuild, (type(self), self.message, self.__dict__)


def _rebuild(kind: type[BenchkitError], message: str, state: dict[str, Any]) -> BenchkitError:
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(state)
    return error


class BuildError(BenchkitError):
    """A PostgreSQL installation is missing, incomplete or cannot be read."""


class ServerError(BenchkitError):
    """initdb, the start or the stop of a server failed, or a setting is not in effect."""


class WorkloadError(BenchkitError):
    """pgbench failed, was killed, or did not end in time."""


class FormatError(BenchkitError):
    """A text or file does not have the form it should have."""


class BusyError(BenchkitError):
    """Another benchkit measures on this machine."""


class NotebookError(BenchkitError):
    """A notebook failed; ``exit_code`` is what the command line returns.

    2: what it was given cannot be done. 3: a cell raised an error. 4: the kernel died. 5: the time
    limit was reached.
    """

    def __init__(
        self, message: str, *, evidence: str = "", advice: str = "", exit_code: int = 3
    ) -> None:
        super().__init__(message, evidence=evidence, advice=advice)
        self.exit_code = exit_code


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing wrong with the input: where, what was given, why it cannot be."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}"


class InputError(BenchkitError):
    """What was asked for cannot be done. Raised before anything is started.

    Attributes
    ----------
    faults
        Every fault found, not only the first.
    remark
        What else a person should know to put them right.
    """

    def __init__(self, faults: Iterable[Fault], *, remark: str = "") -> None:
        self.faults = tuple(faults)
        self.remark = remark
        count = len(self.faults)
        super().__init__(
            "This cannot be done: " + (f"{count} faults." if count > 1 else "1 fault."),
            evidence="\n".join([*(f"- {fault}" for fault in self.faults), remark]),
        )


class Faults:
    """Collects faults, so that a person sees all of them at once."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, where: str, problem: str) -> None:
        """Note one fault."""
        self.found.append(Fault(where=where, problem=problem))

    def unknown(self, where: str, name: str, accepted: Iterable[str], *, kind: str) -> None:
        """Note an unknown name, with the nearest of the accepted ones."""
        self.add(where, f"unknown {kind} {name!r}{nearest(name, accepted)}")

    def extend(self, error: InputError) -> None:
        """Take over the faults of another error."""
        self.found.extend(error.faults)

    def raise_any(self) -> None:
        """Raise :class:`InputError` if any fault was noted."""
        if self.found:
            raise InputError(self.found)


def nearest(name: str, accepted: Iterable[str], *, most: int = 12) -> str:
    """Describe the accepted names: the nearest one, and all of them if they are few."""
    known = sorted({str(item) for item in accepted})
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(repr(item) for item in close)}?" if close else ""
    listing = f" (accepted: {', '.join(known)})" if known and len(known) <= most else ""
    return hint + listing
