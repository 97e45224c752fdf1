"""Simulated networks whose gap is known exactly: rounds are drawn as counts of patterns, so that millions cost nothing.

Half of the groups (rounded down) have a lower rate, the others an upper one. A round is a pattern of yes and no
over the groups: a common part, in which one level or both get a yes, and a flip of each group for itself. The same
rates without a common part, every group by itself, make the stream that is not coupled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics import BatchPlan, BettingRule, Decision, Tally

# How often the upper level gets a yes together with the lower one, how often only the lower one does, and how often a
# group is decided otherwise than its level.
BOTH, CROSSED, FLIPPED = 0.3, 0.02, 0.02


@dataclass(frozen=True, eq=False)
class Stream:
    """Groups on two levels whose rates differ by exactly the gap; in one round alike, or each by itself."""

    groups: int
    gap: float
    coupled: bool = True

    @cached_property
    def levels(self) -> NDArray[np.int64]:
        """0 or 1 for each group."""
        return (np.arange(self.groups) >= self.groups // 2).astype(np.int64)

    @cached_property
    def patterns(self) -> NDArray[np.int64]:
        """(patterns, groups): every combination of answers."""
        return (np.arange(2**self.groups)[:, None] >> np.arange(self.groups)) & 1

    @cached_property
    def chances(self) -> NDArray[np.float64]:
        """The probability of each pattern."""
        if not self.coupled:
            rates = replace(self, coupled=True).rates
            apart: NDArray[np.float64] = np.where(self.patterns, rates, 1 - rates).prod(axis=1)
            return apart
        upper = self.gap / (1 - 2 * FLIPPED) + CROSSED
        common = {(1, 1): BOTH, (0, 1): upper, (1, 0): CROSSED, (0, 0): 1 - BOTH - upper - CROSSED}
        total = np.zeros(len(self.patterns))
        for levels, chance in common.items():
            agrees = self.patterns == np.array(levels)[self.levels]
            total += chance * np.where(agrees, 1 - FLIPPED, FLIPPED).prod(axis=1)
        return total

    @cached_property
    def rates(self) -> NDArray[np.float64]:
        """P(yes) of each group."""
        rates: NDArray[np.float64] = self.chances @ self.patterns
        return rates

    @property
    def differing(self) -> float:
        """How often two groups of different levels are decided differently in a round."""
        return float(self.chances @ (self.patterns[:, 0] != self.patterns[:, -1]))

    def tally(self, rng: np.random.Generator, rounds: int, active: tuple[int, ...]) -> Tally:
        """Return the counts of so many rounds of the active groups."""
        delta_text = self.patterns[:, active]
        drawn = rng.multinomial(rounds, self.chances)
        together = (delta_text * drawn[:, None]).T @ delta_text
        return Tally.of_batch(rounds, together[None], active, self.groups)

    def apart(self, rng: np.random.Generator, size: int) -> NDArray[np.int64]:
        """Return the successes among so many inputs of each group, drawn independently."""
        return rng.binomial(size, self.rates)


def decided(stream: Stream, threshold: float, delta: float, seed: int, most: int) -> tuple[str, int]:
    """Run fairchain's rule on the stream, for `most` rounds at most: return its decision and its evaluations."""
    rule, rng = BettingRule(stream.groups, 1, threshold, delta), np.random.default_rng(seed)
    rounds = evaluations = 0
    while rounds < most and (plan := rule.plan()) is not None:
        plan = BatchPlan(min(plan.rounds, most - rounds), plan.groups, plan.leader)
        rule.observe(plan, stream.tally(rng, plan.rounds, plan.groups))
        rounds += plan.rounds
        evaluations += plan.rounds * len(plan.groups)
    assert (rule.decision is Decision.UNDECIDED) == (rule.plan() is not None)
    return rule.decision.name, evaluations
