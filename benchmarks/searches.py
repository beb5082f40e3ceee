"""How often the search for the first changed build is wrong, and what it costs, by simulation.

``python -m benchmarks.searches`` prints a Markdown table. Each simulated search has 64 builds, of
which one, drawn at random, is the first that is 10 % slower; trials have the noise of the row. It
is searched as :mod:`benchkit.analysis.bisect` does. Beside it: every build measured in so many
shuffled rounds, the likeliest place of the change by least squares; with the fewest rounds that are
right as often as the search.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchkit.analysis.changepoint import ChangePoint
from benchmarks.verdicts import LOG_SD, NOISE, SEED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from benchmarks.verdicts import Noise

    Floats = NDArray[np.float64]

BUILDS = 64
SEARCHES = 400
CHANGE = math.log(0.9)
ERROR = 0.05
MOST_TRIALS = 400
ROUNDS = range(2, 41)


def search(
    levels: Floats,
    first: int | None,
    generator: np.random.Generator,
    change: float = CHANGE,
) -> tuple[int | None, int]:
    """Search once on trials with this noise, in the order of time.

    Parameters
    ----------
    first
        The first changed build; None: nothing changed.
    change
        What is added to the logarithm from there on.

    Returns
    -------
    tuple
        The answer (0: nothing changed; None: undecided) and the number of trials.
    """
    belief = ChangePoint(BUILDS, smallest_change=0.05)
    used = 0
    while not belief.settled(ERROR):
        block = generator.permutation(belief.next_block()).tolist()
        if used + len(block) > levels.size:
            return None, used
        changed = [first is not None and build >= first for build in block]
        noise = levels[used : used + len(block)]
        shifts = [change if is_changed else 0.0 for is_changed in changed]
        belief.add({b: float(n) + s for b, n, s in zip(block, noise, shifts, strict=True)})
        used += len(block)
    return int(belief.probabilities.argmax()), used


def all_measured(
    noise: Noise, rounds: int, generator: np.random.Generator, searches: int, change: float
) -> float:
    """Measure every build in shuffled rounds; the share of right places by least squares."""
    import numpy as np

    right = 0
    levels = noise(generator, searches, rounds * BUILDS)
    for run in levels:
        first = int(generator.integers(1, BUILDS))
        order = np.array([generator.permutation(BUILDS) for _ in range(rounds)])
        means = np.zeros(BUILDS)
        for block, builds in zip(run.reshape(rounds, BUILDS), order, strict=True):
            means[builds] += (block - block.mean()) / rounds
        means[first:] += change
        centred = means - means.mean()
        sums = np.cumsum(centred)[:-1]
        places = np.arange(1, BUILDS)
        right += int(np.argmax(sums**2 / (places * (BUILDS - places)))) + 1 == first
    return right / searches


def rounds_as_good(noise: Noise, share: float, change: float) -> int | None:
    """Give the fewest shuffled rounds of all builds that are right at least this often."""
    import numpy as np

    for rounds in ROUNDS:
        if all_measured(noise, rounds, np.random.default_rng(SEED), SEARCHES, change) >= share:
            return rounds
    return None


def scaled(noise: Noise, log_sd: float) -> Noise:
    """Give the same noise with another standard deviation between the trials of one cell."""
    return lambda generator, searches, trials: (
        noise(generator, searches, trials) * (log_sd / LOG_SD)
    )


def line(name: str, noise: Noise, change: float = CHANGE) -> str:
    """Simulate one row of the table."""
    import numpy as np

    generator = np.random.default_rng(SEED)
    answers = []
    for levels in noise(generator, SEARCHES, MOST_TRIALS):
        first = int(generator.integers(1, BUILDS))
        answers.append((first, *search(levels, first, generator, change)))
    right = sum(first == answer for first, answer, _ in answers) / SEARCHES
    undecided = sum(answer is None for _, answer, _ in answers) / SEARCHES
    trials = float(np.mean([used for _, _, used in answers]))
    unchanged = [
        search(levels, None, generator) for levels in noise(generator, SEARCHES, MOST_TRIALS)
    ]
    alarms = sum(bool(answer) for answer, _ in unchanged) / SEARCHES
    rounds = rounds_as_good(noise, right, change)
    whole = f"{rounds * BUILDS} ({trials / (rounds * BUILDS):.2f})" if rounds else "more than 2,560"
    shares = [f"{100 * share:.1f}" for share in (right, 1 - right - undecided, undecided, alarms)]
    return f"| {name} | {' | '.join(shares)} | {trials:.0f} | {whole} |"


def main() -> None:
    """Print the table."""
    print(
        "| noise between trials | right % | wrong % | undecided % | nothing changed: wrong % "
        "| trials | all builds, as often right: trials (ratio) |"
    )
    print("| --- | --: | --: | --: | --: | --: | --: |")
    five = scaled(NOISE["independent, normal"], 0.05)
    print(line("independent, 5 %", five), flush=True)
    smallest = math.log(0.95)
    print(line("independent, 5 %; a change of 5 %, the smallest", five, smallest), flush=True)
    print(line("autocorrelated 0.61, 5 %", scaled(NOISE["autocorrelated, 0.61"], 0.05)), flush=True)
    quiet = scaled(NOISE["independent, normal"], 0.05)

    def outliers(generator: np.random.Generator, searches: int, trials: int) -> Floats:
        from benchmarks.verdicts import slow_outliers

        return quiet(generator, searches, trials) + slow_outliers(generator, searches, trials)

    print(line("5 %, and one trial in twenty at half the speed", outliers), flush=True)
    print(line("independent, 2 %", scaled(NOISE["independent, normal"], 0.02)), flush=True)


if __name__ == "__main__":
    main()
