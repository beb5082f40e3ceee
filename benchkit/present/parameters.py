"""The parameters of a notebook: what it declares, and whether given values fit.

A notebook declares its parameters in the one cell tagged ``parameters``, a line each::

    clients: int = 8  # how many sessions send transactions [clients]

papermill reads that cell with a regular expression. A second ``=`` in the line makes it lose the
parameter, a ``#`` in a text cuts the default, an unknown name only writes a line to the log, and a
number out of numpy arrives as a text (papermill 2.6 and 2.7). So the cell is read here with
``ast``, :func:`check_agreement` compares the two, and every value is checked before anything runs.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import reprlib
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchkit.errors import Faults, FormatError

TYPES: dict[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": list,
    "dict": dict,
}
ACCEPTED = {
    "int": "a whole number, such as 8",
    "float": "a finite number, such as 0.5",
    "str": "a text",
    "bool": "true or false",
    "list": 'a list, such as [1, 2] or ["a", "b"]',
    "dict": 'a mapping with texts as keys, such as {"a": 1}',
}
_MEANING = re.compile(r"(?P<meaning>.*?)\s*(?:\[(?P<unit>[^\[\]]*)\])?\s*")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter that a notebook declares.

    Attributes
    ----------
    name
        As in the code.
    type
        ``int``, ``float``, ``str``, ``bool``, ``list`` or ``dict``.
    default
        The value used when none is given.
    meaning
        The comment in the declaration.
    unit
        What stands in brackets at the comment's end; "" without.
    """

    name: str
    type: str
    default: Any
    meaning: str
    unit: str


def read_cells(path: Path) -> list[dict[str, Any]]:
    """Read a notebook's cells, each with ``cell_type``, ``tags`` and ``source`` as one text.

    Plain JSON is read: nbformat takes more than a second to import, too long for a listing.

    Raises
    ------
    FormatError
        The file cannot be read or is not a notebook of format 4.
    """
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return [
            {
                "cell_type": cell["cell_type"],
                "tags": cell.get("metadata", {}).get("tags", []),
                "source": "".join(cell["source"]),
            }
            for cell in cells
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{path} cannot be read as a notebook of format 4",
            evidence=f"{type(error).__name__}: {error}"[:400],
            advice="open it in JupyterLab and save it again",
        ) from error


def read_parameters(path: Path) -> dict[str, Parameter]:
    """Read what parameters a notebook declares.

    Parameters
    ----------
    path
        The notebook. One without a cell tagged ``parameters`` has none.

    Returns
    -------
    dict
        Name -> parameter, in the order of declaration.

    Raises
    ------
    FormatError
        Not a notebook, or a line of the cell is not ``name: type = literal  # meaning [unit]``;
        every such line is named.
    """
    faults = []
    found: dict[str, Parameter] = {}
    source = _parameters_source(path)
    comments = _comments(source, path)
    for statement in ast.parse(source).body:
        try:
            parameter = _parameter(statement, comments.get(statement.end_lineno or 0, ""))
            if parameter.name in found:
                raise ValueError(f"{parameter.name} is declared twice")
            found[parameter.name] = parameter
        except ValueError as error:
            line = (ast.get_source_segment(source, statement) or "").splitlines()[0]
            faults.append(f"line {statement.lineno}, {line!r}: {error}")
    _raise_any(path, faults)
    return found


def _parameters_source(path: Path) -> str:
    sources = [cell["source"] for cell in read_cells(path) if "parameters" in cell["tags"]]
    if len(sources) > 1:
        _raise_any(path, [f"{len(sources)} cells are tagged 'parameters'; one is allowed"])
    return sources[0] if sources else ""


def _raise_any(path: Path, faults: list[str]) -> None:
    if faults:
        raise FormatError(
            f"The parameters of {path.name} cannot be read",
            evidence="\n".join(f"- {fault}" for fault in faults),
            advice="write a line 'name: type = literal  # meaning [unit]' for each",
        )


