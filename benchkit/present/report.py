"""An executed notebook as one HTML file that needs no network, no script and no other file.

What a reader wants stands open (text, tables, figures), the code is folded away. Whatever a cell
has put out, nothing of it can reach the network: active elements are taken out, and a content
security policy in the page makes the browser refuse the rest.
"""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.errors import FormatError
from benchkit.experiment.ledger import write_synced

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag

MARKER_TAG = "papermill-error-cell-tag"
INJECTED_TAG = "injected-parameters"
SKIPPED_TAG = "skip-execution"
HIDDEN_TAGS = frozenset({"hide", "remove-cell", MARKER_TAG})
CODELESS_TAGS = frozenset({"hide-input", "remove-input"})
ERROR_ANCHOR = "benchkit-error"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
# Scripts and widgets are absent: without them the next best form of an output is shown.
SHOWN_MIMES = [
    "text/html",
    "text/markdown",
    "image/png",
    "image/jpeg",
    "image/svg+xml",
    "text/latex",
    "text/plain",
]
_ACTIVE = ["script", "noscript", "iframe", "frame", "object", "embed", "applet", "link", "meta"]
_ACTIVE += ["base", "title", "audio", "video", "source", "template"]
_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^(?P<level>#{1,6})\s+(?P<text>.+?)\s*#*\s*$")


def notebook_to_html(path: Path, html_path: Path, *, failed: str | None = None) -> None:
    """Write an executed notebook as one self-contained HTML file.

    Cells tagged ``hide`` or ``remove-cell`` are left out, and so are widgets and, unless the
    notebook failed, what was written to stderr. Pictures from the network are replaced by their
    text.

    Parameters
    ----------
    path
        The notebook; read only.
    html_path
        The report; replaced in one step if it is there. Its directory must exist.
    failed
        Why the notebook did not run to its end: shown on top of the report.

    Raises
    ------
    FormatError
        ``path`` cannot be read as a notebook.
    """
    with quiet():
        markup = _export(read_notebook(path), path, failed)
    write_synced(html_path, markup)


def read_notebook(path: Path) -> Any:
    """Read a notebook, of any format, as nbformat's node of format 4.

    Raises
    ------
    FormatError
        The file is missing or not a notebook.
    """
    import nbformat

    try:
        return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, AttributeError, LookupError, nbformat.ValidationError) as error:
        # nbformat's NotJSONError is a ValueError; others come from JSON of another shape.
        raise FormatError(
            f"{path} cannot be read as a notebook", evidence=str(error)[:400]
        ) from error


def _export(notebook: Any, path: Path, failed: str | None) -> str:
    from nbconvert.exporters import HTMLExporter
    from traitlets.config import Config

    anchor = _prepare(notebook, failed=failed is not None)
    title, _ = title_and_lead(cell.source for cell in notebook.cells if _is_text(cell))
    report = {
        "title": title or path.name.split(".")[0].replace("_", " "),
        "has_title": bool(title),
        "failed": failed,
        "anchor": anchor,
    }
    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        config=Config({"NbConvertBase": {"display_data_priority": SHOWN_MIMES}}),
        template_name="template",
        extra_template_basedirs=[str(Path(__file__).parent)],
        filters={"contained": contained_html},
        exclude_anchor_links=True,
        embed_images=True,
    )
    resources = {"report": report, "metadata": {"path": str(path.parent)}}
    markup, _ = exporter.from_notebook_node(notebook, resources=resources)
    return str(markup)


def _is_text(cell: Any) -> bool:
    return bool(cell.cell_type == "markdown")


def _prepare(notebook: Any, *, failed: bool) -> str:
    """Take out of the notebook what is not for readers; give the anchor of the error, or ""."""
    notebook.cells = [cell for cell in notebook.cells if not HIDDEN_TAGS & _tags(cell)]
    anchor = ""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        cell.outputs = [output for output in cell.outputs if _is_shown(output, failed=failed)]
        cell.metadata["report"] = _fold(cell)
        if CODELESS_TAGS & _tags(cell) or not cell.source.strip():
            cell.metadata["transient"] = {"remove_source": True}
        for output in cell.outputs:
            if output.output_type == "error" and not anchor:
                output["anchor"] = anchor = ERROR_ANCHOR
    return anchor


