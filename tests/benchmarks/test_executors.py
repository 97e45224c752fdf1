"""The comparison of executors: how long its runs are, and what it says of certificates."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.parts import executors
from benchmarks.parts.executors import Side, compared, rounds_in


def side(*certificates: str, cut: bool = False) -> Side:
    return Side("threads", cast("Any", None), certificates=set(certificates), cut=cut)


def test_a_run_that_the_clock_cut_is_not_called_different() -> None:
    assert compared(side("a"), side("a")) == "equal"
    assert compared(side("a", "b"), side("a")) == "DIFFERENT"
    assert compared(side("a", "b", cut=True), side("a")) == "cut"
    assert compared(side("a"), side("b", cut=True)) == "cut"


def test_loading_the_model_is_not_part_of_the_seconds_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rounds take 10 ms, and every run two seconds more."""
    clock = 0.0

    def ask(rounds: int) -> Any:
        nonlocal clock
        clock += 2.0 + rounds * 1e-5

    monkeypatch.setattr(executors, "processor_seconds", lambda: clock)
    assert rounds_in(45.0, ask, 1000) == pytest.approx(4_500_000)
