"""What a search for the first changed build found, in words, as a table and as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchkit.analysis.bisect import Found
from benchkit.analysis.metrics import METRICS
from benchkit.analysis.stats import format_percent
from benchkit.present.figures import PALETTE, new_figure, show_figure
from benchkit.present.notes import show_note
from benchkit.present.tables import show_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MOST_NAMED = 6


def show_search(found: Found, *, caption: str = "") -> None:
    """Show the answer of a search, what was measured for it, and how it was narrowed down."""
    show_note(search_words(found), "info" if found.decided else "warning")
    frame = found.frame()
    metric = METRICS[found.rule.metric]
    table = frame.drop(columns="place").assign(about=frame["candidate"].map(found.about))
    if not found.about:
        table = table.drop(columns="about")
    below = f"{metric.title} as a ratio to {found.labels[0]}, paired by round, 95 %."
    notes = [
        f"{len(found.record.entries)} trials of {len(frame)} of {len(found.labels)} candidates. "
        + below,
        "Probability: to be the first changed one. The intervals are those of each candidate by "
        "itself, and only describe: how often it was measured depended on what was seen.",
        *(
            f"Left out: {label}: {' '.join(why.split()[:60])}"
            for label, why in found.left_out.items()
        ),
    ]
    show_table(
        table,
        caption=caption or "What was measured in the search, in the order of the list",
        formats=dict.fromkeys(["ratio", "low", "high"], ".3f") | {"probability": ".3f"},
        notes=notes,
        row_header="candidate",
    )
    _plot(found, frame)


def search_words(found: Found) -> str:
    """Say in a few sentences what was found."""
    trials = f"{len(found.record.entries)} trials"
    what = METRICS[found.rule.metric].title.lower()
    certainty = f"probability {_percent(found.probability)}"
    ends = f"{found.labels[0]} and {found.labels[-1]}"
    small = f"{100 * found.rule.smallest_change:g} %"
    if found.nothing_changed:
        words = f"Nothing changed: no change of {what} of {small} or more between {ends}"
        return f"{words} ({certainty}; {trials})."
    if found.first is None:
        reason = (found.record.stopped or {}).get("reason", "it is not at its end")
        return f"Undecided: {_among(found)} ({trials}; {reason})."
    size, *interval = format_percent(*(ratio for ratio in found.change if ratio is not None))
    subject = found.about.get(found.first, "")
    last, *skipped = found.before
    words = f"The first changed one is {found.first}" + (f" ({subject})" if subject else "")
    words += f": {what} {size} % [{', '.join(interval)}] from there on ({certainty}; {trials})."
    words += f"\nThe last one without the change is {last}"
    if skipped:
        words += f"; {_named(skipped)} in between could not be measured and may have it too"
    return words + "."


def _among(found: Found) -> str:
    share = _percent(1 - found.rule.error)
    places = [label for label in found.among if label != found.labels[0]]
    nothing = "nothing changed, or " if found.labels[0] in found.among else ""
    if not places:
        return "that nothing changed is likeliest, but a change is not ruled out"
    return f"with {share} probability {nothing}the first changed one is among {_named(places)}"


def _percent(share: float) -> str:
    return "above 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def _named(labels: list[str]) -> str:
    if len(labels) <= _MOST_NAMED:
        return ", ".join(labels)
    return f"{labels[0]} to {labels[-1]} ({len(labels)} of them)"


def _plot(found: Found, frame: pd.DataFrame) -> None:
    figure, (above, below) = new_figure(height_in=5.2, rows=2)
    metric = METRICS[found.rule.metric].title.lower()
    _draw_ratios(above, frame)
    above.set_ylabel(f"{metric},\nratio to the good end")
    likelihood = frame.dropna(subset=["probability"])
    below.bar(likelihood["place"], likelihood["probability"], color=PALETTE[0], width=0.8)
    below.set_ylim(0, 1)
    below.set_ylabel("probability to be\nthe first changed one")
    below.set_xlabel(f"place in the list, from {found.labels[0]} to {found.labels[-1]}")
    for axes in (above, below):
        axes.set_xlim(-0.7, len(found.labels) - 0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if found.first is not None:
            at = found.labels.index(found.first) - 0.5
            axes.axvline(at, color=PALETTE[3], linestyle="--", linewidth=1.5)
    title = "The measured candidates, and where the change is believed to be"
    dashed = "; the dashed line is where it was found." if found.first is not None else "."
    show_figure(figure, alt=search_words(found), caption=title + dashed)


def _draw_ratios(axes: Axes, frame: pd.DataFrame) -> None:
    axes.axhline(1, color="#444444", linewidth=1)
    known = frame.dropna(subset=["ratio"])
    axes.plot(known["place"], known["ratio"], "D", color=PALETTE[0], markersize=5)
    low, high = known["ratio"].min(), known["ratio"].max()
    whole = known.dropna(subset=["low", "high"])
    axes.vlines(whole["place"], whole["low"], whole["high"], color=PALETTE[0], linewidth=2)
    # Three wild trials may have an interval far beyond all others: it is cut, not the points.
    room = 2 * max(high - low, 0.05)
    bottom, top = axes.get_ylim()
    axes.set_ylim(max(bottom, low - room), min(top, high + room))
