"""When enough was measured: rounds are added until every comparison is decided, or time is up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from benchkit.analysis.metrics import METRICS
from benchkit.analysis.results import Results
from benchkit.errors import Faults
from benchkit.experiment.ledger import Record

FIRST_LOOK = 5
GROWTH = 1.5  # each look has half as many rounds again as the one before


@dataclass(frozen=True, kw_only=True)
class Until:
    """Ends an experiment when every comparison with the baseline is decided.

    Attributes
    ----------
    precision
        The smallest difference that matters, as a share: a comparison is decided when it shows a
        difference, or that there is none larger than this.
    time_budget_s
        Ends it too when this much time was spent on trials [s], decided or not; 0 is no limit.
    metric
        What is compared.

    Raises
    ------
    InputError
        A precision that is not above 0 and below 1, a negative budget or an unknown metric.

    Notes
    -----
    Looking after every round until it pleases finds differences that are not there. So the looks
    are planned before the first trial, after 5, 8, 12, 18, ... rounds, and the error of 5 % is
    shared equally among them (Bonferroni): every interval of such a run, also the last, is made at
    the confidence of one look, and holds whatever the rule that chose the look.
    """

    precision: float = 0.05
    time_budget_s: float = 0
    metric: str = "tps"

    def __post_init__(self) -> None:
        faults = Faults()
        if not 0 < self.precision < 1:
            faults.add("precision", f"{self.precision!r} is not above 0 and below 1")
        if self.time_budget_s < 0:
            faults.add("time_budget_s", f"{self.time_budget_s!r} is below 0")
        if self.metric not in METRICS:
            faults.unknown("metric", self.metric, METRICS, kind="metric")
        faults.raise_any()

    def describe(self, rounds: int) -> Mapping[str, Any]:
        """Give the rule as plain data, with the looks of a run of so many rounds at the most."""
        return asdict(self) | {"looks": planned_looks(rounds)}

    def reason_to_stop(self, record: Record, rounds_done: int, spent_s: float) -> str:
        """Say why enough was measured after a whole round; "" goes on."""
        looks = planned_looks(len(record.specification["order"]))
        if rounds_done in looks and self._decided(record):
            return f"every comparison was decided to {100 * self.precision:g} %"
        if self.time_budget_s and spent_s >= self.time_budget_s:
            return f"the time budget of {self.time_budget_s:g} s was spent"
        return ""

    def _decided(self, record: Record) -> bool:
        results = Results(record)
        verdicts = [
            item.verdict.kind
            for factor in results.factors
            for item in results.compare(factor, metric=self.metric, margin=self.precision)
        ]
        return bool(verdicts) and not {"undecided", "not judged"} & set(verdicts)


def planned_looks(rounds: int) -> list[int]:
    """List after which rounds a run of so many at the most is looked at; the last is always one."""
    looks = []
    at = FIRST_LOOK
    while at < rounds:
        looks.append(at)
        at = max(at + 1, round(at * GROWTH))
    return [*looks, rounds]
