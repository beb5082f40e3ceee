"""What the preflight finds: one thing that may mislead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that may mislead.

    Attributes
    ----------
    severity
        ``bad``: the numbers will not mean what they seem to; ``warning``: they may not;
        ``info``: good to know.
    evidence
        What was seen.
    fix
        What to do about it.
    reference
        Where it is explained; "" where benchkit itself is the source.
    """

    severity: str
    name: str
    evidence: str
    fix: str
    reference: str = ""


_ORDER = ("bad", "warning", "info")


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity, each once, otherwise in the order they came."""
    return sorted(dict.fromkeys(findings), key=lambda finding: _ORDER.index(finding.severity))
