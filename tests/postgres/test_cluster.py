"""Clusters: the same for every version, loaded once, cloned as often as wanted."""

from __future__ import annotations

import json
import os
import signal
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import ServerError
from benchkit.postgres import cluster, workplace
from benchkit.postgres.account import account
from benchkit.postgres.builds import Build, inspect
from benchkit.postgres.cluster import clone, initdb, initdb_options, template
from benchkit.postgres.server import Server, ServerProcess
from benchkit.postgres.versions import parse_version
from benchkit.postgres.workplace import Instance, sweep
from tests.postgres.conftest import Start, changed_cluster, empty_cluster, line_of
from tests.postgres.test_installation import program

ALWAYS = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"]


def nothing(data_dir: Path) -> dict[str, Any]:
    assert (data_dir / "PG_VERSION").exists()
    return {}


# initdb


@pytest.mark.parametrize(
    ("version", "without", "with_checksums"),
    [
        ("8.2.23", [], None),
        ("8.4.22", [], None),
        ("9.2.24", [], None),
        ("9.3.18", ["--nosync"], ["--nosync", "--data-checksums"]),
        ("9.4devel", ["--nosync"], ["--nosync", "--data-checksums"]),
        ("9.6.24", ["--nosync"], ["--nosync", "--data-checksums"]),
        ("10.23", ["--no-sync"], ["--no-sync", "--data-checksums"]),
        ("17.10", ["--no-sync"], ["--no-sync", "--data-checksums"]),
        ("18rc1", ["--no-sync", "--no-data-checksums"], ["--no-sync", "--data-checksums"]),
    ],
)
def test_options_by_version(
    build: Build, version: str, without: list[str], with_checksums: list[str] | None
) -> None:
    old = replace(build, version=parse_version(version))
    assert initdb_options(old, checksums=False) == ALWAYS + without
    if with_checksums is None:
        with pytest.raises(ServerError, match=rf"{version} has no data checksums \(9\.3"):
            initdb_options(old, checksums=True)
    else:
        assert initdb_options(old, checksums=True) == ALWAYS + with_checksums


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("checksums", [False, True])
def test_every_version_gets_the_same_cluster(each_build: Build, checksums: bool) -> None:
    with Server(each_build, checksums=checksums) as server, server.connect() as connection:
        found = {
            name: connection.execute("SELECT current_setting(%s) AS it", [name]).fetchall()[0]["it"]
            for name in ("server_encoding", "data_checksums", "lc_messages", "TimeZone")
        }
        row = connection.execute("SELECT datcollate FROM pg_database LIMIT 1").fetchone()
    assert found == {
        "server_encoding": "UTF8",
        "data_checksums": "on" if checksums else "off",
        "lc_messages": "C",
        "TimeZone": "UTC",
    }
    assert row == {"datcollate": "C"}


def test_initdb_removes_nothing_that_was_there(build: Build) -> None:
    with Instance() as instance:
        data_dir = instance.make_directory("data")
        (data_dir / "precious").touch()
        with pytest.raises(ServerError, match="initdb failed") as caught:
            initdb(build, data_dir)
        assert "exists but is not empty" in str(caught.value)
        assert (data_dir / "precious").exists()


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("kill -BUS $$", "initdb failed", "huge pages"),
        ("exit 135", "initdb failed", "huge pages"),
        ("echo 'no space left' >&2; exit 1", "no space left", ""),
        (
            "echo 'selecting default max_connections ... 20'; "
            "echo 'selecting default shared_buffers ... 400kB'",
            "more than 400kB",
            "shared memory",
        ),
    ],
)
def test_an_initdb_that_went_wrong_is_explained(
    build: Build, open_directory: Path, text: str, message: str, advice: str
) -> None:
    program(open_directory / "postgres", "echo 'postgres (PostgreSQL) 18.6'")
    program(open_directory / "initdb", text)
    with pytest.raises(ServerError, match=message) as caught:
        initdb(inspect(open_directory), open_directory / "data")
    assert advice in caught.value.advice
    assert build


# Templates


@pytest.mark.server
def test_a_cluster_is_loaded_once(build: Build, home: Path) -> None:
    loads = []

    def load(data_dir: Path) -> dict[str, Any]:
        loads.append(data_dir)
        return {"seconds": 1.5}

    first = template(build, contents={"scale": 3}, load=load)
    assert template(build, contents={"scale": 3}, load=load) == first
    assert len(loads) == 1
    data_dir, description = first
    assert description["loaded"] == {"seconds": 1.5}
    assert description["contents"] == {"scale": 3}
    assert description["version"] == build.version.text
    assert not loads[0].exists()
    assert data_dir.parent.parent == home / "templates"
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700


@pytest.mark.server
@pytest.mark.slow
def test_what_makes_a_difference_makes_another_template(build: Build, home: Path) -> None:
    base = empty_cluster(build)
    places = {
        template(build, contents=contents, load=nothing, checksums=checksums, base=base)[0]
        for contents, checksums in (({"scale": 1}, False), ({"scale": 2}, False), ({}, True))
    }
    assert len(places) == 3
    assert len(list((home / "templates").iterdir())) == 3


@pytest.mark.server
@pytest.mark.slow
def test_a_template_can_begin_with_another(build: Build, home: Path) -> None:
    def leave(data_dir: Path) -> dict[str, Any]:
        (data_dir / "benchkit.conf").write_text("# first\n")
        return {}

    def look(data_dir: Path) -> dict[str, Any]:
        return {"saw": (data_dir / "benchkit.conf").read_text()}

    base, _ = template(build, contents={"scale": 1}, load=leave, base=empty_cluster(build))
    _, description = template(build, contents={"scale": 1, "sql": ["x"]}, load=look, base=base)
    assert description["loaded"] == {"saw": "# first\n"}
    assert home


