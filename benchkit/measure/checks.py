"""Preflight: what would make the numbers wrong, found before any time is spent."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchkit.errors import Faults, ServerError
from benchkit.measure import host
from benchkit.measure.alike import differences_of_builds
from benchkit.measure.cache import can_prewarm
from benchkit.measure.finding import Finding as Finding
from benchkit.measure.needs import loaded_for
from benchkit.measure.trial import TrialRequest
from benchkit.postgres import workplace
from benchkit.postgres.cluster import initdb_options
from benchkit.postgres.settings import check_settings, text_of
from benchkit.postgres.versions import has
from benchkit.units import TIME_US, parse_quantity
from benchkit.workload.disk import check_disk
from benchkit.workload.pgbench import check_workload

# What a server saves that has it off, and others cannot.
_COSTS_OF_OFF = {
    "fsync": ("bad", "faster than any server that may not lose data: a crash loses the database"),
    "full_page_writes": ("bad", "less WAL than is safe: a crash may corrupt the database"),
    "synchronous_commit": ("warning", "commits do not wait for the disk: a crash loses the last"),
    "autovacuum": ("warning", "dead rows pile up as in no server at work"),
}
# Of every version from 8.2 on, and the switches above are on. `postgres --describe-config` cannot
# tell: it prints its table before the defaults are filled in, 0 for max_connections.
_DEFAULTS = {"max_connections": "100", "checkpoint_timeout": "5min"}


def check_requests(requests: Sequence[TrialRequest], *, assertions: bool) -> None:
    """Refuse what cannot be done, every fault at once, before anything is started.

    Raises
    ------
    InputError
        With all faults.
    """
    faults = Faults()
    seen: set[str] = set()
    sized = []
    for request in requests:
        own = Faults()
        check_workload(request.workload, request.client, own)
        check_settings(request.settings, request.build, own)
        _check_connections(request, own)
        _check_build(request, own, assertions=assertions)
        for fault in own.found:
            if str(fault) not in seen:
                seen.add(str(fault))
                faults.add(fault.where, fault.problem)
        sized += [] if {fault.where for fault in own.found} & {"scale", "fillfactor"} else [request]
    if sized:
        check_disk(loaded_for(sized), workplace.home(), faults)
    faults.raise_any()


def _check_build(request: TrialRequest, faults: Faults, *, assertions: bool) -> None:
    build = request.build
    if build.assertions and not assertions:
        faults.add(
            "build",
            f"PostgreSQL {build.version} in {build.bin_dir} was compiled with assertions, which "
            "distort what is measured; pass allow_assertions=True to measure it all the same",
        )
    if request.workload.cache == "prewarmed" and not can_prewarm(build):
        faults.add(
            "cache",
            f"PostgreSQL {build.version} in {build.bin_dir} has no extension pg_prewarm: install "
            "its contrib package, or choose another cache",
        )
    try:
        initdb_options(build, checksums=request.checksums)
    except ServerError as error:
        faults.add("checksums", error.message)


def _setting(request: TrialRequest, name: str) -> str:
    """Give a setting's value as it will be: as asked, else as initdb leaves it."""
    asked = {key.lower(): text_of(value) for key, value in request.settings.items()}
    return asked.get(name, _DEFAULTS.get(name, "on"))


