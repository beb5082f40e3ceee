"""What pgbench says on standard error: progress while it runs, and clients that died.

The format facts are those of ``pgbench.c`` of versions 8.2 to 18. Progress (``-P``) exists from 9.4
on. Up to 11 pgbench exits with 0 and prints a normal report after clients died, so the standard
error has to be read whatever the exit code is.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One line of progress. What was not printed, or is no measurement, is None.

    Attributes
    ----------
    time_s
        Time since the start of the run [s], at the end of the interval.
    epoch_s
        Unix time instead, with ``--progress-timestamp`` (9.6+) [s].
    tps
        Transactions per second in the interval [1/s]. With ``-R`` and ``-L`` 9.6 and 10 count
        skipped ones in.
    latency_ms, latency_stddev_ms, lag_ms
        Latency, and lag behind the schedule under ``-R``, in the interval [ms].
    skipped, failed, retried, retries
        Counts in the interval; failed from 15 on.
    """

    time_s: float | None = None
    epoch_s: float | None = None
    tps: float | None
    latency_ms: float | None
    latency_stddev_ms: float | None
    lag_ms: float | None = None
    skipped: int | None = None
    failed: int | None = None
    retried: int | None = None
    retries: int | None = None


@dataclass(frozen=True, kw_only=True)
class ClientErrors:
    """What went wrong in a run, as far as standard error tells.

    Attributes
    ----------
    aborted_clients
        Numbers of the clients that ended before their time, ascending.
    incomplete
        pgbench itself says that the run was aborted (12+).
    messages
        All lines but progress and the routine ones of initialization and vacuum.
    """

    aborted_clients: tuple[int, ...] = ()
    incomplete: bool = False
    messages: tuple[str, ...] = ()


# Up to 10 an interval without a transaction is 0/0, as the C library spells it; the number of
# decimals is always the same, so that a line cut short (a killed run) is not taken for a whole one.
_NAN = r"-?[Nn]a[Nn](?:\(ind\))?|-?1\.#[A-Z0-9]+"
_MS = rf"([0-9]{{1,15}}\.[0-9]{{3}}|{_NAN})"
_PROGRESS = re.compile(
    r"progress: (?P<time>[0-9]{1,15}\.[0-9](?:[0-9][0-9])?) s, "
    rf"(?P<tps>[0-9]{{1,15}}\.[0-9]|{_NAN}|inf) tps, lat (?P<latency>{_MS}) ms "
    rf"stddev (?P<stddev>{_MS})(?P<rest>(?:, lag {_MS} ms|, [0-9]{{1,18}} [a-z]+)*)\s*"
)
_LAG = re.compile(rf"lag {_MS} ms")
_COUNT = re.compile(r"([0-9]+) (skipped|failed|retried|retries)")
_LINES = re.compile(r"[\r\n]+")

# Spellings: "Client 3 aborted in state 6" and "Client 3 aborted in establishing connection" up to
# 9.5, "client" from 9.6, "client 3 aborted in command 6" from 10, also "client 3 script 0 aborted
# in command 6 query 0" from 12, after "pgbench: error: " from 13, "aborted while rolling back"
# and "aborted: end of script reached ..." from 15.
_ABORTED = re.compile(r"\bclient ([0-9]{1,9})(?: [a-z]+ [0-9]+)*:? aborted\b", re.IGNORECASE)
_INCOMPLETE = re.compile(r"\brun was aborted\b", re.IGNORECASE)
_ROUTINE = re.compile(
    r"""\s*(?:
    starting\ vacuum.*?\.\.\.(?:end\.)?
    | (?:dropping\ old\ tables | creating\ tables | generating\ data\ \(.*\) | generating\ data
       | vacuum(?:ing)? | set\ primary\ keys? | set\ foreign\ keys? | creating\ primary\ keys
       | creating\ foreign\ keys | creating\ \d+\ partitions)\.\.\.
    | \d+\ (?:of\ \d+\ )?tuples\ .*done.*
    | (?:vacuum\.\.\.)?done(?:\ in\ .*\ s\ \(.*\))?\.
    | NOTICE:\s+table\ "\w+"\ does\ not\ exist,\ skipping
    | NOTICE:.*\ will\ create\ implicit\ index\ .*
    )?\s*""",
    re.VERBOSE | re.ASCII,
)


def parse_progress(stderr: str) -> list[Progress]:
    """Read the progress lines, in the order in which they were printed.

    Latency, its deviation and the lag are None in an interval in which no transaction ended: up to
    10 pgbench prints ``nan`` there, from 11 on zeros.

    Parameters
    ----------
    stderr
        The standard error of pgbench; all other lines are passed over, also a torn last one.
    """
    lines = (_PROGRESS.fullmatch(line) for line in _LINES.split(stderr))
    return [_progress(line) for line in lines if line]


def parse_errors(stderr: str) -> ClientErrors:
    """Find the clients that died and everything else worth reading.

    Parameters
    ----------
    stderr
        The standard error of pgbench, whatever its exit code was.
    """
    lines = [line.rstrip() for line in _LINES.split(stderr)]
    noteworthy = [line for line in lines if not _is_routine(line)]
    aborted = {int(number) for line in noteworthy for number in _ABORTED.findall(line)}
    return ClientErrors(
        aborted_clients=tuple(sorted(aborted)),
        incomplete=any(_INCOMPLETE.search(line) for line in noteworthy),
        messages=tuple(noteworthy),
    )


def _is_routine(line: str) -> bool:
    return bool(_ROUTINE.fullmatch(line) or _PROGRESS.fullmatch(line))


def _progress(line: re.Match[str]) -> Progress:
    lag = _LAG.search(line["rest"])
    latency_ms, stddev_ms = _measured(line["latency"]), _measured(line["stddev"])
    lag_ms, tps = _measured(lag[1]) if lag else None, _measured(line["tps"])
    # A rate below 0.05 is printed as 0.0, but then with a latency.
    if tps == 0.0 and not latency_ms:
        latency_ms = stddev_ms = lag_ms = None
    time = float(line["time"])
    is_epoch = line["time"][-4:-3] == "."  # three decimals (9.6+), else one
    counts: dict[str, int] = {name: int(number) for number, name in _COUNT.findall(line["rest"])}
    return Progress(
        time_s=None if is_epoch else time,
        epoch_s=time if is_epoch else None,
        tps=tps,
        latency_ms=latency_ms,
        latency_stddev_ms=stddev_ms,
        lag_ms=lag_ms,
        **counts,
    )


def _measured(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:  # a spelling of NaN that Python does not know
        return None
    return number if math.isfinite(number) else None
