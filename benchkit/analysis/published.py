"""Published figures, carried with the package, to be shown beside what is measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.errors import Faults

if TYPE_CHECKING:
    import pandas as pd


def published_dir() -> Path:
    """Find the published figures: in the installed package, else in the project."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "published"
    return inside if inside.is_dir() else package.parent / "data" / "published"


def read_published(name: str) -> pd.DataFrame:
    """Read one table of published figures.

    Parameters
    ----------
    name
        Of the file without ``.csv``; ``data/published/README.md`` says where each comes from.

    Raises
    ------
    InputError
        There is no such table; names the nearest.
    """
    import pandas as pd

    known = {path.stem: path for path in published_dir().glob("*.csv")}
    if name not in known:
        faults = Faults()
        faults.unknown("published", name, known, kind="table")
        faults.raise_any()
    return pd.read_csv(known[name])
