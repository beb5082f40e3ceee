"""The error tree: three parts in a message, nothing lost on the way through pickle."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from benchkit import errors
from benchkit.errors import (
    BenchkitError,
    Fault,
    Faults,
    InputError,
    NotebookError,
    ServerError,
    nearest,
)

KINDS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, BenchkitError)
]
PLAIN = [kind for kind in KINDS if kind is not InputError]


def test_a_message_has_three_parts() -> None:
    error = ServerError("it broke", evidence="\nline 1\nline 2\n", advice="mend it")
    assert str(error) == "it broke\n  line 1\n  line 2\nTry: mend it"
    assert (error.message, error.evidence, error.advice) == (
        "it broke",
        "line 1\nline 2",
        "mend it",
    )


def test_parts_that_are_missing_leave_no_trace() -> None:
    assert str(BenchkitError("it broke")) == "it broke"
    assert str(BenchkitError("it broke", advice="mend it")) == "it broke\nTry: mend it"


def test_the_tree_drawn_in_the_module_is_the_tree() -> None:
    assert len(KINDS) == 8
    for kind in KINDS:
        assert kind.__name__ in (errors.__doc__ or "")
        assert kind is BenchkitError or kind.__bases__ == (BenchkitError,)


@pytest.mark.parametrize("kind", PLAIN)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_keeps_every_part(kind: type[BenchkitError], protocol: int) -> None:
    error = kind("it broke", evidence="line", advice="mend it")
    error.add_note("seen on a Monday")
    back = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301
    assert type(back) is kind
    assert back.__dict__ == error.__dict__
    assert (str(back), back.args) == (str(error), error.args)


def test_pickle_keeps_the_exit_code() -> None:
    error = NotebookError("the kernel died", exit_code=4)
    assert pickle.loads(pickle.dumps(error)).exit_code == 4  # noqa: S301
    assert copy.copy(error).exit_code == 4
    assert NotebookError("a cell failed").exit_code == 3


def test_pickle_keeps_the_faults() -> None:
    error = InputError([Fault(where="scale", problem="is 0"), Fault(where="clients", problem="x")])
    back = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert back.faults == error.faults
    assert str(back) == str(error)


def test_all_faults_are_in_the_message() -> None:
    error = InputError([Fault(where="scale", problem="is 0"), Fault(where="clients", problem="x")])
    assert str(error) == "This cannot be done: 2 faults.\n  - scale: is 0\n  - clients: x"
    assert str(InputError([Fault(where="a", problem="b")])).startswith("This cannot be done: 1 fau")


def test_faults_are_collected_and_raised_once() -> None:
    faults = Faults()
    faults.raise_any()
    faults.add("duration_s", "is 0")
    faults.unknown("factors", "clints", ["clients", "threads"], kind="factor")
    faults.extend(InputError([Fault(where="build", problem="has no pgbench")]))
    with pytest.raises(InputError) as caught:
        faults.raise_any()
    assert [fault.where for fault in caught.value.faults] == ["duration_s", "factors", "build"]
    assert "unknown factor 'clints'; did you mean 'clients'?" in str(caught.value)


def test_nearest_names_the_neighbour_and_few_choices() -> None:
    assert nearest("simpel", ["simple", "extended"]) == (
        "; did you mean 'simple'? (accepted: extended, simple)"
    )
    assert nearest("zzz", ["simple", "extended"]) == " (accepted: extended, simple)"
    assert nearest("zzz", [f"name{i}" for i in range(50)]) == ""
    assert nearest("zzz", []) == ""
