"""Where each version of PostgreSQL keeps what it counts, and how its rows become figures.

All version facts stand in the tables at the top. A variant holds from its version on until the
next one replaces it. Views are read with ``SELECT *`` and columns are taken where they are, so that
one missing column never loses the others. Sources: the chapter "Monitoring Database Activity" of
each version's documentation, pgstatfuncs.c and xlogfuncs.c; for 8.2 to 9.6 also the columns that
those servers show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, LiteralString, TypeVar

from benchkit.errors import FormatError
from benchkit.postgres.versions import Version

Variant = TypeVar("Variant")
FigurePath = tuple[str, ...]
Row = dict[str, Any]
# What a query gave: rows, or the reason why it gave none.
Found = list[Row] | str

QUERIES: dict[str, dict[int, LiteralString]] = {
    "settings": {
        80200: "SELECT name, setting FROM pg_settings WHERE name IN"
        " ('block_size', 'stats_block_level', 'stats_row_level', 'stats_start_collector',"
        " 'track_counts')"
    },
    "server": {
        80200: "SELECT pg_database_size(current_database()) AS database,"
        " extract(epoch FROM pg_postmaster_start_time())::float8 AS started_epoch_s"
    },
    "clients": {
        80200: "SELECT procpid AS pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND procpid <> pg_backend_pid() AND current_query NOT LIKE 'autovacuum:%'",
        90200: "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND query NOT LIKE 'autovacuum:%'",
        # Plain users see NULL as the type of other users' backends.
        100000: "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND"
        " pid <> pg_backend_pid() AND coalesce(backend_type, 'client backend') = 'client backend'",
    },
    "pg_stat_database": {
        80200: "SELECT * FROM pg_stat_database WHERE datname = current_database()"
    },
    "pg_stat_user_tables": {
        80200: "SELECT * FROM pg_stat_user_tables ORDER BY schemaname, relname"
    },
    "sizes": {
        80200: "SELECT relid, pg_relation_size(relid) AS pg_relation_size,"
        " coalesce((SELECT sum(pg_relation_size(indexrelid)) FROM pg_index"
        " WHERE indrelid = relid), 0) AS index_size FROM pg_stat_user_tables",
        90000: "SELECT relid, pg_relation_size(relid) AS pg_relation_size,"
        " coalesce((SELECT sum(pg_relation_size(indexrelid)) FROM pg_index"
        " WHERE indrelid = relid), 0) AS index_size, pg_table_size(relid) AS pg_table_size"
        " FROM pg_stat_user_tables",
    },
    "pg_stat_bgwriter": {80300: "SELECT * FROM pg_stat_bgwriter"},
    "pg_stat_wal": {140000: "SELECT * FROM pg_stat_wal"},
    "pg_stat_io": {160000: "SELECT * FROM pg_stat_io"},
    "pg_stat_checkpointer": {170000: "SELECT * FROM pg_stat_checkpointer"},
    # The insert position counts what is generated, also before it is written.
    "WAL position": {
        80200: "SELECT pg_current_xlog_insert_location()::text AS location",
        100000: "SELECT pg_current_wal_insert_lsn()::text AS location",
    },
}
# From which version on a column of the same name is there.
DATABASE_COLUMNS = {
    80200: ("xact_commit", "xact_rollback", "blks_read", "blks_hit"),
    80300: ("tup_returned", "tup_fetched", "tup_inserted", "tup_updated", "tup_deleted"),
    90200: ("temp_files", "temp_bytes", "deadlocks"),
}
TABLE_COLUMNS = {
    80200: ("seq_scan", "idx_scan", "n_tup_ins", "n_tup_upd", "n_tup_del"),
    80300: ("n_tup_hot_upd", "n_live_tup", "n_dead_tup"),
    90100: ("vacuum_count", "autovacuum_count", "analyze_count", "autoanalyze_count"),
    160000: ("n_tup_newpage_upd",),
}
SIZE_COLUMNS = {
    "tables": (80200, "pg_relation_size"),
    "tables_with_toast": (90000, "pg_table_size"),
    "indexes": (80200, "index_size"),
}
# Figure -> {version: (view, column)}.
FIGURES: dict[FigurePath, dict[int, tuple[str, str]]] = {
    **{
        ("database", column): {since: ("pg_stat_database", column)}
        for since, columns in DATABASE_COLUMNS.items()
        for column in columns
    },
    ("wal", "bytes"): {80200: ("WAL position", "bytes")},
    ("wal", "records"): {140000: ("pg_stat_wal", "wal_records")},
    ("wal", "full_page_images"): {140000: ("pg_stat_wal", "wal_fpi")},
    ("wal", "record_bytes"): {140000: ("pg_stat_wal", "wal_bytes")},
    ("wal", "buffers_full"): {140000: ("pg_stat_wal", "wal_buffers_full")},
    ("checkpoints", "timed"): {
        80300: ("pg_stat_bgwriter", "checkpoints_timed"),
        170000: ("pg_stat_checkpointer", "num_timed"),
    },
    ("checkpoints", "requested"): {
        80300: ("pg_stat_bgwriter", "checkpoints_req"),
        170000: ("pg_stat_checkpointer", "num_requested"),
    },
    # The two above count skipped checkpoints of an idle server too; only 18 tells them apart.
    ("checkpoints", "done"): {180000: ("pg_stat_checkpointer", "num_done")},
    ("buffers", "written_by_checkpoints"): {
        80300: ("pg_stat_bgwriter", "buffers_checkpoint"),
        170000: ("pg_stat_checkpointer", "buffers_written"),
    },
    ("buffers", "written_by_bgwriter"): {80300: ("pg_stat_bgwriter", "buffers_clean")},
    ("buffers", "allocated"): {80300: ("pg_stat_bgwriter", "buffers_alloc")},
    # Up to 15 the checkpointer adds these up when it next works through its queue of requests,
    # which may be after the run: the figure can be short by half of shared_buffers.
    ("buffers", "written_by_backends"): {
        80300: ("pg_stat_bgwriter", "buffers_backend"),
        160000: ("pg_stat_io", "written_by_backends"),
    },
    ("buffers", "evicted"): {160000: ("pg_stat_io", "evictions")},
    ("sizes_bytes", "database"): {80200: ("server", "database")},
}
# Setting -> (from, before, figures that it switches off). Transactions are counted all the same.
SWITCHES = {
    "stats_start_collector": (80200, 80300, ("tables.", "database.")),
    "stats_row_level": (80200, 80300, ("tables.",)),
    "stats_block_level": (80200, 80300, ("database.blks_",)),
    "track_counts": (
        80300,
        10**9,
        ("tables.", "database.blks_", "database.tup_", "database.temp_", "database.deadlocks"),
    ),
}
LOGID_BYTES = {80200: 0xFF000000, 90300: 1 << 32}  # release notes 9.3: no gap before the end


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number of a snapshot, or None with a reason.

    Attributes
    ----------
    origin
        The view, and in it the oid of the table or 0: what is reset or created anew as a whole.
    """

    value: int | float | None = None
    origin: tuple[str, int] = ("", 0)
    reason: str = ""


