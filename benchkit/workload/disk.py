"""Whether what is going to be loaded and cloned fits the disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchkit.errors import Faults
from benchkit.workload.pgbench import BYTES_PER_SCALE, Workload

_EMPTY_BYTES = 64 * 1024**2  # an empty cluster with its first WAL segments
_SPARE = 1.1
# A clone's own growth and its WAL: up to twice max_wal_size's default of 1 GB (9.5 on).
_WAL_BYTES = 2 * 1024**3


def free_bytes(path: Path) -> int:
    """How many bytes an ordinary user may still write at a path."""
    state = os.statvfs(path)
    return state.f_bavail * state.f_frsize


def check_disk(kept: Sequence[Workload], place: Path, faults: Faults) -> None:
    """Check that the loaded clusters and one clone fit the disk, with a tenth to spare.

    Parameters
    ----------
    kept
        For each loaded cluster that will be kept, at the most, the workload it is loaded for.
    """
    largest = max(kept, key=lambda workload: workload.database_bytes)
    sizes = [workload.database_bytes + _EMPTY_BYTES for workload in (*kept, largest)]
    needed, free = int(sum(sizes) * _SPARE) + _WAL_BYTES, free_bytes(place)
    if needed <= free:
        return
    copies = [size for size in sizes if size == largest.database_bytes + _EMPTY_BYTES]
    each = ((free - _WAL_BYTES) / _SPARE - (sum(sizes) - sum(copies))) / len(copies)
    fits = max(0, int((each - _EMPTY_BYTES) * largest.fillfactor / 100 / BYTES_PER_SCALE))
    faults.add(
        "scale",
        f"scale {largest.scale} needs about {needed / 1024**3:,.1f} GB in {place}, where "
        f"{free / 1024**3:,.1f} GB are free (at most about scale {fits} fits)",
    )
