"""A search on real servers, where the change is a setting that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import BuildError, InputError
from benchkit.experiment.ledger import Record, read_record
from benchkit.experiment.search import Search
from benchkit.experiment.watch import Standing
from benchkit.postgres.builds import Build
from benchkit.workload.pgbench import Workload

WORKLOAD = Workload(scale=1, duration_s=1, script="simple-update")


class Script:
    """Measures what it was told, round by round; what cannot be built it leaves out."""

    def __init__(self, *rounds: list[str]) -> None:
        self.rounds = rounds
        self.seen: list[tuple[int, dict[str, str]]] = []

    def describe(self) -> Mapping[str, Any]:
        """Tell the rule, as one of `benchkit.analysis.bisect` would."""
        return {"smallest_change": 0.05, "error": 0.05, "metric": "tps"}

    def typical_trials(self, candidates: int) -> int:
        """Say what it takes."""
        return 2 * candidates

    def next_round(self, record: Record, unbuilt: Mapping[str, str]) -> tuple[list[str], str]:
        """Give the next of the rounds."""
        done = max((entry["round"] for entry in record.entries), default=0)
        self.seen.append((len(record.entries), dict(unbuilt)))
        if done == len(self.rounds):
            return [], "the script is at its end"
        return [label for label in self.rounds[done] if label not in unbuilt], ""


@pytest.fixture
def make(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Search]:
    """Give a function that makes a search over three groups of settings."""
    monkeypatch.setenv("BENCHKIT_RUNS", str(tmp_path))
    groups = {name: {"work_mem": f"{number}MB"} for number, name in enumerate("abc", 1)}

    def made(*rounds: list[str], **changes: Any) -> Search:
        asked: dict[str, Any] = {
            "candidates": groups, "workload": WORKLOAD, "build": build, "client": build,
        }  # fmt: skip
        asked |= changes
        return Search("search", asked.pop("candidates"), strategy=Script(*rounds), **asked)

    return made


def quiet(standing: Standing) -> None:
    """Say nothing."""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"candidates": {"a": {}}}, "a search needs two"),
        ({"most_trials": 1}, "less than one pair"),
        ({"settings": {"shared_bufers": "1GB"}}, "did you mean 'shared_buffers'"),
        ({"candidates": {"a": {"work_mem": "1MB"}, "b": {"work_mem": "lots"}}}, "work_mem"),
        ({"workload": Workload(scale=0)}, "scale: 0 is below 1"),
        ({"rounds": 9}, "unknown argument 'rounds'"),
        (
            {"candidates": dict.fromkeys("ab", lambda: 1 / 0), "workload": Workload(scale=0)},
            "scale",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(
    make: Callable[..., Search], tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        make(**changes)
    assert expected in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_it_says_what_it_takes(make: Callable[..., Search]) -> None:
    search = make()
    assert "3 candidates, from a to c: about 6 trials" in search.describe()
    assert "at most 400" in search.describe()
    assert "for each one more" in search.describe()
    assert "few rounds" not in [finding.name for finding in search.check()]


@pytest.mark.server
@pytest.mark.slow
def test_rounds_are_measured_as_chosen_and_a_broken_search_goes_on(
    make: Callable[..., Search],
) -> None:
    rounds = (["a", "c"], ["a", "b", "c"], ["a", "b"])

    def interrupt(standing: Standing) -> None:
        if standing.event == "trial" and standing.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(*rounds, seed=3).run(watch=interrupt)
    told: list[Standing] = []
    record = make(*rounds, seed=3).run(watch=told.append)
    assert told[0].done == 4
    assert "at most 400 trials" in told[0].line()
    measured: dict[int, list[str]] = {}
    for entry in record.entries:
        assert entry["status"] == "usable", entry
        measured.setdefault(entry["round"], []).append(entry["levels"]["candidate"])
        number = "abc".index(entry["levels"]["candidate"]) + 1
        assert entry["effective"].get("work_mem", "4MB") == f"{number}MB"
    assert [sorted(labels) for labels in measured.values()] == [list(r) for r in rounds]
    assert record.stopped == {"rounds": 3, "reason": "the script is at its end", "unbuilt": {}}
    assert (record.complete, record.planned, len(record.entries)) == (True, 7, 7)
    assert read_record(record.directory).complete
    assert make(*rounds, seed=3).run(watch=quiet).directory != record.directory


@pytest.mark.server
@pytest.mark.slow
def test_candidates_are_made_when_needed_and_those_that_cannot_are_left_out(
    make: Callable[..., Search], build: Build
) -> None:
    made: list[str] = []

    def maker(label: str) -> Callable[[], Build]:
        def make_it() -> Build:
            made.append(label)
            if label == "c":
                raise BuildError("no compiler")
            return build

        return make_it

    candidates = {label: maker(label) for label in "abcd"}
    search = make(["a", "d"], ["a", "b", "c"], candidates=candidates, about={"a": "good"})
    assert made == []
    told: list[str] = []
    search.tell = told.append
    search.check()
    assert told == ["building a good", "building d"]
    assert made == ["a", "d"]
    record = search.run(watch=quiet)
    assert made == ["a", "d", "b", "c"] or made == ["a", "d", "c", "b"]
    assert record.stopped is not None
    assert record.stopped["unbuilt"] == {"c": "no compiler"}
    second = {e["levels"]["candidate"] for e in record.entries if e["round"] == 2}
    assert second == {"a", "b"}
    assert record.specification["search"]["about"] == {"a": "good"}


@pytest.mark.server
@pytest.mark.slow
def test_fresh_loads_are_made_for_every_round_and_removed(
    make: Callable[..., Search], open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHKIT_HOME", str(open_directory / "home"))
    record = make(["a", "c"], ["a", "b"], fresh_loads=True).run(watch=quiet)
    run_id = record.specification["run_id"]
    loads = [entry["asked"]["load"] for entry in record.entries]
    assert loads == [f"{run_id}, round {number}" for number in (1, 1, 2, 2)]
    assert {entry["status"] for entry in record.entries} == {"usable"}
    assert list((open_directory / "home" / "templates").iterdir()) == []


@pytest.mark.server
@pytest.mark.slow
def test_it_gives_up_at_its_limit_before_a_round_that_goes_beyond(
    make: Callable[..., Search],
) -> None:
    record = make(*[["a", "c"]] * 9, most_trials=3).run(watch=quiet)
    assert len(record.entries) == 2
    assert record.stopped is not None
    assert record.stopped["reason"] == "the limit of 3 trials was reached"
