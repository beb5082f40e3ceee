"""The reports of several machines side by side, as tables and ratios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit.analysis.comparable import differences, may_compare
from benchkit.analysis.metrics import METRICS
from benchkit.analysis.results import Comparison, Results
from benchkit.analysis.stats import format_ratio, holm, mean_interval
from benchkit.analysis.unpaired import trimmed_interval, unpaired_ratio
from benchkit.errors import Faults, FormatError
from benchkit.experiment.design import label_of
from benchkit.experiment.embedded import read_report
from benchkit.experiment.ledger import Record

if TYPE_CHECKING:
    import pandas as pd

    from benchkit.analysis.stats import Estimate
from benchkit.analysis.verdicts import Verdict, judge

Labels = Mapping[str, str]
Records = Mapping[str, Record]

REPORT = "report"
UNPAIRED = (
    "The reports were measured at different times, and no twin can stand beside such a comparison: "
    "what the machines themselves changed between the times is not in the intervals."
)


def read_reports(paths: Sequence[str | Path]) -> dict[str, Record]:
    """Read executed notebooks; each is labelled by its operating system.

    Raises
    ------
    FormatError
        A file is no executed notebook with a run in it, or its figures are not numbers.
    """
    records = [read_report(path) for path in paths]
    for path, record in zip(paths, records, strict=True):
        try:
            _ = Results(record).frame
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise FormatError(
                f"{path} carries trials whose figures cannot be read",
                evidence=f"{type(error).__name__}: {error}",
                advice="run the notebook again",
            ) from error
    return label_reports(records)


def label_reports(records: Sequence[Record]) -> dict[str, Record]:
    """Label reports by operating system, by host name too and a number where that repeats."""
    hosts = [record.specification["host"] for record in records]
    systems = [_joined(" ", host, "os_name", "os_version") or "unknown system" for host in hosts]
    labelled: dict[str, Record] = {}
    for record, host, system in zip(records, hosts, systems, strict=True):
        named = _joined(" on ", host | {"system": system}, "system", "hostname")
        label = wanted = named if systems.count(system) > 1 else system
        number = 1
        while label in labelled:
            number += 1
            label = f"{wanted} ({number})"
        labelled[label] = record
    return labelled


def _joined(between: str, host: Mapping[str, Any], *names: str) -> str:
    return between.join(str(host[name]) for name in names if host.get(name))


def side_by_side(records: Records, metric: str = "tps", trim: bool = True) -> pd.DataFrame:
    """Give one row per cell and report, without the twins.

    Parameters
    ----------
    records
        Label -> record, from :func:`read_reports`.
    metric
        A name from ``benchkit.analysis.metrics.METRICS``.
    trim
        The mean without the highest and the lowest trial, as the published protocol has it, and
        its interval; else the mean of all, as everywhere in benchkit.

    Returns
    -------
    pandas.DataFrame
        A column per factor (None where a report does not have it), ``report``, ``mean``, ``low``,
        ``high`` (95 %), in the metric's unit, and ``trials``, the number of usable ones.

    Raises
    ------
    InputError
        An unknown metric.
    """
    import pandas as pd

    _check_names(metric=(metric, METRICS))
    rows = []
    for label, record in records.items():
        results = Results(record)
        for levels in results.cells():
            values = list(results.values(levels, metric).values())
            interval = (
                trimmed_interval(values) if trim else mean_interval(values, log=metric == "tps")
            )
            about = {REPORT: label, **interval._asdict(), "trials": len(values)}
            rows.append({**levels, **about})
    columns = [*factors_of(records), REPORT, "mean", "low", "high", "trials"]
    frame = pd.DataFrame(rows).rename(columns={"value": "mean"}).reindex(columns=columns)
    return frame.astype(dict.fromkeys(("mean", "low", "high"), float))


def factors_of(records: Records) -> list[str]:
    """Name the factors of all reports, once each, in their order."""
    return list(dict.fromkeys(name for record in records.values() for name in _factors(record)))


def compare_reports(
    records: Records, against: str, metric: str = "tps", *, margin: float = 0.05
) -> list[Comparison]:
    """Compare each report with one of them, cell by cell, where both have the cell.

    Parameters
    ----------
    records
        Label -> record, from :func:`read_reports`.
    against
        The label of the report that the others are compared with.
    metric
        A name from ``benchkit.analysis.metrics.METRICS``.
    margin
        The smallest difference that matters, as a share.

    Returns
    -------
    list of Comparison
        Ratios as :func:`~benchkit.analysis.unpaired.unpaired_ratio` estimates them, of all usable
        trials, none trimmed; verdicts Holm-adjusted over all. The factor is ``report``.

    Raises
    ------
    InputError
        An unknown metric or report.

    Notes
    -----
    No twin stands beside these verdicts, see :func:`comparison_notes`.
    """
    _check_names(metric=(metric, METRICS), report=(against, records))
    pairs = list(_pairs(records, against, metric))
    adjusted = holm([estimate.p_value for _, _, estimate in pairs])
    found = METRICS[metric]
    return [
        Comparison(
            factor=REPORT,
            level=label,
            against=against,
            context=context,
            metric=found,
            estimate=estimate,
            adjusted_p=p,
            verdict=_incomparable(records, label, against)
            or judge(
                estimate,
                adjusted_p=p,
                margin=margin,
                words=found.words,
                twin=doubtful_twin(records, label, against, metric=metric),
            ),
        )
        for (label, context, estimate), p in zip(pairs, adjusted, strict=True)
    ]


def ratio_of_reports(
    records: Records, report: str, against: str, *, metric: str = "tps", **where: Any
) -> Estimate | None:
    """Estimate the ratio of one report to another in one cell, from all usable trials.

    Parameters
    ----------
    records
        Label -> record.
    report, against
        Their labels.
    metric
        A name from ``benchkit.analysis.metrics.METRICS``.
    **where
        The cell's levels: labels, or the values themselves. Other factors stay at their first.

    Returns
    -------
    Estimate or None
        None where the two are one report or cannot be compared, or one did not plan the cell.

    Raises
    ------
    InputError
        An unknown metric, report or factor.
    """
    _check_names(metric=(metric, METRICS), report=(report, records), against=(against, records))
    for name in where:
        _check_names(factor=(name, factors_of(records)))
    wanted = {name: label_of(level) for name, level in where.items()}
    sides = []
    for results in (Results(records[report]), Results(records[against])):
        for cell in [cell for cell in results.cells() if wanted.items() <= cell.items()][:1]:
            sides.append([*results.values(cell, metric).values()])
    if report == against or len(sides) < 2 or _incomparable(records, report, against):
        return None
    return unpaired_ratio(*sides)


def doubtful_twin(records: Records, *labels: str, metric: str = "tps") -> Estimate | None:
    """Give the twin that casts doubt on reports: one that differs from its baseline, else one.

    A difference between two reports can be told no better than each can tell its own noise.
    """
    twins = [Results(records[label]).twin(metric) for label in labels]
    known = [twin for twin in twins if twin is not None]
    return next((twin for twin in known if twin.differs), known[0] if known else None)


def _incomparable(records: Records, *labels: str) -> Verdict | None:
    """Give the verdict on reports in which differs what must be alike; None for all others."""
    found = may_compare(differences({label: records[label] for label in labels}))
    if found.kind != "bad":
        return None
    return Verdict(kind="not judged", text=f"not judged: {found.text}")


def comparison_notes(records: Records, metric: str = "tps") -> list[str]:
    """Give what a reader of such ratios must know: of the method, and of each report's own twin."""
    return [UNPAIRED, *_twin_notes(records, metric)]


