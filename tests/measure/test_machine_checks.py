"""What the machine misleads by is told; what is not known of it is not remarked on."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.measure.machine_checks import machine_findings

GB = 1024**3


@pytest.mark.parametrize(
    ("name", "severity", "machine"),
    [
        ("the machine swaps", "warning", {"swap_used_bytes": 5 << 20}),
        (
            "a container's memory limit",
            "warning",
            {"memory_bytes": 8 * GB, "memory_limit_bytes": 2 * GB},
        ),
        ("transparent huge pages", "info", {"transparent_huge_pages": "always"}),
        ("data directory in memory", "bad", {"filesystem_type": "tmpfs"}),
        ("data directory on no local disk", "warning", {"filesystem_type": "nfs4"}),
        ("data directory on no local disk", "warning", {"filesystem_type": "fuse.sshfs"}),
        ("the disk is nearly full", "warning", {"disk_free_bytes": GB}),
        ("CPU frequency varies", "warning", {"scaling_governor": "powersave"}),
        ("turbo is on", "info", {"turbo": True}),
        ("several NUMA nodes", "info", {"numa_nodes": 2}),
        ("a slow clock", "warning", {"clock_source": "hpet"}),
        ("client and server share the cores", "info", {"usable_cores": 2}),
        ("a container's CPU quota", "warning", {"cpu_quota_cores": 1.5}),
        ("virtual machine", "info", {"hypervisor": True}),
    ],
)
def test_each_is_told_by_itself(name: str, severity: str, machine: dict[str, Any]) -> None:
    (found,) = machine_findings(machine)
    assert (found.name, found.severity) == (name, severity)
    assert found.evidence
    assert found.fix


def test_a_good_machine_and_an_unknown_one_are_not_remarked_on() -> None:
    good = {
        "swap_used_bytes": 0,
        "memory_bytes": 64 * GB,
        "memory_limit_bytes": 64 * GB,
        "filesystem_type": "ext4",
        "disk_free_bytes": 100 * GB,
        "scaling_governor": "performance",
        "turbo": False,
        "numa_nodes": 1,
        "clock_source": "tsc",
        "usable_cores": 16,
        "cpu_quota_cores": None,
        "hypervisor": False,
        "transparent_huge_pages": "madvise",
    }
    assert machine_findings(good) == []
    assert machine_findings(dict.fromkeys(good)) == []
