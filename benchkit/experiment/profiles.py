"""Profiles of a notebook: named sets of values, each of which a parameter may override."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from benchkit.errors import Faults


def choose_profile(
    profiles: Mapping[str, Mapping[str, Any]], name: str, **given: Any
) -> SimpleNamespace:
    """Take a profile's values; where a parameter was given (not empty, not 0), it wins.

    Parameters
    ----------
    profiles
        Name -> values; every profile has the same names.
    name
        Which profile.
    **given
        The notebook's parameters, each of the type that the profile has.

    Returns
    -------
    SimpleNamespace
        The values, and ``profile``, its name.

    Raises
    ------
    InputError
        An unknown profile, or a parameter of another type; all at once.
    """
    faults = Faults()
    if name not in profiles:
        faults.unknown("profile", name, profiles, kind="profile")
        faults.raise_any()
    values = dict(profiles[name])
    for key, value in given.items():
        known = values.get(key)
        if key not in values:
            faults.unknown(key, key, values, kind="parameter")
        elif type(value) is not type(known) and not _both_numbers(value, known):
            faults.add(key, f"{value!r} is not of type {type(known).__name__}")
        elif value:
            values[key] = value
    faults.raise_any()
    if given.get("transactions"):
        values["duration_s"] = 0
    elif given.get("duration_s"):
        values["transactions"] = 0
    return SimpleNamespace(profile=name, **values)


def _both_numbers(value: object, known: object) -> bool:
    return all(
        isinstance(item, int | float) and not isinstance(item, bool) for item in (value, known)
    )
