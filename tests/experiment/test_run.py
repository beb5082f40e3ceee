"""A tiny real experiment: its order, its record, and how it goes on after a break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchkit.analysis.results import Results
from benchkit.analysis.stopping import Until
from benchkit.errors import FormatError, InputError
from benchkit.experiment.ledger import Ledger, Record, read_record, runs_dir
from benchkit.experiment.run import Experiment
from benchkit.experiment.watch import Standing
from benchkit.postgres.builds import Build
from benchkit.workload.pgbench import Workload

WORKLOAD = Workload(scale=1, duration_s=1, script="simple-update")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory for runs that is empty."""
    monkeypatch.setenv("BENCHKIT_RUNS", str(tmp_path))
    return tmp_path


@pytest.fixture
def tiny(build: Build, place: Path) -> Callable[..., Experiment]:
    """Give a function that makes the tiny experiment: 2 cells and the twin, 2 rounds."""

    def make(**changes: Any) -> Experiment:
        asked: dict[str, Any] = {
            "factors": {"clients": [1, 2]},
            "workload": WORKLOAD,
            "rounds": 2,
            "build": build,
            "client": build,
            "seed": 5,
        }
        return Experiment("tiny", **asked | changes)

    return make


def faults_of(error: pytest.ExceptionInfo[InputError]) -> list[str]:
    return [str(fault) for fault in error.value.faults]


# What is refused


def test_every_fault_at_once(tiny: Callable[..., Experiment], place: Path) -> None:
    with pytest.raises(InputError) as caught:
        tiny(
            rounds=0,
            factors={"clients": [1, 0], "cliens": [1]},
            workload=Workload(scale=0, duration_s=1),
            settings={"shared_bufers": "1GB", "port": 5433},
        )
    found = "\n".join(faults_of(caught))
    for part in (
        "rounds: 0 is not a number of rounds",
        "factors: unknown factor 'cliens'; did you mean 'clients'?",
        "scale: 0 is below 1",
        "clients: 0 is below 1",
        "settings shared_bufers: unknown setting 'shared_bufers'; did you mean 'shared_buffers'",
        "settings port: is set by benchkit itself",
    ):
        assert part in found
    assert len(faults_of(caught)) == 6
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b"])
def test_a_name_is_a_name_of_a_directory(tiny: Callable[..., Experiment], name: str) -> None:
    with pytest.raises(InputError, match="1 fault"):
        Experiment(name, factors={}, workload=WORKLOAD)


def test_builds_that_are_not_there() -> None:
    with pytest.raises(InputError) as caught:
        Experiment("x", factors={}, workload=WORKLOAD, build="99", client="/nowhere/bin")
    assert [fault.where for fault in caught.value.faults] == ["build", "client"]


def test_a_build_as_baseline(tiny: Callable[..., Experiment], build: Build) -> None:
    experiment = tiny(factors={"build": [build]}, baseline={"build": build})
    assert experiment.baseline == {"build": build.version.text}
    assert experiment.cells[-1].twin


# What is known before


def test_what_is_known_before_anything_is_measured(tiny: Callable[..., Experiment]) -> None:
    experiment = tiny()
    assert [cell.label for cell in experiment.cells] == [
        "clients=1",
        "clients=2",
        "clients=1, twin",
    ]
    assert experiment.factors == {"clients": ["1", "2"]}
    assert all(cell.request.workload.threads >= 1 for cell in experiment.cells)
    assert 9 < experiment.needs().duration_s < 25


def test_a_grid_leaves_no_level_that_is_not_measured(tiny: Callable[..., Experiment]) -> None:
    experiment = tiny(factors={"clients": [1, 2], "work_mem": ["4MB", "8MB"]}, grids=[["clients"]])
    assert experiment.factors == {"clients": ["1", "2"], "work_mem": ["4MB"]}


def test_the_preflight_says_what_was_translated(tiny: Callable[..., Experiment]) -> None:
    found = tiny(settings={"checkpoint_segments": 32}).check()
    (translated,) = [finding for finding in found if finding.name == "fitted to the build"]
    assert "checkpoint_segments=32 became max_wal_size=1536MB" in translated.evidence


# A run


def keys(record: Record) -> list[str]:
    return [entry["key"] for entry in record.entries]


