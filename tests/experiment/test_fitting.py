"""Requests fitted to builds of several versions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchkit.experiment.run import Experiment
from benchkit.postgres.builds import Build
from benchkit.workload.pgbench import Workload
from tests.postgres.conftest import one_of_each_major

WORKLOAD = Workload(scale=1, duration_s=1)


@pytest.fixture
def pair() -> list[Build]:
    """The newest and the oldest build with a pgbench of its own."""
    found = [build for build in one_of_each_major() if build.pgbench]
    if len(found) < 2:
        pytest.skip("needs two major versions")
    return [found[0], found[-1]]


def experiment(builds: list[Build], **changes: Any) -> Experiment:
    return Experiment("fitting", factors={"build": builds}, workload=WORKLOAD, **changes)


def test_settings_are_made_alike_but_for_those_that_are_asked_for(pair: list[Build]) -> None:
    made = experiment(pair, same_settings=True, settings={"effective_io_concurrency": 2})
    asked = [dict(cell.request.settings) for cell in made.cells]
    assert all(settings["effective_io_concurrency"] == 2 for settings in asked)
    names = [finding.name for finding in made.check()]
    assert "defaults differ between versions" not in names
    assert names.count("defaults made alike") == 1
    left = [finding.name for finding in experiment(pair).check()]
    assert "defaults differ between versions" in left


def test_one_client_or_each_its_own(pair: list[Build]) -> None:
    common = {cell.request.client.version.text for cell in experiment(pair).cells}
    assert len(common) == 1
    own = experiment(pair, client="own")
    assert all(cell.request.client == cell.request.build for cell in own.cells)


def test_a_build_without_a_client_is_driven_by_the_newest_and_that_is_said(build: Build) -> None:
    bare = replace(build, pgbench=None, fingerprint="bare")
    made = experiment([bare], client="own")
    assert made.cells[0].request.client.pgbench is not None
    said = [finding for finding in made.check() if finding.name == "fitted to the build"]
    assert "has no pgbench of its own: pgbench" in said[0].evidence


def test_values_are_written_as_the_build_accepts_them(build: Build) -> None:
    made = Experiment(
        "fitting",
        factors={"shared_buffers": ["64mb", "0.125 GB"]},
        workload=WORKLOAD,
        build=build,
        settings={"checkpoint_timeout": "5 minutes"},
    )
    assert made.factors == {"shared_buffers": ["64mb", "0.125 GB"]}
    settings = [dict(cell.request.settings) for cell in made.cells[:2]]
    assert [found["shared_buffers"] for found in settings] == ["64MB", "128MB"]
    assert settings[0]["checkpoint_timeout"] == "5min"
