"""Parameters of notebooks: declared, given as text, given as values, and seen by papermill."""

from __future__ import annotations

import datetime
import math
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.errors import FormatError, InputError
from benchkit.present.parameters import (
    TYPES,
    Parameter,
    check_agreement,
    check_values,
    parse_assignments,
    read_cells,
    read_parameters,
)

NOTEBOOKS = Path(__file__).parent / "notebooks"


def declared(**types: str) -> dict[str, Parameter]:
    return {
        name: Parameter(name=name, type=kind, default=None, meaning="m", unit="")
        for name, kind in types.items()
    }


ALL_TYPES = declared(i="int", f="float", s="str", b="bool", l="list", d="dict")


def test_every_type_is_read() -> None:
    parameters = read_parameters(NOTEBOOKS / "complete.ipynb")
    assert list(parameters) == ["clients", "rate", "version", "vacuum", "scales", "settings"]
    assert [parameter.type for parameter in parameters.values()] == list(TYPES)
    assert parameters["clients"] == Parameter(
        name="clients", type="int", default=8, meaning="sessions at work", unit="clients"
    )
    assert parameters["version"].default == "8.10"
    assert parameters["version"].unit == ""
    assert parameters["settings"].default == {"jit": "off"}


def test_a_whole_number_is_a_float_where_a_float_is_declared() -> None:
    rate = read_parameters(NOTEBOOKS / "complete.ipynb")["rate"]
    assert rate.default == 0.0
    assert isinstance(rate.default, float)


def test_a_notebook_without_parameters_has_none() -> None:
    assert read_parameters(NOTEBOOKS / "raises.ipynb") == {}


def test_cells_without_metadata_are_read() -> None:
    assert read_cells(NOTEBOOKS / "bare.ipynb") == [
        {"cell_type": "code", "tags": [], "source": "print('ran')"}
    ]


def test_every_bad_declaration_is_named() -> None:
    with pytest.raises(FormatError) as caught:
        read_parameters(NOTEBOOKS / "undeclarable.ipynb")
    lines = caught.value.evidence.splitlines()
    for line, problem in zip(
        lines,
        [
            "not of the form",
            "needs a default",
            "the type is int | None (accepted: int, float, str, bool, list, dict)",
            "the default is not a literal",
            "a whole number, such as 8",
            "no comment says what it means",
            "not of the form",
            "again is declared twice",
        ],
        strict=True,
    ):
        assert problem in line


@pytest.mark.parametrize(
    "text",
    ["", "[1, 2]", "{}", '{"cells": [{}]}', '{"cells": 5}', '{"cells": [5]}', "\x00"],
)
def test_what_is_no_notebook_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"broken\.ipynb cannot be read as a notebook"):
        read_parameters(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_parameters(tmp_path / "absent.ipynb")


def test_parameters_that_are_no_python_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "magic.ipynb"
    text = (NOTEBOOKS / "sleeps.ipynb").read_text()
    path.write_text(text.replace("witness: str", "%matplotlib inline"))
    with pytest.raises(FormatError, match=r"magic\.ipynb are not Python"):
        read_parameters(path)


def test_two_cells_of_parameters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.ipynb"
    text = (NOTEBOOKS / "skips.ipynb").read_text()
    path.write_text(text.replace('"metadata": {}', '"metadata": {"tags": ["parameters"]}'))
    with pytest.raises(FormatError, match=r"two\.ipynb cannot be read"):
        read_parameters(path)


@pytest.mark.parametrize("name", ["complete", "sleeps", "says_where", "raises", "bare"])
def test_papermill_agrees(name: str) -> None:
    check_agreement(NOTEBOOKS / f"{name}.ipynb")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("misread_second_equals", "script: papermill does not see it"),
        ("misread_equals_in_comment", "clients: papermill does not see it"),
        ("misread_hash_in_text", "colour: papermill sees the default"),
        ("misread_type_comment", "clients: papermill sees the comment ''"),
    ],
)
def test_papermill_disagrees(name: str, problem: str) -> None:
    path = NOTEBOOKS / f"{name}.ipynb"
    read_parameters(path)  # benchkit reads it; the disagreement is the fault
    with pytest.raises(FormatError) as caught:
        check_agreement(path)
    assert problem in caught.value.evidence


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("i=8", 8),
        ("i=-3", -3),
        ("i=007", 7),
        ("f=0.5", 0.5),
        ("f=1e3", 1000.0),
        ("f=2", 2.0),
        ("s=8.10", "8.10"),
        ("s=", ""),
        ("s=a=b ", "a=b "),
        ("b=true", True),
        ("b=False", False),
        ('l=[1, "a", null]', [1, "a", None]),
        ('d={"a": {"b": 1.5}}', {"a": {"b": 1.5}}),
        (" i =8", 8),
    ],
)
def test_texts_are_read_by_declared_type(assignment: str, value: object) -> None:
    name = assignment.split("=")[0].strip()
    read = parse_assignments([assignment], ALL_TYPES)[name]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "assignment",
    [
        *("i=8.0", "i=", "i=eight", "f=nan", "f=inf", "f=", "b=1", "b=yes", "b="),
        *("l=1", "l=(1,)", "l=[NaN]", "d=[]", "d={1: 2}", "d="),
    ],
)
def test_texts_of_another_type_are_refused(assignment: str) -> None:
    with pytest.raises(InputError, match=r"does not fit \w+ \(accepted: "):
        parse_assignments([assignment], ALL_TYPES)


