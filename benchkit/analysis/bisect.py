"""The first build of an ordered list where a measure changed, found with few trials."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchkit.analysis.changepoint import ChangePoint
from benchkit.analysis.metrics import METRICS
from benchkit.analysis.stats import Interval, paired_ratio
from benchkit.errors import Faults
from benchkit.experiment.ledger import Record
from benchkit.experiment.search import FACTOR, Search
from benchkit.experiment.watch import Watch
from benchkit.postgres.builds import find
from benchkit.postgres.labels import labelled_builds
from benchkit.workload.pgbench import Workload

if TYPE_CHECKING:
    import pandas as pd

FAILURES = 2  # trials of a candidate without a usable one, after which it is left out


@dataclass(frozen=True, kw_only=True)
class FirstChange:
    """Goes on until the first changed candidate is known with a stated probability of error.

    Attributes
    ----------
    smallest_change
        The smallest change that matters, as a share.
    error
        The probability that is allowed for a wrong answer.
    metric
        What is compared.

    Raises
    ------
    InputError
        A share that is not above 0 and below 1, or an unknown metric.
    """

    smallest_change: float = 0.05
    error: float = 0.05
    metric: str = "tps"

    def __post_init__(self) -> None:
        faults = Faults()
        for name in ("smallest_change", "error"):
            if not 0 < getattr(self, name) < 1:
                faults.add(name, f"{getattr(self, name)!r} is not above 0 and below 1")
        if self.metric not in METRICS:
            faults.unknown("metric", self.metric, METRICS, kind="metric")
        faults.raise_any()

    def describe(self) -> Mapping[str, Any]:
        """Give the rule as plain data."""
        return asdict(self)

    def typical_trials(self, candidates: int) -> int:
        """Say about how many trials it takes where the change is twice the noise of a trial.

        From simulated searches (benchmarks/searches.py): some for the ends, and so many for each
        halving.
        """
        return round(16 + 6.5 * math.log2(candidates))

    def next_round(self, record: Record, unbuilt: Mapping[str, str]) -> tuple[list[str], str]:
        """Choose the candidates of the next round; none and the reason when it is enough."""
        labels = record.specification["factors"][FACTOR]
        left_out = {**unbuilt, **_unmeasurable(record, self.metric)}
        if missing := [label for label in (labels[0], labels[-1]) if label in left_out]:
            why = left_out[missing[0]]
            return [], f"{missing[0]}, an end of the list, cannot be measured: {why}"
        belief = believed(record, self, left_out)
        if belief.settled(self.error):
            return [], f"the answer is known, with an error of at most {100 * self.error:g} %"
        return [labels[place] for place in belief.next_block()], ""


def believed(record: Record, rule: FirstChange, left_out: Mapping[str, str]) -> ChangePoint:
    """Learn from every round of a record; a round's trials that are not usable are left out."""
    labels = record.specification["factors"][FACTOR]
    places = {label: place for place, label in enumerate(labels)}
    belief = ChangePoint(
        len(labels),
        smallest_change=rule.smallest_change,
        missing={places[label] for label in left_out},
    )
    blocks: dict[int, dict[int, float]] = {}
    for entry in record.entries:
        if (value := _usable(entry, rule.metric)) is not None:
            place = places[entry["levels"][FACTOR]]
            blocks.setdefault(entry["round"], {})[place] = math.log(value)
    for block in blocks.values():
        belief.add(block)
    return belief


def _usable(entry: Mapping[str, Any], metric: str) -> float | None:
    """Give what a usable trial measured, if a logarithm can be taken of it."""
    value = METRICS[metric].read(entry) if entry["status"] == "usable" else None
    return value if value is not None and value > 0 else None


def _unmeasurable(record: Record, metric: str) -> dict[str, str]:
    """Give the candidates whose trials failed again and again, with the last reason."""
    usable, failed = Counter[str](), Counter[str]()
    reasons = {}
    for entry in record.entries:
        label = entry["levels"][FACTOR]
        if _usable(entry, metric) is not None:
            usable[label] += 1
            continue
        failed[label] += 1
        closed = [gate["message"] for gate in entry["gates"] if gate["rejects"]]
        empty = f"{METRICS[metric].title.lower()} was 0 or not counted"
        reasons[label] = "; ".join(closed) or entry["error"] or empty
    return {
        label: f"{failed[label]} trials, none usable: {reason}"
        for label, reason in reasons.items()
        if failed[label] >= FAILURES and not usable[label]
    }


