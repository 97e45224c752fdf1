"""Promises about rows that were not evaluated: bounds hold for every table, and a wrong rule is caught here."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import hypergeom

from fairchain.statistics import Decision
from fairchain.statistics.rate_counts import RowsAnswer, SubgroupCounts
from fairchain.statistics.shifted import ShiftedRows, ShiftQuestion
from fairchain.statistics.unseen_rows import UnseenRowsAnswer, share_bounds

PAIR = ~np.eye(2, dtype=bool)[None]


@pytest.mark.parametrize("total", [1, 6, 13])
@pytest.mark.parametrize("level", [0.3, 0.05, 1e-4])
def test_each_bound_of_a_random_part_fails_at_most_at_its_level(total: int, level: float) -> None:
    """All parts of all tables are summed up; bounds of a sample with replacement would be wider, others would fail."""
    for successes, drawn in product(range(total + 1), range(total + 1)):
        found = np.arange(drawn + 1)
        low, high = share_bounds(found, drawn, total, level)
        chance = hypergeom.pmf(found, total, successes, drawn)
        truth = successes / total
        assert chance[low > truth + 1e-12].sum() <= level * (1 + 1e-9)
        assert chance[high < truth - 1e-12].sum() <= level * (1 + 1e-9)


def test_bounds_of_a_part_that_ignores_the_rest_would_fail() -> None:
    """The control: rates of the rows that were seen, taken for those of all rows, are nearly always wrong."""
    total, successes, drawn = 40, 20, 10
    found = np.arange(drawn + 1)
    chance = hypergeom.pmf(found, total, successes, drawn)
    assert chance[found / drawn != successes / total].sum() > 0.5


def test_without_an_error_probability_every_decision_about_the_others_is_possible() -> None:
    low, high = share_bounds(3, 10, 40, 0.0)
    assert (float(low), float(high)) == (3 / 40, 33 / 40)


def test_a_part_that_is_the_whole_is_exact() -> None:
    low, high = share_bounds([0, 17, 40], 40, 40, 1e-6)
    assert np.array_equal(low, high)
    assert low.tolist() == [0, 17 / 40, 1]


@pytest.mark.parametrize(("totals", "delta"), [(None, 0.01), (np.array([40, 50]), 0.01), (np.array([40, 50]), 0.0)])
def test_a_shift_starts_from_the_bounds_of_the_rows_that_were_not_seen(
    totals: NDArray[np.int64] | None, delta: float
) -> None:
    """Clopper and Pearson's bounds, or the rates as counted, would be too narrow."""
    counts = SubgroupCounts(np.array([10, 20]), np.array([[3, 11]]))
    rows = UnseenRowsAnswer(counts, PAIR, "difference", Fraction(1, 10), delta, totals=totals)
    shifted = ShiftedRows(rows, ShiftQuestion(1.0, False, PAIR, "difference", 0.1))
    assert np.array_equal(shifted.probabilities(), rows.probabilities())
    assert shifted.gap() == pytest.approx(rows.gap())


def worst(successes: tuple[int, int], seen: tuple[int, int], totals: tuple[int, int]) -> tuple[float, float]:
    """The least and the largest gap over all decisions about the rows that were not seen, one by one."""
    spans = [range(s, s + n - k + 1) for s, k, n in zip(successes, seen, totals, strict=True)]
    gaps = [abs(a / totals[0] - b / totals[1]) for a, b in product(*spans)]
    return min(gaps), max(gaps)


@pytest.mark.parametrize(
    ("successes", "seen", "totals"),
    [((3, 1), (5, 4), (6, 9)), ((0, 8), (1, 8), (2, 8)), ((2, 2), (4, 4), (4, 4)), ((5, 0), (5, 5), (20, 5))],
)
def test_the_worst_case_is_the_worst_of_all_cases(
    successes: tuple[int, int], seen: tuple[int, int], totals: tuple[int, int]
) -> None:
    counts = SubgroupCounts(np.array(seen), np.array([successes]))
    answer = UnseenRowsAnswer(counts, PAIR, "difference", Fraction(1, 10), 0.0, totals=np.array(totals))
    estimate, low, high = answer.gap()
    least, most = worst(successes, seen, totals)
    assert low == pytest.approx(min(least, estimate), abs=1e-12)
    assert high == pytest.approx(most, abs=1e-12)
    if answer.decision is Decision.FAIR:
        assert most <= 0.1
    if answer.decision is Decision.UNFAIR:
        assert least > 0.1


def decisions(random: np.random.Generator, rates: NDArray[np.float64], size: int) -> NDArray[np.bool_]:
    return random.random((2, size)) < rates[:, None]


def test_an_interrupted_sample_is_wrong_at_most_at_delta_however_it_is_stopped() -> None:
    """An adversary looks after each row and stops as soon as the verdict would be wrong. The true gap is the threshold.

    With delta = 0.1 the adversary wins at most 10% of 30 runs on average; 12 or more happen with probability 2e-5. The
    bounds of a fixed sample, as the control, are beaten more often.
    """
    runs, size, delta = 30, 160, 0.1
    limit = Fraction(1, 10)
    beaten = fixed = 0
    for run in range(runs):
        table = decisions(np.random.default_rng(run), np.array([0.5, 0.4]), size)
        sums = table.cumsum(axis=1)
        won = lost = False
        for seen in range(16, size + 1, 16):
            counts = SubgroupCounts(np.full(2, seen), sums[:, seen - 1][None])
            if not won:
                any_time = UnseenRowsAnswer(counts, PAIR, "difference", limit, delta, totals=None)
                won = any_time.decision is not Decision.UNDECIDED
            if not lost:
                lost = RowsAnswer(counts, PAIR, "difference", limit, delta, disjoint=True).decision is not (
                    Decision.UNDECIDED
                )
        beaten, fixed = beaten + won, fixed + lost
    assert beaten < 12
    assert fixed > beaten


def test_a_random_part_decides_before_the_whole_is_seen_and_is_hardly_ever_wrong() -> None:
    """The gap of the population is 0.1, the threshold: both verdicts are wrong. At delta = 0.1 of 200 runs 40 or more
    would be wrong with probability below 1e-4.
    """
    random = np.random.default_rng(1)
    totals, successes = np.array([200, 200]), np.array([100, 80])
    wrong = 0
    for _ in range(200):
        seen = random.multivariate_hypergeometric(totals, 250)
        found = random.hypergeometric(successes, totals - successes, seen)
        counts = SubgroupCounts(seen, found[None])
        answer = UnseenRowsAnswer(counts, PAIR, "difference", Fraction(1, 10), 0.1, totals=totals)
        wrong += answer.decision is not Decision.UNDECIDED
    assert wrong < 40
    wide = SubgroupCounts(np.array([120, 130]), np.array([[110, 20]]))
    answer = UnseenRowsAnswer(wide, PAIR, "difference", Fraction(1, 10), 1e-6, totals=totals)
    assert answer.decision is Decision.UNFAIR
    assert answer.violators() == [(0, 1, 0)]
