"""Our engine: evaluate a formula in every state of a chain, from its point estimates.

What is certain or impossible is found on the graph first and is exactly 1 or 0; the rest solves linear equations.
Bounds are in `interval_bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from fairchain.chain import Chain
from fairchain.pctl.equations import solve
from fairchain.pctl.evaluator import Evaluator
from fairchain.pctl.formula import ExpectedSteps, LongRun, Measure, Probability, UntilForm
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
class Points(Evaluator[Mask, Floats]):
    """A chain as a model: its possible transitions as a graph and as a matrix whose rows sum to 1."""

    chain: Chain
    graph: TransitionGraph
    matrix: csr_array

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

    def truth(self, value: bool) -> Mask:
        """(states,): everywhere or nowhere."""
        return np.full(self.graph.size, value)

    def label(self, name: str) -> Mask:
        """(states,): which have a label."""
        return holds_in(self.chain, name)

    def negated(self, part: Mask) -> Mask:
        """(states,): where a part does not hold."""
        return ~part

    def joined(self, sign: str, parts: list[Mask]) -> Mask:
        """(states,): where parts hold with a sign between them."""
        return joined(sign, parts)

    def compared(self, number: Floats, formula: Measure) -> Mask:
        """(states,): where the bound of a measure is kept."""
        return satisfies(number, formula)

    def next(self, part: Mask) -> Floats:
        """(states,): the probability of a part after one step."""
        return self._share(self.matrix @ self._pair(part))

    def until(self, left: Mask, right: Mask, until: UntilForm) -> Floats:
        """(states,): the probability of `left U right` in a window, or of its opposite."""
        window = until.window
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
        # Prob0 and Prob1: the states that never and those that surely reach the goal, from the graph alone.
        never = ~self.graph.back(right, through)
        surely = ~self.graph.back(never, through)
        values = surely.astype(float)
        maybe = ~never & ~surely
        values[maybe] = np.clip(self._transient(maybe, values), np.nextafter(0, 1), np.nextafter(1, 0))
        return values

    def _transient(self, maybe: Mask, values: Floats, gain: float = 0.0) -> Floats:
        """Expected value where `maybe` is left, and `gain` for each step before; by linear equations."""
        rows = self.matrix[maybe]
        outside = rows[:, ~maybe]
        right = gain + outside @ values[~maybe]
        leaving = outside.sum(axis=1)
        return solve(rows[:, maybe], leaving, right)

    def expected_steps(self, target: Mask) -> Floats:
        """(states,): the expected number of steps to the target, infinite where it may never be reached."""
        every = np.ones_like(target)
        never = ~self.graph.back(target, every)
        surely = ~self.graph.back(never, ~target)
        values = np.where(surely, 0.0, np.inf)
        maybe = surely & ~target
        if maybe.any():
            rows = self.matrix[maybe]
            leaving = rows[:, target].sum(axis=1)
            values[maybe] = solve(rows[:, maybe], leaving, np.ones(int(maybe.sum())))
        return values

    def long_run(self, part: Mask) -> Floats:
        """(states,): the share of time in a part: stationary shares of the bottom components, times reaching them."""
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
