"""Short messages, and HTML as it is, shown in a notebook."""

from __future__ import annotations

import html

from benchkit.errors import Fault, InputError

# kind -> (word, border, background, text): every text has a contrast of 7:1 or better.
NOTE_KINDS = {
    "info": ("Note", "#0173b2", "#eef6fb", "#1f2328"),
    "good": ("✓ Good", "#02784f", "#edf8f3", "#1f2328"),
    "warning": ("⚠ Warning", "#b35900", "#fff6e8", "#1f2328"),
    "bad": ("✗ Problem", "#b3261e", "#fdf0ef", "#1f2328"),
}


def note_html(text: str, kind: str = "info") -> str:
    """Write a short message as a box with a word that says its kind, not only a colour.

    Parameters
    ----------
    text
        Plain text; escaped, line breaks are kept.
    kind
        ``info``, ``good``, ``warning`` or ``bad``.

    Raises
    ------
    InputError
        An unknown kind.
    """
    word, border, background, colour = _note_kind(kind)
    return (
        f'<div class="benchkit-note" role="note" style="border-left:5px solid {border};'
        f"background:{background};color:{colour};padding:0.6em 1em;margin:1em 0;"
        f'white-space:pre-line"><strong>{word}:</strong> {html.escape(text.strip())}</div>'
    )


def show_note(text: str, kind: str = "info") -> None:
    """Show a short message in the notebook; parameters and errors as in :func:`note_html`."""
    show_html(note_html(text, kind), f"{_note_kind(kind)[0]}: {text.strip()}")


def _note_kind(kind: str) -> tuple[str, str, str, str]:
    if kind not in NOTE_KINDS:
        problem = f"unknown kind {kind!r} (accepted: {', '.join(NOTE_KINDS)})"
        raise InputError([Fault(where="kind", problem=problem)])
    return NOTE_KINDS[kind]


def show_html(markup: str, plain: str) -> None:
    """Show finished HTML in the notebook.

    Parameters
    ----------
    markup
        HTML whose texts are escaped already.
    plain
        What stands for it where no HTML is shown.
    """
    from IPython.display import display

    display({"text/html": markup, "text/plain": plain}, raw=True)  # type: ignore[no-untyped-call]
