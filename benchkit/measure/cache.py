"""Bringing the caches to the state that a trial asks for."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import psycopg

from benchkit.errors import BenchkitError
from benchkit.postgres.builds import Build
from benchkit.postgres.installation import configuration
from benchkit.postgres.versions import Version, has
from benchkit.workload.run import count_rows

Connection = psycopg.Connection[dict[str, Any]]


def can_prewarm(build: Build) -> bool:
    """Tell whether a build can read tables into its cache: from 9.4 on it needs pg_prewarm."""
    if not has(build.version, "pg_prewarm"):
        return True
    known = configuration(build.bin_dir).get("SHAREDIR")
    share = build.bin_dir.parent / "share"
    places = [Path(known)] if known else [share, share / "postgresql"]
    return any((place / "extension" / "pg_prewarm.control").exists() for place in places)


def prewarm(connection: Connection, version: Version) -> None:
    """Read the accounts and their indexes into the server's cache.

    By pg_prewarm, which is removed again. Before 9.4 by reading the table as a whole, which leaves
    a large one in the page cache only.
    """
    relations = "FROM pg_class WHERE relname LIKE %s AND relkind IN ('r', 'i')"
    pattern = ["%accounts%"]
    if has(version, "pg_prewarm"):
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm")
        query = "SELECT sum(pg_prewarm(oid::regclass)) " + relations
        connection.execute(query.encode(), pattern)
        connection.execute("DROP EXTENSION pg_prewarm")
        return
    rows = connection.execute(
        b"SELECT relname FROM pg_class WHERE relname LIKE %s AND relkind = 'r'", pattern
    )
    for row in rows.fetchall():
        count_rows(connection, row["relname"])


def drop_from_page_cache(directory: Path) -> None:
    """Ask the kernel to drop the files of a directory from its page cache; clean pages go.

    Raises
    ------
    BenchkitError
        The operating system has no such call.
    """
    os.sync()
    if not hasattr(os, "posix_fadvise"):
        raise BenchkitError("this operating system cannot drop files from its page cache")
    for path in directory.rglob("*"):
        # The server is at work: a file may go between the listing and here.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                _drop(path)


def _drop(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
