"""The engine: what a formula says about every state of a chain, from its probabilities as they are.

What is certain or impossible is found on the graph first and is exactly 1 or 0; the rest solves linear equations.
Bounds are in `bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from fairchain.chain import Chain
from fairchain.pctl.equations import solve
from fairchain.pctl.formula import (
    Eventually,
    ExpectedSteps,
    Formula,
    Joined,
    Label,
    LongRun,
    Measure,
    Next,
    Not,
    Probability,
    Truth,
    Until,
    UntilForm,
)
from fairchain.pctl.graph import Floats, Indices, Mask, TransitionGraph
from fairchain.pctl.label_names import states_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# A number as near as this to the one it is compared with, relative to both ends of its range, counts as equal to it.
ROUNDING = 1e-10
# The same for a difference of two probabilities, which can be 0 in truth and not in floating point.
GAP_ROUNDING = 1e-12


def satisfies(values: Floats, formula: Measure) -> Mask:
    """Where the bound of a measure is kept; equal up to rounding counts as equal."""
    assert formula.bound is not None
    sign, edge = formula.bound.sign, formula.bound.value
    if isinstance(formula, Probability | LongRun):
        # At 0 and 1 there is no rounding: the graph decides what is certain.
        width = ROUNDING * min(edge, 1 - edge)
    else:
        width = ROUNDING * edge if isinstance(formula, ExpectedSteps) else GAP_ROUNDING
    near = np.abs(values - edge) <= width
    exactly = satisfies_exactly(values, formula)
    return near | exactly if "=" in sign else ~near & exactly


def satisfies_exactly(values: Floats, formula: Measure) -> Mask:
    """Where the bound of a measure is kept, without any allowance for rounding."""
    assert formula.bound is not None
    compare = {">=": np.greater_equal, "<=": np.less_equal, ">": np.greater, "<": np.less}[formula.bound.sign]
    kept: Mask = compare(values, formula.bound.value)
    return kept


def holds_in(chain: Chain, name: str) -> Mask:
    """(states,): which have a label, of the chain's own or one that every chain has."""
    mask = np.zeros(len(chain), bool)
    mask[list(states_of(chain, name))] = True
    return mask


def joined(sign: str, masks: list[Mask]) -> Mask:
    """Masks with one of the four signs between them."""
    if sign == "&":
        return reduce(np.logical_and, masks)
    if sign == "|":
        return reduce(np.logical_or, masks)
    if sign == "<=>":
        return reduce(np.equal, masks)
    return reduce(lambda after, before: ~before | after, masks[::-1])


