"""How evenly the machine works just now: the same computation, again and again."""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import psutil

from benchkit.errors import BusyError
from benchkit.measure.finding import Finding
from benchkit.postgres import workplace

PROBE_S = 0.6
_PIECES = 30
_SETTLING = 3  # pieces
_BYTES = bytes(64 * 1024)
NOISY_SHARE = 0.05
STOLEN_SHARE = 0.02


def probe_pieces(
    probe_s: float = PROBE_S, clock: Callable[[], float] = time.perf_counter
) -> list[int]:
    """Count how often a computation ends in each of thirty equal pieces of time."""
    counts = []
    for _ in range(_PIECES):
        ends, count = clock() + probe_s / _PIECES, 0
        while clock() < ends:
            hashlib.sha256(_BYTES).digest()
            count += 1
        counts.append(count)
    return counts


def noise_findings(probe_s: float = PROBE_S) -> list[Finding]:
    """Probe one core, and say if it does not do the same work in the same time.

    Even and odd pieces are as two identical servers measured in turns: what differs between them,
    and from piece to piece, is the machine's noise alone.

    Parameters
    ----------
    probe_s
        How long, in seconds; 0 probes nothing.
    """
    if probe_s <= 0:
        return []
    try:
        with workplace.machine_lock("a probe of the machine", wait_s=0):
            before = psutil.cpu_times()
            counts = probe_pieces(probe_s)
            after = psutil.cpu_times()
    except BusyError:
        return []  # a measurement is running: it must not be disturbed
    return judge_pieces(counts, _stolen(before, after))


def _stolen(before: NamedTuple, after: NamedTuple) -> float | None:
    """Give the share of all CPU time that the hypervisor gave to others; None where unknown."""
    begin, end = before._asdict(), after._asdict()
    spent = sum(end.values()) - sum(begin.values())
    if "steal" not in begin or spent <= 0:
        return None
    return float((end["steal"] - begin["steal"]) / spent)


def judge_pieces(counts: list[int], stolen: float | None) -> list[Finding]:
    """Find whether pieces of equal length held unequal work."""
    mean = statistics.fmean(counts)
    # The first pieces are the clock's on its way up; deciles, since one piece is always odd.
    low, *_, high = statistics.quantiles(counts[_SETTLING:], n=10)
    spread = (high - low) / 2.56 / mean if mean else 1.0
    even, odd = statistics.fmean(counts[::2]), statistics.fmean(counts[1::2])
    if spread < NOISY_SHARE and (stolen or 0) < STOLEN_SHARE:
        return []
    evidence = (
        f"the same computation, {len(counts)} times for the same time: it spreads by "
        f"{100 * spread:.0f} %, least to most {min(counts)} to {max(counts)}; even against odd "
        f"times {100 * (even / odd - 1 if odd else 1):+.1f} %"
    )
    evidence += f"; {100 * stolen:.0f} % of the time stolen by the hypervisor" if stolen else ""
    return [
        Finding(
            severity="warning",
            name="noisy host",
            evidence=evidence,
            fix="end what else runs here; else more rounds, and believe the interval",
            reference="Linux documentation, proc_stat(5), steal",
        )
    ]
