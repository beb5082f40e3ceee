"""How often benchkit's verdicts are wrong, by simulation, beside the usual way of measuring.

``python benchmarks/verdicts.py`` prints a Markdown table. Each simulated experiment measures two
cells A and B, one trial after the other, on a host with the noise of the row:

- paired: complete rounds, A and B in random order, judged by :mod:`benchkit.analysis.stats`;
- blocked: all trials of A, then all of B, judged by Welch's t test on logarithms.

False alarms: identical servers that are called different at 95 % confidence. Coverage: intervals
that hold the true ratio (B is made 20 % faster). Finds: how often that B is called faster.
With 4,000 simulations a share near 5 or 95 % is known to about 0.7. Nothing is written to disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from benchkit.analysis.stats import t_interval
from benchkit.analysis.stopping import planned_looks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Noise = Callable[[np.random.Generator, int, int], Floats]

SIMULATIONS = 4000
ROUNDS = (3, 5, 10, 20)
SEED = 20261130
LOG_SD = 0.19  # between trials of one cell, on a noisy host
CORRELATION = 0.61  # between a trial and the next one, on the same host
TRUE_RATIO = 1.2
MOST_ROUNDS = 40  # of a run that ends when it is decided
MARGIN = 0.05


def independent(
    generator: np.random.Generator, experiments: int, trials: int, log_sd: float = LOG_SD
) -> Floats:
    """Log tps of trials in the order of time, shape (experiments, trials): nothing but noise."""
    return generator.normal(0, log_sd, (experiments, trials))


def autocorrelated(
    generator: np.random.Generator, experiments: int, trials: int, log_sd: float = LOG_SD
) -> Floats:
    """Each trial resembles the one before it: a stationary AR(1) process."""
    import numpy as np

    steps = independent(generator, experiments, trials, log_sd)
    levels = np.empty_like(steps)
    levels[:, 0] = steps[:, 0]
    for trial in range(1, trials):
        fresh = steps[:, trial] * math.sqrt(1 - CORRELATION**2)
        levels[:, trial] = CORRELATION * levels[:, trial - 1] + fresh
    return levels


def slow_outliers(generator: np.random.Generator, experiments: int, trials: int) -> Floats:
    """Make one trial in twenty run at half the speed; to be added to another noise."""
    import numpy as np

    return np.where(generator.random((experiments, trials)) < 0.05, np.log(0.5), 0.0)


def drift(trials: int) -> Floats:
    """Make every trial 2 % slower than the one before it; to be added to another noise."""
    import numpy as np

    return math.log(0.98) * np.arange(trials, dtype=float)


def all_together(
    generator: np.random.Generator, experiments: int, trials: int, log_sd: float = LOG_SD
) -> Floats:
    """Autocorrelation, outliers and drift at once."""
    levels = autocorrelated(generator, experiments, trials, log_sd)
    return levels + slow_outliers(generator, experiments, trials) + drift(trials)


NOISE: dict[str, Noise] = {
    "independent, normal": independent,
    "autocorrelated, 0.61": autocorrelated,
    "slow outliers, 5 % at 0.5x": lambda g, e, t: independent(g, e, t) + slow_outliers(g, e, t),
    "drift, -2 % a trial": lambda g, e, t: independent(g, e, t) + drift(t),
    "all three": all_together,
    "all three, quiet host (log sd 0.02)": lambda g, e, t: all_together(g, e, t, 0.02),
}


def paired(generator: np.random.Generator, levels: Floats, effect: float) -> tuple[Floats, Floats]:
    """Deal trials to A and B at random within each round of two, and judge in pairs.

    Parameters
    ----------
    levels
        Log tps in the order of time, shape (experiments, 2 * rounds).
    effect
        What is added to the log tps of B.

    Returns
    -------
    tuple
        Estimated effect and half width of its interval, shape (experiments,) each.
    """
    import numpy as np

    rounds = levels.reshape(levels.shape[0], -1, 2)
    b_first = generator.random(rounds.shape[:2]) < 0.5
    second_less_first = rounds[..., 1] - rounds[..., 0]
    mean, half_width, _ = t_interval(
        np.where(b_first, -second_less_first, second_less_first) + effect
    )
    return mean, half_width


def blocked(levels: Floats, effect: float) -> tuple[Floats, Floats]:
    """Deal the first half of the trials to A and the rest to B; parameters as :func:`paired`.

    Source of the interval: Welch, Biometrika 34, 28-35, 1947.
    """
    import numpy as np
    from scipy.special import stdtrit

    count = levels.shape[-1] // 2
    a, b = levels[:, :count], levels[:, count:] + effect
    error_a, error_b = (side.var(axis=-1, ddof=1) / count for side in (a, b))
    error = error_a + error_b
    freedom = error**2 * (count - 1) / (error_a**2 + error_b**2)
    half_width = stdtrit(freedom, 0.975) * np.sqrt(error)
    return b.mean(axis=-1) - a.mean(axis=-1), np.asarray(half_width, dtype=float)


def percentages(noise: Noise, rounds: int, simulations: int, seed: int) -> list[float]:
    """Simulate one line of the table, in percent of the simulations.

    Returns
    -------
    list
        Paired: false alarms, coverage, finds; blocked: false alarms, coverage.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    effect = math.log(TRUE_RATIO)

    def levels() -> Floats:  # fresh ones for every column: not the same luck twice
        return noise(generator, simulations, 2 * rounds)

    mean, half_width = paired(generator, levels(), 0.0)
    outcomes = [np.abs(mean) > half_width]
    mean, half_width = paired(generator, levels(), effect)
    outcomes += [np.abs(mean - effect) <= half_width, mean > half_width]
    mean, half_width = blocked(levels(), 0.0)
    outcomes += [np.abs(mean) > half_width]
    mean, half_width = blocked(levels(), effect)
    outcomes += [np.abs(mean - effect) <= half_width]
    return [100 * float(outcome.mean()) for outcome in outcomes]


