"""The machine under a trial: what it is, what limits it, and who else uses it.

Everything is read from /proc and /sys (Linux) or through psutil. What cannot be read is None: a
laptop with macOS or a locked-down container still gets a fingerprint, only a shorter one. Readers
take a `root`, so that they can be shown another machine's tree.

Formats: ``Documentation/admin-guide/cgroup-v1``, ``cgroup-v2.rst`` and
``Documentation/filesystems/proc.rst`` of the Linux kernel.
"""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import psutil

Value = TypeVar("Value")
ROOT = Path("/")

# A limit of "no limit": version 1 shows the largest page-aligned 64-bit number instead of "max".
_UNLIMITED_BYTES = 1 << 60
# Mount options that name a person's account or folders and say nothing about speed.
_PRIVATE_OPTIONS = ("lowerdir", "upperdir", "workdir", "user", "pass", "cred", "addr", "domain")
_CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
_FILESYSTEM = tuple(f"filesystem_{part}" for part in ("mount", "type", "device", "options"))
_POSTMASTERS = {"postgres", "postmaster", "edb-postgres"}


def fingerprint(data_dir: Path, *, root: Path = ROOT) -> dict[str, object]:
    """Describe this machine, as plain JSON that goes into every record.

    Parameters
    ----------
    data_dir
        The data directory, or where it is going to be: its file system is described.
    root
        Where /proc and /sys are found.

    Returns
    -------
    dict
        Flat. Sizes in bytes. ``usable_cores`` is what a load generator may count on, see
        :func:`usable_cores`; ``turbo`` and ``hypervisor`` are booleans; ``container`` names the
        sign that was found, and None there means no sign. Any other None: cannot be read here.
    """
    return {
        "hostname": platform.node() or None,
        "machine": platform.machine() or None,
        **_processor(root),
        **_memory(root),
        **_system(root),
        **_filesystem(data_dir, root),
    }


def boot_id(root: Path = ROOT) -> str | None:
    """Read what tells one start of the kernel from the next: another id means a reboot."""
    return _text(root, "proc/sys/kernel/random/boot_id")


def _processor(root: Path) -> dict[str, object]:
    return {
        "cpu_model": _cpu_line(root, "model name") or platform.processor() or None,
        "physical_cores": _attempt(lambda: psutil.cpu_count(logical=False)),
        "logical_cores": os.cpu_count(),
        "usable_cores": usable_cores(root),
        "cpu_quota_cores": cpu_quota_cores(root),
        "numa_nodes": len(_glob(root, "sys/devices/system/node/node[0-9]*")) or None,
        "scaling_governor": _governor(root),
        "turbo": _turbo(root),
    }


def _memory(root: Path) -> dict[str, object]:
    memory, swap = _attempt(psutil.virtual_memory), _attempt(psutil.swap_memory)
    return {
        "memory_bytes": memory and memory.total,
        "memory_limit_bytes": memory_limit_bytes(root),
        "swap_total_bytes": swap and swap.total,
        "swap_used_bytes": swap and swap.used,
        "transparent_huge_pages": _chosen(root, "sys/kernel/mm/transparent_hugepage/enabled"),
    }


def _system(root: Path) -> dict[str, object]:
    flags = _cpu_line(root, "flags")  # only x86 says whether there is a hypervisor
    return {
        "kernel": f"{platform.system()} {platform.release()}",
        **dict(zip(("os_name", "os_version"), _operating_system(), strict=True)),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "python_version": platform.python_version(),
        "clock_source": _text(root, _CLOCK),
        "hypervisor": None if flags is None else "hypervisor" in flags.split(),
        "product_name": _text(root, "sys/class/dmi/id/product_name"),
        "container": _container(root),
        "boot_id": boot_id(root),
    }


def _filesystem(data_dir: Path, root: Path) -> dict[str, object]:
    folder = data_dir.absolute()
    while not _attempt(folder.exists) and folder != folder.parent:
        folder = folder.parent
    folder = folder.resolve()
    free = _attempt(lambda: psutil.disk_usage(str(folder)).free)
    mounts = mounted(root) or _partitions()
    # The last of equal mount points lies on top of the others, and max() keeps the first it sees.
    above = [mount for mount in reversed(mounts) if folder.is_relative_to(mount[_FILESYSTEM[0]])]
    nearest = max(above, key=lambda mount: len(mount[_FILESYSTEM[0]]), default={})
    return {**dict.fromkeys(_FILESYSTEM), **nearest, "disk_free_bytes": free}


