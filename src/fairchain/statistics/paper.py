"""The literature's stopping rule, unchanged, for comparison. IT IS NOT SOUND.

n_p >= H(n) must hold for every state p, with H(n) = 2/eps^2 ln(2m/delta) [1/4 - (max_q |1/2 - n_pq/n_p| - 2 eps/3)^2].
The maximum runs over all states q, including those never reached from p, so it is always 1/2 and H hardly depends on
the data; and the verdict compares an estimate with the threshold as if it were the truth (docs/mathematics.md).
"""

from __future__ import annotations

import math

import numpy as np

from fairchain.statistics.e_values import Floats
from fairchain.statistics.payoff import DIFFERENCE
from fairchain.statistics.rules import BatchPlan, Decision, Leader, TallyCounts, every_pair, next_batch
from fairchain.statistics.tally import Tally

# The accuracy on a difference that the paper uses throughout.
DEFAULT_EPSILON = 0.01


class PaperRule(TallyCounts):
    """The paper's rule: it stops at H(n) and compares the estimate with the threshold, without a guarantee."""

    sound = False
    coupled = False

    def __init__(self, groups: int, outcomes: int, threshold: float, delta: float, epsilon: float, labels: int) -> None:
        self.tally = Tally.empty(groups, outcomes)
        self.decision = Decision.UNDECIDED
        self._groups, self._outcomes, self._threshold = groups, outcomes, threshold
        # Algorithm 1, line 2: the accuracy for a difference is required of each probability.
        self._epsilon, self._delta = epsilon / 2, -math.expm1(math.log1p(-delta) / 2)
        self._states = 1 + groups + labels

    def needed(self) -> float:
        """Return H(n) for the group that needs most."""
        rates = self.tally.rates
        # A state that is never reached from a group has n_pq = 0, so |1/2 - n_pq/n_p| = 1/2 is always among these.
        farthest = np.maximum(np.abs(0.5 - rates), 0.5)
        bracket = 0.25 - (farthest - 2 * self._epsilon / 3) ** 2
        return float(2 / self._epsilon**2 * math.log(2 * self._states / self._delta) * bracket.max())

    def plan(self) -> BatchPlan | None:
        """Plan more rounds for every group until n_p >= H(n)."""
        if self.decision is not Decision.UNDECIDED:
            return None
        done = int(self.tally.trials.min())
        left = max(1, math.ceil(self.needed()) - done)
        return BatchPlan(min(left, next_batch(done, self._groups, self._outcomes)), tuple(range(self._groups)))

    def observe(self, plan: BatchPlan, tally: Tally) -> None:  # noqa: ARG002  # the rule has one kind of plan
        """Count; stop at H(n); compare."""
        self.tally += tally
        if self.tally.trials.min() >= self.needed():
            fair = self._estimate() <= self._threshold
            self.decision = Decision.FAIR if fair else Decision.UNFAIR

    def _estimate(self) -> float:
        rates = self.tally.rates
        return float((rates.max(axis=1) - rates.min(axis=1)).max())

    def gap(self) -> tuple[float, float, float]:
        """Return the estimate with the bounds that the paper claims."""
        estimate, claimed = self._estimate(), 2 * self._epsilon
        return estimate, max(0.0, estimate - claimed), estimate + claimed

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return the bounds that the paper claims."""
        rates = self.tally.rates
        return np.maximum(rates - self._epsilon, 0), np.minimum(rates + self._epsilon, 1)

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap so far."""
        return DIFFERENCE.widest(self.tally, every_pair(self._groups, self._outcomes))

    def violators(self) -> list[Leader]:
        """Return no pairs: nothing is known with a guarantee."""
        return []

    def forecast(self) -> int | None:
        """Return the remaining rounds until H(n)."""
        return max(1, math.ceil(self.needed()) - int(self.tally.trials.min()))
