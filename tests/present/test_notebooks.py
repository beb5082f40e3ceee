"""Notebooks run in batch: what is kept, where, and how each kind of failure is told."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import BenchkitError, FormatError, InputError, NotebookError
from benchkit.present import notebooks
from benchkit.present.notebooks import NotebookInfo, list_notebooks, notebooks_dir, run_notebook

NOTEBOOKS = Path(__file__).parent / "notebooks"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the runs of these tests away from the project's."""
    place = tmp_path / "runs"
    monkeypatch.setenv("BENCHKIT_RUNS", str(place))
    return place


@pytest.fixture
def fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the fixture notebooks be the ones known by name."""
    monkeypatch.setattr(notebooks, "notebooks_dir", lambda: NOTEBOOKS)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def printed(path: Path) -> str:
    return "".join(
        "".join(output.get("text", ""))
        for cell in read(path)["cells"]
        for output in cell.get("outputs", [])
    )


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_notebooks_are_found_in_the_project_or_the_package() -> None:
    assert notebooks_dir().name == "notebooks"


def test_a_missing_directory_of_notebooks_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "benchkit" / "present" / "x.py"))
    with pytest.raises(BenchkitError, match="notebooks are not here"):
        notebooks_dir()


def test_installed_notebooks_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(notebooks, "__file__", str(tmp_path / "benchkit" / "present" / "x.py"))
    (tmp_path / "notebooks").mkdir()
    assert notebooks_dir() == tmp_path / "notebooks"
    (tmp_path / "benchkit" / "notebooks").mkdir(parents=True)
    assert notebooks_dir() == tmp_path / "benchkit" / "notebooks"


@pytest.mark.usefixtures("fixtures")
def test_notebooks_are_listed_with_title_and_question() -> None:
    listed = {info.name: info for info in list_notebooks()}
    assert listed["complete"] == NotebookInfo(
        name="complete",
        path=NOTEBOOKS / "complete.ipynb",
        title="A notebook of every type",
        question="What does run_notebook pass on, and how?",
    )
    assert listed["bare"].title == "bare"
    assert list(listed) == sorted(listed)


@pytest.mark.usefixtures("fixtures")
def test_an_unknown_notebook_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown notebook 'complet'; did you mean 'complete'"):
        run_notebook("complet", values={})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        run_notebook(tmp_path / "absent.ipynb", values={})


def test_all_faults_are_reported_before_anything_is_started(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        run_notebook(
            NOTEBOOKS / "complete.ipynb",
            values={"cleints": 5, "version": 8.1},
            output=tmp_path / "report.html",
            timeout_s=0,
        )
    where = [fault.where for fault in caught.value.faults]
    assert where == ["parameters", "version", "output", "timeout_s"]
    assert names(tmp_path) == []


def test_a_notebook_that_papermill_misreads_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="papermill misreads"):
        run_notebook(NOTEBOOKS / "misread_hash_in_text.ipynb", values={}, output=tmp_path)
    assert names(tmp_path) == []


@pytest.mark.usefixtures("fixtures")
def test_values_reach_the_notebook_and_it_is_kept_with_its_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "not {there} yet" / "caf\u00e9 1.ipynb"
    run = run_notebook("complete", values={"clients": 3, "version": "8.10"}, output=target)
    assert (run.notebook, run.html, run.status) == (target, target.with_suffix(".html"), "complete")
    assert printed(target) == "[3, 0, '8.10', True, [1, 10], {'jit': 'off'}]\n"
    assert names(target.parent) == ["caf\u00e9 1.html", "caf\u00e9 1.ipynb"]
    assert 0 < run.duration_s < 120
    assert capfd.readouterr() == ("", "")
    told = read(target)["metadata"]["papermill"]
    assert (told["input_path"], told["output_path"]) == ("complete.ipynb", "caf\u00e9 1.ipynb")
    assert str(tmp_path) not in target.read_text()


def test_another_runs_files_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "bare.ipynb").write_text("mine")
    (tmp_path / "bare-2.html").write_text("mine, too")
    run = run_notebook(NOTEBOOKS / "bare.ipynb", values={}, output=tmp_path)
    assert run.notebook == tmp_path / "bare-3.ipynb"
    assert (tmp_path / "bare.ipynb").read_text() == "mine"
    assert (tmp_path / "bare-2.html").read_text() == "mine, too"


def test_without_metadata_and_without_report(runs: Path) -> None:
    run = run_notebook(NOTEBOOKS / "bare.ipynb", values={}, html=False)
    assert run.html is None
    assert printed(run.notebook) == "ran\n"
    assert run.notebook.parent.parent == runs / "bare"
    assert re.fullmatch(r"\d{8}T\d{6}Z", run.notebook.parent.name)
    assert names(run.notebook.parent) == ["report.ipynb"]
    assert names(runs / "bare") == [run.notebook.parent.name]


def test_the_report_goes_where_the_notebook_says(tmp_path: Path, runs: Path) -> None:
    where = tmp_path / "run of last week"
    where.mkdir()
    run = run_notebook(NOTEBOOKS / "says_where.ipynb", values={"run_dir": str(where)})
    assert run.notebook == where / "report.ipynb"
    assert names(where) == ["report.html", "report.ipynb"]
    assert names(runs / "says_where") == []


def test_a_place_that_is_not_there_is_not_taken(tmp_path: Path, runs: Path) -> None:
    values = {"run_dir": str(tmp_path / "absent")}
    run = run_notebook(NOTEBOOKS / "says_where.ipynb", values=values, html=False)
    assert run.notebook.is_relative_to(runs / "says_where")


def test_the_kernel_is_this_python_whatever_the_notebook_names(tmp_path: Path) -> None:
    run = run_notebook(NOTEBOOKS / "other_kernel.ipynb", values={}, output=tmp_path, html=False)
    assert printed(run.notebook).strip() == sys.executable
    assert read(run.notebook)["metadata"]["kernelspec"]["name"] == "python3"


def test_interactive_cells_are_skipped(tmp_path: Path) -> None:
    run = run_notebook(NOTEBOOKS / "skips.ipynb", values={}, output=tmp_path, html=False)
    assert printed(run.notebook) == "ran\n"


def test_a_cell_that_raises(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotebookError) as caught:
        run_notebook(NOTEBOOKS / "raises.ipynb", values={}, output=tmp_path / "o.ipynb")
    assert caught.value.exit_code == 3
    assert "ZeroDivisionError: division by zero" in caught.value.message
    assert "----> 2 1 / 0" in caught.value.evidence
    assert str(tmp_path / "o.failed.ipynb") in caught.value.evidence
    assert names(tmp_path) == ["o.failed.html", "o.failed.ipynb"]
    first, *others = read(tmp_path / "o.failed.ipynb")["cells"]
    assert "".join(first["source"]).startswith("**FAILED**")
    assert not any("papermill encountered" in "".join(cell["source"]) for cell in others)
    assert ">FAILED<" in (tmp_path / "o.failed.html").read_text()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["exits", "exits_at_end"])
def test_sys_exit_is_no_success(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotebookError, match="ended before its last cell") as caught:
        run_notebook(NOTEBOOKS / f"{name}.ipynb", values={}, output=tmp_path, html=False)
    assert caught.value.exit_code == 3
    assert names(tmp_path) == [f"{name}.failed.ipynb"]


def test_a_kernel_that_dies(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotebookError, match=r"kernel died.* begins 'import os'") as caught:
        run_notebook(NOTEBOOKS / "kernel_dies.ipynb", values={}, output=tmp_path)
    assert caught.value.exit_code == 4
    assert names(tmp_path) == ["kernel_dies.failed.html", "kernel_dies.failed.ipynb"]
    assert capfd.readouterr() == ("", "")


def test_a_failed_notebook_can_be_run_again_without_its_traces(tmp_path: Path) -> None:
    first = tmp_path / "first.ipynb"
    source = (NOTEBOOKS / "sleeps.ipynb").read_text()
    first.write_text(source.replace("time.sleep(120)", "raise ValueError(witness)"))
    with pytest.raises(NotebookError):
        run_notebook(first, values={"witness": "/nowhere/x"}, output=tmp_path, html=False)
    with pytest.raises(NotebookError) as caught:
        run_notebook(tmp_path / "first.failed.ipynb", values={}, output=tmp_path, html=False)
    assert "/nowhere/x" not in caught.value.message
    texts = [
        "".join(cell["source"]) for cell in read(tmp_path / "first.failed.failed.ipynb")["cells"]
    ]
    assert sum(text.startswith("**FAILED**") for text in texts) == 1


@pytest.mark.slow
def test_the_time_limit_is_for_the_whole_notebook_and_lets_cells_clean_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    witness = tmp_path / "witness"
    with pytest.raises(NotebookError, match="time limit") as caught:
        run_notebook(
            NOTEBOOKS / "sleeps.ipynb",
            values={"witness": str(witness)},
            output=tmp_path / "o.ipynb",
            timeout_s=8,
        )
    assert caught.value.exit_code == 5
    assert witness.read_text() == "cleaned up"
    assert names(tmp_path) == ["o.failed.html", "o.failed.ipynb", "witness"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_an_interrupt_keeps_the_notebook_and_lets_cells_clean_up(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    arguments = f"values={{'witness': {str(witness)!r}}}, output=Path({str(tmp_path)!r})"
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path; from benchkit.present.notebooks import run_notebook\n"
        f"run_notebook({str(NOTEBOOKS / 'sleeps.ipynb')!r}, {arguments})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    with process:
        deadline = time.monotonic() + 60
        while not witness.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=90)
    assert told.strip().splitlines()[-1].startswith("KeyboardInterrupt: Interrupted")
    assert "IPKernelApp" not in told
    assert witness.read_text() == "cleaned up"
    assert names(tmp_path) == ["sleeps.failed.html", "sleeps.failed.ipynb", "witness"]


@pytest.mark.slow
def test_what_is_shown_has_a_text_for_every_viewer(tmp_path: Path) -> None:
    run = run_notebook(NOTEBOOKS / "shows.ipynb", values={}, output=tmp_path)
    outputs = [output["data"] for output in read(run.notebook)["cells"][1]["outputs"]]
    plain = ["".join(data["text/plain"]).splitlines()[0] for data in outputs]
    assert plain == ["a line that rises", "Speed", "\u26a0 Warning: mind the gap"]
    assert all(set(data) == {"text/html", "text/plain"} for data in outputs)
    assert run.html is not None
    assert 'alt="a line that rises"' in run.html.read_text()
