"""Whether what is going to be loaded and cloned fits the disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchkit.errors import Faults, FormatError
from benchkit.units import memory_bytes, spelled
from benchkit.workload.pgbench import BYTES_PER_SCALE, Workload

_EMPTY_BYTES = 64 * 1024**2  # an empty cluster with its first WAL segments
_SPARE = 1.1
# A clone's own growth and its WAL: up to twice max_wal_size's default of 1 GB (9.5 on).
_WAL_BYTES = 2 * 1024**3


# Measured on 8.2 to 18: a unit of scale is 12.8 MB of accounts and 2.2 MB of their index.
_USED_BYTES_PER_SCALE = 15 * 10**6


def cache_sizes(sizes: Sequence[str], *, scale: int) -> dict[str, str]:
    """Read sizes of a cache, some of which are shares of pgbench's database.

    Parameters
    ----------
    sizes
        Such as ``"500MB"`` or ``"25%"``.
    scale
        Of the database.

    Returns
    -------
    dict
        Label -> setting, smallest first: ``{"25 % = 75MB": "75MB", "500MB": "500MB"}``.

    Raises
    ------
    InputError
        Naming every item that is neither.
    """
    faults = Faults()
    found: dict[str, tuple[int, str]] = {}
    for text in sizes:
        try:
            if text.endswith("%"):
                megabytes = round(float(text[:-1]) / 100 * scale * _USED_BYTES_PER_SCALE / 1024**2)
                setting = f"{max(megabytes, 1)}MB"
                found[f"{text[:-1].strip()} % = {setting}"] = memory_bytes(setting), setting
            else:
                setting = spelled(text)
                found[text] = memory_bytes(setting), setting
        except (ValueError, FormatError) as error:
            faults.add("size", f"{text!r} is neither a size nor a share of the database: {error}")
    faults.raise_any()
    return {label: setting for label, (_, setting) in sorted(found.items(), key=lambda i: i[1][0])}


def free_bytes(path: Path) -> int:
    """How many bytes an ordinary user may still write at a path."""
    state = os.statvfs(path)
    return state.f_bavail * state.f_frsize


def needed_bytes(missing: Sequence[Workload], measured: Sequence[Workload]) -> int:
    """Give what the clusters to load, one clone of the largest and its WAL need, in bytes.

    A tenth is to spare.

    Parameters
    ----------
    missing
        For each cluster that is still to be loaded and kept, the workload it is loaded for.
    measured
        The workloads of all trials: the largest is what a clone takes.
    """
    largest = max(workload.database_bytes for workload in measured)
    sizes = [size + _EMPTY_BYTES for size in (*(w.database_bytes for w in missing), largest)]
    return int(sum(sizes) * _SPARE) + _WAL_BYTES


def check_disk(
    missing: Sequence[Workload], measured: Sequence[Workload], place: Path, faults: Faults
) -> None:
    """Check that the clusters to load and one clone fit the disk, as in :func:`needed_bytes`."""
    needed, free = needed_bytes(missing, measured), free_bytes(place)
    if needed <= free:
        return
    largest = max(measured, key=lambda workload: workload.database_bytes)
    sizes = [workload.database_bytes + _EMPTY_BYTES for workload in (*missing, largest)]
    copies = [size for size in sizes if size == largest.database_bytes + _EMPTY_BYTES]
    each = ((free - _WAL_BYTES) / _SPARE - (sum(sizes) - sum(copies))) / len(copies)
    fits = max(0, int((each - _EMPTY_BYTES) * largest.fillfactor / 100 / BYTES_PER_SCALE))
    faults.add(
        "scale",
        f"scale {largest.scale} needs about {needed / 1024**3:,.1f} GB in {place}, where "
        f"{free / 1024**3:,.1f} GB are free (at most about scale {fits} fits)",
    )
