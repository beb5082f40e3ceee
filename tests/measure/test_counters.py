from __future__ import annotations

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from benchkit.errors import InputError
from benchkit.measure import counters
from benchkit.measure.views import Found

if TYPE_CHECKING:
    import psycopg

    from benchkit.postgres.server import Server


def snapshot(**changes: Any) -> counters.Counters:
    """Make a snapshot of a server of version 18 with a single table."""
    row = {
        "relid": changes.get("relid", 1),
        "schemaname": "public",
        "relname": changes.get("relname", "t"),
        "n_tup_upd": changes.get("updates", 10),
        "n_dead_tup": changes.get("dead", 5),
    }
    found: dict[str, Found] = {
        "server": [{"database": 1000, "started_epoch_s": changes.get("started", 1.0)}],
        "clients": [{"pid": pid} for pid in changes.get("clients", ())],
        "pg_stat_database": [
            {
                "xact_commit": changes.get("commits", 100),
                "xact_rollback": 0,
                "blks_hit": 5,
                "stats_reset": changes.get("database_reset"),
            }
        ],
        "pg_stat_wal": [{"wal_records": 7, "stats_reset": changes.get("wal_reset", "then")}],
        "pg_stat_user_tables": [row],
        "sizes": [{"relid": row["relid"], "pg_relation_size": changes.get("size", 8192)}],
        "WAL position": [{"location": changes.get("location", "0/100")}],
    }
    return counters.snapshot(180006, found)


def test_difference_is_what_was_added() -> None:
    after = snapshot(commits=600, updates=510, dead=50, size=16384, location="0/1100")
    found = counters.difference(snapshot(), after)
    assert found["database"]["xact_commit"] == 500
    assert found["database"]["blks_hit"] == 0
    assert found["tables"]["t"]["n_tup_upd"] == 500
    assert found["tables"]["t"]["n_dead_tup"] == {"before": 5, "after": 50}
    assert found["wal"]["bytes"] == 4096
    assert found["sizes_bytes"]["tables"]["t"] == {"before": 8192, "after": 16384}
    assert found["sizes_bytes"]["database"] == {"before": 1000, "after": 1000}
    assert counters.resets(found) == []


def test_difference_is_plain_json_with_a_reason_for_every_none() -> None:
    found = counters.difference(snapshot(), snapshot())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert set(empty(found)) == set(found["reasons"])
    assert all(found["reasons"].values())


