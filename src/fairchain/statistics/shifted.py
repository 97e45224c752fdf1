"""Verdicts over all populations within a factor (docs/mathematics-tables.md, "A verdict over shifts").

The largest gap of a pair within the factor is a monotone function of two rates or, if all groups shift alike, of the
probabilities that only one of two groups gets the outcome. So simultaneous bounds of these give bounds of the largest
gap, and the verdict follows from them. Exact rates are shifted as fractions in `masses`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.statistics.intervals import Floats, probability_any_time
from fairchain.statistics.payoff import bounds_of_gaps, gaps_of, payoff_of
from fairchain.statistics.rate_counts import RowsAnswer, decision_of
from fairchain.statistics.rules import OF_RATES, BatchPlan, Decision, Leader, RefiningRule, next_batch
from fairchain.statistics.shift import least_rate, most_rate
from fairchain.statistics.tally import Counts, Tally
from fairchain.statistics.unseen_rows import PROBABILITY_ROUNDING


@dataclass(frozen=True, eq=False)
class ShiftQuestion:
    """The question about the populations in which no input is more frequent, or rarer, than by a factor.

    With `alike` the individuals that all groups are shown shift; otherwise each group shifts separately. `compared` are
    the pairs, (outcomes, groups, groups), `measure` is "difference" or "ratio", and `limit` the largest fair gap.
    """

    factor: float
    alike: bool
    compared: NDArray[np.bool_]
    measure: str
    limit: float

    def of_rates(self, rates: Floats, low: Floats, high: Floats) -> ShiftedGaps:
        """Return the gaps if each group shifts separately, from (outcomes, groups): rates with bounds."""

        def gaps(more: Floats, less: Floats) -> Floats:
            return gaps_of(most_rate(more, self.factor), least_rate(less, self.factor), self.measure)

        return ShiftedGaps(self, gaps(rates, rates), gaps(low, high), gaps(high, low))

    def of_rounds(self, tally: Tally, delta: float, low_rates: Floats, high_rates: Floats) -> ShiftedGaps:
        """Return the gaps if all groups shift alike; jointly valid at all times, except with probability delta.

        Bounds of the rates, (outcomes, groups), hold in a separate event. A joint shift of all groups is a special case
        of separate shifts, and a gap of the assumed population is one of those within the factor.
        """
        used = self.compared | self.compared.swapaxes(1, 2)
        trials = np.broadcast_to(tally.joint, used.shape)
        low, high = probability_any_time(tally.only, trials, delta / int(used.sum()))

        def gaps(more: Floats, less: Floats) -> Floats:
            return most_rate(more, self.factor) - least_rate(less, self.factor).swapaxes(1, 2)

        share = tally.only / np.maximum(trials, 1)
        least = bounds_of_gaps(low_rates, high_rates, self.measure, upper=False)
        most = self.of_rates(low_rates, low_rates, high_rates).high
        return ShiftedGaps(
            self, gaps(share, share), np.maximum(gaps(low, high), least), np.minimum(gaps(high, low), most)
        )


@dataclass(frozen=True, eq=False)
class ShiftedGaps:
    """The largest gaps of all pairs within the factor, (outcomes, groups, groups): estimates and bounds."""

    question: ShiftQuestion
    estimates: Floats
    low: Floats
    high: Floats

    def largest(self) -> tuple[float, float, float]:
        """Return estimate, lower and upper bound of the largest gap of a compared pair."""
        floor = payoff_of(self.question.measure, self.question.compared).floor
        estimate, low, high = (
            max(floor, float(each[self.question.compared].max())) for each in (self.estimates, self.low, self.high)
        )
        return estimate, low, high

    @property
    def decision(self) -> Decision:
        """FAIR or UNFAIR if the whole interval is on one side of the limit."""
        _, low, high = self.largest()
        return decision_of(low - PROBABILITY_ROUNDING, high, self.question.limit)

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap; the first of equals."""
        gaps = np.where(self.question.compared, self.estimates, -np.inf)
        outcome, i, j = np.unravel_index(int(gaps.argmax()), gaps.shape)
        return int(i), int(j), int(outcome)

    def above(self) -> list[Leader]:
        """Return the compared pairs that are known, jointly, to be above the limit."""
        found = np.argwhere(self.question.compared & (self.low - PROBABILITY_ROUNDING > self.question.limit))
        return [(int(i), int(j), int(outcome)) for outcome, i, j in found]


