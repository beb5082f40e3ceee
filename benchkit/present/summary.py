"""What every report shows besides its own question: checks, verdicts, trials, provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchkit.analysis.claims import Claim, claims_table
from benchkit.analysis.continuity import remarks
from benchkit.analysis.metrics import METRICS
from benchkit.analysis.results import Comparison, Results
from benchkit.analysis.stats import Estimate, format_ratio
from benchkit.experiment.embedded import RUN_MIME as RUN_MIME
from benchkit.experiment.ledger import Record
from benchkit.present.notes import show_note
from benchkit.present.tables import show_table
from benchkit.units import show_bytes

if TYPE_CHECKING:
    pass


def show_comparisons(comparisons: Sequence[Comparison], results: Results, *, caption: str) -> None:
    """Show ratios with intervals and verdicts in words, and the twin's A/A result beside them."""
    import pandas as pd

    if not comparisons:
        show_note(f"{caption}: there is nothing to compare, only one level was measured.")
        return
    rows = []
    for item in comparisons:
        estimate = item.estimate
        rows.append(
            {
                "Compared": f"{item.level} against {item.against}",
                **{name.replace("_", " "): label for name, label in item.context.items()},
                "Ratio": estimate.ratio,
                "Interval": _interval(estimate),
                **_counted(estimate),
                "Verdict": item.verdict.text,
            }
        )
    frame = pd.DataFrame(rows)
    notes = _twin_words(results, comparisons)
    show_table(frame, caption=caption, formats={"Ratio": ".3f"}, notes=notes)


def _counted(estimate: Estimate) -> dict[str, str]:
    left_out = f", {estimate.dropped} rounds left out" if estimate.dropped else ""
    sessions = " sessions" if estimate.unit == "session" else ""
    return {"Rounds": f"{estimate.rounds}{sessions}{left_out}"}


def _interval(estimate: Estimate) -> str | None:
    if estimate.low is None or estimate.high is None:
        return None
    return f"{estimate.low:.3f} to {estimate.high:.3f}"


def _twin_words(results: Results, comparisons: Sequence[Comparison]) -> list[str]:
    how = "Intervals of 95 %, paired by round"
    if comparisons and comparisons[0].estimate.unit == "session":
        how += ", over sessions: each with tables loaded afresh, its rounds together as one value"
    notes = [f"{how}.", *_early_end(results)]
    if len(comparisons) > 1:
        notes.append("Verdicts are Holm-adjusted over the rows of this table.")
    metric = comparisons[0].metric.name if comparisons else "tps"
    twin = results.twin(metric)
    if twin is not None:
        notes.append(f"Twin (the baseline against itself): {format_ratio(twin)}.")
    return notes


def _early_end(results: Results) -> list[str]:
    rule, stopped = results.record.specification.get("until"), results.record.stopped
    if not rule:
        return []
    looks = len(rule["looks"])
    how = f"It was to be looked at up to {looks} times: each interval is one of "
    how += f"{100 * results.confidence:.1f} %, so that 95 % hold over all looks."
    ended = f"Ended after {stopped['rounds']} rounds: {stopped['reason']}." if stopped else ""
    return [how, *filter(None, [ended])]


def show_summary(results: Results, metrics: Sequence[str], *, caption: str, **where: str) -> None:
    """Show a row per metric and a column per cell: means over the usable trials."""
    import pandas as pd

    cells = results.summary(metrics, **where)
    labels = [name for name in results.factors if name in cells]
    rows = []
    for metric in [METRICS[name] for name in metrics]:
        title = f"{metric.title} ({metric.unit})" if metric.unit else metric.title
        row: dict[str, str | None] = {"Mean of": title}
        for _, cell in cells.iterrows():
            value = cell[metric.title]
            column = ", ".join(cell[name] for name in labels) or "the cell"
            row[column] = None if pd.isna(value) else f"{value:,.{metric.digits}f}"
        rows.append(row)
    counts = sorted(set(cells["trials"]))
    trials = " to ".join(str(count) for count in dict.fromkeys([counts[0], counts[-1]]))
    notes = f"Over {trials} usable trials a cell. A dash: not counted by this version, or reset."
    show_table(pd.DataFrame(rows), caption=caption, notes=notes, row_header="Mean of")


def show_claims(claims: Sequence[Claim], results: Results | None = None) -> None:
    """Show each published claim with what was measured here and a verdict.

    Parameters
    ----------
    results
        Whose twin stands beside the claims that have none of their own; None: there is none.
    """
    frame = claims_table(claims, twin=results.twin() if results else None)
    notes = [
        "Intervals of 95 %; the verdicts hold for all claims of the table together.",
        "They are about what was measured here. The profile paper has the published protocol: "
        "shorter runs on smaller tables and another machine may well answer otherwise.",
    ]
    caption = "Published claims and what was measured here"
    show_table(frame, caption=caption, notes=notes, row_header="Claim")