def queries(version: int) -> dict[str, LiteralString]:
    """Choose the statements that read everything on a server of this version, one for each name."""
    return {
        name: _variant(variants, version)
        for name, variants in QUERIES.items()
        if min(variants) <= version
    }


def figures_of(version: int, found: Mapping[str, Found]) -> dict[FigurePath, Figure]:
    """Pick every figure from what the queries gave.

    Parameters
    ----------
    version
        Of the server, as ``server_version_num``.
    found
        Name of the query -> its rows.

    Returns
    -------
    dict
        Path -> figure, the same paths for every version: section and name; for tables
        ``("tables", table, column)`` and ``("sizes_bytes", kind, table)``.

    Raises
    ------
    FormatError
        The server's WAL position is not one.
    """
    settings = {row["name"]: row["setting"] for row in rows_of(found, "settings")}
    views = _views(version, found, int(settings.get("block_size", 8192)))
    figures = {path: _pick(version, variants, views) for path, variants in FIGURES.items()}
    figures |= dict(_of_tables(version, found))
    for path, figure in figures.items():
        off = _switched_off(version, path, settings)
        if off:
            figures[path] = replace(figure, value=None, reason=off)
    return figures


def resets_of(found: Mapping[str, Found]) -> dict[str, str | None]:
    """Tell when each view was last reset, as text; None for never. Servers tell it from 9.1 on."""
    firsts = {name: row for name in found for row in rows_of(found, name)[:1]}
    resets = {name: row["stats_reset"] for name, row in firsts.items() if "stats_reset" in row}
    # pg_stat_reset() clears the tables as well, and notes it here only.
    return resets | {"pg_stat_user_tables": resets.get("pg_stat_database")}


