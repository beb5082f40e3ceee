"""What a person sees of several reports."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.experiment.ledger import Record
from benchkit.present.side_by_side import (
    show_comparability,
    show_report_comparisons,
    show_side_by_side,
)
from benchkit.present.tables import MISSING
from tests.analysis.machines import OTHER, machine
from tests.present.conftest import NASTY

Shown = list[dict[str, Any]]


def two(host: dict[str, Any] | None = None, **more: Any) -> dict[str, Record]:
    return {"A": machine(), "B": machine(host=OTHER | (host or {}), **more)}


def test_the_judgement_comes_first_then_the_differences(shown: Shown) -> None:
    show_comparability(two({"cpu_model": NASTY}))
    note, table = (bundle["text/plain"] for bundle in shown)
    assert note.startswith("⚠ Warning: The hardware differs (processor)")
    assert table.index("processor") < table.index("operating system")
    assert "Opteron" in table
    assert all("<script" not in bundle["text/html"] for bundle in shown)


def test_one_machine_twice_is_said_and_one_report_is_half(shown: Shown) -> None:
    show_comparability({"A": machine(), "A (2)": machine()})
    assert "Both reports come from one machine" in shown[1]["text/plain"]
    shown.clear()
    show_comparability({"A": machine()})
    assert "one machine's half of A" in shown[0]["text/plain"]
    assert len(shown) == 1


def test_rows_are_reports_and_levels_columns_levels_by_size(shown: Shown) -> None:
    show_side_by_side(two(), rows="scale", columns="wal_buffers", caption="Throughput")
    text = shown[0]["text/plain"]
    assert text.index("wal_buffers 512kB") < text.index("wal_buffers 1MB")
    lines = [line for line in text.splitlines() if "101 [96, 107]" in line]
    assert [line.split()[:2] for line in lines] == [
        ["A", "1"], ["A", "10"], ["B", "1"], ["B", "10"]
    ]  # fmt: skip
    assert "without the highest and the lowest" in text


def test_other_factors_stay_at_their_first_levels(shown: Shown) -> None:
    records = two()
    for record in records.values():
        record.specification["factors"]["scale2"] = ["x", "y"]
        for cell in record.specification["cells"]:
            cell["levels"]["scale2"] = "y" if cell["levels"]["scale"] == "10" else "x"
        for entry in record.entries:
            entry["levels"]["scale2"] = "y" if entry["levels"]["scale"] == "10" else "x"
    show_side_by_side(records, rows="scale", columns="wal_buffers", caption="Throughput")
    text = shown[0]["text/plain"]
    assert "scale2 is at x." in text
    assert not [line for line in text.splitlines() if line.startswith("A") and "10 " in line[:9]]


def test_two_trials_cannot_be_trimmed_and_are_shown_as_they_are(shown: Shown) -> None:
    records = {"A": machine(values=(10.0, 1000.0))}
    show_side_by_side(records, rows="scale", columns="wal_buffers", caption="Throughput")
    text = shown[0]["text/plain"]
    assert "Means of all trials" in text
    assert "100" in text
    assert MISSING not in text


def test_an_unknown_factor_is_an_input_error() -> None:
    with pytest.raises(InputError) as caught:
        show_side_by_side(two(), rows="scales", columns="walbuffers", caption="x")
    assert len(caught.value.faults) == 2


def test_comparisons_say_that_they_are_not_paired(shown: Shown) -> None:
    show_report_comparisons(two(factor=9.0), against="A", caption="Systems")
    text = shown[0]["text/plain"]
    assert "B against A" in text
    assert "faster: +800.0 %" in text
    assert "measured at different times" in text
