"""What unsound variants do differently: rules that peek or choose with hindsight, and rounds that are counted again.

Nothing of this is in the package. Each context manager exchanges exactly one function of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from statistics import NormalDist
from typing import Any

import numpy as np

from fairchain.spec import Comparison, Spec
from fairchain.spec.properties import limit_of
from fairchain.statistics import SHARE, BettingRule, Decision, Tally
from fairchain.statistics.e_values import log_wealth
from fairchain.statistics.payoff import Payoff, payoff_of
from fairchain.statistics.rules import BatchPlan
from fairchain.verification import sampling as rounds
from fairchain.verification.sampler import Sampler

# Makes the context in which the program is broken.
Breaking = Callable[[], AbstractContextManager[Any]]


@contextmanager
def exchanged(owner: Any, name: str, instead: Any) -> Iterator[None]:
    """Replace one attribute of a module or class for a while."""
    before = getattr(owner, name)
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, before)


def counted_often(owner: Any, name: str, doubled: int) -> Any:
    """Return a context in which every round of a function that counts them counts several times."""
    count = getattr(owner, name)

    def often(*arguments: Any) -> Any:
        counts = count(*arguments)
        for _ in range(doubled):
            counts = counts + counts
        return counts

    return exchanged(owner, name, often)


class _Exchanged(BettingRule):
    """The rule of a verdict, with another way of deciding."""

    def __init__(self, spec: Spec, comparison: Comparison) -> None:
        self._delta, self._limit = spec.guarantee.delta, float(limit_of(spec))
        self._pairs = comparison.compared
        self._bet: Payoff = payoff_of(comparison.measure, comparison.compared)
        if comparison.individual:
            self._bet, self._pairs = SHARE, np.triu(comparison.compared)
        groups, outcomes = len(comparison.counted), len(comparison.rows)
        super().__init__(groups, outcomes, self._limit, self._delta, compared=self._pairs, payoff=self._bet)


class Peeking(_Exchanged):
    """Not sound: a normal interval of the widest pair, for a sample of fixed size, is looked at after every batch."""

    def errors(self) -> float:
        """Return how many standard errors the interval has on each side."""
        return -NormalDist().inv_cdf(self._delta / 2)

    def observe(self, plan: BatchPlan, tally: Tally) -> None:
        """Decide as soon as the interval excludes the threshold."""
        super().observe(plan, tally)
        i, j, outcome = self.widest()
        distance = self._bet.gaps(self.tally)[outcome, i, j] - self._limit
        error = self._bet.errors(self.tally)[outcome, i, j]
        self.decision = Decision.UNDECIDED
        if abs(distance) > self.errors() * error:
            self.decision = Decision.UNFAIR if distance > 0 else Decision.FAIR


class Rash(Peeking):
    """Not sound either: the interval has one standard error on each side."""

    def errors(self) -> float:
        """Return one, whatever delta is."""
        return 1.0


class Hindsight(_Exchanged):
    """Not sound: the pair that bets on being unfair is chosen after its batch instead of before it."""

    _hindsight: Any = 0

    def observe(self, plan: BatchPlan, tally: Tally) -> None:
        """Let the pair that won most in this batch have bet on it."""
        super().observe(plan, tally)
        growth = self._bet.against_at_most(self._limit)
        cells = self._bet.cells(tally)
        won = np.where(self._pairs, log_wealth(cells, growth), -np.inf)
        self._hindsight = self._hindsight + cells[np.unravel_index(int(won.argmax()), won.shape)]
        if log_wealth(self._hindsight, growth) >= np.log(2 / self._delta):
            self.decision = Decision.UNFAIR


def stakes_of_a_share() -> Any:
    """Return a context in which differences are bet on with the stakes of a share, as if X were never -1.

    A round with X = -1 counts as one with X = 0.
    """
    against = Payoff.against_at_most
    return exchanged(Payoff, "against_at_most", lambda _, gap: against(SHARE, gap))


def deciding_by(rule: Callable[[Spec, Comparison], Any]) -> Any:
    """Return a context in which verdicts come from this rule."""
    return exchanged(rounds, "rule_for", rule)


def same_rounds_again() -> Any:
    """Return a context in which every batch begins with the rounds of the first one."""
    run = Sampler.run

    def again(sampler: Sampler, _first: int, *arguments: Any) -> Any:
        return run(sampler, 0, *arguments)

    return exchanged(Sampler, "run", again)
