"""Rates from summed weights, not sampled: exact if all inputs were evaluated, otherwise certain bounds.

The state is the weight of the inputs with and without each outcome, and the weight of the inputs that were not
evaluated yet. All weights are integers of any size, and every bound is a fraction, so nothing is rounded before it is
shown (docs/mathematics-exact.md, "Finite input spaces"). Nothing here is random: an interval is certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.intervals import Floats
from fairchain.statistics.payoff import gaps_of, payoff_of
from fairchain.statistics.rate_counts import NEAR, gap_of_fractions, reported_ratio
from fairchain.statistics.rules import Decision, Leader
from fairchain.statistics.shift import least_of, most_of
from fairchain.statistics.tally import Counts

Fractions = list[list[Fraction]]
# Estimate, lower and upper bound of a rate.
BoundedRate = tuple[Fraction, Fraction, Fraction]


def rate_within(got: tuple[int, int], missed: tuple[int, int], unseen: int) -> BoundedRate:
    """Return P(outcome | part) with bounds, from the weights of the evaluated inputs with and without the outcome.

    Each weight is between two integers, which are equal if it is exact. `unseen` is an upper bound of the weight of the
    inputs that were not evaluated: these may have the outcome or not, or may not be inputs of the part.
    """
    most = missed[1] + got[0] + unseen
    low = Fraction(got[0], most) if most else Fraction(0)
    most = missed[0] + got[1] + unseen
    high = Fraction(got[1] + unseen, most) if most else Fraction(1)
    seen = sum(got) + sum(missed)
    estimate = Fraction(sum(got), seen) if seen else (low + high) / 2
    return min(max(estimate, low), high), low, high


class EnumeratedRates:
    """The answer from the weights of an enumeration.

    Parameters
    ----------
    parts
        For each counted part of the population, the rate of each outcome, as `rate_within` returns it.
    means
        For each subgroup the parts whose mean it is; the last subgroup of an individual comparison, whose decisions
        never change, has none.
    compared, measure
        (outcomes, subgroups, subgroups): the compared ordered pairs, and the measure.
    limit
        The largest fair gap, as a fraction: a difference, or for a ratio 1 minus the smallest ratio.
    trials
        (subgroups,): the number of evaluated inputs of each.
    factor
        Gaps are the largest over all populations within this factor, with each subgroup shifted separately.
    """

    sound = True
    delta = 0.0

    def __init__(
        self,
        parts: Sequence[Sequence[BoundedRate]],
        means: Sequence[Sequence[int]],
        compared: NDArray[np.bool_],
        measure: str,
        limit: Fraction,
        trials: Counts,
        factor: Fraction = Fraction(1),
    ) -> None:
        self._compared, self._measure, self._limit, self.trials = compared, measure, limit, trials
        # Estimates, lower and upper bounds: (outcomes, subgroups) each.
        self._rates: tuple[Fractions, Fractions, Fractions] = ([], [], [])
        for outcome in range(len(compared)):
            for side, rates in enumerate(self._rates):
                sums = [sum((parts[part][outcome][side] for part in mean), Fraction(0)) for mean in means]
                rates.append([total / max(len(mean), 1) for total, mean in zip(sums, means, strict=True)])
        # The largest and the smallest value of each of them within the factor.
        self._raised, self._lowered = (
            [[[shifted(rate, factor) for rate in row] for row in rates] for rates in self._rates]
            if factor != 1
            else self._rates
            for shifted in (most_of, least_of)
        )
        (estimates, low, high), (least_estimates, least, most) = self._raised, self._lowered
        self._most = self._largest(high, least)[0]
        self._least = self._largest(low, most)[0]
        self._estimate, self._widest = self._largest(estimates, least_estimates)

    def _largest(self, more: Fractions, less: Fractions) -> tuple[Fraction, Leader]:
        """Return the largest gap of a compared pair, at least the smallest possible gap, and the first such pair."""
        near = self._near(more, less)
        exact = [(gap_of_fractions(more[o][i], less[o][j], self._measure), (i, j, o)) for i, j, o in near]
        gap, pair = max(exact, key=lambda each: each[0])
        return max(gap, Fraction(payoff_of(self._measure, self._compared).floor)), pair

    def _near(self, more: Fractions, less: Fractions, above: float | None = None) -> list[Leader]:
        """Return the compared pairs whose gap is the largest up to rounding, or is above a number up to rounding.

        Of pairs with equal rates only the first is returned if the largest is requested.
        """
        first_rates, second_rates = (np.array([[float(rate) for rate in row] for row in rows]) for rows in (more, less))
        gaps = np.where(self._compared, gaps_of(first_rates, second_rates, self._measure), -np.inf)
        found = np.argwhere(gaps >= (gaps.max() if above is None else above) - NEAR).tolist()
        if above is not None:
            return [(i, j, o) for o, i, j in found]
        first: dict[tuple[Fraction, Fraction], Leader] = {}
        for o, i, j in found:
            first.setdefault((more[o][i], less[o][j]), (i, j, o))
        return list(first.values())

    @property
    def decision(self) -> Decision:
        """FAIR or UNFAIR if no unknown weight can change it."""
        if self._most <= self._limit:
            return Decision.FAIR
        return Decision.UNFAIR if self._least > self._limit else Decision.UNDECIDED

    @property
    def exact_gap(self) -> Fraction | None:
        """The largest gap if it is known exactly."""
        return self._estimate if self._least == self._most else None

    def gap(self) -> tuple[float, float, float]:
        """Return estimate, lower and upper bound of the largest gap."""
        least, most = self._least, self._most
        return outward(min(max(self._estimate, least), most), least, most)

    def ratio(self) -> float:
        """Return the smaller rate of the widest pair over the larger; 1 if no input has the outcome."""
        i, j, outcome = self._widest
        more, less = self._raised[0][outcome][i], self._lowered[0][outcome][j]
        return reported_ratio(more, less)

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return lower and upper bounds of the rates, (outcomes, subgroups)."""
        bounds = [[outward(*each)[1:] for each in zip(*rows, strict=True)] for rows in zip(*self._rates, strict=True)]
        low, high = np.moveaxis(np.array(bounds, np.float64), 2, 0)
        return low, high

    def rates(self) -> Floats:
        """Return the estimates of the rates, (outcomes, subgroups)."""
        return np.array([[float(rate) for rate in row] for row in self._rates[0]])

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap."""
        return self._widest

    def violators(self) -> list[Leader]:
        """Return the pairs whose gap is certainly above the limit."""
        low, high = self._raised[1], self._lowered[2]
        near = self._near(low, high, above=float(self._limit))
        return [(i, j, o) for i, j, o in near if gap_of_fractions(low[o][i], high[o][j], self._measure) > self._limit]

    def forecast(self) -> int | None:
        """Return None: the engine knows the number of remaining inputs."""
        return None


def outward(estimate: Fraction, low: Fraction, high: Fraction) -> tuple[float, float, float]:
    """Return floating-point numbers: the nearest if the bounds are equal, otherwise bounds rounded outward."""
    nearest = float(estimate)
    if low == high:
        return nearest, nearest, nearest
    below, above = float(low), float(high)
    below = below if Fraction(below) <= low else math.nextafter(below, -math.inf)
    above = above if Fraction(above) >= high else math.nextafter(above, math.inf)
    return nearest, below, above
