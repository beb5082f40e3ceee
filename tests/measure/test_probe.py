"""Whether the machine is quiet just now."""

from __future__ import annotations

import pytest

from benchkit.measure import probe
from benchkit.postgres import workplace


def test_a_steady_machine_has_no_finding() -> None:
    assert probe.judge_pieces([100, 101, 99, 100] * 8, 0.0) == []


def test_an_uneven_one_has_and_says_how_uneven() -> None:
    (found,) = probe.judge_pieces([100, 50] * 15, None)
    assert (found.severity, found.name) == ("warning", "noisy host")
    assert "least to most 50 to 100" in found.evidence
    assert "even against odd times +100.0 %" in found.evidence


def test_what_the_hypervisor_takes_is_one_too() -> None:
    (found,) = probe.judge_pieces([100, 101] * 15, 0.07)
    assert "7 % of the time stolen" in found.evidence


def test_pieces_hold_about_as_much_as_their_time() -> None:
    counts = probe.probe_pieces(0.15)
    assert len(counts) == 30
    assert sum(counts) > 30
    assert probe.noise_findings(0) == []


def test_one_odd_piece_and_the_first_ones_are_no_noise() -> None:
    assert probe.judge_pieces([40, 60, 80] + [100, 101, 50] + [100, 99] * 12, 0.0) == []


def test_a_measurement_that_is_running_is_not_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> list[int]:
        raise AssertionError

    monkeypatch.setattr(probe, "probe_pieces", never)
    with workplace.machine_lock("a test"):
        assert probe.noise_findings() == []
