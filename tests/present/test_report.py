"""The report: one file without network or scripts, with what a reader needs on top."""

from __future__ import annotations

import base64
import logging
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from benchkit.errors import FormatError
from benchkit.present.report import contained_html, notebook_to_html, quiet, title_and_lead

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
LOADING = {"script", "link", "img", "iframe", "source", "audio", "video", "object", "embed"}


class Elements(HTMLParser):
    """All elements with their attributes, and all text outside style elements."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if not self.found or self.found[-1][0] != "style":
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def assert_self_contained(markup: str) -> None:
    page = Elements(markup)
    for tag, attributes in page.found:
        assert tag != "script"
        assert not [name for name in attributes if name.startswith("on")]
        if tag in LOADING:
            for name in ("src", "href", "data", "srcset"):
                assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert not re.search(r"url\s*\(|@import", markup)
    policy = [meta for meta in page.named("meta") if meta.get("http-equiv")]
    assert [meta["content"] for meta in policy] == [
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    ]


def code(source: str, *outputs: Any, tags: tuple[str, ...] = ()) -> Any:
    cell = new_code_cell(source, metadata={"tags": list(tags)})  # type: ignore[no-untyped-call]
    cell.outputs = list(outputs)
    return cell


def text(source: str, *tags: str) -> Any:
    return new_markdown_cell(source, metadata={"tags": list(tags)})  # type: ignore[no-untyped-call]


def shown(**data: str) -> Any:
    bundle = {name.replace("_", "/", 1): value for name, value in data.items()}
    return new_output("display_data", bundle)  # type: ignore[no-untyped-call]


def stream(name: str, written: str) -> Any:
    return new_output("stream", name=name, text=written)  # type: ignore[no-untyped-call]


def report(directory: Path, *cells: Any, failed: str | None = None) -> str:
    path = directory / "hot_updates.ipynb"
    nbformat.write(new_notebook(cells=list(cells)), path)  # type: ignore[no-untyped-call]
    notebook_to_html(path, directory / "report.html", failed=failed)
    return (directory / "report.html").read_text(encoding="utf-8")


def test_a_report_holds_text_code_and_outputs(tmp_path: Path) -> None:
    markup = report(
        tmp_path,
        text("# Are *HOT* updates cheaper?\n\nYes & no.\n\n## Result"),
        code("tps = 5  # <per second>", stream("stdout", "a < b\n"), shown(text_plain="5 & 6")),
    )
    page = Elements(markup)
    assert page.named("html") == [{"lang": "en"}]
    assert len(page.named("main")) == 1
    assert len(page.named("h1")) == 1
    assert len(page.named("h2")) == 1
    assert "Yes & no." in page.text
    assert "a < b" in page.text
    assert "5 & 6" in page.text
    assert "<title>Are *HOT* updates cheaper?</title>" in markup
    assert "\u00b6" not in markup
    assert_self_contained(markup)


def test_code_is_folded_and_still_there(tmp_path: Path) -> None:
    page = Elements(report(tmp_path, text("# T"), code("tps = 5")))
    assert page.named("details") == [{"class": "code"}]
    assert "tps" in page.text


def test_parameters_are_labelled_and_those_given_are_open(tmp_path: Path) -> None:
    markup = report(
        tmp_path,
        code("scale: int = 1", tags=("parameters",)),
        code("scale = 5", tags=("injected-parameters",)),
        code("explore()", tags=("skip-execution",)),
    )
    assert re.findall(r"<details class=\"code\"( open=\"\")?><summary>(.*?)<", markup) == [
        ("", "Parameters and their defaults"),
        (' open=""', "Parameters of this run"),
        ("", "Code for interactive use, not run here"),
    ]


def test_hidden_cells_and_marks_of_papermill_are_left_out(tmp_path: Path) -> None:
    markup = report(
        tmp_path,
        text("secret 1", "hide"),
        code("secret = 2", shown(text_plain="secret"), tags=("remove-cell",)),
        text("secret 3", "papermill-error-cell-tag"),
        code("secret = 4", shown(text_plain="its output"), tags=("hide-input",)),
    )
    assert "secret" not in markup
    assert "its output" in markup


def test_a_notebook_without_heading_gets_its_name_as_heading(tmp_path: Path) -> None:
    markup = report(tmp_path, text("## Smaller"), code("1"))
    assert "<h1>hot updates</h1>" in markup


def test_warnings_are_for_failed_notebooks_only(tmp_path: Path) -> None:
    cell = code("warn()", stream("stderr", "UserWarning: mind"))
    assert "UserWarning" not in report(tmp_path, cell)
    assert "UserWarning: mind" in report(tmp_path, cell, failed="a reason")


def test_a_failed_notebook_says_so_on_top(tmp_path: Path) -> None:
    error = new_output(  # type: ignore[no-untyped-call]
        "error",
        ename="ZeroDivisionError",
        evalue="division by zero",
        traceback=["\x1b[31mTraceback\x1b[0m <cell>", "ZeroDivisionError: division by zero"],
    )
    markup = report(
        tmp_path, text("# T"), code("1 / 0", error), failed="\x1b[1mZeroDivisionError\x1b[0m: <0>"
    )
    head = markup[markup.index("<main>") : markup.index("<h1")]
    assert '<div class="failed" role="alert">' in head
    assert "FAILED" in head
    assert "ZeroDivisionError: &lt;0&gt;" in head
    assert '<a href="#benchkit-error">' in head
    assert '<pre class="error" id="benchkit-error">Traceback &lt;cell&gt;\n' in markup
    assert "<title>FAILED: T</title>" in markup
    assert "\x1b" not in markup


def test_a_failure_without_an_error_in_a_cell_has_no_dead_link(tmp_path: Path) -> None:
    markup = report(tmp_path, code("1"), failed="The kernel died")
    assert "The kernel died" in markup
    assert "benchkit-error" not in markup


def test_whatever_a_cell_puts_out_the_report_loads_nothing(tmp_path: Path) -> None:
    hostile = (
        "<script src='https://a.example/x.js'></script><img src='//a.example/x.png' alt='graph'>"
        "<iframe src='https://a.example'></iframe><link rel=stylesheet href='http://a.example'>"
        "<p onclick='go()' style='background:url(http://a.example/x)'>kept</p>"
        "<style>@import 'http://a.example/x.css'</style><meta http-equiv=refresh content='0;url=x'>"
        "<object data='http://a.example'></object><a href='javascript:go()'>link</a></div></main>"
    )
    markup = report(
        tmp_path,
        text(f"# T\n\n![remote](https://a.example/y.png)\n\n{hostile}"),
        code("show()", shown(text_html=hostile), shown(application_javascript="go()")),
    )
    assert_self_contained(markup)
    assert "[picture not included: remote]" in markup
    assert "[picture not included: graph]" in markup
    assert markup.count(">kept<") == 2
    assert "javascript:" not in markup
    assert markup.count("</main>") == 1


def test_links_for_people_stay() -> None:
    link = '<a href="https://www.postgresql.org/docs/">docs</a>'
    assert contained_html(link) == link
    assert contained_html('<a href="#part">part</a>') == '<a href="#part">part</a>'


def test_pictures_have_an_alternative_text(tmp_path: Path) -> None:
    page = Elements(report(tmp_path, code("plot()", shown(image_png=PNG, text_plain="<Figure>"))))
    assert [image["src"] for image in page.named("img")] == [f"data:image/png;base64,{PNG}"]
    assert page.named("img")[0]["alt"]
    assert "<Figure>" not in page.text


def test_a_local_picture_in_a_text_is_taken_into_the_file(tmp_path: Path) -> None:
    (tmp_path / "setup.png").write_bytes(base64.b64decode(PNG))
    page = Elements(report(tmp_path, text("![the machine](setup.png)")))
    assert page.named("img") == [{"src": f"data:image/png;base64,{PNG}", "alt": "the machine"}]


def test_widgets_are_left_out_with_their_stale_text(tmp_path: Path) -> None:
    widget = new_output(  # type: ignore[no-untyped-call]
        "display_data",
        {
            "application/vnd.jupyter.widget-view+json": {"model_id": "abc"},
            "text/plain": "IntProgress(value=0)",
        },
    )
    assert "IntProgress" not in report(tmp_path, code("bar()", widget))


def test_every_table_scrolls_in_one_box() -> None:
    table = "<table><tr><th></th><th>tps</th></tr></table>"
    boxed = contained_html(table)
    assert boxed.startswith('<div class="scroll" tabindex="0"><table>')
    assert "<td></td><th>tps</th>" in boxed
    own = f'<div class="benchkit-table" tabindex="0">{table}</div>'
    assert contained_html(own).count("tabindex") == 1


def test_an_old_report_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    report(tmp_path, text("# Old"))
    assert "New" in report(tmp_path, text("# New"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hot_updates.ipynb", "report.html"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"nbformat": 4}'])
def test_what_is_no_notebook_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.ipynb"
    path.write_text(content)
    with pytest.raises(FormatError, match="cannot be read as a notebook"):
        notebook_to_html(path, tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


@pytest.mark.parametrize(
    ("markdown", "found"),
    [
        ("# Title\n\nLead\nof two lines.\n\nMore.", ("Title", "Lead of two lines.")),
        ("# A `code` **bold** #\nLead", ("A code bold", "Lead")),
        ("intro\n\n# Title\n## Sub\nLead", ("Title", "Lead")),
        ("```\n# no title\n```\n# Title", ("Title", "")),
        ("## Sub\n\ntext", ("", "")),
        ("#nospace\n\ntext", ("", "")),
        ("", ("", "")),
    ],
)
def test_title_and_first_paragraph(markdown: str, found: tuple[str, str]) -> None:
    assert title_and_lead([markdown]) == found


def test_title_and_first_paragraph_may_be_in_two_cells() -> None:
    assert title_and_lead(["# Title", "Lead", "More"]) == ("Title", "Lead")


def test_quiet_holds_for_its_block_only(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("papermill.translators")
    with quiet():
        logger.warning("inner")
        warnings.warn("inner", UserWarning, stacklevel=1)
    logger.warning("outer")
    assert caplog.messages == ["outer"]
