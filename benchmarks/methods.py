"""benchkit's way of comparing two servers beside what people do otherwise, on the same trials.

``python -m benchmarks.methods`` prints Markdown tables. Noise is simulated as in
:mod:`benchmarks.verdicts`, or real: windows of a long series of trials of one server
(``benchmarks/series.csv``, from :mod:`benchmarks.series`). All of those trials are identical, so
whatever is called A and B, the true difference is nothing, or exactly what is injected: B's
throughput is multiplied by it.

- one run each, different if they differ by 2.5 %;
- three in a row of each, the same of their means;
- ten in a row of each, Welch's t test;
- benchkit: ten shuffled pairs, and `Until(precision=0.05)` with at most forty.

Then: how many trials it takes to find a real 10 %, in shuffled pairs and in blocks, at the same
rate of false alarms. Blocks need a larger critical value for it, taken from the A/A trials
themselves; nobody who measures in blocks knows it.
"""

from __future__ import annotations

import csv
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.verdicts import (
    LOG_SD,
    MOST_ROUNDS,
    NOISE,
    SEED,
    blocked,
    paired,
    planned_looks,
    sequential,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from benchmarks.verdicts import Noise

    Floats = NDArray[np.float64]
    Judged = tuple[Floats, Floats, float]  # is it called different, is the truth inside, trials

EXPERIMENTS = 4000
THRESHOLD = math.log(1.025)
SERIES = Path(__file__).with_name("series.csv")
EFFECTS = {"5 %": 0.95, "10 %": 0.90, "20 %": 0.80}  # B's throughput, injected
POWER = 0.8


@functools.cache
def series() -> Floats:
    """Read the real trials: logarithms of tps in the order of time."""
    import numpy as np

    with SERIES.open(encoding="utf-8") as file:
        return np.log([float(row["tps"]) for row in csv.DictReader(file)])


def real(generator: np.random.Generator, experiments: int, trials: int) -> Floats:
    """Cut windows out of the real series, each beginning anywhere in it."""
    levels = series()
    begins = generator.integers(0, levels.size - trials + 1, experiments)
    windows: Floats = levels[begins[:, None] + range(trials)]
    return windows


def few_runs(count: int, generator: np.random.Generator, noise: Noise, effect: float) -> Judged:
    """So many of A, then as many of B; different if the means differ by more than 2.5 %."""
    import numpy as np

    tps = np.exp(noise(generator, EXPERIMENTS, 2 * count))
    tps[:, count:] *= math.exp(effect)
    ratio = np.log(tps[:, count:].mean(axis=1) / tps[:, :count].mean(axis=1))
    return np.abs(ratio) > THRESHOLD, np.full(EXPERIMENTS, np.nan), 2 * count


def ten_blocked(generator: np.random.Generator, noise: Noise, effect: float) -> Judged:
    """Ten of A, then ten of B, Welch's t."""
    import numpy as np

    mean, half_width = blocked(noise(generator, EXPERIMENTS, 20), effect)
    return np.abs(mean) > half_width, np.abs(mean - effect) <= half_width, 20


def ten_paired(generator: np.random.Generator, noise: Noise, effect: float) -> Judged:
    """Ten rounds of A and B in random order."""
    import numpy as np

    mean, half_width = paired(generator, noise(generator, EXPERIMENTS, 20), effect)
    return np.abs(mean) > half_width, np.abs(mean - effect) <= half_width, 20


def until_decided(generator: np.random.Generator, noise: Noise, effect: float) -> Judged:
    """Add rounds until it is decided to 5 %, at planned looks."""
    import numpy as np

    levels = noise(generator, EXPERIMENTS, 2 * MOST_ROUNDS)
    shared = 1 - 0.05 / len(planned_looks(MOST_ROUNDS))
    mean, half_width, used = sequential(generator, levels, effect, shared)
    inside = np.abs(mean - effect) <= half_width
    return np.abs(mean) > half_width, inside, 2 * float(np.median(used))


METHODS: dict[str, Callable[[np.random.Generator, Noise, float], Judged]] = {
    "one run each, 2.5 %": functools.partial(few_runs, 1),
    "three in a row and their mean, 2.5 %": functools.partial(few_runs, 3),
    "ten in a row of each, t test": ten_blocked,
    "benchkit: ten shuffled pairs": ten_paired,
    "benchkit: until decided to 5 %": until_decided,
}
NOISES: dict[str, Noise] = {
    "independent": NOISE["independent, normal"],
    "autocorrelated 0.61": NOISE["autocorrelated, 0.61"],
    "drifting": NOISE["drift, -2 % a trial"],
    "spiky": NOISE["slow outliers, 5 % at 0.5x"],
    "all three": NOISE["all three"],
    "real trials": real,
}


def percent(shares: Floats) -> str:
    """Write a share of experiments in percent; a dash where the method says nothing."""
    import numpy as np

    return "-" if np.isnan(shares).all() else f"{100 * float(np.mean(shares)):.1f}"


def table() -> str:
    """Judge A/A under every noise, and injected differences in real trials; a Markdown table."""
    import numpy as np

    head = ["method", *(f"false alarms %, {name}" for name in NOISES)]
    head += ["real trials: coverage %", *(f"real trials: finds {name}" for name in EFFECTS)]
    head += ["trials until 10 % is judged"]
    lines = [f"| {' | '.join(head)} |", "| --- |" + " --: |" * (len(head) - 1)]
    for name, method in METHODS.items():
        generator = np.random.default_rng(SEED)
        cells = [percent(method(generator, noise, 0.0)[0]) for noise in NOISES.values()]
        judged = {share: method(generator, real, math.log(share)) for share in EFFECTS.values()}
        cells.append(percent(judged[0.90][1]))
        cells += [percent(found) for found, _, _ in judged.values()]
        cells.append(f"{judged[0.90][2]:.0f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def separate_experiments(rounds: int = 10) -> str:
    """Judge the real series cut into experiments that share no trial: A/A, each once."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    count = series().size // (2 * rounds)
    levels = series()[: count * 2 * rounds].reshape(count, 2 * rounds)
    lines = []
    for name, (mean, half_width) in {
        "shuffled pairs": paired(generator, levels, 0.0),
        "blocks, t test": blocked(levels, 0.0),
    }.items():
        called = int((np.abs(mean) > half_width).sum())
        lines.append(f"- {name}: {called} of {count} A/A experiments called different")
    return "\n".join(lines)


def trials_to_find(noise: Noise, *, in_blocks: bool, effect: float) -> int | None:
    """Give the fewest trials with which four of five experiments find a difference.

    At 5 % of false alarms: the critical value is that of A/A experiments of the same size.
    None: 160 trials are not enough.
    """
    import numpy as np

    for rounds in (3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80):
        generator = np.random.default_rng(SEED)
        ratios = []
        for true in (0.0, effect):
            levels = noise(generator, EXPERIMENTS, 2 * rounds)
            mean, half_width = (
                blocked(levels, true) if in_blocks else paired(generator, levels, true)
            )
            ratios.append(np.abs(mean) / half_width)
        critical = max(1.0, float(np.quantile(ratios[0], 0.95)))
        if float(np.mean(ratios[1] > critical)) >= POWER:
            return 2 * rounds
    return None


def time_table() -> str:
    """Compare how many trials a real 10 % takes in pairs and in blocks; a Markdown table."""
    effect = math.log(EFFECTS["10 %"])
    quiet = 0.05 / LOG_SD  # a machine whose trials of one cell spread by 5 %

    def scaled(noise: Noise) -> Noise:
        return lambda generator, experiments, trials: quiet * noise(generator, experiments, trials)

    noises = {f"{name}, log sd 0.05": scaled(noise) for name, noise in NOISES.items()}
    del noises["real trials, log sd 0.05"]
    lines = ["| noise | trials in pairs | trials in blocks | ratio |", "| --- | --: | --: | --: |"]
    for name, noise in {**noises, "real trials": real}.items():
        pairs, blocks = (
            trials_to_find(noise, in_blocks=in_blocks, effect=effect) for in_blocks in (False, True)
        )
        ratio = f"{blocks / pairs:.1f}" if pairs and blocks else "-"
        if pairs and not blocks:
            ratio = f"above {160 / pairs:.1f}"
        shown = [str(count) if count else "more than 160" for count in (pairs, blocks)]
        lines.append(f"| {name} | {shown[0]} | {shown[1]} | {ratio} |")
    return "\n".join(lines)


def describe_series() -> str:
    """Say how the real trials spread."""
    import numpy as np

    levels = series()
    centred = levels - levels.mean()
    lag_1 = float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
    return (
        f"{levels.size} real trials: standard deviation {100 * float(np.std(levels)):.1f} %, "
        f"lag-1 autocorrelation {lag_1:.2f}."
    )


if __name__ == "__main__":
    print(describe_series())
    print(separate_experiments())
    print()
    print(table())
    print()
    print(time_table())
