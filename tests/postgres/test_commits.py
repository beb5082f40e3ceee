"""Commits as builds: listed from a real repository, made by a real command, once."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
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


def test_another_script_of_the_same_name_builds_again(
    repository: Path, command: str, home: Path, tmp_path: Path, open_directory: Path
) -> None:
    next(iter(commits(repository, "HEAD~1..HEAD", command)[0].values()))
    for _ in range(2):
        listed, _ = commits(repository, "HEAD~1..HEAD", command)
        list(listed.values())[1]()
    assert len(runs(tmp_path)) == 1
    with (open_directory / "my build.py").open("a") as script:
        script.write("# with other flags\n")
    listed, _ = commits(repository, "HEAD~1..HEAD", command)
    list(listed.values())[1]()
    assert len(runs(tmp_path)) == 2


def test_a_script_beside_the_caller_or_in_the_repository_is_found(
    repository: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, name in ((tmp_path, "here.sh"), (repository, "there.sh")):
        script = place / name
        script.write_text("#!/bin/sh\nexit 3\n")
        script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for name in ("./here.sh", "./there.sh"):
        listed, _ = commits(repository, "HEAD~1..HEAD", f"{name} {{commit}} {{prefix}}")
        with pytest.raises(BuildError, match="exit code 3"):
            next(iter(listed.values()))()


def test_a_range_must_be_a_line(repository: Path) -> None:
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    for words in (["checkout", "-q", "-b", "side", "HEAD~1"], ["commit", "-q", "--allow-empty"]):
        subprocess.run([*GIT, *words, *(["-m", "s"] * (words[0] == "commit"))], cwd=repository,
                       check=True, env=environment)  # fmt: skip
    main = subprocess.run(
        ["git", "rev-parse", "@{-1}"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout.strip()
    with pytest.raises(InputError, match="fault") as caught:
        commits(repository, f"{main}..side", "true {commit} {prefix}")
    assert "is no ancestor of side: begin at" in str(caught.value)


def test_an_interrupt_lets_the_command_put_things_away(
    repository: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "slow.sh"
    script.write_text(
        "#!/bin/bash\ntrap 'echo away > " + str(tmp_path / "away") + "; exit 1' TERM\n"
        "sleep 60 & wait $!\n"
    )
    script.chmod(0o755)
    listed, _ = commits(repository, "HEAD~1..HEAD", f"{script} {{commit}} {{prefix}}")

    def interrupt(*_: object) -> None:
        time.sleep(0.5)
        raise KeyboardInterrupt

    monkeypatch.setattr("os.waitid", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(iter(listed.values()))()
    assert (tmp_path / "away").read_text() == "away\n"


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
