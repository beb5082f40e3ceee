from __future__ import annotations

import pytest

from benchkit.analysis.published import published_dir, read_published
from benchkit.errors import InputError


def test_every_table_is_read_and_described() -> None:
    tables = sorted(path.stem for path in published_dir().glob("*.csv"))
    assert "hot_update" in tables
    words = (published_dir() / "README.md").read_text("utf-8")
    for name in tables:
        frame = read_published(name)
        assert len(frame) > 0
        assert frame["source"].notna().all()
        assert f"`{name}.csv`" in words


def test_the_published_ratio_is_there() -> None:
    frame = read_published("hot_update")
    ratio = frame[(frame["metric"] == "tps_ratio") & (frame["settings"] == "default")]
    assert ratio["value"].tolist() == [2.2]


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'hot_update'"):
        read_published("hot_updates")
