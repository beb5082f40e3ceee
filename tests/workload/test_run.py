"""Real runs of pgbench on a real server: their records and their ends."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchkit.postgres import workplace
from benchkit.postgres.builds import Build
from benchkit.postgres.server import Server
from benchkit.workload import run as runs
from benchkit.workload.pgbench import Workload
from benchkit.workload.progress import Progress
from benchkit.workload.run import Run, run_pgbench

pytestmark = pytest.mark.server

SCALE_1 = Workload(scale=1, duration_s=1)


@pytest.fixture
def place(server: Server) -> Iterator[Path]:
    """Give a fresh directory inside the server's instance."""
    path = server.instance.make_directory("run")
    yield path
    shutil.rmtree(path)


@pytest.fixture
def pgbench(build: Build, server: Server, place: Path, tmp_path: Path) -> Any:
    """Give a function that runs a script of one's own."""

    def run(text: str, *, name: str = "mine.sql", on_progress: Any = None, **fields: Any) -> Run:
        script = tmp_path / name
        script.write_text(text)
        workload = Workload(**{"script": str(script), "duration_s": 1, **fields})
        settled = workload.settled(build, 2)
        return run_pgbench(
            settled, build, host=server.host, directory=place, on_progress=on_progress
        )

    return run


def test_a_run_says_what_it_did_and_used(pgbench: Any, place: Path) -> None:
    seconds: list[Progress] = []
    before = time.time()
    run = pgbench("SELECT 1;\n", clients=2, duration_s=2, on_progress=seconds.append)
    assert (run.exit_code, run.timed_out, run.report_error) == (0, False, "")
    assert run.report.clients == 2
    assert run.report.duration_s == 2
    assert run.report.tps > 10
    assert run.report.transactions > 10
    assert before <= run.started_at <= time.time()
    assert 2 <= run.wall_s < 4
    assert 0 < run.cpu_s < 2 * run.wall_s
    assert [second.time_s for second in run.progress] == pytest.approx([1, 2], abs=0.2)
    assert seconds == run.progress
    assert run.errors.messages == ()
    assert json.loads(json.dumps(run.report.to_dict(), allow_nan=False))["tps"] == run.report.tps
    assert sorted(path.name for path in place.iterdir()) == [
        "mine.sql",
        "stderr.txt",
        "stdout.txt",
    ]
    assert (place / "stdout.txt").read_text() == run.stdout
    assert workplace.processes_inside(place) == []


def test_a_path_with_blanks_and_an_at_sign_works(pgbench: Any) -> None:
    run = pgbench("SELECT 1;\n", name="my one @home.sql", duration_s=0, transactions=3)
    assert run.exit_code == 0
    assert run.report.transactions == 3
    assert "-t" in run.command


def test_a_mix_runs_by_its_weights(build: Build, server: Server, place: Path) -> None:
    mine, sleepless = "dir/mine.sql", 'it\'s @ "home".sql'
    workload = Workload(
        script={"select-only": 3, mine: 1, sleepless: 0},
        script_texts={mine: "SELECT 1;\n", sleepless: "SELECT 2;\n"},
        transactions=2000,
        seed=1,
    )
    with server.connect() as connection:
        connection.execute("CREATE TABLE pgbench_accounts (aid int, abalance int)")
        connection.execute("CREATE TABLE pgbench_branches (bid int)")
        connection.execute("INSERT INTO pgbench_branches VALUES (1)")
        try:
            run = run_pgbench(workload.settled(build, 2), build, host=server.host, directory=place)
        finally:
            connection.execute("DROP TABLE pgbench_accounts, pgbench_branches")
    assert run.exit_code == 0, run.evidence
    assert run.report is not None
    assert run.report.transactions == 2000
    names = [script.name.split("/")[-1] for script in run.report.scripts]
    assert names == ["<builtin: select only>", "mine.sql", "script-1.sql"]
    assert [script.weight for script in run.report.scripts] == [3, 1, 0]
    # Binomial, n = 2000, p = 1/4: a standard deviation of 1 %.
    shares = [script.share_pct for script in run.report.scripts]
    assert shares == pytest.approx([75, 25, 0], abs=5)


def test_the_watchdog_ends_what_does_not_end(pgbench: Any, server: Server, place: Path) -> None:
    run = pgbench("SELECT pg_sleep(60);\n", time_limit_s=0.5)
    assert run.timed_out
    assert run.exit_code == -9
    assert run.wall_s < 5
    assert run.report is None
    assert "no report" in run.report_error
    assert workplace.processes_inside(place) == []
    with server.connect() as connection:
        # The backend sleeps on, since nothing tells it that its client is dead.
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()"
        )


def test_clients_that_die_of_an_error_are_seen(pgbench: Any) -> None:
    run = pgbench("SELECT 1/0;\n", clients=2)
    assert run.exit_code == 2
    assert run.errors.aborted_clients == (0, 1)
    assert run.report is None or run.report.tps is None
    assert any("division by zero" in message for message in run.errors.messages)


def test_no_connection_is_no_report(build: Build, place: Path) -> None:
    workload = Workload(script="select-only", duration_s=1, threads=1)
    run = run_pgbench(workload, build, host=str(place), directory=place)
    assert run.exit_code == 1
    assert run.report is None
    assert "connection to server" in run.stderr


def test_a_seed_in_the_environment_does_no_harm(
    pgbench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGBENCH_RANDOM_SEED", "abc")
    monkeypatch.setenv("PGOPTIONS", "-c no_such_setting=1")
    assert pgbench("SELECT 1;\n", duration_s=0, transactions=1).exit_code == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_interrupt_leaves_no_pgbench(
    pgbench: Any, place: Path, error: type[BaseException]
) -> None:
    def interrupt(second: Progress) -> None:
        raise error

    with pytest.raises(error):
        pgbench("SELECT 1;\n", duration_s=30, on_progress=interrupt)
    assert workplace.processes_inside(place) == []


def test_where_the_kernel_cannot_wake_us(pgbench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    run = pgbench("SELECT 1;\n", duration_s=0, transactions=1)
    assert run.exit_code == 0
    assert run.cpu_s > 0


def test_progress_that_is_cut_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "stderr.txt"
    line = "progress: {}.0 s, 5.0 tps, lat 1.000 ms stddev 0.100\n"
    seen: list[Progress] = []
    tail = runs._Tail(path, seen.append)
    path.write_text(line.format(1) + line.format(2)[:20])
    tail()
    tail()
    assert [second.time_s for second in seen] == [1.0]
    path.write_text(line.format(1) + line.format(2))
    tail()
    assert [second.time_s for second in seen] == [1.0, 2.0]