# Cores and memory, and what a container may use of them


def usable_cores(root: Path = ROOT) -> int:
    """Count the cores this process can really use.

    The least of the logical cores, the affinity mask and the cgroup's CPU quota, rounded down and
    at least 1. Inside a container the first two often count the cores of the host, and a load
    generator sized by them is throttled.
    """
    counts = [float(os.cpu_count() or 1)]
    if hasattr(os, "sched_getaffinity"):
        counts.append(len(os.sched_getaffinity(0)))
    quota = cpu_quota_cores(root)
    if quota is not None:
        counts.append(quota)
    return max(1, math.floor(min(counts)))


def cpu_quota_cores(root: Path = ROOT) -> float | None:
    """Read the CPU quota of this process's cgroup, in cores; None without one.

    The least of the group and its ancestors counts: ``cpu.max`` (version 2, "quota period"), or
    ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us`` (version 1; -1 is no quota).
    """
    quotas = []
    for folder in _cgroups(root, "cpu"):
        words = _text(folder, "cpu.max") or " ".join(
            _text(folder, f"cpu.cfs_{part}_us") or "" for part in ("quota", "period")
        )
        match = re.fullmatch(r"(\d+) (\d+)", words)
        if match is not None:
            quotas.append(int(match[1]) / int(match[2]))
    return min(quotas, default=None)


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Read the memory limit of this process's cgroup, the least of its ancestors; None without."""
    limits = []
    for folder in _cgroups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _text(folder, name) or "max"
            if limit != "max" and int(limit) < _UNLIMITED_BYTES:
                limits.append(int(limit))
    return min(limits, default=None)


def throttling(root: Path = ROOT) -> dict[str, int | None]:
    """Read how often and how long this process's cgroup was held back by its CPU quota.

    Returns
    -------
    dict
        ``nr_throttled``, periods; ``throttled_usec``, microseconds: cumulative, summed over the
        group and its ancestors since any of them may have the quota. None: not counted here.
    """
    totals: dict[str, int | None] = {"nr_throttled": None, "throttled_usec": None}
    for folder in _cgroups(root, "cpu"):
        lines = re.findall(r"(?m)^(\w+) (\d+)$", _text(folder, "cpu.stat") or "")
        stat = {name: int(value) for name, value in lines}
        if "throttled_time" in stat:  # version 1 counts nanoseconds
            stat["throttled_usec"] = stat["throttled_time"] // 1000
        for name in totals.keys() & stat.keys():
            totals[name] = (totals[name] or 0) + stat[name]
    return totals


def _cgroups(root: Path, controller: str) -> Iterator[Path]:
    """Find the folders of this process's groups that may limit it, innermost first.

    In a container the path may be the host's while only the container's own part is mounted:
    ancestors that are not there are passed over, the root of the mount is always tried.
    """
    for line in (_text(root, "proc/self/cgroup") or "").splitlines():
        match = re.fullmatch(r"\d+:([^:]*):/(.*)", line)
        names = match[1].split(",") if match and match[1] else []
        if match is None or (names and controller not in names):
            continue
        # Version 2 (no names) is mounted alone, or beside version 1 as "unified".
        for mount in [match[1], controller] if names else ["unified", ""]:
            group = Path(match[2])
            folders = [root / "sys/fs/cgroup" / mount / part for part in (group, *group.parents)]
            found = [folder for folder in folders if folder.is_dir()]
            yield from found
            if found:
                break


# Processor, clock and kernel


def _cpu_line(root: Path, name: str) -> str | None:
    match = re.search(rf"(?m)^{name}\s*:[ \t]*(.+)$", _text(root, "proc/cpuinfo") or "")
    return match[1].strip() if match else None


