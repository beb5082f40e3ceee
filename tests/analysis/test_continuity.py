"""What is said of a run that is not of one piece."""

from __future__ import annotations

from typing import Any

from benchkit.analysis.continuity import remarks
from benchkit.analysis.results import Results
from tests.analysis.test_results import BUILDS, NEW, OLD, entry, record, rejected


def made(*more: dict[str, Any], **changes: Any) -> Results:
    entries = [
        entry(levels, number, 100.0, started_at=1e9 + 20 * number + place, **changes)
        for number in (1, 2, 3)
        for place, levels in enumerate((OLD, NEW))
    ]
    return Results(record(BUILDS, [*entries, *more]))


def test_a_run_of_one_piece_has_none() -> None:
    assert remarks(made()) == []
    assert remarks(Results(record(BUILDS, []))) == []


def test_trials_that_are_not_usable_are_counted_with_their_rounds() -> None:
    bad = [rejected(OLD, number, 1.0, "no") for number in (4, 2)]
    (text,) = remarks(made(*bad))
    assert text.startswith("2 trials of the rounds 2, 4 are not usable: a comparison leaves")


def test_another_boot_or_machine_is_said() -> None:
    other = entry(OLD, 4, 100.0, host={"hostname": "b", "boot_id": "2"})
    texts = remarks(made(other, host={"hostname": "a", "boot_id": "1"}))
    assert [text.partition(":")[0] for text in texts] == [
        "Measured over 2 machines",
        "Measured over 2 boots of the machine",
    ]


def test_a_long_break_is_said() -> None:
    late = entry(OLD, 4, 100.0, started_at=1e9 + 7200)
    (text,) = remarks(made(late))
    assert text == "A break of 1 h 58 min before a trial of round 4."


def test_a_run_that_is_not_at_its_end_says_what_is_missing() -> None:
    results = made()
    results.record.specification["order"].extend([[0, 1, 2]] * 3)
    assert remarks(results) == ["The run is not at its end: 3 of 9 trials are missing."]