def _pairs(records: Records, against: str, metric: str) -> Iterator[tuple[str, Labels, Estimate]]:
    base = Results(records[against])
    varying = [
        name
        for name in factors_of(records)
        if len({label for record in records.values() for label in _factors(record).get(name, ())})
        > 1
    ]
    # The labels of one and the same release may say where it was found: it is no other cell.
    if all(len(_factors(record).get("build", [])) <= 1 for record in records.values()):
        varying = [name for name in varying if name != "build"]
    cells = [({n: cell.get(n, "") for n in varying}, cell) for cell in base.cells()]
    for label, record in records.items():
        results = Results(record)
        for other in results.cells() if label != against else []:
            context = {name: other.get(name, "") for name in varying}
            for place, cell in cells:
                if place == context:
                    above, below = results.values(other, metric), base.values(cell, metric)
                    yield label, context, unpaired_ratio([*above.values()], [*below.values()])


def _factors(record: Record) -> Mapping[str, list[str]]:
    found: Mapping[str, list[str]] = record.specification["factors"]
    return found


def _twin_notes(records: Records, metric: str) -> Iterator[str]:
    for label, record in records.items():
        twin = Results(record).twin(metric)
        if twin is not None:
            doubt = ": its own noise looks like a difference" if twin.differs else ""
            yield f"{label}, the twin against the baseline: {format_ratio(twin)}{doubt}."


def _check_names(**given: tuple[str, Any]) -> None:
    faults = Faults()
    for kind, (name, known) in given.items():
        if name not in known:
            faults.unknown(kind, name, known, kind=kind)
    faults.raise_any()
