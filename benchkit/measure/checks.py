"""Preflight: what would make the numbers wrong, found before any time is spent."""

from __future__ import annotations

import resource
from collections.abc import Sequence

from benchkit.errors import Faults, ServerError
from benchkit.measure import host
from benchkit.measure.alike import differences_of_builds, differing_defaults_left
from benchkit.measure.cache import can_prewarm
from benchkit.measure.finding import Finding, worst_first
from benchkit.measure.machine_checks import machine_findings, others
from benchkit.measure.needs import loaded_for
from benchkit.measure.request_checks import request_findings, value_of
from benchkit.measure.trial import TrialRequest
from benchkit.postgres import workplace
from benchkit.postgres.cluster import initdb_options
from benchkit.postgres.settings import check_settings
from benchkit.postgres.versions import has
from benchkit.workload.disk import check_disk
from benchkit.workload.pgbench import check_workload


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
        _check_disk(sized, faults)
    faults.raise_any()


def _check_disk(requests: Sequence[TrialRequest], faults: Faults) -> None:
    """Check the disk; what a killed run left on it does not count against this one."""
    workloads = [request.workload for request in requests]
    missing, own = loaded_for(requests), Faults()
    check_disk(missing, workloads, workplace.home(), own)
    if own.found and workplace.sweep():
        own = Faults()
        check_disk(missing, workloads, workplace.home(), own)
    faults.found += own.found


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


def _check_connections(request: TrialRequest, faults: Faults) -> None:
    clients = request.workload.clients
    if type(clients) is not int:
        return  # said already, with the types
    allowed = value_of(request, "max_connections")
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
    findings = machine_findings(machine) + others(host.other_postgres(place))
    findings += [finding for request in requests for finding in request_findings(request, machine)]
    findings += differences_of_builds(request.build for request in requests)
    findings += differing_defaults_left(requests)
    return worst_first(findings)
