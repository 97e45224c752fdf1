"""What unsound variants do differently: rules that peek or choose with hindsight, and rounds that are counted again.

Nothing of this is in the package. A context manager exchanges a function of it for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from fairchain.spec import Comparison, Spec
from fairchain.spec.properties import limit_of
from fairchain.statistics import SHARE, BettingRule, Decision, Tally
from fairchain.statistics.e_values import log_wealth
from fairchain.statistics.payoff import Payoff, payoff_of
from fairchain.statistics.rules import BatchPlan
from fairchain.verification import sampler
from fairchain.verification import sampling as rounds
from fairchain.verification.sampler import Sampler

# Makes the context in which the program is broken.
Breaking = Callable[[], AbstractContextManager[Any]]

# The rounds that are counted again and again.
FEW = 32


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
    """Not sound: an interval of one standard error around the widest pair's gap is looked at after every batch."""

    def observe(self, plan: BatchPlan, tally: Tally) -> None:
        """Decide as soon as the interval excludes the threshold."""
        super().observe(plan, tally)
        i, j, outcome = self.widest()
        distance = self._bet.gaps(self.tally)[outcome, i, j] - self._limit
        error = self._bet.errors(self.tally)[outcome, i, j]
        self.decision = Decision.UNDECIDED
        if abs(distance) > error:
            self.decision = Decision.UNFAIR if distance > 0 else Decision.FAIR


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


@contextmanager
def same_rounds_again() -> Iterator[None]:
    """Count the first few rounds again in place of all later ones."""
    count = Sampler.count

    def again(self: Sampler, unit: Any) -> Any:
        return count(self, (0, *unit[1:]))

    with exchanged(sampler, "chunk_rounds", lambda _: FEW), exchanged(Sampler, "count", again):
        yield
