from __future__ import annotations

from typing import Any

import pytest

from benchkit.errors import FormatError
from benchkit.measure import views

VERSIONS = (80223, 90604, 140023, 160014, 170010, 180006)
MEBIBYTE = 1 << 20


def database(version: int) -> dict[str, Any]:
    row = {"datid": 5, "datname": "bench", "numbackends": 1}
    row |= {"xact_commit": 10, "xact_rollback": 1, "blks_read": 20, "blks_hit": 30}
    if version >= 90000:
        row |= {"tup_returned": 1, "tup_fetched": 2, "tup_inserted": 3, "tup_updated": 4}
        row |= {"tup_deleted": 5, "temp_files": 6, "temp_bytes": 7, "deadlocks": 8}
        row |= {"blk_read_time": 0.0, "stats_reset": None}
    return row


def table(version: int) -> dict[str, Any]:
    row: dict[str, Any] = {"relid": 16385, "schemaname": "public", "relname": "pgbench_accounts"}
    row |= {"seq_scan": 1, "seq_tup_read": 9, "idx_scan": 2, "idx_tup_fetch": 9}
    row |= {"n_tup_ins": 3, "n_tup_upd": 4, "n_tup_del": 5}
    if version >= 90000:
        row |= {"n_tup_hot_upd": 6, "n_live_tup": 7, "n_dead_tup": 8, "last_vacuum": None}
        row |= {"vacuum_count": 1, "autovacuum_count": 2, "analyze_count": 3}
        row |= {"autoanalyze_count": 4}
    if version >= 160000:
        row |= {"n_tup_newpage_upd": 11}
    return row


def checkpoints(version: int) -> dict[str, views.Found]:
    if version < 80300:
        return {}
    kept = {"buffers_clean": 3, "maxwritten_clean": 0, "buffers_alloc": 4, "stats_reset": "then"}
    if version < 170000:
        moved = {"checkpoints_timed": 1, "checkpoints_req": 2, "checkpoint_write_time": 0.5}
        moved |= {"buffers_checkpoint": 5, "buffers_backend": 6, "buffers_backend_fsync": 0}
        return {"pg_stat_bgwriter": [moved | kept]}
    row = {"num_timed": 1, "num_requested": 2, "buffers_written": 5, "stats_reset": "then"}
    row |= {"num_done": 3, "slru_written": 1} if version >= 180000 else {}
    return {"pg_stat_bgwriter": [kept], "pg_stat_checkpointer": [row]}


def wal(version: int) -> dict[str, views.Found]:
    if version < 140000:
        return {}
    row = {"wal_records": 100, "wal_fpi": 10, "wal_bytes": 5000, "wal_buffers_full": 1}
    row |= {"wal_write": 1, "wal_sync": 1} if version < 180000 else {}
    return {"pg_stat_wal": [row | {"stats_reset": "then"}]}