def empty(inner: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted path of every None among the figures."""
    for name, value in inner.items():
        if not above and name in ("server", "reasons", "resets"):
            continue
        if isinstance(value, dict):
            yield from empty(value, (*above, name))
        elif value is None:
            yield ".".join((*above, name))


def test_restart_makes_every_difference_none_but_not_the_sizes() -> None:
    found = counters.difference(snapshot(), snapshot(commits=900, started=2.0))
    reason = "the server was restarted between the snapshots"
    assert found["database"]["xact_commit"] is None
    assert found["reasons"]["database.xact_commit"] == reason
    assert found["wal"]["bytes"] is None
    assert found["sizes_bytes"]["tables"]["t"]["after"] == 8192
    assert counters.resets(found) == [reason]


def test_reset_of_one_view_leaves_the_others() -> None:
    found = counters.difference(snapshot(), snapshot(wal_reset="now"))
    assert found["wal"]["records"] is None
    assert found["wal"]["bytes"] == 0
    assert found["database"]["xact_commit"] == 0
    assert counters.resets(found) == ["pg_stat_wal was reset between the snapshots"]


def test_reset_of_the_database_resets_its_tables() -> None:
    found = counters.difference(snapshot(), snapshot(database_reset="now", updates=20))
    assert found["tables"]["t"]["n_tup_upd"] is None
    assert "was reset" in found["reasons"]["tables.t.n_tup_upd"]


def test_one_figure_going_backwards_spoils_its_view() -> None:
    found = counters.difference(snapshot(), snapshot(commits=3))
    assert found["database"]["blks_hit"] is None
    assert found["reasons"]["database.blks_hit"].startswith("pg_stat_database went backwards")
    assert found["tables"]["t"]["n_tup_upd"] == 0


def test_fewer_dead_rows_are_no_reset() -> None:
    found = counters.difference(snapshot(dead=50), snapshot(dead=0))
    assert found["tables"]["t"]["n_tup_upd"] == 0
    assert counters.resets(found) == []


def test_a_table_created_again_is_not_subtracted() -> None:
    found = counters.difference(snapshot(), snapshot(relid=2, updates=11))
    reason = "the table was dropped and created again"
    assert found["tables"]["t"]["n_tup_upd"] is None
    assert found["reasons"]["tables.t.n_tup_upd"] == reason


def test_tables_that_come_or_go_have_no_difference() -> None:
    found = counters.difference(snapshot(relname="old"), snapshot(relname="new", relid=2))
    assert found["reasons"]["tables.old.n_tup_upd"] == "not in the snapshot after the run"
    assert found["reasons"]["tables.new.n_tup_upd"] == "not in the snapshot before the run"
    assert found["sizes_bytes"]["tables"]["new"] == {"before": None, "after": 8192}


def test_resets_of_a_run_that_was_never_counted() -> None:
    assert counters.resets({"reasons": {"*": "the server went down"}}) == []


@pytest.mark.parametrize(
    ("value", "plain"),
    [(Decimal("12"), 12), (Decimal("1.5"), 1.5), (b"caf\xe9", "caf\ufffd"), (None, None)],
)
def test_values_become_plain_json(value: object, plain: object) -> None:
    found = counters._plain(value)
    assert found == plain
    assert type(found) is type(plain)


# With a server


@pytest.fixture
def table(server: Server) -> Iterator[str]:
    """Make a table with one row and an index on the column that is updated."""
    with server.connect() as connection:
        connection.execute("CREATE TABLE counted (id int PRIMARY KEY, value int)")
        connection.execute("CREATE INDEX ON counted (value)")
        connection.execute("INSERT INTO counted VALUES (1, 0)")
    yield "counted"
    with server.connect() as connection:
        connection.execute("DROP TABLE counted")


def update(connection: psycopg.Connection[Any], times: int) -> None:
    for _ in range(times):
        connection.execute("UPDATE counted SET value = value + 1")


@pytest.mark.server
def test_a_run_is_counted_completely(server: Server, table: str) -> None:
    with server.connect() as connection:
        counters.flush_statistics(connection)
        before = counters.read_counters(connection)
        with server.connect() as worker:
            update(worker, 100)
        assert counters.settle(connection, 100, before)
        found = counters.difference(before, counters.read_counters(connection))
    assert 100 <= found["database"]["xact_commit"] <= 130
    assert found["database"]["tup_updated"] == 100
    assert found["tables"][table]["n_tup_upd"] == 100
    assert found["tables"][table]["n_tup_hot_upd"] == 0
    assert found["wal"]["records"] >= 200
    assert found["wal"]["bytes"] >= found["wal"]["record_bytes"] > 0
    assert found["sizes_bytes"]["indexes"][table]["after"] >= 2 * 8192
    assert counters.resets(found) == []
    json.dumps(found, allow_nan=False)


@pytest.mark.server
def test_what_was_done_before_is_not_counted_with_the_run(server: Server, table: str) -> None:
    with server.connect() as connection:
        update(connection, 50)
        counters.flush_statistics(connection)
        before = counters.read_counters(connection)
        time.sleep(1.1)  # sessions that were not asked to flush do so within a second
        found = counters.difference(before, counters.read_counters(connection))
    assert found["tables"][table]["n_tup_upd"] == 0


@pytest.mark.server
def test_settle_waits_for_a_client_until_the_time_is_out(server: Server) -> None:
    with server.connect() as connection:
        before = counters.read_counters(connection)
        with server.connect() as late:
            late.execute("SELECT 1")
            assert not counters.settle(connection, 0, before, timeout_s=0.1)
        assert counters.settle(connection, 0, before)


@pytest.mark.server
def test_settle_does_not_wait_for_clients_that_were_there_before(server: Server) -> None:
    with server.connect() as connection, server.connect() as bystander:
        bystander.execute("SELECT 1")
        before = counters.read_counters(connection)
        assert counters.settle(connection, 0, before, timeout_s=0.1)


@pytest.mark.server
def test_settle_misses_transactions_that_were_never_made(server: Server) -> None:
    with server.connect() as connection:
        before = counters.read_counters(connection)
        assert not counters.settle(connection, 1000, before, timeout_s=0.1)


@pytest.mark.server
def test_only_autocommit_connections_are_read(server: Server) -> None:
    with server.connect() as connection:
        connection.autocommit = False
        with pytest.raises(InputError, match="1 fault") as caught:
            counters.read_counters(connection)
    assert "autocommit" in str(caught.value)


@pytest.mark.server
def test_reset_on_a_server_is_noticed(server: Server, table: str) -> None:
    with server.connect() as connection:
        before = counters.read_counters(connection)
        connection.execute("SELECT pg_stat_reset()")
        found = counters.difference(before, counters.read_counters(connection))
    assert found["tables"][table]["n_tup_ins"] is None
    assert "pg_stat_database was reset between the snapshots" in counters.resets(found)


@pytest.mark.server
def test_foreign_date_styles_are_no_obstacle(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("SET DateStyle = German")
        counters.read_counters(connection)
