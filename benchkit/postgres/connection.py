"""Connections to benchkit's servers, the same whatever the caller's environment says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from benchkit.postgres.builds import Build
from benchkit.postgres.cluster import SUPERUSER
from benchkit.postgres.versions import FACTS, Version, has

PORT = 5432

# libpq fills in what is not said from PG* variables: a PGHOSTADDR would lead to another server, a
# PGCHANNELBINDING or PGREQUIREPEER would shut us out. What is said here cannot be filled in.
_SAID = {
    "hostaddr": "",
    "options": "",
    "sslmode": "disable",
    "gssencmode": "disable",
    "channel_binding": "disable",
    "requirepeer": "",
    "target_session_attrs": "any",
}


# What is set in every server, whatever is measured: no TCP, messages in a file that is benchkit's,
# and UTC, since the log's time stamps are compared with pgbench's.
_FIXED = {
    "listen_addresses": "",
    "logging_collector": "off",
    "log_destination": "stderr",
    "timezone": "UTC",
    "log_timezone": "UTC",
}


def start_options(version: Version, data_dir: Path, host: str) -> list[str]:
    """Write the options that every server is started with: they win over its files.

    Parameters
    ----------
    data_dir
        Said too, since a file of a cluster made elsewhere may name another one.
    host
        The directory of its Unix socket.
    """
    options = _FIXED | {"data_directory": str(data_dir), "port": str(PORT)}
    options |= dict.fromkeys(("unix_socket_directories", "unix_socket_directory"), host)
    return [
        f"--{name}={value}"
        for name, value in options.items()
        if name not in FACTS or has(version, name)
    ]


def connect(build: Build, host: str, database: str) -> psycopg.Connection[dict[str, Any]]:
    """Open a control connection to any version from 8.2 on.

    Autocommit: counters are frozen inside a transaction. Nothing is prepared: 8.2 has no
    ``DEALLOCATE ALL``, which psycopg sends after a rollback. Dates are ISO in UTC, since psycopg
    reads no others.
    """
    said: dict[str, Any] = dict(_SAID)
    if psycopg.pq.version() >= 160000:
        said["require_auth"] = ""
    connection: psycopg.Connection[dict[str, Any]] = psycopg.connect(
        host=host,
        port=PORT,
        user=SUPERUSER,
        dbname=database,
        autocommit=True,
        prepare_threshold=None,
        client_encoding="UTF8",
        application_name="benchkit",
        row_factory=dict_row,
        connect_timeout=10,
        **said,
    )
    # Said after connecting: PGDATESTYLE and PGTZ win over what is said while connecting.
    session = {"DateStyle": "ISO", "TimeZone": "UTC"}
    if has(build.version, "IntervalStyle"):
        session["IntervalStyle"] = "postgres"
    try:
        for name, value in session.items():
            connection.execute("SELECT set_config(%s, %s, false)", [name, value])
    except psycopg.Error:
        connection.close()
        raise
    return connection
