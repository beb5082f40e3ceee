"""What tells two compilations apart is named; where things lie and what warns does not count."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from benchkit.measure.alike import differences_of_builds, differing_defaults_left, made_alike
from benchkit.measure.record import TrialRequest
from benchkit.postgres.builds import Build
from benchkit.postgres.versions import parse_version
from benchkit.workload.pgbench import Workload


def made(version: str, *configure: str, **changes: Any) -> Build:
    fields: dict[str, Any] = {
        "bin_dir": Path(f"/opt/{version}/bin"),
        "version": parse_version(version),
        "origin": "source",
        "configure": configure,
        "compiler": "gcc",
        "cflags": "-Wall -O2",
        "pgbench": parse_version(version),
        "fingerprint": version,
    }
    return Build(**fields | changes)


def test_builds_of_one_builder_are_alike() -> None:
    old = made("16.1", "--prefix", "/opt/16", "--libdir=/a", "--with-includes=/i", "--with-lz4")
    new = made(
        "17.1",
        *("--prefix=/opt/17", "--with-lz4", "--with-extra-version= (vendor 17)", "CFLAGS=-O2"),
        cflags="-Wall -Wshadow=compatible-local -O0 -O2",
    )
    assert differences_of_builds([old, new]) == []
    assert differences_of_builds([old]) == []


def test_every_difference_is_named_with_both_values() -> None:
    one = made("16.1", "--with-lz4", "CPPFLAGS=-D_FORTIFY_SOURCE=2")
    other = made("17.1", "--enable-debug", origin="Debian", compiler="clang", cflags="-Wp,-D_X -O3")
    (found,) = differences_of_builds([one, other])
    assert (found.severity, found.name) == ("warning", "builds compiled differently")
    assert found.evidence == (
        "PostgreSQL 16.1 (source) and PostgreSQL 17.1 (Debian): "
        "configure flags only in the first: --with-lz4 CPPFLAGS=-D_FORTIFY_SOURCE=2; "
        "configure flags only in the second: --enable-debug; "
        "compiler gcc against clang; "
        "CFLAGS only in the first: -O2; CFLAGS only in the second: -Wp,-D_X -O3"
    )
    assert "one builder" in found.fix


def test_what_is_unknown_is_said_to_be_unknown() -> None:
    known = made("16.1", "--with-lz4")
    meson = dataclasses.replace(
        known,
        bin_dir=Path("/opt/patched/bin"),
        fingerprint="patched",
        configure=None,
        compiler=None,
        cflags=None,
    )
    (found,) = differences_of_builds([known, meson])
    assert found.evidence == (
        "PostgreSQL 16.1 in /opt/16.1/bin and PostgreSQL 16.1 in /opt/patched/bin: "
        "configure flags of the second are unknown; compiler gcc against unknown; "
        "CFLAGS of the second are unknown"
    )


def test_one_program_found_twice_is_one_build() -> None:
    one = made("16.1", "--with-lz4")
    link = made("16.1", "--b", bin_dir=Path("/usr/local/pgsql/bin"))
    assert differences_of_builds([one, link, one]) == []


def test_each_is_compared_with_the_first() -> None:
    builds = [made("16.1", "--a"), made("17.1", "--a"), made("18.1", "--b")]
    (found,) = differences_of_builds(builds)
    assert found.evidence.startswith("PostgreSQL 16.1 (source) and PostgreSQL 18.1 (source): ")


def test_defaults_that_differ_and_are_set_nowhere_are_named(build: Build) -> None:
    old = dataclasses.replace(build, version=parse_version("17.0"), fingerprint="old")
    requests = [
        TrialRequest(build=one, client=build, workload=Workload(), settings={"io_method": "sync"})
        for one in (build, old)
    ]
    (found,) = differing_defaults_left(requests)
    assert (found.severity, found.name) == ("warning", "defaults differ between versions")
    assert f"effective_io_concurrency: 16 in {build.version}, 1 in 17.0" in found.evidence
    assert "io_method" not in found.evidence
    assert differing_defaults_left(requests[:1]) == []
    (made,) = made_alike(requests)
    assert "effective_io_concurrency=1" in made.evidence
