"""Settings: judged by the build, written so that the server reads what was meant, read back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchkit.errors import BuildError, Faults, ServerError
from benchkit.postgres import settings
from benchkit.postgres.builds import Build
from benchkit.postgres.server import Server
from benchkit.postgres.settings import (
    Value,
    as_shown,
    catalogue,
    check_settings,
    not_default,
    not_in_effect,
    render,
    show_setting,
    text_of,
    translate,
)
from benchkit.postgres.values import written
from benchkit.postgres.versions import parse_version
from tests.postgres.conftest import empty_cluster


def row(
    name: str, setting: str, unit: str | None = None, vartype: str = "string"
) -> dict[str, Any]:
    return {"name": name, "setting": setting, "unit": unit, "vartype": vartype, "source": "file"}


def problems(build: Build, asked: dict[str, Any]) -> list[str]:
    faults = Faults()
    check_settings(asked, build, faults)
    return [str(fault) for fault in faults.found]


# What a build knows


def test_the_catalogue_is_the_builds_own(each_build: Build) -> None:
    known = catalogue(each_build)
    assert len(known) > 200
    assert known["shared_buffers"].kind == "integer"
    assert known["shared_buffers"].context == "postmaster"
    assert known["random_page_cost"].kind == "real"
    assert known["fsync"].kind == "boolean"
    assert known["wal_level"].kind == "enum"
    assert "checkpoint_segments" not in known


def test_a_build_that_does_not_run_has_no_empty_catalogue(build: Build) -> None:
    broken = replace(build, library_path="", bin_dir=build.bin_dir.parent / "nowhere")
    with pytest.raises(BuildError):
        catalogue(broken)


# Names and values, before anything is started


def test_good_settings_have_no_faults(each_build: Build) -> None:
    asked = {
        "shared_buffers": "128MB", "work_mem": 4096, "random_page_cost": 1.1, "fsync": True,
        "wal_level": "minimal", "max_wal_senders": 0, "checkpoint_timeout": "5min",
        "DateStyle": "ISO", "datestyle": "ISO", "synchronous_commit": "remote_write",
        "search_path": "a, b", "zero_damaged_pages": "off", "auto_explain.log_analyze": "on",
        "wal_buffers": -1, "checkpoint_completion_target": "0.5", "log_line_prefix": "%m '\\",
    }  # fmt: skip
    assert problems(each_build, asked) == []


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("shared_bufers", "1GB", "unknown setting 'shared_bufers'; did you mean 'shared_buffers'"),
        ("checkpoint_segments", 3, "unknown setting 'checkpoint_segments'"),
        ("shared_buffers", "1024KB", "did you mean '1024kB'"),
        ("work_mem", "64mb", "did you mean '64MB'"),
        ("checkpoint_timeout", "5m", "did you mean '5min'"),
        ("shared_buffers", "lots", "'lots' is not a number with a unit"),
        ("max_connections", 20.7, "'20.7' is not a whole number"),
        ("max_connections", True, "'on' is not a number with a unit"),
        ("work_mem", "1e999", "too large a number"),
        ("shared_buffers", "1", "is outside the valid range"),
        ("work_mem", "5min", 'invalid value for parameter "work_mem": "5min"'),
        ("wal_level", "most", "Available values: minimal, replica, logical"),
        ("fsync", "perhaps", "requires a Boolean value"),
        ("block_size", 4096, "cannot be changed"),
        ("listen_addresses", "*", "is set by benchkit itself"),
        ("Port", 5433, "is set by benchkit itself"),
        ("data_directory", "/elsewhere", "is set by benchkit itself"),
        ("TimeZone", "Mars/Olympus", "is set by benchkit itself"),
        ("log_destination", "csvlog", "is set by benchkit itself"),
        ("work_mem", "1MB\nfsync = off", "line break"),
        ("search_path", "a\0b", "zero byte"),
    ],
)
def test_a_bad_setting_is_refused(build: Build, name: str, value: Any, says: str) -> None:
    (problem,) = problems(build, {name: value})
    assert problem.startswith(f"settings {name}: ")
    assert says in problem


@pytest.mark.parametrize("name", ["", "a b", "fsync = off\nwork_mem", "x.y\nz", "1x", "é", "a.b.c"])
def test_what_is_no_name_cannot_get_into_the_file(build: Build, name: str) -> None:
    (problem,) = problems(build, {name: "on"})
    assert "is no name of a setting" in problem


def test_all_faults_are_found_at_once(build: Build) -> None:
    asked = {"nosuch": 1, "port": 1, "work_mem": "64mb", "fsync": "on", "wal_level": "most"}
    assert len(problems(build, asked)) == 4


def test_before_9_2_names_and_numbers_are_still_checked(build: Build) -> None:
    old = replace(build, version=parse_version("8.4.22"))
    (unknown, wrong) = problems(old, {"nosuch": 1, "work_mem": "64mb", "datestyle": "ISO"})
    assert "unknown setting 'nosuch'" in unknown
    assert "for PostgreSQL 8.4.22" in wrong
    assert as_shown({"fsync": True}, old) == {"fsync": "on"}


# Written to the file


@pytest.mark.parametrize(
    ("value", "text"), [(True, "on"), (False, "off"), (3, "3"), (0.5, "0.5"), ("1GB", "1GB")]
)
def test_values_are_written_as_the_file_has_them(value: Any, text: str) -> None:
    assert text_of(value) == text
    assert render({"a": value}) == f"a = '{text}'\n"


@pytest.mark.server
def test_quotes_and_backslashes_reach_the_server(build: Build) -> None:
    asked = {
        "log_line_prefix": r"it's 100\% 'so' \n \\ \'",
        "search_path": '"odd name", b',
        "restore_command": "cp \"%p\" '/a/%f' # not a comment",
    }
    with (
        Server(build, asked, template=empty_cluster(build)) as server,
        server.connect() as connection,
    ):
        for name, value in asked.items():
            found = connection.execute("SELECT current_setting(%s) AS it", [name]).fetchone()
            assert found == {"it": value}


# Pairs of names


def test_segments_become_a_size_and_back(build: Build) -> None:
    translated, notes = translate({"checkpoint_segments": 64, "fsync": True}, build)
    assert translated == {"max_wal_size": "3072MB", "fsync": True}
    assert notes == [
        f"PostgreSQL {build.version}: checkpoint_segments=64 became max_wal_size=3072MB"
    ]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("3GB", "64"), ("1536MB", "32"), ("1MB", "1"), ("0.5GB", "11")],
)
def test_a_size_becomes_segments(
    build: Build, monkeypatch: pytest.MonkeyPatch, asked: str, expected: str
) -> None:
    known = dict(catalogue(build))
    known["checkpoint_segments"] = known.pop("max_wal_size")
    monkeypatch.setattr(settings, "catalogue", lambda build: known)
    assert translate({"max_wal_size": asked}, build)[0] == {"checkpoint_segments": expected}


@pytest.mark.parametrize(
    ("asked", "value", "known_name", "expected"),
    [
        ("wal_keep_segments", 8, "wal_keep_size", "128MB"),
        ("wal_keep_size", "1gb", "wal_keep_segments", "64"),
        ("wal_keep_size", "0MB", "wal_keep_segments", "0"),
        ("stats_row_level", True, "track_counts", "on"),
        ("track_counts", "off", "stats_row_level", "off"),
    ],
)
def test_other_names_of_other_times(
    build: Build,
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    value: Value,
    known_name: str,
    expected: str,
) -> None:
    known = dict(catalogue(build)) | {known_name: catalogue(build)["fsync"]}
    known.pop(asked, None)
    monkeypatch.setattr(settings, "catalogue", lambda build: known)
    translated, notes = translate({asked: value}, build)
    assert translated == {known_name: expected}
    assert len(notes) == 1


@pytest.mark.parametrize("first", ["checkpoint_segments", "max_wal_size"])
def test_a_name_that_is_there_wins_over_its_pair(build: Build, first: str) -> None:
    asked: dict[str, Value] = {"checkpoint_segments": 10, "max_wal_size": "1GB"}
    ordered = {first: asked.pop(first)} | asked
    translated, notes = translate(ordered, build)
    assert translated == {"max_wal_size": "1GB"}
    assert len(notes) == 1
    assert "gave way to max_wal_size" in notes[0]


def test_a_value_that_cannot_be_translated_is_left_to_the_check(build: Build) -> None:
    translated, notes = translate({"checkpoint_segments": "many"}, build)
    assert (translated, notes) == ({"checkpoint_segments": "many"}, [])
    assert problems(build, translated)


# Read back


@pytest.mark.parametrize(
    ("name", "asked", "found"),
    [
        ("shared_buffers", "128MB", row("shared_buffers", "16384", "8kB", "integer")),
        ("shared_buffers", "100kB", row("shared_buffers", "12", "8kB", "integer")),
        ("shared_buffers", "100kB", row("shared_buffers", "13", "8kB", "integer")),
        ("work_mem", "1.5GB", row("work_mem", "1572864", "kB", "integer")),
        ("work_mem", 4096, row("work_mem", "4096", "kB", "integer")),
        ("max_wal_size", "3GB", row("max_wal_size", "3072", "MB", "integer")),
        ("max_wal_size", "3GB", row("max_wal_size", "192", "16MB", "integer")),
        ("checkpoint_timeout", "5min", row("checkpoint_timeout", "300", "s", "integer")),
        ("vacuum_cost_delay", "0.5ms", row("vacuum_cost_delay", "0.5", "ms", "real")),
        ("random_page_cost", 1.1, row("random_page_cost", "1.1", None, "real")),
        ("random_page_cost", "1.10", row("random_page_cost", "1.1", None, "real")),
        ("fsync", "yes", row("fsync", "on", None, "bool")),
        ("fsync", "0", row("fsync", "off", None, "bool")),
        ("fsync", "t", row("fsync", "on", None, "bool")),
        ("fsync", "FALS", row("fsync", "off", None, "bool")),
        ("synchronous_commit", "true", row("synchronous_commit", "on", None, "enum")),
        ("wal_level", "hot_standby", row("wal_level", "replica", None, "enum")),
        ("wal_level", "Archive", row("wal_level", "replica", None, "enum")),
        ("wal_level", "archive", row("wal_level", "archive", None, "enum")),
        ("wal_sync_method", "FSYNC", row("wal_sync_method", "fsync", None, "enum")),
        ("wal_buffers", "-1", row("wal_buffers", "512", "8kB", "integer")),
        ("WAL_buffers", -1, row("wal_buffers", "512", "8kB", "integer")),
        ("io_max_concurrency", -1, row("io_max_concurrency", "64", None, "integer")),
        ("datestyle", "iso", row("DateStyle", "ISO", None, "string")),
        ("fsync", True, {"name": "fsync", "setting": "on"}),
        ("work_mem", "1MB", {"name": "work_mem", "setting": "1024", "unit": "kB"}),
    ],
)
def test_in_effect(name: str, asked: Any, found: dict[str, Any]) -> None:
    assert not_in_effect({name: asked}, [found]) == {}


@pytest.mark.parametrize(
    ("name", "asked", "found", "shown"),
    [
        ("shared_buffers", "64MB", row("shared_buffers", "16384", "8kB", "integer"), "163848kB"),
        ("max_connections", 100, row("max_connections", "101", None, "integer"), "101"),
        ("work_mem", "4096", row("work_mem", "4097", "kB", "integer"), "4097kB"),
        ("random_page_cost", 1.1, row("random_page_cost", "1.9", None, "real"), "1.9"),
        (
            "checkpoint_completion_target",
            0.9,
            row("checkpoint_completion_target", "0.5", None, "real"),
            "0.5",
        ),
        ("vacuum_cost_delay", "2ms", row("vacuum_cost_delay", "1.5", "ms", "real"), "1.5ms"),
        ("fsync", "off", row("fsync", "on", None, "bool"), "on"),
        ("synchronous_commit", "off", row("synchronous_commit", "on", None, "enum"), "on"),
        ("synchronous_commit", "local", row("synchronous_commit", "on", None, "enum"), "on"),
        ("wal_level", "logical", row("wal_level", "replica", None, "enum"), "replica"),
        ("wal_buffers", "16MB", row("wal_buffers", "512", "8kB", "integer"), "5128kB"),
        ("search_path", "a", row("search_path", "b"), "b"),
        ("checkpoint_timeout", "5MB", row("checkpoint_timeout", "300", "s", "integer"), "300s"),
        ("nosuch", "1", row("fsync", "on"), "not there"),
        ("random_page_cost", "1.1", {"name": "random_page_cost", "setting": "1.9"}, "1.9"),
    ],
)
def test_not_in_effect(name: str, asked: Any, found: dict[str, Any], shown: str) -> None:
    assert not_in_effect({name: asked}, [found]) == {name: (text_of(asked), shown)}


def test_what_our_session_set_for_itself_does_not_count() -> None:
    found = row("DateStyle", "ISO, DMY") | {"source": "session", "reset_val": "German, DMY"}
    assert not_in_effect({"DateStyle": "German, DMY"}, [found]) == {}
    assert not_in_effect({"DateStyle": "ISO, DMY"}, [found]) != {}


@pytest.mark.server
@pytest.mark.slow
def test_what_the_server_takes_is_found_in_effect(each_build: Build) -> None:
    asked: dict[str, Value] = {
        "wal_compression": True, "synchronous_commit": "true", "autovacuum": "y",
        "log_min_messages": "debug", "wal_level": "archive", "wal_buffers": -1,
        "IntervalStyle": "sql_standard", "DateStyle": "German", "random_page_cost": "1.10",
        "work_mem": "1.5MB", "shared_buffers": "100000kB", "vacuum_cost_delay": "2000us",
        "log_file_mode": "0640", "max_wal_size": "1.5GB", "huge_pages": "no",
    }  # fmt: skip
    settings = written(asked, each_build)
    with Server(each_build, settings, template=empty_cluster(each_build)) as server:
        assert server.process.alive()


@pytest.mark.server
def test_a_setting_that_has_no_effect_is_not_in_effect(build: Build) -> None:
    # Nothing is archived while archive_mode is off, and the server says so.
    asked = {"archive_command": "cp %p /a/%f"}
    server = Server(build, asked, template=empty_cluster(build))
    with pytest.raises(ServerError, match=r"archive_command: asked 'cp %p /a/%f', '\(disabled\)'"):
        server.__enter__()


def test_the_build_says_how_it_will_show_a_value(each_build: Build) -> None:
    asked = {"shared_buffers": "128MB", "wal_level": "archive", "log_min_messages": "debug"}
    shown = as_shown(asked | {"x.y": "z"}, each_build)
    assert shown.pop("log_min_messages") in ("debug2", "debug")  # up to 11 as it is written
    assert shown == {"shared_buffers": "16384", "wal_level": "replica", "x.y": "z"}


# Shown to people


@pytest.mark.parametrize(
    ("setting", "unit", "shown"),
    [
        ("32768", "8kB", "256MB"),
        ("16384", "8kB", "128MB"),
        ("1024", "kB", "1MB"),
        ("1023", "kB", "1023kB"),
        ("80", "MB", "80MB"),
        ("64", "16MB", "1GB"),
        ("300", "s", "5min"),
        ("90", "s", "90s"),
        ("86400", "s", "1d"),
        ("200", "ms", "200ms"),
        ("60000", "ms", "1min"),
        ("-1", "kB", "-1"),
        ("0", "8kB", "0"),
        ("0", "s", "0"),
        ("0.5", "ms", "0.5ms"),
        ("100", None, "100"),
        ("on", None, "on"),
        ("", None, ""),
    ],
)
def test_settings_are_shown_as_people_write_them(
    setting: str, unit: str | None, shown: str
) -> None:
    assert show_setting(setting, unit) == shown


def test_only_what_someone_set_is_shown() -> None:
    rows = [
        row("work_mem", "1024", "kB") | {"source": "configuration file"},
        row("fsync", "on") | {"source": "default"},
        row("DateStyle", "ISO") | {"source": "session"},
        row("application_name", "benchkit") | {"source": "client"},
        row("TimeZone", "UTC") | {"source": "command line"},
        row("lc_messages", "C") | {"source": "configuration file"},
    ]
    assert not_default(rows) == {"work_mem": "1MB"}


@pytest.mark.server
def test_a_servers_own_settings_are_told_from_its_defaults(server: Server) -> None:
    changed = server.changed_settings()
    assert changed["shared_buffers"] == "32MB"
    assert "port" not in changed
    assert "work_mem" not in changed


@pytest.mark.server
def test_shown_settings_can_be_asked_for_again(server: Server) -> None:
    with server.connect() as connection:
        rows = connection.execute(
            "SELECT name, setting, unit, vartype FROM pg_settings WHERE unit IS NOT NULL"
        ).fetchall()
    asked = {row["name"]: show_setting(row["setting"], row["unit"]) for row in rows}
    assert len(asked) > 50
    assert not_in_effect(asked, rows) == {}
