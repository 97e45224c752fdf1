"""Intervals cover, at every time at once where that is promised.

Coverage tests state the chance of a false alarm: the limits are exceeded with probability below 1e-6 if the error
probability is exactly what is promised.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from fairchain.statistics.e_values import log_wealth
from fairchain.statistics.intervals import (
    FEW_BRACKETS,
    Interval,
    bisect,
    clopper_pearson,
    largest_above,
    largest_below,
    lower_bounds,
    pair_bounds,
    probability_any_time,
    upper_bounds,
)
from fairchain.statistics.payoff import DIFFERENCE, RATIO
from fairchain.statistics.rules import every_pair
from fairchain.statistics.tally import Tally, count_together

against_at_least, against_at_most = DIFFERENCE.against_at_least, DIFFERENCE.against_at_most


def test_bounds_enclose_the_estimate_and_shrink() -> None:
    widths = []
    for trials in (10, 100, 1000, 10_000):
        low, high = probability_any_time(trials * 3 // 10, trials, 0.01)
        assert 0 <= low[0] < 0.3 < high[0] <= 1
        widths.append(high[0] - low[0])
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (0, 50), (50, 50)])
def test_extreme_counts_give_one_sided_bounds(successes: int, trials: int) -> None:
    low, high = probability_any_time(successes, trials, 0.01)
    assert (low[0] == 0.0) == (successes == 0)
    assert (high[0] == 1.0) == (successes == trials)


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.97])
def test_any_time_bounds_of_a_probability_hold_at_all_times(p: float) -> None:
    runs, alpha, length = 1000, 0.1, 2000
    rng = np.random.default_rng(1)
    looks = np.unique(np.geomspace(1, length, 60).astype(int))
    counts = (rng.random((runs, length)) < p).cumsum(axis=1)[:, looks - 1]
    low, high = probability_any_time(counts, np.broadcast_to(looks, counts.shape), alpha)
    missed = ((low > p) | (high < p)).any(axis=1).sum()
    assert missed <= binom.ppf(1 - 1e-6, runs, alpha)
    # The same counts under an interval for one fixed size, looked at again and again, miss far too often.
    low, high = clopper_pearson(counts, np.broadcast_to(looks, counts.shape), alpha)
    peeked = ((low > p) | (high < p)).any(axis=1).sum()
    assert peeked > binom.ppf(1 - 1e-6, runs, alpha)


@pytest.mark.parametrize("chances", [(0.1, 0.85, 0.05), (0.5, 0.1, 0.4), (0.01, 0.99, 0.0)])
def test_bounds_of_a_gap_hold_at_all_times(chances: tuple[float, float, float]) -> None:
    runs, alpha = 400, 0.1
    truth = chances[0] - chances[2]
    rng = np.random.default_rng(2)
    looks = np.array([5, 10, 20, 40, 80, 160, 320, 640])
    steps = rng.choice(3, (runs, looks[-1]), p=chances)
    cells = np.stack([(steps == c).cumsum(axis=1)[:, looks - 1] for c in range(3)], axis=-1)
    bar = np.log(2 / alpha)
    too_high = log_wealth(cells, against_at_most(truth)) >= bar
    too_low = log_wealth(cells, against_at_least(truth)) >= bar
    missed = (too_high | too_low).any(axis=1).sum()
    assert missed <= binom.ppf(1 - 1e-6, runs, alpha)


def test_the_largest_bounds_are_those_of_the_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by looking at few pairs; whole or in parts, of groups that are alike, and of some that were asked less."""
    rng = np.random.default_rng(3)
    monkeypatch.setattr("fairchain.statistics.payoff.FEW_PAIRS", 0)
    for run, payoff in product(range(6), (DIFFERENCE, RATIO)):
        rates = np.full((7, 1), 0.3) if run == 1 else rng.random((7, 1))
        labels = (rng.random((7, 500)) < rates) * rng.integers(1, 4, (1, 500))
        tally = Tally.of_batch(500, count_together(labels, [1, 2, 3]), range(7), 7)
        if run > 3:
            tally += Tally.of_batch(500, count_together(labels[:5], [1, 2, 3]), range(5), 7)
        compared = every_pair(7, 3)
        below, above = pair_bounds(payoff.cells(tally)[compared], 5.0, payoff)
        monkeypatch.setattr("fairchain.statistics.tally.PAIRS_IN_PART", 10**6 if run % 2 else 1)
        assert largest_above(tally, compared, 5.0, payoff=payoff) == pytest.approx(above.max(), abs=1e-9)
        assert largest_below(tally, compared, 5.0, payoff) == pytest.approx(below.max(), abs=1e-9)
        limit = float(np.median(above))
        for share in (0.8, 0.0):
            # Of some pairs, or of all, it is known that they do not exceed something.
            caps = np.full(compared.shape, np.inf)
            caps[compared] = np.where(
                above > np.quantile(above, share), limit + rng.normal(0, 0.05, above.size), np.inf
            )
            expected = np.minimum(caps[compared], above).max()
            found = largest_above(tally, compared, 5.0, caps.__getitem__, payoff=payoff)
            assert found == pytest.approx(expected, abs=1e-9)


