"""Tables and notes: structure for a screen reader, digits for a person, nothing unescaped."""

from __future__ import annotations

import math
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchkit.errors import InputError
from benchkit.present.notes import NOTE_KINDS, note_html
from benchkit.present.tables import (
    MISSING,
    Format,
    show_table,
    table_html,
    table_text,
    write_number,
)


class Cells(HTMLParser):
    """Collects (tag, attributes, text) of every cell and the caption."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self._text = ""
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert self._open is None or tag not in {"b", "script"}, "a value became an element"
        if tag in {"th", "td", "caption"}:
            self._open, self._text = (tag, dict(attrs)), ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if self._open is not None and tag == self._open[0]:
            self.found.append((*self._open, self._text))
            self._open = None

    def texts(self, tag: str) -> list[str]:
        return [text for name, _, text in self.found if name == tag]


def column(values: list[Any], form: Format | None = None) -> list[str]:
    frame = pd.DataFrame({"row": list("abcdefgh"[: len(values)]), "x": pd.Series(values)})
    formats = {} if form is None else {"x": form}
    return Cells(table_html(frame, caption="x", formats=formats)).texts("td")


FRAME = pd.DataFrame(
    {"build": ["17.2", "18.0"], "tps": [12345.6, 8123.4], "latency": [1.2345, None]}
)


def test_headers_have_scope_and_units() -> None:
    cells = Cells(table_html(FRAME, caption="Speed", units={"latency": "ms"}))
    heads = [
        (text, attributes.get("scope")) for tag, attributes, text in cells.found if tag == "th"
    ]
    assert heads == [
        ("build", "col"),
        ("tps", "col"),
        ("latency (ms)", "col"),
        ("17.2", "row"),
        ("18.0", "row"),
    ]
    assert cells.texts("caption") == ["Speed"]


def test_numbers_stand_right_and_texts_left() -> None:
    cells = Cells(table_html(FRAME, caption="Speed"))
    styles = {text: attributes["style"] or "" for _, attributes, text in cells.found}
    assert "text-align:right" in styles["12,346"]
    assert "text-align:right" in styles["tps"]
    assert "text-align:left" in styles["17.2"]


def test_a_meaningful_index_names_the_rows() -> None:
    cells = Cells(table_html(FRAME.set_index("build"), caption="Speed"))
    assert cells.texts("th") == ["build", "tps", "latency", "17.2", "18.0"]


def test_every_level_of_an_index_is_shown() -> None:
    frame = FRAME.assign(kind="A").set_index(["kind", "build"])
    cells = Cells(table_html(frame, caption="Speed"))
    assert cells.texts("th") == ["kind", "build", "tps", "latency", "A", "17.2", "A", "18.0"]


def test_an_index_without_name_has_no_empty_header() -> None:
    cells = Cells(table_html(FRAME.set_index("build").rename_axis(None), caption="Speed"))
    assert cells.texts("th") == ["tps", "latency", "17.2", "18.0"]


def test_a_chosen_row_header_comes_first() -> None:
    frame = FRAME.assign(kind=["old", "new"])
    cells = Cells(table_html(frame, caption="Speed", row_header="kind"))
    assert cells.texts("th") == ["kind", "build", "tps", "latency", "old", "new"]


def test_columns_of_two_levels_get_one_name() -> None:
    frame = pd.DataFrame(
        [["a", 1]], columns=pd.MultiIndex.from_tuples([("k", ""), ("tps", "mean")])
    )
    assert "tps, mean" in Cells(table_html(frame, caption="Speed")).texts("th")


def test_the_table_scrolls_in_a_box_that_the_keyboard_reaches() -> None:
    markup = table_html(FRAME, caption='Speed of "it"')
    assert markup.startswith('<div class="benchkit-table"')
    assert 'tabindex="0"' in markup
    assert "overflow-x:auto" in markup
    assert 'aria-label="Speed of &quot;it&quot;"' in markup


def test_everything_is_escaped() -> None:
    bad = "<script>alert(1)</script>"
    frame = pd.DataFrame({bad: [bad], "n": [1]})
    arguments: dict[str, Any] = {"caption": bad, "units": {"n": bad}, "notes": bad}
    markup = table_html(frame, **arguments, formats={"n": lambda value: bad})
    assert "<script" not in markup
    assert markup.count("&lt;script&gt;") == 7  # caption twice: it names the box, too


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1, 20, 123456], ["1", "20", "123,456"]),
        ([1.0, 20.0], ["1", "20"]),
        ([0.0, 0.0], ["0", "0"]),
        ([101.23, 104.88], ["101.2", "104.9"]),
        ([1.2345, 123.45], ["1.23", "123.45"]),
        ([12345.6, 8123.4], ["12,346", "8,123"]),
        ([-1.5, 1.5], ["-1.500", "1.500"]),
        ([0.00012, 0.9], ["0.0001200", "0.9000"]),
        ([1.5e-9, 2.0], ["1.500e-09", "2.000"]),
        ([1.5, None, math.nan], ["1.500", MISSING, MISSING]),
        ([math.inf, 1.5], ["inf", "1.500"]),
        ([np.int64(5), np.int64(6000)], ["5", "6,000"]),
        ([Decimal("1.50"), Decimal("2.25")], ["1.500", "2.250"]),
        ([10**20, 1], ["1.000e+20", "1"]),
        ([True, False], ["yes", "no"]),
        ([np.bool_(True), None], ["yes", MISSING]),
        ([pd.NaT, pd.NA], [MISSING, MISSING]),
        (["a", None, 1234.5], ["a", MISSING, "1,234"]),
        ([[1, 2], {"a": 1}], ["[1, 2]", "{'a': 1}"]),
        (["two\nlines"], ["two lines"]),
    ],
)
def test_digits_and_missing_values(values: list[Any], shown: list[str]) -> None:
    assert column(values) == shown


def test_formats_by_specification_and_by_function() -> None:
    assert column([0.051, None], ".1%") == ["5.1%", MISSING]
    assert column([3, 4], lambda value: f"<{value}>") == ["<3>", "<4>"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1234567.8, "1,234,568"),
        (0.00012345, "0.0001234"),
        (9.9996, "10.000"),  # rounding may add a digit in front; it does not lose one
        (-2.5, "-2.500"),
        (1e-5, "1.000e-05"),
        (1e15, "1.000e+15"),
        (math.inf, "inf"),
    ],
)
def test_write_number(number: float, text: str) -> None:
    assert write_number(number) == text


def test_an_empty_table_says_so() -> None:
    frame = FRAME.iloc[:0]
    assert "no rows" in table_html(frame, caption="Speed")
    assert "no rows" in table_text(frame, caption="Speed")


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(InputError) as caught:
        table_html(FRAME, caption=" ", units={"latncy": "ms"}, formats={"x": "d"}, row_header="y")
    assert len(caught.value.faults) == 4
    assert "did you mean 'latency'" in str(caught.value)


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["tps", "tps"])
    with pytest.raises(InputError, match="more than one column is called 'tps'"):
        table_html(frame, caption="Speed")


def test_plain_text_is_aligned() -> None:
    text = table_text(FRAME, caption="Speed", units={"latency": "ms"}, notes=["n = 2.", "One run."])
    assert text.splitlines() == [
        "Speed",
        "",
        "build     tps  latency (ms)",
        "-----  ------  ------------",
        "17.2   12,346         1.234",
        f"18.0    8,123             {MISSING}",
        "",
        "n = 2.",
        "One run.",
    ]


@pytest.mark.parametrize("kind", NOTE_KINDS)
def test_a_note_says_its_kind_in_a_word(kind: str) -> None:
    markup = note_html("scale <1>", kind)
    assert f"<strong>{NOTE_KINDS[kind][0]}:</strong> scale &lt;1&gt;" in markup


def test_an_unknown_kind_of_note_is_refused() -> None:
    with pytest.raises(InputError, match="accepted: info, good, warning, bad"):
        note_html("text", "danger")


@pytest.mark.parametrize("kind", NOTE_KINDS)
def test_notes_have_contrast(kind: str) -> None:
    def luminance(colour: str) -> float:
        # WCAG 2: relative luminance of an sRGB colour.
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    _, _, background, text = NOTE_KINDS[kind]
    assert (luminance(background) + 0.05) / (luminance(text) + 0.05) >= 7


def test_a_shown_table_can_be_copied_as_text_and_csv(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    frame = pd.DataFrame({"name": ["a,b", "<c>"], "tps": [1234.5678, 2.0]})
    show_table(frame, caption="Speed")
    markup = shown[0]["text/html"]
    assert "&quot;a,b&quot;,1234.5678\n&lt;c&gt;,2.0" in markup
    assert markup.count("<details") == 2
    assert shown[0]["text/plain"] in markup.replace("&lt;", "<").replace("&gt;", ">")
