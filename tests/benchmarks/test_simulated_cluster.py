"""The simulated cluster: more failures and slower coordinators take longer, and every chunk is counted once."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    found: Any = import_module("benchmarks.parts.simulated_cluster")
    monkeypatch.setattr(found, "EVALUATIONS", 10**10)
    monkeypatch.setattr(found, "WORKERS", 100)
    return found


def test_failures_and_a_slow_coordinator_take_longer(part: Any) -> None:
    perfect = part.simulated(0.0, 0.0, 0.0, seed=0)
    failing = part.simulated(60.0, 0.0, 0.0, seed=0)
    slow = part.simulated(0.0, 0.05, 0.0, seed=0)
    assert perfect.ideal <= perfect.seconds < failing.seconds
    assert perfect.seconds < slow.seconds
    assert perfect.lost == 0 < failing.lost
    # A coordinator cannot be busy for longer than the run.
    assert perfect.busy == 0 < slow.busy <= slow.seconds


def test_a_coordinator_that_needs_more_saturates_earlier(part: Any) -> None:
    quick, slow_tallies, slow_replies = (part._saturated(*each) for each in ((1e-5, 1e-6), (1e-5, 1e-5), (1e-2, 1e-6)))
    assert 1 < slow_tallies < quick
    assert 1 < slow_replies < quick
    # Tallies alone: as many cores as chunks are computed by while one tally is added.
    assert part._saturated(0.0, 1e-5) == pytest.approx(part.CHUNK_SECONDS / 1e-5)
