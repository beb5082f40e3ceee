"""What the server's sessions wait for, sampled while a run goes on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, LiteralString

import psycopg

from benchkit.postgres.versions import Version, has

INTERVAL_S = 1.0

# pg_stat_activity, monitoring.sgml: wait_event from 9.6, pid and state from 9.2, procpid and
# current_query before; "waiting" (for a heavyweight lock only) up to 9.5.
_QUERIES: dict[str, LiteralString] = {
    "pg_stat_activity.wait_event": """
        SELECT coalesce(wait_event_type || ':' || wait_event, 'CPU') AS event, count(*) AS n
        FROM pg_stat_activity
        WHERE state = 'active' AND pid <> pg_backend_pid() AND application_name = 'pgbench'
        GROUP BY 1""",
    "pg_stat_activity.state": """
        SELECT CASE WHEN waiting THEN 'Lock' ELSE 'CPU or other' END AS event, count(*) AS n
        FROM pg_stat_activity
        WHERE state = 'active' AND pid <> pg_backend_pid() AND application_name = 'pgbench'
        GROUP BY 1""",
}

Connect = Callable[[], psycopg.Connection[dict[str, Any]]]


class WaitSampler:
    """Counts what pgbench's active sessions wait for, once a second, in a thread of its own.

    A context manager round the run. A session that waits for nothing counts as ``CPU``: it runs,
    or waits for a processor. Idle sessions (the client is at work) do not count.

    Parameters
    ----------
    connect
        Opens a connection of the sampler's own.
    version
        Of the server.

    Attributes
    ----------
    looks
        How often it looked.
    events
        Event -> how many sessions were seen in it, over all looks.
    reason
        Why there is nothing, "" otherwise.
    """

    def __init__(self, connect: Connect, version: Version) -> None:
        self._connect = connect
        self._query = next((sql for fact, sql in _QUERIES.items() if has(version, fact)), None)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.looks = 0
        self.events: Counter[str] = Counter()
        self.reason = "" if self._query else f"PostgreSQL {version} does not tell session states"

    def __enter__(self) -> WaitSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(timeout=10)

    def _sample(self) -> None:
        if self._query is None:
            return
        try:
            with self._connect() as connection:
                while not self._over.wait(INTERVAL_S):
                    for row in connection.execute(self._query):
                        self.events[row["event"]] += int(row["n"])
                    self.looks += 1
        except psycopg.Error as error:
            self.reason = f"sampling ended: {error}".strip()

    def record(self) -> dict[str, Any]:
        """Give what was seen, as plain data."""
        return {
            "interval_s": INTERVAL_S,
            "looks": self.looks,
            "events": dict(self.events.most_common()),
            "reason": self.reason,
        }
