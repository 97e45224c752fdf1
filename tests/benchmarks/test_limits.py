"""The distance to what is possible: the information bound."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def test_the_growth_rate_is_the_information_of_a_coin() -> None:
    rate = module("parts.limits").growth_rate
    for p in (0.6, 0.9):
        information = p * np.log(2 * p) + (1 - p) * np.log(2 * (1 - p))
        assert rate(np.array([[1.0], [-1.0]]), np.array([p, 1 - p])) == pytest.approx(information, rel=1e-4)
    # A bet that loses on average is not taken.
    assert rate(np.array([[1.0], [-1.0]]), np.array([0.4, 0.6])) == pytest.approx(0, abs=1e-6)


def test_the_bound_of_two_groups_that_are_always_decided_alike() -> None:
    limits = module("parts.limits")
    bound = limits.bound_of(np.array([[True, True], [False, False]]), np.array([0.3, 0.7]), 0.1, 1e-6)
    assert bound.rounds == pytest.approx(limits.kl_of_coins(1e-6) / -np.log(0.9), rel=1e-3)
    assert bound.pairwise == pytest.approx(2 * bound.rounds)


def test_no_run_near_the_bound_beats_it_on_average() -> None:
    limits, streams = module("parts.limits"), module("parts.streams")
    for gap in (0.05, 0.2):
        stream = streams.Stream(2, gap)
        bound = limits.bound_of(stream.patterns.astype(bool), stream.chances, 0.1, 1e-3)
        rounds = [streams.decided(stream, 0.1, 1e-3, seed, 10**6)[1] / 2 for seed in range(20)]
        assert bound.rounds < np.mean(rounds) < 3 * bound.rounds


@pytest.mark.parametrize(("ratios", "holds"), [((1.0, 1.5), True), ((0.69, 1.2), False), ((1.2, 4.01), False)])
def test_what_is_wanted_of_the_rounds_is_what_is_checked(ratios: tuple[float, float], holds: bool) -> None:
    limits, case = module("parts.limits"), module("cases").embedded()[0]
    found = [limits.Distance(case, "FAIR", limits.Bound(100.0, 200.0), 100.0 * ratio, 200.0) for ratio in ratios]
    check = limits._near_the_bound(found)
    assert check.holds == holds
    assert check.required.startswith(f"{limits.LEAST:g} to {limits.MOST:g} ")


def test_cases_about_comments_that_are_left_out_are_named() -> None:
    limits, sizes = module("parts.limits"), module("sizes")
    assert "left out: their data are not here" in limits._about_texts(sizes.PAPER, [])
    assert "left out: at this size" in limits._about_texts(replace(sizes.QUICK, text_seeds=0), [])
    assert "left out" not in limits._about_texts(sizes.PAPER, [module("cases").embedded()[0]])
