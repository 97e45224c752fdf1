"""Searches that take less time."""

from __future__ import annotations

import pytest


@pytest.fixture
def few_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer inputs for the search: the network of these tests has few kinds of people."""
    monkeypatch.setattr("fairchain.repairing.change_plan.SEARCHED", 4096)
    monkeypatch.setattr("fairchain.repairing.change_plan.REFINED", 8192)
