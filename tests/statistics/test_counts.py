"""Independent groups: bounds of the largest gap fail as rarely as they say, at a fixed size and at any time.

Where tables are small every one of them is listed, and the chance of a failure is computed, not simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fairchain.statistics.intervals import Floats
from fairchain.statistics.rate_counts import (
    Level,
    RateBounds,
    RowsAnswer,
    SubgroupCounts,
    any_time,
    fixed_sample,
    gap_bounds,
    gaps_of,
    rows_needed,
    widest_of,
)
from fairchain.statistics.rules import Decision, every_pair

DELTA = 0.1
TWO = every_pair(2, 1)
SIZES = (8, 11)
MEASURES = pytest.mark.parametrize("measure", ["difference", "ratio"])


def two(first: int, second: int, sizes: tuple[int, int] = SIZES) -> SubgroupCounts:
    return SubgroupCounts(np.array(sizes), np.array([[first, second]]))


def largest_gap(p: float, q: float, measure: str) -> float:
    """The true largest gap of two groups."""
    high, low = max(p, q), min(p, q)
    return high - low if measure == "difference" else 1 - low / high


def chances(p: float, q: float) -> np.ndarray:
    """(first, second): the probability of each table."""
    first, second = (binom.pmf(np.arange(n + 1), n, rate) for n, rate in zip(SIZES, (p, q), strict=True))
    return np.outer(first, second)


def every_table(bounds: Callable[[SubgroupCounts], tuple[float, float, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of the largest gap for each table there can be."""
    found = np.array([[bounds(two(a, b)) for b in range(SIZES[1] + 1)] for a in range(SIZES[0] + 1)])
    return found[..., 1], found[..., 2]


def worst(low: np.ndarray, high: np.ndarray, measure: str) -> tuple[float, float]:
    """The largest chance, over many pairs of true rates, that the lower or the upper bound fails."""
    rates = np.linspace(0.02, 0.98, 25)
    too_high = too_low = 0.0
    for p, q in product(rates, rates):
        truth, weight = largest_gap(p, q, measure), chances(p, q)
        too_high = max(too_high, float(weight[low > truth + 1e-12].sum()))
        too_low = max(too_low, float(weight[high < truth - 1e-12].sum()))
    return too_high, too_low


@MEASURES
@pytest.mark.parametrize("disjoint", [False, True])
def test_each_bound_fails_with_at_most_half_of_delta_whatever_the_rates(measure: str, disjoint: bool) -> None:
    low, high = every_table(lambda counts: gap_bounds(counts, TWO, measure, DELTA, fixed_sample, disjoint=disjoint))
    too_high, too_low = worst(low, high, measure)
    assert 0 < too_high <= DELTA / 2
    assert 0 < too_low <= DELTA / 2


def _wald(successes: np.ndarray, trials: np.ndarray, level: Level) -> tuple[Floats, Floats]:
    """Not sound for few rows: the normal approximation."""
    from scipy.special import ndtri

    rate = np.asarray(successes) / trials
    width = -ndtri(level) * np.sqrt(rate * (1 - rate) / trials)
    return np.maximum(rate - width, 0), np.minimum(rate + width, 1)


def _estimates(successes: np.ndarray, trials: np.ndarray, _level: Level) -> tuple[Floats, Floats]:
    """Not sound: what was counted, taken for the truth."""
    rate = np.asarray(successes) / trials
    return rate, rate


