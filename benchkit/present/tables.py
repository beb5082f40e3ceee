"""Tables that a person reads: in a notebook, in a report, in a mail, in a spreadsheet.

The HTML carries its own alignment, because JupyterLab aligns every cell to the right, and no
colours, because the notebook may be dark.
"""

from __future__ import annotations

import html
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from benchkit.errors import Faults
from benchkit.present.notes import show_html

if TYPE_CHECKING:
    import pandas as pd

Format = str | Callable[[Any], str]

MISSING = "\N{EN DASH}"
SIGNIFICANT_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class _Column:
    name: str
    unit: str
    is_header: bool
    is_number: bool
    cells: tuple[str, ...]

    @property
    def align(self) -> str:
        return "right" if self.is_number else "left"

    @property
    def title(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


def table_html(
    frame: pd.DataFrame,
    *,
    caption: str,
    units: Mapping[str, str] | None = None,
    formats: Mapping[str, Format] | None = None,
    notes: str | Sequence[str] = (),
    row_header: str | None = None,
) -> str:
    """Write a data frame as an accessible HTML table that scrolls inside its own box.

    Parameters
    ----------
    frame
        The rows. Missing values (None, NaN, NaT, NA) become an en dash.
    caption
        What the table says; required.
    units
        Column -> unit, shown in the column's header.
    formats
        Column -> format specification (``".1%"``) or a function from value to text. Without one,
        whole numbers get thousands separators and other numbers about four significant digits,
        with the same number of decimals down the column where that is possible.
    notes
        One or several sentences under the table.
    row_header
        The column that names the row; shown first, in place of the index. None: the index, or
        the first column if the index only counts the rows.

    Returns
    -------
    str
        HTML; every text in it is escaped.

    Raises
    ------
    InputError
        No caption, two columns of the same name, or ``units``, ``formats`` or ``row_header``
        name a column that is not there.
    """
    columns = _columns(frame, caption, units or {}, formats or {}, row_header)
    title = html.escape(caption.strip())
    head = "".join(map(_head_html, columns))
    body = "".join(f"<tr>{_row_html(columns, row)}</tr>" for row in range(len(frame)))
    if len(frame) == 0:
        body = f'<tr><td colspan="{len(columns)}" style="text-align:left">no rows</td></tr>'
    below = "".join(
        f'<p class="benchkit-table-note">{html.escape(note)}</p>' for note in _sentences(notes)
    )
    # tabindex: a box that scrolls must be reachable without a mouse.
    return (
        f'<div class="benchkit-table" role="group" aria-label="{title}" tabindex="0" '
        f'style="overflow-x:auto;max-width:100%"><table>'
        f'<caption style="text-align:left;font-weight:bold">{title}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{below}"
    )


def _head_html(column: _Column) -> str:
    if not column.title:
        return "<td></td>"  # an empty header cell is read out as a header without a name
    return f'<th scope="col" style="text-align:{column.align}">{html.escape(column.title)}</th>'


def _row_html(columns: Sequence[_Column], row: int) -> str:
    parts = []
    for column in columns:
        tag, scope = ("th", ' scope="row"') if column.is_header else ("td", "")
        style = f"text-align:{column.align}" + (";white-space:nowrap" if column.is_number else "")
        parts.append(f'<{tag}{scope} style="{style}">{html.escape(column.cells[row])}</{tag}>')
    return "".join(parts)


def table_text(
    frame: pd.DataFrame,
    *,
    caption: str,
    units: Mapping[str, str] | None = None,
    formats: Mapping[str, Format] | None = None,
    notes: str | Sequence[str] = (),
    row_header: str | None = None,
) -> str:
    """Write the same table as plain text in fixed columns, to be pasted into a mail.

    Parameters and errors are those of :func:`table_html`.
    """
    columns = _columns(frame, caption, units or {}, formats or {}, row_header)
    widths = [max(map(len, (column.title, *column.cells))) for column in columns]
    lines = [caption.strip(), "", _line_text([c.title for c in columns], columns, widths)]
    lines.append("  ".join("-" * width for width in widths))
    for row in range(len(frame)):
        lines.append(_line_text([column.cells[row] for column in columns], columns, widths))
    if len(frame) == 0:
        lines.append("no rows")
    sentences = _sentences(notes)
    return "\n".join([*lines, *([""] if sentences else []), *sentences])


def _line_text(cells: Sequence[str], columns: Sequence[_Column], widths: Sequence[int]) -> str:
    padded = [
        cell.rjust(width) if column.is_number else cell.ljust(width)
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    return "  ".join(padded).rstrip()


def show_table(
    frame: pd.DataFrame,
    *,
    caption: str,
    units: Mapping[str, str] | None = None,
    formats: Mapping[str, Format] | None = None,
    notes: str | Sequence[str] = (),
    row_header: str | None = None,
) -> None:
    """Show a table in the notebook, as HTML with the plain text as fallback.

    Folded away under it are the same as plain text, to be pasted into a mail, and as CSV with all
    digits. Parameters and errors are those of :func:`table_html`.
    """
    arguments: dict[str, Any] = {
        "caption": caption,
        "units": units,
        "formats": formats,
        "notes": notes,
        "row_header": row_header,
    }
    text = table_text(frame, **arguments)
    show_html(table_html(frame, **arguments) + _copies_html(text, frame), text)


def _copies_html(text: str, frame: pd.DataFrame) -> str:
    numbered = row_numbers_only(frame)
    copies = {"For mail": text, "CSV": frame.to_csv(index=not numbered).strip()}
    return "".join(
        f'<details class="benchkit-copy" style="display:inline-block;vertical-align:top;'
        f'max-width:100%;margin-right:1em"><summary>{name}</summary>'
        f'<pre style="overflow-x:auto" tabindex="0">{html.escape(copy)}</pre></details>'
        for name, copy in copies.items()
    )


def row_numbers_only(frame: pd.DataFrame) -> bool:
    """Tell whether the index says nothing but the number of the row."""
    import pandas as pd

    return isinstance(frame.index, pd.RangeIndex) and frame.index.name is None


def _columns(
    frame: pd.DataFrame,
    caption: str,
    units: Mapping[str, str],
    formats: Mapping[str, Format],
    row_header: str | None,
) -> list[_Column]:
    named, header_count = _flatten(frame, row_header)
    names = [name for name, _ in named]
    faults = Faults()
    if not caption.strip():
        faults.add("caption", "empty; say in a sentence what the table shows")
    for name in sorted({name for name in names if names.count(name) > 1}):
        faults.add("frame", f"more than one column is called {name!r}")
    chosen = [] if row_header is None else [row_header]
    for where, asked in (("units", units), ("formats", formats), ("row_header", chosen)):
        for name in sorted(set(asked) - set(names)):
            faults.unknown(where, name, names, kind="column")
    faults.raise_any()
    return [
        _column(name, values, at < header_count, units.get(name, ""), formats.get(name))
        for at, (name, values) in enumerate(named)
    ]


def _flatten(
    frame: pd.DataFrame, row_header: str | None
) -> tuple[list[tuple[str, list[Any]]], int]:
    """Give the columns in the order shown, and how many of the first ones name the row."""
    data = [(_name(label), frame.iloc[:, at].tolist()) for at, label in enumerate(frame.columns)]
    if row_header is not None:
        return sorted(data, key=lambda column: column[0] != row_header), 1
    if row_numbers_only(frame):
        return data, 1
    levels = [
        (_name(frame.index.names[at]), frame.index.get_level_values(at).tolist())
        for at in range(frame.index.nlevels)
    ]
    return [*levels, *data], len(levels)


def _name(label: object) -> str:
    if label is None:
        return ""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def _column(
    name: str, values: list[Any], is_header: bool, unit: str, form: Format | None
) -> _Column:
    present = [value for value in values if not _is_missing(value)]
    is_number = bool(present) and all(_is_number(value) for value in present)
    write = _writer(present, form) if is_number or form is not None else _write_other
    cells = tuple(MISSING if _is_missing(value) else write(value) for value in values)
    return _Column(name=name, unit=unit, is_header=is_header, is_number=is_number, cells=cells)


def _writer(present: list[Any], form: Format | None) -> Callable[[Any], str]:
    if callable(form):
        return form
    if form is not None:
        return lambda value: format(value, form)
    if all(float(value).is_integer() for value in present):
        return lambda value: f"{int(value):,}" if abs(value) < 1e15 else f"{value:.3e}"
    decimals = _common_decimals([abs(float(value)) for value in present])
    if decimals is None:
        return write_number
    return lambda value: f"{value:,.{decimals}f}"


def _common_decimals(sizes: list[float]) -> int | None:
    """Give decimals that keep 4 digits of the largest and 3 of the smallest number, if any can."""
    exponents = [math.floor(math.log10(size)) for size in sizes if size > 0 and math.isfinite(size)]
    if not exponents:
        return None
    largest, smallest = max(exponents), min(exponents)
    if largest - smallest > 2 or smallest < -4 or largest > 14:
        return None
    return max(SIGNIFICANT_DIGITS - 1 - largest, SIGNIFICANT_DIGITS - 2 - smallest, 0)


def write_number(value: float) -> str:
    """Write one number for a person, with about four significant digits.

    Whole digits are never rounded away: ``1234567.8`` is ``"1,234,568"``; ``0.00012345`` is
    ``"0.0001234"``; sizes below 0.0001 or from 1e15 on are in powers of ten.
    """
    size = abs(float(value))
    if size == 0 or not math.isfinite(size):
        return f"{value:.0f}"
    exponent = math.floor(math.log10(size))
    if exponent < -4 or exponent > 14:
        return f"{value:.{SIGNIFICANT_DIGITS - 1}e}"
    return f"{value:,.{max(SIGNIFICANT_DIGITS - 1 - exponent, 0)}f}"


def _write_other(value: object) -> str:
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's bool is no bool
        return "yes" if value else "no"
    if _is_number(value):
        return write_number(float(value))  # type: ignore[arg-type]
    return " ".join(str(value).splitlines())  # a line break would tear the plain text's row apart


def _is_number(value: object) -> bool:
    # Decimal, which psycopg gives for numeric, is not registered as Real; numpy's scalars are.
    return isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, bool)


def _is_missing(value: object) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_scalar(value) and pd.isna(value))  # type: ignore[call-overload]


def _sentences(notes: str | Sequence[str]) -> list[str]:
    listed = [notes] if isinstance(notes, str) else list(notes)
    return [note.strip() for note in listed if note.strip()]


def show_pivot(
    frame: pd.DataFrame, *, rows: str, columns: str, value: str, caption: str, digits: int = 0
) -> None:
    """Show one figure of a tidy table in the published form: one factor down, one across.

    Parameters
    ----------
    frame
        Measured (:func:`~benchkit.analysis.tables.means`) or published.
    rows, columns, value
        Columns of `frame`.
    digits
        After the point.

    Raises
    ------
    InputError
        An unknown column, or two values for one place.
    """
    from benchkit.analysis.tables import pivot

    wide = pivot(frame, rows=rows, columns=columns, value=value)
    wide.columns = [f"{columns} {label}" for label in wide.columns]
    formats: dict[str, Format] = dict.fromkeys(wide.columns, f",.{digits}f")
    show_table(wide, caption=caption, formats=formats)
