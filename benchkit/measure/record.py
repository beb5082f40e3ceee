"""What is asked of one measured run, and the record that comes out of it.

Format of a record (``record_version``):

1. First version. ``waits``, ``machine`` and ``checkpoints`` came later: records from before are
   without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from benchkit.measure.gates import Gate, Limits
from benchkit.postgres.builds import Build
from benchkit.postgres.settings import Value
from benchkit.workload.pgbench import Workload, as_record
from benchkit.workload.progress import Progress

RECORD_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """Everything that one measured run needs to know.

    Attributes
    ----------
    build, client
        Whose server, and whose pgbench.
    workload
        With the number of threads settled.
    settings
        By name; read back before the run.
    sql
        Run once after loading; part of the template.
    checksums
        Data checksums of the cluster.
    load
        Names the load: under another name the same tables are loaded afresh. "" is the one that is
        kept for all runs.
    """

    build: Build
    client: Build
    workload: Workload
    settings: Mapping[str, Value] = field(default_factory=dict)
    sql: tuple[str, ...] = ()
    checksums: bool = False
    limits: Limits = field(default_factory=Limits)
    load: str = ""

    @property
    def cluster(self) -> dict[str, Any]:
        """Which loaded cluster it needs: arguments of `workload.load`, beside builds and load."""
        return {"sql": self.sql, "checksums": self.checksums, "load_name": self.load}

    def describe(self) -> dict[str, Any]:
        """Give what was asked as plain data; the key of a trial is made from it."""
        return {
            "build": self.build.describe(),
            "client": self.client.describe(),
            "workload": as_record(self.workload),
            "settings": dict(self.settings),
            "sql": list(self.sql),
            "checksums": self.checksums,
            "limits": asdict(self.limits),
            **({"load": self.load} if self.load else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came out of one request, immutable and self-describing.

    Attributes
    ----------
    status
        ``usable``; ``rejected`` by a gate; ``failed`` before there was anything to judge.
    gates
        The gates that closed or flagged.
    error
        Of a failed trial: what happened, with its evidence.
    asked, effective
        The request, and the settings that were not at their defaults in the server.
    started_at
        Epoch seconds when the measured run began (of a failed trial: when it was begun).
    steps_s
        What each step took, in seconds.
    result
        pgbench's report as plain data, with ``client_cpu_s``, ``wall_s`` and ``comparable_tps``,
        the throughput that may be compared between clients of different versions.
    warm_up
        The same of the warm-up run, None without one.
    counters
        What the server counted during the measured run, see `benchkit.measure.counters`.
    waits
        What the sessions waited for during the measured run: ``interval_s``, ``looks``,
        ``events`` (sessions seen by wait event; None where nothing was seen) and ``reason``, see
        `benchkit.measure.waits`.
    machine
        What the whole machine did meanwhile: ``disk_read_bytes``, ``disk_written_bytes`` (None
        where unknown) and ``reason``.
    checkpoints
        Those that the server logged in the measured run: ``began_s``, ``ended_s`` (seconds from
        its beginning, None where the log does not say) and ``cause``.
    host
        Host name, boot and load when the trial began.
    progress
        Second by second: kept in a file of its own, not in the record.
    texts
        Raw outputs by file name, likewise.
    """

    status: str
    gates: tuple[Gate, ...] = ()
    error: str = ""
    asked: Mapping[str, Any] = field(default_factory=dict)
    effective: Mapping[str, Any] = field(default_factory=dict)
    started_at: float = 0.0
    steps_s: Mapping[str, float] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    warm_up: Mapping[str, Any] | None = None
    counters: Mapping[str, Any] = field(default_factory=dict)
    waits: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: tuple[Mapping[str, Any], ...] = ()
    host: Mapping[str, Any] = field(default_factory=dict)
    progress: tuple[Progress, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Give the trial as plain JSON, without its series and raw outputs."""
        data = {"record_version": RECORD_VERSION} | self.__dict__
        del data["progress"], data["texts"]
        plain = {"gates": [asdict(gate) for gate in self.gates]}
        return data | plain | {"checkpoints": [dict(item) for item in self.checkpoints]}