class ShiftRule(RefiningRule):
    """The stopping rule for drawn inputs: all groups in every round, until the bounds exclude the threshold.

    The bounds are jointly valid at all times, so that the rule may stop at any time.
    """

    sound = True
    coupled = True

    def __init__(self, question: ShiftQuestion, delta: float) -> None:
        outcomes, groups, _ = question.compared.shape
        self.tally = Tally.empty(groups, outcomes)
        self._question, self._delta, self._groups, self._outcomes = question, delta, groups, outcomes
        self._compared, self._rounds, self.decision = question.compared, 0, Decision.UNDECIDED
        # If each group shifts separately, the gap has no other bounds than those of the rates.
        self._of_rates = OF_RATES if question.alike else 1.0
        self._gaps: ShiftedGaps | None = None

    def plan(self) -> BatchPlan | None:
        """Return a batch of all groups."""
        if self.decision is not Decision.UNDECIDED:
            return None
        return BatchPlan(next_batch(self._rounds, self._groups, self._outcomes), tuple(range(self._groups)))

    def observe(self, plan: BatchPlan, tally: Tally) -> None:
        """Add the counts of a batch."""
        del plan
        self.tally += tally
        self._rounds, self._gaps = int(self.tally.joint.max()), None
        if self.decision is Decision.UNDECIDED:
            self.decision = self._found.decision

    @property
    def _found(self) -> ShiftedGaps:
        """The gaps of the current counts."""
        if self._gaps is None:
            if self._question.alike:
                delta = (1 - OF_RATES) * self._delta
                self._gaps = self._question.of_rounds(self.tally, delta, *self.probabilities())
            else:
                self._gaps = self._question.of_rates(self.rates(), *self.probabilities())
        return self._gaps

    def gap(self) -> tuple[float, float, float]:
        """Return the largest gap within the factor: the bounds are valid at all times with probability 1 - delta.

        Values that they excluded at the decision remain excluded, and the estimate is clipped to the interval.
        """
        (estimate, low, high), limit = self._found.largest(), self._question.limit
        if self.decision is Decision.FAIR:
            low, high = min(low, limit), min(high, limit)
        elif self.decision is Decision.UNFAIR:
            low, high = max(low, limit), max(high, limit)
        return min(max(estimate, low), high), low, high

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap so far."""
        return self._found.widest()

    def violators(self) -> list[Leader]:
        """Return the pairs that are known, jointly, to be above the threshold."""
        return self._found.above()

    def forecast(self) -> int | None:
        """Return the approximate number of further rounds: widths fall as 1 / sqrt(rounds)."""
        estimate, low, high = self.gap()
        limit = self._question.limit
        width, distance = (
            (estimate - low, estimate - limit) if estimate > limit else (high - estimate, limit - estimate)
        )
        if not self._rounds or distance <= 0:
            return None
        return max(1, math.ceil(self._rounds * ((width / distance) ** 2 - 1)))


class ShiftedRows:
    """The answer about the populations within a factor of the one from which the rows of a table are a sample."""

    sound = True
    exact_gap = None

    def __init__(self, rows: RowsAnswer, question: ShiftQuestion) -> None:
        self._rows, self.delta = rows, rows.delta
        self._low, self._high = rows.all_rates(rows.delta)
        self._found = question.of_rates(rows.rates(), self._low, self._high)

    @property
    def decision(self) -> Decision:
        """FAIR or UNFAIR if the whole interval is on one side of the limit."""
        return self._found.decision

    @property
    def trials(self) -> Counts:
        """The number of rows of each subgroup."""
        return self._rows.trials

    def gap(self) -> tuple[float, float, float]:
        """Return estimate, lower and upper bound of the largest gap within the factor."""
        return self._found.largest()

    def ratio(self) -> None:
        """Return None: the estimate of a ratio follows from that of the gap."""
        return

    def probabilities(self) -> tuple[Floats, Floats]:
        """Return bounds of the rates, which hold together with probability 1 - delta."""
        return self._low, self._high

    def rates(self) -> Floats:
        """Return the counted rates."""
        return self._rows.rates()

    def widest(self) -> Leader:
        """Return the pair and outcome with the largest gap."""
        return self._found.widest()

    def violators(self) -> list[Leader]:
        """Return the pairs that are known, jointly, to be above the limit."""
        return self._found.above()

    def forecast(self) -> int | None:
        """Return None: the number of rows is not forecast."""
        return None
