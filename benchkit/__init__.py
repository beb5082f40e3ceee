"""Reproducible PostgreSQL performance experiments.

Everything a notebook needs is here; nothing heavy is loaded until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from benchkit.analysis.claims import Claim as Claim
    from benchkit.analysis.published import read_published as read_published
    from benchkit.analysis.results import Results as Results
    from benchkit.experiment.ledger import read_record as read_record
    from benchkit.experiment.profiles import choose_profile as choose_profile
    from benchkit.experiment.run import Experiment as Experiment
    from benchkit.postgres.builds import discover as discover
    from benchkit.postgres.builds import find as find
    from benchkit.postgres.server import Server as Server
    from benchkit.present.live import live as live
    from benchkit.present.notes import show_note as show_note
    from benchkit.present.plots import plot_cells as plot_cells
    from benchkit.present.plots import plot_over_time as plot_over_time
    from benchkit.present.plots import plot_ratios as plot_ratios
    from benchkit.present.summary import embed as embed
    from benchkit.present.summary import show_claims as show_claims
    from benchkit.present.summary import show_comparisons as show_comparisons
    from benchkit.present.summary import show_drift as show_drift
    from benchkit.present.summary import show_findings as show_findings
    from benchkit.present.summary import show_provenance as show_provenance
    from benchkit.present.summary import show_summary as show_summary
    from benchkit.present.summary import show_trials as show_trials
    from benchkit.present.tables import show_table as show_table
    from benchkit.units import extremes as extremes
    from benchkit.units import show_duration as show_duration
    from benchkit.units import size_of as size_of
    from benchkit.workload.pgbench import Workload as Workload
# Where each name lives: it is imported when it is first used.
_HOMES = {
    "extremes": "benchkit.units",
    "show_drift": "benchkit.present.summary",
    "size_of": "benchkit.units",
    "show_duration": "benchkit.units",
    "show_summary": "benchkit.present.summary",
    "Claim": "benchkit.analysis.claims",
    "Results": "benchkit.analysis.results",
    "read_published": "benchkit.analysis.published",
    "read_record": "benchkit.experiment.ledger",
    "choose_profile": "benchkit.experiment.profiles",
    "Experiment": "benchkit.experiment.run",
    "discover": "benchkit.postgres.builds",
    "find": "benchkit.postgres.builds",
    "Server": "benchkit.postgres.server",
    "live": "benchkit.present.live",
    "plot_cells": "benchkit.present.plots",
    "plot_over_time": "benchkit.present.plots",
    "plot_ratios": "benchkit.present.plots",
    "embed": "benchkit.present.summary",
    "show_claims": "benchkit.present.summary",
    "show_comparisons": "benchkit.present.summary",
    "show_findings": "benchkit.present.summary",
    "show_provenance": "benchkit.present.summary",
    "show_trials": "benchkit.present.summary",
    "show_note": "benchkit.present.notes",
    "show_table": "benchkit.present.tables",
    "Workload": "benchkit.workload.pgbench",
}

__all__ = [
    "Claim",
    "Experiment",
    "Results",
    "Server",
    "Workload",
    "__version__",
    "choose_profile",
    "discover",
    "embed",
    "extremes",
    "find",
    "live",
    "plot_cells",
    "plot_over_time",
    "plot_ratios",
    "read_published",
    "read_record",
    "show_claims",
    "show_comparisons",
    "show_drift",
    "show_duration",
    "show_findings",
    "show_note",
    "show_provenance",
    "show_summary",
    "show_table",
    "show_trials",
    "size_of",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'benchkit' has no attribute {name!r}")
