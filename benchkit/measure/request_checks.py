"""What is asked for that leads to a number other than meant: workload, settings, build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchkit.errors import FormatError
from benchkit.measure.finding import Finding
from benchkit.measure.record import TrialRequest
from benchkit.postgres.settings import text_of
from benchkit.units import TIME_US, memory_bytes, parse_quantity, show_bytes
from benchkit.workload.pgbench import Workload

Machine = Mapping[str, Any]
Check = Callable[[TrialRequest, Machine], Iterator[Finding]]

# What a server saves that has it off, and others cannot.
_COSTS_OF_OFF = {
    "fsync": ("bad", "faster than any server that may not lose data: a crash loses the database"),
    "full_page_writes": ("bad", "less WAL than is safe: a crash may corrupt the database"),
    "synchronous_commit": ("warning", "commits do not wait for the disk: a crash loses the last"),
    "autovacuum": ("warning", "dead rows pile up as in no server at work"),
}
# What a server does beside its work, and writes down each time.
_LOGGED = {
    "log_statement": ("all", "mod", "ddl"),
    "log_duration": ("on", "true", "yes", "1"),
    "log_min_duration_statement": ("0",),
    "log_executor_stats": ("on", "true", "yes", "1"),
    "debug_print_plan": ("on", "true", "yes", "1"),
}
# Of every version from 8.2 on, and the switches above are on. `postgres --describe-config` cannot
# tell: it prints its table before the defaults are filled in, 0 for max_connections.
_DEFAULTS = {
    **{"max_connections": "100", "checkpoint_timeout": "5min", "shared_buffers": "128MB"},
    **dict.fromkeys(("log_statement", "archive_mode", "ssl", "track_io_timing"), "off"),
    **dict.fromkeys(("log_duration", "log_executor_stats", "debug_print_plan"), "off"),
    "log_min_duration_statement": "-1",
}
_GOOD_PRACTICES = "PostgreSQL manual, pgbench, Good Practices"
_SHORT_S = 30
_FEW_TRANSACTIONS = 10_000
_CLIENTS_PER_THREAD = 32
_FEWEST_ROUNDS, _GOOD_ROUNDS = 3, 5


def request_findings(request: TrialRequest, machine: Machine) -> list[Finding]:
    """List what a request may mislead by on a machine, as `host.fingerprint` describes it."""
    return [finding for check in _CHECKS for finding in check(request, machine)]


def round_findings(rounds: int) -> list[Finding]:
    """Say what so few rounds cannot tell."""
    if rounds >= _GOOD_ROUNDS:
        return []
    few = rounds < _FEWEST_ROUNDS
    return [
        Finding(
            severity="warning" if few else "info",
            name="too few rounds for an interval" if few else "few rounds",
            evidence=f"{rounds}: " + ("no interval and no verdict" if few else "wide intervals"),
            fix=f"at least {_FEWEST_ROUNDS} rounds, better {_GOOD_ROUNDS} and more",
            reference="Student's t with two degrees of freedom: 4.3 standard errors to each side",
        )
    ]


def value_of(request: TrialRequest, name: str) -> str:
    """Give a setting's value as it will be: as asked, else as initdb leaves it."""
    asked = {key.lower(): text_of(value) for key, value in request.settings.items()}
    return asked.get(name, _DEFAULTS.get(name, "on"))


def _is_off(request: TrialRequest, name: str) -> bool:
    return value_of(request, name).lower() in ("off", "false", "no", "0")


# Settings


