"""Every notebook of the project: its form, and that it runs."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from benchkit.analysis.metrics import METRICS
from benchkit.experiment.ledger import read_record, runs_dir
from benchkit.postgres import workplace
from benchkit.present.notebooks import (
    NotebookInfo,
    check_agreement,
    list_notebooks,
    read_parameters,
    run_notebook,
)
from benchkit.present.summary import RUN_MIME
from tests.postgres.conftest import one_of_each_major

NOTEBOOKS = list_notebooks()
every_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda info: info.name)


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@every_notebook
def test_form(notebook: NotebookInfo) -> None:
    content = nbformat.read(notebook.path, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(content)
    assert content.nbformat_minor >= 5
    assert content.metadata.kernelspec.name == "python3"
    for cell in code_cells(notebook.path):
        assert not cell["outputs"], "committed with outputs"
        assert cell["execution_count"] is None
        source = "".join(cell["source"])
        lines = [line for line in source.splitlines() if line.strip()]
        is_parameters = "parameters" in cell["metadata"].get("tags", [])
        assert len(lines) <= (16 if is_parameters else 10), source
        tree = ast.parse(source)
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        assert not re.search(r"^\s*[!%]", source, re.MULTILINE), "shell escapes hide failures"


@every_notebook
def test_parameters_are_what_papermill_sees(notebook: NotebookInfo) -> None:
    check_agreement(notebook.path)
    parameters = read_parameters(notebook.path)
    assert parameters["profile"].default == "quick"
    assert all(parameter.meaning for parameter in parameters.values())


@pytest.mark.server
@pytest.mark.slow
@every_notebook
def test_smoke_run_leaves_a_whole_report(notebook: NotebookInfo) -> None:
    done = run_notebook(notebook.name, values={"profile": "smoke"}, progress=False)
    assert done.status == "complete"
    assert done.html is not None
    page = done.html.read_text("utf-8")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert page.count("<img alt=") >= 2
    assert "Published claims and what was measured here" in page
    assert page.count("<summary>For mail</summary>") >= 6
    embedded = [
        output["data"][RUN_MIME]
        for cell in code_cells(done.notebook)
        for output in cell["outputs"]
        if RUN_MIME in output.get("data", {})
    ]
    record = read_record(Path(embedded[0]["run_dir"]))
    assert record.complete
    assert done.notebook.parent == record.directory
    assert [entry["key"] for entry in record.entries] == [t["key"] for t in embedded[0]["trials"]]
    assert {entry["status"] for entry in record.entries} <= {"usable", "rejected"}
    if notebook.name == "hot_update_benefit":
        check_hot_share(record.entries)


@pytest.mark.server
@pytest.mark.slow
def test_reports_of_several_machines_are_shown_without_measuring(tmp_path: Path) -> None:
    """The two reports are one and the same here, and the page must say so."""
    changes = {"profile": "smoke", "scales": [1], "transactions": 200}
    half = tmp_path / "half.ipynb"
    run_notebook("os_comparison", values=changes, output=half, html=False, progress=False)
    runs = set(runs_dir().glob("*/*"))
    both = {"reports": [str(half), str(half)]}
    done = run_notebook(
        "os_comparison", values=both, output=tmp_path / "both.ipynb", progress=False
    )
    assert set(runs_dir().glob("*/*")) == runs
    assert done.html is not None
    page = done.html.read_text("utf-8")
    assert "Nothing is measured: 2 reports are read" in page
    assert "Both reports come from one machine" in page
    assert "Published claims and what was measured here" in page


@pytest.mark.server
@pytest.mark.slow
def test_every_version_at_hand_in_one_experiment() -> None:
    builds = one_of_each_major()
    changes = {"builds": [str(build.bin_dir) for build in builds], "loads": [[2, 1]]}
    done = run_notebook(
        "version_regression", values={"profile": "smoke", "rounds": 1, **changes}, progress=False
    )
    record = read_record(done.notebook.parent)
    majors = set()
    for entry in record.entries:
        assert entry["status"] == "usable", entry["error"] or entry["gates"]
        figures = {name: metric.read(entry) for name, metric in METRICS.items()}
        assert 20 < (figures["hot_branches_pct"] or 0) <= 100
        assert (figures["wal_bytes_per_transaction"] or 0) > 100
        assert (figures["buffer_hit_pct"] or 0) > 50
        assert figures["tps"]
        assert "max_wal_size" in entry["asked"]["settings"]  # was checkpoint_segments
        majors.add(entry["asked"]["build"]["version"])
    assert len(majors) == len(builds)


def check_hot_share(entries: list[dict[str, Any]]) -> None:
    for entry in entries:
        table = entry["counters"]["tables"]["pgbench_branches"]
        share = table["n_tup_hot_upd"] / table["n_tup_upd"]
        assert share > 0.9 if entry["levels"]["updates"] == "HOT" else share < 0.005


@pytest.mark.server
@pytest.mark.slow
def test_a_killed_run_goes_on_and_leaves_nothing(tmp_path: Path) -> None:
    """``kill -9`` of the command: the kernel ends, the next start sweeps and measures the rest."""
    words = [sys.executable, "-m", "benchkit.cli", "run", "os_comparison"]
    words += ["--profile", "smoke", "-p", "transactions=1500"]
    environment = os.environ | {"BENCHKIT_RUNS": str(tmp_path)}
    before = what_is_there()
    first = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not (lines := finished_lines(tmp_path))[2:] and time.monotonic() < deadline:
        time.sleep(0.05)
    first.kill()
    first.wait()
    lines = finished_lines(tmp_path)
    assert len(lines) >= 3
    subprocess.run(words, env=environment, check=True, timeout=300, capture_output=True)
    after = finished_lines(tmp_path)
    assert after[: len(lines)] == lines
    keys = [json.loads(line)["key"] for line in after]
    assert len(keys) == len(set(keys)) == 15
    assert what_is_there() <= before  # other tests' server may run beside this one


def what_is_there() -> set[object]:
    """Where processes are, instances and socket directories of benchkit's servers."""
    home = workplace.home()
    sockets = Path(tempfile.gettempdir()).glob("benchkit-*")
    places = set()
    for pid in workplace.processes_inside(home):
        with contextlib.suppress(psutil.Error):
            places.add(psutil.Process(pid).cwd())  # a server's workers come and go
    return {*places, *(home / "instances").iterdir(), *sockets}


def finished_lines(runs: Path) -> list[str]:
    """The whole lines of the only ledger below a directory."""
    ledgers = list(runs.glob("*/*/trials.jsonl"))
    assert len(ledgers) <= 1
    return ledgers[0].read_text("utf-8").splitlines() if ledgers else []
