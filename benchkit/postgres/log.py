"""A server's log: what went wrong, in its own words."""

from __future__ import annotations

import datetime
import itertools
import re
from dataclasses import dataclass

_SEVERITY = re.compile(r"\b(ERROR|FATAL|PANIC):  ")
_END = re.compile(r"\b(FATAL|PANIC):  ")
_MORE = re.compile(r"\b(DETAIL|HINT|CONTEXT):  |^\t")
# Here the cause is not in the FATAL line and what follows it, but in the lines before.
_SUMMARY = re.compile(r"FATAL:  (configuration file .* contains errors|could not create any)")
_BEFORE = re.compile(r"\b(LOG|WARNING|DETAIL|HINT):  |^\t")


def last_fatal(log: str) -> str:
    """Cut the last FATAL or PANIC out of a server log, with its DETAIL and HINT lines.

    Where it only sums up what was said before, the lines before it come too. Where there is none,
    the last lines of the log.
    """
    lines = log.splitlines()
    at = next((i for i in reversed(range(len(lines))) if _END.search(lines[i])), None)
    if at is None:
        return "\n".join(lines[-8:]) or "(the server wrote nothing)"
    first, last = at, at + 1
    while last < len(lines) and _MORE.search(lines[last]):
        last += 1
    if _SUMMARY.search(lines[at]):
        while first > max(0, at - 6) and _BEFORE.search(lines[first - 1]):
            first -= 1
    return "\n".join(lines[first:last])


# A modern client asks old servers for what they do not have, and copes with the answer: libpq
# names its application (9.0 on), pgbench 13 and later looks for partitions (10 on; what an older
# server says of that query depends on its version, the query stands in the log after it).
_ASKED_IN_VAIN = re.compile(r'configuration parameter "application_name"|pg_partitioned_table')
_ENTRY = re.compile(r"\b(LOG|WARNING|NOTICE|INFO|ERROR|FATAL|PANIC):  ")


def log_errors(log: str) -> list[str]:
    """List the lines of a server log with ERROR, FATAL or PANIC.

    Without those that a modern client's questions to an old server always leave.
    """
    lines = log.splitlines()
    starts = [at for at, line in enumerate(lines) if _ENTRY.search(line)]
    entries = itertools.pairwise([*starts, len(lines)])
    return [
        lines[first]
        for first, end in entries
        if _SEVERITY.search(lines[first]) and not _ASKED_IN_VAIN.search("\n".join(lines[first:end]))
    ]


# Times are in UTC and with milliseconds (log_line_prefix with %m, the default from 10 on). "wal" is
# called "xlog" before 10.
_CHECKPOINT = re.compile(
    r"^(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) UTC .*?"
    r"LOG:  checkpoint (?:(?P<complete>complete)|starting):? ?(?P<cause>.*)$"
)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint as the server logged it.

    Attributes
    ----------
    began_at, ended_at
        Epoch seconds; None where the log does not hold it.
    cause
        In the server's words: ``time``, ``wal``, ``immediate force wait``; "" where unknown.
    """

    began_at: float | None
    ended_at: float | None
    cause: str


def checkpoints(log: str) -> list[Checkpoint]:
    """List the checkpoints of a log, in order.

    Only those of a server with ``log_checkpoints`` (on by default from 15 on) whose lines have
    times; others leave none.
    """
    found: list[Checkpoint] = []
    for match in map(_CHECKPOINT.match, log.splitlines()):
        if match is None:
            continue
        moment = datetime.datetime.fromisoformat(match["at"]).replace(tzinfo=datetime.UTC)
        at = moment.timestamp()
        if not match["complete"]:
            found.append(Checkpoint(began_at=at, ended_at=None, cause=match["cause"]))
        elif found and found[-1].ended_at is None:
            last = found.pop()
            found.append(Checkpoint(began_at=last.began_at, ended_at=at, cause=last.cause))
        else:
            found.append(Checkpoint(began_at=None, ended_at=at, cause=""))
    return found