def rows_of(found: Mapping[str, Found], name: str) -> list[Row]:
    """Take the rows of a query; none if it was not run or failed."""
    rows = found.get(name, [])
    return [] if isinstance(rows, str) else rows


def wal_position(location: str, version: int) -> int:
    """Turn a WAL position such as ``"16/B374D848"`` into bytes since the beginning.

    Raises
    ------
    FormatError
        It is no WAL position.
    """
    match = re.fullmatch(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", location)
    if match is None:
        raise FormatError(f"{location!r} is no WAL position")
    return int(match[1], 16) * _variant(LOGID_BYTES, version) + int(match[2], 16)


def _variant(variants: Mapping[int, Variant], version: int) -> Variant:
    return variants[max(since for since in variants if since <= max(version, min(variants)))]


def _views(version: int, found: Mapping[str, Found], block_bytes: int) -> dict[str, Row | str]:
    """Make one row of each query, or keep the reason why there is none."""
    views: dict[str, Row | str] = {
        name: rows if isinstance(rows, str) else rows[0] for name, rows in found.items() if rows
    }
    if rows_of(found, "pg_stat_io"):
        views["pg_stat_io"] = _io_totals(rows_of(found, "pg_stat_io"), block_bytes)
    for row in rows_of(found, "WAL position"):
        views["WAL position"] = {"bytes": wal_position(row["location"], version)}
    return views


def _io_totals(rows: list[Row], block_bytes: int) -> Row:
    """Add up I/O on relations, in blocks.

    ``written_by_backends`` counts what buffers_backend counts up to 16: every write and extension
    by a process other than the background writer and the checkpointer (ForwardSyncRequest,
    checkpointer.c). On 16, which has both, the two agree after a checkpoint.
    """
    relations = [row for row in rows if row["object"] == "relation"]  # 18 has rows for WAL too
    cleaners = ("background writer", "checkpointer")
    backends = [row for row in relations if row["backend_type"] not in cleaners]
    return {
        "evictions": sum(row["evictions"] or 0 for row in relations),
        "written_by_backends": sum(_written_blocks(row, block_bytes) for row in backends),
    }


def _written_blocks(row: Row, block_bytes: int) -> int:
    if "write_bytes" in row:  # from 18 on, where one operation may cover many blocks
        return int((row["write_bytes"] or 0) + (row["extend_bytes"] or 0)) // block_bytes
    return int((row["writes"] or 0) + (row["extends"] or 0))


def _of_tables(version: int, found: Mapping[str, Found]) -> Iterator[tuple[FigurePath, Figure]]:
    sizes = {row["relid"]: row for row in rows_of(found, "sizes")}
    for row in rows_of(found, "pg_stat_user_tables"):
        schema, table, oid = row["schemaname"], row["relname"], row["relid"]
        shown = table if schema == "public" else f"{schema}.{table}"
        views = {"pg_stat_user_tables": row, "sizes": sizes.get(oid, {})}
        for since, columns in TABLE_COLUMNS.items():
            for name in columns:
                where = {since: ("pg_stat_user_tables", name)}
                yield ("tables", shown, name), _pick(version, where, views, oid)
        for kind, (since, name) in SIZE_COLUMNS.items():
            where = {since: ("sizes", name)}
            yield ("sizes_bytes", kind, shown), _pick(version, where, views, oid)


def _pick(
    version: int,
    variants: Mapping[int, tuple[str, str]],
    views: Mapping[str, Row | str],
    oid: int = 0,
) -> Figure:
    view, column = _variant(variants, version)
    row, origin = views.get(view, {}), (view, oid)
    if isinstance(row, str):
        return Figure(origin=origin, reason=f"{view}: {row}")
    if row.get(column) is not None:
        return Figure(value=row[column], origin=origin)
    if version < min(variants):
        major = Version(number=min(variants), text="").major
        return Figure(origin=origin, reason=f"{view}.{column} exists from PostgreSQL {major} on")
    problem = "is null" if column in row else "is not there on this server"
    return Figure(origin=origin, reason=f"{view}.{column} {problem}")


def _switched_off(version: int, path: FigurePath, settings: Mapping[str, str]) -> str:
    for setting, (since, until, prefixes) in SWITCHES.items():
        concerned = since <= version < until and ".".join(path).startswith(prefixes)
        if concerned and settings.get(setting) == "off":
            return f"{setting} is off"
    return ""
