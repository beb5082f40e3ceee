"""Versions of PostgreSQL, and what exists from which version to which.

Everything that depends on the version asks :func:`has`; a version number is compared nowhere else
in this room.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from benchkit.errors import FormatError

_NUMBERS = re.compile(r"(?:PostgreSQL\)?\s+)?(\d+)(?:\.(\d+))?(?:\.(\d+))?(\w*)")


@dataclass(frozen=True, order=True, kw_only=True)
class Version:
    """A version, ordered as PostgreSQL orders them: 9.6 before 10.

    Attributes
    ----------
    number
        As ``server_version_num``: 80223 for 8.2.23, 180006 for 18.6. A development version or a
        beta has the number of its ``.0``.
    text
        What the program printed, for example ``18.6`` or ``9.4devel``.
    """

    number: int
    text: str

    @property
    def major(self) -> str:
        """The major version: ``"9.6"``, ``"18"``."""
        whole = self.number // 10000
        return str(whole) if whole >= 10 else f"{whole}.{self.number // 100 % 100}"

    def __str__(self) -> str:
        return self.text


def parse_version(text: str) -> Version:
    """Read what ``postgres --version`` prints, or a bare version.

    The first number group after ``PostgreSQL)`` counts, since vendors append their own.

    Raises
    ------
    FormatError
        There is no version in it.
    """
    start = text.find("PostgreSQL)")
    match = _NUMBERS.search(text, max(start, 0))
    if match is None:
        raise FormatError(f"no PostgreSQL version in {text!r}")
    first, second, third = (int(part or 0) for part in match.groups()[:3])
    number = first * 10000 + second if first >= 10 else first * 10000 + second * 100 + third
    shown = ".".join(part for part in match.groups()[:3] if part) + match[4]
    return Version(number=number, text=shown)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something that exists from version `since` on, until before version `until`."""

    since: int = 0
    until: int = 10**9
    source: str


FACTS = {
    "initdb --nosync": Fact(since=90300, until=100000, source="initdb.c 9.3, 10"),
    "initdb --no-sync": Fact(since=100000, source="initdb.c 10"),
    "initdb --data-checksums": Fact(since=90300, source="initdb.c 9.3"),
    "initdb --no-data-checksums": Fact(
        since=180000, source="initdb.c 18, where they became default"
    ),
    "unix_socket_directory": Fact(until=90300, source="commit c9b0cbe98b"),
    "unix_socket_directories": Fact(since=90300, source="commit c9b0cbe98b"),
    "postmaster.pid status line": Fact(since=100000, source="miscinit.c 10: line 8"),
    "postgres -C": Fact(since=90200, source="release notes 9.2"),
    "data_checksums": Fact(since=90300, source="release notes 9.3"),
    "logging_collector": Fact(since=80300, source="release notes 8.3: it was redirect_stderr"),
    "log_timezone": Fact(since=80300, source="release notes 8.3"),
    "IntervalStyle": Fact(since=80400, source="release notes 8.4"),
    "pg_settings.unit": Fact(since=80200, source="release notes 8.2"),
    "pg_prewarm": Fact(since=90400, source="release notes 9.4"),
    "CREATE EXTENSION": Fact(since=90100, source="release notes 9.1"),
    "pgbench --version": Fact(since=90000, source="pgbench.c 9.0; 8.4 and 8.3 have --help only"),
    "pgbench -F": Fact(since=80300, source="pgbench.c 8.3"),
    "pgbench raises its file limit": Fact(since=180000, source="commit d38bab5edd"),
    "pgbench -T": Fact(since=80400, source="release notes 8.4"),
    "pgbench -M": Fact(since=80400, source="release notes 8.4"),
    "pgbench -j": Fact(since=90000, source="release notes 9.0"),
    "pgbench -r": Fact(since=90100, source="release notes 9.1"),
    "pgbench -q": Fact(since=90300, source="pgbench.c 9.3"),
    "pgbench --sampling-rate": Fact(since=90300, source="release notes 9.3"),
    "pgbench accounts beyond 2^31": Fact(since=90300, source="release notes 9.3"),
    "pgbench -P": Fact(since=90400, source="release notes 9.4; a password in 8.2"),
    "pgbench -R": Fact(since=90400, source="release notes 9.4"),
    "pgbench -L": Fact(since=90500, source="release notes 9.5"),
    "pgbench -b": Fact(since=90600, source="release notes 9.6, with @weight"),
    "pgbench clients need not divide by threads": Fact(since=90600, source="commit ba3deeefb0"),
    "pgbench --aggregate-interval": Fact(since=90300, source="release notes 9.3"),
    "pgbench lag in the log of intervals": Fact(since=90400, source="pgbench.c 9.4, with -R"),
    "pgbench skipped in the log of intervals": Fact(since=90500, source="pgbench.c 9.5, with -L"),
    "pgbench log of intervals with all columns": Fact(since=150000, source="pgbench.c 15"),
    "pgbench subtracts too much connection time": Fact(
        since=90000, until=90500, source="commit a16db3a07d"
    ),
    "pgbench counts skipped transactions as processed": Fact(
        since=90600, until=110000, source="commit 16827d4424"
    ),
    "pgbench -C counts reconnections": Fact(since=140000, source="release notes 14"),
    "pgbench --random-seed": Fact(since=110000, source="release notes 11"),
    "pgbench exit code 2": Fact(since=120000, source="commit 5b75a4f826"),
    "pgbench_ prefix of table names": Fact(since=80400, source="release notes 8.4"),
    "pg_stat_activity.state": Fact(since=90200, source="release notes 9.2"),
    "pg_stat_activity.wait_event": Fact(since=90600, source="release notes 9.6"),
    "wait events of reads, writes and the client": Fact(since=100000, source="release notes 10"),
    "pg_stat_clear_snapshot": Fact(since=80300, source="release notes 8.3"),
    "statistics in shared memory": Fact(since=150000, source="release notes 15; pgstat.c"),
    "unit B": Fact(since=110000, source="release notes 11"),
    "unit TB": Fact(since=90400, source="commit bab54e383d"),
    "unit us": Fact(since=120000, source="commit 1a83a80a2f"),
    "wal_level": Fact(since=90000, source="release notes 9.0"),
    "wal_level = minimal needs max_wal_senders = 0": Fact(since=100000, source="postmaster.c 10"),
}


def has(version: Version | int, fact: str) -> bool:
    """Tell whether a version, or its number, has what :data:`FACTS` names."""
    known = FACTS[fact]
    number = version if isinstance(version, int) else version.number
    return known.since <= number < known.until
