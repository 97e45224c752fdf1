"""Bounds over many pairs: what is found by looking at few of them is what looking at each would give."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from fairchain.statistics import BettingRule, Tally, count_together, e_values, rate_counts, two_sample
from fairchain.statistics.e_values import BETS, FEW_AT_ONCE, log_wealth, reaches
from fairchain.statistics.intervals import clopper_pearson, largest_above, upper_bounds
from fairchain.statistics.payoff import DIFFERENCE, RATIO, Payoff
from fairchain.statistics.rate_counts import SubgroupCounts
from fairchain.statistics.rules import every_pair
from fairchain.statistics.two_sample import bounds_beyond, combined_level, largest_bound, two_sample_bounds


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pairs are treated as many."""
    monkeypatch.setattr("fairchain.statistics.payoff.FEW_PAIRS", 0)


PAYOFFS = pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO])


@PAYOFFS
def test_reaching_the_bar_is_what_the_wealth_says(payoff: Payoff) -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 60, (6000, 3)) + np.array([0, 500, 0])
    for growths in (payoff.against_at_least(0.05), payoff.against_at_most(0.02)):
        wealth = log_wealth(cells, growths)
        for bar in np.quantile(wealth, [0.02, 0.5, 0.99]):
            assert np.array_equal(reaches(cells, growths, bar), wealth >= bar)
    each = payoff.against_at_least(np.linspace(-0.2, 0.4, 6000))
    assert np.array_equal(reaches(cells, each, 3.0), log_wealth(cells, each) >= 3.0)
    # Sums of stakes, none of which reaches the bar alone, count too.
    assert len(BETS) > 2
    assert reaches(cells[:1], growths, float(log_wealth(cells[:1], growths)[0])).all()


@PAYOFFS
@pytest.mark.parametrize("rare", [True, False])
def test_pairs_are_passed_over_by_their_rates_only_if_their_counts_agree(payoff: Payoff, rare: bool) -> None:
    """Random couplings of random rates: rare labels, for which rates say nearly all, and frequent ones."""
    rng = np.random.default_rng(1)
    passed = 0
    for _ in range(30):
        rates = rng.random((8, 1)) * (0.05 if rare else 1)
        shared = rng.random((1, 2000))
        labels = (np.where(rng.random((8, 2000)) < rng.random(), shared, rng.random((8, 2000))) < rates) + 0
        tally = Tally.of_batch(2000, count_together(labels, [0, 1]), range(8), 8)
        for gap, bar in ((0.1, 14.0), (0.02, 3.0), (0.4, 3.0)):
            cells = payoff.cells(tally)
            refuted = log_wealth(cells, payoff.against_at_least(gap)) >= bar
            left = payoff.open_pairs(tally, gap, bar, at_least=True)
            assert refuted[~left].all()
            beaten = log_wealth(cells, payoff.against_at_most(gap)) >= bar
            may = payoff.open_pairs(tally, gap, bar, at_least=False)
            assert not beaten[~may].any()
            passed += int((~left).sum() + (~may).sum())
    assert passed > 1000


