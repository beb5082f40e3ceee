"""What benchkit costs: throughput beside bare pgbench, and a trial's time beyond its run.

``python benchmarks/overhead.py throughput`` runs bare pgbench and benchkit's measured run on one
server, in shuffled pairs, until the interval of their ratio is at most 1.5 % to each side.

``python benchmarks/overhead.py trial`` measures trials of one second with a cached cluster and
splits what they take beyond it by step.

Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchkit.analysis.stats import Estimate, format_ratio, paired_ratio
from benchkit.measure.trial import TrialRequest, measure, measure_on
from benchkit.postgres import builds, workplace
from benchkit.postgres.server import Server
from benchkit.workload.load import loaded_template
from benchkit.workload.pgbench import Workload
from benchkit.workload.report import parse_report

WANTED_HALF_WIDTH = 0.015


def request_for(script: str, duration_s: int, scale: int) -> TrialRequest:
    """Give what both sides run."""
    workload = Workload(script=script, scale=scale, clients=4, threads=1, duration_s=duration_s)
    return TrialRequest(
        build=builds.find(),
        client=builds.newest_client(),
        workload=workload,
        # Commits do not wait for the disk: its luck would drown what is looked for, and where the
        # CPU is the limit, everything that benchkit takes of it counts.
        settings={
            "shared_buffers": "512MB",
            "max_wal_size": "8GB",
            "autovacuum": False,
            "synchronous_commit": False,
        },
    )


def bare_tps(request: TrialRequest, server: Server) -> float:
    """Checkpoint, then run pgbench as a person would, with nothing beside it."""
    with server.connect() as connection:
        connection.execute("CHECKPOINT")
    workload = request.workload
    done = request.client.run(
        "pgbench",
        *("-n", "-h", server.host, "-U", "postgres", "-c", str(workload.clients)),
        *("-j", str(workload.threads), "-T", str(workload.duration_s)),
        *("-b", workload.script, "postgres"),
        directory=server.instance.directory,
    )
    tps = parse_report(done.stdout).tps
    assert tps is not None, done.evidence
    return tps


def benchkit_tps(request: TrialRequest, server: Server) -> float:
    """Measure as every trial does: counters before and after, progress, gates."""
    trial = measure_on(server, request, on_progress=lambda second: None)
    assert trial.status == "usable", trial
    return float(trial.result["comparable_tps"])


def compare_throughput(script: str, *, duration_s: int, most_pairs: int) -> None:
    """Run pairs until the interval is narrow enough; print the ratio."""
    request = request_for(script, duration_s, scale=10)
    template, _ = loaded_template(request.build, request.client, request.workload, checksums=False)
    sides: dict[str, Callable[[TrialRequest, Server], float]] = {
        "bare": bare_tps,
        "benchkit": benchkit_tps,
    }
    found: dict[str, list[float]] = {"bare": [], "benchkit": []}
    with (
        workplace.machine_lock("benchmarks/overhead"),
        Server(request.build, request.settings, template=template) as server,
    ):
        # Once for both sides: all in memory, and a first run that nobody counts.
        measure_on(server, replace(request, workload=replace(request.workload, cache="prewarmed")))
        while len(found["bare"]) < most_pairs:
            for side in random.sample(list(sides), 2):
                found[side].append(sides[side](request, server))
            estimate = paired_ratio(found["benchkit"], found["bare"])
            if estimate.rounds >= 10 and half_width(estimate) < WANTED_HALF_WIDTH:
                break
    estimate = paired_ratio(found["benchkit"], found["bare"])
    contains = estimate.low is not None and not estimate.differs
    print(
        f"| {script} | {estimate.rounds} x {duration_s} s | {statistics.mean(found['bare']):,.0f} "
        f"| {statistics.mean(found['benchkit']):,.0f} | {format_ratio(estimate)} "
        f"| {'yes' if contains else 'NO'} |",
        flush=True,
    )


def half_width(estimate: Estimate) -> float:
    """Half the width of the interval, on the logarithm."""
    if estimate.low is None or estimate.high is None:
        return math.inf
    return math.log(estimate.high / estimate.low) / 2


def trial_cost(trials: int) -> None:
    """Print what a trial of one second takes beyond its run, by step."""
    request = request_for("tpcb-like", 1, scale=10)
    measure(request)  # loads the cluster
    steps: dict[str, list[float]] = {}
    for _ in range(trials):
        for name, seconds in measure(request).steps_s.items():
            steps.setdefault(name, []).append(seconds)
    beyond = [name for name in steps if name != "run"]
    print("| step | median s | highest s |\n|---|--:|--:|")
    for name in beyond:
        print(f"| {name} | {statistics.median(steps[name]):.3f} | {max(steps[name]):.3f} |")
    extra = [seconds - request.workload.duration_s for seconds in steps["run"]]
    print(f"| run, beyond its second | {statistics.median(extra):.3f} | {max(extra):.3f} |")
    totals = [sum(parts) for parts in zip(extra, *(steps[name] for name in beyond), strict=True)]
    print(f"| all | {statistics.median(totals):.3f} | {max(totals):.3f} |")
    print(f"\n{trials} trials; clusters in {Path(workplace.home())}.")


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["throughput", "trial"])
    parser.add_argument("--most-pairs", type=int, default=150)
    parser.add_argument("--duration", type=int, default=5, help="seconds of each run")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--scripts", nargs="+", default=["tpcb-like", "select-only"])
    asked = parser.parse_args()
    if asked.what == "trial":
        trial_cost(asked.trials)
        return
    print("| script | pairs | bare tps | benchkit tps | ratio, 95 % interval | contains 1 |")
    print("|---|--:|--:|--:|--:|---|")
    for script in asked.scripts:
        compare_throughput(script, duration_s=asked.duration, most_pairs=asked.most_pairs)


if __name__ == "__main__":
    main()
