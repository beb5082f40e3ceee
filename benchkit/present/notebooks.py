"""Notebooks in batch: the one checking function in front of papermill.

What papermill lets pass is an error here: an unknown or mistyped parameter, ``sys.exit(0)`` in a
cell, a kernel of another Python, an output that another run owns. The executed notebook is kept
whatever happens; of a failed run as ``<name>.failed.ipynb``.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn

from benchkit.errors import BenchkitError, Fault, Faults, InputError, NotebookError
from benchkit.experiment.embedded import RUN_MIME
from benchkit.experiment.ledger import runs_dir, write_synced
from benchkit.present.execution import BAD_INPUT, INTERRUPTED, Failure, execute, own_kernel
from benchkit.present.parameters import (
    Parameter,
    check_agreement,
    check_values,
    parse_assignments,
    read_cells,
    read_parameters,
)
from benchkit.present.report import (
    INJECTED_TAG,
    MARKER_TAG,
    notebook_to_html,
    quiet,
    read_notebook,
    title_and_lead,
)

__all__ = [
    "RUN_MIME",
    "NotebookInfo",
    "NotebookRun",
    "Parameter",
    "check_agreement",
    "check_values",
    "find_notebook",
    "list_notebooks",
    "notebooks_dir",
    "parse_assignments",
    "read_parameters",
    "run_notebook",
]


@dataclass(frozen=True, kw_only=True)
class NotebookInfo:
    """A notebook that can be run: its name, file, first heading and first paragraph."""

    name: str
    path: Path
    title: str
    question: str


@dataclass(frozen=True, kw_only=True)
class NotebookRun:
    """A notebook that ran to its end.

    Attributes
    ----------
    notebook
        The executed notebook.
    html
        The report, or None if none was asked for.
    status
        Always ``complete``: a run that failed raises.
    duration_s
        From the call to the written files, in seconds.
    """

    notebook: Path
    html: Path | None
    status: Literal["complete"]
    duration_s: float


def notebooks_dir() -> Path:
    """Give the directory of benchkit's notebooks: in the installed package, else in the project.

    Raises
    ------
    BenchkitError
        There is none.
    """
    package = Path(__file__).resolve().parents[1]
    for place in (package / "notebooks", package.parent / "notebooks"):
        if place.is_dir():
            return place
    raise BenchkitError(
        "benchkit's notebooks are not here",
        evidence=f"neither in {package} nor beside it",
        advice="install benchkit again, or give the path of a notebook",
    )


def list_notebooks() -> list[NotebookInfo]:
    """List benchkit's notebooks by name, with title and question.

    Raises
    ------
    BenchkitError
        There is no directory of notebooks.
    FormatError
        One of the files is not a notebook.
    """
    return [
        _info(path)
        for path in sorted(notebooks_dir().glob("*.ipynb"))
        if not path.name.startswith(".")
    ]


def _info(path: Path) -> NotebookInfo:
    texts = [cell["source"] for cell in read_cells(path) if cell["cell_type"] == "markdown"]
    title, question = title_and_lead(texts)
    return NotebookInfo(name=path.stem, path=path, title=title or path.stem, question=question)


def run_notebook(
    name_or_path: str | Path,
    *,
    values: Mapping[str, object],
    output: Path | None = None,
    html: bool = True,
    timeout_s: float | None = None,
    progress: bool = True,
) -> NotebookRun:
    """Run a notebook from its first to its last cell, in a kernel of this very Python.

    While it runs, the state after each cell is in a hidden file beside the destination. At the end
    it takes its name in one step; a name that is taken is never overwritten, the new one gets
    ``-2``, ``-3``. The working directory of the cells is the caller's; cells tagged
    ``skip-execution`` do not run.

    Parameters
    ----------
    name_or_path
        A name from :func:`list_notebooks`, or the path of any notebook.
    values
        Parameter -> value; the others keep the notebook's defaults.
    output
        Where the executed notebook goes: a file ``*.ipynb`` or an existing directory. Missing
        directories of a file are made. None: ``report.ipynb`` in the directory the notebook names
        in an output of type ``application/vnd.benchkit.run+json``, else in
        ``<runs>/<name>/<UTC time>/``.
    html
        Write the report beside it, with the same name.
    timeout_s
        Limit for the whole notebook, in seconds; then the kernel is interrupted, so that the
        cell's context managers stop what they started. None: no limit.
    progress
        Tell on stderr where the experiment stands, a line for each trial.

    Raises
    ------
    InputError
        Unknown notebook or parameter, wrong types, no usable kernel; nothing was started.
    FormatError
        The notebook cannot be read, or its parameters are not declared as they must be.
    NotebookError
        The notebook did not run to its end: a cell raised (exit code 3; 2 if what it was given
        cannot be done), the kernel died (4), the time limit was reached (5). The notebook is kept
        as ``<name>.failed.ipynb``.
    KeyboardInterrupt
        Interrupted; the notebook is kept in the same way.
    """
    started = time.monotonic()
    path = find_notebook(name_or_path)
    checked, kernel = check_request(path, values, output, timeout_s)
    with quiet():
        check_agreement(path)
        working_path = _working_path(path, output)
        prepare(path, working_path)
    failure = execute(
        working_path,
        values=checked,
        kernel=kernel,
        deadline=None if timeout_s is None else started + timeout_s,
        progress=progress,
    )
    notebook, report = _keep(working_path, path, output, failure, html=html)
    if failure is not None:
        _raise(failure, path.stem, notebook, report)
    duration_s = time.monotonic() - started
    return NotebookRun(notebook=notebook, html=report, status="complete", duration_s=duration_s)


def find_notebook(name_or_path: str | Path) -> Path:
    """Give the file of a notebook, by its name or path.

    Raises
    ------
    InputError
        There is none; names the nearest.
    """
    path = Path(name_or_path)
    if path.suffix == ".ipynb" or len(path.parts) > 1:
        if path.is_file():
            return path
        raise InputError([Fault(where="notebook", problem=f"there is no file {path}")])
    known = {own.stem: own for own in Path.cwd().glob("*.ipynb")}
    known |= {info.name: info.path for info in list_notebooks()}  # an executed copy may lie here
    if path.name not in known:
        faults = Faults()
        faults.unknown("notebook", path.name, known, kind="notebook")
        faults.raise_any()
    return known[path.name]


def check_request(
    path: Path,
    values: Mapping[str, object],
    output: Path | None = None,
    timeout_s: float | None = None,
) -> tuple[dict[str, Any], str]:
    """Check all that was asked for at once; give the plain values and the kernel's name."""
    faults = Faults()
    checked: dict[str, Any] = {}
    kernel = ""
    try:
        checked = check_values(values, read_parameters(path))
    except InputError as error:
        faults.extend(error)
    try:
        kernel = own_kernel()
    except InputError as error:
        faults.extend(error)
    if output is not None and output.suffix != ".ipynb" and not output.is_dir():
        faults.add("output", f"{output} is neither a file name *.ipynb nor an existing directory")
    if timeout_s is not None and not timeout_s > 0:
        faults.add("timeout_s", f"{timeout_s} is not above 0")
    faults.raise_any()
    return checked, kernel


