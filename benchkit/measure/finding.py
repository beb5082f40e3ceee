"""What the preflight finds: one thing that may mislead."""

from __future__ import annotations

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
