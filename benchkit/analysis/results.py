"""Results: a tidy table of trials, and the comparisons on it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchkit.analysis.metrics import METRICS, Metric
from benchkit.analysis.stats import (
    Estimate,
    Verdict,
    drift_per_minute,
    holm,
    judge,
    mean_interval,
    paired_ratio,
)
from benchkit.errors import Faults
from benchkit.experiment.ledger import Record

if TYPE_CHECKING:
    import pandas as pd

Labels = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two levels of a factor, with all other factors equal.

    Attributes
    ----------
    context
        The levels of the other factors.
    estimate
        Ratio of `level` to `against`, paired by round.
    """

    factor: str
    level: str
    against: str
    context: Labels
    metric: Metric
    estimate: Estimate
    adjusted_p: float | None
    verdict: Verdict

    @property
    def label(self) -> str:
        """A short text for plots."""
        place = ", ".join(f"{name}={label}" for name, label in self.context.items())
        return f"{self.level} against {self.against}" + (f" ({place})" if place else "")


class Results:
    """The trials of a run as a table, and what they say.

    Parameters
    ----------
    record
        From :meth:`Experiment.run`, or read back from disk.

    Attributes
    ----------
    frame
        A row per trial: a column per factor, ``twin``, ``round``, ``status``, ``reason``, and a
        column per metric.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        specification = record.specification
        self.factors: dict[str, list[str]] = dict(specification["factors"])
        self.baseline: dict[str, str] = dict(specification["baseline"])

    @functools.cached_property
    def frame(self) -> pd.DataFrame:
        """All trials, the rejected ones too."""
        import pandas as pd

        rows = []
        for entry in self.record.entries:
            values = {name: metric.read(entry) for name, metric in METRICS.items()}
            known = {name: entry[name] for name in ("key", "round", "position", "twin", "status")}
            rows.append(dict(entry["levels"]) | known | {"reason": _reason(entry)} | values)
        frame = pd.DataFrame(rows)
        numbers = [name for name in METRICS if name in frame]
        frame[numbers] = frame[numbers].apply(pd.to_numeric)
        return frame

    @property
    def usable(self) -> pd.DataFrame:
        """The trials that may be averaged."""
        return self.frame[self.frame["status"] == "usable"]

    @property
    def unusable(self) -> pd.DataFrame:
        """The trials that were rejected by a gate, or failed."""
        return self.frame[self.frame["status"] != "usable"]

    def flags(self) -> dict[str, int]:
        """Count the remarks of gates that only flag: text -> number of trials."""
        counts: dict[str, int] = {}
        for entry in self.record.entries:
            for gate in entry["gates"]:
                if not gate["rejects"]:
                    counts[gate["name"]] = counts.get(gate["name"], 0) + 1
        return counts

    def cells(self, **where: str) -> list[dict[str, str]]:
        """List the cells' levels, in the order of the specification, without the twin."""
        self._check_names(where, "tps")
        listed = [cell["levels"] for cell in self.record.specification["cells"] if not cell["twin"]]
        return [
            levels
            for levels in listed
            if all(levels[name] == value for name, value in where.items())
        ]

    def values(self, levels: Labels, metric: str, *, twin: bool = False) -> dict[int, float]:
        """Give a cell's values by round, of usable trials."""
        frame = self.usable
        chosen = frame["twin"] == twin
        for name, label in levels.items():
            chosen &= frame[name] == label
        rows = frame[chosen].dropna(subset=[metric])
        return dict(zip(rows["round"], rows[metric].astype(float), strict=True))

    def ratio(
        self, factor: str, level: str, against: str, *, metric: str = "tps", **where: str
    ) -> Estimate:
        """Estimate the ratio of two levels of a factor, paired by round.

        Other factors stay at their first levels, unless `where` names another.

        Raises
        ------
        InputError
            An unknown factor, level or metric.
        """
        self._check_names({factor: level, **where}, metric)
        self._check_names({factor: against}, metric)
        held = {name: levels[0] for name, levels in self.factors.items()} | where
        return _paired(
            self.values({**held, factor: level}, metric),
            self.values({**held, factor: against}, metric),
        )

    def twin(self, metric: str = "tps") -> Estimate | None:
        """Estimate the ratio of the twin to the baseline, which is identical to it."""
        for cell in self.record.specification["cells"]:
            if cell["twin"]:
                levels = cell["levels"]
                return _paired(self.values(levels, metric, twin=True), self.values(levels, metric))
        return None

    def compare(
        self,
        factor: str,
        *,
        metric: str = "tps",
        against: str | None = None,
        margin: float = 0.05,
        **where: str,
    ) -> list[Comparison]:
        """Compare the levels of a factor with one of them, wherever all else is equal.

        Parameters
        ----------
        factor
            Whose levels are compared.
        metric
            A name from ``benchkit.analysis.metrics.METRICS``.
        against
            The level to compare with: the baseline's, or the first.
        margin
            The smallest difference that matters, as a share.
        **where
            Only the cells with these levels of other factors.

        Returns
        -------
        list of Comparison
            Holm-adjusted over the list, each judged with the twin beside it.

        Raises
        ------
        InputError
            An unknown factor, level or metric.
        """
        self._check_names({factor: against, **where} if against else where, metric, factor)
        base = against or self.baseline.get(factor) or self.factors[factor][0]
        pairs = [
            (levels, {**levels, factor: base})
            for levels in self.cells(**where)
            if levels[factor] != base and {**levels, factor: base} in self.cells()
        ]
        estimates = [
            _paired(self.values(levels, metric), self.values(other, metric))
            for levels, other in pairs
        ]
        adjusted = holm([estimate.p_value for estimate in estimates])
        found = METRICS[metric]
        twin = self.twin(metric)
        return [
            Comparison(
                factor=factor,
                level=levels[factor],
                against=base,
                context=self._varying({k: v for k, v in levels.items() if k != factor}, pairs),
                metric=found,
                estimate=estimate,
                adjusted_p=p,
                verdict=judge(estimate, adjusted_p=p, margin=margin, twin=twin, words=found.words),
            )
            for (levels, _), estimate, p in zip(pairs, estimates, adjusted, strict=True)
        ]

    def _varying(self, context: Labels, pairs: Sequence[tuple[Labels, Labels]]) -> dict[str, str]:
        """Keep the levels that tell the compared pairs apart."""
        return {
            name: label
            for name, label in context.items()
            if len({levels[name] for levels, _ in pairs}) > 1
        }

    def _check_names(
        self, labels: Mapping[str, str | None], metric: str, factor: str | None = None
    ) -> None:
        faults = Faults()
        wanted: dict[str, str | None] = {factor: None} if factor else {}
        for name, label in (wanted | dict(labels)).items():
            if name not in self.factors:
                faults.unknown("results", name, self.factors, kind="factor")
            elif label is not None and label not in self.factors[name]:
                faults.unknown(f"factor {name}", label, self.factors[name], kind="level")
        if metric not in METRICS:
            faults.unknown("metric", metric, METRICS, kind="metric")
        faults.raise_any()

    def summary(self, metrics: Sequence[str], **where: str) -> pd.DataFrame:
        """Give one row per cell: levels, number of usable trials, mean of each metric."""
        import pandas as pd

        rows = []
        for levels in self.cells(**where):
            row: dict[str, Any] = dict(levels) | {"trials": len(self.values(levels, "tps"))}
            for name in metrics:
                values = list(self.values(levels, name).values())
                interval = mean_interval(values, log=name == "tps")
                row[METRICS[name].title] = interval.value
            rows.append(row)
        frame = pd.DataFrame(rows)
        varying = [name for name in self.factors if frame[name].nunique() > 1]
        return frame.drop(columns=[name for name in self.factors if name not in varying])

    @functools.cached_property
    def series(self) -> pd.DataFrame:
        """Usable trials second by second: factors, ``round``, ``time_s``, ``tps``, ``latency_ms``.

        The cluster of each trial is a fresh clone, so second 0 is the same for all.
        """
        import pandas as pd

        parts = []
        for _, row in self.usable[~self.usable["twin"]].iterrows():
            seconds = self.record.series(row["key"])
            if seconds is not None:
                labels = {name: row[name] for name in (*self.factors, "round", "key")}
                parts.append(seconds.assign(**labels))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def drift(self, **where: str) -> pd.DataFrame:
        """Give, per cell, how much the throughput changes in the course of a run.

        The slope of each trial's throughput over time, in per cent a minute, and over the trials
        its mean with a t interval: the spread between trials counts, not only that inside one.
        """
        import pandas as pd

        rows = []
        for levels in self.cells(**where):
            slopes = [
                drift_per_minute(part["time_s"].tolist(), part["tps"].tolist()).value
                for _, part in self._series_of(levels).groupby("key")
            ]
            interval = mean_interval(slopes, log=False)
            columns = {"slope": interval.value, "from": interval.low, "to": interval.high}
            rows.append(dict(levels) | {"trials": len(slopes)} | columns)
        frame = pd.DataFrame(rows)
        return frame.drop(columns=[n for n in self.factors if frame[n].nunique() == 1])

    def _series_of(self, levels: Labels) -> pd.DataFrame:
        chosen = self.series
        if chosen.empty:
            return chosen.assign(key=[])
        for name, label in levels.items():
            chosen = chosen[chosen[name] == label]
        return chosen


def _paired(values: Mapping[int, float], against: Mapping[int, float]) -> Estimate:
    rounds = sorted(set(values) | set(against))
    return paired_ratio(
        [values.get(number) for number in rounds], [against.get(number) for number in rounds]
    )


def _reason(entry: Mapping[str, Any]) -> str:
    closed = [f"{gate['name']}: {gate['message']}" for gate in entry["gates"] if gate["rejects"]]
    return "; ".join(closed) or entry["error"]
