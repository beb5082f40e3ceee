"""Something done again and again while a block runs, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Repeated:
    """Does `action` every so often from entering to leaving; on leaving, the thread has ended.

    An action that raises ends the repetition, not the block.

    Parameters
    ----------
    first_s, every_s
        Seconds until the first time, and from each end of the action to its next begin.

    Attributes
    ----------
    error
        What ended the repetition early; None while all is well.
    """

    def __init__(self, action: Callable[[], object], *, first_s: float, every_s: float) -> None:
        self.error: Exception | None = None
        self._action, self._first_s, self._every_s = action, first_s, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Repeated:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _repeat(self) -> None:
        pause_s = self._first_s
        try:
            while not self._over.wait(pause_s):
                self._action()
                pause_s = self._every_s
        except Exception as error:  # whatever it is, whoever leaves the block is told
            self.error = error
