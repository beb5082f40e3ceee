"""A run read out of an executed notebook, and what is said of files that carry none."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import FormatError
from benchkit.experiment import embedded
from benchkit.experiment.embedded import RUN_MIME, read_report
from tests.analysis.machines import machine

RECORD = machine()
RUN: dict[str, Any] = {
    "run_dir": "/x",
    "specification": RECORD.specification,
    "trials": RECORD.entries,
}


def written(directory: Path, *runs: Any) -> Path:
    """Write a notebook by hand, an output for each run."""
    outputs = [
        {"output_type": "display_data", "metadata": {}, "data": {RUN_MIME: run, "text/plain": "x"}}
        for run in runs
    ]
    text = {"output_type": "stream", "name": "stdout", "text": ["hello"]}
    cells = [
        {"cell_type": "markdown", "source": "# Title", "metadata": {}},
        {"cell_type": "code", "source": "1", "outputs": [text, *outputs], "metadata": {}},
    ]
    path = directory / "report.ipynb"
    path.write_text(json.dumps({"nbformat": 4, "cells": cells, "metadata": {}}))
    return path


def test_what_was_embedded_is_read_back(tmp_path: Path) -> None:
    record = read_report(written(tmp_path, RUN))
    assert record.specification == RECORD.specification
    assert record.entries == RECORD.entries
    assert record.directory == tmp_path
    assert record.series(record.entries[0]["key"]) is None


def test_the_last_of_several_runs_counts(tmp_path: Path) -> None:
    later = copy.deepcopy(RUN)
    later["specification"]["run_id"] = "later"
    assert read_report(written(tmp_path, RUN, later)).specification["run_id"] == "later"


def test_a_search_in_the_notebook_is_not_its_experiment(tmp_path: Path) -> None:
    search = copy.deepcopy(RUN)
    asked = {"smallest_change": 0.05, "error": 0.05, "metric": "tps", "most_trials": 9, "about": {}}
    search["specification"] |= {"run_id": "search", "search": asked}
    for runs in ((search, RUN), (RUN, search)):
        path = written(tmp_path, *runs)
        assert read_report(path).specification["run_id"] == RUN["specification"]["run_id"]
        assert read_report(path, search=True).specification["run_id"] == "search"
    with pytest.raises(FormatError, match="carries no run"):
        read_report(written(tmp_path, RUN), search=True)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{", b"[" * 100_000, b"9" * 5000], ids=str)
def test_no_json_is_no_notebook(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "report.ipynb"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="cannot be read as a notebook"):
        read_report(path)
    with pytest.raises(FormatError, match="cannot be read as a notebook"):
        read_report(tmp_path)


@pytest.mark.parametrize(
    "notebook", [None, [], {"cells": {}}, {"cells": [1, {"outputs": [2, {"data": []}]}]}]
)
def test_without_a_run_it_says_what_to_do(tmp_path: Path, notebook: Any) -> None:
    path = tmp_path / "report.ipynb"
    path.write_text(json.dumps(notebook))
    with pytest.raises(FormatError, match="run the notebook to its end"):
        read_report(path)


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, RUN)
    monkeypatch.setattr(embedded, "MOST_BYTES", 1000)
    with pytest.raises(FormatError, match="1000 B is the most"):
        read_report(path)


def _set(*names: Any, value: Any) -> Callable[[Any], None]:
    def change(run: Any) -> None:
        for name in names[:-1]:
            run = run[name]
        run[names[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_set("specification", "format", value=99), "format 99"),
        (_set("specification", value=3), "run.specification is a whole number, not an object"),
        (_set("trials", value={}), "run.trials is an object, not a list"),
        (_set("trials", 1, value="x"), r"run.trials\[1\] is a text"),
        (_set("trials", 0, "twin", value=1), r"trials\[0\].twin is a whole number"),
        (_set("trials", 0, "effective", "a", value=None), "effective.a is null, not a text"),
        (_set("trials", 0, "levels", value={"scale": "1"}), "trials have the levels"),
        (_set("trials", 0, "levels", "scale", value="7"), "trials have the levels"),
        (_set("trials", 0, "key", value="../../secret"), "not the key of a trial"),
        (_set("trials", 0, "round", value=10**30), "too large"),
        (_set("trials", 0, "result", "wall_s", value=float("nan")), "JSON compliant"),
        (_set("trials", 0, "error", value="\ud800"), "surrogates"),
        (_set("specification", "cells", 0, "asked", "build", value={}), "lacks cflags, compiler"),
        (_set("specification", "cells", 0, "asked", "client", "configure", value=[1]), "flags"),
        (_set("specification", "host", "cpu_model", value=[]), "host.cpu_model is a list"),
        (_set("specification", "factors", "round", value=["1"]), "no factor can be called round"),
        (lambda run: run["specification"].pop("rounds"), "specification lacks rounds"),
        (_set("specification", "sessions", value="3"), "sessions is a text, not a whole number"),
        (_set("trials", 0, "checkpoints", value=[{}]), "lacks began_s, cause, ended_s"),
        (_set("trials", 1, "started_at", value="now"), "started_at is a text"),
    ],
)
def test_a_damaged_run_is_named_by_the_place(
    tmp_path: Path, change: Callable[[Any], None], complaint: str
) -> None:
    run = copy.deepcopy(RUN)
    change(run)
    with pytest.raises(FormatError, match=complaint):
        read_report(written(tmp_path, run))
