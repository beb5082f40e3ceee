"""Clusters with pgbench's tables: loaded once, checked, kept in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import WorkloadError
from benchkit.postgres import workplace
from benchkit.postgres.builds import Build
from benchkit.postgres.server import Server
from benchkit.workload import load
from benchkit.workload.load import (
    count_rows,
    forget_loaded,
    is_loaded,
    loaded_places,
    loaded_template,
)
from benchkit.workload.pgbench import Workload

pytestmark = pytest.mark.server

SCALE_1 = Workload(scale=1, duration_s=1)


def template(build: Build, sql: Sequence[str] = ()) -> tuple[Path, dict[str, Any]]:
    return loaded_template(build, build, SCALE_1, sql=sql, checksums=False)


def rows(build: Build, data_dir: Path, query: str) -> list[dict[str, Any]]:
    with Server(build, template=data_dir) as server, server.connect() as connection:
        return connection.execute(query.encode()).fetchall()


def test_a_template_is_loaded_once(build: Build) -> None:
    data_dir, description = template(build)
    assert description["contents"]["scale"] == 1
    assert description["loaded"]["seconds"] > 0
    assert (data_dir / "benchkit.conf").read_text() == ""
    assert not (data_dir / "postmaster.pid").exists()
    marker = (data_dir.parent / "template.json").stat()
    assert template(build) == (data_dir, description)
    assert (data_dir.parent / "template.json").stat().st_mtime_ns == marker.st_mtime_ns


def test_sql_makes_a_template_of_its_own(build: Build) -> None:
    plain, _ = template(build)
    sql = ["CREATE INDEX extra ON pgbench_accounts (abalance)", "CREATE VIEW v AS SELECT 1; "]
    changed, description = template(build, sql)
    assert changed != plain
    assert description["contents"]["sql"] == sql
    query = (
        "SELECT count(*) AS n FROM pgbench_accounts UNION ALL"
        " SELECT count(*) FROM pg_indexes WHERE indexname = 'extra'"
    )
    assert [row["n"] for row in rows(build, changed, query)] == [100_000, 1]
    assert [row["n"] for row in rows(build, plain, query)] == [100_000, 0]


def test_what_is_loaded_is_known(build: Build) -> None:
    template(build)
    workload = Workload(scale=1, clients=1, duration_s=1)
    assert is_loaded(build, build, workload, checksums=False)
    assert not is_loaded(build, build, replace(workload, scale=70), checksums=False)
    assert not is_loaded(build, build, workload, sql=["SELECT 'never run'"], checksums=False)


def test_sql_that_fails_leaves_no_template(build: Build) -> None:
    template(build)
    place = workplace.home() / "templates"
    before = set(place.iterdir())
    for _ in range(2):
        with pytest.raises(WorkloadError) as caught:
            template(build, ["CREATE INDEX ok ON pgbench_accounts (bid)", "SELECT no_column"])
        assert "SQL to run after loading failed" in caught.value.message
        assert caught.value.evidence.startswith("SELECT no_column\n")
    assert set(place.iterdir()) == before


@pytest.mark.parametrize(
    ("accounts", "index", "complaint"),
    [
        (99_999, True, "t_accounts holds 99,999 rows after loading, not 100,000"),
        (100_000, False, "t_accounts has no index after loading"),
        (100_000, True, ""),
    ],
)
def test_a_load_that_ended_half_way_is_found(
    server: Server, accounts: int, index: bool, complaint: str
) -> None:
    names = {noun: f"t_{noun}" for noun in ("accounts", "branches", "tellers")}
    with server.connect() as connection:
        try:
            for name, count in zip(names.values(), (accounts, 1, 10), strict=True):
                connection.execute(
                    f"CREATE TABLE {name} AS SELECT * FROM generate_series(1, {count}) id".encode()  # noqa: S608
                )
            if index:
                connection.execute("CREATE INDEX ON t_accounts (id)")
            assert count_rows(connection, "t_accounts") == accounts
            if complaint:
                with pytest.raises(WorkloadError, match=complaint):
                    load._check_tables(connection, SCALE_1, names)
            else:
                load._check_tables(connection, SCALE_1, names)
        finally:
            for name in names.values():
                connection.execute(f"DROP TABLE IF EXISTS {name}".encode())


def test_another_load_is_another_template_and_can_be_forgotten(build: Build) -> None:
    kept, _ = template(build)
    asked: dict[str, Any] = {"checksums": False, "load_name": "another"}
    assert not is_loaded(build, build, SCALE_1, **asked)
    fresh, description = loaded_template(build, build, SCALE_1, **asked)
    assert fresh != kept
    assert description["contents"]["load_name"] == "another"
    assert is_loaded(build, build, SCALE_1, **asked)
    assert loaded_places(build, build, SCALE_1, **asked) == [fresh.parent]
    forget_loaded(build, build, SCALE_1, **asked)
    assert not fresh.exists()
    assert kept.exists()
