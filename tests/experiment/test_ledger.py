"""What is on disk is all there, or said to be torn, damaged or of another format."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import BusyError, FormatError
from benchkit.experiment import ledger as ledgers
from benchkit.experiment.ledger import Ledger, project_root, read_record, runs_dir, unfinished
from benchkit.measure.gates import Gate
from benchkit.measure.trial import Trial
from benchkit.workload.progress import Progress

SPECIFICATION = {"experiment": "test", "order": [[0, 1], [1, 0]], "specification_hash": "abc"}


def trial(**changes: Any) -> Trial:
    seconds = tuple(
        Progress(time_s=float(n), tps=100.0 + n, latency_ms=None, latency_stddev_ms=None)
        for n in (1, 2, 3)
    )
    whole = Trial(
        status="usable",
        gates=(Gate(name="client CPU", rejects=False, message="busy"),),
        result={"comparable_tps": 101.5},
        progress=seconds,
        texts={"run.stdout.txt": "tps = 101.5\n", "server.log": "é\n"},
    )
    return dataclasses.replace(whole, **changes)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Give a run's directory with one trial in it."""
    with Ledger.create(tmp_path / "test" / "run", SPECIFICATION) as ledger:
        ledger.append("k1", trial(), {"round": 1})
        return ledger.directory


def lines(run: Path) -> list[str]:
    return (run / "trials.jsonl").read_text().splitlines()


# Append and read


def test_what_was_appended_is_read_again(run: Path) -> None:
    record = read_record(run)
    (entry,) = record.entries
    assert (entry["key"], entry["round"], entry["status"]) == ("k1", 1, "usable")
    assert entry["record_version"] == 1
    assert entry["gates"] == [{"name": "client CPU", "rejects": False, "message": "busy"}]
    assert record.specification["order"] == [[0, 1], [1, 0]]
    assert record.specification["format"] == ledgers.FORMAT
    assert (record.planned, record.complete, record.notes) == (4, False, ())


def test_series_and_logs_are_beside_it(run: Path) -> None:
    series = read_record(run).series("k1")
    assert series is not None
    assert series["tps"].tolist() == [101.0, 102.0, 103.0]
    assert series["time_s"].tolist() == [1.0, 2.0, 3.0]
    assert read_record(run).series("k2") is None
    assert (run / "logs" / "k1" / "server.log").read_text("utf-8") == "é\n"


def test_more_trials_follow_and_the_first_stays(run: Path) -> None:
    first = (run / "trials.jsonl").read_bytes()
    with Ledger(run) as ledger:
        for number in (2, 3, 4):
            ledger.append(f"k{number}", trial(progress=()), {"round": 2})
        assert ledger.record.complete
    assert (run / "trials.jsonl").read_bytes().startswith(first)
    assert [json.loads(line)["key"] for line in lines(run)] == ["k1", "k2", "k3", "k4"]
    assert read_record(run).complete


def test_what_append_gives_is_what_a_reader_gets(run: Path) -> None:
    odd = {"settings": {"path": Path("/a"), "pair": (1, 2)}}
    with Ledger(run) as ledger:
        entry = ledger.append("k2", trial(asked=odd), {"levels": {"a": "1"}})
    assert entry == read_record(run).entries[1] == ledger.record.entries[1]
    assert entry["asked"]["settings"] == {"path": "/a", "pair": [1, 2]}


def test_a_number_that_is_none_is_not_written(run: Path) -> None:
    with Ledger(run) as ledger, pytest.raises(ValueError, match="not JSON compliant"):
        ledger.append("k2", trial(result={"tps": float("nan")}), {})
    assert len(read_record(run).entries) == 1
    assert not (run / "logs" / "k2").exists()


def test_files_of_a_trial_come_before_its_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        assert (run / "logs" / "k2" / "run.stdout.txt").read_text() == "tps = 101.5\n"
        raise OSError("no space left on device")

    monkeypatch.setattr(Ledger, "_write_series", fail)
    with Ledger(run) as ledger, pytest.raises(OSError, match="no space"):
        ledger.append("k2", trial(), {})
    assert len(read_record(run).entries) == 1
    monkeypatch.undo()
    with Ledger(run) as ledger:
        ledger.append("k2", trial(texts={"run.stdout.txt": "again\n"}), {})
    assert [path.name for path in (run / "logs" / "k2").iterdir()] == ["run.stdout.txt"]
    assert len(read_record(run).entries) == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only /proc names a file")
def test_everything_is_synced_before_the_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    whole = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with Ledger(run) as ledger:
        ledger.append("k2", trial(), {})
    assert synced[-1] == "trials.jsonl"
    files = {".run.stdout.txt.unfinished", ".server.log.unfinished", "k2.parquet"}
    assert files | {"k2", "logs", "series"} == set(synced[:-1])


# Torn and damaged


def test_a_torn_last_line_is_dropped_and_said_so(run: Path) -> None:
    with (run / "trials.jsonl").open("a") as file:
        file.write('{"key": "k2", "status": "usab')
    record = read_record(run)
    assert [entry["key"] for entry in record.entries] == ["k1"]
    assert record.notes == ("a torn last line of 29 bytes was dropped",)


