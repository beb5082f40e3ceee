"""What is repeated stops with the block, and an error ends it without ending the block."""

from __future__ import annotations

import threading
import time

from benchkit.measure.repeat import Repeated


def test_it_repeats_until_the_block_is_left() -> None:
    times: list[float] = []
    before = threading.active_count()
    with Repeated(lambda: times.append(time.monotonic()), first_s=0.02, every_s=0.01):
        began = time.monotonic()
        time.sleep(0.2)
    assert threading.active_count() == before
    assert 3 <= len(times) <= 20
    assert times[0] - began >= 0.01
    count = len(times)
    time.sleep(0.03)
    assert len(times) == count


def test_a_block_that_is_over_first_sees_nothing_done() -> None:
    times: list[float] = []
    with Repeated(lambda: times.append(0), first_s=10, every_s=10):
        pass
    assert times == []


def test_an_error_is_kept_and_ends_the_repetition() -> None:
    times: list[float] = []

    def fail() -> None:
        times.append(0)
        raise ValueError("no more")

    with Repeated(fail, first_s=0, every_s=0.001) as repeated:
        time.sleep(0.05)
    assert len(times) == 1
    assert str(repeated.error) == "no more"
