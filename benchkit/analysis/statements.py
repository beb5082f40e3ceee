"""Latency of each statement of a script, and what makes the difference between two levels.

Measured with ``Workload(per_statement=True)``. pgbench reports the mean of each statement over
the whole run, from 9.6 on rounded to 0.001 ms: what is smaller than that is not to be seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchkit.analysis.results import Results
from benchkit.analysis.stats import Estimate, Interval, format_ratio, holm, mean_interval
from benchkit.analysis.verdicts import Verdict, judge
from benchkit.errors import Fault, InputError

if TYPE_CHECKING:
    import pandas as pd

ROUNDING_MS = 0.001  # pgbench.c prints "%11.3f" from 9.6 on, "%f" before
MARGIN = 0.05
LONGEST_NAME = 40
Values = Mapping[int, float]

_BUILTIN = re.compile(
    r"(UPDATE|INSERT|SELECT)\s+(?:INTO\s+|\w+\s+FROM\s+)?"
    r"(?:pgbench_)?(accounts|branches|tellers|history)\b"
)
# \setrandom was 9.1's to 9.5's; a published table may have lost the backslash.
_SET = re.compile(r"\\set(?:random)?\s+(\w+)|setrandom (\w+)$")
_CLIENT_SIDE = re.compile(r"\\|set(?:random)? \w+$")


@dataclass(frozen=True, kw_only=True)
class StatementComparison:
    """One statement under two levels of a factor, with all else equal.

    Attributes
    ----------
    level_ms, against_ms
        Mean latency [ms] over the rounds that both have, else over its own. None: not measured.
    difference_ms
        `level` - `against` [ms], with the paired t interval of 95 %; no ends below 3 rounds.
    estimate
        The ratio of `level` to `against`, paired by round.
    adjusted_p
        The p-value of the ratio, Holm-adjusted over the statements compared.
    twin
        The twin's ratio for this statement; None without a twin.
    """

    statement: str
    level: str
    against: str
    level_ms: float | None
    against_ms: float | None
    difference_ms: Interval
    estimate: Estimate
    adjusted_p: float | None
    verdict: Verdict
    twin: Estimate | None


def statement_name(text: str) -> str:
    r"""Give a short name that is the same in the reports of all versions and in published tables.

    ``UPDATE accounts`` and the like for the statements of the built-in scripts, ``set aid`` for
    ``\set`` and ``\setrandom``; of any other the first 40 characters, in one line.
    """
    line = " ".join(text.split()).rstrip("; ")
    if found := _BUILTIN.match(line):
        return f"{found[1]} {found[2]}"
    if found := _SET.match(line):
        return f"set {found[1] or found[2]}"
    return line[:LONGEST_NAME].rstrip()


def statements(results: Results, **where: Any) -> pd.DataFrame:
    r"""Give a row per usable trial and statement; the twin is left out.

    Parameters
    ----------
    **where
        Only the cells with these levels.

    Returns
    -------
    DataFrame
        A column per factor, ``round``, ``position`` (in its script, from 1), ``statement`` (each
        name once in a trial), ``client_side`` (a command that pgbench does by itself, as
        ``\set``) and ``latency_ms``: the mean over the run, rounded by pgbench. No rows: nothing
        was measured per statement.

    Raises
    ------
    InputError
        An unknown factor or level, or no such cell was planned.
    """
    cells = results.cells(**where)
    frame = _all_trials(results)
    frame = frame[~frame["twin"]].drop(columns="twin")
    kept = [levels in cells for levels in frame[list(results.factors)].to_dict("records")]
    return frame.loc[kept].reset_index(drop=True)


def compare_statements(
    results: Results, factor: str, *, level: Any, against: Any, meta: bool = False, **where: Any
) -> list[StatementComparison]:
    r"""Compare the latency of each statement under two levels of a factor, paired by round.

    Parameters
    ----------
    factor, level, against
        Whose levels, and which two; `level` is divided by `against`.
    meta
        Compare what pgbench does by itself too, as ``\set``: no server takes part in it.
    **where
        Levels of other factors; those not named stay at their first.

    Returns
    -------
    list of StatementComparison
        In the order of the script; verdicts Holm-adjusted over the list, each with the twin's
        ratio for the same statement beside it. A difference that rounding to 0.001 ms could
        have made is left undecided.

    Raises
    ------
    InputError
        An unknown factor or level, a cell that was not planned, or nothing was measured per
        statement.
    """
    held = {name: levels[0] for name, levels in results.factors.items()} | where
    above_cell, below_cell = (
        results.cells(**(held | {factor: label}))[0] for label in (level, against)
    )
    frame = _all_trials(results)
    if frame.empty:
        problem = "no trial has latencies of statements: measure with Workload(per_statement=True)"
        raise InputError([Fault(where="results", problem=problem)])
    frame = frame if meta else frame[~frame["client_side"]]
    above, below = _by_statement(frame, above_cell), _by_statement(frame, below_cell)
    names = list(dict.fromkeys([*below, *above]))
    pairs = {name: (above.get(name, {}), below.get(name, {})) for name in names}
    adjusted = holm([results.paired(*pair).p_value for pair in pairs.values()])
    twins = _twins(results, frame, names)
    return [
        _compared(
            name,
            (above_cell[factor], below_cell[factor]),
            pairs[name],
            results.paired(*pairs[name]),
            p,
            twins[name],
        )
        for name, p in zip(names, adjusted, strict=True)
    ]


def comparison_rows(comparisons: Sequence[StatementComparison]) -> pd.DataFrame:
    """Give a row per statement, in the form of :func:`published_statements`, with the intervals.

    Returns
    -------
    DataFrame
        ``statement``, ``level``, ``against``, ``level_ms``, ``against_ms``, ``difference_ms``,
        ``ratio``, ``low`` and ``high`` (of the ratio), ``verdict`` (its kind).
    """
    import pandas as pd

    names = ("statement", "level", "against", "level_ms", "against_ms")
    rows = [
        {
            **{name: getattr(item, name) for name in names},
            "difference_ms": item.difference_ms.value,
            "ratio": item.estimate.ratio,
            "low": item.estimate.low,
            "high": item.estimate.high,
            "verdict": item.verdict.kind,
        }
        for item in comparisons
    ]
    return pd.DataFrame(rows)


def published_statements(
    frame: pd.DataFrame,
    baseline: str,
    treatment: str,
    *,
    factor: str = "build",
    meta: bool = False,
) -> pd.DataFrame:
    """Bring a published table of latencies into the form that measured ones have.

    Parameters
    ----------
    frame
        A row per level and statement: `factor`, ``position``, ``statement``, ``latency_ms``.
    baseline, treatment
        Levels of `factor`.
    meta
        Keep the client-side commands.

    Returns
    -------
    DataFrame
        ``statement``, ``level`` (the treatment), ``against`` (the baseline), ``level_ms``,
        ``against_ms``, ``difference_ms``, ``ratio``. NaN where only one of the two has it.

    Raises
    ------
    InputError
        A level that the table does not have.
    """
    import pandas as pd

    columns: dict[str, pd.Series[float]] = {}
    for name, label in (("against_ms", baseline), ("level_ms", treatment)):
        part = frame[frame[factor].astype(str) == label].sort_values("position")
        if part.empty:
            raise InputError([Fault(where=factor, problem=f"the table has no {label!r}")])
        kept = part if meta else part[~part["statement"].map(_is_client_side)]
        columns[name] = pd.Series(kept["latency_ms"].tolist(), _names(kept["statement"].tolist()))
    names = list(dict.fromkeys([*columns["against_ms"].index, *columns["level_ms"].index]))
    above, below = (columns[name].reindex(names) for name in ("level_ms", "against_ms"))
    rows = {"statement": names, "level": treatment, "against": baseline}
    figures = {"level_ms": above, "against_ms": below, "difference_ms": above - below}
    ratio = (above / below).tolist()
    return pd.DataFrame(rows | {k: v.tolist() for k, v in figures.items()} | {"ratio": ratio})


def _is_client_side(text: str) -> bool:
    return _CLIENT_SIDE.match(text.strip()) is not None


def _names(texts: Sequence[str], scripts: Sequence[int] = ()) -> list[str]:
    """Name each statement once: script by script, namesakes numbered in their order."""
    names = [statement_name(text) for text in texts]
    if len(set(scripts)) > 1:
        pairs = zip(names, scripts, strict=True)
        names = [f"script {script + 1}: {name}" for name, script in pairs]
    total, seen = Counter(names), Counter[str]()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name} ({seen[name]})" if total[name] > 1 else name)
    return unique


def _all_trials(results: Results) -> pd.DataFrame:
    """Give the rows of all usable trials, the twin's too."""
    import pandas as pd

    rows = []
    for entry in results.record.entries:
        if entry["status"] != "usable":
            continue
        listed = entry["result"].get("statements") or []
        about = dict(entry["levels"]) | {"twin": bool(entry["twin"]), "round": entry["round"]}
        scripts = [row["script_index"] for row in listed]
        names = _names([row["text"] for row in listed], scripts)
        for at, (row, name) in enumerate(zip(listed, names, strict=True)):
            position = scripts[: at + 1].count(scripts[at])
            known = {"statement": name, "client_side": _is_client_side(row["text"])}
            rows.append(about | known | {"position": position, "latency_ms": row["latency_ms"]})
    names = ["twin", "round", "position", "statement", "client_side", "latency_ms"]
    frame = pd.DataFrame(rows, columns=[*results.factors, *names])
    return frame.astype({"twin": bool, "client_side": bool, "latency_ms": float})


