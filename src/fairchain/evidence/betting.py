"""The rule behind a verdict (docs/mathematics.md, "The verdict").

FAIR when every ordered pair and outcome has, at some time, refuted "my gap is at least the threshold".
UNFAIR when the leader process has refuted "every gap is at most the threshold": before each batch the pair with
the largest gap so far is chosen to bet on the coming batch. Neither needs a union bound over pairs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairchain.evidence.bets import Floats, log_wealth, rounds_to_go
from fairchain.evidence.interval import largest_above, largest_below, probability_any_time
from fairchain.evidence.payoff import DIFFERENCE, Payoff
from fairchain.evidence.rule import Decision, Leader, Plan, every_pair, next_batch
from fairchain.evidence.tally import Counts, Tally

# A pair whose gap may still be the largest within this many standard errors goes on being sampled.
FOCUS = 0.5


class BettingRule:
    """Bets on pair counts until every pair is cleared or the leaders have won.

    Parameters
    ----------
    groups, outcomes
        How many groups are compared, and how many outcomes are looked at.
    threshold, delta
        The largest fair gap, and the probability of a wrong verdict.
    narrow
        Whether groups that no longer matter are left out. Estimates need all of them.
    compared
        (outcomes, groups, groups): which ordered pairs must be alike; a pair both ways or not at all. By default all.
    payoff
        What a gap is: a difference, or a ratio.
    """

    sound = True
    coupled = True

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
        self.lead: Counts = np.zeros(3, np.int64)
        self._compared = every_pair(groups, outcomes) if compared is None else compared
        self._payoff = payoff
        self.cleared = ~self._compared
        self._groups, self._outcomes = groups, outcomes
        self._threshold, self._delta, self._narrow = threshold, delta, narrow
        # Half of delta for each answer: at a gap of exactly the threshold both would be wrong.
        self._bar = math.log(2 / delta)
        self._fair_growth = payoff.against_at_least(threshold)
        self._unfair_growth = payoff.against_at_most(threshold)
        self._rounds = 0
        self._wealth = np.zeros((outcomes, groups, groups))
        self._lead_wealth: Floats = np.zeros(())

    def plan(self) -> Plan | None:
        """The groups that still matter, and the leader, from past counts."""
        if self.decision is not Decision.UNDECIDED:
            return None
        everybody = tuple(range(self._groups))
        rounds = next_batch(self._rounds, self._groups, self._outcomes, self._to_go())
        if not self._rounds:
            return Plan(rounds, everybody)
        leader = self.widest()
        return Plan(rounds, self._active(leader) if self._narrow else everybody, leader)

    def _active(self, leader: Leader) -> tuple[int, ...]:
        """Groups in a pair that may be the largest, if that is above the threshold; else in one not yet cleared."""
        i, j, outcome = leader
        gaps = self._payoff.gaps(self.tally)
        if gaps[outcome, i, j] > self._threshold:
            matter = gaps + FOCUS * self._payoff.errors(self.tally) >= gaps[outcome, i, j]
        else:
            matter = ~self.cleared
        matter = (matter & self._compared).any(axis=0)
        return tuple(np.flatnonzero(matter.any(axis=0) | matter.any(axis=1)).tolist())

    def observe(self, plan: Plan, tally: Tally) -> None:
        """Let the pairs and the leader play this batch."""
        self.tally += tally
        self._rounds += int(tally.asked.max())
        if plan.leader is not None:
            i, j, outcome = plan.leader
            self.lead = self.lead + self._payoff.cells(tally)[outcome, i, j]
        if self.decision is not Decision.UNDECIDED:
            return
        self._wealth = log_wealth(self._payoff.cells(self.tally), self._fair_growth)
        self._lead_wealth = log_wealth(self.lead, self._unfair_growth)
        self.cleared |= self._wealth >= self._bar
        if self._lead_wealth >= self._bar:
            self.decision = Decision.UNFAIR
        elif self.cleared.all():
            self.decision = Decision.FAIR

    def gap(self) -> tuple[float, float, float]:
        """The largest gap: the bounds hold together, at all times, with probability 1 - delta."""
        estimate = max(0.0, float(self._payoff.gaps(self.tally)[self._compared].max()))
        low = max(0.0, largest_below(self.lead, self._bar, self._payoff))
        return estimate, low, self._gap_above()

    def _gap_above(self) -> float:
        """The smallest c for which every pair refutes "gap >= c"; one bisection serves all pairs.

        A pair once cleared stays below the threshold: both claims fail only if the pair's own wealth at its true
        gap ever reaches the bar, so the guarantee is spent once.
        """
        cells, cleared = self._payoff.cells(self.tally)[self._compared], self.cleared[self._compared]
        return largest_above(cells, self._bar, cleared, self._threshold, self._payoff)

    def probabilities(self) -> tuple[Floats, Floats]:
        """All bounds hold together, at all times, with probability 1 - delta."""
        alpha = self._delta / (self._groups * self._outcomes)
        successes = self.tally.successes
        trials = np.broadcast_to(self.tally.trials, successes.shape)
        return probability_any_time(successes, trials, alpha)

    def rates(self) -> Floats:
        """The estimates that belong to `probabilities`."""
        return self.tally.rates

    def violators(self) -> list[Leader]:
        """Pairs that are each, and all together at delta, known to be above the threshold (union over pairs)."""
        bar = self._bar + math.log(int(self._compared.sum()))
        beaten = log_wealth(self._payoff.cells(self.tally), self._unfair_growth) >= bar
        return [(int(i), int(j), int(outcome)) for outcome, i, j in np.argwhere(beaten & self._compared)]

    @property
    def trials(self) -> Counts:
        """How often each group was asked."""
        return self.tally.trials

    def widest(self) -> Leader:
        """The pair and outcome with the largest gap so far."""
        return self._payoff.widest(self.tally, self._compared)

    def forecast(self) -> int | None:
        """Rounds until the verdict if the frequencies stay as they are."""
        rounds = self._to_go()
        return math.ceil(rounds) if math.isfinite(rounds) else None

    def _to_go(self) -> float:
        """Towards UNFAIR if the largest gap is above the threshold, else until the last pair is cleared."""
        if not self._rounds:
            return math.inf
        i, j, outcome = self.widest()
        every, asked = self._payoff.cells(self.tally), np.broadcast_to(self.tally.asked, self.cleared.shape)
        if self._payoff.gaps(self.tally)[outcome, i, j] > self._threshold:
            seen = every[outcome, i, j]
            return float(rounds_to_go(self._lead_wealth, seen, self._unfair_growth, self._bar, self.tally.asked[i, j]))
        waiting = ~self.cleared
        left = rounds_to_go(self._wealth[waiting], every[waiting], self._fair_growth, self._bar, asked[waiting])
        return float(left.max(initial=1))