@pytest.mark.parametrize("measure", ["difference", "ratio"])
@pytest.mark.parametrize("rows", [12, 3000])
def test_the_largest_bounds_of_rows_are_those_of_all_pairs(measure: str, rows: int) -> None:
    rng = np.random.default_rng(2)
    for alike in (False, True):
        trials = np.full(9, rows) if alike else rng.integers(1, rows, 9)
        successes = np.full((4, 9), rows // 3) if alike else rng.binomial(trials, rng.random((4, 9)))
        compared = every_pair(9, 4)
        pairs = np.argwhere(compared)
        below, above = (
            two_sample_bounds(trials, successes, pairs, measure, 0.01, upper=upper) for upper in (False, True)
        )
        assert largest_bound(trials, successes, compared, measure, 0.01, upper=True) == pytest.approx(
            above.max(), abs=1e-9
        )
        lowest = largest_bound(trials, successes, compared, measure, 0.01, upper=False)
        assert lowest == below.max() == -np.inf or lowest == pytest.approx(below.max(), abs=1e-9)
        limit = Fraction(1, 20)
        expected = np.argwhere(compared)[below > float(limit)]
        assert np.array_equal(bounds_beyond(trials, successes, compared, measure, 0.01, limit, upper=False), expected)
        expected = np.argwhere(compared)[above > float(limit)]
        assert np.array_equal(bounds_beyond(trials, successes, compared, measure, 0.01, limit, upper=True), expected)


def test_the_largest_gap_of_rows_is_compared_once_for_equal_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 groups and 9 labels with 20 of 100 rows each: one fraction, and the first pair of the largest gap."""
    fractions: list[tuple[int, int, int]] = []
    exact = rate_counts.exact_pair

    def counting(counts: SubgroupCounts, measure: str, pair: tuple[int, int, int]) -> Fraction:
        fractions.append(pair)
        return exact(counts, measure, pair)

    monkeypatch.setattr(rate_counts, "exact_pair", counting)
    compared, successes = every_pair(60, 9), np.full((9, 60), 20)
    alike = SubgroupCounts(np.full(60, 100), successes)
    assert rate_counts.widest_of(alike, compared, "difference") == (0, 1, 0)
    assert len(fractions) == 1
    assert rate_counts.RowsAnswer(alike, compared, "ratio", Fraction(0), 0.0).exact_gap == 0
    # One for the widest pair, and one for its gap.
    assert len(fractions) == 3
    successes[4, 7], successes[6, 7] = 30, 30
    fractions.clear()
    assert rate_counts.widest_of(SubgroupCounts(np.full(60, 100), successes), compared, "difference") == (7, 0, 4)
    assert len(fractions) == 1


def test_a_rule_decides_alike_whole_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six groups and five labels, one part for each label or all in one: the same plans, decisions and bounds."""

    def told(size: int) -> list[object]:
        monkeypatch.setattr("fairchain.statistics.tally.PAIRS_IN_PART", size)
        rng, found = np.random.default_rng(4), []
        rule = BettingRule(6, 5, 0.08, 1e-3)
        while (plan := rule.plan()) is not None and len(found) < 25:
            labels = rng.integers(0, 5, (1, plan.rounds)) + (rng.random((len(plan.groups), plan.rounds)) < 0.03)
            tally = Tally.of_batch(plan.rounds, count_together(labels, range(5)), plan.groups, 6)
            rule.observe(plan, tally)
            found.append((plan, rule.decision, rule.gap(), rule.violators(), rule.forecast()))
        return found

    assert told(1) == told(10**6)


@pytest.fixture
def weighed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs each computation of stakes was for."""
    found: list[int] = []
    weigh = e_values._weigh

    def counting(cells: NDArray[np.float64], growths: NDArray[np.float64]) -> NDArray[np.float64]:
        found.append(cells.size // cells.shape[-1])
        return weigh(cells, growths)

    monkeypatch.setattr(e_values, "_weigh", counting)
    return found


@PAYOFFS
@pytest.mark.parametrize("tied", [True, False])
def test_the_largest_bound_of_many_pairs_needs_the_wealth_of_few(
    payoff: Payoff, tied: bool, weighed: list[int]
) -> None:
    """120 groups and 6 labels, drawn alike for all groups or for each: 85,680 pairs, and the bound of the worst."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 6, (1 if tied else 120, 1000)) + np.zeros((120, 1), int)
    tally = Tally.of_batch(1000, count_together(labels, range(6)), range(120), 120)
    compared = every_pair(120, 6)
    found = largest_above(tally, compared, 15.0, payoff=payoff)
    assert sum(weighed) < compared.sum() / 20
    different = np.unique(payoff.cells(tally)[compared], axis=0)
    assert found == pytest.approx(max(upper_bounds(cells, 15.0, payoff) for cells in different[-400:]), abs=1e-9)
    # No pair has a larger bound: each refutes one just above it.
    assert reaches(different, payoff.against_at_least(found + 1e-9), 15.0).all()


def test_equal_counts_are_weighed_once(weighed: list[int]) -> None:
    cells = np.random.default_rng(6).integers(0, 8, (20_000, 3)) + np.array([0, 900, 0])
    growths = DIFFERENCE.against_at_least(0.02)
    assert np.array_equal(reaches(cells, growths, 0.5), log_wealth(cells, growths) >= 0.5)
    assert sum(weighed) < 20_000 + 8**3 * len(BETS)


@PAYOFFS
def test_a_pair_that_is_no_worse_refutes_what_the_worst_one_refutes(payoff: Payoff) -> None:
    rng = np.random.default_rng(7)
    passed = 0
    for _ in range(20):
        labels = rng.random((9, 400)) < rng.random((9, 1)) * rng.random()
        tally = Tally.of_batch(400, count_together(labels + 0, [1]), range(9), 9)
        tally += Tally.of_batch(400, count_together(labels[:6] + 0, [1]), range(6), 9)
        cells = payoff.cells(tally)
        worst = cells[0, *rng.integers(0, 9, 2)]
        better = payoff.no_worse_than(tally, worst)
        for gap in (0.0, 0.05, 0.3):
            growths = payoff.against_at_least(gap)
            assert (log_wealth(cells, growths)[better] >= log_wealth(worst, growths) - 1e-9).all()
        passed += int(better.sum())
    assert passed > 100


@pytest.mark.parametrize("weight", [1.0, 0.5, 1 / 64])
def test_weighted_p_values_exceed_their_level_as_often_as_stated(weight: float) -> None:
    """Of 10^6 pairs of independent p-values; the relative error is below 5 standard deviations."""
    rng, alpha = np.random.default_rng(1), 0.01
    sums = rng.exponential(size=10**6) + weight * rng.exponential(size=10**6)
    assert (sums > combined_level(alpha, weight)).mean() == pytest.approx(alpha, rel=0.05)


def test_beside_a_huge_group_a_small_one_has_its_own_bound() -> None:
    trials, successes = np.array([100, 10**7]), np.array([[30, 3 * 10**6]])
    above = two_sample_bounds(trials, successes, np.array([[0, 0, 1]]), "difference", 0.05, upper=True)
    alone = float(clopper_pearson(30, 100, 0.1)[1]) - 0.3
    assert alone < above[0] < 1.05 * alone
    turned = trials[::-1].copy(), successes[:, ::-1].copy()
    above = two_sample_bounds(*turned, np.array([[0, 1, 0]]), "difference", 0.05, upper=True)
    assert alone < above[0] < 1.05 * alone


def test_bounds_of_samples_sort_groups_and_not_pairs_and_compute_each_count_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The work behind the bounds grows with the number of groups and outcomes; only comparisons grow with pairs."""
    rng = np.random.default_rng(0)
    groups, outcomes = 80, 30
    trials = rng.integers(300, 500, groups)
    successes = rng.binomial(trials, 0.01, (outcomes, groups))
    compared = every_pair(groups, outcomes)
    work = {"sorted": 0, "computed": 0}
    unique = np.unique

    def counted_unique(values: NDArray[np.generic], **options: object) -> object:
        work["sorted"] += len(values)
        return unique(values, **options)  # type: ignore[call-overload]

    bound = two_sample.clopper_pearson_bound

    def counted_bounds(successes: NDArray[np.float64], *given: object, upper: bool) -> object:
        work["computed"] += len(successes)
        return bound(successes, *given, upper=upper)  # type: ignore[arg-type]

    monkeypatch.setattr(two_sample.np, "unique", counted_unique)
    monkeypatch.setattr(two_sample, "clopper_pearson_bound", counted_bounds)
    found = list(two_sample._looks(trials, successes, compared, "difference", 1e-3, lambda: -np.inf, upper=True))
    assert sum(len(pairs) for pairs, _, _ in found) == compared.sum()
    kinds = len(two_sample.exponents_at(1e-3)[0])
    counts = np.stack([np.broadcast_to(trials, successes.shape).ravel(), successes.ravel()], axis=1)
    assert work["computed"] <= kinds * len(unique(counts, axis=0)) < 2 * kinds * groups * outcomes
    assert work["sorted"] <= 4 * kinds * groups * outcomes < compared.sum()


@pytest.mark.parametrize("payoff", [DIFFERENCE, RATIO])
def test_few_pairs_that_are_looked_at_once_are_cleared_and_forecast_like_many(
    payoff: Payoff, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates, uniform, looks = np.array([0.5, 0.52, 0.47, 0.55]), np.random.default_rng(8), 0
    few, many = (BettingRule(4, 1, 0.2, 1e-6, payoff=payoff) for _ in range(2))
    while (plan := few.plan()) is not None:
        labels = (uniform.random((plan.rounds, 1)) < rates[list(plan.groups)]).T.astype(np.uint8)
        tally = Tally.of_batch(plan.rounds, count_together(labels, [1]), plan.groups, 4)
        for rule, most in ((few, FEW_AT_ONCE), (many, 0)):
            monkeypatch.setattr("fairchain.statistics.betting.FEW_AT_ONCE", most)
            rule.observe(plan, tally)
        assert few.cleared.tolist() == many.cleared.tolist()
        assert (few.decision, few.forecast()) == (many.decision, many.forecast())
        looks += 1
    assert looks > 5
