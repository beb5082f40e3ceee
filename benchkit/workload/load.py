"""Clusters with pgbench's tables: loaded once, checked, kept in the cache."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg

from benchkit.errors import WorkloadError
from benchkit.postgres import cluster, workplace
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.server import ServerProcess, connect
from benchkit.postgres.settings import Value, catalogue, render
from benchkit.workload.pgbench import Workload, load_arguments, tables

# For loading only: the template is synced as a whole before it gets its name, and without WAL for
# the bulk load its clone is small.
_LOADING: dict[str, Value] = {
    "wal_level": "minimal",
    "max_wal_senders": 0,
    "fsync": False,
    "autovacuum": False,
    "maintenance_work_mem": "256MB",
}


def loaded_template(
    build: Build,
    client: Build,
    workload: Workload,
    *,
    sql: Sequence[str] = (),
    checksums: bool,
    load_name: str = "",
) -> tuple[Path, dict[str, Any]]:
    """Give a cluster with pgbench's tables, from the cache or loaded now.

    After loading, rows and indexes are counted (a load can end half-way with exit code 0), then
    every version gets the same preparation: vacuum, freeze, analyze, checkpoint.

    Parameters
    ----------
    sql
        Run after loading, each item by itself; the result is a template of its own.
    load_name
        Another name is another load, with files of its own.

    Returns
    -------
    tuple
        The data directory to clone, and the template's description.

    Raises
    ------
    WorkloadError
        The load failed, or the tables are not what they should be.
    """
    build, client = reachable(build), reachable(client)
    contents = _contents(client, workload, load_name=load_name)
    base = None

    def load(data_dir: Path) -> dict[str, Any]:
        return _load(build, client, workload, data_dir)

    template, description = cluster.template(
        build, contents=contents, load=load, checksums=checksums
    )
    if sql:
        base = template
        template, description = cluster.template(
            build,
            contents=_contents(client, workload, sql, load_name=load_name),
            load=lambda data_dir: _run_sql(build, data_dir, sql),
            checksums=checksums,
            base=base,
        )
    return template, description


def _contents(
    client: Build, workload: Workload, sql: Sequence[str] = (), *, load_name: str = ""
) -> dict[str, Any]:
    """Describe what a template holds."""
    contents: dict[str, Any] = {
        "load": "pgbench",
        "client": client.pgbench and client.pgbench.text,
        "scale": workload.scale,
        "fillfactor": workload.fillfactor,
    }
    contents |= {"sql": list(sql)} if sql else {}
    return contents | ({"load_name": load_name} if load_name else {})


def loaded_places(
    build: Build,
    client: Build,
    workload: Workload,
    *,
    sql: Sequence[str] = (),
    checksums: bool,
    load_name: str = "",
) -> list[Path]:
    """List where the clusters of :func:`loaded_template` are, or would be: with and without SQL."""
    return [
        cluster.template_place(
            reachable(build),
            _contents(client, workload, after, load_name=load_name),
            checksums=checksums,
        )
        for after in dict.fromkeys([(), tuple(sql)])
    ]


def is_loaded(build: Build, client: Build, workload: Workload, **asked: Any) -> bool:
    """Tell whether :func:`loaded_template` has this cluster already; parameters as there."""
    return (loaded_places(build, client, workload, **asked)[-1] / "template.json").exists()


def forget_loaded(build: Build, client: Build, workload: Workload, **asked: Any) -> None:
    """Remove a loaded cluster from the cache; parameters as of :func:`loaded_template`."""
    for place in loaded_places(build, client, workload, **asked):
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _loading_server(
    build: Build, data_dir: Path
) -> Iterator[tuple[ServerProcess, psycopg.Connection[dict[str, Any]]]]:
    known = catalogue(build)
    settings = {name: value for name, value in _LOADING.items() if name in known}
    cluster.write_settings(data_dir, render(settings))
    with workplace.Instance() as instance:
        server = ServerProcess(build, data_dir, instance, timeout_s=120)
        try:
            with connect(build, server.host, "postgres") as connection:
                yield server, connection
                connection.execute("VACUUM FREEZE ANALYZE")
                connection.execute("CHECKPOINT")
        finally:
            server.stop("fast")
    cluster.write_settings(data_dir, "")


def _load(build: Build, client: Build, workload: Workload, data_dir: Path) -> dict[str, Any]:
    started = time.monotonic()
    version = client.pgbench or client.version
    with _loading_server(build, data_dir) as (server, connection):
        words = load_arguments(workload, version, host=server.host)
        done = client.run("pgbench", *words, directory=data_dir.parent, timeout_s=24 * 3600)
        if done.exit_code != 0:
            raise WorkloadError("pgbench could not load its tables", evidence=done.evidence)
        _check_tables(connection, workload, tables(version))
    return {"seconds": round(time.monotonic() - started, 2)}


def _check_tables(
    connection: psycopg.Connection[dict[str, Any]], workload: Workload, names: dict[str, str]
) -> None:
    expected = {"accounts": 100_000, "branches": 1, "tellers": 10}
    for noun, per_scale in expected.items():
        found = count_rows(connection, names[noun])
        if found != per_scale * workload.scale:
            raise WorkloadError(
                f"{names[noun]} holds {found:,} rows after loading, not "
                f"{per_scale * workload.scale:,}"
            )
    rows = connection.execute(
        "SELECT count(*) AS n FROM pg_indexes WHERE tablename = %s", [names["accounts"]]
    ).fetchone()
    if not rows or rows["n"] < 1:
        raise WorkloadError(f"{names['accounts']} has no index after loading")


def _run_sql(build: Build, data_dir: Path, sql: Sequence[str]) -> dict[str, Any]:
    with _loading_server(build, data_dir) as (_, connection):
        for statement in sql:
            try:
                connection.execute(statement.encode())
            except psycopg.Error as error:
                raise WorkloadError(
                    "the SQL to run after loading failed", evidence=f"{statement}\n{error}"
                ) from error
    return {}


def count_rows(connection: psycopg.Connection[dict[str, Any]], table: str) -> int:
    """Count a table's rows."""
    from psycopg import sql

    query = sql.SQL("SELECT count(*) AS n FROM {}").format(sql.Identifier(table))
    row = connection.execute(query).fetchone()
    return int(row["n"]) if row else 0