@dataclass(frozen=True, eq=False)
class Points:
    """A chain ready to be asked: its possible transitions as a graph and as a matrix whose rows sum to 1."""

    chain: Chain
    graph: TransitionGraph
    matrix: csr_array
    # What was computed before: a formula may hold the same part many times.
    _known: dict[Formula, Mask] = field(default_factory=dict)

    @classmethod
    def of(cls, chain: Chain) -> Points:
        """Drop transitions of probability 0, and scale rows that a file has rounded."""
        from scipy.sparse import csr_array

        size = len(chain)
        sums = np.bincount(chain.sources, chain.probabilities, minlength=size)
        used = chain.probabilities > 0
        sources, targets = chain.sources[used], chain.targets[used]
        weights = chain.probabilities[used] / sums[sources]
        starts = np.searchsorted(sources, np.arange(size + 1))
        return cls(
            chain, TransitionGraph(size, sources, targets), csr_array((weights, targets, starts), shape=(size, size))
        )

    def holds(self, formula: Formula) -> Mask:
        """(states,): where a formula is true."""
        if formula not in self._known:
            self._known[formula] = self._holds(formula)
        return self._known[formula]

    def _holds(self, formula: Formula) -> Mask:
        if isinstance(formula, Truth):
            return np.full(self.graph.size, formula.value)
        if isinstance(formula, Label):
            return holds_in(self.chain, formula.name)
        if isinstance(formula, Not):
            return ~self.holds(formula.part)
        if isinstance(formula, Joined):
            return joined(formula.sign, [self.holds(part) for part in formula.joined])
        assert isinstance(formula, Measure)
        return satisfies(self.measure(formula), formula)

    def measure(self, formula: Measure) -> Floats:
        """(states,): the number that a measure stands for."""
        if isinstance(formula, LongRun):
            return self._long_run(self.holds(formula.part))
        if isinstance(formula, ExpectedSteps):
            return self.steps(self.holds(formula.target))
        assert isinstance(formula, Probability)
        path = formula.path
        if isinstance(path, Next):
            return self._share(self.matrix @ self._pair(self.holds(path.part)))
        assert isinstance(path, Eventually | Until)
        return self._until(path.until)

    def _until(self, until: UntilForm) -> Floats:
        left, right, window = self.holds(until.left), self.holds(until.right), until.window
        if window.high is None:
            values = self._unbounded(left, right)
            pair = np.stack([values, 1 - values], 1)
        else:
            pair = self._steps_back(self._pair(right), left & ~right, window.high - window.low)
        if window.low:
            pair[~left] = 0, 1
            pair = self._steps_back(pair, left, window.low)
        return self._share(pair[:, ::-1] if until.opposite else pair)

    @staticmethod
    def _pair(mask: Mask) -> Floats:
        return np.stack([mask, ~mask], 1).astype(float)

    @staticmethod
    def _share(pair: Floats) -> Floats:
        """The first of two probabilities; exactly 1 where the other, the opposite's, is exactly 0."""
        values: Floats = np.where(pair[:, 1] == 0, 1.0, np.minimum(pair[:, 0], 1.0))
        return values

    def _steps_back(self, pair: Floats, through: Mask, steps: int) -> Floats:
        """A probability and its opposite's, `steps` steps earlier in the states of `through`."""
        rows = self.matrix[through]
        for _ in range(steps):
            before = rows @ pair
            if np.array_equal(before, pair[through]):
                break
            pair[through] = before
        return pair

    def _unbounded(self, left: Mask, right: Mask) -> Floats:
        """P(left U right)."""
        through = left & ~right
        can = self.graph.back(right, through)
        sure = ~self.graph.back(~can, through)
        values = sure.astype(float)
        maybe = can & ~sure
        values[maybe] = np.clip(self._transient(maybe, values), np.nextafter(0, 1), np.nextafter(1, 0))
        return values

    def _transient(self, maybe: Mask, values: Floats, gain: float = 0.0) -> Floats:
        """Expected value where `maybe` is left, and `gain` for each step before; by linear equations."""
        rows = self.matrix[maybe]
        outside = rows[:, ~maybe]
        right = gain + outside @ values[~maybe]
        leaving = outside.sum(axis=1)
        return solve(rows[:, maybe], leaving, right)

    def steps(self, target: Mask) -> Floats:
        """Expected number of steps to the target, infinite where it may never be reached."""
        every = np.ones_like(target)
        can = self.graph.back(target, every)
        sure = ~self.graph.back(~can, ~target)
        values = np.where(sure, 0.0, np.inf)
        maybe = sure & ~target
        if maybe.any():
            rows = self.matrix[maybe]
            leaving = rows[:, target].sum(axis=1)
            values[maybe] = solve(rows[:, maybe], leaving, np.ones(int(maybe.sum())))
        return values

    def _long_run(self, part: Mask) -> Floats:
        count, number = self.graph.bottom()
        inside = number >= 0
        weight = self._stationary(number)
        total = np.bincount(number[inside], weight[inside], minlength=count)
        good = np.bincount(number[inside], (weight * part)[inside], minlength=count)
        missed = np.bincount(number[inside], (weight * ~part)[inside], minlength=count)
        share = np.where(missed == 0, 1.0, good / total)
        values = np.zeros(self.graph.size)
        values[inside] = share[number[inside]]
        return self._reached(values, inside)

    def _stationary(self, number: Indices) -> Floats:
        """How often each state of a bottom component is visited, relative to others of the same component."""
        inside = np.flatnonzero(number >= 0)
        first = np.zeros(self.graph.size, bool)
        first[inside[np.unique(number[inside], return_index=True)[1]]] = True
        weight = first.astype(float)
        rest = (number >= 0) & ~first
        if not rest.any():
            return weight
        rows = self.matrix[rest]
        entering = np.asarray(self.matrix[first][:, rest].sum(axis=0)).ravel()
        weight[rest] = solve(rows[:, rest], rows[:, first].sum(axis=1), entering, visits=True)
        return weight

    def _reached(self, values: Floats, known: Mask) -> Floats:
        """Expected value of the state of `known` that is reached; exact where only ones or only zeros can be."""
        through = ~known
        some = self.graph.back(known & (values > 0), through)
        not_all = self.graph.back(known & (values < 1), through)
        values = np.where(known, values, (some & ~not_all).astype(float))
        maybe = through & some & not_all
        values[maybe] = np.clip(self._transient(maybe, values), np.nextafter(0, 1), np.nextafter(1, 0))
        return values
