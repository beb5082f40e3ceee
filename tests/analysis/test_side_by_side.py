"""The table of several reports, and the ratios between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.analysis.side_by_side import (
    UNPAIRED,
    compare_reports,
    comparison_notes,
    doubtful_twin,
    label_reports,
    ratio_of_reports,
    read_reports,
    side_by_side,
)
from benchkit.analysis.stats import mean_interval
from benchkit.analysis.unpaired import trimmed_interval, unpaired_ratio
from benchkit.errors import FormatError, InputError
from tests.analysis.machines import OTHER, VALUES, machine
from tests.experiment.test_embedded import RUN, written

TWO = {"A": machine(), "B": machine(host=OTHER, factor=2.0)}


def test_a_row_per_cell_and_report_of_usable_trials_without_the_twin() -> None:
    frame = side_by_side(TWO)
    columns = ["wal_buffers", "scale", "report", "mean", "low", "high", "trials"]
    assert frame.columns.tolist() == columns
    assert frame["report"].tolist() == ["A"] * 4 + ["B"] * 4
    assert set(frame["trials"]) == {5}
    expected = trimmed_interval(VALUES)
    row = frame.iloc[0]
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(tuple(expected))
    assert frame["mean"].iloc[4] == pytest.approx(2 * (100 + 101 + 103) / 3)


def test_untrimmed_it_is_the_mean_of_all() -> None:
    row = side_by_side(TWO, trim=False).iloc[0]
    expected = tuple(mean_interval(VALUES))
    assert (row["mean"], row["low"], row["high"]) == pytest.approx(expected)


def test_a_metric_that_was_not_measured_is_missing() -> None:
    frame = side_by_side(TWO, "wal_bytes_per_transaction")
    assert frame["mean"].isna().all()
    assert set(frame["trials"]) == {0}
    with pytest.raises(InputError, match="1 fault"):
        side_by_side(TWO, "tsp")


def test_each_cell_is_compared_with_its_like() -> None:
    found = compare_reports(TWO, "A")
    assert [item.level for item in found] == ["B"] * 4
    assert len({tuple(item.context.items()) for item in found}) == 4
    alone = unpaired_ratio([2 * value for value in VALUES], VALUES)
    for item in found:
        assert item.estimate == alone
        assert alone.p_value is not None
        assert item.adjusted_p == pytest.approx(4 * alone.p_value)
        # At 5 % alone, not among four: the verdict is that of all four.
        assert item.verdict.kind == "undecided"
    with pytest.raises(InputError):
        compare_reports(TWO, "C")


def test_the_notes_tell_of_the_missing_twin_and_of_each_reports_own() -> None:
    records = {"A": machine(twin_pct=1), "B": machine(host=OTHER, factor=2.0, twin_pct=1)}
    first, *twins = comparison_notes(records)
    assert first == UNPAIRED
    assert [note[:7] for note in twins] == ["A, the ", "B, the "]
    assert "looks like a difference" in twins[0]  # 1 to 5 % above in every round


def test_the_ratio_of_one_cell() -> None:
    found = ratio_of_reports(TWO, "B", "A", wal_buffers="512kB", scale=10)
    assert found is not None
    assert found.ratio == pytest.approx(2)
    assert ratio_of_reports(TWO, "B", "A", scale=7) is None
    assert ratio_of_reports(TWO, "A", "A", scale=10) is None
    with pytest.raises(InputError, match="1 fault"):
        ratio_of_reports(TWO, "B", "A", scales=10)


def test_a_clear_difference_has_its_word() -> None:
    values = (100.0, 101.0, 99.0, 100.5)
    records = {"A": machine(values=values), "B": machine(values=values, factor=0.5)}
    verdicts = {item.verdict.kind for item in compare_reports(records, "A")}
    assert verdicts == {"slower"}


def test_a_report_that_cannot_tell_its_own_noise_is_not_judged() -> None:
    doubtful = {"A": machine(), "B": machine(host=OTHER, factor=9.0, twin_pct=1)}
    found = compare_reports(doubtful, "A")
    assert {item.verdict.kind for item in found} == {"not judged"}
    twin = doubtful_twin(doubtful, "A", "B")
    assert twin is not None
    assert twin.differs


def test_reports_that_cannot_be_compared_are_not_judged() -> None:
    other = machine(host=OTHER, factor=9.0)
    for cell in other.specification["cells"]:
        cell["asked"]["build"]["version"] = "17.0"
    records = {"A": machine(), "B": other}
    found = compare_reports(records, "A")
    assert {item.verdict.kind for item in found} == {"not judged"}
    assert "cannot be compared" in found[0].verdict.text
    assert ratio_of_reports(records, "B", "A", wal_buffers="512kB", scale=10) is None


def test_cells_that_only_one_report_has_are_left_out() -> None:
    other = machine(host=OTHER)
    other.specification["cells"][:] = other.specification["cells"][2:]
    found = compare_reports({"A": machine(), "B": other}, "A")
    assert {item.context["wal_buffers"] for item in found} == {"512kB"}


def test_labels_are_systems_and_unique() -> None:
    others = [machine(host=OTHER), machine(host=OTHER | {"hostname": "three"})]
    assert [*label_reports([machine(), *others])] == [
        "Debian GNU/Linux 12",
        "Ubuntu 24.04 on two",
        "Ubuntu 24.04 on three",
    ]
    assert [*label_reports([machine()] * 2)] == [
        "Debian GNU/Linux 12 on one",
        "Debian GNU/Linux 12 on one (2)",
    ]
    assert [*label_reports([machine(host=dict.fromkeys(OTHER))])] == ["unknown system"]


def test_notebooks_are_read_and_labelled(tmp_path: Path) -> None:
    records = read_reports([written(tmp_path, RUN)])
    assert side_by_side(records)["report"].unique().tolist() == ["Debian GNU/Linux 12"]
    hostile = machine()
    hostile.entries[0]["result"]["comparable_tps"] = {"not": "a number"}
    run = {"specification": hostile.specification, "trials": hostile.entries}
    with pytest.raises(FormatError, match="figures cannot be read"):
        read_reports([written(tmp_path, run)])
