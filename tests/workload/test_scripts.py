"""Scripts and their weights: what is refused, and the files that pgbench gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import Faults
from benchkit.postgres.versions import parse_version
from benchkit.workload.scripts import (
    MOST_SCRIPTS,
    MOST_WEIGHT,
    Script,
    check_mix,
    check_scripts,
    place_scripts,
    script_arguments,
    scripts_of,
)

KNOWN = {"mine.sql": "SELECT 1;\n"}


def mix_faults(script: Any) -> tuple[bool, list[str]]:
    faults = Faults()
    return check_mix(script, faults), [str(fault) for fault in faults.found]


@pytest.mark.parametrize(
    "script",
    [
        "select-only",
        {"select-only": 9, "tpcb-like": 0},
        {"select-only": MOST_WEIGHT},
        {f"{number}.sql": 1 for number in range(MOST_SCRIPTS)},
    ],
)
def test_good_mixes(script: Any) -> None:
    assert mix_faults(script) == (True, [])


@pytest.mark.parametrize(
    ("script", "sound", "expected"),
    [
        ({}, True, "{}: no script has a weight above 0"),
        ({"a": 0, "b": 0}, True, "{'a': 0, 'b': 0}: no script has a weight above 0"),
        ({"a": -1}, True, "weight of 'a': -1 is not from 0 to 2147483647"),
        ({"a": MOST_WEIGHT + 1}, True, "weight of 'a': 2147483648 is not from 0 to 2147483647"),
        ({"a": True}, False, "weight of 'a': True is not a whole number"),
        ({"a": 1.0, "b": 1}, False, "weight of 'a': 1.0 is not a whole number"),
        ({"a": "1"}, False, "weight of 'a': '1' is not a whole number"),
        ({1: 1}, False, "1 is not the name or path of a script"),
        (dict.fromkeys(map(str, range(129)), 1), True, "129 scripts: pgbench takes at most 128"),
        (["a@1"], False, "['a@1'] is neither the name or path of a script nor a mapping script -"),
        (
            True,
            False,
            "True is neither the name or path of a script nor a mapping script -> weight",
        ),
    ],
)
def test_what_is_no_mix(script: Any, sound: bool, expected: str) -> None:
    found_sound, (found,) = mix_faults(script)
    assert found_sound is sound
    assert found.startswith(f"script: {expected}")


def test_all_faults_of_a_mix_at_once() -> None:
    assert len(mix_faults({"a": -1, "b": True, 3: 2, "c": 1})[1]) == 3


@pytest.mark.parametrize(
    ("script", "version", "refused"),
    [
        ({"select-only": 1}, "8.2.23", False),
        ({"select-only": 2}, "9.5.8", True),
        ({"select-only": 0}, "9.5.8", True),
        ({"select-only": 1, "mine.sql": 1}, "9.5.8", True),
        ({"select-only": 9, "mine.sql": 0}, "9.6.4", False),
    ],
)
def test_old_clients_run_one_script(script: dict[str, int], version: str, refused: bool) -> None:
    faults = Faults()
    check_scripts(scripts_of(script), KNOWN, parse_version(version), faults)
    problem = f"script: pgbench {version} runs one script, of weight 1; several need 9.6 or later"
    assert [str(fault) for fault in faults.found] == [problem] * refused


def test_a_mix_of_one_is_the_script_alone() -> None:
    assert scripts_of("mine.sql") == scripts_of({"mine.sql": 1}) == (Script(name="mine.sql"),)
    old = script_arguments(scripts_of({"select-only": 1}), parse_version("9.5.8"), {})
    assert old == ["-S"]


def test_files_are_looked_for(tmp_path: Path) -> None:
    hostile = [str(tmp_path / name) for name in ("my 'one' @9.sql", 'a"b\n.sql')]
    for name in hostile:
        Path(name).write_text("SELECT 1;\n")
    missing = ["no\0path", "x" * 5000, "select-only@9", ""]
    faults = Faults()
    scripts = scripts_of(dict.fromkeys([*hostile, *missing, "mine.sql", "tpcb-like"], 1))
    texts = check_scripts(scripts, KNOWN, parse_version("18.6"), faults)
    assert texts == dict.fromkeys([*hostile, "mine.sql"], "SELECT 1;\n")
    problems = [fault.problem for fault in faults.found]
    assert len(problems) == len(missing)
    assert all("is neither a built-in script nor a file" in problem for problem in problems)
    assert "did you mean 'select-only'?" in problems[2]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["mine.sql"], ["mine.sql"]),
        (["mine"], ["mine.sql"]),
        (["a/mine.sql", "b/mine.sql", "MINE.SQL"], ["mine.sql", "mine-2.sql", "MINE-3.sql"]),
        (["mine-2.sql", "mine.sql", "b/mine.sql"], ["mine-2.sql", "mine.sql", "mine-3.sql"]),
        (
            ["my one.sql", "home@9.sql", "it's.sql"],
            ["script-1.sql", "script-2.sql", "script-3.sql"],
        ),
        (
            ["script-1.sql", 'say "no".sql', "é.sql"],
            ["script-1.sql", "script-2.sql", "script-3.sql"],
        ),
        (["new\nline.sql", "mine.sql\n", "x" * 300], ["script-1.sql", "mine.sql", "script-2.sql"]),
        (["../../etc/passwd", "-f.sql"], ["passwd.sql", "-f.sql"]),
    ],
)
def test_placed_files_have_safe_names(tmp_path: Path, paths: list[str], names: list[str]) -> None:
    placed = place_scripts({path: f"SELECT '{path}';" for path in paths}, tmp_path)
    assert {path: file.relative_to(tmp_path).as_posix() for path, file in placed.items()} == dict(
        zip(paths, names, strict=True)
    )
    assert [file.read_text() for file in placed.values()] == [f"SELECT '{path}';" for path in paths]
