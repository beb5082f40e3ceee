"""Results: a tidy table of trials, and the comparisons on it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchkit.analysis.metrics import METRICS, Metric
from benchkit.analysis.pairing import paired
from benchkit.analysis.stats import Estimate, holm, mean_interval
from benchkit.analysis.verdicts import Verdict, judge
from benchkit.errors import Fault, Faults, InputError
from benchkit.experiment.design import label_of, session_of
from benchkit.experiment.ledger import Record
from benchkit.units import by_size

if TYPE_CHECKING:
    import pandas as pd

Labels = Mapping[str, str]
Values = dict[int, float]


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
    confidence
        Of its intervals: 0.95, and more where rounds were added until all was decided.
    frame
        A row per trial: a column per factor, ``twin``, ``round``, ``status``, ``reason``, and a
        column per metric.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        specification = record.specification
        self.factors: dict[str, list[str]] = dict(specification["factors"])
        self.baseline: dict[str, str] = dict(specification["baseline"])
        looks = (specification.get("until") or {}).get("looks") or [0]
        # A run that may end early is looked at several times, and the error is shared among them.
        self.confidence = 1 - 0.05 / len(looks)

    @functools.cached_property
    def frame(self) -> pd.DataFrame:
        """All trials, the rejected ones too."""
        import pandas as pd

        rows = []
        for entry in self.record.entries:
            values = {name: metric.read(entry) for name, metric in METRICS.items()}
            known = {name: entry[name] for name in ("key", "round", "position", "twin", "status")}
            rows.append(dict(entry["levels"]) | known | {"reason": _reason(entry)} | values)
        about = ["key", "round", "position", "twin", "status", "reason"]
        frame = pd.DataFrame(rows, columns=[*self.factors, *about, *METRICS])
        frame[list(METRICS)] = frame[list(METRICS)].apply(pd.to_numeric)
        return frame.astype({"twin": bool})

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

    def cells(self, **where: Any) -> list[dict[str, str]]:
        """List the cells' levels, in the order of the specification, without the twin.

        Parameters
        ----------
        **where
            Only the cells with these levels of factors: labels, or the values themselves.

        Raises
        ------
        InputError
            An unknown factor or level, or no such cell was planned.
        """
        labels = _labels(where)
        self._check_names(labels)
        listed = [cell["levels"] for cell in self.record.specification["cells"] if not cell["twin"]]
        found = [levels for levels in listed if labels.items() <= levels.items()]
        if not found:
            raise InputError([Fault(where="results", problem=_not_planned(labels))])
        return found

    def values(self, levels: Mapping[str, Any], metric: str, *, twin: bool = False) -> Values:
        """Give a cell's values by round, of usable trials."""
        frame = self.usable
        chosen = frame["twin"] == twin
        for name, label in _labels(levels).items():
            chosen &= frame[name] == label
        rows = frame[chosen].dropna(subset=[metric])
        return dict(zip(rows["round"], rows[metric].astype(float), strict=True))

    def ratio(
        self, factor: str, level: Any, against: Any, *, metric: str = "tps", **where: Any
    ) -> Estimate:
        """Estimate the ratio of two levels of a factor, paired by round.

        Other factors stay at their first levels, unless `where` names another.

        Raises
        ------
        InputError
            An unknown factor, level or metric, or a cell that was not planned.
        """
        self._check_names(_labels({factor: level, **where}), metric)
        self._check_names(_labels({factor: against}))
        held = {name: levels[0] for name, levels in self.factors.items()} | where
        pair = [self.cells(**{**held, factor: label})[0] for label in (level, against)]
        return self.paired(self.values(pair[0], metric), self.values(pair[1], metric))

    def ratio_if_measured(
        self, factor: str, level: Any, against: Any, *, metric: str = "tps", **where: Any
    ) -> Estimate | None:
        """Estimate a ratio as :meth:`ratio` does; None where no two such cells were planned."""
        held = {name: levels[0] for name, levels in self.factors.items()} | _labels(where)
        pair = [held | _labels({factor: label}) for label in (level, against)]
        planned = self.cells()
        if pair[0] == pair[1] or not all(levels in planned for levels in pair):
            return None
        return self.ratio(factor, level, against, metric=metric, **where)

    def twin(self, metric: str = "tps") -> Estimate | None:
        """Estimate the ratio of the twin to the baseline, which is identical to it."""
        for cell in self.record.specification["cells"]:
            if cell["twin"]:
                levels = cell["levels"]
                own = self.values(levels, metric)
                return self.paired(self.values(levels, metric, twin=True), own)
        return None

    def compare(
        self,
        factor: str,
        *,
        metric: str = "tps",
        against: Any = None,
        margin: float = 0.05,
        **where: Any,
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
        self._check_names(_labels(where), metric, factor)
        base = self.baseline.get(factor) or self.factors[factor][0]
        if against is not None:
            base = label_of(against)
            self._check_names({factor: base})
        planned = self.cells()
        pairs = [
            (levels, {**levels, factor: base})
            for levels in self.cells(**where)
            if levels[factor] != base and {**levels, factor: base} in planned
        ]
        estimates = [
            self.paired(self.values(levels, metric), self.values(other, metric))
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

    def paired(self, values: Mapping[int, float], against: Mapping[int, float]) -> Estimate:
        """Estimate a ratio from values by round, with this run's confidence and sessions."""
        return paired(values, against, confidence=self.confidence, session_of=self._session_of)

    def _session_of(self, round_number: int) -> int:
        """Give the session of a round; where there is one only, each round stands for itself."""
        specification = self.record.specification
        sessions = specification.get("sessions") or 1
        if sessions == 1:
            return round_number
        return session_of(round_number, specification["rounds"], sessions)

    def _varying(self, context: Labels, pairs: Sequence[tuple[Labels, Labels]]) -> dict[str, str]:
        """Keep the levels that tell the compared pairs apart."""
        return {
            name: label
            for name, label in context.items()
            if len({levels[name] for levels, _ in pairs}) > 1
        }

    def _check_names(
        self, labels: Labels, metric: str | Sequence[str] = (), factor: str | None = None
    ) -> None:
        faults = Faults()
        for name in {**labels, **({factor: ""} if factor else {})}:
            if name not in self.factors:
                faults.unknown("results", name, self.factors, kind="factor")
            elif name in labels and labels[name] not in self.factors[name]:
                faults.unknown(f"factor {name}", labels[name], self.factors[name], kind="level")
        for name in [metric] if isinstance(metric, str) else metric:
            if name not in METRICS:
                faults.unknown("metric", name, METRICS, kind="metric")
        faults.raise_any()

    def summary(self, metrics: Sequence[str], **where: Any) -> pd.DataFrame:
        """Give one row per cell: levels, number of usable trials, mean of each metric.

        Raises
        ------
        InputError
            An unknown metric, factor or level, or no such cell was planned.
        """
        import pandas as pd

        self._check_names({}, metrics)
        rows = []
        ranks = {name: by_size(levels) for name, levels in self.factors.items()}
        cells = self.cells(**where)
        for levels in sorted(cells, key=lambda cell: [ranks[n].index(cell[n]) for n in ranks]):
            row: dict[str, Any] = dict(levels) | {"trials": len(self.values(levels, "tps"))}
            for name in metrics:
                values = list(self.values(levels, name).values())
                interval = mean_interval(values, log=name == "tps")
                row[METRICS[name].title] = interval.value
            rows.append(row)
        frame = pd.DataFrame(rows)
        same = [name for name in self.factors if frame[name].nunique() == 1]
        return frame.drop(columns=same)

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

    def series_of(self, levels: Labels) -> pd.DataFrame:
        """Give the part of :attr:`series` that belongs to one cell."""
        chosen = self.series
        if chosen.empty:
            return chosen.assign(key=[])
        for name, label in levels.items():
            chosen = chosen[chosen[name] == label]
        return chosen


def _labels(levels: Mapping[str, Any]) -> dict[str, str]:
    """Write levels as labels: a notebook has 8 or a build where the record has a text."""
    return {name: label_of(level) for name, level in levels.items()}


def _not_planned(labels: Labels) -> str:
    shown = ", ".join(f"{name}={label}" for name, label in labels.items())
    return f"no cell was planned with {shown}: no grid crosses these factors"


def _reason(entry: Mapping[str, Any]) -> str:
    closed = [f"{gate['name']}: {gate['message']}" for gate in entry["gates"] if gate["rejects"]]
    return "; ".join(closed) or entry["error"]