def _check_connections(request: TrialRequest, faults: Faults) -> None:
    clients = request.workload.clients
    if type(clients) is not int:
        return  # said already, with the types
    allowed = _setting(request, "max_connections")
    # Two are benchkit's own: one to count, one to sample waits. pgbench connects as a superuser, so
    # that reserved ones are open to it.
    if allowed.isdigit() and clients + 2 > int(allowed):
        faults.add(
            "clients",
            f"{clients} clients and benchkit's two connections exceed max_connections={allowed}; "
            f"set max_connections to {clients + 10}",
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    client = request.client.pgbench
    files = hard if client and has(client, "pgbench raises its file limit") else soft
    if files != resource.RLIM_INFINITY and clients + 10 > files:
        faults.add(
            "clients",
            f"{clients} clients of pgbench {request.client.pgbench} exceed the limit of {files} "
            "open files (ulimit -n)",
        )


def preflight(requests: Sequence[TrialRequest]) -> list[Finding]:
    """Look for known ways to get a wrong number. Takes no measurement, starts no server."""
    place = workplace.home()
    machine = host.fingerprint(place)
    findings = [finding for check in _HOST_CHECKS for finding in check(machine)]
    seen = set()
    for request in requests:
        for check in _REQUEST_CHECKS:
            for finding in check(request):
                if finding not in seen:
                    seen.add(finding)
                    findings.append(finding)
    findings += differences_of_builds(request.build for request in requests)
    findings += _others(host.other_postgres(place))
    order = {"bad": 0, "warning": 1, "info": 2}
    return sorted(findings, key=lambda finding: order[finding.severity])


def _others(running: Iterable[str]) -> Iterator[Finding]:
    for text in running:
        yield Finding(
            severity="warning",
            name="another PostgreSQL server",
            evidence=text,
            fix="stop it while measuring",
        )


def _scale_below_clients(request: TrialRequest) -> Iterator[Finding]:
    workload = request.workload
    if workload.uses("tpcb-like") and workload.clients > workload.scale:
        yield Finding(
            severity="warning",
            name="scale below clients",
            evidence=f"{workload.clients} clients update {workload.scale} branch rows: lock waits "
            "are measured",
            fix=f"a scale of at least {workload.clients} (pgbench's manual says why)",
        )


def _short_run(request: TrialRequest) -> Iterator[Finding]:
    workload = request.workload
    number, unit = parse_quantity(_setting(request, "checkpoint_timeout"))
    cycle_s = number * TIME_US.get(unit, 1_000_000) / 1e6
    if workload.duration_s and workload.duration_s < cycle_s:
        yield Finding(
            severity="info",
            name="run shorter than a checkpoint cycle",
            evidence=f"{workload.duration_s} s against checkpoint_timeout={cycle_s:.0f} s: what "
            "checkpoints cost is not in the numbers",
            fix="longer runs, if that cost belongs to the question",
        )


def _cold_and_warm(request: TrialRequest) -> Iterator[Finding]:
    workload = request.workload
    if workload.cache == "cold" and workload.warm_up_s:
        yield Finding(
            severity="warning",
            name="a cold cache that is warmed up",
            evidence=f"the cache is dropped, then {workload.warm_up_s} s of warm-up fill it again",
            fix="cache='uncached' keeps the tables out of the page cache all through the run; or "
            "no warm-up",
        )


def _unsafe_settings(request: TrialRequest) -> Iterator[Finding]:
    for name, (severity, cost) in _COSTS_OF_OFF.items():
        if _setting(request, name).lower() in ("off", "false", "no", "0"):
            yield Finding(
                severity=severity,
                name=f"{name} is off",
                evidence=cost,
                fix="compare it only with itself, or leave it on unless it is the question",
            )


def _assertions(request: TrialRequest) -> Iterator[Finding]:
    flags = request.build.cflags or ""
    if request.build.assertions or "-O0" in flags.split():
        yield Finding(
            severity="bad",
            name="not a build for measuring",
            evidence=f"PostgreSQL {request.build.version}: assertions or -O0 (CFLAGS {flags})",
            fix="a build with optimisation and without --enable-cassert",
        )


def _client_version(request: TrialRequest) -> Iterator[Finding]:
    client, build = request.client, request.build
    if client.pgbench and client.pgbench.major != build.version.major:
        yield Finding(
            severity="info",
            name="client of another version",
            evidence=f"pgbench {client.pgbench} drives PostgreSQL {build.version}; the same client "
            "drives every server, so that changes of pgbench do not count",
            fix="client= chooses another",
        )


def _memory(machine: Mapping[str, Any]) -> Iterator[Finding]:
    if machine.get("swap_used_bytes"):
        yield Finding(
            severity="warning",
            name="the machine swaps",
            evidence=f"{machine['swap_used_bytes'] / 1024**2:.0f} MB of swap in use",
            fix="end what takes the memory",
        )


def _file_system(machine: Mapping[str, Any]) -> Iterator[Finding]:
    if machine.get("filesystem_type") == "tmpfs":
        yield Finding(
            severity="bad",
            name="data directory in memory",
            evidence="the file system is tmpfs: no disk is measured, and a sync costs nothing",
            fix="set BENCHKIT_HOME to a directory on a disk",
        )


def _governor(machine: Mapping[str, Any]) -> Iterator[Finding]:
    governor = machine.get("scaling_governor")
    if governor and governor != "performance":
        yield Finding(
            severity="warning",
            name="CPU frequency varies",
            evidence=f"scaling governor {governor}",
            fix="the governor 'performance' while measuring",
        )


def _few_cores(machine: Mapping[str, Any]) -> Iterator[Finding]:
    cores = machine.get("usable_cores")
    if cores and cores <= 2:
        yield Finding(
            severity="info",
            name="client and server share the cores",
            evidence=f"{cores} usable cores for pgbench, the server and the system",
            fix="read ratios, not absolute numbers",
        )


def _virtual(machine: Mapping[str, Any]) -> Iterator[Finding]:
    if machine.get("hypervisor"):
        yield Finding(
            severity="info",
            name="virtual machine",
            evidence="neighbours on the same hardware take their share unseen",
            fix="more rounds; believe the interval, not a single run",
        )


_HOST_CHECKS: tuple[Callable[[Mapping[str, Any]], Iterator[Finding]], ...] = (
    _memory,
    _file_system,
    _governor,
    _few_cores,
    _virtual,
)
_REQUEST_CHECKS: tuple[Callable[[TrialRequest], Iterator[Finding]], ...] = (
    _unsafe_settings,
    _assertions,
    _scale_below_clients,
    _cold_and_warm,
    _client_version,
    _short_run,
)
