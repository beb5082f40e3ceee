"""Commits as builds: listed from a real repository, made by a real command, once."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.errors import BuildError, InputError
from benchkit.postgres.builds import Build
from benchkit.postgres.commits import builds_or_commits, commits

GIT = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Four commits; a build of the third fails."""
    place = tmp_path / "repository"
    place.mkdir()
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    for number, subject in enumerate(["first", "second", "broken", 'a "fourth"']):
        (place / "state").write_text(f"{number} {subject}\n")
        for words in (["init", "-q"], ["add", "state"], ["commit", "-q", "-m", subject]):
            subprocess.run([*GIT, *words], cwd=place, check=True, env=environment)
    return place


@pytest.fixture
def command(tmp_path: Path, build: Build, open_directory: Path) -> str:
    """What "builds" a commit: a link to a real installation; it counts how often it is run."""
    script = open_directory / "my build.py"
    script.write_text(
        "import pathlib, subprocess, sys\n"
        "commit, prefix = sys.argv[1], pathlib.Path(sys.argv[2])\n"
        "state = subprocess.check_output(['git', 'show', commit + ':state'], text=True)\n"
        f"with open({str(tmp_path / 'runs')!r}, 'a') as runs: runs.write(state)\n"
        "if 'broken' in state: sys.exit('does not compile')\n"
        f"(prefix / 'bin').symlink_to({str(build.bin_dir)!r})\n"
    )
    return shlex.join([sys.executable, str(script), "{commit}", "{prefix}"])


@pytest.fixture
def home(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without commits."""
    monkeypatch.setenv("BENCHKIT_HOME", str(open_directory / "home"))
    return open_directory / "home"


def runs(tmp_path: Path) -> list[str]:
    return (tmp_path / "runs").read_text().splitlines()


def test_commits_are_built_when_needed_and_once(
    repository: Path, command: str, home: Path, tmp_path: Path, build: Build
) -> None:
    listed, about = commits(repository, "HEAD~3..HEAD", command)
    assert list(about.values()) == ["first", "second", "broken", 'a "fourth"']
    assert list(listed) == list(about)
    assert not (tmp_path / "runs").exists()
    made: list[Callable[[], Build]] = list(listed.values())
    built = made[3]()
    assert (built.version, built.fingerprint) == (build.version, build.fingerprint)
    assert built.origin == f"commit {list(listed)[3]:.7}" or built.origin.startswith("commit ")
    assert str(built.bin_dir).startswith(str(home))
    made[3]()
    again, _ = commits(repository, "HEAD~3..HEAD", command)
    list(again.values())[3]()
    assert runs(tmp_path) == ['3 a "fourth"']


def test_a_commit_that_does_not_build_says_why_and_is_tried_again(
    repository: Path, command: str, home: Path, tmp_path: Path
) -> None:
    listed, _ = commits(repository, "HEAD~2..HEAD", command)
    broken = list(listed.values())[1]
    for _ in range(2):
        with pytest.raises(BuildError, match="does not compile"):
            broken()
    assert runs(tmp_path) == ["2 broken", "2 broken"]


def test_a_command_that_installs_nothing_is_an_error(repository: Path, home: Path) -> None:
    listed, _ = commits(repository, "HEAD~1..HEAD", "true {commit} {prefix}")
    with pytest.raises(BuildError):
        next(iter(listed.values()))()


@pytest.mark.parametrize(
    ("between", "command", "expected"),
    [
        ("HEAD", "true {commit} {prefix}", ["a range is good..bad"]),
        ("..HEAD", "true {commit} {prefix}", ["a range is good..bad"]),
        ("--all..HEAD", "true {commit} {prefix}", ["a range is good..bad"]),
        ("HEAD..HEAD", "true {commit} {prefix}", ["holds no commit after HEAD"]),
        ("nothing..HEAD", "true {commit} {prefix}", ["nothing"]),
        ("HEAD", "no-such-program {commit}", ["lacks {prefix}", "'no-such-program'", "range"]),
        ("HEAD~1..HEAD", "true 'x {commit} {prefix}", ["No closing quotation"]),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_built(
    repository: Path, between: str, command: str, expected: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        commits(repository, between, command)
    for part in expected:
        assert part in str(caught.value)


def test_no_repository_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fault"):
        commits(tmp_path, "a..b", "true {commit} {prefix}")


def test_builds_and_commits_are_one_or_the_other() -> None:
    assert builds_or_commits(["16", "18"], "", "", "") == (["16", "18"], {})
    assert builds_or_commits([], "", "", "") == ([], {})
    with pytest.raises(InputError, match="fault"):
        builds_or_commits(["16"], "", "a..b", "")