def _is_shown(output: Any, *, failed: bool) -> bool:
    if output.output_type == "stream":
        return failed or output.name != "stderr"
    # A widget's text alternative is its state at birth: a progress bar would stand at 0.
    return WIDGET_MIME not in output.get("data", {})


def _fold(cell: Any) -> dict[str, Any]:
    tags = _tags(cell)
    if INJECTED_TAG in tags:
        return {"label": "Parameters of this run", "open": True}
    if "parameters" in tags:
        return {"label": "Parameters and their defaults", "open": False}
    if SKIPPED_TAG in tags and cell.get("execution_count") is None:
        return {"label": "Code for interactive use, not run here", "open": False}
    return {"label": "Code", "open": False}


def _tags(cell: Any) -> frozenset[str]:
    return frozenset(cell.get("metadata", {}).get("tags", []))


def title_and_lead(texts: Iterable[str]) -> tuple[str, str]:
    """Find the first heading of level 1 in Markdown texts, and the first paragraph after it.

    Returns
    -------
    tuple
        Both as one line without the Markdown signs for bold and code; "" for what is missing.
    """
    title, fenced = "", False
    lead: list[str] = []
    for line in (line for text in texts for line in [*text.splitlines(), ""]):
        fenced ^= bool(_FENCE.match(line))
        heading = None if fenced else _HEADING.match(line)
        if heading and heading["level"] == "#" and not title:
            title = _plain(heading["text"])
        elif lead and (heading or not line.strip()):
            break
        elif title and not heading and line.strip():
            lead.append(line.strip())
    return title, _plain(" ".join(lead))


def _plain(markdown: str) -> str:
    return markdown.replace("**", "").replace("`", "")


def contained_html(markup: str) -> str:
    """Make a piece of HTML that can neither run, nor load, nor break the page around it.

    Scripts, frames, event handlers and everything loaded from elsewhere are taken out, open
    elements are closed, and tables are put into a box of their own that scrolls.
    """
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(markup, "html.parser")
    for element in soup.find_all(_ACTIVE):
        element.decompose()
    for element in soup.find_all(["html", "head", "body", "main"]):
        element.unwrap()
    for element in soup.find_all("style"):
        if _loads(element.get_text()):
            element.decompose()
    for element in soup.find_all(True):
        _contain(element)
    _box_tables(soup)
    return str(soup)


def _contain(element: Tag) -> None:
    for name, value in list(element.attrs.items()):
        text = str(value).strip()
        local = text.startswith(("data:", "#"))
        if name == "href" and element.name == "a":
            bad = not local and not re.match(r"(https?:|mailto:|[^:]*$)", text, re.IGNORECASE)
        elif name in {"src", "href", "xlink:href", "background", "poster"}:
            bad = not local
        else:
            bad = name.startswith("on") or name in {"srcset", "action", "formaction"}
        if bad or (name == "style" and _loads(text)):
            del element[name]
    if element.name == "img" and not element.get("src"):
        element.replace_with(f"[picture not included: {element.get('alt') or 'no description'}]")


def _loads(css: str) -> bool:
    return bool(re.search(r"url\s*\(|@import|\\", css, re.IGNORECASE))


def _box_tables(soup: BeautifulSoup) -> None:
    for header in soup.find_all("th"):
        if not header.get_text(strip=True):
            header.name = "td"  # pandas' corner: read out as a header without a name
    for table in soup.find_all("table"):
        if table.find_parent(class_="benchkit-table") or table.find_parent("table"):
            continue
        # tabindex: a box that scrolls must be reachable without a mouse.
        table.wrap(soup.new_tag("div", attrs={"class": "scroll", "tabindex": "0"}))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings and log lines of the notebook libraries from the user for a ``with`` block.

    They speak of inner matters (a missing description, an unknown tag); what matters is raised.
    """
    loggers = [logging.getLogger(name) for name in ("papermill", "traitlets", "asyncio")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)  # unlike disabling, it holds for children too
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
