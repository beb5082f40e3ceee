"""A notebook's own check, before it measures anything; and a new notebook of the reader's own."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchkit.errors import Faults, NotebookError
from benchkit.experiment.ledger import project_root
from benchkit.present.execution import execute
from benchkit.present.notebooks import check_request, find_notebook, list_notebooks, prepare
from benchkit.present.parameters import read_cells
from benchkit.present.report import quiet

CHECK_TAG = "check"
TEMPLATE = Path(__file__).parent / "template" / "experiment.ipynb"


def check_notebook(name_or_path: str | Path, *, values: Mapping[str, object]) -> str:
    """Run a notebook up to its cell tagged ``check``, and give what that cell shows.

    That cell shows what the preflight found and what the experiment takes (trials, time, disk,
    memory). Nothing is measured and no server is started.

    Parameters
    ----------
    name_or_path, values
        As in :func:`~benchkit.present.notebooks.run_notebook`.

    Returns
    -------
    str
        Plain text.

    Raises
    ------
    InputError
        Unknown notebook or parameter, wrong types, or the notebook has no such cell.
    NotebookError
        What the experiment asks for cannot be done (exit code 2), or a cell raised (3).
    """
    path = find_notebook(name_or_path)
    checked, kernel = check_request(path, values)
    last = _check_cell(path)
    with tempfile.TemporaryDirectory(prefix="benchkit-") as place:
        working_path = Path(place) / path.name
        with quiet():
            prepare(path, working_path)
        _cut(working_path, last)
        failure = execute(
            working_path, values=checked, kernel=kernel, deadline=None, progress=False
        )
        if failure is not None:
            raise NotebookError(
                failure.message, evidence=failure.evidence, exit_code=failure.exit_code
            )
        return _shown_last(working_path)


def _check_cell(path: Path) -> str:
    """Find the source of the cell to stop at: cells are added and removed on the way there."""
    found = [cell["source"] for cell in read_cells(path) if CHECK_TAG in cell["tags"]]
    if len(found) != 1:
        faults = Faults()
        faults.add("notebook", f"{path} has {len(found)} cells tagged {CHECK_TAG!r}, not one")
        faults.raise_any()
    return str(found[0])


def _cut(path: Path, last: str) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    notebook["cells"] = notebook["cells"][: sources.index(last) + 1]
    path.write_text(json.dumps(notebook), encoding="utf-8")


def _shown_last(path: Path) -> str:
    outputs = json.loads(path.read_text("utf-8"))["cells"][-1]["outputs"]
    texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs]
    return "\n\n".join(text for text in texts if text)


def new_notebook(name: str) -> Path:
    """Write a notebook of the reader's own from a template that runs as it is.

    Parameters
    ----------
    name
        Letters, digits and underscores; names the file, the experiment and its runs.

    Returns
    -------
    Path
        The new file: in the project's ``notebooks``, else in the working directory.

    Raises
    ------
    InputError
        A name that cannot be, or that is taken.
    """
    project = project_root()
    path = (project / "notebooks" if project else Path.cwd()) / f"{name}.ipynb"
    faults = Faults()
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        faults.add("name", f"{name!r}: a letter, then letters, digits and underscores")
    elif path.exists() or name in {info.name for info in list_notebooks()}:
        faults.add("name", f"there is a notebook {name} already")
    faults.raise_any()
    text = TEMPLATE.read_text("utf-8").replace("my_experiment", name)
    path.write_text(text, encoding="utf-8")
    return path
