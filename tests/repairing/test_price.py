"""The price of a repair: counted in pairs, with intervals that hold as often as they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairchain.repairing.judge import accuracy_price


def price(right_before: np.ndarray, right_after: np.ndarray, delta: float = 0.05) -> Any:
    """Label 1 is right for everybody."""
    return accuracy_price(right_before.astype(int), right_after.astype(int), np.ones(len(right_before), int), delta)


def test_only_rows_that_change_count() -> None:
    before = np.array([1] * 6000 + [0] * 4000)
    after = before.copy()
    after[:10], after[-30:] = 0, 1
    found = price(before, after)
    assert (found.gained, found.lost, found.inputs) == (30, 10, 10_000)
    assert found.change.estimate == pytest.approx(0.002)
    assert -0.001 < found.change.low < 0.002 < found.change.high < 0.005
    nothing = price(before, before)
    assert nothing.change.low == -nothing.change.high
    assert nothing.change.high < 0.001


def test_the_interval_holds_as_often_as_it_says() -> None:
    """At delta = 0.2 over 400 runs; 100 misses or more have a chance below 1 in 100 if it held in 80% of them."""
    random = np.random.default_rng(2)
    truth = 0.03 - 0.05
    misses = 0
    for _ in range(400):
        kind = random.choice(3, size=300, p=[0.03, 0.05, 0.92])
        before, after = kind != 0, kind != 1
        change = price(before, after, 0.2).change
        misses += not change.low <= truth <= change.high
    assert misses < 100
