"""Pages that were dropped are gone, and what vanishes meanwhile does no harm."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import time
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import BenchkitError
from benchkit.measure import cache, host
from benchkit.postgres.builds import Build
from benchkit.postgres.server import Server
from benchkit.postgres.versions import parse_version

SIZE_BYTES = 4 << 20


def resident_share(path: Path) -> float:
    """Ask the kernel which share of a file's pages is in the page cache: mincore(2)."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        pages = (SIZE_BYTES + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        found = (ctypes.c_ubyte * pages)()
        anchor = ctypes.c_char.from_buffer(mapped)
        address = ctypes.c_void_p(ctypes.addressof(anchor))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mincore(address, ctypes.c_size_t(SIZE_BYTES), found) == 0
        del anchor
        mapped.close()
    return sum(page & 1 for page in found) / pages


def test_files_are_dropped_from_the_page_cache(tmp_path: Path) -> None:
    if not hasattr(os, "posix_fadvise") or host.fingerprint(tmp_path)["filesystem_type"] == "tmpfs":
        pytest.skip("no page cache to drop from")
    path = tmp_path / "below" / "table"
    path.parent.mkdir()
    path.write_bytes(b"x" * SIZE_BYTES)
    (tmp_path / "link").symlink_to(path)
    assert resident_share(path) > 0.9
    cache.drop_from_page_cache(tmp_path)
    assert resident_share(path) < 0.1


def test_a_file_that_vanishes_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("x")
    whole = os.open

    def vanishing(path: Any, *arguments: Any) -> int:
        if Path(path).name == "a":
            Path(path).unlink()
        return whole(path, *arguments)

    monkeypatch.setattr(os, "open", vanishing)
    cache.drop_from_page_cache(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("installed", [False, True])
@pytest.mark.parametrize("below", ["share", "share/postgresql"])
def test_prewarming_needs_its_extension(
    build: Build, tmp_path: Path, below: str, installed: bool
) -> None:
    moved = dataclasses.replace(build, bin_dir=tmp_path / "bin")  # without pg_config
    control = tmp_path / below / "extension" / "pg_prewarm.control"
    control.parent.mkdir(parents=True)
    if installed:
        control.touch()
    assert cache.can_prewarm(moved) == installed
    old = dataclasses.replace(moved, version=parse_version("9.3.18"))
    assert cache.can_prewarm(old)


def test_a_system_without_the_call_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    with pytest.raises(BenchkitError, match="cannot drop files"):
        cache.drop_from_page_cache(tmp_path)


@pytest.mark.parametrize(
    ("name", "dropped"),
    [
        *(("16384", True), ("24600.1", True), ("16384_fsm", True)),
        *(("1259", False), ("pg_internal.init", False), ("t3_16400", False)),
    ],
)
def test_what_initdb_made_stays_cached(name: str, dropped: bool) -> None:
    assert cache._of_a_user(name) == dropped


@pytest.mark.server
def test_a_cache_that_could_not_be_dropped_fails_the_run(server: Server, tmp_path: Path) -> None:
    with (
        server.connect() as connection,
        pytest.raises(BenchkitError, match="not dropped all through"),
        cache.kept_uncached(connection, tmp_path),  # no data directory
    ):
        time.sleep(0.05)
