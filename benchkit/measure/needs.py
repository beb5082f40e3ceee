"""What an experiment will take of the machine: disk, memory and time, known before it starts."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchkit.errors import BenchkitError, FormatError
from benchkit.measure.finding import Finding
from benchkit.measure.record import TrialRequest
from benchkit.postgres.settings import text_of
from benchkit.units import memory_bytes, parse_quantity, show_bytes, show_duration
from benchkit.workload.disk import needed_bytes
from benchkit.workload.load import is_loaded
from benchkit.workload.pgbench import Workload

# Measured at scales 10 to 100 on a virtual disk: a load writes tables, index and vacuum.
_LOAD_BYTES_PER_S = 40 * 1024**2
_CLONE_BYTES_PER_S = 400 * 1024**2
_OTHER_S = 0.5  # start, stop and counters of a trial
_BLOCK_BYTES = 8192  # shared_buffers without a unit counts blocks
_DEFAULT_BUFFERS = 128 * 1024**2
_SESSION_BYTES = 5 * 1024**2  # of a pgbench session's backend, beside shared memory
# For a run by transactions: so that its length can be said at all before anything was measured.
REFERENCE_TPS = 1000


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a whole experiment takes.

    Attributes
    ----------
    trials
        How many there are.
    disk_bytes
        For the clusters that are still to be loaded, one clone and its WAL.
    memory_bytes
        Of the largest server: shared_buffers and its sessions. What the page cache holds of the
        database comes on top.
    duration_s
        Loading, measuring, and what lies between; without the runs by transactions.
    transactions
        Of all runs that end after so many transactions instead of a duration.
    """

    trials: int
    disk_bytes: int
    memory_bytes: int
    duration_s: float
    transactions: int

    @property
    def duration_words(self) -> str:
        """The duration in words; of runs by transactions at a speed that is named."""
        if not self.transactions:
            return f"about {show_duration(self.duration_s)}"
        at_reference_s = self.duration_s + self.transactions / REFERENCE_TPS
        return (
            f"{self.transactions:,} transactions: {show_duration(at_reference_s)} at "
            f"{REFERENCE_TPS:,} transactions/s, more or less as this machine is slower or faster"
        )

    @property
    def trial_s(self) -> float:
        """About how long a trial takes with its share of the loading, in seconds."""
        return (self.duration_s + self.transactions / REFERENCE_TPS) / self.trials

    @property
    def text(self) -> str:
        """All of it in a sentence."""
        disk, memory = show_bytes(self.disk_bytes), show_bytes(self.memory_bytes)
        return f"disk {disk}, memory {memory} beside the page cache, time {self.duration_words}"


def loaded_for(requests: Sequence[TrialRequest]) -> list[Workload]:
    """List a workload for each cluster that is still to be loaded, and stays in the cache.

    There is one by build, scale and fillfactor, and one more by SQL.
    """
    clusters = {
        (r.build.fingerprint, r.workload.scale, r.workload.fillfactor, sql): (r, sql)
        for r in requests
        for sql in ((), r.sql)
    }
    return [asked.workload for asked, sql in clusters.values() if not _is_loaded(asked, sql)]


def _is_loaded(request: TrialRequest, sql: Sequence[str]) -> bool:
    with contextlib.suppress(BenchkitError, OSError):  # what is wrong with it is said elsewhere
        return is_loaded(
            request.build,
            request.client,
            request.workload,
            **request.cluster | {"sql": sql},
        )
    return False


def needs_of(requests: Sequence[TrialRequest], rounds: int, loads: int = 1) -> Needs:
    """Work out what the requests, each measured once a round, will take.

    Parameters
    ----------
    loads
        How often the clusters are loaded.
    """
    # Several loads are all made anew; else what the cache has need not be loaded.
    kept = loaded_for([replace(r, load="(new)") for r in requests] if loads > 1 else requests)
    workloads = [request.workload for request in requests]
    load_s = loads * sum(workload.database_bytes for workload in kept) / _LOAD_BYTES_PER_S
    return Needs(
        trials=len(requests) * rounds,
        disk_bytes=needed_bytes(kept, workloads),
        memory_bytes=max(_server_bytes(request) for request in requests),
        duration_s=load_s + rounds * sum(map(trial_s, workloads)),
        transactions=rounds * sum(w.transactions * w.clients for w in workloads),
    )


def trial_s(workload: Workload) -> float:
    """Give about how long a trial takes, in seconds; of a run by transactions all but the run."""
    clone_s = workload.database_bytes / _CLONE_BYTES_PER_S
    return workload.duration_s + workload.warm_up_s + clone_s + _OTHER_S


def _server_bytes(request: TrialRequest) -> int:
    asked = {name.lower(): text_of(value) for name, value in request.settings.items()}
    buffers = 0
    with contextlib.suppress(FormatError):
        text = asked.get("shared_buffers", f"{_DEFAULT_BUFFERS}B")
        number, unit = parse_quantity(text)
        buffers = memory_bytes(text) if unit else int(number) * _BLOCK_BYTES
    return buffers + request.workload.clients * _SESSION_BYTES


def check_memory(needs: Needs, machine: Mapping[str, Any]) -> list[Finding]:
    """Find whether the largest server fits into the memory of a machine, as host describes it."""
    limits = [machine.get("memory_bytes"), machine.get("memory_limit_bytes")]
    has_bytes = min([limit for limit in limits if limit], default=None)
    if has_bytes is None or needs.memory_bytes < has_bytes:
        return []
    return [
        Finding(
            severity="bad",
            name="not enough memory",
            evidence=f"the largest server needs {show_bytes(needs.memory_bytes)}, the machine has "
            f"{show_bytes(has_bytes)}",
            fix="a smaller shared_buffers or fewer clients; else the machine swaps or kills it",
        )
    ]
