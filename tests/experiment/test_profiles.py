"""A profile's values, and the parameters that win over them."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.experiment.profiles import PROFILES, choose_profile

COLUMNS: dict[str, Any] = {
    "scale": [1, 20, 100],
    "duration_s": [2, 10, 0],
    "transactions": [0, 0, 1000],
    "rate": [0.0, 0.5, 0.0],
    "builds": [[""], [""], ["8.3", "8.2"]],
    "label": ["a", "b", "c"],
    "strict": [False, False, True],
}


def chosen(name: str, **given: Any) -> dict[str, Any]:
    return vars(choose_profile(name, COLUMNS, **given))


def test_the_values_of_a_profile() -> None:
    assert chosen("paper") == {
        "profile": "paper",
        "scale": 100,
        "duration_s": 0,
        "transactions": 1000,
        "rate": 0.0,
        "builds": ["8.3", "8.2"],
        "label": "c",
        "strict": True,
    }
    assert [chosen(name)["scale"] for name in PROFILES] == [1, 20, 100]


def test_a_parameter_that_was_given_wins() -> None:
    found = chosen("quick", scale=7, builds=["18"], label="mine", strict=True, rate=2)
    assert (found["scale"], found["builds"], found["label"]) == (7, ["18"], "mine")
    assert (found["strict"], found["rate"], found["duration_s"]) == (True, 2, 10)


def test_empty_and_zero_are_not_given() -> None:
    empty = {"scale": 0, "builds": [], "label": "", "strict": False, "duration_s": 0}
    assert chosen("quick", **empty) == chosen("quick")


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("quick", {"transactions": 50}, (0, 50)),
        ("paper", {"duration_s": 5}, (5, 0)),
        ("quick", {"duration_s": 5}, (5, 0)),
        ("paper", {"transactions": 7}, (0, 7)),
        # Both: the workload refuses it, with both values, instead of one being passed over.
        ("paper", {"duration_s": 5, "transactions": 7}, (5, 7)),
    ],
)
def test_a_length_takes_the_place_of_the_other(
    name: str, given: dict[str, int], expected: tuple[int, int]
) -> None:
    found = chosen(name, **given)
    assert (found["duration_s"], found["transactions"]) == expected


def test_a_length_that_no_profile_has_is_not_made_up() -> None:
    only = choose_profile("quick", {"duration_s": [1, 2, 3]}, duration_s=5)
    assert vars(only) == {"profile": "quick", "duration_s": 5}


def faults_of(name: str, columns: dict[str, Any] | None = None, **given: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        choose_profile(name, columns or COLUMNS, **given)
    return [str(fault) for fault in caught.value.faults]


def test_unknown_parameters_and_wrong_types_at_once() -> None:
    assert faults_of("smoke", scle=3, scale="3", strict=1, builds="18", label=None) == [
        "scle: unknown parameter 'scle'; did you mean 'scale'? (accepted: builds, duration_s, "
        "label, rate, scale, strict, transactions)",
        "scale: '3' is not of type int",
        "strict: 1 is not of type bool",
        "builds: '18' is not of type list",
        "label: None is not of type str",
    ]


def test_an_unknown_profile() -> None:
    (found,) = faults_of("qick")
    assert found.startswith("profile: unknown profile 'qick'; did you mean 'quick'?")
    assert "(accepted: paper, quick, smoke)" in found


def test_a_column_that_is_too_short() -> None:
    assert faults_of("smoke", {"scale": [1, 2]}) == ["scale: 2 values for the 3 profiles"]


def test_parameters_may_have_any_name() -> None:
    found = choose_profile("smoke", {"name": ["a", "b", "c"], "columns": [1, 2, 3]}, name="x")
    assert (found.name, found.columns) == ("x", 1)
