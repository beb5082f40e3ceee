"""What a run waits for: the server's sessions, sampled, and the machine's disk, counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from benchkit.measure.repeat import Repeated
from benchkit.postgres.versions import Version, has

INTERVAL_S = 1.0
# Late enough for pgbench to have connected, early enough for a run of a second.
FIRST_S = 0.3

# pg_stat_activity, monitoring.sgml: wait_event from 9.6, state and pid from 9.2; "waiting" (for a
# heavyweight lock only) up to 9.5. By database, since pgbench of old does not say its name there.
_QUERIES: dict[str, LiteralString] = {
    "pg_stat_activity.wait_event": """
        SELECT wait_event_type || ':' || wait_event AS event, count(*) AS sessions
        FROM pg_stat_activity
        WHERE state = 'active' AND datname = 'postgres' AND application_name <> 'benchkit'
            AND query NOT LIKE 'autovacuum:%'
        GROUP BY 1""",
    "pg_stat_activity.state": """
        SELECT CASE WHEN waiting THEN 'Lock' END AS event, count(*) AS sessions
        FROM pg_stat_activity
        WHERE state = 'active' AND datname = 'postgres' AND application_name <> 'benchkit'
            AND query NOT LIKE 'autovacuum:%'
        GROUP BY 1""",
}
CPU = "CPU"
CPU_OR_UNTOLD = "CPU or untold"

Connection = psycopg.Connection[dict[str, Any]]


class WaitSampler:
    """Counts what pgbench's active sessions wait for, once a second, while the block runs.

    A session that waits for nothing counts as ``CPU``: it runs, or waits for a processor. Before
    PostgreSQL 10, which does not tell all waits, it counts as ``CPU or untold``. Sessions that
    have nothing to do, since the client is at work, do not count. Nothing here fails a run:
    whatever goes wrong is the `reason`.

    Parameters
    ----------
    connect
        Opens a connection of the sampler's own, to another database than the measured one: its
        transactions are then not counted there. It is closed on leaving.
    version
        Of the server; from 9.2 on it tells the states of its sessions.

    Attributes
    ----------
    looks
        How often it looked.
    events
        Event -> how many sessions were seen in it, over all looks.
    reason
        Why there is nothing, or no more; "" otherwise.
    """

    def __init__(self, connect: Callable[[], Connection], version: Version) -> None:
        self.looks = 0
        all_told = has(version, "wait events of reads, writes and the client")
        self._no_event = CPU if all_told else CPU_OR_UNTOLD
        self.events: Counter[str] = Counter({self._no_event: 0})
        self._connect = connect
        self._query = next((sql for fact, sql in _QUERIES.items() if has(version, fact)), None)
        self.reason = "" if self._query else f"PostgreSQL {version} does not tell session states"
        self._connection: Connection | None = None
        self._repeated = Repeated(self._look, first_s=FIRST_S, every_s=INTERVAL_S)

    def __enter__(self) -> WaitSampler:
        if self._query is None:
            return self
        try:
            self._connection = self._connect()
        except psycopg.Error as error:
            self.reason = f"no connection to sample with: {error}".strip()
        else:
            self._repeated.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is None:
            return
        try:
            self._repeated.__exit__()
        finally:
            self._connection.close()
        if self._repeated.error is not None:
            self.reason = f"sampling ended: {self._repeated.error}".strip()
        elif not self.looks:
            self.reason = "the run was over before the first look"

    def _look(self) -> None:
        if self._connection is None or self._query is None:
            return
        for row in self._connection.execute(self._query).fetchall():
            self.events[row["event"] or self._no_event] += int(row["sessions"])
        self.looks += 1

    def record(self) -> dict[str, Any]:
        """Give what was seen, as plain data.

        Returns
        -------
        dict
            ``interval_s``, ``looks``, ``reason``, and ``events``: sessions seen by event, the most
            frequent first, with an entry ``CPU`` (or ``CPU or untold``) in any case; None if there
            was no look.
        """
        return {
            "interval_s": INTERVAL_S,
            "looks": self.looks,
            "events": dict(self.events.most_common()) if self.looks else None,
            "reason": self.reason,
        }


class DiskCounter:
    """Counts what the machine reads from and writes to its block devices while the block runs.

    From ``pgpgin`` and ``pgpgout`` of ``/proc/vmstat``, in KiB (proc_vmstat(5)): whoever reads or
    writes counts, in a trial mostly the server. Network file systems are no block devices.

    Parameters
    ----------
    root
        Where /proc is found.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = root / "proc/vmstat"
        self._before: dict[str, int] = {}
        self._after: dict[str, int] = {}

    def __enter__(self) -> DiskCounter:
        self._before = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        self._after = self._read()

    def _read(self) -> dict[str, int]:
        try:
            text = self._path.read_text("ascii", "replace")
        except OSError:
            return {}
        found = re.findall(r"(?m)^(pgpgin|pgpgout) (\d+)$", text)
        return {name: int(value) for name, value in found}

    def record(self) -> dict[str, Any]:
        """Give ``disk_read_bytes``, ``disk_written_bytes`` (None where unknown) and ``reason``."""
        counted = {
            name: (self._after[name] - self._before[name]) * 1024
            for name in self._before.keys() & self._after.keys()
        }
        whole = {"pgpgin", "pgpgout"} <= counted.keys()
        return {
            "disk_read_bytes": counted.get("pgpgin"),
            "disk_written_bytes": counted.get("pgpgout"),
            "reason": "" if whole else "this system has no /proc/vmstat that counts them",
        }