@pytest.fixture(scope="module")
def whole(build: Build, tmp_path_factory: pytest.TempPathFactory) -> tuple[Record, list[Standing]]:
    """A run of the tiny experiment from its beginning to its end, and what a watcher saw."""
    seen: list[Standing] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCHKIT_RUNS", str(tmp_path_factory.mktemp("runs")))
        experiment = Experiment(
            "tiny",
            factors={"clients": [1, 2]},
            workload=WORKLOAD,
            rounds=2,
            build=build,
            client=build,
            baseline={"clients": 2},
        )
        record = experiment.run(watch=seen.append)
    return record, seen


@pytest.mark.server
@pytest.mark.slow
def test_trials_are_measured_in_the_order_recorded(whole: tuple[Record, list[Standing]]) -> None:
    record, _ = whole
    assert record.complete
    assert [entry["status"] for entry in record.entries] == ["usable"] * 6
    cells = record.specification["cells"]
    expected = [
        (number, position, cells[index]["levels"], cells[index]["twin"])
        for number, order in enumerate(record.specification["order"], 1)
        for position, index in enumerate(order, 1)
    ]
    assert [
        (entry["round"], entry["position"], entry["levels"], entry["twin"])
        for entry in record.entries
    ] == expected
    started = [entry["started_at"] for entry in record.entries]
    assert started == sorted(started)
    assert len(set(keys(record))) == 6


@pytest.mark.server
@pytest.mark.slow
def test_a_run_is_all_on_disk(whole: tuple[Record, list[Standing]]) -> None:
    record, _ = whole
    again = read_record(record.directory)
    assert again.entries == record.entries
    assert again.specification == record.specification
    assert record.directory.parent.name == "tiny"
    assert record.directory.name == record.specification["run_id"]
    assert record.specification["host"]["usable_cores"] >= 1
    assert isinstance(record.specification["seed"], int)
    assert record.specification["chosen_seed"] is None
    names = {path.name for path in record.directory.iterdir()}
    assert names == {"experiment.json", "trials.jsonl", "series", "logs"}
    for key in keys(record):
        series = record.series(key)
        assert series is not None
        assert series["tps"].gt(0).all()
        assert (record.directory / "logs" / key / "server.log").stat().st_size > 0


@pytest.mark.server
@pytest.mark.slow
def test_a_watcher_is_told_as_things_go_on(whole: tuple[Record, list[Standing]]) -> None:
    record, seen = whole
    assert [seen[0].event, seen[-1].event] == ["start", "end"]
    assert (seen[0].done, seen[0].planned, seen[-1].done) == (0, 6, 6)
    assert {standing.directory for standing in seen} == {record.directory}
    done = [standing for standing in seen if standing.event == "trial"]
    assert [standing.done for standing in done] == [1, 2, 3, 4, 5, 6]
    assert [standing.entry for standing in done] == record.entries
    assert [standing.left_s > 0 for standing in done] == [True] * 5 + [False]
    steps = [standing.step for standing in seen if standing.event == "step"]
    assert steps.count("run") == 6
    seconds = [standing for standing in seen if standing.event == "second"]
    assert len(seconds) >= 6
    assert all(second.progress and second.cell and second.round_number for second in seconds)


def stopped_after(trials: int) -> Callable[[Standing], None]:
    """Give a watcher that interrupts as the next trial begins to run."""

    def watch(standing: Standing) -> None:
        if standing.step == "run" and standing.done == trials:
            raise KeyboardInterrupt

    return watch