def _unsafe_settings(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    for name, (severity, cost) in _COSTS_OF_OFF.items():
        if _is_off(request, name):
            yield Finding(
                severity=severity,
                name=f"{name} is off",
                evidence=cost,
                fix="compare it only with itself, or leave it on unless it is the question",
                reference=f"PostgreSQL manual, {name}",
            )


def _logging(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    for name, values in _LOGGED.items():
        if value_of(request, name).lower() in values:
            yield Finding(
                severity="warning",
                name="every statement is logged",
                evidence=f"{name}={value_of(request, name)}: writing the log is measured too",
                fix="off, unless its cost is the question",
                reference=f"PostgreSQL manual, {name}",
            )


def _timing_and_archiving(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    costs = {
        "track_io_timing": "the clock is read at every read and write",
        "archive_mode": "each WAL file is copied while it is measured",
        "ssl": "connections may be encrypted on one side of a comparison only",
    }
    for name, cost in costs.items():
        if not _is_off(request, name):
            yield Finding(
                severity="info",
                name=f"{name} is on",
                evidence=cost,
                fix="the same in all cells, or off",
                reference=f"PostgreSQL manual, {name}",
            )


def _shared_buffers(request: TrialRequest, machine: Machine) -> Iterator[Finding]:
    memory = machine.get("memory_bytes")
    try:
        size = memory_bytes(value_of(request, "shared_buffers"))
    except FormatError:
        return
    if memory and size > 0.5 * memory:
        yield Finding(
            severity="warning",
            name="shared_buffers above half of the memory",
            evidence=f"{show_bytes(size)} of {show_bytes(memory)}: the page cache has little left, "
            "and both hold the same pages",
            fix="a smaller shared_buffers, unless this is the question",
            reference="PostgreSQL manual, shared_buffers",
        )


# Workload


def _scale_below_clients(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    workload = request.workload
    if workload.uses("tpcb-like") and workload.clients > workload.scale:
        yield Finding(
            severity="warning",
            name="scale below clients",
            evidence=f"{workload.clients} clients update {workload.scale} branch rows: lock waits "
            "are measured",
            fix=f"a scale of at least {workload.clients}",
            reference=_GOOD_PRACTICES,
        )


def _database_and_memory(request: TrialRequest, machine: Machine) -> Iterator[Finding]:
    memory, database = machine.get("memory_bytes"), request.workload.database_bytes
    if not memory or request.workload.cache == "uncached":
        return
    if database > memory:
        yield Finding(
            severity="info",
            name="database larger than memory",
            evidence=f"about {show_bytes(database)} against {show_bytes(memory)}: the disk is "
            "measured",
            fix="a smaller scale, if the question is the server",
            reference=_GOOD_PRACTICES,
        )
    elif database < 0.5 * memory:
        yield Finding(
            severity="info",
            name="database fits into memory",
            evidence=f"about {show_bytes(database)} of {show_bytes(memory)}: after the first touch "
            "nothing is read from the disk",
            fix='cache="uncached" or a larger scale, if the question is reading from the disk',
            reference=_GOOD_PRACTICES,
        )


def _short_run(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    workload = request.workload
    number, unit = parse_quantity(value_of(request, "checkpoint_timeout"))
    cycle_s = number * TIME_US.get(unit, 1_000_000) / 1e6
    if workload.duration_s and workload.duration_s < cycle_s and _writes(workload):
        yield Finding(
            severity="info",
            name="run shorter than a checkpoint cycle",
            evidence=f"{workload.duration_s} s against checkpoint_timeout={cycle_s:.0f} s",
            fix="longer runs, if what checkpoints cost belongs to the question",
            reference=_GOOD_PRACTICES,
        )
    total = workload.transactions * workload.clients
    if 0 < total < _FEW_TRANSACTIONS:
        yield Finding(
            severity="warning",
            name="few transactions",
            evidence=f"{total:,} in a run: seconds at most, and as noisy as they are short",
            fix="a duration, or more transactions",
            reference=_GOOD_PRACTICES,
        )


def _writes(workload: Workload) -> bool:
    return {script.name for script in workload.scripts} != {"select-only"}


def _no_warm_up(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    workload = request.workload
    cold_start = not workload.warm_up_s and workload.cache != "prewarmed"
    if cold_start and 0 < workload.duration_s < _SHORT_S:
        yield Finding(
            severity="info",
            name="short run without a warm-up",
            evidence=f"{workload.duration_s} s from an empty shared_buffers on",
            fix="warm_up_s, or longer runs, unless filling the cache belongs to the question",
            reference=_GOOD_PRACTICES,
        )


def _warmed_cold_cache(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    workload = request.workload
    if workload.cache == "cold" and workload.warm_up_s:
        yield Finding(
            severity="warning",
            name="a cold cache that is warmed up",
            evidence=f"the page cache is dropped before the warm-up of {workload.warm_up_s} s, "
            "which fills it again",
            fix='cache="uncached" drops it all through warm-up and run; or no warm-up',
        )


def _threads(request: TrialRequest, machine: Machine) -> Iterator[Finding]:
    workload, cores = request.workload, machine.get("usable_cores") or 1
    threads = workload.threads or max(1, min(workload.clients, cores // 2))
    if workload.clients / threads > _CLIENTS_PER_THREAD and threads < cores:
        yield Finding(
            severity="warning",
            name="too few threads of pgbench",
            evidence=f"{workload.clients} clients on {threads} threads, {cores} usable cores: "
            "pgbench itself may be the limit",
            fix="more threads; look at the CPU of pgbench in the results",
            reference=_GOOD_PRACTICES,
        )


def _clients_and_cores(request: TrialRequest, machine: Machine) -> Iterator[Finding]:
    clients, cores = request.workload.clients, machine.get("usable_cores") or 1
    if clients > 16 * cores:
        yield Finding(
            severity="info",
            name="many clients for the cores",
            evidence=f"{clients} clients on {cores} usable cores: queueing for the processor is "
            "measured",
            fix="fewer clients, unless this is the question",
            reference="Little's law: latency is clients divided by throughput",
        )


def _options_of_pgbench(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    workload = request.workload
    remarks = {
        "a rate is offered": (
            bool(workload.rate_per_s),
            f"throughput is at most the {workload.rate_per_s:g} transactions/s that are offered",
            "compare latencies and skipped transactions, not throughput",
        ),
        "a connection for each transaction": (
            workload.reconnect,
            "most of the time goes into connecting",
            "reconnect=False, unless connecting is the question",
        ),
        "latency of every statement": (
            workload.per_statement,
            "pgbench reads the clock at every statement: throughput is a little lower",
            "the same in all cells; or off",
        ),
        "the same random numbers in every round": (
            bool(workload.seed),
            f"seed {workload.seed}: rounds do not differ by what is asked, so the interval does "
            "not hold for other rows",
            "seed=0, unless one sequence is the question",
        ),
    }
    for name, (applies, evidence, fix) in remarks.items():
        if applies:
            reference = "PostgreSQL manual, pgbench, options"
            yield Finding(
                severity="info", name=name, evidence=evidence, fix=fix, reference=reference
            )


# Build


def _assertions(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    flags = request.build.cflags or ""
    if request.build.assertions or "-O0" in flags.split():
        yield Finding(
            severity="bad",
            name="not a build for measuring",
            evidence=f"PostgreSQL {request.build.version}: assertions or -O0 (CFLAGS {flags})",
            fix="a build with optimisation and without --enable-cassert",
            reference="PostgreSQL manual, installation, --enable-cassert",
        )


def _beta(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    text = request.build.version.text
    if any(word in text for word in ("devel", "beta", "rc")):
        yield Finding(
            severity="info",
            name="not a release",
            evidence=f"PostgreSQL {text}: many commits have this version",
            fix="say which commit, so that others can build the same",
        )


def _client_version(request: TrialRequest, _: Machine) -> Iterator[Finding]:
    client, build = request.client, request.build
    if client.pgbench and client.pgbench.major != build.version.major:
        yield Finding(
            severity="info",
            name="client of another version",
            evidence=f"pgbench {client.pgbench} drives PostgreSQL {build.version}",
            fix="nothing, where one client drives all, so that changes of pgbench do not count; "
            "client= chooses another",
        )


_CHECKS: tuple[Check, ...] = (
    _unsafe_settings,
    _assertions,
    _beta,
    _scale_below_clients,
    _database_and_memory,
    _shared_buffers,
    _logging,
    _timing_and_archiving,
    _threads,
    _clients_and_cores,
    _warmed_cold_cache,
    _no_warm_up,
    _options_of_pgbench,
    _client_version,
    _short_run,
)