def test_all_faulty_texts_are_reported_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_assignments(
            ["cleints=5", "clients=many", "clients=4", "scale"], declared(clients="int")
        )
    where = [fault.where for fault in caught.value.faults]
    assert where == ["parameters", "clients", "clients", "scale"]
    assert "unknown parameter 'cleints'; did you mean 'clients'?" in str(caught.value)
    assert "is given twice" in str(caught.value)
    assert "name=value" in str(caught.value)


@given(text=st.text())
def test_a_text_stays_as_it_is(text: str) -> None:
    assert parse_assignments([f"s={text}"], ALL_TYPES) == {"s": text}


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_survives_its_text(number: float) -> None:
    assert parse_assignments([f"f={number!r}"], ALL_TYPES) == {"f": number}


@pytest.mark.parametrize(
    ("name", "value", "plain"),
    [
        ("i", np.int64(8), 8),
        ("b", np.bool_(False), False),
        ("f", np.float32(0.5), 0.5),
        ("f", 3, 3.0),
        ("s", np.str_("8.10"), "8.10"),
        ("l", [np.int64(1), [np.float64(2.5)]], [1, [2.5]]),
        ("d", {"a": np.int16(1), "b": None}, {"a": 1, "b": None}),
        ("i", pd.Series([4, 5]).max(), 5),
    ],
)
def test_numpy_becomes_python(name: str, value: object, plain: Any) -> None:
    checked = check_values({name: value}, ALL_TYPES)[name]
    assert checked == plain
    assert type(checked) is type(plain)
    if isinstance(checked, list):
        assert type(checked[0]) is int


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("i", True),
        ("i", 8.0),
        ("i", "8"),
        ("b", 1),
        ("f", math.nan),
        ("f", True),
        ("f", Decimal("1.5")),
        ("s", 8.1),
        ("s", Path("x.sql")),
        ("s", None),
        ("s", datetime.date(2026, 11, 30)),
        ("l", (1, 2)),
        ("l", np.array([1, 2])),
        ("l", [Path("x")]),
        ("l", {1, 2}),
        ("d", {1: "a"}),
        ("d", {"a": (1,)}),
    ],
)
def test_values_that_papermill_would_change_are_refused(name: str, value: object) -> None:
    with pytest.raises(InputError) as caught:
        check_values({name: value}, ALL_TYPES)
    assert f"({type(value).__name__}) does not fit {ALL_TYPES[name].type}" in str(caught.value)


def test_all_faulty_values_are_reported_at_once() -> None:
    with pytest.raises(InputError) as caught:
        check_values({"clints": 1, "clients": "4"}, declared(clients="int"))
    assert len(caught.value.faults) == 2
    assert "did you mean 'clients'?" in str(caught.value)


def test_checked_values_survive_papermills_translation() -> None:
    from papermill.translators import PythonTranslator

    values = {"i": 8, "f": 0.1, "s": 'a "quote" \\ and\nline \u00e9', "b": False}
    values |= {"l": [1, "a", None, [0.5]], "d": {"a b": {"c": True}}}
    seen: dict[str, Any] = {}
    exec(PythonTranslator.codify(check_values(values, ALL_TYPES)), seen)  # noqa: S102
    assert {name: seen[name] for name in values} == values


def test_reading_parameters_loads_nothing_heavy() -> None:
    code = (
        "import sys; from pathlib import Path"
        "; from benchkit.present.notebooks import read_parameters"
        f"; read_parameters(Path({str(NOTEBOOKS / 'complete.ipynb')!r}))"
        "; heavy = {'pandas', 'scipy', 'matplotlib', 'seaborn', 'papermill', 'nbformat'}"
        "; print(sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