def table(simulations: int = SIMULATIONS, seed: int = SEED) -> str:
    """Simulate every noise and number of rounds; a Markdown table, percentages."""
    lines = [
        "| noise between trials | rounds | paired: false alarms % | paired: coverage % "
        "| paired: finds +20 % | blocked: false alarms % | blocked: coverage % |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for name, noise in NOISE.items():
        for rounds in ROUNDS:
            cells = " | ".join(f"{p:.1f}" for p in percentages(noise, rounds, simulations, seed))
            lines.append(f"| {name} | {rounds} | {cells} |")
    return "\n".join(lines)


def sequential(
    generator: np.random.Generator, levels: Floats, effect: float, confidence: float
) -> tuple[Floats, Floats, Floats]:
    """Judge in pairs at the planned looks, each at a confidence, and stop at the first decision.

    A decision is an interval without 0, or one within the margin. Parameters as :func:`paired`.

    Returns
    -------
    tuple
        Estimated effect and half width of its interval where it stopped, and the rounds measured.
    """
    import numpy as np

    rounds = levels.reshape(levels.shape[0], -1, 2)
    b_first = generator.random(rounds.shape[:2]) < 0.5
    second_less_first = rounds[..., 1] - rounds[..., 0]
    differences = np.where(b_first, -second_less_first, second_less_first) + effect
    mean, half_width, used = (np.full(levels.shape[0], np.nan) for _ in range(3))
    for look in planned_looks(rounds.shape[1]):
        open_ones = np.isnan(used)
        here, width, _ = t_interval(differences[open_ones, :look], confidence)
        decided = (np.abs(here) > width) | (np.abs(here) + width <= math.log1p(MARGIN))
        decided |= look == rounds.shape[1]
        at = np.flatnonzero(open_ones)[decided]
        mean[at], half_width[at], used[at] = here[decided], width[decided], look
    return mean, half_width, used


def sequential_table(simulations: int = SIMULATIONS, seed: int = SEED) -> str:
    """Simulate runs that end when they are decided; a Markdown table."""
    import numpy as np

    looks = planned_looks(MOST_ROUNDS)
    shared = 1 - 0.05 / len(looks)
    lines = [
        f"| noise between trials | planned: false alarms % | planned: coverage % (A/A) "
        f"| planned: coverage % (+20 %) | rounds until decided (A/A, +20 %; {MOST_ROUNDS} at most) "
        "| looking at 95 % each time: false alarms % |",
        "| --- | --: | --: | --: | --: | --: |",
    ]
    for name, noise in NOISE.items():
        generator = np.random.default_rng(seed)
        cells, rounds = [], []
        for effect in (0.0, math.log(TRUE_RATIO)):
            levels = noise(generator, simulations, 2 * MOST_ROUNDS)
            mean, width, used = sequential(generator, levels, effect, shared)
            cells += [100 * float(np.mean(np.abs(mean) > width))] if not effect else []
            cells.append(100 * float(np.mean(np.abs(mean - effect) <= width)))
            rounds.append(f"{np.median(used):.0f}")
        levels = noise(generator, simulations, 2 * MOST_ROUNDS)
        mean, width, _ = sequential(generator, levels, 0.0, 0.95)
        naive = 100 * float(np.mean(np.abs(mean) > width))
        shown = " | ".join(f"{cell:.1f}" for cell in cells)
        lines.append(f"| {name} | {shown} | {', '.join(rounds)} | {naive:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
    print()
    print(sequential_table())
