"""Payoffs of bets: the value of a round for a pair of subgroups, as a difference, a ratio or a share.

Let i and j be two subgroups and c a gap. For a difference the payoff is X_i - X_j - c, whose mean is 0 if p_i - p_j =
c; for a ratio it is (1 - c) X_i - X_j, whose mean is 0 if p_j / p_i = 1 - c. In both cases the gap is 0 if the rates
are equal and larger gaps are worse, and three counts of a pair tally are sufficient. If only one direction is compared
("one-sided"), the largest gap may be negative: the second subgroup then has the higher rate. A share is the rate of one
subgroup; the second never gets the outcome, so X is 0 or 1 (docs/mathematics.md, "Other payoffs").
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from msgspec import Struct
from numpy.typing import ArrayLike, NDArray

from fairchain.statistics.e_values import Floats, growth, reaches
from fairchain.statistics.tally import Counts, Tally

# Up to this many pairs it is faster to process each than to skip some.
FEW_PAIRS = 2**12
# One-sided ratios above this are reported as this: a rate over one that may be 0 has no upper bound.
MOST_RATIO = 1000.0
# The largest loss of a bet against "the share is at most 0", which never loses: one success refutes it.
LEAST_LOSS = 2.0**-60


class Payoff(Struct, frozen=True):
    """Cells of a tally and their payoffs at a gap c; `relative` for a ratio.

    `one_sided` if some pair is compared in one direction only. `share` if the first subgroup of a pair is compared
    with one that never gets the outcome; then only this direction may be bet on.
    """

    relative: bool = False
    one_sided: bool = False
    share: bool = False

    @property
    def measure(self) -> str:
        """The comparison of rates: "difference" or "ratio"."""
        return "ratio" if self.relative else "difference"

    @property
    def least(self) -> float:
        """The start of the search for a gap's bounds."""
        if self.share:
            return 0.0
        return 1 - MOST_RATIO if self.relative and self.one_sided else -1.0

    @property
    def floor(self) -> float:
        """The smallest value of the largest gap: 0 if each pair is compared in both directions."""
        return self.least if self.one_sided else 0.0

    def cells(self, tally: Tally) -> Counts:
        """Return (outcomes, k, k, 3): rounds in which only i, both (for a difference: or neither), only j has it."""
        if not self.relative:
            return tally.cells
        cells = np.empty((*tally.only.shape, 3), np.int64)
        cells[..., 0], cells[..., 1], cells[..., 2] = tally.only, tally.both, tally.only.swapaxes(1, 2)
        return cells

    def totals(self, tally: Tally) -> Floats:
        """Return rounds where only i has it, all of both (for a ratio: where both have it), only j: (3, pairs)."""
        totals = np.empty((3, *tally.only.shape))
        totals[0], totals[1] = tally.only, tally.both if self.relative else tally.joint
        totals[2] = tally.only.swapaxes(1, 2)
        return totals.reshape(3, -1)

    def cells_of(self, tally: Tally, pair: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return the cells of one pair (i, j, outcome), as plain numbers."""
        i, j, outcome = pair
        more, less = tally.only.item(outcome, i, j), tally.only.item(outcome, j, i)
        middle = tally.both.item(outcome, i, j) if self.relative else tally.joint.item(i, j) - more - less
        return more, middle, less

    def values(self, gap: ArrayLike) -> Floats:
        """Return (..., 3): the payoff in each of the cells."""
        gap = np.asarray(gap, float)
        # The last cell of a share is empty.
        values = np.empty((*gap.shape, 3))
        values[..., 0], values[..., 1] = 1 - gap, -gap
        values[..., 2] = -1.0 if self.relative else -gap if self.share else -1 - gap
        return values

    def against_at_least(self, gap: ArrayLike) -> Floats:
        """Return the growth of a bet against "the gap is at least this": evidence that a pair is fair."""
        return growth(-self.values(gap), 1 - np.asarray(gap, float))

    def against_at_most(self, gap: ArrayLike) -> Floats:
        """Return the growth of a bet against "the gap is at most this": evidence that a pair is unfair."""
        gap = np.asarray(gap, float)
        lost = np.ones_like(gap) if self.relative else np.maximum(gap, LEAST_LOSS) if self.share else 1 + gap
        return growth(self.values(gap), lost)

    @lru_cache(maxsize=32)  # noqa: B019  # payoffs are few, and equal by content
    def growths_at(self, gap: float) -> tuple[Floats, Floats, Floats]:
        """Return the growth of both bets against one gap, "at least" and "at most"; the arrays are shared.

        The third is the growth of "at least" for each of the `totals`, (stakes, 3).
        """
        at_least, at_most = self.against_at_least(gap), self.against_at_most(gap)
        of_totals = at_least.T.copy()
        if not self.relative:
            # The middle cell has the rounds of both that are in no other.
            of_totals -= at_least[1][:, None] * np.array([1, 0, 1])
        for growths in (at_least, at_most, of_totals):
            growths.flags.writeable = False
        return at_least, at_most, of_totals

    def of_one(self, gap: float, *, at_least: bool) -> tuple[tuple[float, float, float], float]:
        """Return the payoff of a bet against "at least" (or "at most") one gap in each cell, and its largest loss."""
        last = -1.0 if self.relative else -gap if self.share else -1 - gap
        if at_least:
            return (gap - 1, gap, -last), 1 - gap
        return (1 - gap, -gap, last), 1.0 if self.relative else max(gap, LEAST_LOSS) if self.share else 1 + gap

    def gaps(self, tally: Tally) -> Floats:
        """Return (outcomes, k, k): estimates from the rounds in which both subgroups were drawn."""
        if not self.relative:
            return tally.gaps
        first = tally.both + tally.only
        gaps: Floats = (tally.only - tally.only.swapaxes(1, 2)) / np.maximum(first, 1)
        if self.one_sided:
            # A rate above 0 divided by 0.
            gaps = np.where((first == 0) & (gaps < 0), self.least, gaps)
        return gaps

    def errors(self, tally: Tally) -> Floats:
        """Return (outcomes, k, k): standard errors of `gaps`; infinite if a pair was never drawn together."""
        if not self.relative:
            return tally.errors
        joint, first = np.maximum(tally.joint, 1), np.maximum(tally.both + tally.only, 1)
        second_moment = (self.cells(tally) * self.values(np.clip(self.gaps(tally), -1, 1)) ** 2).sum(axis=-1) / joint
        return np.where(tally.joint > 0, np.sqrt(second_moment / joint) * joint / first, np.inf)

    def widest(self, tally: Tally, compared: NDArray[np.bool_]) -> tuple[int, int, int]:
        """Return (i, j, outcome) of the largest gap among the compared pairs; the first of equals."""
        best, found = -np.inf, (0, 1, 0)
        for part, some in tally.parts():
            gaps = np.where(compared[part], self.gaps(some), -np.inf)
            place = int(gaps.argmax())
            if (largest := gaps.item(place)) > best:
                pair, j = divmod(place, gaps.shape[2])
                outcome, i = divmod(pair, gaps.shape[1])
                best, found = largest, (i, j, part.start + outcome)
        return found

    def open_pairs(self, tally: Tally, gap: float, log_bar: float, *, at_least: bool) -> NDArray[np.bool_]:
        """Return pairs, (outcomes, k, k), whose rates alone do not determine whether they refute "at least" (or "at
        most") a gap.

        For given rates, wealth against "at least" is smallest if two groups disagree as often as possible, and it falls
        with the first rate and rises with the second; so a group that refutes it against the smallest rate, or with the
        largest, does so in every pair. Against "at most", a pair that would not refute it with the fewest possible
        disagreements never refutes it (docs/mathematics-intervals.md, "Many pairs").
        """
        rounds = tally.joint.max()
        if tally.both.size <= FEW_PAIRS or (tally.joint != rounds).any():
            return np.ones(tally.both.shape, bool)
        rates, growths = tally.successes, (self.against_at_least if at_least else self.against_at_most)(gap)
        highest, lowest = (np.broadcast_to(f(axis=1)[:, None], rates.shape) for f in (rates.max, rates.min))

        def reached(more: Counts, less: Counts) -> NDArray[np.bool_]:
            both = np.maximum(more + less - rounds, 0) if at_least else np.minimum(more, less)
            plus, minus = more - both, less - both
            middle = both if self.relative else rounds - plus - minus
            extreme = np.stack([plus.ravel(), middle.ravel(), minus.ravel()], axis=1)
            return reaches(extreme, growths, log_bar).reshape(rates.shape)

        first, second = reached(rates, lowest)[:, :, None], reached(highest, rates)[:, None, :]
        return ~(first | second) if at_least else first & second

    def no_worse_than(self, tally: Tally, worst: tuple[int, int, int]) -> NDArray[np.bool_]:
        """Return pairs, (outcomes, k, k), that refute "at least c" for every c >= 0 for which these cells do.

        They have no more rounds in which only i got the outcome, no fewer in which only j did, and no fewer in the last
        two cells together, so that each of the worst pair's rounds is matched by one that pays at least as much.
        """
        plus, minus = tally.only, tally.only.swapaxes(1, 2)
        rest = tally.both + minus if self.relative else tally.joint - plus
        found: NDArray[np.bool_] = (plus <= worst[0]) & (minus >= worst[2]) & (rest >= worst[1] + worst[2])
        return found

    def gap(self, tally: Tally, pair: tuple[int, int, int]) -> float:
        """Return the estimated gap of one pair (i, j, outcome)."""
        i, j, outcome = pair
        more = tally.only.item(outcome, i, j)
        lead = more - tally.only.item(outcome, j, i)
        base = tally.both.item(outcome, i, j) + more if self.relative else tally.joint.item(i, j)
        if not base:
            return float(self.least if self.relative and self.one_sided and lead < 0 else lead)
        return lead / base


DIFFERENCE, RATIO, SHARE = Payoff(), Payoff(relative=True), Payoff(share=True)


def payoff_of(measure: str, compared: NDArray[np.bool_]) -> Payoff:
    """Return the payoff of a measure, "difference" or "ratio", for these compared pairs, (outcomes, k, k)."""
    return Payoff(measure == "ratio", one_sided=bool((compared != compared.swapaxes(1, 2)).any()))


def gaps_of(more: Floats, less: Floats, measure: str) -> Floats:
    """Return (outcomes, subgroups, subgroups): how far the second subgroup is behind the first.

    For a ratio the gap is 1 - less/more, so that in both measures 0 means equal rates and larger gaps are worse. No
    rate is behind a rate of 0, and the ratio of a rate above 0 to 0 is the largest reported ratio.
    """
    if measure == "difference":
        gaps: Floats = more[:, :, None] - less[:, None, :]
        return gaps
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative = 1 - less[:, None, :] / more[:, :, None]
    return np.where(more[:, :, None] > 0, relative, np.where(less[:, None, :] > 0, 1 - MOST_RATIO, 0.0))


def bounds_of_gaps(low: Floats, high: Floats, measure: str, *, upper: bool) -> Floats:
    """Return upper (or lower) bounds of all gaps, (outcomes, subgroups, subgroups), from bounds of the rates.

    They are rounded outward.
    """
    ends = gaps_of(high, low, measure) if upper else gaps_of(low, high, measure)
    return np.nextafter(ends, np.inf if upper else -np.inf)
