"""One measured run on a real server: what a trial holds, and what is left when it goes wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from benchkit.measure import cache, host, waits
from benchkit.measure.record import RECORD_VERSION, Trial, TrialRequest
from benchkit.measure.trial import measure
from benchkit.postgres import workplace
from benchkit.postgres.builds import Build
from benchkit.workload.pgbench import Workload
from benchkit.workload.progress import Progress

pytestmark = pytest.mark.server

WORKLOAD = Workload(scale=1, clients=1, threads=1, duration_s=1)
STEPS = ["template", "clone and start", "prepare", "counters before", "run", "counters after"]


def request(build: Build, **changes: Any) -> TrialRequest:
    fields = changes.pop("fields", {})
    workload = dataclasses.replace(WORKLOAD, **fields).settled(build, 2)
    return TrialRequest(build=build, client=build, workload=workload, **changes)


def names(trial: Trial) -> set[str]:
    return {gate.name for gate in trial.gates if gate.rejects}


@pytest.fixture
def instances() -> Iterator[Callable[[], set[Path]]]:
    """Tell which instances a test has made; none may be left at its end."""
    place = workplace.home() / "instances"
    before = set(place.iterdir())

    def made() -> set[Path]:
        return set(place.iterdir()) - before

    yield made
    assert made() == set()
    assert workplace.processes_inside(place) == [
        pid for path in before for pid in workplace.processes_inside(path)
    ]


# What a trial holds


@pytest.fixture(scope="module")
def usable(build: Build) -> Trial:
    """A usable trial with everything in it, and a warm-up."""
    asked = request(
        build,
        fields={"clients": 2, "warm_up_s": 1, "script": "simple-update"},
        settings={"shared_buffers": "32MB", "work_mem": "8MB"},
    )
    return measure(asked, purpose="a test")


def test_a_trial_describes_itself(build: Build, usable: Trial) -> None:
    assert (usable.status, usable.error, usable.gates) == ("usable", "", ())
    assert usable.asked["workload"]["clients"] == 2
    assert usable.asked["settings"] == {"shared_buffers": "32MB", "work_mem": "8MB"}
    assert usable.asked["build"]["version_num"] == build.version.number
    assert usable.effective["shared_buffers"] == "32MB"
    assert usable.effective["work_mem"] == "8MB"
    assert usable.host["hostname"]
    assert usable.host["load_average"] >= 0
    expected = {"template", "clone", "start", "prepare", "warm-up", "counters before", "run"}
    assert set(usable.steps_s) == expected | {"counters after", "stop"}
    assert 1 <= usable.steps_s["run"] < 3
    assert usable.started_at > 1.7e9


def test_a_trial_has_result_counters_and_series(usable: Trial) -> None:
    result, counted = usable.result, usable.counters
    assert result["comparable_tps"] == result["tps"] > 0
    assert result["exit_code"] == result["aborted_clients"] == 0
    assert 1 <= result["wall_s"] < 3
    assert 0 < result["client_cpu_s"] < result["wall_s"]
    assert counted["complete"] is True
    assert counted["transactions"] == result["transactions"]
    assert counted["tables"]["pgbench_accounts"]["n_tup_upd"] == result["transactions"]
    assert counted["wal"]["bytes"] > 0
    assert usable.progress
    assert usable.progress[0].tps
    assert set(usable.texts) == {
        *("run.stdout.txt", "run.stderr.txt", "warm-up.stdout.txt", "warm-up.stderr.txt"),
        "server.log",
    }
    assert "ready to accept connections" in usable.texts["server.log"]


def test_the_warm_up_is_kept_and_not_counted(usable: Trial) -> None:
    assert usable.warm_up is not None
    assert usable.warm_up["transactions"] > 0
    assert usable.warm_up["duration_s"] == 1
    assert usable.warm_up["command"] == usable.result["command"]
    updated = usable.counters["tables"]["pgbench_accounts"]["n_tup_upd"]
    assert updated == usable.result["transactions"] != usable.warm_up["transactions"]


def test_a_record_is_plain_json(usable: Trial) -> None:
    record = usable.record()
    again = json.loads(json.dumps(record, allow_nan=False))
    assert again == record
    assert again["record_version"] == RECORD_VERSION
    assert "progress" not in again
    assert "texts" not in again


def test_a_prewarmed_cache_is_read_before_the_run(build: Build) -> None:
    if not cache.can_prewarm(build):
        pytest.skip("no pg_prewarm in this build")
    fields = {"script": "select-only", "duration_s": 0, "transactions": 300}
    cloned = measure(request(build, fields=fields))
    prewarmed = measure(request(build, fields={**fields, "cache": "prewarmed"}))
    assert (cloned.status, prewarmed.status) == ("usable", "usable")
    assert cloned.counters["database"]["blks_read"] > 200
    assert prewarmed.counters["database"]["blks_read"] < 100


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no call for it on this system")
def test_a_cold_cache(build: Build) -> None:
    steps: list[str] = []
    fields = {"cache": "cold", "duration_s": 0, "transactions": 5}
    trial = measure(request(build, fields=fields), on_step=steps.append)
    assert trial.status == "usable"
    assert steps == [*STEPS, "stop"]


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="no call for it on this system")
@pytest.mark.slow
def test_an_uncached_database_is_read_from_the_device(build: Build) -> None:
    def measured(cache_mode: str, warm_up_s: int) -> Trial:
        fields = {"script": "select-only", "scale": 5, "duration_s": 2, "clients": 2}
        fields |= {"cache": cache_mode, "warm_up_s": warm_up_s}
        return measure(request(build, fields=fields, settings={"shared_buffers": "16MB"}))

    # Warmed up, so that the clone is in the page cache whatever the file system.
    cloned, uncached = measured("cloned", 1), measured("uncached", 1)
    if not uncached.machine["disk_read_bytes"]:
        pytest.skip("no block device, or none that is counted")
    assert (cloned.status, uncached.status) == ("usable", "usable")
    # Another process may read a little; what the server asked for decides.
    asked_bytes = uncached.counters["database"]["blks_read"] * 8192
    assert uncached.machine["disk_read_bytes"] > 0.6 * asked_bytes > 10 * 1024**2
    asked_bytes = cloned.counters["database"]["blks_read"] * 8192
    assert cloned.machine["disk_read_bytes"] < 0.2 * asked_bytes


@pytest.mark.slow
def test_sessions_that_wait_for_one_row_are_seen(build: Build) -> None:
    trial = measure(request(build, fields={"clients": 8, "duration_s": 2}))
    sampled = trial.waits
    assert trial.status == "usable"
    assert (sampled["interval_s"], sampled["reason"]) == (1.0, "")
    assert 1 <= sampled["looks"] <= 3
    assert any(event.startswith("Lock") and seen for event, seen in sampled["events"].items())
    assert sum(sampled["events"].values()) <= 8 * sampled["looks"]
    assert trial.machine["disk_written_bytes"] is None or trial.machine["disk_written_bytes"] > 0


@pytest.mark.slow
def test_sampling_is_not_counted_with_what_is_measured(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waits, "INTERVAL_S", 0.005)
    trial = measure(request(build))
    assert trial.waits["looks"] > 60
    database = trial.counters["database"]
    others = database["xact_commit"] - trial.result["transactions"]
    assert others < 50  # the two snapshots


def test_sql_and_script_of_a_cell(build: Build, tmp_path: Path) -> None:
    script = tmp_path / "mine.sql"
    script.write_text("UPDATE pgbench_branches SET bbalance = bbalance + 1;\n")
    asked = request(
        build,
        fields={"script": str(script), "duration_s": 0, "transactions": 50},
        sql=("CREATE INDEX slow ON pgbench_branches (bbalance)",),
    )
    script.write_text("SELECT 1/0;\n")  # too late: the request carries what was settled
    trial = measure(asked)
    assert trial.status == "usable"
    branches = trial.counters["tables"]["pgbench_branches"]
    assert branches["n_tup_upd"] == 50
    assert branches["n_tup_hot_upd"] == 0
    assert trial.asked["workload"]["script_texts"][str(script)].startswith("UPDATE")


# What goes wrong


def test_a_server_that_does_not_start(build: Build, instances: Callable[[], set[Path]]) -> None:
    trial = measure(request(build, settings={"wal_level": "minimal"}))
    assert trial.status == "failed"
    assert trial.error.startswith("ServerError: PostgreSQL")
    assert "FATAL" in trial.error
    assert "max_wal_senders" in trial.error
    assert set(trial.steps_s) == {"template", "clone and start"}
    assert trial.asked["settings"] == {"wal_level": "minimal"}
    assert trial.result == {}
    json.dumps(trial.record(), allow_nan=False)


def test_sql_that_fails(build: Build, instances: Callable[[], set[Path]]) -> None:
    trial = measure(request(build, sql=("SELECT no_column",)))
    assert trial.status == "failed"
    assert trial.error.startswith("WorkloadError: the SQL to run after loading failed")
    assert "no_column" in trial.error


def test_statements_that_fail(
    build: Build, tmp_path: Path, instances: Callable[[], set[Path]]
) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("SELECT 1/0;\n")
    trial = measure(request(build, fields={"script": str(script), "warm_up_s": 1}))
    assert trial.status == "rejected"
    assert names(trial) >= {"exit code", "aborted clients", "server log", "warm-up"}
    assert trial.result["comparable_tps"] is None
    assert "division by zero" in trial.texts["run.stderr.txt"]


@pytest.mark.slow
def test_a_run_beyond_its_time(
    build: Build, tmp_path: Path, instances: Callable[[], set[Path]]
) -> None:
    script = tmp_path / "sleep.sql"
    script.write_text("SELECT pg_sleep(60);\n")
    trial = measure(request(build, fields={"script": str(script), "time_limit_s": 1}))
    assert trial.status == "rejected"
    assert names(trial) >= {"time limit", "report"}


def victims(instances: Callable[[], set[Path]]) -> tuple[int, int]:
    """Give the postmaster's process id and that of a backend of pgbench's."""
    (place,) = instances()
    postmaster = int((place / "data" / "postmaster.pid").read_text().split()[0])
    with psycopg.connect(
        host=f"{tempfile.gettempdir()}/benchkit-{place.name}", port=5432, user="postgres"
    ) as connection:
        row = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' LIMIT 1"
        ).fetchone()
    assert row is not None
    return postmaster, int(row[0])


@pytest.mark.slow
@pytest.mark.parametrize("which", ["postmaster", "backend"])
def test_a_server_killed_in_mid_run_is_no_result(
    build: Build, instances: Callable[[], set[Path]], which: str
) -> None:
    def kill(second: Progress) -> None:
        if second.time_s is not None and second.time_s < 1.5:
            postmaster, backend = victims(instances)
            os.kill(postmaster if which == "postmaster" else backend, signal.SIGKILL)

    trial = measure(request(build, fields={"duration_s": 4}), on_progress=kill)
    assert trial.status == "rejected"
    assert names(trial) >= {"server", "exit code", "aborted clients"}
    assert trial.counters["reasons"]["*"].startswith("the counters could not be read")
    assert trial.texts["server.log"]


@pytest.mark.parametrize("step", ["template", "clone and start", "run", "counters after", "stop"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_whatever_a_watcher_raises_nothing_is_left(
    build: Build, instances: Callable[[], set[Path]], step: str, error: type[BaseException]
) -> None:
    def interrupt(name: str) -> None:
        if name == step:
            raise error

    asked = request(build, fields={"duration_s": 0, "transactions": 1})
    with pytest.raises(error):
        measure(asked, on_step=interrupt)


@pytest.mark.slow
def test_an_interrupt_in_mid_run_leaves_nothing(
    build: Build, instances: Callable[[], set[Path]]
) -> None:
    def interrupt(second: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(request(build, fields={"duration_s": 20}), on_progress=interrupt)


# The machine


def test_the_machine_is_locked_with_a_purpose(build: Build) -> None:
    lock, seen = Path("/tmp/benchkit-machine.lock"), []

    def look(step: str) -> None:
        seen.append(lock.read_text())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(request(build), purpose="my purpose", on_step=look)
    assert seen == [f"process {os.getpid()}: my purpose"]


def test_the_host_is_described_once_the_machine_is_ours(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks: list[bool] = []

    def boot_id() -> str:
        locks.append(f"process {os.getpid()}" in Path("/tmp/benchkit-machine.lock").read_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(host, "boot_id", boot_id)
    with pytest.raises(KeyboardInterrupt):
        measure(request(build))
    assert locks == [True]