@pytest.mark.server
@pytest.mark.slow
def test_a_run_is_resumed_with_exactly_what_is_missing(
    tiny: Callable[..., Experiment], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = Workload(scale=1, transactions=50)
    with pytest.raises(KeyboardInterrupt):
        tiny(workload=workload).run(watch=stopped_after(2))
    (run,) = (place / "tiny").iterdir()
    first = (run / "trials.jsonl").read_bytes()
    assert first.count(b"\n") == 2
    with (run / "trials.jsonl").open("ab") as file:
        file.write(b'{"key": "torn')
    record = tiny(workload=workload).run()
    assert record.directory == run
    assert (run / "trials.jsonl").read_bytes().startswith(first)
    assert len(set(keys(record))) == len(record.entries) == 6
    assert sorted((entry["round"], entry["position"]) for entry in record.entries) == [
        (number, position) for number in (1, 2) for position in (1, 2, 3)
    ]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a torn last line of 13 bytes was dropped"
    assert lines[1].startswith(f"{run}: 2/6 trials, ")
    assert len(lines) == 6

    # A run that is finished is followed by a new one; so is one of another specification.
    for changes in ({}, {"settings": {"work_mem": "8MB"}}):
        before = set((place / "tiny").iterdir())
        with pytest.raises(KeyboardInterrupt):
            tiny(workload=workload, **changes).run(watch=stopped_after(0))
        assert len(set((place / "tiny").iterdir()) - before) == 1


def begun(experiment: Experiment) -> Path:
    """Begin a run without measuring anything."""

    def stop(standing: Standing) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run(watch=stop)
    return max((runs_dir() / experiment.name).iterdir(), key=lambda path: path.stat().st_mtime)


def test_what_makes_two_runs_the_same(tiny: Callable[..., Experiment], place: Path) -> None:
    first = begun(tiny())
    assert begun(tiny()) == first
    specification = read_record(first).specification
    assert specification["seed"] == specification["chosen_seed"] == 5
    others: list[dict[str, Any]] = [
        {"rounds": 3},
        {"seed": 6},
        {"settings": {"work_mem": "8MB"}},
        {"factors": {"clients": [1, 3]}},
        {"baseline": {"clients": 2}},
    ]
    assert len({begun(tiny(**changes)) for changes in others} | {first}) == 6


def test_a_fresh_run_leaves_the_unfinished_one(
    tiny: Callable[..., Experiment], place: Path
) -> None:
    first = begun(tiny())

    def stop(standing: Standing) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tiny().run(watch=stop, fresh=True)
    assert len(list((place / "tiny").iterdir())) == 2
    assert first.exists()


def test_an_order_that_was_drawn_stays_when_resumed(
    tiny: Callable[..., Experiment], place: Path
) -> None:
    orders = []
    for _ in range(2):
        run = begun(tiny(seed=None))
        orders.append(read_record(run).specification["order"])
    assert orders[0] == orders[1]
    assert len(list((place / "tiny").iterdir())) == 1


def test_a_damaged_run_is_an_error_and_not_forgotten(
    tiny: Callable[..., Experiment], place: Path
) -> None:
    run = begun(tiny())
    (run / "trials.jsonl").write_text("{\n{\n")
    with pytest.raises(FormatError, match="line 1 is damaged"):
        tiny().run()
    assert list((place / "tiny").iterdir()) == [run]


def test_a_run_at_work_elsewhere_is_left_alone_and_said_so(
    tiny: Callable[..., Experiment], place: Path
) -> None:
    notes: list[str] = []

    def stop(standing: Standing) -> None:
        notes.extend(standing.notes)
        raise KeyboardInterrupt

    run = begun(tiny())
    with Ledger(run), pytest.raises(KeyboardInterrupt):
        tiny().run(watch=stop)
    assert len(list((place / "tiny").iterdir())) == 2
    assert notes == [f"another process writes to {run}: this is a new run beside it"]


# Sessions


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rounds": 4, "sessions": 3}, "4 rounds cannot be shared equally among 3"),
        ({"rounds": 4, "sessions": 0}, "4 rounds cannot be shared equally among 0"),
        ({"rounds": 4, "sessions": 2, "until": Until()}, "planned in rounds: one session only"),
    ],
)
def test_sessions_that_cannot_be_are_refused(
    tiny: Callable[..., Experiment], changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        tiny(**changes)
    assert expected in str(caught.value)


@pytest.mark.server
@pytest.mark.slow
def test_each_session_has_loads_of_its_own_and_leaves_none(
    tiny: Callable[..., Experiment], open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHKIT_HOME", str(open_directory / "home"))
    templates = open_directory / "home" / "templates"
    seen: set[str] = set()

    def watch(standing: Standing) -> None:
        if standing.event == "trial":
            seen.update(path.name for path in templates.iterdir())

    experiment = tiny(rounds=3, sessions=3, factors={"clients": [1]})
    one = tiny(rounds=3, factors={"clients": [1]}).needs().duration_s
    assert experiment.needs().duration_s > one
    record = experiment.run(watch=watch)
    loads = [entry["asked"]["load"] for entry in record.entries]
    run_id = record.specification["run_id"]
    assert loads == [f"{run_id}, session {number}" for number in (1, 1, 2, 2, 3, 3)]
    assert {entry["status"] for entry in record.entries} == {"usable"}
    assert len(seen) == 3
    assert list(templates.iterdir()) == []
    twin = Results(record).twin()
    assert twin is not None
    assert (twin.rounds, twin.unit) == (3, "round")