def show_trials(results: Results) -> None:
    """Show every trial in the order it was measured, the rejected ones with their reasons."""
    frame = results.frame
    varying = [name for name in results.factors if frame[name].nunique() > 1]
    columns = ["round", *varying, "twin", "tps", "latency_average_ms", "status", "reason"]
    shown = frame[columns].assign(twin=frame["twin"].map({True: "twin", False: ""}))
    shown = shown.rename(
        columns={"tps": "Throughput", "latency_average_ms": "Average latency"} | {"twin": "Twin"}
    )
    if not len(results.unusable):
        shown = shown.drop(columns="reason")
    units = {"Throughput": "transactions/s", "Average latency": "ms"}
    formats = {"Throughput": ",.0f", "Average latency": ".2f"}
    caption = f"All {len(frame)} trials as measured, {len(results.unusable)} of them not usable"
    flags = [f"{count} trials flagged: {name}." for name, count in results.flags().items()]
    notes = [*remarks(results), *flags]
    show_table(shown, caption=caption, units=units, formats=formats, notes=notes)


def show_provenance(record: Record) -> None:
    """Show what is needed to believe and to repeat the run."""
    import pandas as pd

    specification = record.specification
    rows = [*_build_rows(specification), *_host_rows(specification["host"])]
    rows += [
        ("Caches before a run", _caches(specification)),
        ("Settings asked for", _asked_settings(specification)),
        ("Not at their defaults in the servers", _effective_settings(record)),
        ("Random order", _order_words(specification)),
        ("benchkit", f"{specification['benchkit']}, run {specification['run_id']}"),
    ]
    frame = pd.DataFrame(rows, columns=["What", "This run"])
    show_table(frame, caption="What was measured, where, and how", row_header="What")


def _build_rows(specification: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows: dict[str, str] = {}
    clients: dict[str, None] = {}
    for cell in specification["cells"]:
        build, client = cell["asked"]["build"], cell["asked"]["client"]
        flags = " ".join(build["configure"] or ["flags unknown"])
        compiler = f"{build['compiler'] or ''} {build['cflags'] or ''}"
        rows[f"PostgreSQL {build['version']}"] = (
            f"{build['origin']}; configured with {flags or 'nothing'}; {compiler}"
        )
        clients[f"pgbench {client['pgbench']} ({client['origin']})"] = None
    return [*rows.items(), ("Client", "; ".join(clients))]


def _host_rows(host: Mapping[str, Any]) -> list[tuple[str, str]]:
    memory = show_bytes(host["memory_bytes"]) if host.get("memory_bytes") else "unknown"
    machine = f"{host.get('cpu_model')}, {host.get('usable_cores')} usable cores, {memory} RAM"
    if host.get("hypervisor"):
        machine += ", virtual"
    system = f"{host.get('os_name')} {host.get('os_version') or ''}, {host.get('kernel')}"
    disk = f"{host.get('filesystem_type')} on {host.get('filesystem_device')}"
    return [("Machine", machine), ("System", system), ("File system", disk)]


def _order_words(specification: Mapping[str, Any]) -> str:
    sessions = specification.get("sessions") or 1
    words = f"seed {specification['seed']}, {specification['rounds']} rounds"
    return words + (f" in {sessions} sessions with loads of their own" if sessions > 1 else "")


_CACHES = {
    "cloned": "shared_buffers empty, the files in the page cache as cloning left them",
    "cold": "shared_buffers empty, the files dropped from the page cache (posix_fadvise)",
    "uncached": "tables dropped from the page cache before and all through the run (posix_fadvise)",
    "prewarmed": "tables and indexes read into shared_buffers",
}


def _caches(specification: Mapping[str, Any]) -> str:
    used = dict.fromkeys(cell["asked"]["workload"]["cache"] for cell in specification["cells"])
    return "; ".join(f"{name}: {_CACHES.get(name, name)}" for name in used)


def _asked_settings(specification: Mapping[str, Any]) -> str:
    texts = []
    for cell in specification["cells"]:
        settings = cell["asked"]["settings"]
        texts.append(", ".join(f"{name}={value}" for name, value in settings.items()) or "none")
    return "; ".join(dict.fromkeys(texts))


def _effective_settings(record: Record) -> str:
    same: dict[str, set[str]] = {}
    for entry in record.entries:
        for name, value in entry["effective"].items():
            same.setdefault(name, set()).add(value)
    return ", ".join(f"{name}={' or '.join(sorted(values))}" for name, values in same.items())


def embed(record: Record) -> None:
    """Put specification and trials into the notebook itself, as one output with a MIME bundle."""
    from IPython.display import display

    data = {
        "run_dir": str(record.directory),
        "specification": record.specification,
        "trials": record.entries,
        "stopped": record.stopped,
    }
    text = f"This notebook carries its {len(record.entries)} trials and their specification."
    plain = json.loads(json.dumps(data, default=str))
    display({RUN_MIME: plain, "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]
