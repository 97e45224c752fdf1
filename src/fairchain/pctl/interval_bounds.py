"""Bounds of an answer: the smallest and the largest value over all chains between the bounds of the transitions.

Formulas become three-valued: a state satisfies one surely, possibly, or not. Without better information, and in
unvisited states, a probability is between 0 and 1: bounds are sound first, then narrow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.pctl.equations import UnsolvedError
from fairchain.pctl.formula import Evaluator, Measure, UntilForm, Window
from fairchain.pctl.graph import Floats, Indices, Mask, TransitionGraph, components_of
from fairchain.pctl.interval_rows import CERTAIN, IntervalRows, difference, extreme_steps, extreme_value, sums
from fairchain.pctl.point_values import Points, holds_in, satisfies, satisfies_exactly

# Rounds of the iteration for long-run shares, fewer if there are many transitions, and the width at which it ends.
MOST_ITERATIONS = 3000
MOST_SHARED = 2e8
NARROW_ENOUGH = 1e-9


class Between(NamedTuple):
    """(states,) each: bounds of numbers, or the states in which a formula surely and possibly holds."""

    low: NDArray[Any]
    high: NDArray[Any]

    def __invert__(self) -> Between:
        return Between(~self.high, ~self.low)

    def __and__(self, other: Between) -> Between:
        return Between(self.low & other.low, self.high & other.high)

    def __or__(self, other: Between) -> Between:
        return Between(self.low | other.low, self.high | other.high)


class Bounds(Evaluator[Between, Between]):
    """Bounds of formulas over all chains between the bounds of the transitions.

    `possible` has the transitions that may exist, `sure` those that must, `unseen` are the unvisited states, whose rows
    are unknown.
    """

    def __init__(self, points: Points) -> None:
        self.points = points
        self.rows = rows = IntervalRows.of(points.chain)
        self.possible = TransitionGraph(rows.size, rows.sources, rows.targets)
        certain = rows.low > 0
        self.sure = TransitionGraph(rows.size, rows.sources[certain], rows.targets[certain])
        self.unseen = np.zeros(rows.size, bool)
        self.unseen[list(points.chain.unvisited)] = True

    def truth(self, value: bool) -> Between:
        """Return bounds of `true` or `false`."""
        return Between(*[np.full(self.rows.size, value)] * 2)

    def label(self, name: str) -> Between:
        """Return the states in which a label holds."""
        return Between(*[holds_in(self.points.chain, name)] * 2)

    def compared(self, number: Between, formula: Measure) -> Between:
        """Return the states in which a measure surely and possibly satisfies its bound."""
        return decided(number, formula)

    def long_run(self, part: Between) -> Between:
        """Return bounds of the long-run share of time in a part."""
        return Between(self._long_run(part.low), _rest(self._long_run((~part).low), largest=True))

    def expected_steps(self, target: Between) -> Between:
        """Return bounds of the expected number of steps to a target."""
        return Between(self._fewest(target.high), self._most(target.low))

    def next(self, part: Between) -> Between:
        """Return bounds of the probability that a part holds after one step."""
        low = self._before(part.low.astype(float), largest=False)
        high = self._before(part.high.astype(float), largest=True)
        return Between(low, high)

    def _before(self, values: Floats, *, largest: bool, rows: IntervalRows | None = None) -> Floats:
        """Return values in [0, 1] one step earlier, rounded outward; the extreme in unvisited states."""
        before = np.clip((rows or self.rows).outward(values, largest=largest), 0, 1)
        before[self.unseen] = float(largest)
        return before

    def until(self, left: Between, right: Between, until: UntilForm) -> Between:
        """Return bounds of the probability of `left U right` in a window, or of its complement."""
        low = self._one_side(left.low, right.low, until.window, largest=False)
        high = self._one_side(left.high, right.high, until.window, largest=True)
        if until.opposite:
            return Between(_rest(high, largest=False), _rest(low, largest=True))
        return Between(low, high)

    def _one_side(self, left: Mask, right: Mask, window: Window, *, largest: bool) -> Floats:
        through = left & ~right
        if window.high is None:
            values = self._most_likely(through, right) if largest else self._least_likely(through, right.astype(float))
        else:
            values = self._steps_back(right.astype(float), through, window.high - window.low, largest=largest)
        if window.low:
            values = self._steps_back(np.where(left, values, 0.0), left, window.low, largest=largest)
        return values

    def _steps_back(self, values: Floats, through: Mask, steps: int, *, largest: bool) -> Floats:
        rows = self.rows.only(through)
        for _ in range(steps):
            before = np.where(through, self._before(values, largest=largest, rows=rows), values)
            if np.array_equal(before, values):
                break
            values = before
        return values

    def _never_zero(self, goal: Mask, through: Mask) -> Mask:
        """Return the goal, and states of `through` that reach it with positive probability in all chains."""
        found = self.sure.back(goal, through)
        rows = self.rows
        while True:
            outside = ~found[rows.targets]
            elsewhere = sums(rows.sources[outside], rows.high[outside], rows.size)
            more = through & ~found & (elsewhere < 1 - CERTAIN)
            if not more.any():
                return found
            found = self.sure.back(found | more, through)

    def _least_likely(self, through: Mask, values: Floats) -> Floats:
        """Return lower bounds of the expected value, in [0, 1], when `through` is left; 0 for runs that stay in it."""
        through = through & ~self.unseen
        values = np.where(through, 0.0, values)
        positive = self._never_zero(~through & (values > 0), through)
        certain = ~self.possible.back((~through & (values < 1)) | (through & ~positive), through)
        values = np.where(through & certain, 1.0, values)
        return extreme_value(self.rows, through & positive & ~certain, values, largest=False)

    def _most_likely(self, through: Mask, goal: Mask) -> Floats:
        """Return upper bounds of the probability of reaching the goal through `through`."""
        known = goal | (through & self.unseen)
        through = through & ~self.unseen
        inside = through & self.possible.back(known, through)
        node, rows = _quotient(self.rows, self.sure, inside)
        values = np.zeros(rows.size)
        values[node[known]] = 1.0
        moving = np.zeros(rows.size, bool)
        moving[node[inside]] = True
        return extreme_value(rows, moving, values, largest=True)[node]

    def _most(self, target: Mask) -> Floats:
        """Return upper bounds of the expected number of steps."""
        through = ~target & ~self.unseen
        lost = (through & ~self._never_zero(target, through)) | (self.unseen & ~target)
        reach = self.possible.back(lost, through)
        values = np.where(reach, np.inf, 0.0)
        return extreme_steps(self.rows, through & ~reach, values, largest=True)

    def _fewest(self, target: Mask) -> Floats:
        """Return lower bounds of the expected number of steps."""
        if not target.any():
            return np.full(self.rows.size, np.inf)
        shortest = self.possible.distance(target | self.unseen)
        shortest[self.unseen & ~target] = 1.0
        shortest[~self._can_be_certain(target | self.unseen)] = np.inf
        # For each of these a finite number is possible: the point estimate shows it.
        try:
            guess = self.points.expected_steps(target)
        except UnsolvedError:
            return shortest
        inside = np.isfinite(guess) & ~target & ~self.unseen
        found = extreme_steps(self.rows, inside, np.where(inside, guess, shortest), largest=False)
        fewest: Floats = np.maximum(found, shortest)
        return fewest

    def _can_be_certain(self, goal: Mask) -> Mask:
        """Return the states that reach the goal with probability 1 in some chain between the bounds (Prob1E)."""
        rows, kept = self.rows, np.ones(self.rows.size, bool)
        while True:
            better = self.possible.back(goal, kept & rows.can_stay(kept[rows.targets]))
            # A state that surely reaches an excluded one is also excluded: all at once, not one in each iteration.
            better &= goal | ~self.sure.back(~better, ~goal)
            if np.array_equal(better, kept):
                return kept
            kept = better

    def _long_run(self, part: Mask) -> Floats:
        """Return lower bounds of the share of time in `part`, by the closed components and the chance to reach them.

        Within a component, for any h, the smallest change of (part + h) in one step, over the states, is a bound; h is
        improved by iteration. The rounding error of a change is subtracted.
        """
        count, number = self.possible.bottom(~self.unseen)
        inside = np.flatnonzero(number >= 0)
        rows = self.rows.only(number >= 0)
        first = inside[np.unique(number[inside], return_index=True)[1]]
        ahead = np.zeros(self.rows.size)
        share = np.zeros(count)
        rounds = min(MOST_ITERATIONS, int(MOST_SHARED / max(len(rows.sources), 1)))
        for _ in range(rounds if count else 0):
            change = part + rows.back(ahead, largest=False) - ahead
            least, most, scale = np.full(count, np.inf), np.full(count, -np.inf), np.ones(count)
            np.maximum.at(scale, number[inside], 1 + np.abs(ahead[inside]))
            np.minimum.at(least, number[inside], change[inside] - rows.noise[inside] * scale[number[inside]])
            np.maximum.at(most, number[inside], change[inside])
            share = np.maximum(share, least)
            if (most - least).max() <= NARROW_ENOUGH:
                break
            ahead[inside] += (change[inside] - change[first][number[inside]]) / 2
        # No rounding if all of a component is in `part`.
        whole = np.ones(count, bool)
        whole[number[inside[~part[inside]]]] = False
        values = np.zeros(self.rows.size)
        values[inside] = np.where(whole, 1.0, np.clip(share, 0, 1))[number[inside]]
        return self._least_likely(number < 0, values)


def _rest(values: Floats, *, largest: bool) -> Floats:
    """Return 1 minus a bound, rounded outward."""
    return difference(np.ones_like(values), values, largest=largest)


def decided(between: Between, formula: Measure) -> Between:
    """Return the states in which a measure surely satisfies its bound, and those in which it possibly does.

    Values that count as equal to the edge within the tolerance can make a formula possible but never sure: what is sure
    holds at both ends of the interval, with and without that tolerance.
    """
    ends = [test(end, formula) for end in between for test in (satisfies, satisfies_exactly)]
    return Between(np.logical_and.reduce(ends), np.logical_or.reduce(ends))


def _quotient(rows: IntervalRows, sure: TransitionGraph, inside: Mask) -> tuple[Indices, IntervalRows]:
    """Collapse each maximal end component to one node; return each state's node and the rows of the nodes.

    An adversary can stay in an end component until any exit: its node may choose among the exits freely.
    """
    trap = _end_components(rows, sure, inside)
    trapped = trap >= 0
    node = np.where(trapped, trap, 0)
    count = int(trap.max(initial=-1)) + 1
    node[~trapped] = count + np.arange(int((~trapped).sum()))
    sources, targets = node[rows.sources], node[rows.targets]
    within = trapped[rows.sources]
    used = inside[rows.sources] & (~within | (sources != targets))
    order = np.argsort(sources[used], kind="stable")
    low = np.where(within, 0.0, rows.low)[used][order]
    high = np.where(within, 1.0, rows.high)[used][order]
    size = count + int((~trapped).sum())
    return node, IntervalRows(size, sources[used][order], targets[used][order], low, high)


def _end_components(rows: IntervalRows, sure: TransitionGraph, inside: Mask) -> Indices:
    """Return the maximal end component of each state, -1 if none: a set that some chain never leaves."""
    staying = inside.copy()
    while True:
        # A state that surely reaches an excluded one is also excluded: all at once, not one in each iteration.
        staying &= ~sure.back(~staying, staying)
        both = staying[rows.sources] & staying[rows.targets]
        _, component = components_of(rows.size, rows.sources[both], rows.targets[both])
        kept = both & (component[rows.sources] == component[rows.targets])
        left = staying & ~rows.can_stay(kept)
        if not left.any():
            break
        staying &= ~left
    trap = np.full(rows.size, -1)
    trap[staying] = np.unique(component[staying], return_inverse=True)[1]
    return trap
