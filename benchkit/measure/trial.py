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
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from benchkit.errors import BenchkitError
from benchkit.measure import cache, counters, host
from benchkit.measure.gates import Evidence, closed_gates
from benchkit.measure.record import Trial, TrialRequest
from benchkit.measure.waits import DiskCounter, WaitSampler
from benchkit.postgres import workplace
from benchkit.postgres.server import Server, log_errors
from benchkit.workload.pgbench import tables
from benchkit.workload.progress import Progress
from benchkit.workload.report import comparable_tps
from benchkit.workload.run import Run, count_rows, loaded_template, run_pgbench

__all__ = ["Trial", "TrialRequest", "measure", "measure_on"]

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
                request.build,
                request.client,
                request.workload,
                sql=request.sql,
                checksums=request.checksums,
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
            clock = time.time() - time.monotonic()
            run, waits, machine = self._measured_run(server, connection)
            jump_s = time.time() - time.monotonic() - clock
            with self.step("counters after"):
                counted = self._count(connection, before, run)
            evidence = Evidence(
                run=run,
                workload=self.request.workload,
                scale_in_tables=scale,
                log_errors=log_errors(server.process.log()[log_before:]),
                server_alive=server.process.alive() and not connection.closed,
                clock_jump_s=jump_s,
                reset_counters=counters.resets(counted),
                counters_complete=counted["complete"],
                warm_up=warm_up,
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
            waits=waits,
            machine=machine,
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

    def _measured_run(
        self, server: Server, connection: Connection
    ) -> tuple[Run, dict[str, Any], dict[str, Any]]:
        """Run with the waits sampled and the disk counted; the sampler has left at the end."""
        # To another database than the measured one, whose transactions are counted.
        sampler = WaitSampler(lambda: server.connect("template1"), server.build.version)
        with sampler, self.step("run"), DiskCounter() as disk:
            run = self._run(server, connection, "run", on_progress=self.on_progress)
        return run, sampler.record(), disk.record()

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


def _log_of(server: Server) -> str:
    with contextlib.suppress(BenchkitError, OSError):
        return server.process.log()
    return ""