def _comments(source: str, path: Path) -> dict[int, str]:
    try:
        ast.parse(source)
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError) as error:
        raise FormatError(
            f"The parameters of {path.name} are not Python", evidence=str(error)
        ) from error
    return {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _parameter(statement: ast.stmt, comment: str) -> Parameter:
    if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
        raise ValueError("not of the form 'name: type = literal  # meaning [unit]'")
    if statement.value is None or statement.lineno != statement.end_lineno:
        raise ValueError("needs a default, on the same line")
    kind = ast.unparse(statement.annotation)
    if kind not in TYPES:
        raise ValueError(f"the type is {kind} (accepted: {', '.join(TYPES)})")
    try:
        literal = ast.literal_eval(statement.value)
    except ValueError:
        raise ValueError("the default is not a literal") from None
    meaning, unit = _meaning(comment.removeprefix("#"))
    if not meaning:
        raise ValueError("no comment says what it means")
    name = statement.target.id
    return Parameter(
        name=name, type=kind, default=_typed(literal, kind), meaning=meaning, unit=unit
    )


def _meaning(comment: str) -> tuple[str, str]:
    match = _MEANING.fullmatch(comment.strip())
    return (match["meaning"], match["unit"] or "") if match else (comment.strip(), "")


def check_agreement(path: Path) -> None:
    """Check that papermill reads the same parameters out of a notebook as benchkit.

    Raises
    ------
    FormatError
        papermill loses a parameter or reads another type, default or meaning.
    """
    from papermill.translators import PythonTranslator

    ours = read_parameters(path)
    theirs = {p.name: p for p in PythonTranslator.inspect({"source": _parameters_source(path)})}
    faults = [f"{name}: papermill does not see it" for name in ours if name not in theirs]
    faults += [f"{name}: only papermill sees it" for name in theirs if name not in ours]
    for name in [name for name in ours if name in theirs]:
        parameter, seen = ours[name], theirs[name]
        if seen.inferred_type_name != parameter.type:
            faults.append(f"{name}: papermill sees the type {seen.inferred_type_name}")
        if _literal(seen.default) != parameter.default:
            faults.append(f"{name}: papermill sees the default {seen.default}")
        if _meaning(seen.help) != (parameter.meaning, parameter.unit):
            faults.append(f"{name}: papermill sees the comment {seen.help!r}")
    if faults:
        raise FormatError(
            f"papermill misreads the parameters of {path.name}",
            evidence="\n".join(f"- {fault}" for fault in faults),
            advice="no second '=' in the line, no '#' in a text, no comment that begins 'type:'",
        )


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def parse_assignments(
    assignments: Iterable[str], parameters: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Read ``name=value`` texts of a command line, each by the type its parameter declares.

    Parameters
    ----------
    assignments
        For example ``["scale=5", "version=8.10"]``: for a ``str`` the text is taken as it is, so
        ``8.10`` does not become 8.1. ``bool`` is ``true`` or ``false``; ``list`` and ``dict`` are
        JSON.
    parameters
        What the notebook declares.

    Raises
    ------
    InputError
        Unknown names (with the nearest one), values of a wrong type, names given twice, texts
        without ``=``; all of them at once.
    """
    faults = Faults()
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals:
            faults.add(assignment, "is not of the form name=value")
        elif name in values:
            faults.add(name, "is given twice")
        elif name not in parameters:
            faults.unknown("parameters", name, parameters, kind="parameter")
        else:
            values[name] = None
            try:
                values[name] = _from_text(text, parameters[name].type)
            except ValueError:
                faults.add(name, _wrong(reprlib.repr(text), parameters[name].type))
    faults.raise_any()
    return values


def check_values(
    values: Mapping[str, object], parameters: Mapping[str, Parameter]
) -> dict[str, Any]:
    """Check Python values against the declared types, and make them plain.

    Parameters
    ----------
    values
        Name -> value. numpy's scalars, as they come out of a data frame, become Python's; a whole
        number is accepted for ``float``. Anything else that papermill would turn into a text
        (a path, a date, a tuple, a set) is refused.
    parameters
        What the notebook declares.

    Raises
    ------
    InputError
        Unknown names (with the nearest one) and values of a wrong type, all of them at once.
    """
    faults = Faults()
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in parameters:
            faults.unknown("parameters", str(name), parameters, kind="parameter")
            continue
        try:
            checked[name] = _typed(value, parameters[name].type)
        except ValueError:
            given = f"{reprlib.repr(value)} ({type(value).__name__})"
            faults.add(name, _wrong(given, parameters[name].type))
    faults.raise_any()
    return checked


def _wrong(given: str, kind: str) -> str:
    return f"{given} does not fit {kind} (accepted: {ACCEPTED[kind]})"


def _from_text(text: str, kind: str) -> Any:
    if kind == "str":
        return text
    if kind == "int":
        return int(text)
    if kind == "float":
        return _typed(float(text), kind)
    return _typed(json.loads(text.strip().lower() if kind == "bool" else text), kind)


def _typed(value: object, kind: str) -> Any:
    plain = _plain(value)
    if kind == "float" and type(plain) is int:
        return float(plain)
    if type(plain) is not TYPES[kind]:
        raise ValueError(f"the value is not {ACCEPTED[kind]}")
    return plain


def _plain(value: object) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        value = value.item()  # type: ignore[attr-defined]
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is list:
        return [_plain(item) for item in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise ValueError(f"{type(value).__name__} cannot be passed to a notebook")