@MEASURES
@pytest.mark.parametrize("unsound", [_wald, _estimates])
def test_approximate_bounds_fail_this_very_test(measure: str, unsound: RateBounds) -> None:
    assert (
        max(worst(*every_table(lambda counts: gap_bounds(counts, TWO, measure, DELTA, unsound)), measure)) > DELTA / 2
    )


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize(("measure", "limit"), [("difference", Fraction(1, 5)), ("ratio", Fraction(1, 5))])
def test_at_a_gap_of_exactly_the_limit_any_verdict_has_a_chance_below_delta(
    measure: str, limit: Fraction, disjoint: bool
) -> None:
    """Both answers are wrong there, and together they keep to delta; rows that are many enough do decide."""
    decided = np.array(
        [
            [
                RowsAnswer(two(a, b), TWO, measure, limit, DELTA, disjoint=disjoint).decision is not Decision.UNDECIDED
                for b in range(SIZES[1] + 1)
            ]
            for a in range(SIZES[0] + 1)
        ]
    )
    for p in np.linspace(0.22, 1, 30):
        q = p - 0.2 if measure == "difference" else 0.8 * p
        assert chances(p, q)[decided].sum() <= DELTA
        assert chances(q, p)[decided].sum() <= DELTA
    many = SubgroupCounts(np.array([4000, 3000]), np.array([[2000, 900]]))
    assert RowsAnswer(many, TWO, measure, limit / 2, DELTA, disjoint=disjoint).decision is Decision.UNFAIR


LOOKS = (10, 20, 40, 80, 160, 320, 640)


def ever_missed(method: RateBounds, measure: str, runs: int = 300) -> int:
    """Runs of two groups in which, at some look, the bounds of the gap did not contain it."""
    rng = np.random.default_rng(7)
    rates = np.array([(0.5, 0.3), (0.05, 0.02), (0.98, 0.9), (0.3, 0.3)])[np.arange(runs) % 4]
    truth = np.array([largest_gap(p, q, measure) for p, q in rates])
    got = rng.random((runs, 2, LOOKS[-1])) < rates[:, :, None]
    missed = np.zeros(runs, bool)
    for look in LOOKS:
        # One run is one outcome here, so that a look at all of them is one call.
        counts = SubgroupCounts(np.full(2, look), got[:, :, :look].sum(axis=2))
        low, high = counts.bounds(DELTA / 4, method)
        above = gaps_of(high, low, measure)[:, ~np.eye(2, dtype=bool)].max(axis=1)
        low, high = counts.bounds(DELTA / 8, method)
        below = gaps_of(low, high, measure)[:, ~np.eye(2, dtype=bool)].max(axis=1)
        missed |= (above < truth - 1e-9) | (below > truth + 1e-9)
        one = SubgroupCounts(counts.trials, counts.successes[:1])
        _, lowest, highest = gap_bounds(one, TWO, measure, DELTA, method)
        estimate = gaps_of(one.rates, one.rates, measure).max()
        assert lowest == pytest.approx(max(0, min(below[0], estimate)))
        assert highest == pytest.approx(max(above[0], estimate))
    return int(missed.sum())


@MEASURES
def test_bounds_for_any_time_hold_at_all_looks_together(measure: str) -> None:
    assert ever_missed(any_time, measure) <= DELTA * 300


def test_bounds_for_a_fixed_size_do_not_stand_looking_again_and_again() -> None:
    """Peeking at single rates: the same bounds that are exact once fail much too often over many looks."""
    rng, level, missed = np.random.default_rng(0), 0.05, {}
    sums = (rng.random((400, 2000)) < 0.5).cumsum(axis=1)[:, 9::10]
    trials = np.broadcast_to(np.arange(10, 2001, 10), sums.shape)
    for method in (fixed_sample, any_time):
        low, high = method(sums, trials, level)
        missed[method] = int(((low > 0.5) | (high < 0.5)).any(axis=1).sum())
    assert missed[fixed_sample] > binom.ppf(1 - 1e-6, 400, 2 * level)
    assert missed[any_time] <= 400 * level


def counted() -> Iterator[SubgroupCounts]:
    rng = np.random.default_rng(5)
    for _ in range(60):
        asked = rng.integers(1, 30, 4)
        yield SubgroupCounts(asked, rng.integers(0, asked + 1, (3, 4)))


@MEASURES
def test_the_gap_of_everybody_is_a_fraction(measure: str) -> None:
    """By hand, for random tables; and whatever is the widest pair has this gap."""
    for counts in counted():
        rates = [
            [Fraction(int(g), int(n)) for g, n in zip(row, counts.trials, strict=True)] for row in counts.successes
        ]
        gaps = {
            (i, j, o): (row[i] - row[j] if measure == "difference" else 1 - row[j] / row[i] if row[i] else Fraction(0))
            for o, row in enumerate(rates)
            for i, j in product(range(4), range(4))
            if i != j
        }
        assert RowsAnswer(counts, every_pair(4, 3), measure, Fraction(0), 0.0).exact_gap == max(0, *gaps.values())
        assert gaps[widest_of(counts, every_pair(4, 3), measure)] == max(gaps.values())


