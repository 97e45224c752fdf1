"""How far a population may change: against linear programs, and by brute force over random shifts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from fairchain import Decision, verify
from fairchain.rechecking import arithmetic
from fairchain.spec import parse_spec
from fairchain.spec.properties import shared_pairs
from fairchain.statistics import Tally, count_together
from fairchain.statistics.shift import factor_of_rates, factor_of_rounds, least_rate, most_rate
from tests import questions

Floats = NDArray[np.float64]


def extremes(weights: Floats, values: Floats, factor: float) -> tuple[float, float]:
    """Return the smallest and the largest mean over all populations within a factor, by linear programs."""
    bounds = [(weight / factor, weight * factor) for weight in weights]
    total = {"A_eq": np.ones((1, len(weights))), "b_eq": [1.0], "bounds": bounds}
    return linprog(values, **total).fun, -linprog(-values, **total).fun


@pytest.mark.parametrize("seed", range(30))
def test_a_rate_and_a_difference_reach_what_linear_programs_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, factor = rng.dirichlet(np.full(8, 0.5)), float(1 + 3 * rng.random())
    outcome = rng.random(8) < rng.random()
    rate = float(weights @ outcome)
    least, most = extremes(weights, outcome.astype(float), factor)
    assert (least, most) == pytest.approx((float(least_rate(rate, factor)), float(most_rate(rate, factor))), abs=1e-8)
    # One individual shown as two groups: the difference reaches the most of one cell minus the least of the other.
    other = rng.random(8) < rng.random()
    one, two = float(weights @ (outcome & ~other)), float(weights @ (other & ~outcome))
    least, most = extremes(weights, outcome.astype(float) - other, factor)
    reached = most_rate(one, factor) - least_rate(two, factor)
    assert most == pytest.approx(float(reached), abs=1e-8)
    assert least == pytest.approx(float(least_rate(one, factor) - most_rate(two, factor)), abs=1e-8)


@pytest.mark.parametrize("measure", ["difference", "ratio"])
@pytest.mark.parametrize("seed", range(20))
def test_the_factor_is_where_the_verdict_ends_to_hold(seed: int, measure: str) -> None:
    rng = np.random.default_rng(seed)
    rates, compared = rng.random((2, 4)), np.repeat(~np.eye(4, dtype=bool)[None], 2, axis=0)
    compared[1, 2] = False
    scale, margin = (0.8, 0.0) if measure == "ratio" else (1.0, 0.4)
    limit = 0.2 if measure == "ratio" else 0.4
    fair = all(scale * rates[o, i] - rates[o, j] <= margin for o, i, j in np.argwhere(compared))
    factor = factor_of_rates(rates, rates, compared, measure, limit, fair=fair)

    def holds(factor: float) -> bool:
        most, least = most_rate(rates, factor), least_rate(rates, factor)
        if fair:
            return bool((scale * most[:, :, None] - least[:, None, :] <= margin)[compared].all())
        return bool((scale * least[:, :, None] - most[:, None, :] > margin)[compared].any())

    assert factor > 1
    assert holds(factor * (1 - 1e-9))
    assert not holds(factor * (1 + 1e-9))
    # The checker's own arithmetic searches for it instead of solving for it.
    assert arithmetic.tipping_factor(holds) == pytest.approx(factor)


def test_rates_of_zero_never_tip_and_factors_end_at_a_thousand() -> None:
    none, pair = np.zeros((1, 2)), ~np.eye(2, dtype=bool)[None]
    assert factor_of_rates(none, none, pair, "difference", 0.1, fair=True) == 1000
    assert factor_of_rates(none, none, pair, "ratio", 0.2, fair=True) == 1000
    apart = np.array([[1.0, 0.0]])
    assert factor_of_rates(apart, apart, pair, "difference", 0.1, fair=False) == 1000


def network(rng: np.random.Generator, inputs: int) -> NDArray[np.int64]:
    """Return the decisions of a random threshold network about every input as each of three groups."""
    values = rng.normal(size=(inputs, 3))
    hidden = np.maximum(values @ rng.normal(size=(3, 5)), 0)[None] + rng.normal(size=(3, 1, 5)) * 0.3
    return np.asarray((hidden @ rng.normal(size=5) > rng.normal()).astype(np.int64))


def random_shift(rng: np.random.Generator, weights: Floats, factor: float, outcome: NDArray[np.bool_]) -> Floats:
    """Return a population within the factor: a random direction, or the one that changes a rate most."""
    toward = rng.random(len(weights)) if rng.random() < 0.5 else outcome + 0.1 * rng.random(len(weights))
    bounds = [(weight / factor, weight * factor) for weight in weights]
    return np.asarray(linprog(-toward, A_eq=np.ones((1, len(weights))), b_eq=[1.0], bounds=bounds).x)


@pytest.mark.parametrize("seed", range(25))
def test_no_shift_within_the_factor_of_a_verdict_contradicts_it(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    inputs, threshold = 12, float(rng.choice([0.05, 0.2, 0.4]))
    decided = network(rng, inputs)
    spec = parse_spec(
        {
            "model": {"labels": ["no", "yes"], "decision": "label", "codes": [0, 1]},
            "feature": [
                {"name": "g", "kind": "category", "values": ["a", "b", "c"]},
                {"name": "x", "kind": "integer", "low": 0, "high": inputs - 1},
            ],
            "property": {"kind": "difference", "protected": ["g"], "threshold": threshold},
            "guarantee": {"engine": "enumeration"},
        }
    )
    verdict = verify(lambda rows: decided[rows[:, 0].astype(int), rows[:, 1].astype(int)], spec)
    if verdict.constant is not None:
        assert verdict.tipping is None
        return
    assert verdict.tipping is not None
    factor, fair, even = verdict.tipping.each_group, verdict.decision is Decision.FAIR, np.full(inputs, 1 / inputs)
    for _ in range(20):
        within = 1 + (min(factor, 50.0) - 1) * (1 - 1e-4)
        rates = [random_shift(rng, even, within, row > 0) @ row for row in decided]
        rounding = 1e-9 if fair else -1e-9
        assert (max(rates) - min(rates) <= threshold + rounding) == fair


@pytest.mark.parametrize("measure", ["difference", "ratio"])
@pytest.mark.parametrize("seed", range(8))
def test_no_shift_of_the_shared_individuals_within_the_factor_contradicts_it(seed: int, measure: str) -> None:
    rng = np.random.default_rng(2000 + seed)
    inputs = 12
    decided, even = network(rng, inputs), np.full(inputs, 1 / inputs)
    drawn = rng.integers(inputs, size=20_000)
    tally = Tally.of_batch(len(drawn), count_together(decided[:, drawn], [1]), range(3), 3)
    compared = ~np.eye(3, dtype=bool)[None]
    scale, limit = (0.7, 0.3) if measure == "ratio" else (1.0, 0.25)
    margin = 0.0 if measure == "ratio" else limit

    def unfair(population: Floats) -> bool:
        rates = decided @ population
        return bool((scale * rates[:, None] - rates[None, :] > margin + 1e-9)[compared[0]].any())

    fair = not unfair(even)
    factor = factor_of_rounds(tally, compared, measure, limit, 1e-3, fair=fair)
    assert factor is not None
    for _ in range(20):
        toward = decided[int(rng.integers(3))] - scale * decided[int(rng.integers(3))]
        shifted = random_shift(rng, even, min(factor, 50.0), toward > 0)
        assert factor == 1 or unfair(shifted) != fair


def test_too_many_pairs_have_no_factor_for_all_groups_alike() -> None:
    """Compared pairs count: those of each two groups twice, and those with a reference group once."""
    with_reference, all_pairs = np.zeros((1, 3000, 3000), bool), ~np.eye(70, dtype=bool)[None]
    with_reference[0, 1:, 0] = True
    for compared, pairs in ((with_reference, 2 * 2999), (all_pairs, 0)):
        comparison: Any = SimpleNamespace(individual=False, compared=compared)
        assert len(shared_pairs(questions.spec(), comparison)) == pairs
    groups = 70
    tally = Tally.of_batch(10, np.zeros((1, groups, groups), np.int64), range(groups), groups)
    compared = ~np.eye(groups, dtype=bool)[None]
    assert factor_of_rounds(tally, compared, "difference", 0.1, 0.1, fair=True) is None
