"""Measure one server again and again, for judging methods by noise that is real.

``python -m benchmarks.series > series.csv`` runs as many trials of one cell as asked, each as every
trial is: a fresh clone, a new server, a checkpoint, two seconds of pgbench. As all are alike, any
way to call some of them A and others B is an experiment on two servers that do not differ;
:mod:`benchmarks.methods` judges such experiments. Nothing else should run meanwhile.

Columns: ``started_at`` (epoch seconds), ``tps``, and ``seconds`` that the whole trial took.
"""

from __future__ import annotations

import argparse
import csv
import sys

from benchkit import Experiment, Workload
from benchkit.experiment.watch import Standing


def show(standing: Standing) -> None:
    """Say now and then where it stands."""
    if standing.event == "trial" and standing.done % 20 == 0:
        print(standing.line(), file=sys.stderr, flush=True)


def main() -> None:
    """Measure, and print what was usable."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=860)
    parser.add_argument("--duration", type=int, default=2, help="seconds of each run")
    asked = parser.parse_args()
    experiment = Experiment(
        "identical_servers",
        factors={},
        workload=Workload(scale=10, clients=4, threads=1, duration_s=asked.duration),
        settings={"shared_buffers": "512MB", "max_wal_size": "8GB", "autovacuum": False},
        rounds=(asked.trials + 1) // 2,  # a cell and its twin
    )
    record = experiment.run(watch=show)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["started_at", "tps", "seconds"])
    for entry in record.entries:
        if entry["status"] == "usable":
            seconds = sum(entry["steps_s"].values())
            tps = entry["result"]["comparable_tps"]
            table.writerow([entry["started_at"], f"{tps:.1f}", f"{seconds:.2f}"])


if __name__ == "__main__":
    main()
