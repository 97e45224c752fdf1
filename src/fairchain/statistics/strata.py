"""Betting where a part of the population is known: only the rest is sampled (docs/mathematics-exact.md, "Strata").

A *stratum* is a part of the run during which the open part of the population, with probability M, stays the same. In
the settled part, the probability S of the outcome is known for every subgroup. If x is 1 when a round in the open part
has the outcome, and otherwise 0, the mean of S + M x is the subgroup's rate. So payoffs are as in a plain run with S +
M x instead of x. Wealth is carried from one stratum to the next. The first stratum is all inputs, with nothing known (S
= 0, M = 1): a plain run, by the rule of a plain run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.betting import FOCUS, BettingRule, promise_of, promising
from fairchain.statistics.e_values import BETS, LOG_SHARES, Floats
from fairchain.statistics.intervals import bisect
from fairchain.statistics.payoff import DIFFERENCE, SHARE, Payoff, bounds_of_gaps
from fairchain.statistics.rules import LEAST_ROUNDS, OF_GAP, OF_RATES, BatchPlan, Decision, Leader, next_batch
from fairchain.statistics.tally import Counts, Tally

# At the beginning of a stratum this part of the wealth is redistributed over all stakes: the best stake depends on M.
SPREAD = 0.5
TINY = 1e-12
# The number of a group or an outcome, or those of many pairs.
IndexOrIndices = int | NDArray[np.intp]


@dataclass(eq=False)
class Stratum:
    """Rounds in one open part of the population, whose probability is `mass`.

    `settled` is the part of each rate that is known, (outcomes, groups), and `slack` the largest change of a payoff's
    mean by rounding. `tally` counts the rounds so far, and `led` those in which pairs were the leader, not yet added to
    the leads.
    """

    settled: Floats
    mass: float
    slack: float
    tally: Tally
    led: list[tuple[Leader, Tally]] = field(default_factory=list)
    _leads: dict[Leader, Counts] = field(default_factory=dict)

    @property
    def leads(self) -> dict[Leader, Counts]:
        """The cells of each pair that was the leader: only the first, both, only the second, neither got the outcome.

        They are added up when they are first needed; a plain run does not need them.
        """
        for leader, tally in self.led:
            self._leads[leader] = self._leads.get(leader, 0) + four_cells(tally, *leader)
        self.led.clear()
        return self._leads

    def bet(self, pairs: list[Leader], cells: Counts | None = None) -> _Bet:
        """Return the bet of some pairs with these cells, (pairs, 4), by default those of all rounds."""
        i, j, outcome = _places_of(pairs)
        cells = four_cells(self.tally, i, j, outcome) if cells is None else cells
        return _Bet(self.settled[outcome, i], self.settled[outcome, j], self.mass, self.slack, cells)

    @property
    def weight(self) -> Floats:
        """(groups, groups): the weight of its estimates, the inverse of their variance up to a factor."""
        return self.tally.joint / max(self.mass, TINY) ** 2


def four_cells(tally: Tally, i: IndexOrIndices, j: IndexOrIndices, outcome: IndexOrIndices) -> Counts:
    """Return (..., 4): rounds in which only i, both, only j and neither got the outcome, for one pair or many."""
    only, both, other = tally.only[outcome, i, j], tally.both[outcome, i, j], tally.only[outcome, j, i]
    return np.array([only, both, other, tally.joint[i, j] - only - both - other], np.int64).T


# The outcomes of (i, j) in each of the four cells. For a share, the second never gets the outcome, so two cells are
# empty.
FIRST, SECOND = np.array([1.0, 1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0, 0.0])
OF_SHARE = [0, 3]


@dataclass(frozen=True, eq=False)
class _Bet:
    """The counts of some pairs in one stratum: settled rates (pairs,), the open mass, and cells (pairs, 4).

    For a share the second rate is 0, and the cells of the second are empty.
    """

    first: Floats
    second: Floats
    mass: float
    slack: float
    cells: Counts

    def growth(self, gap: Floats, payoffs: Payoff, *, at_least: bool) -> Floats:
        """Return log growth of every stake over all rounds: (..., pairs, stakes) for gaps (..., pairs)."""
        possible = OF_SHARE if payoffs.share else slice(None)
        one = self.first[:, None] + self.mass * FIRST[possible]
        other = self.second[:, None] + self.mass * SECOND[possible]
        payoff = (1 - gap)[..., None] * one - other if payoffs.relative else one - other - gap[..., None]
        payoff = -(payoff + self.slack) if at_least else payoff - self.slack
        lost = np.maximum(-payoff.min(axis=-1), TINY)
        logs = np.log1p(payoff[..., None] * (BETS / lost[..., None, None]))
        grown: Floats = (self.cells[:, possible, None] * logs).sum(axis=-2)
        return grown


def carried_wealth(bets: list[list[_Bet]], gap: Floats, payoffs: Payoff, *, at_least: bool) -> Floats:
    """Return log wealth against "the gap is at least (or at most) this" over strata, each with some bets."""
    wealth: Floats = np.broadcast_to(LOG_SHARES, (*gap.shape, len(BETS))).copy()
    for number, stratum in enumerate(bets):
        if number:
            total = _log_sum(wealth)[..., None]
            wealth = np.logaddexp(wealth + math.log1p(-SPREAD), total + math.log(SPREAD) + LOG_SHARES)
        for bet in stratum:
            wealth = wealth + bet.growth(gap, payoffs, at_least=at_least)
    return _log_sum(wealth)


def _log_sum(each: Floats) -> Floats:
    top = each.max(axis=-1, keepdims=True)
    total: Floats = np.log(np.exp(each - top).sum(axis=-1)) + top[..., 0]
    return total


class StrataRule:
    """The rule of a verdict from certain bounds and from rounds in the open part.

    The parameters are those of `BettingRule`, with the threshold as an exact fraction, since certain bounds are
    compared with it exactly, and `plain`, the rule of a plain run. If certain bounds alone give the decision, it is
    `proved` and cannot be wrong. `low` and `high` are certain bounds of every rate, (outcomes, groups). The first of
    the `strata` is all inputs; as long as it is the only one, the plain rule plans, looks and bounds.
    """

    sound = True

    def __init__(
        self,
        groups: int,
        outcomes: int,
        threshold: Fraction,
        delta: float,
        compared: NDArray[np.bool_],
        *,
        payoff: Payoff = DIFFERENCE,
        plain: BettingRule | None = None,
    ) -> None:
        self.decision, self.proved = Decision.UNDECIDED, False
        self.low, self.high = np.zeros((outcomes, groups)), np.ones((outcomes, groups))
        self.plain = plain or BettingRule(groups, outcomes, float(threshold), delta, compared=compared, payoff=payoff)
        self.strata = [Stratum(np.zeros((outcomes, groups)), 1.0, 0.0, self.plain.tally)]
        # A shared array: the plain rule skips pairs that certain bounds have cleared.
        self.cleared = self.plain.cleared
        self._compared, self._payoff = compared, payoff
        self._pairs: list[Leader] = [(int(i), int(j), int(o)) for o, i, j in np.argwhere(compared)]
        self._places = _places_of(self._pairs)
        self._groups, self._outcomes = groups, outcomes
        self._threshold, self._delta = threshold, delta
        # Half of delta for each answer, as in a plain run.
        self._bar = math.log(2 / delta)
        self._gap_bar = self._bar if payoff.share else -math.log(OF_GAP * delta)
        # Cached results for the present counts and bounds.
        self._estimates: tuple[Floats, Floats] | None = None

    # -- Certain bounds ----------------------------------------------------------------------------------------------

    def bound(self, low: Floats, high: Floats) -> None:
        """Add certain bounds of the rates, (outcomes, groups) each; they are intersected with earlier ones."""
        self.low, self.high = np.maximum(self.low, low), np.minimum(self.high, high)
        self._estimates = None
        fair, unfair = self._certain_pairs()
        i, j, outcome = self._places
        self.cleared[outcome, i, j] |= fair
        self.plain.forget_cleared()
        if unfair.any() or fair.all():
            self.decision, self.proved = Decision.UNFAIR if unfair.any() else Decision.FAIR, True
        elif self.cleared.all() and self.decision is Decision.UNDECIDED:
            self.decision = Decision.FAIR

    def _certain_pairs(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return (pairs,): whether a gap is certainly at most the threshold, and whether it is certainly above."""
        rates = low_i, high_i, low_j, high_j = self._ends_of_pairs()
        relative, limit = self._payoff.relative, self._threshold
        scale, shift = (1 - limit, Fraction(0)) if relative else (Fraction(1), limit)
        factor, added = (1 - float(limit), 0.0) if relative else (1.0, float(limit))
        most, least = factor * high_i - low_j - added, factor * low_i - high_j - added
        fair, unfair = most < -TINY, least > TINY
        # Cases in which rounding matters are decided by fractions.
        for place in np.flatnonzero((np.abs(most) <= TINY) | (np.abs(least) <= TINY)):
            first_low, first_high, second_low, second_high = (Fraction(float(rate[place])) for rate in rates)
            fair[place] = scale * first_high <= second_low + shift
            unfair[place] = scale * first_low > second_high + shift
        return fair, unfair

    def _ends_of_pairs(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (pairs,) each: certain lower and upper bounds of the first rates, and of the second ones."""
        i, j, outcome = self._places
        return self.low[outcome, i], self.high[outcome, i], self.low[outcome, j], self.high[outcome, j]

    def certain_gap(self) -> tuple[float, float]:
        """Return certain bounds of the largest gap, rounded outward."""
        low_i, high_i, low_j, high_j = self._ends_of_pairs()
        if self._payoff.relative:
            with np.errstate(divide="ignore", invalid="ignore"):
                least = np.where(low_i > 0, 1 - high_j / low_i, 0.0)
                most = np.where(high_i > 0, 1 - low_j / high_i, 0.0)
        else:
            least, most = low_i - high_j, high_i - low_j
        outward = 4 * 2.0**-53
        low = max(0.0, float(least.max(initial=0.0)) - outward)
        high = float(most.max(initial=0.0))
        return low, min(1.0, high + outward) if high > 0 else 0.0

    # -- Sampling ----------------------------------------------------------------------------------------------------

    @property
    def everywhere(self) -> bool:
        """Whether rounds are still drawn among all inputs."""
        return len(self.strata) == 1

    def begin(self, settled: Floats, mass: float, slack: float) -> None:
        """Begin a stratum: the rates' settled parts, the open probability, and the rounding of both."""
        self._estimates = None
        self.strata.append(Stratum(settled, mass, slack, Tally.empty(self._groups, self._outcomes)))

    def plan(self) -> BatchPlan:
        """Return the groups that still matter, and the leader, from past counts; there must be no answer yet."""
        if self.everywhere:
            plan = self.plain.plan()
            assert plan is not None
            return plan
        # A check of several strata costs as much as hundreds of rounds.
        rounds = next_batch(self.rounds, self._groups, self._outcomes, self._to_go(), few=LEAST_ROUNDS)
        # Boxes that are open only for groups without an open pair may have been left out, so rounds give no information
        # about these groups.
        waiting = ~self.cleared
        matter = np.asarray(waiting.any(axis=(0, 1)) | waiting.any(axis=(0, 2)))
        compared = self._compared & matter[:, None] & matter
        leader = self._widest_of(compared)
        above = self._gap_of(leader) - float(self._threshold)
        if above <= 0 or not self.rounds:
            groups = tuple(np.flatnonzero(matter).tolist())
        else:
            gaps, errors = self._gaps()
            groups = promising(
                promise_of(gaps + FOCUS * errors, compared).tolist(), float(self._threshold), above, leader
            )
        return BatchPlan(rounds, groups, leader if self.rounds or self._payoff.share else None)

    def observe(self, plan: BatchPlan, tally: Tally) -> None:
        """Update the bets of the pairs and of the leader with this batch."""
        stratum = self.strata[-1]
        self._estimates = None
        if plan.leader is not None:
            stratum.led.append((plan.leader, tally))
        if self.everywhere:
            self.plain.observe(plan, tally)
            stratum.tally = self.plain.tally
            if self.decision is Decision.UNDECIDED:
                self.decision = self.plain.decision
            return
        stratum.tally = stratum.tally + tally
        if self.decision is not Decision.UNDECIDED:
            return
        limit = float(self._threshold)
        waiting = [pair for pair in self._pairs if not self.cleared[pair[2], pair[0], pair[1]]]
        if waiting:
            reached = self._wealth(waiting)(np.full(len(waiting), limit), at_least=True) >= self._bar
            for (i, j, outcome), done in zip(waiting, reached, strict=True):
                self.cleared[outcome, i, j] = done
        if self._lead_wealth(np.array([limit]))[0] >= self._bar:
            self.decision = Decision.UNFAIR
        elif self.cleared.all():
            self.decision = Decision.FAIR

    def take_over(self, batches: Iterable[tuple[BatchPlan, Tally]]) -> None:
        """Go on from what the plain rule has observed by itself: batches among all inputs, before any other."""
        first = self.strata[0]
        self._estimates = None
        first.tally, self.decision = self.plain.tally, self.plain.decision
        first.led += [(plan.leader, tally) for plan, tally in batches if plan.leader is not None]

    @property
    def rounds(self) -> int:
        """Rounds in all strata."""
        return sum(int(stratum.tally.joint.max()) for stratum in self.strata)

    @property
    def trials(self) -> Counts:
        """Trials of each group."""
        return sum((stratum.tally.trials for stratum in self.strata), np.zeros(self._groups, np.int64))

    # -- Results -----------------------------------------------------------------------------------------------------

    def gap(self) -> tuple[float, float, float]:
        """Return the largest gap: certain bounds, narrowed by those that hold with probability 1 - delta.

        A proved answer has certain bounds only.
        """
        low, high = self.certain_gap()
        if self.rounds and not self.proved and low < high:
            rates = self.probabilities()
            least, most = self.plain.gap_within(*rates)[1:] if self.everywhere else self._gap_within(*rates)
            if self.decision is Decision.UNFAIR:
                # The leaders once refuted the threshold, with more than the interval has of delta.
                least = max(least, float(self._threshold))
                most = max(least, most)
            high = min(high, max(0.0, most))
            low = max(low, min(high, least))
        estimate = self.gap_estimate() if self.rounds else (low + high) / 2
        return min(max(estimate, low), high), low, high

    def settle(self) -> None:
        """Take the answer from the interval if the bets gave none and the interval excludes the threshold."""
        _, low, high = self.gap()
        if self.decision is Decision.UNDECIDED and self.rounds and not low <= self._threshold < high:
            self.decision = Decision.FAIR if high <= self._threshold else Decision.UNFAIR

    def gap_estimate(self) -> float:
        """Return the estimate of the largest gap."""
        return max(0.0, self._gap_of(self.widest()))

    def _gap_within(self, low: Floats, high: Floats) -> tuple[float, float]:
        """Return bounds of the largest gap over several strata, given bounds of the rates, (outcomes, groups) each.

        The lower one is that of the leaders or, if it is larger, that of all pairs or of their rates. A cleared pair is
        always below the threshold.
        """
        wealth, (i, j, outcome) = self._wealth(self._pairs), self._places
        least, most = np.full(len(self._pairs), self._payoff.least), np.ones(len(self._pairs))
        above = bisect(lambda gap: wealth(gap, at_least=True) - self._gap_bar, least, most)
        below = float(bisect(lambda gap: self._lead_wealth(gap) - self._gap_bar, most[:1], least[:1])[0])
        if not self._payoff.share:
            of_rates = [bounds_of_gaps(low, high, self._payoff.measure, upper=upper) for upper in (False, True)]
            above = np.minimum(above, of_rates[1][outcome, i, j])
            of_pairs = bisect(lambda gap: wealth(gap, at_least=False) - self.plain.pairs_bar, most, least)
            below = max(below, float(of_pairs.max()), float(of_rates[0][outcome, i, j].max()))
        known = self.cleared[outcome, i, j]
        return below, float(np.where(known, np.minimum(above, float(self._threshold)), above).max())

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return certain bounds of the rates, narrowed by those that hold together with probability 1 - delta.

        A proved answer has certain bounds only.
        """
        low, high = self.low.copy(), self.high.copy()
        if self.proved or not self.rounds:
            return low, high
        bar = math.log(2 * self._groups * self._outcomes / (OF_RATES * self._delta))
        outcome, group = (each.ravel() for each in np.mgrid[: self._outcomes, : self._groups])
        nothing = np.zeros(len(group))
        bets = []
        for stratum in self.strata:
            got = stratum.tally.successes[outcome, group]
            cells = np.stack([got, 0 * got, 0 * got, stratum.tally.trials[group] - got], axis=1)
            settled = stratum.settled[outcome, group]
            bets.append([_Bet(settled, nothing, stratum.mass, stratum.slack, cells)])

        most = np.ones(len(group))
        above = bisect(lambda rate: carried_wealth(bets, rate, SHARE, at_least=True) - bar, nothing, most)
        below = bisect(lambda rate: carried_wealth(bets, rate, SHARE, at_least=False) - bar, most, nothing)
        above, below = above.reshape(low.shape), below.reshape(low.shape)
        return np.minimum(np.maximum(low, below), high), np.maximum(np.minimum(high, above), low)

    def rates(self) -> Floats:
        """Return the estimates that belong to `probabilities`: of all strata, or between the certain bounds."""
        middle = (self.low + self.high) / 2
        weights, total = np.zeros(self._groups), np.zeros((self._outcomes, self._groups))
        for stratum in self.strata:
            weight = stratum.weight.diagonal()
            weights = weights + weight
            total = total + weight * (stratum.settled + stratum.mass * stratum.tally.rates)
        found = np.where(weights > 0, total / np.where(weights > 0, weights, 1.0), middle)
        return np.clip(found, self.low, self.high)

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap so far."""
        if self.everywhere and self.rounds:
            return self.plain.widest()
        return self._widest_of(self._compared)

    def _widest_of(self, compared: NDArray[np.bool_]) -> Leader:
        gaps = np.where(compared, self._gaps()[0], -np.inf)
        outcome, i, j = np.unravel_index(int(gaps.argmax()), gaps.shape)
        return int(i), int(j), int(outcome)

    def violators(self) -> list[Leader]:
        """Return pairs that are known, jointly, to be above the threshold (union over pairs)."""
        limits = np.full(len(self._pairs), float(self._threshold))
        _, above = self._certain_pairs()
        if self.rounds and not self.proved:
            above = above | (self._wealth(self._pairs)(limits, at_least=False) >= self.plain.pairs_bar)
        return [pair for pair, found in zip(self._pairs, above, strict=True) if found]

    def forecast(self) -> int | None:
        """Forecast the number of further rounds; None if there is no forecast."""
        if self.everywhere:
            return self.plain.forecast()
        rounds = self._to_go()
        return math.ceil(rounds) if math.isfinite(rounds) else None

    # -- Parts -------------------------------------------------------------------------------------------------------

    def _gaps(self) -> tuple[Floats, Floats]:
        """Return (outcomes, groups, groups): estimates of the gaps, and their standard errors."""
        if self._estimates is not None:
            return self._estimates
        shape = (self._outcomes, self._groups, self._groups)
        weights, total, variance = np.zeros(shape[1:]), np.zeros(shape), np.zeros(shape)
        for stratum in self.strata:
            weight, tally = stratum.weight, stratum.tally
            known = stratum.settled[:, :, None] - stratum.settled[:, None, :]
            weights = weights + weight
            total = total + weight * (known + stratum.mass * tally.gaps)
            errors = np.where(tally.joint > 0, stratum.mass * tally.errors, 0.0)
            variance = variance + (weight * errors) ** 2
        rates = self.rates()
        plain = rates[:, :, None] - rates[:, None, :]
        sampled = weights > 0
        gaps = np.where(sampled, total / np.where(sampled, weights, 1.0), plain)
        errors = np.where(sampled, np.sqrt(variance) / np.where(sampled, weights, 1.0), np.inf)
        if self._payoff.relative:
            base = np.maximum(rates[:, :, None], TINY)
            gaps, errors = gaps / base, errors / base
        self._estimates = gaps, errors
        return self._estimates

    def _gap_of(self, pair: Leader) -> float:
        return float(self._gaps()[0][pair[2], pair[0], pair[1]])

    def _wealth(self, pairs: list[Leader]) -> Callable[..., Floats]:
        """Return log wealth of these pairs as a function of their gaps, (..., pairs)."""
        bets = [[stratum.bet(pairs)] for stratum in self.strata]
        return lambda gap, *, at_least: carried_wealth(bets, gap, self._payoff, at_least=at_least)

    def _lead_wealth(self, gap: Floats) -> Floats:
        """Return log wealth of the leaders against "every gap is at most this", (..., 1)."""
        bets = [
            [stratum.bet([leader], cells[None]) for leader, cells in stratum.leads.items()] for stratum in self.strata
        ]
        return carried_wealth(bets, gap, self._payoff, at_least=False)

    def _to_go(self) -> float:
        """Forecast the rounds until a verdict, at the frequencies of the current stratum."""
        stratum, pair = self.strata[-1], self.widest()
        seen = int(stratum.tally.joint[pair[:2]])
        if not seen:
            return math.inf
        unfair, at = self._gap_of(pair) > float(self._threshold), np.array([float(self._threshold)])
        wealth = self._lead_wealth(at) if unfair else self._wealth([pair])(at, at_least=True)
        rate = float(stratum.bet([pair]).growth(at, self._payoff, at_least=not unfair).max()) / seen
        return max(1.0, (self._bar - float(wealth[0])) / rate) if rate > 0 else math.inf


def _places_of(pairs: list[Leader]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the first and second groups and the outcomes of pairs."""
    first, second, outcome = np.array(pairs, np.intp).reshape(-1, 3).T
    return first, second, outcome
