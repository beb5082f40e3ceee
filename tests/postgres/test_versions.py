"""Version strings in the wild, and what exists in which version."""

from __future__ import annotations

import pytest

from benchkit.errors import FormatError
from benchkit.postgres.versions import FACTS, Version, has, parse_version


@pytest.mark.parametrize(
    ("text", "number", "shown", "major"),
    [
        ("postgres (PostgreSQL) 15.5 (Ubuntu 15.5-1.pgdg22.04+1)", 150005, "15.5", "15"),
        ("pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", 150018, "15.18", "15"),
        ("postgres (PostgreSQL) 18.6\n", 180006, "18.6", "18"),
        ("postgres (PostgreSQL) 8.2.23", 80223, "8.2.23", "8.2"),
        ("postgres (PostgreSQL) 9.6.24", 90624, "9.6.24", "9.6"),
        ("postgres (PostgreSQL) 9.4devel", 90400, "9.4devel", "9.4"),
        ("postgres (PostgreSQL) 8.3beta4", 80300, "8.3beta4", "8.3"),
        ("postgres (PostgreSQL) 16devel", 160000, "16devel", "16"),
        ("postgres (PostgreSQL) 17beta3", 170000, "17beta3", "17"),
        ("postgres (PostgreSQL) 18rc1", 180000, "18rc1", "18"),
        ("postgres (PostgreSQL) 14.2-acme3.1", 140002, "14.2", "14"),
        ("postgres (PostgreSQL) 12.22 (EDB 12.22.1)", 120022, "12.22", "12"),
        ("18.6", 180006, "18.6", "18"),
        ("9.6.4", 90604, "9.6.4", "9.6"),
        ("16devel", 160000, "16devel", "16"),
        ("PostgreSQL 15.20 on x86_64-pc-linux-gnu, compiled by gcc 12", 150020, "15.20", "15"),
    ],
)
def test_versions_are_read_as_they_are_written(
    text: str, number: int, shown: str, major: str
) -> None:
    version = parse_version(text)
    assert (version.number, version.text, version.major) == (number, shown, major)
    assert str(version) == shown


@pytest.mark.parametrize("text", ["", "postgres (PostgreSQL) ", "command not found"])
def test_a_text_without_a_version_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="no PostgreSQL version"):
        parse_version(text)


def test_versions_are_ordered_as_numbers() -> None:
    texts = ["8.2.23", "8.3.0", "9.4.0", "9.4.26", "9.6.24", "10.1", "18.4", "18.10"]
    assert [str(version) for version in sorted(map(parse_version, reversed(texts)))] == texts


@pytest.mark.parametrize(
    ("fact", "before", "since"),
    [
        ("initdb --no-sync", "9.6.24", "10.0"),
        ("initdb --nosync", "9.2.24", "9.3.0"),
        ("initdb --data-checksums", "9.2.24", "9.3.0"),
        ("initdb --no-data-checksums", "17.10", "18rc1"),
        ("unix_socket_directories", "9.2.24", "9.3.0"),
        ("postmaster.pid status line", "9.6.24", "10.0"),
        ("postgres -C", "9.1.24", "9.2.0"),
        ("IntervalStyle", "8.3.23", "8.4.0"),
        ("pgbench -T", "8.3.23", "8.4.22"),
        ("pgbench -j", "8.4.22", "9.0.23"),
        ("pgbench -P", "9.3.18", "9.4.0"),
        ("pgbench -L", "9.4.26", "9.5.8"),
        ("pgbench --random-seed", "10.23", "11.22"),
        ("pgbench exit code 2", "11.22", "12.22"),
    ],
)
def test_facts_begin_with_their_version(fact: str, before: str, since: str) -> None:
    assert not has(parse_version(before), fact)
    assert has(parse_version(since), fact)


@pytest.mark.parametrize(
    ("fact", "last", "gone"),
    [
        ("initdb --nosync", "9.6.24", "10.0"),
        ("unix_socket_directory", "9.2.24", "9.3.0"),
    ],
)
def test_facts_end_before_their_version(fact: str, last: str, gone: str) -> None:
    assert has(parse_version(last), fact)
    assert not has(parse_version(gone), fact)


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_has_a_span_and_a_source(fact: str) -> None:
    known = FACTS[fact]
    assert known.since < known.until
    assert known.source
    assert any(has(Version(number=number, text=""), fact) for number in range(80200, 200000, 100))


def test_an_unknown_fact_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        has(parse_version("18.6"), "flying cars")