def test_the_first_of_equal_gaps_is_named_though_rounding_makes_them_differ() -> None:
    """3/10 - 2/10 and 8/10 - 7/10 are the same gap, and not the same floating number."""
    counts = SubgroupCounts(np.array([10, 10]), np.array([[3, 2], [7, 8]]))
    assert widest_of(counts, every_pair(2, 2), "difference") == (0, 1, 0)


@pytest.mark.parametrize(("first", "second"), [(8, 7), (3, 2), (6, 5), (1, 0)])
def test_a_pair_at_the_limit_violates_nothing(first: int, second: int) -> None:
    counts = SubgroupCounts(np.array([10, 10]), np.array([[first, second]]))
    answer = RowsAnswer(counts, TWO, "difference", Fraction(1, 10), 0.0)
    assert answer.decision is Decision.FAIR
    assert answer.violators() == []
    assert RowsAnswer(counts, TWO, "difference", Fraction(999, 10_000), 0.0).violators() == [(0, 1, 0)]


@given(got=st.lists(st.integers(0, 40), min_size=3, max_size=3))
def test_the_mean_of_groups_weighs_each_the_same(got: list[int]) -> None:
    """Columns: three groups, then everybody; subgroups: the mean of the groups, and everybody."""
    asked = np.array([40, 50, 60, 150])
    weights = np.array([[1 / 3, 1 / 3, 1 / 3, 0], [0, 0, 0, 1]])
    counts = SubgroupCounts(asked, np.array([[*got, sum(got)]]), weights)
    mean = sum(Fraction(g, int(n)) for g, n in zip(got, asked[:3], strict=True)) / 3
    assert counts.rates[0, 0] == pytest.approx(float(mean))
    assert RowsAnswer(counts, TWO, "difference", Fraction(0), 0.0).exact_gap == abs(mean - Fraction(sum(got), 150))
    low, high = counts.bounds(0.01, fixed_sample)
    assert low[0, 0] <= float(mean) + 1e-12
    assert high[0, 0] >= float(mean) - 1e-12


@MEASURES
@pytest.mark.parametrize("disjoint", [False, True])
def test_a_forecast_is_the_least_multiple_that_decides(measure: str, disjoint: bool) -> None:
    counts = SubgroupCounts(np.array([50, 60]), np.array([[25, 27]]))
    times = rows_needed(counts, TWO, measure, 0.25, 1e-3, disjoint=disjoint)
    assert times is not None

    def decided(factor: float) -> bool:
        asked, got = (np.floor(each * factor).astype(np.int64) for each in (counts.trials, counts.successes))
        _, low, high = gap_bounds(SubgroupCounts(asked, got), TWO, measure, 1e-3, fixed_sample, disjoint=disjoint)
        return high < 0.25 or low > 0.25

    assert decided(times)
    assert not decided(0.8 * times)


def test_rates_at_the_limit_cannot_be_forecast() -> None:
    assert rows_needed(SubgroupCounts(np.array([10, 10]), np.array([[6, 5]])), TWO, "difference", 0.1, 1e-3) is None


def test_the_rate_of_each_outcome_in_a_mean_of_groups_has_its_own_level() -> None:
    counts = SubgroupCounts(np.array([40, 60]), np.array([[10, 30], [25, 12]]), np.array([[0.5, 0.5], [1.0, 0.0]]))
    levels = np.array([[0.001, 0.01], [0.2, 0.05]])
    low, high = counts.bounds(levels, fixed_sample)
    for outcome, subgroup in product(range(2), range(2)):
        alone = counts.bounds(float(levels[outcome, subgroup]), fixed_sample)
        assert low[outcome, subgroup] == alone[0][outcome, subgroup]
        assert high[outcome, subgroup] == alone[1][outcome, subgroup]
