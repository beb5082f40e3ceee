"""What lies on disk in an installation, also in a broken one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from benchkit.errors import BuildError
from benchkit.postgres import installation
from benchkit.postgres.builds import Build
from benchkit.postgres.versions import parse_version


def program(path: Path, text: str) -> Path:
    """Write a program of the shell."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("given", ["bin", "", "bin/initdb"])
def test_a_bin_directory_is_found_from_what_people_give(build: Build, given: str) -> None:
    path = build.bin_dir.parent / given
    assert installation.bin_dir_of(path) == build.bin_dir


def test_a_path_that_is_not_there_is_no_program_in_a_bin_directory(build: Build) -> None:
    with pytest.raises(BuildError, match="there is no such file or directory"):
        installation.bin_dir_of(build.bin_dir / "postgers")


def test_a_directory_without_a_server_is_refused_with_the_places_searched(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        installation.bin_dir_of(tmp_path)
    assert str(tmp_path / "postgres") in str(caught.value)
    assert str(tmp_path / "bin" / "postgres") in str(caught.value)
    assert caught.value.advice


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo 'no such library' >&2; exit 127", "no such library"),
        ("kill -9 $$", "failed"),
    ],
)
def test_a_program_that_fails_says_why(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(BuildError, match=says):
        installation.ask([program(tmp_path / "postgres", text)])


def test_a_program_that_cannot_be_executed_is_a_build_error(tmp_path: Path) -> None:
    (tmp_path / "postgres").write_text("no program")
    with pytest.raises(BuildError, match="does not answer"):
        installation.ask([tmp_path / "postgres"])


def test_an_answer_that_is_no_text_is_taken(tmp_path: Path) -> None:
    assert installation.ask([program(tmp_path / "a", r"printf 'a\377'")]).startswith("a")


def test_the_caller_is_not_seen_by_the_program_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATA", "/elsewhere")
    assert installation.ask([program(tmp_path / "a", "echo [$PGDATA$LC_ALL]")]) == "[C]\n"


def test_assertions_are_known_from_the_server_itself(each_build: Build) -> None:
    assert installation.debug_assertions(each_build.bin_dir, each_build.version) is False


def test_assertions_are_unknown_where_it_cannot_be_asked(build: Build, tmp_path: Path) -> None:
    assert installation.debug_assertions(build.bin_dir, parse_version("9.1.24")) is None
    program(tmp_path / "postgres", "exit 1")
    assert installation.debug_assertions(tmp_path, build.version) is None
    program(tmp_path / "postgres", "echo on")
    assert installation.debug_assertions(tmp_path, build.version) is True


def test_configuration_is_what_pg_config_says(tmp_path: Path) -> None:
    assert installation.configuration(tmp_path) == {}
    program(tmp_path / "pg_config", "echo \"CONFIGURE =  '--with-x=a = b'\"; echo 'CC = gcc'")
    assert installation.configuration(tmp_path) == {
        "CONFIGURE": " '--with-x=a = b'",
        "CC": "gcc",
    }
    program(tmp_path / "pg_config", "exit 1")
    assert installation.configuration(tmp_path) == {}


def test_libraries_of_the_system_are_not_private(each_build: Build) -> None:
    for path in installation.private_libraries(each_build.bin_dir):
        assert path.exists()
        assert not str(path).startswith(("/lib/", "/lib64/", "/usr/lib/"))


def test_libraries_are_found_in_a_path_with_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "my own env" / "libpq.so.5"
    program(
        tmp_path / "ldd",
        f"echo '\tlinux-vdso.so.1 (0x00007f)'\n"
        f"echo '\tlibpq.so.5 => {library} (0x00007f)'\n"
        "echo '\tlibgone.so.1 => not found'\n"
        "echo '\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)'\n"
        "echo '\t/lib64/ld-linux-x86-64.so.2 (0x00007f)'",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert installation.private_libraries(tmp_path) == [library]


def test_a_static_program_has_no_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "ldd", "echo 'not a dynamic executable' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert installation.private_libraries(tmp_path) == []


def test_a_copy_is_whole_and_open_to_all(build: Build, open_directory: Path) -> None:
    target = open_directory / "copy"
    target.mkdir(mode=0o700)
    installation.copy_installation(build.bin_dir, target)
    bin_dir = installation.place_in_copy(build.bin_dir, target)
    assert installation.program_version(bin_dir / "postgres") == build.version
    names = {path.name for path in installation.private_libraries(build.bin_dir)}
    assert {path.name for path in (target / "libraries").iterdir()} == names
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o755 if path.is_dir() or mode & 0o100 else 0o644), path
            assert path.stat().st_uid == os.geteuid()
