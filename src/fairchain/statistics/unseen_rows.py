"""Answers about a table whose rows were evaluated only in part: the run was stopped, or its budget was spent.

The evaluated rows are the first of all rows in a random order. The bounds for the others depend on the reason why the
run ended (docs/mathematics-tables.md, "Rows that were not evaluated").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairchain.statistics.intervals import Floats
from fairchain.statistics.payoff import gaps_of, payoff_of
from fairchain.statistics.rate_counts import (
    Level,
    RateBounds,
    RowsAnswer,
    any_time,
    decision_of,
    gap_estimate,
    largest_compared,
    row_pairs_above,
    simultaneous,
)
from fairchain.statistics.rules import Decision, Leader
from fairchain.statistics.tally import Counts

# Relative slack for the rounding of probabilities, which only makes bounds wider; and an upper bound of the rounding of
# a gap: a gap that equals the limit is fair.
SLACK, PROBABILITY_ROUNDING = 1e-6, 1e-12


@dataclass(frozen=True, eq=False)
class UnseenRowsAnswer(RowsAnswer):
    """The answer from the counts of the evaluated rows.

    Parameters
    ----------
    counts, compared, measure, limit, overall, single
        As for `RowsAnswer`, for the evaluated rows.
    delta
        Probability of a wrong verdict. With 0 the rows are the whole population and nothing is assumed about those
        that were not seen: any decision about each is possible.
    totals
        (columns,): all rows of each column, if the rows are the whole population; None if they are a sample of it.
        With totals and a delta, the rows that were seen must be a random part whose size was fixed beforehand. Without
        totals, the number of rows that were seen may depend on what was seen.
    """

    totals: Counts | None = field(kw_only=True)

    def _method(self) -> RateBounds:
        totals = self.totals
        if totals is None:
            return any_time
        return lambda successes, trials, level: share_bounds(successes, trials, totals, level if self.delta else 0.0)

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return bounds of the rates, (outcomes, subgroups), all together with probability 1 - delta."""
        return self.all_rates(self.delta)

    def all_rates(self, spend: float) -> tuple[Floats, Floats]:
        """Return bounds of the rates, all together at error probability `spend`; certain bounds if it is 0."""
        if self.single:
            low, high = self._method()(self.counts.successes, self.counts.trials[None], spend / 2)
            # The second subgroup of a share of changed decisions is a placeholder with rate 0.
            return low * [1.0, 0.0], high * [1.0, 0.0]
        return simultaneous(self.counts, self.compared, spend, self._method(), self.overall)

    @cached_property
    def _gap(self) -> tuple[float, float, float]:
        low, high = self.probabilities()
        estimate = gap_estimate(self.counts, self.compared, self.measure)
        floor = payoff_of(self.measure, self.compared).floor
        below = largest_compared(gaps_of(low, high, self.measure), self.compared)
        above = largest_compared(gaps_of(high, low, self.measure), self.compared)
        return estimate, max(floor, min(below, estimate)), max(above, estimate)

    @property
    def decision(self) -> Decision:
        """FAIR or UNFAIR if the whole interval lies on one side of the limit."""
        _, low, high = self._gap
        return decision_of(low - PROBABILITY_ROUNDING, high, self.limit)

    def violators(self) -> list[Leader]:
        """Return the pairs above the limit; all together are right with probability 1 - delta."""
        low, high = self.probabilities()
        return row_pairs_above(gaps_of(low, high, self.measure) - PROBABILITY_ROUNDING, self.compared, self.limit)

    def forecast(self) -> int | None:
        """Return None: evaluating the remaining rows decides the question, so no number of rows is forecast."""
        return None


def share_bounds(successes: ArrayLike, seen: ArrayLike, totals: ArrayLike, level: Level) -> tuple[Floats, Floats]:
    """Return bounds of the share of successes among `totals` rows, from a random part of `seen` rows.

    The successes in a random part are hypergeometric. A bound is the most extreme number of successes in all rows under
    which a part like this one has probability above `level`; it fails with probability at most `level`. With level 0
    every number is possible that the rows that were seen allow.
    """
    s, n, total, spent = np.broadcast_arrays(
        np.asarray(successes, np.int64), np.asarray(seen, np.int64), np.asarray(totals, np.int64), np.asarray(level)
    )
    low, high = np.empty(s.shape), np.empty(s.shape)
    for place in np.ndindex(s.shape):
        found, drawn, rows, chance = int(s[place]), int(n[place]), int(total[place]), float(spent[place])
        most = _most(found, drawn, rows, chance)
        least = rows - _most(drawn - found, drawn, rows, chance)
        low[place], high[place] = least / rows, most / rows
    return low, high


def _most(found: int, drawn: int, rows: int, level: float) -> int:
    """Return the most successes in all rows under which at most `found` of them in the part are likely enough."""
    fewest, most = found, rows - (drawn - found)
    if level <= 0 or fewest == most:
        return most
    possible = fewest
    while possible < most:  # the probability falls with the number of successes
        middle = (possible + most + 1) // 2
        if _at_most(found, drawn, rows, middle) > level * (1 - SLACK):
            possible = middle
        else:
            most = middle - 1
    return possible


def _at_most(found: int, drawn: int, rows: int, successes: int) -> float:
    """Return P(S <= found) of a hypergeometric S: `drawn` of `rows`, among them `successes` successes."""
    counts = np.arange(max(0, drawn - (rows - successes)), min(found, drawn, successes) + 1)

    # Imported here, because the import takes longer than counting most tables, and few runs end early.
    from scipy.special import gammaln

    def choose(n: int, k: NDArray[np.int64]) -> Floats:
        return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))

    whole = choose(rows, np.array([drawn]))
    terms = choose(successes, counts) + choose(rows - successes, drawn - counts) - whole
    return float(np.exp(terms).sum())
