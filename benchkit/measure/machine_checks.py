"""What the machine may mislead by, read off its description."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from benchkit.measure.finding import Finding
from benchkit.units import show_bytes

Machine = Mapping[str, Any]

# File systems that are not a local disk's: what they cost is a network's, a host's or nothing.
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse", "sshfs", "ceph", "glusterfs", "virtiofs")
_SLOW_CLOCKS = ("acpi_pm", "hpet", "jiffies", "refined-jiffies")
_FREE_BYTES = 5 * 1024**3


def machine_findings(machine: Machine) -> list[Finding]:
    """List what a machine may mislead by.

    Parameters
    ----------
    machine
        As `host.fingerprint` describes it; what it does not know is not remarked on.
    """
    return [finding for check in _CHECKS for finding in check(machine)]


def others(running: Iterable[str]) -> list[Finding]:
    """Give a finding for each PostgreSQL server at work that is not benchkit's."""
    return [
        Finding(
            severity="warning",
            name="another PostgreSQL server",
            evidence=text,
            fix="stop it while measuring",
        )
        for text in running
    ]


def _memory(machine: Machine) -> Iterator[Finding]:
    if machine.get("swap_used_bytes"):
        yield Finding(
            severity="warning",
            name="the machine swaps",
            evidence=f"{machine['swap_used_bytes'] / 1024**2:.0f} MB of swap in use",
            fix="end what takes the memory",
            reference="PostgreSQL manual, Linux memory overcommit",
        )
    limit = machine.get("memory_limit_bytes")
    if limit and limit < (machine.get("memory_bytes") or 0):
        yield Finding(
            severity="warning",
            name="a container's memory limit",
            evidence=f"{show_bytes(limit)} of {show_bytes(machine['memory_bytes'])}: the page "
            "cache counts against it",
            fix="plan scale and shared_buffers by the limit",
            reference="Linux documentation, cgroup v2, memory controller",
        )
    if machine.get("transparent_huge_pages") == "always":
        yield Finding(
            severity="info",
            name="transparent huge pages",
            evidence="always: the kernel joins pages behind the server's back, at times of its own",
            fix="madvise or never; the same in all that is compared",
            reference="Linux documentation, Transparent Hugepage Support",
        )


def _file_system(machine: Machine) -> Iterator[Finding]:
    kind = machine.get("filesystem_type") or ""
    if kind == "tmpfs":
        yield Finding(
            severity="bad",
            name="data directory in memory",
            evidence="the file system is tmpfs: no disk is measured, and a sync costs nothing",
            fix="set BENCHKIT_HOME to a directory on a disk",
        )
    if kind in _REMOTE or kind.startswith("fuse."):
        yield Finding(
            severity="warning",
            name="data directory on no local disk",
            evidence=f"the file system is {kind}: what a sync costs is decided elsewhere",
            fix="set BENCHKIT_HOME to a directory on a local disk",
            reference="PostgreSQL manual, creating a database cluster, file systems",
        )
    free = machine.get("disk_free_bytes")
    if free is not None and free < _FREE_BYTES:
        yield Finding(
            severity="warning",
            name="the disk is nearly full",
            evidence=f"{show_bytes(free)} free: WAL may not fit, and full disks are slow",
            fix="free some room, or set BENCHKIT_HOME",
        )


def _processor(machine: Machine) -> Iterator[Finding]:
    governor = machine.get("scaling_governor")
    if governor and governor != "performance":
        yield Finding(
            severity="warning",
            name="CPU frequency varies",
            evidence=f"scaling governor {governor}",
            fix="the governor 'performance' while measuring",
            reference="Linux documentation, CPU performance scaling",
        )
    if machine.get("turbo"):
        yield Finding(
            severity="info",
            name="turbo is on",
            evidence="the frequency depends on temperature and on what the other cores do",
            fix="off in the firmware or by the kernel, for absolute numbers",
            reference="Linux documentation, CPU performance scaling",
        )
    if (machine.get("numa_nodes") or 1) > 1:
        yield Finding(
            severity="info",
            name="several NUMA nodes",
            evidence=f"{machine['numa_nodes']}: where memory lies differs from start to start",
            fix="more rounds; or bind server and client to nodes",
            reference="Linux documentation, NUMA memory policy",
        )
    if machine.get("clock_source") in _SLOW_CLOCKS:
        yield Finding(
            severity="warning",
            name="a slow clock",
            evidence=f"clock source {machine['clock_source']}: each reading costs microseconds, "
            "and pgbench reads it for every transaction",
            fix="tsc or kvm-clock, if the machine has it; pg_test_timing shows the cost",
            reference="PostgreSQL manual, pg_test_timing",
        )


def _cores(machine: Machine) -> Iterator[Finding]:
    cores = machine.get("usable_cores")
    if cores and cores <= 2:
        yield Finding(
            severity="info",
            name="client and server share the cores",
            evidence=f"{cores} usable cores for pgbench, the server and the system",
            fix="read ratios, not absolute numbers",
            reference="PostgreSQL manual, pgbench, Good Practices",
        )
    quota = machine.get("cpu_quota_cores")
    if quota:
        yield Finding(
            severity="warning",
            name="a container's CPU quota",
            evidence=f"{quota:g} cores: when they are used up, everything stands still until the "
            "next period of 100 ms",
            fix="no quota while measuring, or pinned cores",
            reference="Linux documentation, CFS bandwidth control",
        )


def _virtual(machine: Machine) -> Iterator[Finding]:
    if machine.get("hypervisor"):
        yield Finding(
            severity="info",
            name="virtual machine",
            evidence="neighbours on the same hardware take their share unseen",
            fix="more rounds; believe the interval, not a single run",
            reference="Laaber, Scheuner, Leitner: Software microbenchmarking in the cloud, 2019",
        )


_CHECKS: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    _memory,
    _file_system,
    _processor,
    _cores,
    _virtual,
)