def _by_statement(
    frame: pd.DataFrame, levels: Mapping[str, str], *, twin: bool = False
) -> dict[str, dict[int, float]]:
    """Give a cell's latencies by statement and round, statements in the order of the script."""
    chosen = frame["twin"] == twin
    for name, label in levels.items():
        chosen &= frame[name] == label
    found: dict[str, dict[int, float]] = {}
    rows = frame[chosen].dropna(subset=["latency_ms"])
    columns = [rows[name].tolist() for name in ("statement", "round", "latency_ms")]
    for statement, number, latency_ms in zip(*columns, strict=True):
        found.setdefault(statement, {})[number] = latency_ms
    return found


def _twins(
    results: Results, frame: pd.DataFrame, names: Sequence[str]
) -> dict[str, Estimate | None]:
    """Estimate, per statement, the ratio of the twin to the baseline it is identical to."""
    for cell in results.record.specification["cells"]:
        if cell["twin"]:
            twin = _by_statement(frame, cell["levels"], twin=True)
            below = _by_statement(frame, cell["levels"])
            return {name: results.paired(twin.get(name, {}), below.get(name, {})) for name in names}
    return dict.fromkeys(names)


def _compared(
    name: str,
    labels: tuple[str, str],
    pair: tuple[Values, Values],
    estimate: Estimate,
    adjusted_p: float | None,
    twin: Estimate | None,
) -> StatementComparison:
    above, below = pair
    rounds = sorted(above.keys() & below.keys())
    difference = mean_interval([above[n] - below[n] for n in rounds], log=False)
    verdict = judge(
        estimate, adjusted_p=adjusted_p, margin=MARGIN, twin=twin, words=("slower", "faster")
    )
    if _may_be_rounding(verdict, difference, [*above.values(), *below.values()]):
        reason = f"pgbench rounds to {ROUNDING_MS} ms, which is too coarse for this"
        text = f"undecided: {format_ratio(estimate)}; {reason}"
        verdict = Verdict(kind="undecided", text=text)
    level_ms, against_ms = (
        mean_interval([values[n] for n in rounds or values], log=False).value for values in pair
    )
    return StatementComparison(
        statement=name,
        level=labels[0],
        against=labels[1],
        level_ms=level_ms,
        against_ms=against_ms,
        difference_ms=difference,
        estimate=estimate,
        adjusted_p=adjusted_p,
        verdict=verdict,
        twin=twin,
    )


def _may_be_rounding(verdict: Verdict, difference: Interval, values_ms: Sequence[float]) -> bool:
    """Tell whether rounding alone could have made, or hidden, what the verdict says.

    Two means that are rounded the same way in every round differ by up to 0.001 ms for no reason,
    or hide as much; and without noise between the rounds the interval does not show it.
    """
    if any(value != round(value, 3) for value in values_ms):
        return False  # printed with six decimals
    if verdict.kind in ("slower", "faster"):
        return abs(difference.value or 0.0) < 1.5 * ROUNDING_MS
    return verdict.kind == "no difference" and min(values_ms) * MARGIN < ROUNDING_MS
