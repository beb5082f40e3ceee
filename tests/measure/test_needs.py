"""What an experiment takes, worked out before anything is started."""

from __future__ import annotations

import dataclasses
from typing import Any

from benchkit.measure.needs import check_memory, loaded_for, needs_of
from benchkit.measure.record import TrialRequest
from benchkit.postgres.builds import Build
from benchkit.workload.pgbench import Workload

GB = 1024**3


def request(build: Build, **changes: Any) -> TrialRequest:
    workload = Workload(**({"scale": 1, "duration_s": 10} | changes.pop("fields", {})))
    return TrialRequest(build=build, client=build, workload=workload, **changes)


def test_a_sweep_by_time(build: Build) -> None:
    cells = [request(build, settings={"shared_buffers": size}) for size in ("1GB", "16MB")]
    needs = needs_of(cells, rounds=3)
    assert needs.trials == 6
    assert 60 < needs.duration_s < 70
    assert GB < needs.memory_bytes < 1.1 * GB
    assert 2 * GB < needs.disk_bytes < 3 * GB  # one cluster, one clone and room for WAL
    assert needs.transactions == 0
    assert needs.duration_words.startswith("about 1 min")


def test_shared_buffers_without_a_unit_are_blocks(build: Build) -> None:
    needs = needs_of([request(build, settings={"Shared_Buffers": 131072})], rounds=1)
    assert GB < needs.memory_bytes < 1.1 * GB


def test_a_run_by_transactions_names_the_speed_it_assumes(build: Build) -> None:
    workload = Workload(scale=1, clients=100, transactions=100_000)
    asked = TrialRequest(build=build, client=build, workload=workload)
    needs = needs_of([asked], rounds=2)
    assert needs.transactions == 20_000_000
    assert "20,000,000 transactions: 5 h 33 min at 1,000 transactions/s" in needs.text


def test_memory_is_held_against_the_machine_and_the_containers_limit(build: Build) -> None:
    needs = needs_of([request(build, settings={"shared_buffers": "2GB"})], rounds=1)
    assert check_memory(needs, {"memory_bytes": 8 * GB}) == []
    assert check_memory(needs, {}) == []
    machine = {"memory_bytes": 8 * GB, "memory_limit_bytes": GB}
    (finding,) = check_memory(needs, machine)
    assert finding.severity == "bad"
    assert "the machine has 1 GB" in finding.evidence


def test_loaded_clusters_are_counted_by_build_scale_and_sql(build: Build) -> None:
    other = dataclasses.replace(build, fingerprint="another")
    small = {"scale": 71}  # no other test loads these
    requests = [
        request(build, fields=small),
        request(build, fields=small, settings={"work_mem": "8MB"}),
        request(build, fields=small, sql=("SELECT 1",)),
        request(build, fields={"scale": 72}, sql=("SELECT 1",)),
        request(other, fields=small),
    ]
    assert sorted(workload.scale for workload in loaded_for(requests)) == [71, 71, 71, 72, 72]