def _working_path(path: Path, output: Path | None) -> Path:
    """Make the directory for the run and name the hidden file in it."""
    if output is None:
        directory = runs_dir() / path.stem
    else:
        directory = output if output.is_dir() else output.parent
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f".{path.stem}.{secrets.token_hex(4)}.ipynb"


def prepare(path: Path, working_path: Path) -> None:
    """Write the notebook as it is to be run: without traces of earlier runs or other machines."""
    import nbformat

    notebook = read_notebook(path)
    stale = {MARKER_TAG, INJECTED_TAG}
    notebook.cells = [
        cell for cell in notebook.cells if not stale & set(cell.metadata.get("tags", []))
    ]
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
    }
    notebook.metadata.pop("papermill", None)
    notebook.metadata.pop("widgets", None)
    nbformat.write(notebook, working_path)  # type: ignore[no-untyped-call]


def _keep(
    working_path: Path, path: Path, output: Path | None, failure: Failure | None, *, html: bool
) -> tuple[Path, Path | None]:
    """Give the executed notebook its place and name, and write the report beside it."""
    import nbformat

    with quiet():
        notebook = read_notebook(working_path)
        failed = None if failure is None else f"{failure.message}\n\n{failure.evidence}".strip()
        _mark(notebook, failed)
        directory, stem = _destination(notebook, path, output)
        kept_path = _reserve(directory, stem, suffix=".failed" if failed else "")
        # The paths of this machine are nobody's business where the report is shared.
        notebook.metadata.papermill.update(input_path=path.name, output_path=kept_path.name)
        write_synced(kept_path, nbformat.writes(notebook))  # type: ignore[no-untyped-call]
    working_path.unlink()
    report_path = kept_path.with_suffix(".html") if html else None
    if report_path is not None:
        notebook_to_html(kept_path, report_path, failed=failed)
    return kept_path, report_path


def _mark(notebook: Any, failed: str | None) -> None:
    """Put why it failed on top, in place of papermill's own marks, which not every failure gets."""
    from nbformat.v4 import new_markdown_cell

    cells = [cell for cell in notebook.cells if MARKER_TAG not in cell.metadata.get("tags", [])]
    if failed is not None:
        text = "**FAILED**: this notebook did not run to its end.\n\n"
        quoted = "\n".join(f"    {line}" for line in failed.splitlines())
        mark = new_markdown_cell(text + quoted, metadata={"tags": [MARKER_TAG]})  # type: ignore[no-untyped-call]
        cells.insert(0, mark)
    notebook.cells = cells


def _destination(notebook: Any, path: Path, output: Path | None) -> tuple[Path, str]:
    if output is not None:
        return (output, path.stem) if output.is_dir() else (output.parent, output.stem)
    for cell in reversed(notebook.cells):
        for result in reversed(cell.get("outputs", [])):
            told = result.get("data", {}).get(RUN_MIME)
            if isinstance(told, dict) and Path(str(told.get("run_dir", "-"))).is_dir():
                return Path(told["run_dir"]), "report"
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    directory = runs_dir() / path.stem / stamp
    directory.mkdir(parents=True, exist_ok=True)
    return directory, "report"


def _reserve(directory: Path, stem: str, *, suffix: str) -> Path:
    """Take a free name: creating the file exclusively is what keeps two runs apart."""
    count = 1
    while True:
        name = f"{stem}{suffix}" if count == 1 else f"{stem}-{count}{suffix}"
        candidate = directory / f"{name}.ipynb"
        try:
            if not candidate.with_suffix(".html").exists():
                candidate.open("x").close()
                return candidate
        except FileExistsError:
            pass
        count += 1


def _raise(failure: Failure, name: str, notebook: Path, report: Path | None) -> NoReturn:
    if failure.exit_code == INTERRUPTED:
        raise KeyboardInterrupt(f"{failure.message}; kept: {notebook}")
    raise NotebookError(
        failure.message if failure.exit_code == BAD_INPUT else f"{name} failed: {failure.message}",
        evidence=f"{failure.evidence}\nkept: {notebook}",
        advice=f"open {report or notebook}",
        exit_code=failure.exit_code,
    )
