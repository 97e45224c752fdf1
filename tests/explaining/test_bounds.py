"""Intervals of effects and sensitivities keep their promise, on rounds whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from fairchain.explaining.effect_bounds import SIGNS, effects, mean_bounds, sensitivities, spreads
from fairchain.explaining.effect_counts import PAIR_VALUES, EffectCounts
from fairchain.statistics import Interval, Tally, count_together
from fairchain.statistics.intervals import pair_bounds

DELTA, RUNS = 0.2, 300
# Runs with a miss in more than this many of 300 at delta 0.2 have a chance below 1e-5.
MOST = int(RUNS * DELTA + 4.3 * math.sqrt(RUNS * DELTA * (1 - DELTA)))


def counts(rounds: int, **arrays: NDArray[np.int64]) -> EffectCounts:
    nothing = np.zeros((1, 1, 1), np.int64)
    fields = {"together": nothing, "now": nothing, "changed": nothing, "shift": nothing, "states": nothing}
    fields |= {"joint": nothing, "minus": nothing, "plus": nothing}
    return EffectCounts(rounds=rounds, evaluations=0, shift_rounds=1, **(fields | arrays))


def drawn_effects(rng: np.random.Generator, chances: NDArray[np.float64], rounds: int) -> EffectCounts:
    """Many runs with three units each, of their own joint distribution of the value now and under intervention."""
    cells = np.stack([rng.multinomial(rounds, unit.ravel(), RUNS) for unit in chances], axis=1).reshape(-1, 9)
    now, then = np.indices((3, 3)).reshape(2, 9) - 1
    minus = np.stack([cells[:, now - then == step].sum(axis=1) for step in PAIR_VALUES], axis=1)
    plus = np.stack([cells[:, now + then == step].sum(axis=1) for step in PAIR_VALUES], axis=1)
    return counts(rounds, minus=minus, plus=plus)


@pytest.mark.parametrize("rounds", [50, 1000])
def test_all_effects_lie_in_their_intervals_with_the_promised_probability(rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    chances = rng.dirichlet(np.full(9, 0.4), 3).reshape(3, 3, 3)
    now, then = chances.sum(axis=2) @ SIGNS, chances.sum(axis=1) @ SIGNS
    truth = now - np.abs(then)
    # All runs in one call: with as many times the units and delta each interval is what it would be in its own run.
    found = effects(drawn_effects(rng, chances, rounds), DELTA * RUNS)
    assert missing(found, truth) <= MOST
    assert missing([third(interval) for interval in found], truth) > MOST  # intervals that are too short are seen


def missing(found: Sequence[Interval], truth: NDArray[np.float64]) -> int:
    """In how many runs some interval misses; the intervals of a run stand together."""
    size = len(truth)
    runs = [found[start : start + size] for start in range(0, len(found), size)]
    return sum(any(true not in interval for true, interval in zip(truth, run, strict=True)) for run in runs)


def third(interval: Interval) -> Interval:
    estimate, low, high = interval.estimate, interval.low, interval.high
    return Interval(estimate, estimate - (estimate - low) / 3, estimate + (high - estimate) / 3)


def test_an_effect_is_what_the_gap_loses_whichever_group_is_better_off_then() -> None:
    # The gap is 0.4 in every run: once 0.1 is left, once -0.1, once -0.9.
    cases = {0.1: 0.3, -0.1: 0.3, -0.9: -0.5}
    for left, effect in cases.items():
        cells = np.zeros((3, 3), np.int64)
        for value in range(1000):
            now, then = int(value % 10 < 4), int(value // 10 % 10 < abs(left) * 10) * (1 if left > 0 else -1)
            cells[now + 1, then + 1] += 1
        now_, then_ = np.indices((3, 3)) - 1
        minus = np.array([[cells[now_ - then_ == step].sum() for step in PAIR_VALUES]])
        plus = np.array([[cells[now_ + then_ == step].sum() for step in PAIR_VALUES]])
        (found,) = effects(counts(1000, minus=minus, plus=plus), 0.05)
        assert found.estimate == pytest.approx(effect)
        assert found.low < effect < found.high


def test_bounds_of_three_values_are_those_of_a_pair_of_groups() -> None:
    cells = np.array([[3, 90, 7], [50, 0, 50], [0, 100, 0]])
    low, high = mean_bounds(cells[:, ::-1], SIGNS, 0.01, 0.01)
    expected = pair_bounds(cells, math.log(100))
    np.testing.assert_allclose(low, expected[0], atol=1e-9)
    np.testing.assert_allclose(high, expected[1], atol=1e-9)


def test_nothing_is_divided_by_zero_where_all_rounds_are_alike() -> None:
    low, high = mean_bounds(np.array([[0, 0, 0, 0, 10], [10, 0, 0, 0, 0]]), PAIR_VALUES.astype(float), 0.1, 0.1)
    assert (low <= [2, -2]).all()
    assert (high >= [2, -2]).all()
    assert (np.abs([low, high]) <= 2).all()


def drawn_states(rng: np.random.Generator, chances: NDArray[np.float64], rounds: int) -> EffectCounts:
    """One run: coupled rounds of three groups and a unit of three states; the label follows the state."""
    states = (rng.random((1, rounds)) > np.cumsum(chances, axis=1)[:, :2, None]).sum(axis=1).reshape(3, rounds)
    got = rng.random((3, rounds)) < np.array([0.2, 0.5, 0.9])[states]
    joint = np.array([np.count_nonzero((states == state) & got, axis=1) for state in range(3)])
    return counts(rounds, states=count_together(states, range(3)), joint=joint)


def test_sensitivities_lie_in_their_intervals_with_the_promised_probability() -> None:
    rng = np.random.default_rng(3)
    chances, shares = np.array([[0.2, 0.3, 0.5], [0.3, 0.3, 0.4], [0.25, 0.15, 0.6]]), np.array([0.5, 0.3, 0.2])
    joint = (shares @ chances) * [0.2, 0.5, 0.9]
    truth = float((joint * (chances.max(axis=0) - chances.min(axis=0))).sum())
    runs = [drawn_states(rng, chances, 500) for _ in range(RUNS)]
    parts = {name: np.concatenate([getattr(run, name) for run in runs]) for name in ("states", "joint")}
    found = sensitivities(counts(500, **parts), [3] * RUNS, shares, DELTA * RUNS)
    assert missing(found, np.array([truth])) <= MOST
    assert all(interval.low <= interval.estimate <= interval.high < interval.low + 0.25 for interval in found)


def test_the_widest_pair_is_found_without_looking_at_every_pair() -> None:
    rng = np.random.default_rng(4)
    states = rng.integers(0, 4, (6, 300)) * (rng.random((6, 300)) < np.linspace(0.2, 0.9, 6)[:, None])
    together = count_together(states, range(4))
    _, low, high = spreads(together, 300, 0.1)
    off = ~np.eye(6, dtype=bool)
    cells = Tally.of_batch(300, together, range(6), 6).cells[:, off]
    below, _ = pair_bounds(cells, math.log(2 * 30 / 0.1))
    _, above = pair_bounds(cells, math.log(2 / 0.1))
    np.testing.assert_allclose(low, np.maximum(below.max(axis=1), 0), atol=1e-9)
    np.testing.assert_allclose(high, above.max(axis=1), atol=1e-9)


def test_many_groups_are_bounded_one_by_one() -> None:
    rng = np.random.default_rng(5)
    chances = np.linspace(0.3, 0.6, 50)
    states = (rng.random((50, 2000)) < chances[:, None]).astype(np.uint8)
    own = np.stack([np.count_nonzero(states == state, axis=1) for state in (0, 1)])
    together = own[:, :, None] * np.eye(50, dtype=np.int64)
    estimate, low, high = spreads(together, 2000, 0.01)
    assert ((low <= 0.3) & (high >= 0.3)).all()
    assert (estimate > 0.2).all()
