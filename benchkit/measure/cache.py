"""Bringing the caches to the state that a trial asks for."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from benchkit.errors import BenchkitError
from benchkit.measure.repeat import Repeated
from benchkit.postgres.builds import Build
from benchkit.postgres.installation import configuration
from benchkit.postgres.versions import Version, has
from benchkit.workload.load import count_rows

Connection = psycopg.Connection[dict[str, Any]]

DROP_INTERVAL_S = 0.2
_FIRST_OF_USERS = 16384  # FirstNormalObjectId, access/transam.h


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
    _drop(directory.rglob("*"))


@contextlib.contextmanager
def kept_uncached(connection: Connection, data_dir: Path) -> Iterator[None]:
    """Keep dropping the measured tables from the page cache while the block runs.

    What is not in shared_buffers then comes from the device, as in a database much larger than
    memory. Only tables and indexes of this database that initdb did not make are dropped. Catalogs
    and transaction states stay: they are small, and in memory also where the database is not. The
    WAL is left alone: it is written, not read, and the call has the kernel begin to write out a
    file's dirty pages, which would take work off the commits.

    Parameters
    ----------
    connection
        To the measured database: tells where its files are.

    Raises
    ------
    BenchkitError
        On leaving: the dropping failed on the way, so that the run was not what was asked for.

    Notes
    -----
    A page that is read twice between two drops comes from memory the second time: a small database
    on a fast device is partly cached again in between. At scale 5 on a virtual disk, one drop a
    second left half of the reads to memory, five a second none, for 2 % of a core. Whether a run
    read from the device can be seen: ``disk_read_kb_per_transaction`` is then at least the block
    size times ``buffer_reads_per_transaction``.

    Nothing is synced in between, but where rows are changed, dirty pages of the tables are written
    out sooner than the kernel would by itself (mm/fadvise.c).
    """
    query = "SELECT oid FROM pg_database WHERE datname = current_database()"
    oids = [str(row["oid"]) for row in connection.execute(query)]
    directory = data_dir.joinpath("base", *oids)

    def drop() -> None:
        _drop(path for path in directory.iterdir() if _of_a_user(path.name))

    with Repeated(drop, first_s=0, every_s=DROP_INTERVAL_S) as drops:
        yield
    if drops.error is not None:
        raise BenchkitError(
            "the page cache was not dropped all through the run", evidence=str(drops.error)
        ) from drops.error


def _of_a_user(name: str) -> bool:
    """Tell by its number whether a relation's file was made after initdb: 16384, 16384.1, _fsm."""
    number = re.match(r"\d+", name)
    return number is not None and int(number[0]) >= _FIRST_OF_USERS


def _drop(paths: Iterable[Path]) -> None:
    for path in paths:
        # The server is at work: a file may go between the listing and here.
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                _drop_file(path)


def _drop_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
