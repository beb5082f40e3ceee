"""PostgreSQL's units of memory and time, and how sizes are shown to people."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from benchkit.errors import FormatError

# guc.c: the spelling is strict ("kB", never "KB"); B came with 11, us with 12, TB with 9.4.
MEMORY_BYTES = {"B": 1, "kB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
TIME_US = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
# How people write units; PostgreSQL takes only its own spelling. "m" is left out: minutes or MB?
_SPELLINGS = {
    **{"b": "B", "byte": "B", "bytes": "B", "k": "kB", "g": "GB", "t": "TB"},
    **{f"{letter}{ending}": f"{letter.upper()}B" for letter in "mgt" for ending in ("b", "ib")},
    **{"kb": "kB", "kib": "kB", "usec": "us", "msec": "ms", "sec": "s", "mins": "min"},
    **{"second": "s", "minute": "min", "hour": "h", "hr": "h", "day": "d"},
    **{"secs": "s", "seconds": "s", "minutes": "min", "hours": "h", "hrs": "h", "days": "d"},
}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)")


def parse_quantity(text: str) -> tuple[float, str]:
    """Split a setting's value into number and unit.

    Parameters
    ----------
    text
        For example ``"128MB"``, ``"5min"``, ``"0.9"``. Spelling as PostgreSQL demands it.

    Returns
    -------
    tuple
        The number, and the unit or "".

    Raises
    ------
    FormatError
        No number, one that is out of range, or a unit that PostgreSQL does not know; the message
        names the nearest one.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise FormatError(f"{text!r} is not a number with a unit")
    unit = match[2]
    if unit and unit not in MEMORY_BYTES and unit not in TIME_US:
        raise FormatError(_unknown_unit(text.strip(), match[1], unit))
    number = float(match[1])
    if math.isinf(number):
        raise FormatError(f"{text!r} is too large a number")
    return number, unit


def spelled(text: str) -> str:
    """Write a quantity as PostgreSQL demands it, where it is clear what is meant.

    ``"64mb"`` becomes ``"64MB"``, ``"5 minutes"`` ``"5min"``, ``"1.5 G"`` ``"1.5GB"``. What is
    written as it must be, is no quantity or has a unit that is unknown or not clear stays as it is.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or not match[2]:
        return text
    unit = match[2]
    known = unit in MEMORY_BYTES or unit in TIME_US
    meant = unit if known else "MB" if unit == "M" else _SPELLINGS.get(unit.lower(), "")
    if not meant:
        meant = next((name for name in TIME_US if name == unit.lower()), "")
    return f"{match[1]}{meant}" if meant else text


def _unknown_unit(text: str, number: str, unit: str) -> str:
    known = [*MEMORY_BYTES, *TIME_US]
    folded = {name.lower(): name for name in known} | {"m": "min"} | _SPELLINGS
    meant = folded.get(unit.lower())
    hint = f"; did you mean {number + meant!r}?" if meant else ""
    return f"{text!r} has the unit {unit!r}{hint} (accepted: {', '.join(known)})"


def memory_bytes(text: str) -> int:
    """Read an amount of memory or disk, such as ``"128MB"``, as bytes.

    Raises
    ------
    FormatError
        Not a number with one of PostgreSQL's memory units.
    """
    number, unit = parse_quantity(text)
    if unit not in MEMORY_BYTES:
        raise FormatError(f"{text!r} has no unit of memory (accepted: {', '.join(MEMORY_BYTES)})")
    return round(number * MEMORY_BYTES[unit])


def size_of(text: str) -> float:
    """Give what quantities are sorted by: bytes, microseconds, or the bare number.

    Raises
    ------
    FormatError
        Not a quantity.
    """
    number, unit = parse_quantity(text)
    return number * (MEMORY_BYTES | TIME_US).get(unit, 1)


def by_size(labels: Iterable[Any]) -> list[Any]:
    """List labels once each: smallest first if all are quantities, else in the order given."""
    unique = list(dict.fromkeys(labels))
    try:
        return sorted(unique, key=lambda label: size_of(str(label)))
    except FormatError:
        return unique


def extremes(texts: Sequence[str]) -> tuple[str, str]:
    """Give the smallest and the largest of several quantities, as they are written."""
    return min(texts, key=size_of), max(texts, key=size_of)


def show_bytes(count: float) -> str:
    """Write bytes as people read them: ``show_bytes(1.5 * 1024**3)`` is ``"1.5 GB"``."""
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(count) >= MEMORY_BYTES[unit]:
            amount = count / MEMORY_BYTES[unit]
            return f"{amount:.0f} {unit}" if abs(amount) >= 100 else f"{amount:.3g} {unit}"
    return f"{count:.0f} B"


def show_duration(seconds: float) -> str:
    """Write seconds as people read them: 95 is ``"1 min 35 s"``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")
