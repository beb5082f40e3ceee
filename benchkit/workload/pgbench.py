"""What pgbench is asked to do, checked against the client that will do it."""

from __future__ import annotations

import dataclasses
import math
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from benchkit.errors import Faults
from benchkit.postgres.account import account
from benchkit.postgres.builds import Build, reachable
from benchkit.postgres.versions import Version, has
from benchkit.workload.scripts import (
    Script,
    check_mix,
    check_scripts,
    own_texts,
    place_scripts,
    script_arguments,
    scripts_of,
)

PROTOCOLS = ("simple", "extended", "prepared")
CACHES = ("cloned", "cold", "uncached", "prewarmed")
# pgbench/README: one unit of scale is 100,000 accounts; measured 15 MB with its index on 8.2 to 18.
BYTES_PER_SCALE = 16 * 1024**2
SCALE_OF_32_BITS = 21474  # account ids up to 2^31; pgbench has 64 bits from 9.3 on
# What pgbench says when it has read its scripts and finds no server: 14 on, 13, up to 12 (the old
# ones with a capital letter).
_NO_SERVER = re.compile(
    r"^(?:pgbench: (?:error|fatal): )?(?:connection to (?:server|database)|could not connect to)",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What pgbench is asked to do.

    Attributes
    ----------
    script
        ``tpcb-like``, ``simple-update``, ``select-only``, or the path of a script. Several run in
        turn, at random: ``{"select-only": 9, "tpcb-like": 1, "mine.sql": 2}`` gives each script's
        weight, a whole number (9.6 on). A script of weight 0 never runs.
    scale
        Scale factor of the tables: 100,000 accounts, about 15 MB, for each unit.
    clients
        Concurrent sessions.
    threads
        Threads of pgbench; 0 takes half the usable cores, at most one per client.
    duration_s
        How long a measured run takes, in whole seconds; 0 if `transactions` is given.
    transactions
        Transactions per client, instead of a duration; 0 otherwise.
    warm_up_s
        A run before the measured one, of the same kind; kept in the record, never in the result.
    protocol
        ``simple``, ``extended`` or ``prepared``.
    rate_per_s
        Transactions offered per second over all clients; 0 is as fast as it goes. Latencies then
        count from the scheduled start.
    latency_limit_ms
        Count (with a rate: skip) transactions later than this; 0 is none.
    per_statement
        Latency of every statement (``-r``), at the cost of more clock readings.
    reconnect
        A new connection for each transaction (``-C``).
    fillfactor
        Of the tables, in per cent, when they are loaded.
    cache
        ``cloned``: shared_buffers empty, files in the page cache as the clone left them;
        ``cold``: the page cache dropped too; ``uncached``: dropped several times a second,
        so that it behaves as a database larger than memory does; ``prewarmed``: tables and indexes
        read first.
    seed
        Of pgbench's random numbers (11 on); 0 leaves it to pgbench.
    time_limit_s
        When the watchdog ends a run that does not end; 0 is the duration plus a minute, or six
        hours for a run by transactions.
    script_texts
        Path -> text, filled in by :meth:`settled`: the scripts that are files as they were then, so
        that a file that is edited meanwhile does not make two workloads of one.
    """

    # A mapping has no hash; equal workloads have equal hashes without it.
    script: str | Mapping[str, int] = field(default="tpcb-like", hash=False)
    scale: int = 10
    clients: int = 1
    threads: int = 0
    duration_s: int = 0
    transactions: int = 0
    warm_up_s: int = 0
    protocol: str = "simple"
    rate_per_s: float = 0
    latency_limit_ms: float = 0
    per_statement: bool = False
    reconnect: bool = False
    fillfactor: int = 100
    cache: str = "cloned"
    seed: int = 0
    time_limit_s: float = 0
    script_texts: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def limit_s(self) -> float:
        """When the watchdog ends the run, in seconds."""
        return self.time_limit_s or (self.duration_s + 60 if self.duration_s else 6 * 3600)

    @property
    def scripts(self) -> tuple[Script, ...]:
        """The scripts with their weights, in the order in which pgbench numbers them from 0."""
        return scripts_of(self.script)

    def uses(self, name: str) -> bool:
        """Tell whether a script, built in or a path, is run: alone or in a mix."""
        return any(script.name == name and script.weight > 0 for script in self.scripts)

    @property
    def database_bytes(self) -> int:
        """About how large the loaded database is, in bytes."""
        return self.scale * BYTES_PER_SCALE * 100 // self.fillfactor

    def settled(self, client: Build, usable_cores: int) -> Workload:
        """Give the workload with threads decided for a client, and its scripts read."""
        if not has(_client(client), "pgbench -j"):
            threads = 1
        elif self.threads:
            threads = self.threads
        else:
            threads = max(1, min(self.clients, usable_cores // 2))
            if not has(_client(client), "pgbench clients need not divide by threads"):
                threads = max(n for n in range(1, threads + 1) if self.clients % n == 0)
        return dataclasses.replace(self._plain(), threads=threads)

    def _plain(self) -> Workload:
        """Give the workload with its scripts read, and with mappings of its own."""
        script = self.script if isinstance(self.script, str) else dict(self.script)
        texts = own_texts(self.scripts, self.script_texts)
        return dataclasses.replace(self, script=script, script_texts=texts)


FIELDS: dict[str, Any] = {
    name: kind for name, kind in get_type_hints(Workload).items() if name != "script_texts"
}


def _client(build: Build) -> Version:
    if build.pgbench is None:
        build.program("pgbench")
    return build.pgbench or build.version


def check_workload(workload: Workload, client: Build, faults: Faults) -> None:
    """Check a workload against the pgbench that will run it; every fault is noted."""
    mistyped = _check_types(workload, faults)
    _check_values(workload, faults, mistyped)
    if client.pgbench is None:
        faults.add("client", f"PostgreSQL {client.version} in {client.bin_dir} has no pgbench")
        return
    if not mistyped:
        _check_client(workload, client.pgbench, faults)
    if "script" not in mistyped:
        texts = check_scripts(workload.scripts, workload.script_texts, client.pgbench, faults)
        protocol = workload.protocol if workload.protocol in PROTOCOLS else "simple"
        for name, text in texts.items():
            _check_syntax(name, text, protocol, client, faults)


def _check_types(workload: Workload, faults: Faults) -> set[str]:
    """Note the values of a wrong type, and give their names."""
    mistyped = set() if check_mix(workload.script, faults) else {"script"}
    for name, kind in FIELDS.items():
        if name == "script":
            continue
        value = getattr(workload, name)
        accepted = (int, float) if kind is float else kind
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            faults.add(name, f"{value!r} is not of type {kind.__name__}")
            mistyped.add(name)
    return mistyped


def _check_values(workload: Workload, faults: Faults, mistyped: set[str]) -> None:
    _check_ranges(workload, faults, mistyped)
    for name, accepted in {"protocol": PROTOCOLS, "cache": CACHES}.items():
        value = getattr(workload, name)
        if name not in mistyped and value not in accepted:
            faults.unknown(name, value, accepted, kind=name)
    lengths = {"duration_s": workload.duration_s, "transactions": workload.transactions}
    if not mistyped & set(lengths) and bool(workload.duration_s) == bool(workload.transactions):
        shown = ", ".join(f"{name}={value}" for name, value in lengths.items())
        problem = f"a run needs a duration or a number of transactions, one of them: {shown}"
        faults.add("duration_s", problem)
    if not mistyped & {"threads", "clients"} and workload.threads > workload.clients:
        faults.add("threads", f"{workload.threads} threads for {workload.clients} clients")


def _check_ranges(workload: Workload, faults: Faults, mistyped: set[str]) -> None:
    at_least = {"scale": 1, "clients": 1, "threads": 0, "duration_s": 0, "transactions": 0,
                "warm_up_s": 0, "rate_per_s": 0, "latency_limit_ms": 0, "fillfactor": 10,
                "time_limit_s": 0, "seed": 0}  # fmt: skip
    at_most = {"fillfactor": 100}
    for name, least in at_least.items():
        value = getattr(workload, name)
        if name in mistyped:
            continue
        if not math.isfinite(value):
            faults.add(name, f"{value} is not a number to work with")
        elif value < least:
            faults.add(name, f"{value} is below {least}")
        elif value > at_most.get(name, value):
            faults.add(name, f"{value} is above {at_most[name]}")


def _check_client(workload: Workload, version: Version, faults: Faults) -> None:
    needs = {
        "duration_s": ("pgbench -T", workload.duration_s > 0),
        "warm_up_s": ("pgbench -T", workload.warm_up_s > 0),
        "protocol": ("pgbench -M", workload.protocol != "simple"),
        "threads": ("pgbench -j", workload.threads > 1),
        "rate_per_s": ("pgbench -R", workload.rate_per_s > 0),
        "latency_limit_ms": ("pgbench -L", workload.latency_limit_ms > 0),
        "per_statement": ("pgbench -r", workload.per_statement),
        "seed": ("pgbench --random-seed", workload.seed > 0),
        "fillfactor": ("pgbench -F", workload.fillfactor != 100),
        "scale": ("pgbench accounts beyond 2^31", workload.scale > SCALE_OF_32_BITS),
    }
    for name, (fact, used) in needs.items():
        if used and not has(version, fact):
            faults.add(name, f"pgbench {version} has no {fact.removeprefix('pgbench ')}")
    divides = workload.threads == 0 or workload.clients % workload.threads == 0
    if not divides and not has(version, "pgbench clients need not divide by threads"):
        faults.add(
            "threads",
            f"pgbench {version} wants a multiple of the threads as clients: "
            f"{workload.clients} clients, {workload.threads} threads",
        )


def _check_syntax(name: str, text: str, protocol: str, client: Build, faults: Faults) -> None:
    """Let pgbench read a script: it does so before it connects, here to nowhere."""
    alone = Workload(script=name, protocol=protocol, transactions=1)
    with tempfile.TemporaryDirectory(prefix="benchkit-") as place:
        account().own(Path(place))
        placed = place_scripts({name: text}, Path(place))
        command = pgbench_arguments(alone, _client(client), host=place, placed=placed)
        done = reachable(client).run("pgbench", *command, directory=Path(place), timeout_s=60)
    if not _NO_SERVER.search(done.stderr):
        faults.add("script", f"pgbench {client.pgbench} refuses {name}:\n{done.stderr.strip()}")


def pgbench_arguments(
    workload: Workload,
    version: Version,
    *,
    host: str,
    placed: Mapping[str, Path] | None = None,
    duration_s: int | None = None,
    progress: bool = True,
    user: str = "postgres",
    database: str = "postgres",
    port: int = 5432,
) -> list[str]:
    """Write the arguments of a run for one version of pgbench.

    Parameters
    ----------
    workload
        With the number of threads settled.
    placed
        Path of each script that is not built in -> the file to run, from
        :func:`~benchkit.workload.scripts.place_scripts`.
    duration_s
        Another duration than the workload's, for a warm-up.
    progress
        Ask for a line a second, where the version can.

    Notes
    -----
    ``-n``: without it pgbench vacuums and empties pgbench_history, which changes the data. The
    database comes last, as in every version: ``-d`` is debug up to 16.
    """
    words = ["-n", "-h", host, "-p", str(port), "-U", user, "-c", str(workload.clients)]
    if has(version, "pgbench -j"):
        words += ["-j", str(workload.threads or 1)]
    if duration_s or workload.duration_s:
        words += ["-T", str(duration_s or workload.duration_s)]
    else:
        words += ["-t", str(workload.transactions)]
    if has(version, "pgbench -M"):
        words += ["-M", workload.protocol]
    if progress and has(version, "pgbench -P"):
        words += ["-P", "1"]
    words += ["-R", f"{workload.rate_per_s:.12g}"] if workload.rate_per_s else []
    words += ["-L", f"{workload.latency_limit_ms:.12g}"] if workload.latency_limit_ms else []
    words += ["-r"] if workload.per_statement else []
    words += ["-C"] if workload.reconnect else []
    words += [f"--random-seed={workload.seed}"] if workload.seed else []
    return [*words, *script_arguments(workload.scripts, version, placed or {}), database]


def load_arguments(workload: Workload, version: Version, *, host: str) -> list[str]:
    """Write the arguments that load the tables."""
    quiet = ["-q"] if has(version, "pgbench -q") else []
    filled = ["-F", str(workload.fillfactor)] if workload.fillfactor != 100 else []
    scale = ["-s", str(workload.scale)]
    return ["-i", *quiet, *scale, *filled, "-h", host, "-p", "5432", "-U", "postgres", "postgres"]


def tables(version: Version) -> dict[str, str]:
    """Name the tables that a version of pgbench makes and uses: its noun -> name in the server."""
    prefix = "pgbench_" if has(version, "pgbench_ prefix of table names") else ""
    return {noun: prefix + noun for noun in ("accounts", "branches", "tellers", "history")}


def as_record(workload: Workload) -> dict[str, Any]:
    """Give the workload as plain data, with the texts of its own scripts."""
    return dataclasses.asdict(workload._plain())
