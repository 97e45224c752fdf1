"""The distance to what is possible: the information bound, and how times against the bare network are judged."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.suite.{name}")


def test_the_growth_rate_is_the_information_of_a_coin() -> None:
    rate = module("limits").growth_rate
    for p in (0.6, 0.9):
        information = p * np.log(2 * p) + (1 - p) * np.log(2 * (1 - p))
        assert rate(np.array([[1.0], [-1.0]]), np.array([p, 1 - p])) == pytest.approx(information, rel=1e-4)
    # A bet that loses on average is not taken.
    assert rate(np.array([[1.0], [-1.0]]), np.array([0.4, 0.6])) == pytest.approx(0, abs=1e-6)


def test_the_bound_of_two_groups_that_are_always_decided_alike() -> None:
    limits = module("limits")
    bound = limits.bound_of(np.array([[True, True], [False, False]]), np.array([0.3, 0.7]), 0.1, 1e-6)
    assert bound.rounds == pytest.approx(limits.kl_of_coins(1e-6) / -np.log(0.9), rel=1e-3)
    assert bound.pairwise == pytest.approx(2 * bound.rounds)


def test_no_run_near_the_bound_beats_it_on_average() -> None:
    limits, streams = module("limits"), module("streams")
    for gap in (0.05, 0.2):
        stream = streams.Stream(2, gap)
        bound = limits.bound_of(stream.patterns.astype(bool), stream.chances, 0.1, 1e-3)
        rounds = [streams.decided(stream, 0.1, 1e-3, seed, 10**6)[1] / 2 for seed in range(20)]
        assert bound.rounds < np.mean(rounds) < 3 * bound.rounds


@pytest.mark.parametrize(("ratios", "holds"), [((1.0, 1.5), True), ((0.69, 1.2), False), ((1.2, 4.01), False)])
def test_what_is_wanted_of_the_rounds_is_what_is_checked(ratios: tuple[float, float], holds: bool) -> None:
    limits, case = module("limits"), module("cases").embedded()[0]
    found = [limits.Distance(case, "FAIR", limits.Bound(100.0, 200.0), 100.0 * ratio, 200.0) for ratio in ratios]
    check = limits._near_the_bound(found)
    assert check.holds == holds
    assert check.wanted.startswith(f"{limits.LEAST:g} to {limits.MOST:g} ")


def test_cases_about_comments_that_are_left_out_are_named() -> None:
    limits, sizes = module("limits"), module("sizes")
    assert "left out: their data are not here" in limits._about_texts(sizes.PAPER, [])
    assert "left out: at this size" in limits._about_texts(replace(sizes.QUICK, text_seeds=0), [])
    assert "left out" not in limits._about_texts(sizes.PAPER, [module("cases").embedded()[0]])


def timed(ours: list[float], other: list[float], limit: float | None = 1.3) -> Any:
    bench = import_module("benchmarks.bench")
    sides = (tuple(bench.Spent(seconds, seconds) for seconds in side) for side in (ours, other))
    return bench.Timed("race", 5, 1, 1000, 8192, *sides, limit)


def test_the_median_of_the_turns_is_judged_and_the_best_of_each_is_told() -> None:
    limits, sizes = module("limits"), module("sizes").PAPER
    # The shortest run of ours would keep the limit; the turns do not.
    each = timed([1.0, 4.0, 2.8], [1.0, 2.0, 2.0])
    assert each.seconds == (2.8, 2.0)
    assert each.ratio() == pytest.approx(1.4)
    assert each.best == pytest.approx(1.0)
    (check,) = limits._time_checks([each], sizes)
    assert (check.holds, check.enforced, check.found) == (False, True, "1.40 (best of each 1.00)")
    (row,) = limits._time_table([each]).rows
    named = dict(zip([column.name for column in limits._time_table([each]).columns], row, strict=True))
    assert (named["ratio, median of turns"], named["ratio, best of each"], named["turns"]) == (
        pytest.approx(1.4),
        pytest.approx(1.0),
        3,
    )
    assert limits._time_checks([timed([9.0], [1.0], None)], sizes) == []


def test_a_full_run_judges_one_worker_by_fifteen_turns() -> None:
    sizes = module("sizes").PAPER
    assert (sizes.turns, sizes.bare) == (15, import_module("benchmarks.bench").LONG)
