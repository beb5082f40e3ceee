"""Connections go to the server they are meant for, whatever the environment says."""

from __future__ import annotations

import datetime

import psycopg
import pytest

from benchkit.postgres.server import Server

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PGHOSTADDR", "127.0.0.1"),
        ("PGHOST", "/nowhere"),
        ("PGPORT", "1"),
        ("PGUSER", "nobody"),
        ("PGDATABASE", "nosuch"),
        ("PGOPTIONS", "-c nosuch=1"),
        ("PGCLIENTENCODING", "LATIN1"),
        ("PGCHANNELBINDING", "require"),
        ("PGREQUIREPEER", "nosuch"),
        ("PGREQUIREAUTH", "scram-sha-256"),
        ("PGSSLMODE", "verify-full"),
        ("PGGSSENCMODE", "require"),
        ("PGTARGETSESSIONATTRS", "standby"),
        ("PGAPPNAME", "other"),
        ("PGCONNECT_TIMEOUT", "0"),
    ],
)
def test_a_variable_of_the_caller_changes_nothing(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with server.connect() as connection:
        row = connection.execute(
            "SELECT current_user AS name, inet_server_addr() AS address, current_database() AS db,"
            " current_setting('client_encoding') AS encoding,"
            " current_setting('application_name') AS program"
        ).fetchone()
    assert row == {
        "name": "postgres",
        "address": None,
        "db": "postgres",
        "encoding": "UTF8",
        "program": "benchkit",
    }


def test_dates_are_what_psycopg_can_read(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATESTYLE", "German")
    monkeypatch.setenv("PGTZ", "Europe/Berlin")
    with server.connect() as connection:
        connection.execute("ALTER ROLE postgres SET IntervalStyle = sql_standard")
    try:
        with server.connect() as connection:
            row = connection.execute(
                "SELECT timestamptz '2026-11-30 12:00 UTC' AS at, interval '90 s' AS lasts"
            ).fetchone()
    finally:
        with server.connect() as connection:
            connection.execute("ALTER ROLE postgres RESET IntervalStyle")
    noon = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
    assert row == {"at": noon, "lasts": datetime.timedelta(seconds=90)}
    assert row["at"].utcoffset() == datetime.timedelta(0)


def test_every_statement_is_a_transaction_of_its_own(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("VACUUM pg_class")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_nothing_is_prepared(server: Server) -> None:
    with server.connect() as connection:
        for _ in range(10):
            connection.execute("SELECT %s::int", [1])
        row = connection.execute("SELECT count(*) AS n FROM pg_prepared_statements").fetchone()
    assert row == {"n": 0}


def test_a_database_that_is_not_there_is_an_error(server: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="nosuch"):
        server.connect("nosuch")