def _governor(root: Path) -> str | None:
    files = _glob(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return ", ".join(sorted({_text(file) or "unknown" for file in files})) or None


def _turbo(root: Path) -> bool | None:
    off = _text(root, "sys/devices/system/cpu/intel_pstate/no_turbo")
    on = _text(root, "sys/devices/system/cpu/cpufreq/boost")
    return None if off is None and on is None else off == "0" or on == "1"


def _chosen(root: Path, name: str) -> str | None:
    """Read which of several words the kernel shows in brackets."""
    match = re.search(r"\[(.+?)\]", _text(root, name) or "")
    return match[1] if match else None


def _container(root: Path) -> str | None:
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    groups = _text(root, "proc/self/cgroup") or ""
    match = re.search(r"kubepods|docker|libpod|lxc|containerd", groups)
    return match[0] if match else _text(root, "run/systemd/container")


def _operating_system() -> tuple[str, str | None]:
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return platform.system(), platform.mac_ver()[0] or platform.release()
    return release.get("NAME", "Linux"), release.get("VERSION_ID")


# File systems


def mounted(root: Path = ROOT) -> list[dict[str, str]]:
    r"""List what is mounted, in order; empty where the kernel does not tell.

    From ``/proc/self/mountinfo`` (proc_pid_mountinfo(5)): blanks are written as ``\040``, and
    optional fields end at a lone hyphen. Options of the mount and of the file system are joined.

    Returns
    -------
    list of dict
        ``filesystem_mount`` (mount point), ``filesystem_type``, ``filesystem_device``,
        ``filesystem_options`` (joined by commas, without accounts and folders).
    """
    mounts = []
    for line in (_text(root, "proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        fields, source = left.split(" "), right.split(" ")
        if len(fields) >= 6 and len(source) >= 3:
            options = dict.fromkeys(f"{fields[5]},{source[2]}".split(","))
            mounts.append(_mount(_unescaped(fields[4]), source[0], source[1], list(options)))
    return mounts


def _partitions() -> list[dict[str, str]]:
    found = _attempt(lambda: psutil.disk_partitions(all=True)) or []
    return [
        _mount(part.mountpoint, part.fstype, part.device, part.opts.split(",")) for part in found
    ]


def _mount(point: str, kind: str, device: str, options: list[str]) -> dict[str, str]:
    public = [option for option in options if not option.startswith(_PRIVATE_OPTIONS)]
    values = (point, kind, _unescaped(device), ",".join(public))
    return dict(zip(_FILESYSTEM, values, strict=True))


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


# Who else is here


def other_postgres(exclude_dir: Path) -> list[str]:
    """List the other PostgreSQL servers that run on this machine.

    Parameters
    ----------
    exclude_dir
        Servers whose data directory lies below it are ours.

    Returns
    -------
    list of str
        One description each: process id, executable and data directory, "unknown" where the
        operating system does not tell this user. Never the command line, which may hold secrets.
    """
    ours = exclude_dir.resolve()
    found = []
    for process in psutil.process_iter():
        folder = _data_dir(process)
        if folder is not None and not (folder and Path(folder).is_relative_to(ours)):
            program = _attempt(process.exe) or _attempt(process.name) or "unknown"
            found.append(f"pid {process.pid}: {program}, data directory {folder or 'unknown'}")
    return found


def _data_dir(process: psutil.Process) -> str | None:
    """Tell a postmaster's data directory, "" if it is hidden; None for any other process.

    Every PostgreSQL process works in its data directory; the postmaster is the one whose parent
    is no PostgreSQL process.
    """
    if _attempt(process.name) not in _POSTMASTERS or _attempt(process.status) in (None, "zombie"):
        return None
    parent = _attempt(process.parent)
    if parent is not None and _attempt(parent.name) in _POSTMASTERS:
        return None
    return _attempt(process.cwd) or ""


# Reading


def _attempt(read: Callable[[], Value]) -> Value | None:
    """Read something; None where the operating system refuses or does not know."""
    try:
        return read()
    except (psutil.Error, OSError, RuntimeError, RuntimeWarning, ValueError):
        return None


def _text(folder: Path, name: str = "") -> str | None:
    return _attempt(lambda: (folder / name).read_text(errors="replace").strip()) or None


def _glob(root: Path, pattern: str) -> list[Path]:
    return sorted(_attempt(lambda: list(root.glob(pattern))) or [])
