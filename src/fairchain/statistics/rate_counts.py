"""Rates counted by subgroup, without rounds: rows of a table, recorded decisions, a stream of decisions.

The state is the trials and successes of each subgroup. Bounds of single rates give bounds of the largest gap
(docs/mathematics-tables.md, "Independent groups"): the upper one needs no union over pairs, because only the truly
widest pair can make it fail; the lower one is paid for by every pair or subgroup. `RowsAnswer` is the answer of a
table: exact for a whole population, with exact bounds for a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairchain.statistics.intervals import Floats, clopper_pearson, probability_any_time
from fairchain.statistics.payoff import MOST_RATIO, bounds_of_gaps, gaps_of, payoff_of
from fairchain.statistics.rules import OF_RATES, Decision, Leader, compared_rates
from fairchain.statistics.tally import Counts
from fairchain.statistics.two_sample import bounds_beyond, largest_bound

Level = float | Floats
# Largest number of pairs for which a forecast is computed.
MOST_PAIRS = 5000
# Larger multiples of the rows are not forecast.
MOST_TIMES = 2**19
# The rounding of a floating-point gap is far below this: gaps that are nearer to each other are compared as fractions.
NEAR = 1e-9
# (successes, trials, level) -> lower and upper bounds, each of which fails with probability at most `level`.
RateBounds = Callable[[ArrayLike, ArrayLike, Level], tuple[Floats, Floats]]


def fixed_sample(successes: ArrayLike, trials: ArrayLike, level: Level) -> tuple[Floats, Floats]:
    """Return exact bounds for a number of trials fixed in advance (Clopper and Pearson)."""
    return clopper_pearson(successes, trials, 2 * level)


def any_time(successes: ArrayLike, trials: ArrayLike, level: Level) -> tuple[Floats, Floats]:
    """Return bounds that are valid at all times simultaneously, however long the sampling continues."""
    return probability_any_time(successes, trials, level)


@dataclass(frozen=True, eq=False)
class SubgroupCounts:
    """Trials of each column of rows, and the successes of each outcome.

    Parameters
    ----------
    trials
        (columns,): the number of rows.
    successes
        (outcomes, columns): the number of rows with the outcome.
    weights
        (subgroups, columns): for subgroups that are means over several columns; None if subgroups and columns are the
        same.
    unit
        The number of units of a whole success: more than 1 if rows have the outcome with a probability.
    """

    trials: Counts
    successes: Counts
    weights: Floats | None = None
    unit: int = 1

    def __add__(self, other: SubgroupCounts) -> SubgroupCounts:
        return SubgroupCounts(self.trials + other.trials, self.successes + other.successes, self.weights, self.unit)

    @property
    def rates(self) -> Floats:
        """(outcomes, subgroups): the rate of each outcome; 0 without rows."""
        rates: Floats = self.successes / (np.maximum(self.trials, 1) * self.unit)
        return rates if self.weights is None else rates @ self.weights.T

    def bounds(self, level: Level, method: RateBounds) -> tuple[Floats, Floats]:
        """Return bounds of the rates, (outcomes, subgroups) each; each one fails with probability at most `level`."""
        if self.weights is None:
            return method(self.successes, np.broadcast_to(self.trials, self.successes.shape), level)
        parts = (self.weights > 0).sum(axis=1)
        low, high = np.empty((2, len(self.successes), len(self.weights)))
        trials = np.broadcast_to(self.trials, self.successes.shape)
        for subgroup, weight in enumerate(self.weights):
            mine = np.broadcast_to(level, low.shape)[:, subgroup, None] / parts[subgroup]
            lower, upper = method(self.successes, trials, np.broadcast_to(mine, trials.shape))
            low[:, subgroup], high[:, subgroup] = lower @ weight, upper @ weight
        return low, high


def gap_bounds(
    counts: SubgroupCounts,
    compared: NDArray[np.bool_],
    measure: str,
    delta: float,
    method: RateBounds,
    overall: NDArray[np.bool_] | None = None,
    *,
    disjoint: bool = False,
) -> tuple[float, float, float]:
    """Return the estimate, the lower and the upper bound of the largest gap; each bound fails with probability at most
    delta/2.

    `overall` (subgroups,) marks the subgroups that contain all rows and not those of a group. Subgroups that are
    `disjoint` share no row, so that a fixed sample of them can be compared pair by pair.
    """
    below, above = (
        _gap_bound(counts, compared, measure, delta, method, overall, disjoint=disjoint, upper=upper)
        for upper in (False, True)
    )
    return gap_estimate(counts, compared, measure), below, above


def gap_estimate(counts: SubgroupCounts, compared: NDArray[np.bool_], measure: str) -> float:
    """Return the largest gap between the counted rates."""
    gaps = gaps_of(counts.rates, counts.rates, measure)
    return max(payoff_of(measure, compared).floor, largest_compared(gaps, compared))


def _gap_bound(
    counts: SubgroupCounts,
    compared: NDArray[np.bool_],
    measure: str,
    delta: float,
    method: RateBounds,
    overall: NDArray[np.bool_] | None,
    *,
    disjoint: bool,
    upper: bool,
) -> float:
    """Return only the upper (or lower) bound of the largest gap."""
    estimate = gap_estimate(counts, compared, measure)
    if disjoint and method is fixed_sample:
        level = delta / 2 if upper else delta / 2 / int(compared.sum())
        bound = largest_bound(counts.trials, counts.successes, compared, measure, level, upper=upper)
    elif upper:
        # Which pair is the widest may depend on the sizes of the groups, through those that are large enough. Given the
        # sizes, a group's own bound is valid; those of all rows together are not, so each of them, on both sides and
        # for every outcome, is paid for (docs/mathematics-tables.md, "Independent groups").
        overall, shared, _ = _numbers(compared, overall)
        low, high = counts.bounds(np.where(overall, delta / 2 / 4 / max(shared, 1), delta / 2 / 2), method)
        bound = largest_compared(gaps_of(high, low, measure), compared)
    else:
        low, high = simultaneous(counts, compared, delta / 2, method, overall)
        bound = largest_compared(gaps_of(low, high, measure), compared)
    return max(bound, estimate) if upper else max(payoff_of(measure, compared).floor, min(bound, estimate))


def simultaneous(
    counts: SubgroupCounts,
    compared: NDArray[np.bool_],
    spend: float,
    method: RateBounds,
    overall: NDArray[np.bool_] | None = None,
) -> tuple[Floats, Floats]:
    """Return bounds of the rates of all compared subgroups with a joint error probability of at most `spend`.

    The level of all rows together does not depend on the number of groups, because these rows may show which groups are
    large enough.
    """
    overall, shared, own = _numbers(compared, overall)
    half = spend / 2 if shared else spend
    return counts.bounds(np.where(overall, half / 2 / max(shared, 1), half / 2 / max(own, 1)), method)


def _numbers(compared: NDArray[np.bool_], overall: NDArray[np.bool_] | None) -> tuple[NDArray[np.bool_], int, int]:
    """Return which subgroups contain all rows, and the numbers of compared rates of these and of the others."""
    used = compared_rates(compared)
    overall = np.zeros(used.shape[1], bool) if overall is None else overall
    return overall, int(used[:, overall].sum()), int(used[:, ~overall].sum())


def decided_samples(
    trials: Counts,
    samples: Counts,
    compared: NDArray[np.bool_],
    measure: str,
    delta: float,
    limit: Fraction,
    *,
    fair: bool,
) -> NDArray[np.bool_]:
    """Return (samples,): which of many fixed samples of disjoint groups `RowsAnswer` decides as FAIR (or UNFAIR).

    `samples` is (samples, outcomes, groups): successes.
    """
    number, outcomes, _ = samples.shape
    of_gap = (1 - OF_RATES) * delta
    level = of_gap / 2 if fair else of_gap / 2 / int(compared.sum())
    each = samples.reshape(number * outcomes, -1)
    all_pairs = np.tile(compared, (number, 1, 1))
    beyond = bounds_beyond(trials, each, all_pairs, measure, level, limit, upper=fair)
    found = np.zeros(number, bool)
    found[beyond[:, 0] // outcomes] = True
    of_rate = OF_RATES * delta / 2 / _numbers(compared, None)[2]
    low, high = fixed_sample(each, np.broadcast_to(trials, each.shape), of_rate)
    bounds = bounds_of_gaps(low, high, measure, upper=fair)
    ends = np.where(all_pairs, bounds, -np.inf).reshape(number, -1).max(axis=1)
    return np.asarray(~found | (ends < float(limit)) if fair else found | (ends > float(limit)))


def _near_pairs(gaps: Floats, compared: NDArray[np.bool_], limit: Fraction) -> list[Leader]:
    """Return the compared pairs whose gap is above the limit up to rounding."""
    near = np.argwhere(np.where(compared, gaps, -np.inf) > float(limit) - NEAR)
    return [(i, j, outcome) for outcome, i, j in near.tolist()]


def row_pairs_above(gaps: Floats, compared: NDArray[np.bool_], limit: Fraction) -> list[Leader]:
    """Return the compared pairs (i, j, outcome) whose gap is above the limit."""
    return [(i, j, o) for i, j, o in _near_pairs(gaps, compared, limit) if gaps[o, i, j] > limit]


def largest_compared(gaps: Floats, compared: NDArray[np.bool_]) -> float:
    """Return the largest gap of a compared pair."""
    return float(gaps[compared].max(initial=-np.inf))


def widest_of(counts: SubgroupCounts, compared: NDArray[np.bool_], measure: str) -> Leader:
    """Return (i, j, outcome) of the largest gap; the first of equals.

    Gaps that are equal up to rounding are compared as fractions, one for each two counts.
    """
    rates = counts.rates
    # Rates with different counts are different; means over columns are all assumed to differ.
    number = np.arange(rates.size).reshape(rates.shape)
    if counts.weights is None:
        each = np.stack([np.broadcast_to(counts.trials, rates.shape).ravel(), counts.successes.ravel()], axis=1)
        number = np.unique(each, axis=0, return_inverse=True)[1].reshape(rates.shape)

    def gaps(outcome: int) -> Floats:
        of_one = rates[outcome : outcome + 1]
        return np.where(compared[outcome], gaps_of(of_one, of_one, measure)[0], -np.inf)

    largest = np.array([gaps(outcome).max() for outcome in range(len(rates))])
    found: dict[tuple[int, int], tuple[int, int, int]] = {}
    for outcome in np.flatnonzero(largest >= largest.max() - NEAR).tolist():
        i, j = np.nonzero(gaps(outcome) >= largest.max() - NEAR)
        one, other = number[outcome, i], number[outcome, j]
        _, first = np.unique(one * rates.size + other, return_index=True)
        for place in np.sort(first).tolist():
            found.setdefault((int(one[place]), int(other[place])), (int(i[place]), int(j[place]), outcome))
    return max(found.values(), key=lambda pair: exact_pair(counts, measure, pair))


def exact_pair(counts: SubgroupCounts, measure: str, pair: Leader) -> Fraction:
    """Return the gap of one pair (i, j, outcome) as a fraction."""

    def rate(subgroup: int) -> Fraction:
        columns = [subgroup] if counts.weights is None else np.flatnonzero(counts.weights[subgroup]).tolist()
        trials = [max(int(counts.trials[each]), 1) * counts.unit for each in columns]
        successes = [int(counts.successes[outcome, each]) for each in columns]
        return sum(map(Fraction, successes, trials), start=Fraction(0)) / len(columns)

    i, j, outcome = pair
    return gap_of_fractions(rate(i), rate(j), measure)


def gap_of_fractions(more: Fraction, less: Fraction, measure: str) -> Fraction:
    """Return how far the second rate is behind the first: more - less or, for a ratio, 1 - less/more.

    That is 0 if both are 0, and the gap of the largest ratio if only the second is above 0.
    """
    if measure == "difference":
        return more - less
    return 1 - less / more if more else Fraction(int(1 - MOST_RATIO) if less else 0)


def reported_ratio(more: float | Fraction, less: float | Fraction) -> float:
    """Return less/more in its reported form: at most `MOST_RATIO`, and 1 if both are 0."""
    return min(float(less / more), MOST_RATIO) if more else MOST_RATIO if less else 1.0


def rows_needed(
    counts: SubgroupCounts,
    compared: NDArray[np.bool_],
    measure: str,
    threshold: float,
    delta: float,
    overall: NDArray[np.bool_] | None = None,
    *,
    disjoint: bool = False,
) -> int | None:
    """Forecast the multiple of the rows that would decide the question at these rates; None beyond `MOST_TIMES`."""
    if compared.sum() > MOST_PAIRS:
        return None
    estimate = gap_estimate(counts, compared, measure)

    def bound(times: int) -> float:
        more = SubgroupCounts(counts.trials * times, counts.successes * times, counts.weights)
        upper = estimate < threshold
        return _gap_bound(more, compared, measure, delta, fixed_sample, overall, disjoint=disjoint, upper=upper)

    return _fewest(bound, estimate, threshold)


def _fewest(bound: Callable[[int], float], estimate: float, threshold: float) -> int | None:
    """Return the smallest multiple, within 5%, at which the bound on the side of the threshold does not reach it.

    The distance between bounds and estimate is about proportional to 1 / sqrt(multiple), so few bounds are computed.
    """
    few, many, times = 1, MOST_TIMES + 1, 2
    distance = abs(threshold - estimate)
    while many - few > max(1, many // 20):
        reached = bound(times)
        if (reached - threshold) * (estimate - threshold) > 0:
            many = times
            times = max(few + 1, times - max(1, times // 20))
            continue
        if times == MOST_TIMES:
            return None
        few = times
        factor = ((reached - estimate) / distance) ** 2 if distance > 0 else math.inf
        # If the last step was too short for this approximation, the next is longer.
        guess = min(times * max(1.02 * factor, 1.05), float(MOST_TIMES))
        times = min(max(few + 1, math.ceil(guess)), (few + many) // 2 if many <= MOST_TIMES else MOST_TIMES)
    return many


def decision_of(low: float, high: float, limit: Fraction | float) -> Decision:
    """Return FAIR or UNFAIR if the whole interval of the largest gap is on one side of the limit."""
    if high < limit:
        return Decision.FAIR
    return Decision.UNFAIR if low > limit else Decision.UNDECIDED


@dataclass(frozen=True, eq=False)
class RowsAnswer:
    """The answer from the counts of a table.

    Parameters
    ----------
    counts, compared, measure
        The counts of each subgroup, the compared pairs, and the measure.
    limit
        The largest fair gap, as a fraction: a difference, or for a ratio 1 minus the smallest ratio.
    delta
        Probability of a wrong verdict about the population of a sample; 0 if the rows are the whole population.
    overall
        (subgroups,): the subgroups that contain all rows and not those of a group; None for none of them.
    disjoint
        Whether compared subgroups share no row.
    single
        Whether it is about a single share of rows: the second subgroup is a placeholder without successes.
    """

    sound = True

    counts: SubgroupCounts
    compared: NDArray[np.bool_]
    measure: str
    limit: Fraction
    delta: float
    overall: NDArray[np.bool_] | None = None
    disjoint: bool = field(default=False, kw_only=True)
    single: bool = field(default=False, kw_only=True)

    @cached_property
    def _gap(self) -> tuple[float, float, float]:
        if self.delta and self.single:
            low, high = fixed_sample(self.counts.successes[0, 0], self.counts.trials[0], self.delta / 2)
            return float(self.counts.rates[0, 0]), float(low), float(high)
        counts, compared, measure = self.counts, self.compared, self.measure
        if not self.delta:
            return (gap_estimate(counts, compared, measure),) * 3
        estimate, least, most = gap_bounds(
            counts, compared, measure, self._of_gap, fixed_sample, self.overall, disjoint=self.disjoint
        )
        # The rates have the rest of delta, so that they hold in one event with the gap.
        known = self.probabilities()
        below, above = (bounds_of_gaps(*known, measure, upper=upper) for upper in (False, True))
        return estimate, max(least, largest_compared(below, compared)), min(most, largest_compared(above, compared))

    @property
    def _of_gap(self) -> float:
        """The share of delta of the gap's bounds; the bounds of the rates have the rest."""
        return (1 - OF_RATES) * self.delta

    @property
    def decision(self) -> Decision:
        """Exact for a whole population; for a sample, decided if the whole interval is on one side of the limit."""
        if not self.delta:
            return Decision.FAIR if self.exact_gap <= self.limit else Decision.UNFAIR
        return decision_of(*self._gap[1:], self.limit)

    @cached_property
    def exact_gap(self) -> Fraction:
        """The largest gap between the counted rates, as a fraction."""
        floor = Fraction(payoff_of(self.measure, self.compared).floor)
        return max(exact_pair(self.counts, self.measure, self.widest()), floor)

    @property
    def trials(self) -> Counts:
        """The number of rows of each subgroup; for a mean over groups, of all its groups."""
        if self.counts.weights is None:
            return self.counts.trials
        members: Counts = (self.counts.weights > 0).astype(np.int64) @ self.counts.trials
        return members

    def gap(self) -> tuple[float, float, float]:
        """Return estimate, lower and upper bound of the largest gap."""
        return self._gap

    def ratio(self) -> float:
        """Return the second rate of the widest pair over the first; 1 if both are 0."""
        i, j, outcome = self.widest()
        rates = self.counts.rates
        return reported_ratio(float(rates[outcome, i]), float(rates[outcome, j]))

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return bounds of the rates, (outcomes, subgroups); for a sample, all hold with probability 1 - delta."""
        return self.all_rates(OF_RATES * self.delta)

    def all_rates(self, spend: float) -> tuple[Floats, Floats]:
        """Return bounds of the rates with a joint error probability of at most `spend`; exact without one."""
        if not spend:
            return self.counts.rates, self.counts.rates
        return simultaneous(self.counts, self.compared, spend, fixed_sample, self.overall)

    def rates(self) -> Floats:
        """Return the counted rates, (outcomes, subgroups)."""
        return self.counts.rates

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap."""
        return self._widest

    @cached_property
    def _widest(self) -> Leader:
        return widest_of(self.counts, self.compared, self.measure)

    def violators(self) -> list[Leader]:
        """Return pairs that are above the limit: certainly, or for a sample jointly at error probability delta."""
        if self.delta and self.single:
            return [(0, 1, 0)] if self._gap[1] > self.limit else []
        counts, compared, measure, limit = self.counts, self.compared, self.measure, self.limit
        if not self.delta:
            near = _near_pairs(gaps_of(counts.rates, counts.rates, measure), compared, limit)
            return [pair for pair in near if exact_pair(counts, measure, pair) > limit]
        found = row_pairs_above(bounds_of_gaps(*self.probabilities(), measure, upper=False), compared, limit)
        if self.disjoint:
            level = self._of_gap / 2 / int(compared.sum())
            beyond = bounds_beyond(counts.trials, counts.successes, compared, measure, level, limit, upper=False)
            found += [(i, j, outcome) for outcome, i, j in beyond.tolist()]
        else:
            low, high = simultaneous(counts, compared, self._of_gap / 2, fixed_sample, self.overall)
            found += row_pairs_above(gaps_of(low, high, measure), compared, limit)
        return sorted({*found}, key=lambda pair: (pair[2], *pair[:2]))

    def forecast(self) -> int | None:
        """Forecast the multiple of the rows that would decide the question; None without a forecast."""
        counts, limit = self.counts, float(self.limit)
        if not self.single:
            measured = (counts, self.compared, self.measure)
            return rows_needed(*measured, limit, self._of_gap, self.overall, disjoint=self.disjoint)
        successes, trials = int(counts.successes[0, 0]), int(counts.trials[0])
        share = successes / max(trials, 1)

        def bound(times: int) -> float:
            return float(fixed_sample(successes * times, trials * times, self.delta / 2)[share < limit])

        return _fewest(bound, share, limit)
