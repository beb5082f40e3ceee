"""Where in an ordered list the first change is, believed from few and noisy measurements.

A noisy binary search. After every block of trials Bayes' rule says how probable it is that the
change is at each place, or nowhere; the next block is measured where that tells most.

The model: a block holds the good end and one or two other places, one trial each, close together
and in random order. On logarithms, its trials share whatever the host did to the block; from the
first changed place on they are shifted by one unknown amount; what is left over is noise of an
unknown size, now and then very large (Student's t with four degrees of freedom for the block as a
whole), so that one trial gone wrong does not decide.

Sources: Burnashev and Zigangirov, Problems of Information Transmission 10, 223-231, 1974 (measuring
at the median of the posterior); Lange, Little, Taylor, JASA 84, 881-896, 1989 (the t model).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from benchkit.analysis.stats import Interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FREEDOM = 4.0  # of Student's t: how readily a block is taken for an outlier
FEWEST_BLOCKS = 5
LARGEST_CHANGE = math.log(1000)
_STEPS = 28  # of the change's size, in each direction
_NOISE = (0.002, 0.5, 22)  # standard deviation of a trial's logarithm: from, to, steps
_FINE = 1601  # steps of the change's size for its interval


class ChangePoint:
    """What the blocks measured so far say of the place of the change.

    Parameters
    ----------
    places
        How many there are, the good end (place 0) included; at least 2.
    smallest_change
        The smallest change that matters, as a share.
    missing
        Places that cannot be measured. The place after one stands for both.

    Attributes
    ----------
    probabilities
        Shape (places,): that the first changed place is this one; at 0, that nothing changed.
    nothing_at_worst
        The probability that nothing changed if the change had the size that fits best. A change as
        small as the smallest that matters is one size among many, and would be overlooked too often
        by the mean over all of them.
    """

    def __init__(
        self, places: int, *, smallest_change: float, missing: Collection[int] = ()
    ) -> None:
        import numpy as np

        self.there = [place for place in range(places) if place not in missing]
        self._blocks: list[dict[int, float]] = []
        sizes = np.geomspace(math.log1p(smallest_change), LARGEST_CHANGE, _STEPS)
        self._shifts = np.concatenate([-sizes[::-1], sizes])
        self._noise = np.geomspace(*_NOISE)
        self._log_evidence = np.zeros((places, self._shifts.size, self._noise.size))
        # Half for "nothing changed"; a place that follows missing ones has their share too.
        self._prior = np.zeros(places)
        self._prior[0] = 0.5
        for before, place in zip(self.there, self.there[1:], strict=False):
            self._prior[place] = 0.5 * (place - before) / (places - 1)
        self.probabilities = self._prior / self._prior.sum()
        self.nothing_at_worst = float(self.probabilities[0])

    def add(self, block: Mapping[int, float]) -> None:
        """Learn from one block: place -> logarithm of what was measured.

        A block of fewer than two places says nothing.
        """
        import numpy as np

        known = {place: value for place, value in sorted(block.items()) if place in self.there}
        if len(known) < 2:
            return
        self._blocks.append(known)
        patterns = _block_evidence(known, self._shifts, self._noise)
        measured = list(known)
        for place in range(len(self._prior)):
            first = place or len(self._prior)  # place 0 stands for "nothing changed"
            self._log_evidence[place] += patterns[sum(at >= first for at in measured)]
        by_size = np.exp(self._log_evidence - self._log_evidence.max()).sum(axis=2)
        weights = by_size.mean(axis=1) * self._prior
        self.probabilities = weights / weights.sum()
        changed = (by_size[1:].max(axis=1) * self._prior[1:]).sum()
        self.nothing_at_worst = float(weights[0] / (weights[0] + changed))

    def certainty(self) -> float:
        """Give the probability of the likeliest answer; of "nothing changed", the one at worst."""
        if self.probabilities.argmax() == 0:
            return self.nothing_at_worst
        return float(self.probabilities.max())

    def settled(self, error: float) -> bool:
        """Tell whether the likeliest place is the answer, with at most this error.

        A quarter of the error is asked for: the rest is for what the model does not know. Five
        blocks are the fewest: a few that happen to agree make the noise look small. How often
        answers are wrong then is simulated by benchmarks/searches.py.
        """
        return len(self._blocks) >= FEWEST_BLOCKS and self.certainty() >= 1 - error / 4

    def next_block(self) -> list[int]:
        """Choose what to measure next: the good end, and where the change is as likely as not.

        Of the candidates, those where the probability that the change came so early is nearest to
        one and to two thirds.
        """
        import numpy as np

        candidates = self.there[1:]
        reached = np.cumsum(self.probabilities[1:])[[place - 1 for place in candidates]]
        chosen: list[int] = []
        for share in (1 / 3, 2 / 3):
            distance = np.abs(reached - share)
            distance[[candidates.index(place) for place in chosen]] = np.inf
            if np.isfinite(distance).any():
                chosen.append(candidates[int(distance.argmin())])
        return [0, *sorted(chosen)]

    def likeliest(self, probability: float) -> list[int]:
        """List the fewest places that hold the change with at least this probability."""
        import numpy as np

        order = np.argsort(-self.probabilities, kind="stable")
        count = int(np.searchsorted(np.cumsum(self.probabilities[order]), probability)) + 1
        return sorted(order[:count].tolist())

    def change(self, first: int, confidence: float = 0.95) -> Interval:
        """Estimate the change as a ratio, if `first` is the first changed place.

        The posterior median and a central interval; every size was equally likely before. It holds
        one model error: a second change elsewhere in the list is averaged in.
        """
        import numpy as np

        # Far enough: no single pair of trials showed more.
        seen = max((max(block.values()) - min(block.values()) for block in self._blocks), default=0)
        shifts = np.linspace(-seen - 0.1, seen + 0.1, _FINE)
        evidence = np.zeros((shifts.size, self._noise.size))
        for block in self._blocks:
            evidence += _block_evidence(block, shifts, self._noise)[sum(p >= first for p in block)]
        density = np.exp(evidence - evidence.max()).sum(axis=1)
        reached = np.cumsum(density) / density.sum()
        tail = (1 - confidence) / 2
        low, middle, high = np.exp(np.interp([tail, 0.5, 1 - tail], reached, shifts)).tolist()
        return Interval(middle, low, high)


def _block_evidence(block: Mapping[int, float], shifts: Floats, noise: Floats) -> dict[int, Any]:
    """Log likelihood of a block by how many of its last places are changed.

    Returns
    -------
    dict
        Number of changed places -> shape (shifts, noise).
    """
    import numpy as np

    values = np.array(list(block.values()))
    values -= values.mean()
    count, squares = values.size, float(values @ values)
    patterns = {}
    for changed in range(count + 1):
        shared = changed * (count - changed) / count
        last = float(values[count - changed :].sum()) if changed else 0.0
        rest = squares - 2 * shifts * last + shifts**2 * shared
        scaled = np.maximum(rest, 0.0)[:, None] / (FREEDOM * noise**2)
        power = (FREEDOM + count - 1) / 2
        patterns[changed] = -(count - 1) * np.log(noise) - power * np.log1p(scaled)
    return patterns
