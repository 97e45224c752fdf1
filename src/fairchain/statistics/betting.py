"""The rule behind a verdict (docs/mathematics.md, "The verdict").

FAIR when every ordered pair and outcome has, at some time, refuted "my gap is at least the threshold".
UNFAIR when the leader process has refuted "every gap is at most the threshold": before each batch the pair with
the largest gap so far is chosen to bet on the coming batch. Neither needs a union bound over pairs.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.e_values import (
    FEW_AT_ONCE,
    PAIRS_AT_ONCE,
    Floats,
    distinct,
    log_wealth,
    reaches,
    rounds_to_go,
    wealth_and_best,
    wealth_and_best_of_one,
)
from fairchain.statistics.intervals import largest_above, largest_below, lower_bounds
from fairchain.statistics.payoff import DIFFERENCE, Payoff, bounds_of_gaps
from fairchain.statistics.rules import (
    AHEAD,
    CHUNK,
    OF_GAP,
    OF_PAIRS,
    BatchPlan,
    Decision,
    Leader,
    RefiningRule,
    betting_batch,
    every_pair,
)
from fairchain.statistics.tally import Tally

# Groups besides the leader's two are sampled while their gap, raised by this many standard errors, promises a faster
# end: its distance from the threshold exceeds the leader's by this factor, or more if that many groups promise it.
FOCUS = 1.0
PROMISE = 1.5
# Up to so many pairs are looked at one by one, and up to so many for their gaps alone: arrays take longer.
MOST_ONE_BY_ONE, MOST_GAPS_ONE_BY_ONE = 4, 80
# With more pairs and outcomes than this a forecast is made for the widest pair only.
MANY_PAIRS = 2**20


class BettingRule(RefiningRule):
    """The betting rule: it bets on pair counts until every pair is cleared or one pair is above the threshold.

    Groups that no longer matter are left out if `narrow`; estimates need all of them. `compared`, (outcomes, groups,
    groups), are the ordered pairs that must be alike, by default all. `payoff` is what a gap is: a difference, a ratio
    or a share; one-sided if a pair is compared in one direction only.
    """

    sound = coupled = leads = True

    def __init__(
        self,
        groups: int,
        outcomes: int,
        threshold: float,
        delta: float,
        *,
        narrow: bool = True,
        compared: NDArray[np.bool_] | None = None,
        payoff: Payoff = DIFFERENCE,
    ) -> None:
        self.tally = Tally.empty(groups, outcomes)
        self.decision = Decision.UNDECIDED
        # The cells of all batches, each of its leader.
        self.lead = (0, 0, 0)
        self._compared = every_pair(groups, outcomes) if compared is None else compared
        self._payoff = payoff
        self.cleared = ~self._compared
        self._groups, self._outcomes = groups, outcomes
        self._threshold, self._delta, self._narrow = threshold, delta, narrow
        # Half of delta for each answer: at a gap of exactly the threshold both would be wrong.
        self._bar = math.log(2 / delta)
        # What is left of delta is for the intervals; a share has no other than that of the verdict.
        self._gap_bar = self._bar if payoff.share else -math.log(OF_GAP * delta)
        self._fair_growth, self._unfair_growth, self._fair_totals = payoff.growths_at(threshold)
        self._unfair_values = payoff.of_one(threshold, at_least=False)[0]
        self._rounds = 0
        # Of the present counts, once they were computed: with many pairs each takes a while.
        self._lead_wealth: float | None = None
        self._widest: Leader | None = None
        self._bounds: tuple[float, float, float] | None = None
        self._rate_bounds: tuple[Floats, Floats] | None = None
        # Of few pairs: those that are not cleared, and what was computed of the present counts, of all or one by one.
        self._few = self.cleared.size <= FEW_AT_ONCE
        self._open = self._not_cleared() if self._few else []
        # All pairs whose gaps are computed one by one; the order is that of the table, since the first of equals leads.
        plain = len(self._open) <= MOST_GAPS_ONE_BY_ONE and not payoff.relative
        self._plain_pairs = tuple(self._open) if plain else ()
        self._plain_gaps: list[float] = []
        self._looked: tuple[Floats, Floats] | None = None
        self._one_by_one: dict[Leader, tuple[float, float]] = {}

    @property
    def pairs_bar(self) -> float:
        """The bar of the bounds of all pairs together: both ends of each pair that is compared, whichever way round."""
        if self._payoff.share:
            return self._bar
        sides = int((self._compared | self._compared.swapaxes(1, 2)).sum()) * (2 if self._payoff.relative else 1)
        return math.log(max(sides, 1) / (OF_PAIRS * self._delta))

    def plan(self) -> BatchPlan | None:
        """Return the groups that still matter, and the leader, from past counts."""
        if self.decision is not Decision.UNDECIDED:
            return None
        all_groups = tuple(range(self._groups))
        if not self._rounds:
            # Of a share there is one pair, so the past need not choose it.
            leader = self.widest() if self._payoff.share else None
            return BatchPlan(betting_batch(0, self._groups, self._outcomes), all_groups, leader)
        leader = self.widest()
        above = self._payoff.gap(self.tally, leader) - self._threshold
        # Two groups are those of the leader, and of every pair.
        groups = self._active(leader, above) if self._narrow and self._groups > 2 else all_groups
        # The rounds follow from the forecast of UNFAIR or, below the threshold, of the first group that all its pairs
        # clear; of many pairs only the end is forecast.
        if above > 0 or not self._few:
            to_go = self._to_go(enough=max(self._rounds, CHUNK) / AHEAD)
        else:
            to_go = max(1.0, self._first_cleared())
        size, share = (self._rounds, self._groups, self._outcomes, to_go), self._payoff.share
        rounds = betting_batch(*size, evaluated=len(groups), above=above > 0, share=share)
        return BatchPlan(rounds, groups, leader)

    def _active(self, leader: Leader, above: float) -> tuple[int, ...]:
        """Return the leader's groups and those that promise a faster end, if its gap is above the threshold.

        Otherwise return the groups of pairs that are not cleared.
        """
        if above <= 0 and self._few:
            return tuple(sorted({group for pair in self._open for group in pair[:2]}))
        matter = np.zeros(self._groups, bool)
        if above <= 0:
            for part, _ in self.tally.parts():
                waiting = ~self.cleared[part]
                matter |= waiting.any(axis=(0, 1)) | waiting.any(axis=(0, 2))
            return tuple(np.flatnonzero(matter).tolist())
        return promising(self._promises(), self._threshold, above, leader)

    def _promises(self) -> list[float]:
        """Return the largest raised gap of each group."""
        if not self._plain_pairs:
            promises = [
                promise_of(self._payoff.gaps(some) + FOCUS * self._payoff.errors(some), self._compared[part])
                for part, some in self.tally.parts()
            ]
            largest: list[float] = np.maximum.reduce(promises).tolist()
            return largest
        only, joint = self.tally.only.tolist(), self.tally.joint.tolist()
        found = [-math.inf] * self._groups
        for (i, j, outcome), gap in zip(self._plain_pairs, self._plain_gaps, strict=True):
            # The other way round the gap is above 0, and promises more.
            if gap < 0 and not self._payoff.one_sided:
                continue
            rounds = joint[i][j]
            moment = (only[outcome][i][j] + only[outcome][j][i]) / (rounds or 1) - gap * gap
            error = math.sqrt(max(moment, 0.0) / rounds) if rounds else math.inf
            raised = gap + FOCUS * error
            found[i], found[j] = max(found[i], raised), max(found[j], raised)
        return found

    def observe(self, plan: BatchPlan, tally: Tally) -> None:
        """Let the pairs and the leader play this batch."""
        self.tally += tally
        self._widest = self._bounds = self._rate_bounds = self._lead_wealth = self._looked = None
        self._one_by_one.clear()
        # All groups of a batch are evaluated in each of its rounds.
        self._rounds += int(tally.joint[plan.groups[0], plan.groups[0]])
        if plan.leader is not None:
            (more, middle, less), (x, y, z) = self.lead, self._payoff.cells_of(tally, plan.leader)
            self.lead = more + x, middle + y, less + z
        if self.decision is not Decision.UNDECIDED:
            return
        if self._few:
            self._clear_few(plan.groups)
        else:
            for part, some in self.tally.parts():
                # Pairs that the rates of their groups already decide are passed over.
                unclear = self._payoff.open_pairs(some, self._threshold, self._bar, at_least=True)
                self.cleared[part] |= ~unclear
                unclear &= ~self.cleared[part]
                if unclear.any():
                    cells = self._payoff.cells(some)[unclear]
                    self.cleared[part][unclear] = reaches(cells, self._fair_growth, self._bar)
        # log(1 + x) <= x: leaders whose payoffs add up to no more than 0 have no wealth above 1.
        (more, middle, less), (won, kept, lost) = self.lead, self._unfair_values
        gained = more * won + middle * kept + less * lost
        if gained > 0 and self._wealth_of_leaders() >= self._bar:
            self.decision = Decision.UNFAIR
        elif not self._open if self._few else self.cleared.all():
            self.decision = Decision.FAIR

    def _wealth_of_leaders(self) -> float:
        """Return log wealth of the leaders against "every gap is at most the threshold"."""
        if self._lead_wealth is None:
            self._lead_wealth, _ = wealth_and_best_of_one(self.lead, self._unfair_growth)
        return self._lead_wealth

    def _clear_few(self, groups: Sequence[int]) -> None:
        """Clear pairs of these groups, of which there is new evidence."""
        pairs = self._open
        if len(groups) < self._groups:
            pairs = [pair for pair in pairs if pair[0] in groups and pair[1] in groups]
        if len(pairs) > MOST_ONE_BY_ONE:
            self.cleared |= self._look()[0] >= self._bar
            self._open = self._not_cleared()
            return
        for pair in pairs:
            # log(1 + x) <= x: a pair whose gap is not below the threshold has no wealth above 1.
            if self._payoff.gap(self.tally, pair) < self._threshold and self._look_at(pair)[0] >= self._bar:
                i, j, outcome = pair
                self.cleared[outcome, i, j] = True
                self._open = [other for other in self._open if other != pair]

    def forget_cleared(self) -> None:
        """Leave out pairs that were cleared from outside, by certain bounds."""
        if self._few:
            self._open = self._not_cleared()

    def _not_cleared(self) -> list[Leader]:
        """Return the pairs that are not cleared."""
        outcomes, first, second = (~self.cleared).nonzero()
        return list(zip(first.tolist(), second.tolist(), outcomes.tolist(), strict=True))

    def _look_at(self, pair: Leader) -> tuple[float, float]:
        """Return log wealth of one pair, and the growth of its best stake."""
        if (found := self._one_by_one.get(pair)) is None:
            cells = self._payoff.cells_of(self.tally, pair)
            found = self._one_by_one[pair] = wealth_and_best_of_one(cells, self._fair_growth)
        return found

    def _look(self) -> tuple[Floats, Floats]:
        """Return log wealth of few pairs, and the growth of the best stake of each."""
        if self._looked is None:
            wealth, best = wealth_and_best(self._payoff.totals(self.tally), self._fair_totals)
            self._looked = wealth.reshape(self.cleared.shape), best.reshape(self.cleared.shape)
        return self._looked

    def _first_cleared(self) -> float:
        """Forecast the rounds until all pairs of some group are cleared, if their frequencies stay."""
        if len(self._open) > MOST_ONE_BY_ONE:
            left = self._left()
            of_groups = (np.maximum.reduce(left, axis=axes).tolist() for axes in ((0, 1), (0, 2)))
            slowest: list[float] = [max(rounds) for rounds in zip(*of_groups, strict=True)]
            return min((rounds for rounds in slowest if rounds > 0), default=1.0)
        of_group: dict[int, float] = {}
        for pair in self._open:
            (wealth, best), (i, j, _) = self._look_at(pair), pair
            rate = best / max(self.tally.joint.item(i, j), 1)
            rounds = (self._bar - wealth) / rate if rate > 0 else math.inf
            for group in (i, j):
                of_group[group] = max(rounds, of_group.get(group, 0.0))
        return min(of_group.values(), default=1.0)

    def _left(self) -> Floats:
        """Return the rounds until few pairs are cleared if their frequencies stay, 0 for those that are."""
        wealth, best = self._look()
        rate = best / np.maximum(self.tally.joint, 1)
        left = np.where(self.cleared, 0.0, np.inf)
        np.divide(self._bar - wealth, rate, out=left, where=(rate > 0) & ~self.cleared)
        return left

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return bounds that hold together, at all times, in one event of probability 1 - delta with the gap's."""
        if self._rate_bounds is None:
            self._rate_bounds = super().probabilities()
        return self._rate_bounds

    def gap(self) -> tuple[float, float, float]:
        """Return the largest gap: its bounds and those of the rates hold together with probability 1 - delta."""
        if self._bounds is None:
            self._bounds = self.gap_within(*self.probabilities())
        return self._bounds

    def gap_within(self, low: Floats, high: Floats) -> tuple[float, float, float]:
        """Return the largest gap, given bounds of the rates, (outcomes, groups) each, in the same event."""
        floor = self._payoff.floor
        estimate = max(floor, self._payoff.gap(self.tally, self.widest()))
        below, above = self._gap_below(low, high), self._gap_above(low, high)
        if self.decision is Decision.UNFAIR:
            # The leaders once refuted the threshold, and later rounds do not undo it.
            below = max(below, self._threshold)
            above = max(below, above)
        # Where later rounds contradict a FAIR verdict, the threshold is all that is left.
        below = min(below, above)
        # Leaders, and a decision that later rounds contradict, may leave the observed gap outside.
        return min(max(estimate, below), above), below, above

    def settle(self) -> None:
        """Take the answer from the interval where the bets have none and the interval leaves out the threshold.

        Nothing is sampled afterwards but for narrow intervals. The interval and the bets hold in one event.
        """
        _, low, high = self.gap()
        if self.decision is Decision.UNDECIDED and not low <= self._threshold < high:
            self.decision = Decision.FAIR if high <= self._threshold else Decision.UNFAIR

    def _gap_below(self, low: Floats, high: Floats) -> float:
        """Return the largest c for which the leaders, the rates or one of all pairs refutes "every gap <= c"."""
        bound, payoff = self._payoff.floor, self._payoff
        # A bound below the floor need not be known; one way round, the floor is the least there is.
        if payoff.one_sided or log_wealth(self.lead, payoff.against_at_most(bound)) >= self._gap_bar:
            bound = max(bound, float(lower_bounds(self.lead, self._gap_bar, self._payoff)))
        if self._payoff.share:
            return bound
        for part, _ in self.tally.parts():
            below = bounds_of_gaps(low[part], high[part], self._payoff.measure, upper=False)
            bound = max(bound, float(below[self._compared[part]].max(initial=-np.inf)))
        return largest_below(self.tally, self._compared, self.pairs_bar, self._payoff, known=bound)

    def _gap_above(self, low: Floats, high: Floats) -> float:
        """Return the smallest c for which every pair, or the rates of its groups, refutes "gap >= c".

        One search serves all pairs. A pair once cleared stays below the threshold: both claims fail only if the pair's
        own wealth at its true gap ever reaches the bar, so the guarantee is spent once.
        """

        def caps(part: slice) -> Floats:
            cleared = np.where(self.cleared[part], self._threshold, np.inf)
            if self._payoff.share:
                return cleared
            return np.minimum(cleared, bounds_of_gaps(low[part], high[part], self._payoff.measure, upper=True))

        return largest_above(self.tally, self._compared, self._gap_bar, caps, payoff=self._payoff)

    def violators(self) -> list[Leader]:
        """Return pairs that are each known to be above the threshold, in one event with all intervals."""
        return pairs_above(self.tally, self._compared, self._payoff, self._threshold, self.pairs_bar)

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap so far."""
        if self._widest is None and self._plain_pairs:
            only, joint = self.tally.only.tolist(), self.tally.joint.tolist()
            gaps = [
                (only[outcome][i][j] - only[outcome][j][i]) / (joint[i][j] or 1) for i, j, outcome in self._plain_pairs
            ]
            self._plain_gaps, self._widest = gaps, self._plain_pairs[gaps.index(max(gaps))]
        elif self._widest is None:
            self._widest = self._payoff.widest(self.tally, self._compared)
        return self._widest

    def forecast(self) -> int | None:
        """Return the rounds until the verdict if the frequencies stay as they are.

        Of very many pairs only the widest is looked at: the time is better spent on rounds.
        """
        rounds = self._to_go(brief=self.cleared.size > MANY_PAIRS)
        return math.ceil(rounds) if math.isfinite(rounds) else None

    def _to_go(self, enough: float = math.inf, *, brief: bool = False) -> float:
        """Forecast the rounds until UNFAIR if the largest gap is above the threshold, else until all pairs are cleared.

        More than `enough` rounds need not be known exactly; `brief` looks at the widest pair alone.
        """
        if not self._rounds:
            return math.inf
        i, j, _ = widest = self.widest()
        above = self._payoff.gap(self.tally, widest) > self._threshold
        if self._few and not (above or brief):
            return max(1.0, float(self._left().max()))
        if above or brief:
            seen = self._payoff.cells_of(self.tally, widest)
            reached, best = wealth_and_best_of_one(seen, self._unfair_growth if above else self._fair_growth)
            reached = self._wealth_of_leaders() if above else reached
            rate = best / max(self.tally.joint.item(i, j), 1)
            return max(self._bar - reached, 0.0) / rate if rate > 0 else math.inf
        most = 1.0
        for part, some in self.tally.parts():
            waiting = ~self.cleared[part]
            if most > enough or not waiting.any():
                continue
            joint = np.broadcast_to(some.joint, waiting.shape)[waiting]
            counts, _ = distinct(np.column_stack([self._payoff.cells(some)[waiting], joint]))
            for start in range(0, len(counts), PAIRS_AT_ONCE):
                those = counts[start : start + PAIRS_AT_ONCE]
                wealth = log_wealth(those[:, :3], self._fair_growth)
                left = rounds_to_go(wealth, those[:, :3], self._fair_growth, self._bar, those[:, 3])
                most = max(most, float(left.max()))
                if most > enough:
                    break
        return most


def promise_of(raised: Floats, compared: NDArray[np.bool_]) -> Floats:
    """Return (groups,): the largest raised gap of a group, of those in (outcomes, groups, groups) that are compared."""
    raised = np.where(compared, raised, -np.inf)
    largest: Floats = np.maximum.reduce(np.maximum(raised, raised.swapaxes(1, 2)), axis=(0, 1))
    return largest


def promising(promises: Sequence[float], threshold: float, above: float, leader: Leader) -> tuple[int, ...]:
    """Return the leader's groups and those that promise a faster end; the leader is `above` the threshold."""
    if max(promises) - threshold < PROMISE * above:
        return tuple(sorted(leader[:2]))
    ascending, matter = sorted(promises), set(leader[:2])
    for group, own in enumerate(promises):
        as_promising = len(ascending) - bisect_left(ascending, own)
        if own - threshold >= max(PROMISE, (as_promising / 2) ** 0.2) * above:
            matter.add(group)
    return tuple(sorted(matter))


def pairs_above(
    tally: Tally, compared: NDArray[np.bool_], payoff: Payoff, threshold: float, log_bar: float
) -> list[Leader]:
    """Return the compared pairs whose own wealth against "my gap is at most the threshold" reaches the bar."""
    found: list[Leader] = []
    for part, some in tally.parts():
        may = compared[part]
        if not payoff.relative:
            # log(1 + x) <= x: a pair whose payoffs add up to no more than 0 has no wealth above 1.
            may = may & (payoff.gaps(some) > threshold)
        if may.any():
            may = may & payoff.open_pairs(some, threshold, log_bar, at_least=False)
        if not may.any():
            continue
        places = np.argwhere(may)
        beaten = reaches(payoff.cells(some)[may], payoff.against_at_most(threshold), log_bar)
        found += [(int(i), int(j), part.start + int(outcome)) for outcome, i, j in places[beaten]]
    return found
