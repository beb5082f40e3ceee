"""A scale that does not fit is refused, with the one that does."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import Faults, InputError
from benchkit.workload import disk
from benchkit.workload.disk import cache_sizes, check_disk
from benchkit.workload.pgbench import Workload


def disk_faults(place: Path, *kept: Workload) -> list[str]:
    faults = Faults()
    check_disk(kept, kept, place, faults)
    return [str(fault) for fault in faults.found]


@pytest.mark.parametrize("fillfactor", [100, 50])
@pytest.mark.parametrize("others", [(), (200, 300)])
def test_a_scale_beyond_the_disk_says_what_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fillfactor: int, others: tuple[int, ...]
) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda place: 40 * 1024**3)

    def found(scale: int) -> list[str]:
        kept = [Workload(scale=n, duration_s=1) for n in others]
        asked = Workload(scale=scale, fillfactor=fillfactor, duration_s=1)
        return disk_faults(tmp_path, *kept, asked, asked)

    (problem,) = found(10_000)
    assert problem.startswith("scale: scale 10000 needs about ")
    assert "where 40.0 GB are free" in problem
    fits = int(problem.partition("at most about scale ")[2].split()[0])
    assert fits > 100
    assert found(fits) == []
    assert found(fits + 1)


def test_small_clusters_beside_a_large_one_count_by_their_own_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda place: 40 * 1024**3)
    many = [Workload(scale=scale, duration_s=1) for scale in range(1, 40)]
    assert disk_faults(tmp_path, *many, Workload(scale=600, duration_s=1)) == []


def test_a_full_disk_fits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "free_bytes", lambda place: 1024)
    (problem,) = disk_faults(tmp_path, Workload(scale=1, duration_s=1))
    assert "at most about scale 0 fits" in problem


def test_free_space_is_that_of_an_ordinary_user(tmp_path: Path) -> None:
    assert 0 < disk.free_bytes(tmp_path) < 2**60


def test_sizes_of_a_cache_may_be_shares_of_the_database() -> None:
    sizes = cache_sizes(["1GB", "25%", "64MB", "1.5 %"], scale=20)
    assert sizes == {"1.5 % = 4MB": "4MB", "64MB": "64MB", "25 % = 72MB": "72MB", "1GB": "1GB"}


def test_every_wrong_size_is_named() -> None:
    with pytest.raises(InputError) as caught:
        cache_sizes(["x%", "64MB", "7"], scale=1)
    assert [fault.problem.split(" is ")[0] for fault in caught.value.faults] == ["'x%'", "'7'"]
