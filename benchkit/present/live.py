"""Watching an experiment: in a notebook one line that stays, elsewhere plain lines."""

from __future__ import annotations

import html
import os
import time
from pathlib import Path
from typing import Any

from benchkit.experiment.watch import Standing, Watch, outcome, print_lines

# Where `benchkit run` reads what the notebook's kernel has to say while it works.
PROGRESS_FILE = "BENCHKIT_PROGRESS_FILE"


def live() -> Watch:
    """Give a watcher for :meth:`Experiment.run`.

    In a notebook: one display that is updated in place and whose last state stays in the saved
    file. Elsewhere: a line for each trial.
    """
    try:
        from IPython import get_ipython
    except ImportError:
        return print_lines
    return _Display() if get_ipython() is not None else print_lines


class _Display:
    """One HTML line, updated at most twice a second."""

    def __init__(self) -> None:
        self.handle: Any = None
        self.updated = 0.0
        self.last = ""

    def __call__(self, standing: Standing) -> None:
        now = time.monotonic()
        lasting = standing.event in ("start", "trial", "end")
        if lasting:
            _tell_runner(standing)
        if not lasting and now - self.updated < 0.5:
            return
        self.updated = now
        if standing.entry is not None:
            self.last = f"{standing.cell}: {outcome(standing.entry)}"
        self._show(standing)

    def _show(self, standing: Standing) -> None:
        from IPython.display import HTML, display

        markup = HTML(_markup(standing, self.last))  # type: ignore[no-untyped-call]
        if self.handle is None:
            self.handle = display(markup, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self.handle.update(markup)


def _markup(standing: Standing, last: str) -> str:
    share = standing.done / max(standing.planned, 1)
    now = ""
    if standing.event in ("step", "second"):
        second = standing.progress
        rate = f", {second.tps:,.0f} transactions/s" if second and second.tps is not None else ""
        now = f"now, round {standing.round_number}: {standing.cell} ({standing.step}{rate})"
    lines = [*standing.notes, f"last: {last}" if last else "", now]
    if standing.event == "end":
        lines = [*standing.notes, f"recorded in {standing.directory}"]
    below = "".join(f"<div>{html.escape(line)}</div>" for line in lines if line)
    bar = (
        '<div style="background:#ddd;height:6px;max-width:30em;margin:4px 0">'
        f'<div style="background:#0173b2;height:6px;width:{share:.1%}"></div></div>'
    )
    return f"<div><b>{html.escape(standing.line())}</b>{bar}{below}</div>"


def _tell_runner(standing: Standing) -> None:
    path = os.environ.get(PROGRESS_FILE)
    if path:
        text = standing.line()
        if standing.entry is not None:
            text += f": {standing.cell}: {outcome(standing.entry)}"
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text + "\n")
