"""In what reports differ, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.analysis.comparable import Difference, differences, may_compare, one_machine
from benchkit.experiment.ledger import Record
from tests.analysis.machines import OTHER, machine


def pair(other: Record | None = None) -> dict[str, Record]:
    return {"A": machine(), "B": other or machine(host=OTHER)}


def found(records: dict[str, Record], weight: str) -> dict[str, list[str]]:
    return {d.what: [*d.values.values()] for d in differences(records) if d.weight == weight}


def test_two_systems_on_the_same_hardware_may_be_compared() -> None:
    records = pair()
    assert found(records, "the question") == {
        "operating system": ["Debian GNU/Linux 12", "Ubuntu 24.04"],
        "host name": ["one", "two"],
    }
    judged = may_compare(differences(records))
    assert judged.kind == "good"
    assert "only what is asked about differs: operating system, host name" in judged.text
    assert one_machine(records) == ""


def test_levels_inside_a_report_are_no_difference() -> None:
    assert differences({"A": machine()}) == []
    assert differences({"A": machine(), "B": machine()}) == []
    assert may_compare([]).text == "These reports may be compared: nothing differs."


@pytest.mark.parametrize(
    ("host", "what", "values"),
    [
        ({"cpu_model": "Xeon"}, "processor", ["Opteron", "Xeon"]),
        ({"usable_cores": 2}, "usable cores", ["1", "2"]),
        ({"hypervisor": False}, "virtual machine", ["yes", "no"]),
        ({"memory_bytes": 2_200_000_000}, "memory", ["1.86 GB", "2.05 GB"]),
        ({"memory_limit_bytes": 10**9}, "memory", ["1.86 GB", "954 MB"]),
        ({"memory_bytes": None}, "memory", ["1.86 GB", "unknown"]),
        ({"filesystem_type": "zfs"}, "file system", ["ext4", "zfs"]),
        ({"filesystem_device": "/dev/nvme0n1"}, "kind of device", ["/dev/vda1", "/dev/nvme0n1"]),
    ],
)
def test_other_hardware_is_a_warning(host: dict[str, Any], what: str, values: list[str]) -> None:
    records = pair(machine(host=OTHER | host))
    assert found(records, "hardware") == {what: values}
    judged = may_compare(differences(records))
    assert judged.kind == "warning"
    assert what in judged.text


def test_a_device_of_unknown_kind_is_no_difference() -> None:
    assert not found(pair(machine(host=OTHER | {"filesystem_device": "overlay"})), "hardware")


def change_build(asked: Any) -> None:
    asked["build"] = asked["build"] | {
        "configure": ["--prefix=/usr", "--bindir=/usr/bin", "--with-llvm", "PYTHON=/usr/bin/py"],
        "cflags": "-O3 -ffile-prefix-map=/other=.",
        "version": "17.2",
    }


def test_what_must_be_alike() -> None:
    other = machine(host=OTHER | {"cpu_model": "Xeon"})
    for cell in other.specification["cells"]:
        change_build(cell["asked"])
        cell["asked"]["workload"].update(clients=8, warm_up_s=4)
        cell["asked"]["checksums"] = True
    for entry in other.entries:
        entry["effective"] |= {"fsync": "off", "TimeZone": "CET", "ssl_cert_file": "/b"}
    records = pair(other)
    assert found(records, "must be alike") == {
        "PostgreSQL version": ["18.6", "17.2"],
        "checksums": ["no", "yes"],
        "configure flags": ["--with-icu", "--with-llvm"],
        "CFLAGS": ["-O2", "-O3"],
        "setting fsync": ["default", "off"],
        "workload clients": ["4", "8"],
        "workload warm_up_s": ["unknown", "4"],
    }
    judged = may_compare(differences(records))
    assert judged.kind == "bad"
    for words in ("cannot be compared", "setting fsync", "hardware differs as well: processor"):
        assert words in judged.text
    weights = [difference.weight for difference in differences(records)]
    order = ["must be alike", "hardware", "the question"]
    assert weights == sorted(weights, key=order.index)


def test_levels_that_only_one_report_has_are_shown() -> None:
    other = machine(host=OTHER)
    other.specification["cells"][:] = [
        cell for cell in other.specification["cells"] if cell["levels"]["wal_buffers"] == "1MB"
    ]
    other.entries[:] = [e for e in other.entries if e["levels"]["wal_buffers"] == "1MB"]
    alike = found(pair(other), "must be alike")
    assert alike == {"setting wal_buffers": ["512kB, 1MB", "1MB"]}


def test_a_setting_spelled_another_way_is_the_same_in_effect() -> None:
    other = machine(host=OTHER)
    for cell in other.specification["cells"]:
        label = cell["levels"]["wal_buffers"]
        cell["asked"]["settings"] = {"wal_buffers": label.replace("1MB", "1024kB")}
    assert not found(pair(other), "must be alike")
    other.entries.clear()
    assert "setting wal_buffers" in found(pair(other), "must be alike")


def test_a_script_is_told_by_its_text_not_its_path() -> None:
    def with_script(path: str, text: str, host: dict[str, Any]) -> Record:
        made = machine(host=host)
        for cell in made.specification["cells"]:
            cell["asked"]["workload"] |= {"script": {path: 2}, "script_texts": {path: text}}
        return made

    one = with_script("/a/mine.sql", "SELECT 1", {})
    same, other = (with_script("/b/mine.sql", text, OTHER) for text in ("SELECT 1", "SELECT 2"))
    assert not found({"A": one, "B": same}, "must be alike")
    (texts,) = found({"A": one, "B": other}, "must be alike").values()
    assert all(text.startswith("mine.sql@2 (text ") for text in texts)
    assert texts[0] != texts[1]


def test_reports_of_one_machine_are_not_taken_for_two() -> None:
    same_boot = pair(machine(host={"hostname": "renamed"} | {"boot_id": "boot-1"}))
    text = "Both reports come from one machine: A and B (in one run of its kernel)."
    assert one_machine(same_boot) == text
    rebooted = pair(machine(host={"boot_id": "boot-9"}))
    assert "same host name and processor" in one_machine(rebooted)
    nameless = pair(machine(host={"boot_id": None, "hostname": None}))
    nameless["A"].specification["host"]["hostname"] = None
    assert one_machine(nameless) == ""


def test_a_difference_names_every_report() -> None:
    records = pair() | {"C": machine(host=OTHER | {"hostname": "three"})}
    (difference,) = [d for d in differences(records) if d.what == "host name"]
    assert difference == Difference(
        what="host name", values={"A": "one", "B": "two", "C": "three"}, weight="the question"
    )
