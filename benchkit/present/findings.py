"""What may mislead, found before measuring: the worst on top and in red."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from benchkit.measure.finding import Finding
from benchkit.present.notes import note_html, show_html, show_note
from benchkit.present.tables import table_html

_WIDTH = 100


def show_findings(findings: Sequence[Finding]) -> None:
    """Show what the preflight found, worst first."""
    import pandas as pd

    if not findings:
        show_note("The preflight found nothing that would make these numbers wrong.", "good")
        return
    grouped: dict[Finding, list[str]] = {}
    for item in findings:
        alike = Finding(
            severity=item.severity, name=item.name, evidence="", fix=item.fix,
            reference=item.reference,
        )  # fmt: skip
        grouped.setdefault(alike, []).append(item.evidence)
    rows = [
        {
            "Severity": item.severity,
            "What": item.name,
            "Seen": "; ".join(seen),
            "What to do": f"{item.fix} ({item.reference})" if item.reference else item.fix,
        }
        for item, seen in grouped.items()
    ]
    red = [row for row in rows if row["Severity"] == "bad"]
    notes = [note_html(f"{row['What']}: {row['Seen']}. {row['What to do']}", "bad") for row in red]
    caption = "What may mislead, found before measuring"
    table = table_html(pd.DataFrame(rows), caption=caption, row_header="Severity")
    show_html("".join(notes) + table, findings_text(rows, caption))


def findings_text(rows: Sequence[dict[str, str]], caption: str) -> str:
    """Write findings as lines that a terminal can show."""
    lines = [caption]
    for row in rows:
        head = f"{row['Severity'].upper():<8} {row['What']}: {row['Seen']}"
        lines += textwrap.wrap(head, _WIDTH, subsequent_indent=" " * 9)
        lines += textwrap.wrap(
            f"What to do: {row['What to do']}",
            _WIDTH,
            initial_indent=" " * 9,
            subsequent_indent=" " * 9,
        )
    return "\n".join(lines)
