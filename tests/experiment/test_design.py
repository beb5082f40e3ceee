"""Which runs: what a factor may be, what is refused, and the order."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import Faults
from benchkit.experiment.design import (
    RESERVED,
    Cell,
    Levels,
    crossings,
    digest,
    label_of,
    make_cells,
    shuffled_rounds,
)
from benchkit.measure.gates import Limits
from benchkit.measure.trial import TrialRequest
from benchkit.postgres.builds import Build
from benchkit.postgres.settings import catalogue
from benchkit.workload.pgbench import FIELDS, Workload, check_workload

INDEX = "CREATE INDEX extra ON pgbench_accounts (abalance)"


@pytest.fixture
def base(build: Build) -> TrialRequest:
    return TrialRequest(
        build=build, client=build, workload=Workload(scale=3, duration_s=1), settings={"jit": "off"}
    )


def cells_of(
    base: TrialRequest,
    factors: Mapping[str, Levels],
    grids: Sequence[Sequence[str]] | None = None,
    **baseline: str,
) -> list[Cell]:
    faults = Faults()
    cells = make_cells(base, factors, grids, baseline, faults)
    assert [str(fault) for fault in faults.found] == []
    return cells


def faults_of(
    base: TrialRequest,
    factors: Mapping[str, Any],
    grids: Sequence[Sequence[str]] | None = None,
    **baseline: str,
) -> list[str]:
    faults = Faults()
    make_cells(base, factors, grids, baseline, faults)
    return [str(fault) for fault in faults.found]


def levels(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    return [tuple(cell.levels.values()) for cell in cells if not cell.twin]


# What a factor may be


def test_a_field_of_the_workload(base: TrialRequest) -> None:
    cells = cells_of(base, {"clients": [1, 4]})
    assert [cell.request.workload.clients for cell in cells] == [1, 4, 1]
    assert [cell.request.workload.scale for cell in cells] == [3, 3, 3]
    assert levels(cells) == [("1",), ("4",)]


def test_a_setting_and_its_labels(base: TrialRequest) -> None:
    cells = cells_of(base, {"shared_buffers": {"small": "32MB", "large": "1GB"}})
    assert levels(cells) == [("small",), ("large",)]
    assert cells[1].request.settings == {"jit": "off", "shared_buffers": "1GB"}
    assert cells[1].label == "shared_buffers=large"
    assert cells[1].request.sql == ()


def test_a_named_group_of_settings_and_fields(base: TrialRequest) -> None:
    tuned = {"shared_buffers": "1GB", "clients": 8, "protocol": "prepared"}
    cells = cells_of(base, {"configuration": {"default": {}, "tuned": tuned, "none": None}})
    assert cells[0].request == cells[2].request == base
    request = cells[1].request
    assert request.settings == {"jit": "off", "shared_buffers": "1GB"}
    assert (request.workload.clients, request.workload.protocol) == (8, "prepared")


def test_a_mix_of_scripts(base: TrialRequest) -> None:
    mix = {"select-only": 9, "tpcb-like": 1}
    cells = cells_of(base, {"script": {"reads": "select-only", "mixed": mix, "as it is": None}})
    assert [cell.request.workload.script for cell in cells[:3]] == ["select-only", mix, "tpcb-like"]
    assert cells[1].request.settings == base.settings
    assert levels(cells_of(base, {"script": ["select-only", mix]})) == [
        ("select-only",),
        ("select-only@9, tpcb-like@1",),
    ]
    assert key(cells[1].request) != key(cells[0].request)


def test_a_mix_of_scripts_in_a_named_group(base: TrialRequest) -> None:
    mix = {"select-only": 9, "tpcb-like": 1}
    mixed = {"script": mix, "clients": 4, "shared_buffers": "1GB"}
    factors: dict[str, Levels] = {
        "script": {"as grouped": None, "other": {"simple-update": 1, "select-only": 1}},
        "load": {"plain": {}, "mixed": mixed},
    }
    grouped, workload = (cells_of(base, factors)[n].request for n in (1, 3))
    assert (grouped.workload.script, grouped.workload.clients) == (mix, 4)
    assert grouped.settings["shared_buffers"] == "1GB"
    # A mix is one value: it wins over the group that holds one too.
    assert workload.workload.script == {"simple-update": 1, "select-only": 1}
    assert workload.workload.clients == 4


def test_a_script_beside_the_notebooks(
    base: TrialRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "pyproject.toml").touch()
    for name, text in {"mine.sql": "SELECT 1;\n", "both.sql": "SELECT 2;\n"}.items():
        (tmp_path / "notebooks" / name).write_text(text)
    (tmp_path / "notebooks" / "latin.sql").write_bytes("SELECT 'é';\n".encode("latin-1"))
    (tmp_path / "both.sql").write_text("SELECT 3;\n")
    mixes = ["mine.sql", {"mine.sql": 1, "both.sql": 2, "latin.sql": 1, "none.sql": 1}]
    workloads = {}
    for place in (tmp_path, tmp_path / "notebooks"):
        monkeypatch.chdir(place)
        one, two, _ = (cell.request.workload for cell in cells_of(base, {"script": mixes}))
        workloads[place] = one.settled(base.client, 2)
        known = {} if place.name == "notebooks" else {"mine.sql": "SELECT 1;\n"}
        assert one.script_texts == two.script_texts == known
    here, there = workloads.values()
    assert here == there  # the same experiment, wherever it is started


def test_sql_run_after_loading(base: TrialRequest) -> None:
    cells = cells_of(
        base, {"indexes": {"none": "", "one": INDEX, "two": [INDEX, " ", "ANALYZE"], "-": None}}
    )
    assert [cell.request.sql for cell in cells[:4]] == [(), (INDEX,), (INDEX, "ANALYZE"), ()]
    assert cells[1].request.settings == base.settings


def test_sql_of_two_factors_runs_in_their_order(base: TrialRequest) -> None:
    cells = cells_of(base, {"first": {"a": "SELECT 1"}, "second": {"b": "SELECT 2"}})
    assert cells[0].request.sql == ("SELECT 1", "SELECT 2")


def test_builds_by_version_path_and_themselves(base: TrialRequest, build: Build) -> None:
    asked = {"by version": build.version.text, "by path": str(build.bin_dir), "itself": build}
    cells = cells_of(base, {"build": asked})
    assert {cell.request.build.fingerprint for cell in cells} == {build.fingerprint}
    assert cells_of(base, {"build": [build]})[0].levels == {"build": build.version.text}
    assert cells_of(base, {"build": {"the one": None}})[0].request.build == build


def test_a_setting_with_a_dot(base: TrialRequest) -> None:
    cells = cells_of(base, {"my.option": {"a": "1", "b": "2"}})
    assert cells[1].request.settings["my.option"] == "2"


def test_none_leaves_all_as_it_is(base: TrialRequest) -> None:
    cells = cells_of(base, {"shared_buffers": {"as it is": None, "more": "1GB"}})
    assert cells[0].request.settings == base.settings


@pytest.mark.parametrize("group", ["configuration", "tuning"])
def test_a_single_setting_wins_over_a_group(base: TrialRequest, group: str) -> None:
    factors: dict[str, Levels] = {
        "shared_buffers": {"as grouped": None, "1GB": "1GB"},
        group: {"tuned": {"shared_buffers": "64MB"}},
    }
    found = [cell.request.settings["shared_buffers"] for cell in cells_of(base, factors)]
    assert found == ["64MB", "1GB", "64MB"]


def test_no_factor_is_one_cell_and_its_twin(base: TrialRequest) -> None:
    cells = cells_of(base, {})
    assert [cell.twin for cell in cells] == [False, True]
    assert cells[0].label == "(one cell)"
    assert cells[1].label == "(one cell), twin"


def test_what_is_translated_is_noted(base: TrialRequest) -> None:
    cells = cells_of(base, {"configuration": {"old": {"checkpoint_segments": 192}}})
    assert cells[0].request.settings == {"jit": "off", "max_wal_size": "9216MB"}
    assert len(cells[0].notes) == 1
    assert "checkpoint_segments=192 became max_wal_size=9216MB" in cells[0].notes[0]


# Grids, baseline, twin


def test_everything_is_crossed_without_grids(base: TrialRequest) -> None:
    cells = cells_of(base, {"clients": [1, 2], "shared_buffers": ["32MB", "64MB", "1GB"]})
    assert len(levels(cells)) == 6
    assert len(set(levels(cells))) == 6


def test_grids_hold_the_others_at_their_first_level() -> None:
    factors = {"a": dict.fromkeys("12"), "b": dict.fromkeys("xyz"), "c": dict.fromkeys("pq")}
    found = [tuple(labels.values()) for labels in crossings(factors, [["a", "c"], ["b"]])]
    assert found == [
        ("1", "x", "p"),
        ("1", "x", "q"),
        ("2", "x", "p"),
        ("2", "x", "q"),
        ("1", "y", "p"),
        ("1", "z", "p"),
    ]


def test_the_twin_is_the_baseline_again(base: TrialRequest) -> None:
    factors: dict[str, Levels] = {"clients": [1, 2], "shared_buffers": ["32MB", "64MB"]}
    *cells, twin = cells_of(base, factors, clients="2")
    (original,) = [c for c in cells if c.levels == {"clients": "2", "shared_buffers": "32MB"}]
    assert twin.twin
    assert dataclasses.replace(twin, twin=False) == original
    assert sum(cell.twin for cell in cells) == 0
    assert cells_of(base, factors)[-1].levels == {"clients": "1", "shared_buffers": "32MB"}


# What is refused


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ({"cliens": [1, 2]}, "factors: unknown factor 'cliens'; did you mean 'clients'?"),
        ({"shared_bufers": ["1GB"]}, "factors: unknown factor 'shared_bufers'; did you mean"),
        # As SQL these texts would only fail once the tables are loaded.
        ({"shared_bufers": {"a": "1GB"}}, "factors: unknown factor 'shared_bufers'; did you mean"),
        ({"scripts": {"a": "select-only"}}, "factors: unknown factor 'scripts'; did you mean"),
        ({"updates": ["", INDEX]}, "factors: unknown factor 'updates'"),
        ({"updates": {"a": [INDEX, 5]}}, "factors: unknown factor 'updates'"),
        ({"updates": {"a": 5}}, "factors: unknown factor 'updates'"),
        ({"clients": []}, "factor clients: has no levels"),
        ({"clients": {}}, "factor clients: has no levels"),
        ({"build": "18"}, "factor build: '18': levels are a list of values, or a mapping"),
        ({"clients": 8}, "factor clients: 8: levels are a list of values, or a mapping"),
        ({"clients": [1, "1"]}, "factor clients: two levels are called '1': give a mapping"),
        ({"build": ["no such version"]}, "build: no PostgreSQL no such version on this machine"),
        ({"checkpoints": {"a": INDEX}}, "factor checkpoints: results have a column or an argument"),
        (
            {"one": {"a": {"work_mem": "4MB"}}, "two": {"b": {"Work_Mem": "8MB"}}},
            "factors: one and two both set work_mem",
        ),
    ],
)
def test_what_is_no_factor(base: TrialRequest, factors: dict[str, Any], expected: str) -> None:
    (found,) = faults_of(base, factors)
    assert found.startswith(expected)


def test_what_is_no_mix_is_left_to_the_check_of_the_workload(base: TrialRequest) -> None:
    wrong: dict[str, Any] = {
        "script": {"select-only": 9, "no name": {5: 1}, "group": {"scale": {}}}
    }
    found = Faults()
    for cell in cells_of(base, wrong):
        check_workload(cell.request.workload, base.client, found)
    assert [str(fault) for fault in found.found[:3]] == [
        "script: 9 is neither the name or path of a script nor a mapping script -> weight",
        "script: 5 is not the name or path of a script",
        "script: weight of 'scale': {} is not a whole number",
    ]


def test_two_builds_of_one_version_need_labels(base: TrialRequest, build: Build) -> None:
    patched = dataclasses.replace(build, fingerprint="another")
    (found,) = faults_of(base, {"build": [build, patched]})
    assert f"two levels are called '{build.version.text}'" in found
    assert len(cells_of(base, {"build": {"HEAD": build, "patch": patched}})) == 3


def test_names_in_grids_and_baseline(base: TrialRequest) -> None:
    found = faults_of(base, {"clients": [1, 2]}, [["cliens"]], clients="3", shared_buffers="1GB")
    assert found == [
        "grids: unknown factor 'cliens'; did you mean 'clients'? (accepted: clients)",
        "baseline clients: unknown level '3' (accepted: 1, 2)",
        "baseline: unknown factor 'shared_buffers' (accepted: clients)",
    ]


def test_a_baseline_that_no_grid_holds(base: TrialRequest) -> None:
    factors: dict[str, Levels] = {"clients": [1, 2], "shared_buffers": ["32MB", "64MB"]}
    (found,) = faults_of(
        base, factors, [["clients"], ["shared_buffers"]], clients="2", shared_buffers="64MB"
    )
    assert found.startswith("baseline: no cell has clients=2, shared_buffers=64MB")


def test_faults_found_before_do_not_hide_others(base: TrialRequest) -> None:
    faults = Faults()
    faults.add("rounds", "bad")
    make_cells(base, {"cliens": [1]}, None, {}, faults)
    assert [fault.where for fault in faults.found] == ["rounds", "factors"]


def test_an_unknown_factor_is_not_called_an_unknown_setting_too(base: TrialRequest) -> None:
    cells = make_cells(base, {"cliens": [1]}, None, {}, Faults())
    assert cells[0].request.settings == base.settings


# Keys


def key(request: TrialRequest, round_number: int = 1, **changes: Any) -> str:
    return Cell(**{"levels": {"a": "1"}, "request": request, **changes}).key(round_number)


def test_a_key_tells_trials_apart(base: TrialRequest, build: Build) -> None:
    keys = [
        key(base),
        key(base, 2),
        key(base, twin=True),
        key(base, levels={"a": "2"}),
        key(dataclasses.replace(base, settings={"jit": "on"})),
        key(dataclasses.replace(base, sql=("SELECT 1",))),
        key(dataclasses.replace(base, checksums=True)),
        key(dataclasses.replace(base, limits=Limits(failed_share=0))),
        key(dataclasses.replace(base, workload=Workload(scale=3, duration_s=2))),
        key(dataclasses.replace(base, build=dataclasses.replace(build, fingerprint="another"))),
    ]
    assert len(set(keys)) == len(keys)


def test_a_key_is_the_same_for_the_same(base: TrialRequest) -> None:
    swapped = dataclasses.replace(base, settings={"a": 1, "b": 2})
    again = dataclasses.replace(base, settings={"b": 2, "a": 1})
    assert key(swapped) == key(again)
    assert key(base, notes=("a note",)) == key(base)


def test_a_key_is_the_same_in_another_process() -> None:
    data = {"b": [1, 2.5, None], "a": {"z": "é", "y": True}}
    code = f"from benchkit.experiment.design import digest; print(digest({data!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest(data) == digest(json.loads(json.dumps(data)))
    assert len(digest(data)) == 16


def test_a_script_is_part_of_the_key_by_its_text(
    base: TrialRequest, build: Build, tmp_path: Path
) -> None:
    script = tmp_path / "mine.sql"
    keys = []
    for text in ("SELECT 1;", "SELECT 2;"):
        script.write_text(text)
        workload = Workload(script=str(script), duration_s=1).settled(build, 2)
        keys.append(key(dataclasses.replace(base, workload=workload)))
    assert keys[0] != keys[1]


def test_labels(build: Build) -> None:
    assert [label_of(value) for value in (1, 0.5, True, None, "x", build)] == [
        "1", "0.5", "True", "None", "x", build.version.text,
    ]  # fmt: skip
    assert label_of({"select-only": 9, "tpcb-like": 1}) == "select-only@9, tpcb-like@1"


# The order


def test_every_round_has_every_cell_once(base: TrialRequest) -> None:
    cells = cells_of(base, {"clients": [1, 2, 3, 4]})
    order = shuffled_rounds(cells, 50, seed=1)
    assert len(order) == 50
    assert all(sorted(indexes) == list(range(5)) for indexes in order)


def test_a_seed_gives_the_order_again(base: TrialRequest) -> None:
    cells = cells_of(base, {"clients": [1, 2, 3, 4]})
    assert shuffled_rounds(cells, 5, 7) == shuffled_rounds(cells, 5, 7)
    assert shuffled_rounds(cells, 5, 7) != shuffled_rounds(cells, 5, 8)
    # More rounds begin as fewer do.
    assert shuffled_rounds(cells, 9, 7)[:5] == shuffled_rounds(cells, 5, 7)


def test_no_cell_has_a_favourite_place(base: TrialRequest) -> None:
    cells = cells_of(base, {"clients": [1, 2, 3]})
    order = shuffled_rounds(cells, 4000, seed=3)
    for place in range(4):
        counts = Counter(indexes[place] for indexes in order)
        # Binomial, n = 4000, p = 1/4: a standard deviation of 27.
        assert all(abs(count - 1000) < 5 * 27 for count in counts.values())


def test_the_reserved_names_are_no_settings_and_no_fields(base: TrialRequest) -> None:
    assert not RESERVED & {*FIELDS, *catalogue(base.build)}
