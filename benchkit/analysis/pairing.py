"""Comparing two cells: values of the same round belong together, rounds of a session too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from benchkit.analysis.stats import Estimate, paired_ratio


def paired(
    values: Mapping[int, float],
    against: Mapping[int, float],
    *,
    confidence: float = 0.95,
    session_of: Callable[[int], int] = lambda number: number,
) -> Estimate:
    """Estimate a ratio from values by round; a round that only one of them has is left out.

    Rounds of one session share its loaded tables and are not independent: its geometric mean
    counts as one (Kalibera and Jones, ISMM 2013).
    """
    rounds = sorted(set(values) | set(against))
    pairs = [[side.get(number) for number in rounds] for side in (values, against)]
    by_round = paired_ratio(*pairs, confidence=confidence)
    groups: dict[int, list[float]] = {}
    for number, above, below in zip(rounds, *pairs, strict=True):
        if above and below and above > 0 and below > 0:
            groups.setdefault(session_of(number), []).append(math.log(above / below))
    if len(groups) == by_round.rounds:
        return by_round
    means = [math.exp(math.fsum(logs) / len(logs)) for logs in groups.values()]
    by_session = paired_ratio(means, [1.0] * len(means), confidence=confidence)
    return replace(by_session, dropped=by_round.dropped, unit="session")
