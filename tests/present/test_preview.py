"""What ``benchkit check`` tells of a notebook, and the notebook that ``benchkit new`` writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchkit.errors import InputError, NotebookError
from benchkit.experiment.ledger import runs_dir
from benchkit.present.notebooks import check_agreement, find_notebook, list_notebooks, run_notebook
from benchkit.present.preview import TEMPLATE, check_notebook, new_notebook


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that belongs to no project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started() -> set[Path]:
    return set(runs_dir().glob("*/*"))


@pytest.mark.slow
@pytest.mark.parametrize("name", [info.name for info in list_notebooks()])
def test_a_check_states_the_needs_and_starts_nothing(name: str) -> None:
    before = started()
    text = check_notebook(name, values={"profile": "smoke"})
    for word in ("What may mislead", "trials: ", "Time: ", "Disk: ", "Memory: "):
        assert word in text
    assert started() == before


def test_what_does_not_fit_this_machine_is_said_with_the_needs() -> None:
    with pytest.raises(NotebookError) as caught:
        check_notebook("buffer_eviction_scaling", values={"profile": "smoke", "scale": 10**7})
    assert caught.value.exit_code == 2
    assert "The whole experiment needs: disk" in str(caught.value)


def test_the_published_run_is_a_matter_of_hours() -> None:
    # A build at hand in place of the published ones: what it takes is the same.
    text = check_notebook("hot_update_benefit", values={"profile": "paper", "builds": [""]})
    assert re.search(r"Time: \d+0,000,000 transactions: \d+ h .*at 1,000 transactions/s", text)


def test_a_notebook_without_a_check_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bare.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    with pytest.raises(InputError, match="0 cells tagged 'check'"):
        check_notebook(path, values={})


def test_the_template_declares_its_parameters_as_papermill_reads_them() -> None:
    check_agreement(TEMPLATE)


def test_a_new_notebook_takes_its_name_and_is_found(elsewhere: Path) -> None:
    path = new_notebook("my_question")
    assert path == elsewhere / "my_question.ipynb"
    text = path.read_text("utf-8")
    assert "# my_question" in text
    assert "my_experiment" not in text
    assert find_notebook("my_question").resolve() == path.resolve()


def test_a_name_that_cannot_be_or_is_taken_is_refused(elsewhere: Path) -> None:
    new_notebook("taken")
    for name in ("taken", "hot_update_benefit", "a-b", "../x", "", "1st"):
        with pytest.raises(InputError):
            new_notebook(name)
    assert [path.name for path in elsewhere.iterdir()] == ["taken.ipynb"]


@pytest.mark.server
@pytest.mark.slow
def test_a_new_notebook_runs_as_it_is(elsewhere: Path) -> None:
    new_notebook("my_question")
    done = run_notebook("my_question", values={"profile": "smoke"}, progress=False)
    assert done.html is not None
    page = done.html.read_text("utf-8")
    assert "Throughput with the index against without" in page
    assert "my_question.sql" in page