class Found:
    """What a search found.

    Parameters
    ----------
    record
        Of an ended search, or of one that is still at work.

    Attributes
    ----------
    labels
        The candidates in order, the good end first.
    first
        The first changed candidate; None where nothing changed, or where it is not decided.
    decided
        Whether the answer has the probability that was asked for.
    probability
        Of the likeliest answer.
    among
        The fewest candidates that hold the first change with the probability asked for; the good
        end among them stands for "nothing changed".
    left_out
        Candidates that could not be built or measured -> why.
    change
        The ratio of the changed ones to the good end, with a 95 % interval; without an answer
        that something changed, unknown.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        asked = record.specification.get("search") or {}
        if not asked:
            faults = Faults()
            faults.add("record", "this run is no search: read_report(path, search=True) reads one")
            faults.raise_any()
        self.rule = FirstChange(
            smallest_change=asked["smallest_change"], error=asked["error"], metric=asked["metric"]
        )
        self.labels: list[str] = list(record.specification["factors"][FACTOR])
        self.about: dict[str, str] = dict(asked["about"])
        named = (record.stopped or {}).get("unbuilt", {})
        unbuilt = {label: why for label, why in named.items() if label in self.labels}
        self.left_out: dict[str, str] = {**unbuilt, **_unmeasurable(record, self.rule.metric)}
        self._belief = believed(record, self.rule, self.left_out)
        likelihood = self._belief.probabilities
        place = int(likelihood.argmax())
        self.probability = self._belief.certainty()
        self.decided = self._belief.settled(self.rule.error)
        self.first = self.labels[place] if self.decided and place else None
        self.among = [self.labels[at] for at in self._belief.likeliest(1 - self.rule.error)]
        self.change = self._belief.change(place) if self.first else Interval()

    @property
    def nothing_changed(self) -> bool:
        """Whether the answer is that no change as large as asked for is in the list."""
        return self.decided and self.first is None

    @property
    def before(self) -> list[str]:
        """The last candidate that was found good, and after it those left out before `first`."""
        if self.first is None:
            return []
        place = self.labels.index(self.first) - 1
        skipped = []
        while self.labels[place] in self.left_out:
            skipped.append(self.labels[place])
            place -= 1
        return [self.labels[place], *reversed(skipped)]

    def frame(self) -> pd.DataFrame:
        """Give a row per measured candidate, in order.

        Returns
        -------
        pandas.DataFrame
            ``candidate``, ``place``, ``trials`` (usable), ``ratio``, ``low``, ``high`` (to the
            good end, paired by round, 95 %), ``probability`` (to be the first changed one).
        """
        import pandas as pd

        values: dict[str, dict[int, float | None]] = {label: {} for label in self.labels}
        for entry in self.record.entries:
            if entry["status"] == "usable":
                read = METRICS[self.rule.metric].read(entry)
                values[entry["levels"][FACTOR]][entry["round"]] = read
        good = values[self.labels[0]]
        rows = []
        for place, label in enumerate(self.labels):
            own = values[label]
            both = sorted(set(own) & set(good)) if place else []
            ratio = paired_ratio([own[at] for at in both], [good[at] for at in both])
            rows.append(
                {
                    "candidate": label,
                    "place": place,
                    "trials": len(own),
                    "ratio": ratio.ratio if place else 1.0,
                    "low": ratio.low,
                    "high": ratio.high,
                    "probability": float(self._belief.probabilities[place]) if place else None,
                }
            )
        frame = pd.DataFrame(rows)
        return frame[frame["trials"] > 0].reset_index(drop=True)


class Bisection(Search):
    """A search for the first of an ordered list of builds where a measure changed.

    Parameters
    ----------
    name
        Names the directory of its runs.
    builds
        In order, the good end first: builds, versions or directories; or label -> build, or what
        is set (settings, workload fields, ``build``), or a function that makes one when it is
        needed, such as those of :func:`benchkit.builds_or_commits`.
    workload
        What is measured.
    smallest_change, error, metric
        See :class:`FirstChange`.
    most_trials, fresh_loads, seed, about, **common
        See :class:`benchkit.experiment.search.Search`.

    Raises
    ------
    InputError
        Every fault at once; nothing was started.

    Notes
    -----
    It supposes one change: from some candidate on all differ by the same ratio. Where there are
    several, it finds a place where good and changed ones meet, and the table shows levels that
    are neither. Each build is loaded once (unless `fresh_loads`) and is one program: what its load
    or its layout in memory adds to its throughput counts as that build's, so a change that is not
    larger than that is not to be searched for.
    """

    def __init__(
        self,
        name: str,
        builds: Mapping[str, Any] | Sequence[Any],
        workload: Workload,
        *,
        smallest_change: float = 0.05,
        error: float = 0.05,
        metric: str = "tps",
        **common: Any,
    ) -> None:
        rule = FirstChange(smallest_change=smallest_change, error=error, metric=metric)
        if not isinstance(builds, Mapping):
            builds = labelled_builds([find(build) for build in builds])
        super().__init__(name, builds, strategy=rule, workload=workload, **common)


def bisect(
    builds: Mapping[str, Any] | Sequence[Any],
    workload: Workload,
    *,
    name: str = "bisect",
    watch: Watch | None = None,
    fresh: bool = False,
    **asked: Any,
) -> Found:
    """Find the first build of an ordered list where throughput changed.

    A noisy binary search: each round measures the good end and the one or two candidates that
    tell most, in random order, until the answer has the probability asked for. Parameters as of
    :class:`Bisection`; `watch` and `fresh` as of :meth:`Experiment.run`.

    Examples
    --------
    >>> found = bk.bisect(["16.14", "17.10", "18.6"], bk.Workload(duration_s=5))  # doctest: +SKIP
    >>> found.first, found.change  # doctest: +SKIP
    """
    return Found(Bisection(name, builds, workload, **asked).run(watch=watch, fresh=fresh))