def test_a_bound_of_a_gap_is_where_the_evidence_turns() -> None:
    cells, bar = np.array([60, 900, 40]), 5.0
    high, low = upper_bounds(cells, bar), lower_bounds(cells, bar)
    assert log_wealth(cells, against_at_least(high + 1e-6)) >= bar > log_wealth(cells, against_at_least(high - 1e-6))
    assert log_wealth(cells, against_at_most(low - 1e-6)) >= bar > log_wealth(cells, against_at_most(low + 1e-6))


def test_a_few_brackets_and_many_give_the_same_bounds() -> None:
    cells = np.random.default_rng(3).integers(0, 90, (FEW_BRACKETS + 1, 3))
    together = pair_bounds(cells, math.log(1e6))
    for place, alone in enumerate(cells):
        assert lower_bounds(alone, math.log(1e6)) == pytest.approx(together[0][place], abs=2**-42)
        assert upper_bounds(alone, math.log(1e6)) == pytest.approx(together[1][place], abs=2**-42)


@pytest.mark.parametrize("brackets", [1, 2, FEW_BRACKETS + 1])
@pytest.mark.parametrize("most", [1.0, 1e9, np.inf])
def test_a_bracket_ends_at_the_outermost_value_that_is_not_refuted(brackets: int, most: float) -> None:
    # Evidence that came and went does not make a bound narrower than what is refuted all the way out.
    def excess(value: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where((value > 0.76) | ((value > 0.25) & (value < 0.5)), most, -1.0)

    found = bisect(excess, np.zeros(brackets), np.ones(brackets))
    assert (found > 0.76).all()
    assert found == pytest.approx(0.76, abs=1e-12)


def test_bounds_of_a_gap_are_not_vacuous() -> None:
    cells = np.array([500, 9000, 500])
    assert -0.03 < lower_bounds(cells, np.log(1e6)) < 0 < upper_bounds(cells, np.log(1e6)) < 0.03


@pytest.mark.parametrize("p", [0.005, 0.2, 0.5])
def test_clopper_pearson_covers_exactly(p: float) -> None:
    """Exact: summed over all outcomes, not sampled."""
    trials, alpha = 200, 0.05
    counts = np.arange(trials + 1)
    low, high = clopper_pearson(counts, trials, alpha)
    missed = binom.pmf(counts, trials, p)[(low > p) | (high < p)].sum()
    assert missed <= alpha


def test_an_interval_prints_with_its_bounds() -> None:
    assert str(Interval(0.05, 0.01, 0.1)) == "0.050 [0.010, 0.100]"
    assert 0.2 not in Interval(0.05, 0.01, 0.1)


def test_an_interval_is_short_wherever_it_is_printed() -> None:
    assert f"{Interval(1 / 3, 0.25, 0.5)}" == str(Interval(1 / 3, 0.25, 0.5)) == "0.333 [0.250, 0.500]"
