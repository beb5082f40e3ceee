"""What the server counted: a snapshot before a run, one after it, and the difference.

The difference is plain JSON, with the same names for every version of PostgreSQL::

    server       {"version_num": 180006, "started_epoch_s": ..., "stats_reset": {view: text}}
    database     pg_stat_database of this database, under PostgreSQL's own column names
    tables       {name: pg_stat_user_tables, own column names; n_live_tup and n_dead_tup: pairs}
    wal          bytes (by WAL position), records, full_page_images, record_bytes, buffers_full
    checkpoints  timed, requested, done
    buffers      written_by_checkpoints, written_by_bgwriter, written_by_backends, allocated,
                 evicted; in blocks
    sizes_bytes  database: pair; tables, tables_with_toast, indexes: {name: pair}
    resets       [text, ...]: what was reset or restarted in between; empty for a sound difference
    reasons      {"wal.records": why it is None, ...}, an entry for every None above

A pair is ``{"before": ..., "after": ...}``; every other figure is what was added between the two
snapshots. A table outside the schema ``public`` is called ``schema.table``. What does not exist, is
switched off or was reset is None, never 0.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from benchkit.errors import Fault, InputError
from benchkit.measure.views import (
    Figure,
    FigurePath,
    Found,
    figures_of,
    queries,
    resets_of,
    rows_of,
)
from benchkit.postgres.versions import has

Connection = psycopg.Connection[Any]
Origin = tuple[str, int]

# Who flushes when (pgstat.c): from 15 on a session at its end, else at most once a second, and on
# demand. Before, the statistics collector's file is up to 500 ms old, and sessions send as seldom.
_COLLECTOR_WAIT_S = 0.55
_LOOK_S = 0.02


@dataclass(frozen=True, kw_only=True)
class Counters:
    """A snapshot: cumulative figures, and what tells whether they were reset.

    Attributes
    ----------
    server_version
        As ``server_version_num``, for example 180006.
    started_epoch_s
        When the server was started, seconds since 1970.
    resets
        View -> its ``stats_reset`` as text, None where it was never reset.
    figures
        Path in the difference -> figure.
    clients
        Process ids of the other clients of this database at that time.
    """

    server_version: int
    started_epoch_s: float | None
    resets: Mapping[str, str | None]
    figures: Mapping[FigurePath, Figure]
    clients: frozenset[int]


def flush_statistics(connection: Connection, timeout_s: float = 2.0) -> None:
    """Have what was done before this moment counted now, so that it is not counted with the run.

    Call it between preparing (load, vacuum, checkpoint, warm-up) and the first snapshot. Waits, for
    `timeout_s` seconds at most, until no client of this database is leaving any more, and lets the
    checkpointer report, which it does just after it has told that a checkpoint is done. Takes about
    0.1 s; before PostgreSQL 15, 1.2 s.
    """
    deadline = time.monotonic() + timeout_s
    clients = _clients(connection)
    while time.monotonic() < deadline:
        time.sleep(0.05)
        previous, clients = clients, _clients(connection)
        if clients == previous:
            break
    if has(connection.info.server_version, "statistics in shared memory"):
        connection.execute("SELECT pg_stat_force_next_flush()", prepare=False)
        return
    for _ in range(2):  # once until this session may send, once for the file to be renewed
        time.sleep(_COLLECTOR_WAIT_S)
        connection.execute("SELECT 1", prepare=False)


def read_counters(connection: Connection) -> Counters:
    """Take a snapshot of everything that the server counts for this database.

    Parameters
    ----------
    connection
        To the measured database, in autocommit: a transaction sees the same counters for ever.

    Raises
    ------
    InputError
        The connection is not in autocommit.

    Notes
    -----
    Two snapshots cost about two dozen transactions, which are counted as well.
    """
    if not connection.autocommit:
        problem = "not in autocommit, and counters do not change inside a transaction"
        raise InputError([Fault(where="connection", problem=problem)])
    version = connection.info.server_version
    return snapshot(version, {name: _fetch(connection, name) for name in queries(version)})


def snapshot(version: int, found: Mapping[str, Found]) -> Counters:
    """Make a snapshot of rows as a server of this version tells them, by name of the query."""
    server = rows_of(found, "server")
    return Counters(
        server_version=version,
        started_epoch_s=server[0]["started_epoch_s"] if server else None,
        resets=resets_of(found),
        figures=figures_of(version, found),
        clients=frozenset(row["pid"] for row in rows_of(found, "clients")),
    )


def settle(
    connection: Connection, transactions: int, before: Counters, timeout_s: float = 2.0
) -> bool:
    """Wait until a run is counted completely: call it before the second snapshot.

    Parameters
    ----------
    connection
        To the measured database, in autocommit.
    transactions
        What the run did, as the load generator counted it.
    before
        The snapshot before the run. Clients that were there then are not waited for.
    timeout_s
        How long to wait, in seconds.

    Returns
    -------
    bool
        Whether all other clients are gone and that many transactions were counted. False when the
        time ran out: the second snapshot may then lack the end of the run.
    """
    deadline = time.monotonic() + timeout_s
    clear = has(connection.info.server_version, "pg_stat_clear_snapshot")
    # All looks in one transaction, so that looking does not add to what is counted.
    with connection.transaction() if clear else nullcontext():
        while not _complete(connection, transactions, before):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
            if clear:
                connection.execute("SELECT pg_stat_clear_snapshot()", prepare=False)
    return True


def _complete(connection: Connection, transactions: int, before: Counters) -> bool:
    if _clients(connection) - before.clients:
        return False
    found = {"pg_stat_database": _fetch(connection, "pg_stat_database")}
    now = figures_of(connection.info.server_version, found)
    ends = (("database", "xact_commit"), ("database", "xact_rollback"))
    grown = sum((now[end].value or 0) - (before.figures[end].value or 0) for end in ends)
    return grown >= transactions


def difference(before: Counters, after: Counters) -> dict[str, Any]:
    """Subtract two snapshots of one database.

    Returns
    -------
    dict
        Plain JSON, as the head of this module describes it. A figure is None when either snapshot
        lacks it, when the server was restarted or the view was reset in between, and when it or
        another of the same view or table went backwards, which is what a crash leaves behind.
    """
    server = {
        "version_num": after.server_version,
        "started_epoch_s": after.started_epoch_s,
        "stats_reset": dict(after.resets),
    }
    result: dict[str, Any] = {"server": server, "tables": {}, "resets": [], "reasons": {}}
    invalid = _invalid_origins(before, after)
    result["resets"] = list(dict.fromkeys(invalid.values()))
    for path in dict.fromkeys([*before.figures, *after.figures]):
        old = before.figures.get(path, Figure(reason="not in the snapshot before the run"))
        new = after.figures.get(path, Figure(reason="not in the snapshot after the run"))
        if _is_pair(path):
            _put(result, (*path, "before"), old.value, old.reason)
            _put(result, (*path, "after"), new.value, new.reason)
        else:
            reason = _why_not(old, new) or invalid.get(new.origin, "")
            _put(result, path, None if reason else _change(old, new), reason)
    return result


def resets(difference: Mapping[str, Any]) -> list[str]:
    """List what makes a difference invalid: a restart, a reset; empty for a sound one."""
    return list(difference.get("resets", []))


def _is_pair(path: FigurePath) -> bool:
    return path[0] == "sizes_bytes" or path[-1] in ("n_live_tup", "n_dead_tup")


def _change(old: Figure, new: Figure) -> float:
    return (new.value or 0) - (old.value or 0)


def _why_not(old: Figure, new: Figure) -> str:
    if old.reason or new.reason:
        return new.reason or old.reason
    return "" if old.origin == new.origin else "the table was dropped and created again"


def _invalid_origins(before: Counters, after: Counters) -> dict[Origin, str]:
    """Find the views and tables that cannot be subtracted, with the reason."""
    invalid = {}
    for path, new in after.figures.items():
        old, view = before.figures.get(path), new.origin[0]
        if old is None or _is_pair(path) or _why_not(old, new):
            continue
        if before.started_epoch_s != after.started_epoch_s:
            invalid[new.origin] = "the server was restarted between the snapshots"
        elif before.resets.get(view) != after.resets.get(view):
            invalid[new.origin] = f"{view} was reset between the snapshots"
        elif _change(old, new) < 0:
            invalid[new.origin] = f"{view} went backwards between the snapshots"
    return invalid


def _put(result: dict[str, Any], path: FigurePath, value: float | None, reason: str) -> None:
    *parents, last = path
    inner = result
    for name in parents:
        inner = inner.setdefault(name, {})
    inner[last] = value
    if value is None:
        result["reasons"][".".join(path)] = reason


# Reading


def _clients(connection: Connection) -> set[int]:
    return {row["pid"] for row in rows_of({"": _fetch(connection, "clients")}, "")}


def _fetch(connection: Connection, name: str) -> Found:
    """Run one of the queries; a text is the reason why there are no rows."""
    with connection.cursor(row_factory=dict_row) as cursor:
        # Times stay text, only compared for equality: psycopg cannot read every DateStyle.
        cursor.adapters.register_loader("timestamptz", TextLoader)
        sql = queries(connection.info.server_version)[name]
        try:
            rows = cursor.execute(sql, prepare=False).fetchall()
        except (psycopg.ProgrammingError, psycopg.errors.ObjectNotInPrerequisiteState) as error:
            return error.diag.message_primary or str(error)
    return [{column: _plain(value) for column, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):  # text of a database with the encoding SQL_ASCII
        return value.decode(errors="replace")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
