"""Reproducible PostgreSQL performance experiments.

Everything a notebook needs is here; nothing heavy is loaded until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from benchkit.analysis.bisect import Bisection as Bisection
    from benchkit.analysis.bisect import Found as Found
    from benchkit.analysis.bisect import bisect as bisect
    from benchkit.analysis.claims import Claim as Claim
    from benchkit.analysis.published import read_published as read_published
    from benchkit.analysis.results import Results as Results
    from benchkit.analysis.side_by_side import compare_reports as compare_reports
    from benchkit.analysis.side_by_side import doubtful_twin as doubtful_twin
    from benchkit.analysis.side_by_side import label_reports as label_reports
    from benchkit.analysis.side_by_side import ratio_of_reports as ratio_of_reports
    from benchkit.analysis.side_by_side import read_reports as read_reports
    from benchkit.analysis.side_by_side import side_by_side as side_by_side
    from benchkit.analysis.statements import compare_statements as compare_statements
    from benchkit.analysis.statements import comparison_rows as comparison_rows
    from benchkit.analysis.statements import published_statements as published_statements
    from benchkit.analysis.stopping import Until as Until
    from benchkit.analysis.tables import means as means
    from benchkit.analysis.tables import pivot as pivot
    from benchkit.analysis.tables import ratios as ratios
    from benchkit.analysis.tables import relative as relative
    from benchkit.experiment.embedded import read_report as read_report
    from benchkit.experiment.ledger import read_record as read_record
    from benchkit.experiment.ledger import runs_dir as runs_dir
    from benchkit.experiment.profiles import choose_profile as choose_profile
    from benchkit.experiment.run import Experiment as Experiment
    from benchkit.postgres.builds import discover as discover
    from benchkit.postgres.builds import fair_builds as fair_builds
    from benchkit.postgres.builds import find as find
    from benchkit.postgres.commits import builds_or_commits as builds_or_commits
    from benchkit.postgres.labels import labelled_builds as labelled_builds
    from benchkit.postgres.server import Server as Server
    from benchkit.present.findings import show_findings as show_findings
    from benchkit.present.live import live as live
    from benchkit.present.notes import show_note as show_note
    from benchkit.present.over_time import plot_over_time as plot_over_time
    from benchkit.present.over_time import show_over_time as show_over_time
    from benchkit.present.panels import plot_heatmaps as plot_heatmaps
    from benchkit.present.panels import plot_panels as plot_panels
    from benchkit.present.plots import plot_cells as plot_cells
    from benchkit.present.plots import plot_ratios as plot_ratios
    from benchkit.present.search import show_search as show_search
    from benchkit.present.side_by_side import show_comparability as show_comparability
    from benchkit.present.side_by_side import show_report_comparisons as show_report_comparisons
    from benchkit.present.side_by_side import show_side_by_side as show_side_by_side
    from benchkit.present.statements import plot_statements as plot_statements
    from benchkit.present.statements import show_statements as show_statements
    from benchkit.present.summary import embed as embed
    from benchkit.present.summary import show_claims as show_claims
    from benchkit.present.summary import show_comparisons as show_comparisons
    from benchkit.present.summary import show_provenance as show_provenance
    from benchkit.present.summary import show_summary as show_summary
    from benchkit.present.summary import show_trials as show_trials
    from benchkit.present.tables import show_pivot as show_pivot
    from benchkit.present.tables import show_table as show_table
    from benchkit.present.waits import show_waits as show_waits
    from benchkit.units import extremes as extremes
    from benchkit.units import show_duration as show_duration
    from benchkit.units import size_of as size_of
    from benchkit.workload.disk import cache_sizes as cache_sizes
    from benchkit.workload.pgbench import Workload as Workload
# Where each name lives: it is imported when it is first used.
_HOMES = {
    "Bisection": "benchkit.analysis.bisect",
    "Claim": "benchkit.analysis.claims",
    "Experiment": "benchkit.experiment.run",
    "Found": "benchkit.analysis.bisect",
    "Results": "benchkit.analysis.results",
    "Server": "benchkit.postgres.server",
    "Until": "benchkit.analysis.stopping",
    "Workload": "benchkit.workload.pgbench",
    "bisect": "benchkit.analysis.bisect",
    "cache_sizes": "benchkit.workload.disk",
    "builds_or_commits": "benchkit.postgres.commits",
    "choose_profile": "benchkit.experiment.profiles",
    "compare_reports": "benchkit.analysis.side_by_side",
    "compare_statements": "benchkit.analysis.statements",
    "comparison_rows": "benchkit.analysis.statements",
    "discover": "benchkit.postgres.builds",
    "doubtful_twin": "benchkit.analysis.side_by_side",
    "embed": "benchkit.present.summary",
    "extremes": "benchkit.units",
    "fair_builds": "benchkit.postgres.builds",
    "find": "benchkit.postgres.builds",
    "label_reports": "benchkit.analysis.side_by_side",
    "labelled_builds": "benchkit.postgres.labels",
    "live": "benchkit.present.live",
    "means": "benchkit.analysis.tables",
    "pivot": "benchkit.analysis.tables",
    "plot_cells": "benchkit.present.plots",
    "plot_heatmaps": "benchkit.present.panels",
    "plot_over_time": "benchkit.present.over_time",
    "plot_panels": "benchkit.present.panels",
    "plot_ratios": "benchkit.present.plots",
    "plot_statements": "benchkit.present.statements",
    "published_statements": "benchkit.analysis.statements",
    "ratio_of_reports": "benchkit.analysis.side_by_side",
    "ratios": "benchkit.analysis.tables",
    "read_published": "benchkit.analysis.published",
    "read_record": "benchkit.experiment.ledger",
    "read_report": "benchkit.experiment.embedded",
    "read_reports": "benchkit.analysis.side_by_side",
    "relative": "benchkit.analysis.tables",
    "runs_dir": "benchkit.experiment.ledger",
    "show_claims": "benchkit.present.summary",
    "show_comparability": "benchkit.present.side_by_side",
    "show_comparisons": "benchkit.present.summary",
    "show_over_time": "benchkit.present.over_time",
    "show_duration": "benchkit.units",
    "show_findings": "benchkit.present.findings",
    "show_note": "benchkit.present.notes",
    "show_pivot": "benchkit.present.tables",
    "show_provenance": "benchkit.present.summary",
    "show_report_comparisons": "benchkit.present.side_by_side",
    "show_search": "benchkit.present.search",
    "show_side_by_side": "benchkit.present.side_by_side",
    "show_statements": "benchkit.present.statements",
    "show_summary": "benchkit.present.summary",
    "show_table": "benchkit.present.tables",
    "show_trials": "benchkit.present.summary",
    "show_waits": "benchkit.present.waits",
    "side_by_side": "benchkit.analysis.side_by_side",
    "size_of": "benchkit.units",
}

__all__ = [
    "Bisection",
    "Claim",
    "Experiment",
    "Found",
    "Results",
    "Server",
    "Until",
    "Workload",
    "__version__",
    "bisect",
    "builds_or_commits",
    "cache_sizes",
    "choose_profile",
    "compare_reports",
    "compare_statements",
    "comparison_rows",
    "discover",
    "doubtful_twin",
    "embed",
    "extremes",
    "fair_builds",
    "find",
    "label_reports",
    "labelled_builds",
    "live",
    "means",
    "pivot",
    "plot_cells",
    "plot_heatmaps",
    "plot_over_time",
    "plot_panels",
    "plot_ratios",
    "plot_statements",
    "published_statements",
    "ratio_of_reports",
    "ratios",
    "read_published",
    "read_record",
    "read_report",
    "read_reports",
    "relative",
    "runs_dir",
    "show_claims",
    "show_comparability",
    "show_comparisons",
    "show_duration",
    "show_findings",
    "show_note",
    "show_over_time",
    "show_pivot",
    "show_provenance",
    "show_report_comparisons",
    "show_search",
    "show_side_by_side",
    "show_statements",
    "show_summary",
    "show_table",
    "show_trials",
    "show_waits",
    "side_by_side",
    "size_of",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'benchkit' has no attribute {name!r}")
