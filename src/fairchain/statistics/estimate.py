"""Estimate mode: every probability and every gap is within epsilon, simultaneously, with probability 1 - delta.

Half of delta is for the gaps, whose betting intervals are valid at any time; the verdict follows from them. Half is for
the probabilities: a pilot plans a number of rounds, that many fresh rounds are drawn, and an exact Clopper-Pearson
interval at 80% of the share is computed. If it is too wide, 1.7 times as many fresh rounds are tried at 5%, then 2.5%,
and so on. The last 10% are for a run that is stopped early: its intervals are valid at any time.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.betting import pairs_above
from fairchain.statistics.e_values import PAIRS_AT_ONCE, Floats, distinct, reaches
from fairchain.statistics.intervals import clopper_pearson, largest_above, largest_below, probability_any_time
from fairchain.statistics.payoff import DIFFERENCE, bounds_of_gaps
from fairchain.statistics.rules import BatchPlan, Decision, Leader, TallyCounts, every_pair, next_batch
from fairchain.statistics.tally import Tally

PILOT = 1024
WANTED_GROWTH = 1.7
# The share of the intervals of a run that is stopped early. Both the tries and these intervals can fail, so both are
# paid for.
CUT_SHORT = 0.1


def share_of_try(number: int) -> float:
    """Return the share of the n-th try: 0.8, 0.05, 0.025, ...; with `CUT_SHORT` they sum to 1."""
    return 0.8 if number == 1 else 0.1 * 0.5 ** (number - 1)


class EstimateRule(TallyCounts):
    """The rule of estimate mode: it stops when every number is known within epsilon; the intervals decide."""

    sound = True
    coupled = True

    def __init__(
        self,
        groups: int,
        outcomes: int,
        threshold: float,
        delta: float,
        epsilon: float,
        *,
        compared: NDArray[np.bool_] | None = None,
    ) -> None:
        self.tally = Tally.empty(groups, outcomes)
        self._groups, self._outcomes = groups, outcomes
        self._threshold, self._epsilon = threshold, epsilon
        self._each = delta / 2 / (groups * outcomes)
        self._compared = every_pair(groups, outcomes) if compared is None else compared
        self._bar = math.log(2 * int(self._compared.sum())) - math.log(delta)
        self._phase = 0
        self._wanted = PILOT
        self._fresh = Tally.empty(groups, outcomes)
        self._known: tuple[Floats, Floats] | None = None
        self._gaps_known = False
        self._gap: tuple[Tally, tuple[float, float, float]] | None = None

    @property
    def decision(self) -> Decision:
        """The position of the interval of the largest gap: below the threshold, above it, or around it."""
        _, low, high = self.gap()
        if not self.tally.joint.any() or low <= self._threshold < high:
            return Decision.UNDECIDED
        return Decision.FAIR if high <= self._threshold else Decision.UNFAIR

    def plan(self) -> BatchPlan | None:
        """Plan the rest of the current try, in batches that can be stopped early; then more rounds for gaps."""
        if self._known is not None and self._gaps_known:
            return None
        rounds = next_batch(int(self.tally.joint.max()), self._groups, self._outcomes)
        if self._known is None:
            rounds = min(max(rounds, 64), self._wanted - int(self._fresh.joint.max()))
        return BatchPlan(rounds, tuple(range(self._groups)), phase=self._phase)

    def rounds_after(self, rounds: int) -> int:
        """Return the number of rounds planned after a batch of this size, within the current try."""
        left = self._wanted - int(self._fresh.joint.max()) - rounds
        return min(max(super().rounds_after(rounds), 64), max(left, 0))

    def observe(self, plan: BatchPlan, tally: Tally) -> None:  # noqa: ARG002  # every plan has all groups
        """Count, and at the end of a try check whether it was enough."""
        self.tally += tally
        if self._known is None:
            self._fresh += tally
            if int(self._fresh.joint.max()) >= self._wanted:
                self._finish_try()
        if self._known is not None:
            self._gaps_known = self._gaps_within_epsilon()

    def _finish_try(self) -> None:
        if self._phase:
            successes, centre = self._fresh.successes, self._fresh.rates
            trials = np.broadcast_to(self._fresh.trials, successes.shape)
            low, high = clopper_pearson(successes, trials, self._each * share_of_try(self._phase))
            if np.maximum(centre - low, high - centre).max() <= self._epsilon:
                self._known = low, high
                return
            self._wanted = math.ceil(self._wanted * WANTED_GROWTH)
        else:
            self._wanted = self._planned_rounds()
        self._phase += 1
        self._fresh = Tally.empty(self._groups, self._outcomes)

    def _planned_rounds(self) -> int:
        """Return enough rounds, with each probability moved two standard errors of the pilot towards one half.

        This is a normal approximation with its first correction; it errs upwards by less than 1% unless few are needed.
        """
        from statistics import NormalDist

        z = -NormalDist().inv_cdf(self._each * share_of_try(1) / 2)
        trials, rate = self._fresh.trials, self._fresh.rates
        slack = 2 * np.sqrt(np.maximum(rate * (1 - rate), 1 / trials) / trials)
        rate = 0.5 - np.maximum(np.abs(rate - 0.5) - slack, 0)
        spread = rate * (1 - rate) * (z / self._epsilon) ** 2
        return int(np.ceil(spread + ((z * z + 2) * (1 - 2 * rate) / 1.5 + 1) / self._epsilon).max())

    def _gaps_within_epsilon(self) -> bool:
        """Return whether every pair has refuted its own estimate plus epsilon: cheaper than the bounds of all.

        An estimate minus epsilon is that of the reversed pair plus epsilon.
        """
        for part, some in self.tally.parts():
            above = some.gaps + self._epsilon
            tested = self._compared[part] & (above < 1)
            if not tested.any():
                continue
            cells, place = distinct(some.cells[tested])
            gaps = np.empty(len(cells))
            gaps[place] = above[tested]
            for start in range(0, len(cells), PAIRS_AT_ONCE):
                those = slice(start, start + PAIRS_AT_ONCE)
                if not reaches(cells[those], DIFFERENCE.against_at_least(gaps[those]), self._bar).all():
                    return False
        return True

    def gap(self) -> tuple[float, float, float]:
        """Return the largest gap, from the simultaneous bounds of all pairs and of all rates."""
        if self._gap is None or self._gap[0] is not self.tally:
            below, above = (bounds_of_gaps(*self.probabilities(), DIFFERENCE.measure, upper=up) for up in (False, True))
            known = max(0.0, float(below[self._compared].max()))
            low = largest_below(self.tally, self._compared, self._bar, known=known)
            high = max(low, largest_above(self.tally, self._compared, self._bar, lambda part: above[part]))
            estimate = DIFFERENCE.gap(self.tally, self.widest())
            # The rates are those of the last try, so the gap of all rounds may be outside.
            self._gap = self.tally, (min(max(estimate, low), high), low, high)
        return self._gap[1]

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return exact bounds when done; if stopped early, bounds valid at any time, at their own share of delta."""
        if self._known is not None:
            return self._known
        successes = self.tally.successes
        trials = np.broadcast_to(self.tally.trials, successes.shape)
        return probability_any_time(successes, trials, self._each * CUT_SHORT)

    def rates(self) -> Floats:
        """Return the estimates that belong to `probabilities`: from the fresh rounds when done."""
        return self._fresh.rates if self._known is not None else self.tally.rates

    def violators(self) -> list[Leader]:
        """Return pairs whose own lower bound is above the threshold."""
        return pairs_above(self.tally, self._compared, DIFFERENCE, self._threshold, self._bar)

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap so far."""
        return DIFFERENCE.widest(self.tally, self._compared)

    def forecast(self) -> int | None:
        """Return the remaining rounds of the current try; later tries cannot be forecast."""
        return None if self._known is not None else self._wanted - int(self._fresh.joint.max())
