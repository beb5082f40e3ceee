"""Values as people write them, in the form that each version accepts."""

from __future__ import annotations

import pytest

from benchkit.errors import Faults
from benchkit.postgres.builds import Build
from benchkit.postgres.defaults import DEFAULTS, differing_defaults
from benchkit.postgres.server import Server
from benchkit.postgres.settings import Value, check_settings, show_setting, translate
from benchkit.postgres.values import same_defaults, written, written_for
from benchkit.postgres.versions import Version, parse_version
from tests.postgres.test_builds import made


def version(text: str) -> Version:
    return parse_version(text)


@pytest.mark.parametrize(
    ("text", "of", "accepted"),
    [
        ("64mb", "8.2.0", "64MB"),
        ("1.5GB", "8.3.0", "1536MB"),
        ("1.5GB", "18.0", "1536MB"),
        ("1TB", "9.3.0", "1024GB"),
        ("1TB", "9.4.0", "1TB"),
        ("2048B", "10.0", "2kB"),
        ("2048B", "11.0", "2048B"),
        ("0.5ms", "11.0", "0.5ms"),
        ("0.5ms", "12.0", "500us"),
        ("1500us", "11.0", "1500us"),
        ("2000us", "11.0", "2ms"),
        ("1.5 hours", "8.2.0", "90min"),
        ("0.1kB", "12.0", "0.1kB"),
        ("0.9", "8.3.0", "0.9"),
        ("-1", "8.3.0", "-1"),
        ("some text", "8.3.0", "some text"),
    ],
)
def test_a_quantity_is_written_for_its_version(text: str, of: str, accepted: str) -> None:
    assert written_for(text, version(of)) == accepted


def test_only_numbers_are_rewritten(build: Build) -> None:
    asked: dict[str, Value] = {
        "shared_buffers": "64 mb",
        "search_path": "5 minutes",
        "work_mem": 4096,
        "x.y": "1 g",
    }
    assert written(asked, build) == asked | {"shared_buffers": "64MB"}


def test_what_is_kindly_written_is_accepted_and_in_effect(each_build: Build) -> None:
    asked = {"shared_buffers": "0.03125gb", "checkpoint_timeout": "5 Minutes", "work_mem": "8192k"}
    settings = written(asked, each_build)
    faults = Faults()
    check_settings(settings, each_build, faults)
    assert faults.found == []
    with Server(each_build, settings) as server, server.connect() as connection:
        shown = {
            row["name"]: show_setting(row["setting"], row["unit"])
            for row in connection.execute("SELECT name, setting, unit FROM pg_settings")
        }
    found = {name: shown[name] for name in asked}
    assert found == {"shared_buffers": "32MB", "checkpoint_timeout": "5min", "work_mem": "8MB"}


# Defaults


def alike(found: str, expected: str) -> bool:
    try:
        return float(found) == float(expected)
    except ValueError:
        return found == expected


def test_the_defaults_are_those_of_real_servers(each_build: Build) -> None:
    with Server(each_build) as server, server.connect() as connection:
        query = "SELECT name, setting, unit FROM pg_settings WHERE source IN ('default', "
        rows = connection.execute(query + "'configuration file', 'override')").fetchall()
    shown = {row["name"]: show_setting(row["setting"], row["unit"]) for row in rows}
    expected = {name: default.of(each_build.version) for name, default in DEFAULTS.items()}
    # A text with a blank explains a default that is worked out by the server.
    judged = {name for name, text in expected.items() if name in shown and " " not in text}
    assert "shared_buffers" in judged
    wrong = {name for name in judged if not alike(shown[name], expected[name])}
    assert {name: (shown[name], expected[name]) for name in wrong} == {}


def test_only_what_differs_is_made_alike(build: Build) -> None:
    new, old = made(build, "18.0"), made(build, "16.0")
    assert differing_defaults([new, new]) == {}
    found = differing_defaults([new, old])
    assert set(found) == {
        "vacuum_buffer_usage_limit",
        "effective_io_concurrency",
        "maintenance_io_concurrency",
        "io_method",
    }
    assert found["io_method"] == {"18.0": "worker", "16.0": "sync"}
    settings = same_defaults([new, old], build, {"IO_Method": "worker"})
    assert "io_method" not in settings
    assert settings["effective_io_concurrency"] == "1"


def test_a_name_of_before_counts_as_asked_for(build: Build) -> None:
    pair = [made(build, "9.4.0"), made(build, "18.0")]
    assert same_defaults(pair, build, {})["max_wal_size"] == "1GB"
    assert "max_wal_size" not in same_defaults(pair, build, {"checkpoint_segments": 32})


def test_every_common_value_is_accepted(each_build: Build) -> None:
    everything = [made(each_build, "8.2.0"), made(each_build, "18.0")]
    settings, _ = translate(same_defaults(everything, each_build, {}), each_build)
    faults = Faults()
    check_settings(written(settings, each_build), each_build, faults)
    assert [str(fault) for fault in faults.found] == []
