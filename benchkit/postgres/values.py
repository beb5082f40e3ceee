"""Values of settings as people write them, in the form that a version of PostgreSQL accepts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from benchkit.errors import FormatError
from benchkit.postgres.builds import Build
from benchkit.postgres.defaults import common_value, differing_defaults
from benchkit.postgres.settings import Value, catalogue
from benchkit.postgres.versions import FACTS, Version, has
from benchkit.units import MEMORY_BYTES, TIME_US, parse_quantity, spelled

# Settings that some versions have under another name, see settings.translate.
OTHER_NAMES = {"max_wal_size": "checkpoint_segments"}


def written(settings: Mapping[str, Value], build: Build) -> dict[str, Value]:
    """Write values of numeric settings as a build accepts them; all others stay as they are."""
    numeric = {
        name.lower()
        for name, setting in catalogue(build).items()
        if setting.kind in ("integer", "real")
    } | {"max_wal_size", "min_wal_size"}  # translated for builds that do not have them
    return {
        name: written_for(value, build.version)
        if isinstance(value, str) and name.lower() in numeric
        else value
        for name, value in settings.items()
    }


def written_for(text: str, version: Version) -> str:
    """Write a quantity as a version accepts it.

    ``"64mb"`` becomes ``"64MB"`` everywhere, ``"1.5GB"`` ``"1536MB"`` (fractions of whole numbers
    are accepted from 12 on only), ``"1TB"`` ``"1024GB"`` before 9.4. What is no quantity, or can be
    written in no unit without a fraction, stays as it is: the server judges it.
    """
    text = spelled(text)
    try:
        number, unit = parse_quantity(text)
    except FormatError:
        return text
    table = next((units for units in (MEMORY_BYTES, TIME_US) if unit in units), None)
    if table is None:
        return text
    usable = {
        name: size
        for name, size in table.items()
        if f"unit {name}" not in FACTS or has(version, f"unit {name}")
    }
    if unit in usable and number == int(number):
        return text
    amount = number * table[unit]
    exact = [name for name, size in usable.items() if amount % size == 0]
    return f"{round(amount / usable[exact[-1]])}{exact[-1]}" if exact else text


def same_defaults(
    builds: Sequence[Build], build: Build, asked: Mapping[str, Value]
) -> dict[str, Value]:
    """Give what to set so that a build has what the other builds have by default.

    Parameters
    ----------
    builds
        All that are compared.
    build
        The one that gets the settings.
    asked
        Settings that are chosen already: they stay.

    Returns
    -------
    dict
        Those whose defaults differ between the builds, as far as this one has them, under the names
        of today.
    """
    known = {name.lower() for name in catalogue(build)}
    if not hasattr(os, "posix_fadvise"):  # before 18 these are refused where it is not there
        known -= {"effective_io_concurrency", "maintenance_io_concurrency"}
    chosen = {name.lower() for name in asked}
    return {
        name: common_value(name, builds)
        for name in differing_defaults(builds)
        if {name, OTHER_NAMES.get(name, name)} & known
        and not {name, OTHER_NAMES.get(name, name)} & chosen
    }