def test_after_a_torn_line_appending_is_safe(run: Path) -> None:
    whole = (run / "trials.jsonl").read_bytes()
    for torn in (b'{"key": "k2", "st', b"\0" * 4096):
        (run / "trials.jsonl").write_bytes(whole + torn)
        with Ledger(run) as ledger:
            assert len(ledger.record.notes) == 1
            assert (run / "trials.jsonl").read_bytes() == whole
    with Ledger(run) as ledger:
        ledger.append("k2", trial(), {})
    assert read_record(run).notes == ()
    assert [entry["key"] for entry in read_record(run).entries] == ["k1", "k2"]


def test_a_file_of_nothing_but_a_torn_line(run: Path) -> None:
    (run / "trials.jsonl").write_text('{"key"')
    with Ledger(run) as ledger:
        assert ledger.record.entries == []
    assert (run / "trials.jsonl").read_bytes() == b""


@pytest.mark.parametrize("bad", ["{", "", "5", "null", '{"status": "usable"}', "\x00\x00"])
def test_damage_before_the_last_line_is_an_error(run: Path, bad: str) -> None:
    (first,) = lines(run)
    damaged = f"{first}\n{bad}\n{first}\n"
    (run / "trials.jsonl").write_text(damaged)
    with pytest.raises(FormatError) as caught:
        read_record(run)
    assert "trials.jsonl, line 2 is damaged" in caught.value.message
    with pytest.raises(FormatError):
        Ledger(run)
    assert (run / "trials.jsonl").read_text() == damaged
    assert not (run / ".lock").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"format": 2}', "has format 2, this benchkit reads 1"),
        ("{}", "has format None"),
        ("[]", "cannot be read"),
        ("{", "cannot be read"),
    ],
)
def test_a_specification_of_another_form(run: Path, text: str, complaint: str) -> None:
    (run / "experiment.json").write_text(text)
    with pytest.raises(FormatError, match=complaint):
        read_record(run)


def test_a_directory_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_record(tmp_path)


# One writer


def test_a_second_writer_is_refused(run: Path) -> None:
    with Ledger(run), pytest.raises(BusyError, match="another process writes to"):
        Ledger(run)
    with Ledger(run):
        pass
    assert not (run / ".lock").exists()


def test_a_writer_of_another_process_is_seen_and_its_death_too(run: Path) -> None:
    code = (
        "import sys, pathlib; from benchkit.experiment.ledger import Ledger\n"
        f"ledger = Ledger(pathlib.Path({str(run)!r})); print('mine', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(BusyError):
            Ledger(run)
        other.kill()
        other.wait()
    assert (run / ".lock").exists()
    with Ledger(run) as ledger:
        assert len(ledger.record.entries) == 1


def test_a_lock_that_was_removed_meanwhile_is_not_taken_for_ours(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fcntl.flock
    calls: list[int] = []

    def flock(file: Any, operation: int) -> None:
        whole(file, operation)
        calls.append(operation)
        if len(calls) == 1:  # the holder before us goes, between our open and our lock
            (run / ".lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with Ledger(run):
        assert len(calls) == 2
        assert (run / ".lock").exists()
        with pytest.raises(BusyError):
            Ledger(run)


def test_a_reader_needs_no_lock(run: Path) -> None:
    with Ledger(run):
        assert len(read_record(run).entries) == 1


# Unfinished runs


def make(place: Path, run_id: str, trials: int, **changes: Any) -> Path:
    with Ledger.create(place / run_id, SPECIFICATION | changes) as ledger:
        for number in range(trials):
            ledger.append(f"k{number}", trial(progress=(), texts={}), {})
    return place / run_id


def test_unfinished_runs_of_this_specification_newest_first(tmp_path: Path) -> None:
    make(tmp_path, "20260101T000000Z-aaaa", 1)
    make(tmp_path, "20260102T000000Z-aaaa", 4)
    make(tmp_path, "20260103T000000Z-aaaa", 1, specification_hash="other")
    make(tmp_path, "20260104T000000Z-aaaa", 0)
    (tmp_path / "not a run").mkdir()
    found = [path.name for path in unfinished(tmp_path, "abc")]
    assert found == ["20260104T000000Z-aaaa", "20260101T000000Z-aaaa"]
    assert list(unfinished(tmp_path / "nowhere", "abc")) == []


def test_a_damaged_run_is_not_passed_over(tmp_path: Path) -> None:
    run = make(tmp_path, "a", 2)
    (run / "trials.jsonl").write_text("{\n" + lines(run)[1] + "\n")
    with pytest.raises(FormatError, match="line 1 is damaged"):
        list(unfinished(tmp_path, "abc"))
    assert list(unfinished(tmp_path, "other")) == []
    (run / "experiment.json").write_text('{"format": 99, "specification_hash": "abc"}')
    assert list(unfinished(tmp_path, "abc")) == []


# Where the runs are


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("BENCHKIT_RUNS")
    (tmp_path / "notebooks" / "deep").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    return tmp_path


@pytest.mark.parametrize("inside", [".", "notebooks", "notebooks/deep"])
def test_runs_of_a_project(project: Path, monkeypatch: pytest.MonkeyPatch, inside: str) -> None:
    monkeypatch.chdir(project / inside)
    assert project_root() == project
    assert runs_dir() == project / "data" / "runs"


def test_runs_outside_a_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").unlink()
    monkeypatch.chdir(project / "notebooks")
    assert project_root() is None
    assert runs_dir() == project / "notebooks" / "data" / "runs"


def test_the_environment_says_where(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("BENCHKIT_RUNS", "elsewhere")
    assert runs_dir() == project / "elsewhere"
    monkeypatch.setenv("BENCHKIT_RUNS", "~/runs")
    assert runs_dir() == Path.home() / "runs"
