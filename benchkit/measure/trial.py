"""One measured run: request in, record out.

The steps, in order: the machine's lock; a cluster cloned from its template and synced; settings
written, the server started, every setting read back; the cache as asked; checkpoint; warm-up;
counters; the measured run, with its waits sampled; counters again; the gates; stop; remove.
"""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import psycopg

from benchkit.errors import BenchkitError
from benchkit.measure import cache, counters, host
from benchkit.measure.gates import Evidence, closed_gates
from benchkit.measure.record import Trial, TrialRequest
from benchkit.measure.waits import DiskCounter, WaitSampler
from benchkit.postgres import workplace
from benchkit.postgres.log import checkpoints, log_errors
from benchkit.postgres.server import Server
from benchkit.workload.load import count_rows, forget_loaded, loaded_template
from benchkit.workload.pgbench import tables
from benchkit.workload.progress import Progress
from benchkit.workload.report import comparable_tps
from benchkit.workload.run import Run, run_pgbench

__all__ = ["Trial", "TrialRequest", "forget_load", "measure", "measure_on"]

Connection = psycopg.Connection[dict[str, Any]]


def measure(
    request: TrialRequest,
    *,
    purpose: str = "a trial",
    on_step: Callable[[str], None] = lambda step: None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Trial:
    """Measure once. Whatever fails is in the trial that is returned, with its cause.

    Nothing of the server is left on disk or in the process table afterwards.

    Parameters
    ----------
    purpose
        Shown to another benchkit that waits for the machine.
    on_step, on_progress
        Called as each step begins, and with each second's progress.

    Raises
    ------
    KeyboardInterrupt
        After the server was stopped and removed; there is no trial then.
    """
    with workplace.machine_lock(purpose):
        course = _Course(request, on_step, on_progress)
        try:
            return course.follow()
        except (BenchkitError, psycopg.Error, OSError) as error:
            return course.failed(error)


def forget_load(request: TrialRequest) -> None:
    """Remove the cluster that was loaded for a request; the one kept for all runs stays."""
    if request.load:
        with workplace.machine_lock("removing tables that were loaded for a session"):
            forget_loaded(request.build, request.client, request.workload, **request.cluster)


def measure_on(
    server: Server,
    request: TrialRequest,
    *,
    on_progress: Callable[[Progress], None] | None = None,
) -> Trial:
    """Measure once on a server that runs already, and leave it running.

    Its build, settings and data are taken as they are; the steps are those of :func:`measure`
    from the preparation of the cache to the gates. The caller holds the machine's lock.
    """
    return _Course(request, lambda step: None, on_progress).measure_on(server)


class _Measured(NamedTuple):
    """The measured run, and what was seen beside it."""

    run: Run
    waits: dict[str, Any]
    machine: dict[str, Any]
    jump_s: float
    throttled_s: float | None


class _Course:
    """The steps of one trial, and what is known so far."""

    def __init__(
        self,
        request: TrialRequest,
        on_step: Callable[[str], None],
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self.request = request
        self.on_step = on_step
        self.on_progress = on_progress
        self.steps_s: dict[str, float] = {}
        self.begun_at = time.time()
        self.texts: dict[str, str] = {}
        self.host = {
            "hostname": platform.node(),
            "boot_id": host.boot_id(),
            "load_average": os.getloadavg()[0],
            "throttling": host.throttling(),
        }

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.on_step(name)
        started = time.monotonic()
        try:
            yield
        finally:
            self.steps_s[name] = round(time.monotonic() - started, 4)

    def failed(self, error: Exception) -> Trial:
        return Trial(
            status="failed",
            error=f"{type(error).__name__}: {error}",
            asked=self.request.describe(),
            started_at=self.begun_at,
            steps_s=self.steps_s,
            host=self.host,
            texts=self.texts,
        )

    def follow(self) -> Trial:
        request = self.request
        with self.step("template"):
            template, _ = loaded_template(
                request.build, request.client, request.workload, **request.cluster
            )
        # Closed in any case: also when a watcher raises as it is told of the last step.
        with contextlib.closing(
            Server(request.build, request.settings, template=template)
        ) as server:
            try:
                with self.step("clone and start"):
                    server.__enter__()
                self.steps_s |= {name: round(value, 4) for name, value in server.steps_s.items()}
                del self.steps_s["clone and start"]
                trial = self.measure_on(server)
            finally:
                self.texts["server.log"] = _log_of(server)
            with self.step("stop"):
                server.close()
        return trial

    def measure_on(self, server: Server) -> Trial:
        with server.connect() as connection:
            with self.step("prepare"):
                scale = self._prepare(server, connection)
                effective = server.changed_settings()
            warm_up = self._warm_up(server, connection)
            with self.step("counters before"):
                # What vacuum, checkpoint and warm-up did may still be on its way to the counters.
                counters.flush_statistics(connection)
                before = counters.read_counters(connection)
            log_before = len(server.process.log())
            measured = self._measured_run(server, connection)
            run = measured.run
            with self.step("counters after"):
                counted = self._count(connection, before, run)
            log = server.process.log()[log_before:]
            evidence = Evidence(
                run=run,
                workload=self.request.workload,
                scale_in_tables=scale,
                log_errors=log_errors(log),
                server_alive=server.process.alive() and not connection.closed,
                clock_jump_s=measured.jump_s,
                reset_counters=counters.resets(counted),
                counters_complete=counted["complete"],
                warm_up=warm_up,
                throttled_s=measured.throttled_s,
            )
        gates = tuple(closed_gates(evidence, self.request.limits))
        return Trial(
            status="rejected" if any(gate.rejects for gate in gates) else "usable",
            gates=gates,
            asked=self.request.describe(),
            effective=effective,
            started_at=run.started_at,
            steps_s=self.steps_s,
            result=_result(run, self.request),
            warm_up=None if warm_up is None else _result(warm_up, self.request),
            counters=counted,
            waits=measured.waits,
            machine=measured.machine,
            checkpoints=_checkpoints(log, run),
            host=self.host,
            progress=tuple(run.progress),
            texts=self.texts,
        )

    def _prepare(self, server: Server, connection: Connection) -> int:
        """Bring the cache to the state asked for, checkpoint, and read the true scale."""
        client = self.request.client
        names = tables(client.pgbench or client.version)
        if self.request.workload.cache == "prewarmed":
            cache.prewarm(connection, server.build.version)
        scale = count_rows(connection, names["branches"])
        connection.execute("CHECKPOINT")
        if self.request.workload.cache in ("cold", "uncached"):
            cache.drop_from_page_cache(server.data_dir)
        return scale

    def _warm_up(self, server: Server, connection: Connection) -> Run | None:
        duration_s = self.request.workload.warm_up_s
        if not duration_s:
            return None
        with self.step("warm-up"):
            return self._run(server, connection, "warm-up", duration_s=duration_s)

    def _measured_run(self, server: Server, connection: Connection) -> _Measured:
        """Run with the waits sampled and the disk counted; the sampler has left at the end."""
        # To another database than the measured one, whose transactions are counted.
        sampler = WaitSampler(lambda: server.connect("template1"), server.build.version)
        throttling, clock = host.throttling(), time.time() - time.monotonic()
        with sampler, self.step("run"), DiskCounter() as disk:
            run = self._run(server, connection, "run", on_progress=self.on_progress)
        return _Measured(
            run=run,
            waits=sampler.record(),
            machine=disk.record(),
            jump_s=time.time() - time.monotonic() - clock,
            throttled_s=_throttled_s(throttling, host.throttling()),
        )

    def _run(
        self,
        server: Server,
        connection: Connection,
        name: str,
        *,
        duration_s: int | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Run:
        number = len(list(server.instance.directory.glob(f"{name}-*")))
        with contextlib.ExitStack() as stack:
            if self.request.workload.cache == "uncached":
                stack.enter_context(cache.kept_uncached(connection, server.data_dir))
            run = run_pgbench(
                self.request.workload,
                self.request.client,
                host=server.host,
                directory=server.instance.make_directory(f"{name}-{number}"),
                duration_s=duration_s,
                on_progress=on_progress,
            )
            # Inside: leaving may raise, and what pgbench said is kept all the same.
            self.texts |= {f"{name}.stdout.txt": run.stdout, f"{name}.stderr.txt": run.stderr}
        return run

    def _count(self, connection: Connection, before: counters.Counters, run: Run) -> dict[str, Any]:
        transactions = run.report.transactions if run.report else None
        try:
            complete = counters.settle(connection, transactions or 0, before)
            counted = counters.difference(before, counters.read_counters(connection))
        except psycopg.Error as error:
            # For one, a backend that crashes takes all others with it, ours too.
            reason = f"the counters could not be read: {error}".strip()
            return {"reasons": {"*": reason}, "complete": False}
        return counted | {"complete": complete, "transactions": transactions}


def _result(run: Run, request: TrialRequest) -> dict[str, Any]:
    client = request.client.pgbench or request.client.version
    reconnect = request.workload.reconnect
    report = run.report.to_dict() if run.report else {}
    tps = comparable_tps(run.report, client.number, reconnect=reconnect) if run.report else None
    return report | {
        "comparable_tps": tps,
        "command": list(run.command),
        "exit_code": run.exit_code,
        "wall_s": round(run.wall_s, 4),
        "client_cpu_s": round(run.cpu_s, 4),
        "aborted_clients": len(run.errors.aborted_clients),
    }


def _throttled_s(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> float | None:
    begin, end = (counted["throttled_usec"] for counted in (before, after))
    return None if begin is None or end is None else (end - begin) / 1e6


def _checkpoints(log: str, run: Run) -> tuple[dict[str, Any], ...]:
    """Give the checkpoints that the log tells of, in seconds from the beginning of the run."""

    def since(at: float | None) -> float | None:
        return None if at is None else round(at - run.started_at, 3)

    return tuple(
        {"began_s": since(item.began_at), "ended_s": since(item.ended_at), "cause": item.cause}
        for item in checkpoints(log)
    )


def _log_of(server: Server) -> str:
    with contextlib.suppress(BenchkitError, OSError):
        return server.process.log()
    return ""