def io(version: int) -> dict[str, views.Found]:
    if version < 160000:
        return {}

    def row(backend: str, kind: str, writes: int | None, extends: int | None) -> views.Row:
        counts = {"writes": writes, "extends": extends, "evictions": writes}
        if version >= 180000:  # operations of 4 blocks each
            counts = {name: count and count // 4 for name, count in counts.items()}
            counts |= {"evictions": writes}
            counts |= {"write_bytes": writes and writes * 8192}
            counts |= {"extend_bytes": extends and extends * 8192}
        return {"backend_type": backend, "object": kind, "context": "normal", **counts}

    rows = [
        row("client backend", "relation", 40, 8),
        row("autovacuum worker", "relation", 4, 0),
        row("background writer", "relation", 100, None),
        row("checkpointer", "relation", 100, None),
        row("client backend", "temp relation", 100, 100),
    ]
    rows += [row("client backend", "wal", 100, None)] if version >= 180000 else []
    return {"pg_stat_io": rows}


def everything(version: int, **settings: str) -> dict[str, views.Found]:
    """Rows as a server of this version gives them."""
    defaults = {"block_size": "8192"}
    defaults |= (
        {"track_counts": "on"}
        if version >= 80300
        else {"stats_row_level": "on", "stats_block_level": "on"}
    )
    size = {"relid": 16385, "pg_relation_size": MEBIBYTE, "index_size": 2 * MEBIBYTE}
    size |= {"pg_table_size": 3 * MEBIBYTE} if version >= 90000 else {}
    return {
        "settings": [
            {"name": name, "setting": value} for name, value in (defaults | settings).items()
        ],
        "server": [{"database": 9 * MEBIBYTE, "started_epoch_s": 1.5}],
        "clients": [],
        "pg_stat_database": [database(version)],
        "pg_stat_user_tables": [table(version)],
        "sizes": [size],
        "WAL position": [{"location": "1/10"}],
        **checkpoints(version),
        **wal(version),
        **io(version),
    }


def values(version: int, **settings: str) -> dict[str, Any]:
    figures = views.figures_of(version, everything(version, **settings))
    return {".".join(path): figure.value for path, figure in figures.items()}


def reasons(version: int, **settings: str) -> dict[str, str]:
    figures = views.figures_of(version, everything(version, **settings))
    return {".".join(path): figure.reason for path, figure in figures.items() if figure.reason}


@pytest.mark.parametrize("version", VERSIONS)
def test_names_are_the_same_for_every_version(version: int) -> None:
    assert list(values(version)) == list(values(180006))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_figure_has_either_a_value_or_a_reason(version: int) -> None:
    why_not = reasons(version)
    assert {name for name, value in values(version).items() if value is None} == set(why_not)


def test_everything_is_there_on_18() -> None:
    assert reasons(180006) == {}


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_checkpoint_columns_keep_their_meaning_when_they_move(version: int) -> None:
    found = values(version)
    assert (found["checkpoints.timed"], found["checkpoints.requested"]) == (1, 2)
    assert found["buffers.written_by_checkpoints"] == 5
    assert (found["buffers.written_by_bgwriter"], found["buffers.allocated"]) == (3, 4)


@pytest.mark.parametrize(
    ("version", "blocks"),
    [(80223, None), (90604, 6), (140023, 6), (160014, 52), (170010, 52), (180006, 52)],
)
def test_blocks_written_by_backends(version: int, blocks: int | None) -> None:
    assert values(version)["buffers.written_by_backends"] == blocks


@pytest.mark.parametrize(
    ("version", "blocks"), [(140023, None), (160014, 244), (170010, 244), (180006, 244)]
)
def test_evictions_of_relations_by_anyone(version: int, blocks: int | None) -> None:
    assert values(version)["buffers.evicted"] == blocks


def test_8_2_tells_since_when_the_missing_exists() -> None:
    found = reasons(80223)
    assert found["wal.records"] == "pg_stat_wal.wal_records exists from PostgreSQL 14 on"
    assert found["checkpoints.timed"].endswith("checkpoints_timed exists from PostgreSQL 8.3 on")
    assert found["database.deadlocks"].endswith("deadlocks exists from PostgreSQL 9.2 on")
    hot = "tables.pgbench_accounts.n_tup_hot_upd"
    assert found[hot] == "pg_stat_user_tables.n_tup_hot_upd exists from PostgreSQL 8.3 on"
    toast = "sizes_bytes.tables_with_toast.pgbench_accounts"
    assert found[toast] == "sizes.pg_table_size exists from PostgreSQL 9.0 on"


def test_8_2_without_row_statistics_counts_no_rows() -> None:
    found = values(80223, stats_row_level="off")
    assert found["tables.pgbench_accounts.n_tup_upd"] is None
    assert found["database.blks_hit"] == 30
    assert found["sizes_bytes.tables.pgbench_accounts"] == MEBIBYTE
    why_not = reasons(80223, stats_row_level="off")
    assert why_not["tables.pgbench_accounts.n_tup_upd"] == "stats_row_level is off"


def test_8_2_without_block_statistics_counts_no_blocks() -> None:
    found = reasons(80223, stats_block_level="off")
    assert found["database.blks_hit"] == "stats_block_level is off"
    assert values(80223, stats_block_level="off")["database.xact_commit"] == 10


def test_track_counts_off_leaves_transactions_and_wal() -> None:
    found = values(180006, track_counts="off")
    assert found["database.xact_commit"] == 10
    assert found["wal.records"] == 100
    switched_off = ("database.tup_updated", "database.temp_bytes", "database.deadlocks")
    assert {found[name] for name in switched_off} == {None}
    assert found["tables.pgbench_accounts.n_dead_tup"] is None


def test_a_refused_query_costs_only_its_own_figures() -> None:
    rows = everything(180006)
    rows["WAL position"] = "recovery is in progress"
    figures = views.figures_of(180006, rows)
    assert figures["wal", "bytes"].reason == "WAL position: recovery is in progress"
    assert figures["wal", "records"].value == 100


def test_a_null_is_no_zero() -> None:
    rows = everything(180006)
    rows["pg_stat_user_tables"] = [table(180006) | {"idx_scan": None}]
    figure = views.figures_of(180006, rows)["tables", "pgbench_accounts", "idx_scan"]
    assert (figure.value, figure.reason) == (None, "pg_stat_user_tables.idx_scan is null")


def test_a_column_that_should_be_there_is_reported() -> None:
    rows = everything(180006)
    rows["pg_stat_wal"] = [{"wal_records": 1}]
    figure = views.figures_of(180006, rows)["wal", "full_page_images"]
    assert figure.reason == "pg_stat_wal.wal_fpi is not there on this server"


def test_tables_of_other_schemas_carry_the_schema() -> None:
    rows = everything(180006)
    rows["pg_stat_user_tables"] = [table(180006) | {"schemaname": "app"}]
    assert ("tables", "app.pgbench_accounts", "n_tup_upd") in views.figures_of(180006, rows)


def test_tables_are_reset_with_their_database() -> None:
    rows = everything(180006)
    rows["pg_stat_database"] = [database(180006) | {"stats_reset": "today"}]
    found = views.resets_of(rows)
    assert found["pg_stat_user_tables"] == found["pg_stat_database"] == "today"
    assert found["pg_stat_wal"] == "then"


@pytest.mark.parametrize(
    ("version", "location", "position"),
    [
        (80223, "0/FF000000", 0xFF000000),
        (90200, "2/10", 2 * 0xFF000000 + 0x10),
        (90300, "2/10", 2 * 2**32 + 0x10),
        (180006, "16/B374D848", 0x16B374D848),
    ],
)
def test_wal_positions_are_bytes(version: int, location: str, position: int) -> None:
    assert views.wal_position(location, version) == position


@pytest.mark.parametrize("location", ["", "16", "G/0", "1/2/3", "1/123456789"])
def test_what_is_no_wal_position_is_refused(location: str) -> None:
    with pytest.raises(FormatError, match="no WAL position"):
        views.wal_position(location, 180006)


@pytest.mark.parametrize("version", VERSIONS)
def test_queries_ask_only_for_views_that_exist(version: int) -> None:
    assert set(views.queries(version)) == set(everything(version))


@pytest.mark.parametrize(
    ("version", "name", "word"),
    [
        (80223, "clients", "procpid"),
        (90604, "clients", "query NOT LIKE"),
        (180006, "clients", "backend_type"),
        (90604, "WAL position", "pg_current_xlog_insert_location"),
        (100000, "WAL position", "pg_current_wal_insert_lsn"),
        (90000, "sizes", "pg_table_size"),
    ],
)
def test_queries_use_the_words_of_the_version(version: int, name: str, word: str) -> None:
    assert word in views.queries(version)[name]
