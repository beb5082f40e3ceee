"""Whether a run is of one piece: rounds that lack trials, breaks, other boots."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from benchkit.analysis.results import Results
from benchkit.units import show_duration

LONG_BREAK_S = 600.0
_BREAK_TRIALS = 5  # a break is longer than so many trials


def remarks(results: Results) -> list[str]:
    """Say what of a run is not of one piece, in sentences; none if all is."""
    return [*_missing(results), *_machines(results), *_breaks(results)]


def _missing(results: Results) -> Iterator[str]:
    bad = results.unusable
    if len(bad):
        rounds = ", ".join(str(number) for number in sorted(set(bad["round"])))
        yield (
            f"{len(bad)} trials of the rounds {rounds} are not usable: a comparison leaves a round "
            "out if one of its two cells lacks a trial there, and counts it as left out."
        )
    record = results.record
    if not record.complete:
        left = record.planned - len(record.entries)
        yield f"The run is not at its end: {left} of {record.planned} trials are missing."


def _machines(results: Results) -> Iterator[str]:
    for name, words in (("hostname", "machines"), ("boot_id", "boots of the machine")):
        found = {entry.get("host", {}).get(name) for entry in results.record.entries} - {None}
        if len(found) > 1:
            yield (
                f"Measured over {len(found)} {words}: within a round all is comparable, the level "
                "of one round is not that of another."
            )


def _breaks(results: Results) -> Iterator[str]:
    ordered = sorted(
        (entry for entry in results.record.entries if entry.get("started_at")),
        key=lambda entry: float(entry["started_at"]),
    )
    if len(ordered) < 3:
        return
    gaps = [
        after["started_at"] - before["started_at"] for before, after in itertools.pairwise(ordered)
    ]
    usual_s = sorted(gaps)[len(gaps) // 2]
    for gap_s, after in zip(gaps, ordered[1:], strict=True):
        if gap_s > max(LONG_BREAK_S, _BREAK_TRIALS * usual_s):
            yield f"A break of {show_duration(gap_s)} before a trial of round {after['round']}."
