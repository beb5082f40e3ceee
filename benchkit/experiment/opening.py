"""Opening a run: the unfinished one with the same specification, or a new one."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchkit import __version__
from benchkit.errors import BusyError
from benchkit.experiment.design import Cell, digest
from benchkit.experiment.ledger import Ledger, runs_dir, unfinished

# What of the machine makes two runs the same.
_MACHINE = ("hostname", "machine", "cpu_model", "usable_cores", "memory_bytes", "kernel")


def open_run(
    name: str,
    asked: Mapping[str, Any],
    *,
    machine: Mapping[str, Any],
    seed: int | None,
    order: Callable[[int], list[list[int]]],
    notes: list[str],
    fresh: bool,
) -> Ledger:
    """Open the ledger of an unfinished run that asked the same on this machine, else of a new one.

    Parameters
    ----------
    asked
        What makes two runs the same, beside the machine.
    machine
        The host's description.
    seed
        Of the random order; None draws one. It counts for what is the same only if it was chosen.
    order
        Gives the order for a seed.
    notes
        Gets what a person should know.
    fresh
        Begin a new run even if there is an unfinished one.
    """
    specification = {
        "experiment": name,
        "benchkit": __version__,
        "chosen_seed": seed,
        "machine": {key: machine.get(key) for key in _MACHINE},
        **asked,
    }
    identity = digest(specification)
    place = runs_dir() / name
    for directory in [] if fresh else unfinished(place, identity):
        try:
            return Ledger(directory)
        except BusyError as error:
            notes.append(f"{error.message}: this is a new run beside it")
    now = datetime.datetime.now(datetime.UTC)
    run_id = f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
    drawn = secrets.randbits(31) if seed is None else seed
    more = {
        "specification_hash": identity,
        "run_id": run_id,
        "created_at": now.isoformat(timespec="seconds"),
        "seed": drawn,
        "order": order(drawn),
        "host": machine,
    }
    return Ledger.create(place / run_id, specification | more)


def asked_of(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Describe cells for a specification."""
    return [
        {
            "levels": dict(cell.levels),
            "twin": cell.twin,
            "notes": list(cell.notes),
            "asked": cell.request.describe(),
        }
        for cell in cells
    ]