@pytest.mark.server
def test_a_failed_load_leaves_no_template(build: Build, home: Path) -> None:
    def fail(data_dir: Path) -> dict[str, Any]:
        raise ZeroDivisionError(data_dir)

    with pytest.raises(ZeroDivisionError):
        template(build, contents={}, load=fail, base=empty_cluster(build))
    assert not list((home / "templates").iterdir())
    assert template(build, contents={}, load=nothing, base=empty_cluster(build))[0].is_dir()


@pytest.mark.server
def test_a_server_still_running_after_the_load_is_a_fault(build: Build, home: Path) -> None:
    forgotten = []
    with Instance() as instance:

        def forget(data_dir: Path) -> dict[str, Any]:
            forgotten.append(ServerProcess(build, data_dir, instance, timeout_s=60))
            return {}

        with pytest.raises(ServerError, match="not stopped after loading"):
            template(build, contents={}, load=forget, base=empty_cluster(build))
    assert not forgotten[0].alive()
    assert not list((home / "templates").iterdir())


KILLED_WHILE_LOADING = """
    import pathlib, sys, time
    from benchkit.postgres import builds, workplace
    from benchkit.postgres.cluster import template
    from benchkit.postgres.server import ServerProcess
    build = builds.find(sys.argv[1])

    def load(data_dir):
        with workplace.Instance() as instance:
            server = ServerProcess(build, data_dir, instance, timeout_s=60)
            print(server.pid, flush=True)
            time.sleep(999)

    base = pathlib.Path(sys.argv[2])
    template(build, contents={}, load=load, base=base)
"""


@pytest.mark.server
def test_a_half_made_template_is_never_used_and_swept(
    build: Build, home: Path, start: Start
) -> None:
    base = empty_cluster(build)
    loader = start(KILLED_WHILE_LOADING, build.bin_dir, base)
    postmaster = int(line_of(loader))
    loader.send_signal(signal.SIGKILL)
    loader.wait()
    assert not list((home / "templates").iterdir())
    os.kill(postmaster, 0)
    assert len(sweep()) == 2
    assert not Path(f"/proc/{postmaster}/exe").exists()
    assert template(build, contents={}, load=nothing, base=base)[1]["loaded"] == {}


@pytest.mark.server
def test_a_damaged_template_is_said(build: Build, home: Path) -> None:
    place = template(build, contents={}, load=nothing, base=empty_cluster(build))[0].parent
    (place / "template.json").write_text("{")
    with pytest.raises(ServerError, match="is damaged") as caught:
        template(build, contents={}, load=nothing)
    assert str(place) in str(caught.value)
    assert home


# Clones


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@pytest.mark.server
def test_a_clone_changes_nothing_in_its_template(build: Build) -> None:
    source = empty_cluster(build)
    before = files(source)
    with Server(build, template=source) as server, server.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS one")
        connection.execute("ALTER SYSTEM SET work_mem = '7MB'")
        connection.execute("CHECKPOINT")
        assert files(server.data_dir) != before
    assert files(source) == before


@pytest.mark.server
def test_a_clone_has_the_account_as_owner_and_the_mode(build: Build) -> None:
    source = empty_cluster(build)
    with Instance() as instance:
        clone(source, instance.directory / "data")
        for path in [source, *source.rglob("*")]:
            copy = instance.directory / "data" / path.relative_to(source)
            assert copy.stat().st_uid == account().uid
            assert copy.stat().st_mode == path.stat().st_mode


def test_a_clone_of_nothing_fails_with_its_cause() -> None:
    with Instance() as instance:
        with pytest.raises(ServerError, match="could not be cloned") as caught:
            clone(Path("/no/such/cluster"), instance.directory / "data")
        assert "No such file or directory" in caught.value.evidence
        assert "bytes are free" in caught.value.evidence


@pytest.mark.server
def test_a_running_cluster_is_not_cloned(server: Server) -> None:
    with Instance() as instance:
        with pytest.raises(ServerError, match="a server runs in") as caught:
            clone(server.data_dir, instance.directory / "data")
        assert "stop it first" in str(caught.value)


@pytest.mark.server
def test_a_lock_file_of_a_killed_server_is_not_cloned(build: Build) -> None:
    def leave_lock(data_dir: Path) -> None:
        (data_dir / "postmaster.pid").write_text("99999\n/somewhere\n")

    with changed_cluster(build, leave_lock) as source, Instance() as instance:
        clone(source, instance.directory / "data")
        assert not (instance.directory / "data" / "postmaster.pid").exists()
        assert (source / "postmaster.pid").exists()


def test_settings_are_written_for_the_account(build: Build) -> None:
    with Instance() as instance:
        data_dir = instance.make_directory("data")
        cluster.write_settings(data_dir, "work_mem = '1MB'\n")
        path = data_dir / "benchkit.conf"
        assert path.read_text() == "work_mem = '1MB'\n"
        assert path.stat().st_uid == account().uid
    assert build


@pytest.mark.server
@pytest.mark.slow
def test_a_description_is_plain_json(build: Build, home: Path) -> None:
    base = empty_cluster(build)
    data_dir, description = template(build, contents={"sql": ["1"]}, load=nothing, base=base)
    kept = json.loads((data_dir.parent / "template.json").read_text())
    assert kept == description
    assert description["template_version"] == cluster.TEMPLATE_VERSION
    assert workplace.home() == home
