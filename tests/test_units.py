"""Quantities as PostgreSQL spells them, and how amounts are shown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchkit.errors import FormatError
from benchkit.units import (
    MEMORY_BYTES,
    TIME_US,
    memory_bytes,
    parse_quantity,
    show_bytes,
    show_duration,
    size_of,
    spelled,
)


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("128MB", 128, "MB"),
        (" 5min ", 5, "min"),
        ("0.9", 0.9, ""),
        ("-1", -1, ""),
        ("+3", 3, ""),
        (".5", 0.5, ""),
        ("1.", 1, ""),
        ("1e3", 1000, ""),
        ("1.5GB", 1.5, "GB"),
        ("64 kB", 64, "kB"),
        ("0", 0, ""),
    ],
)
def test_a_quantity_is_a_number_with_a_unit(text: str, number: float, unit: str) -> None:
    assert parse_quantity(text) == (number, unit)


@pytest.mark.parametrize(
    "text", ["", "MB", "12 34", "1,5GB", "1.2.3", "0x10", "--1", "1e", "nan", "inf", "1MB x", "½"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_quantity(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1024KB", "1024kB"),
        ("64mb", "64MB"),
        ("5m", "5min"),
        ("5Min", "5min"),
        ("1g", "1GB"),
        ("10sec", "10s"),
        ("8k", "8kB"),
    ],
)
def test_a_wrong_unit_is_refused_with_the_right_one(text: str, meant: str) -> None:
    with pytest.raises(FormatError, match=f"did you mean '{meant}'") as caught:
        parse_quantity(text)
    for unit in (*MEMORY_BYTES, *TIME_US):
        assert unit in str(caught.value)


def test_an_unknown_unit_without_a_neighbour_lists_the_units() -> None:
    with pytest.raises(FormatError) as caught:
        parse_quantity("3 furlongs")
    assert "did you mean" not in str(caught.value)
    assert "kB, MB, GB, TB" in str(caught.value)


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9e999GB"])
def test_a_number_beyond_all_bounds_is_refused(text: str) -> None:
    for read in (parse_quantity, memory_bytes, size_of):
        with pytest.raises(FormatError):
            read(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("1B", 1), ("8kB", 8192), ("1.5MB", 1572864), ("2TB", 2 * 1024**4), ("0.5kB", 512)],
)
def test_memory_is_bytes(text: str, count: int) -> None:
    assert memory_bytes(text) == count


@pytest.mark.parametrize("text", ["128", "5min", "1us"])
def test_memory_needs_a_unit_of_memory(text: str) -> None:
    with pytest.raises(FormatError, match="unit of memory"):
        memory_bytes(text)


def test_quantities_are_sorted_by_what_they_amount_to() -> None:
    assert sorted(["1GB", "64kB", "256MB", "2MB"], key=size_of) == ["64kB", "2MB", "256MB", "1GB"]
    assert sorted(["1min", "5s", "1h", "90s", "1d", "3us"], key=size_of) == [
        "3us", "5s", "1min", "90s", "1h", "1d",
    ]  # fmt: skip
    assert sorted(["10", "9", "-1"], key=size_of) == ["-1", "9", "10"]


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 kB"),
        (1.5 * 1024**3, "1.5 GB"),
        (1000 * 1024**2, "1000 MB"),
        (1023.9 * 1024**2, "1024 MB"),
        (123.4 * 1024, "123 kB"),
        (99.96 * 1024, "100 kB"),
        (5000 * 1024**4, "5000 TB"),
        (-2 * 1024**2, "-2 MB"),
    ],
)
def test_bytes_are_shown_with_three_digits(count: float, shown: str) -> None:
    assert show_bytes(count) == shown


@settings(database=None)  # the directory of the tests need not be ours
@given(st.integers(min_value=-(2**60), max_value=2**60))
def test_shown_bytes_are_plain_and_near(count: int) -> None:
    number, unit = show_bytes(count).split()
    assert "e" not in number
    assert float(number) * MEMORY_BYTES[unit] == pytest.approx(count, rel=0.01, abs=0.5)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (95, "1 min 35 s"),
        (3599.7, "1 h"),
        (3661, "1 h 1 min"),
        (90000, "25 h"),
    ],
)
def test_durations_are_shown_in_two_units(seconds: float, shown: str) -> None:
    assert show_duration(seconds) == shown


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("64mb", "64MB"),
        ("64M", "64MB"),
        ("1.5 gb", "1.5GB"),
        ("2G", "2GB"),
        ("512KB", "512kB"),
        ("512 KiB", "512kB"),
        ("1tib", "1TB"),
        ("5 minutes", "5min"),
        ("90 SEC", "90s"),
        ("1Hour", "1h"),
        ("20MS", "20ms"),
        ("-1", "-1"),
        ("0.9", "0.9"),
        ("8 MB", "8MB"),
        ("5min", "5min"),
        ("5m", "5m"),  # minutes or megabytes: not ours to say
        ("3 parsecs", "3 parsecs"),
        ("on", "on"),
        ("", ""),
    ],
)
def test_units_are_spelled_as_postgresql_demands(text: str, meant: str) -> None:
    assert spelled(text) == meant


@given(st.text(max_size=12))
def test_spelling_changes_no_more_than_the_unit(text: str) -> None:
    once = spelled(text)
    assert spelled(once) == once
    try:
        size = size_of(text)
    except FormatError:
        return
    assert size_of(once) == size
