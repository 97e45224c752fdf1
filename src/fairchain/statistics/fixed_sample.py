"""The answer that rows of a table give: exact if they are everybody, with exact bounds if they are a sample.

There are no rounds: every row is asked once, and what is counted is how often each subgroup got each outcome.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.e_values import Floats
from fairchain.statistics.rate_counts import (
    NEAR,
    SubgroupCounts,
    exact_gap,
    exact_pair,
    fixed_sample,
    gap_bounds,
    gaps_of,
    pairs_beyond,
    proportion_needed,
    rows_needed,
    simultaneous,
    widest_of,
)
from fairchain.statistics.rules import Decision, Leader
from fairchain.statistics.tally import Counts


class RowsAnswer:
    """What the counts of a table say.

    Parameters
    ----------
    counts, compared, measure
        How often each subgroup got each outcome, which pairs must be alike, and by which measure.
    limit
        The largest fair gap, as a fraction: a difference, or for a ratio what is missing to 1.
    delta
        Probability of a wrong verdict about the source of a sample; 0 for rows that are everybody.
    overall
        (subgroups,): which subgroups hold all rows and not those of a group; None for none of them.
    disjoint
        Whether subgroups that are compared share no row.
    single
        Whether it is about one share of people only: the second subgroup is there to compare with and never gets
        anything.
    """

    sound = True

    def __init__(
        self,
        counts: SubgroupCounts,
        compared: NDArray[np.bool_],
        measure: str,
        limit: Fraction,
        delta: float,
        overall: NDArray[np.bool_] | None = None,
        *,
        disjoint: bool = False,
        single: bool = False,
    ) -> None:
        self.counts, self._disjoint, self._single = counts, disjoint, single
        self._compared, self._measure, self._limit, self._delta = compared, measure, limit, delta
        self._overall = overall
        self._gap = self._bounds()

    def _bounds(self) -> tuple[float, float, float]:
        if self._delta and self._single:
            low, high = fixed_sample(self.counts.successes[0, 0], self.counts.trials[0], self._delta / 2)
            return float(self.counts.rates[0, 0]), float(low), float(high)
        if self._delta:
            return gap_bounds(
                self.counts,
                self._compared,
                self._measure,
                self._delta,
                fixed_sample,
                self._overall,
                disjoint=self._disjoint,
            )
        rates = self.counts.rates
        largest = max(0.0, float(gaps_of(rates, rates, self._measure)[self._compared].max()))
        return largest, largest, largest

    @property
    def decision(self) -> Decision:
        """Exact for everybody; for a sample where the whole interval lies on one side of the limit."""
        if not self._delta:
            return Decision.FAIR if self.exact_gap <= self._limit else Decision.UNFAIR
        _, low, high = self._gap
        if high < self._limit:
            return Decision.FAIR
        return Decision.UNFAIR if low > self._limit else Decision.UNDECIDED

    @property
    def exact_gap(self) -> Fraction:
        """The largest gap between the rates as counted, as a fraction."""
        return exact_gap(self.counts, self._compared, self._measure)

    @property
    def trials(self) -> Counts:
        """How many rows each subgroup has; of a mean over groups, all of theirs."""
        if self.counts.weights is None:
            return self.counts.trials
        members: Counts = (self.counts.weights > 0).astype(np.int64) @ self.counts.trials
        return members

    def gap(self) -> tuple[float, float, float]:
        """Estimate, lower and upper bound of the largest gap."""
        return self._gap

    def ratio(self) -> float:
        """The smaller rate of the widest pair over the larger; 1 where nobody got the outcome."""
        i, j, outcome = self.widest()
        rates = self.counts.rates
        return float(rates[outcome, j] / rates[outcome, i]) if rates[outcome, i] else 1.0

    def probabilities(self) -> tuple[Floats, Floats]:
        """Bounds of the rates, (outcomes, subgroups); of a sample all hold together with probability 1 - delta."""
        if not self._delta:
            return self.counts.rates, self.counts.rates
        return simultaneous(self.counts, self._compared, self._delta, fixed_sample, self._overall)

    def rates(self) -> Floats:
        """The rates as counted, (outcomes, subgroups)."""
        return self.counts.rates

    def widest(self) -> Leader:
        """The pair and outcome with the largest gap."""
        return widest_of(self.counts, self._compared, self._measure)

    def violators(self) -> list[Leader]:
        """Pairs that are above the limit: for sure, or for a sample all together at delta."""
        if self._delta and self._single:
            return [(0, 1, 0)] if self._gap[1] > self._limit else []
        counts, compared, measure = self.counts, self._compared, self._measure
        if self._delta:
            return pairs_beyond(
                counts, compared, measure, self._delta, self._limit, self._overall, disjoint=self._disjoint
            )
        gaps = np.where(compared, gaps_of(counts.rates, counts.rates, measure), -np.inf)
        above = [(int(i), int(j), int(o)) for o, i, j in np.argwhere(gaps > float(self._limit) - NEAR)]
        return [pair for pair in above if exact_pair(counts, measure, pair) > self._limit]

    def forecast(self) -> int | None:
        """About how many times as many rows would decide it; None if that cannot be said."""
        limit = float(self._limit)
        if self._single:
            return proportion_needed(int(self.counts.successes[0, 0]), int(self.counts.trials[0]), limit, self._delta)
        return rows_needed(
            self.counts, self._compared, self._measure, limit, self._delta, self._overall, disjoint=self._disjoint
        )
