"""Profiles of a notebook: named columns of values, each of which a parameter may override."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from benchkit.errors import Faults

# To see that it works; to get a first answer; to repeat what was published.
PROFILES = ("smoke", "quick", "paper")


def choose_profile(
    name: str, columns: Mapping[str, Sequence[Any]], /, **given: Any
) -> SimpleNamespace:
    """Take a profile's values; where a parameter was given (not empty, not 0), it wins.

    Parameters
    ----------
    name
        ``smoke``, ``quick`` or ``paper``.
    columns
        Name of a value -> its values in the three profiles, in this order.
    **given
        The notebook's parameters, each of the type that the profiles have. A duration that is
        given takes the place of the profile's number of transactions, and the other way round.

    Returns
    -------
    SimpleNamespace
        The values, and ``profile``, its name.

    Raises
    ------
    InputError
        An unknown profile or parameter, or a parameter of another type; all at once.
    """
    faults = Faults()
    if name not in PROFILES:
        faults.unknown("profile", name, PROFILES, kind="profile")
    for key, column in columns.items():
        if len(column) != len(PROFILES):
            faults.add(key, f"{len(column)} values for the {len(PROFILES)} profiles")
    faults.raise_any()
    values = {key: column[PROFILES.index(name)] for key, column in columns.items()}
    for key, value in given.items():
        if key not in values:
            faults.unknown(key, key, values, kind="parameter")
        elif not _same_type(value, values[key]):
            faults.add(key, f"{value!r} is not of type {type(values[key]).__name__}")
        elif value:
            values[key] = value
    faults.raise_any()
    for length, other in (("duration_s", "transactions"), ("transactions", "duration_s")):
        if given.get(length) and not given.get(other) and other in values:
            values[other] = 0
    return SimpleNamespace(profile=name, **values)


def _same_type(value: object, known: object) -> bool:
    numbers = all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in (value, known)
    )
    return numbers or type(value) is type(known)
