"""The engine "own": evaluates a formula in every state of a chain, from its point estimates.

Probabilities of exactly 0 or 1 are found on the graph (Prob0, Prob1); the others solve linear equations. Bounds are in
`interval_bounds`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.pctl.equations import solve
from fairchain.pctl.formula import (
    Evaluator,
    ExpectedSteps,
    Formula,
    LongRun,
    Measure,
    Probability,
    UntilForm,
    beginning,
    labels_of,
    quoted_label,
)
from fairchain.pctl.graph import Floats, Mask, TransitionGraph

if TYPE_CHECKING:
    from scipy.sparse import csr_array


MOST_SHOWN_LABELS = 8
# Comparing a name with very many others takes long.
MOST_COMPARED = 5000
# Labels that every chain has, as in PRISM and Storm, unless it defines one with that name.
INITIAL = "init"
DEADLOCK = "deadlock"
NO_STATE_CHAIN = "unknown state {name}; {name2}"
# A number counts as equal to the one with which it is compared within this tolerance, relative to both ends of its
# range.
EQUAL_WITHIN = 1e-10
# The same for a difference of two probabilities, which can be truly 0 but not in floating point.
GAP_ROUNDING = 1e-12


def holds_in(chain: Chain, name: str) -> Mask:
    """Return (states,): whether each state has a label.

    "init" is the initial state. No state has "deadlock": rows sum to 1, so every state has a successor.
    """
    mask = np.zeros(len(chain), bool)
    mask[list(chain.labels.get(name, {chain.initial} if name == INITIAL else ()))] = True
    return mask


def check_labels(chain: Chain, formula: Formula) -> None:
    """Raise a QueryError for the first label that the chain does not have."""
    for label in labels_of(formula):
        if label.name not in chain.labels and label.name not in (INITIAL, DEADLOCK):
            raise no_label(chain, label.name, label.column)


def no_label(chain: Chain, name: str, column: int) -> QueryError:
    """Return the error for a label, or a pattern, that the chain does not have."""
    where = f"column {column}: " if column else ""
    return QueryError(f"{where}unknown label {quoted_label(beginning(name))}; {_suggestion(name, chain.labels)}")


def state_number(chain: Chain, name: str) -> int:
    """Return the number of a state, or raise a QueryError."""
    if name not in chain.states:
        raise QueryError(
            NO_STATE_CHAIN.format(name=quoted_label(beginning(name)), name2=_suggestion(name, chain.states))
        )
    return chain.index(name)


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = list(known)
    compared = names[:MOST_COMPARED]
    by_case = {other.lower(): other for other in compared}
    near = get_close_matches(beginning(name), compared, n=3) or [
        by_case[each] for each in [name.lower()] if each in by_case
    ]
    if near:
        return f"did you mean {' or '.join(map(quoted_label, near))}?"
    if not names:
        return "it has none"
    listed = ", ".join(quoted_label(beginning(other)) for other in names[:MOST_SHOWN_LABELS])
    return f"expected one of {listed}" + (
        f" and {len(names) - MOST_SHOWN_LABELS} more" if len(names) > MOST_SHOWN_LABELS else ""
    )


def satisfies(values: Floats, formula: Measure) -> Mask:
    """Return the states in which a measure satisfies its bound; equal up to rounding counts as equal."""
    assert formula.bound is not None
    sign, edge = formula.bound.sign, formula.bound.value
    if isinstance(formula, Probability | LongRun):
        # At 0 and 1 there is no rounding: the graph decides what is certain.
        width = EQUAL_WITHIN * min(edge, 1 - edge)
    else:
        width = EQUAL_WITHIN * edge if isinstance(formula, ExpectedSteps) else GAP_ROUNDING
    near = np.abs(values - edge) <= width
    exactly = satisfies_exactly(values, formula)
    return near | exactly if "=" in sign else ~near & exactly


def satisfies_exactly(values: Floats, formula: Measure) -> Mask:
    """Return the states in which a measure satisfies its bound, without any tolerance."""
    assert formula.bound is not None
    compare = {">=": np.greater_equal, "<=": np.less_equal, ">": np.greater, "<": np.less}[formula.bound.sign]
    kept: Mask = compare(values, formula.bound.value)
    return kept


class Points(Evaluator[Mask, Floats]):
    """A chain as a model: its possible transitions as a graph, and as a matrix whose rows sum to 1.

    Transitions of probability 0 are dropped, and rows that a file has rounded are scaled.
    """

    def __init__(self, chain: Chain) -> None:
        from scipy.sparse import csr_array

        size = len(chain)
        sums = np.bincount(chain.sources, chain.probabilities, minlength=size)
        used = chain.probabilities > 0
        sources, targets = chain.sources[used], chain.targets[used]
        weights = chain.probabilities[used] / sums[sources]
        starts = np.searchsorted(sources, np.arange(size + 1))
        self.chain = chain
        self.graph = TransitionGraph(size, sources, targets)
        self.matrix: csr_array = csr_array((weights, targets, starts), shape=(size, size))

    def truth(self, value: bool) -> Mask:
        """Return (states,): True everywhere or nowhere."""
        return np.full(self.graph.size, value)

    def label(self, name: str) -> Mask:
        """Return (states,): which have a label."""
        return holds_in(self.chain, name)

    def compared(self, number: Floats, formula: Measure) -> Mask:
        """Return (states,): whether a measure satisfies its bound."""
        return satisfies(number, formula)

    def next(self, part: Mask) -> Floats:
        """Return (states,): the probability that a part holds after one step."""
        return self._share(self.matrix @ self._pair(part))

    def until(self, left: Mask, right: Mask, until: UntilForm) -> Floats:
        """Return (states,): the probability of `left U right` in a window, or of its complement."""
        window = until.window
        if window.high is None:
            values = self._reached(right.astype(float), left & ~right)
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
        """Return the first of two probabilities; exactly 1 if the other, the complement's, is exactly 0."""
        values: Floats = np.where(pair[:, 1] == 0, 1.0, np.minimum(pair[:, 0], 1.0))
        return values

    def _steps_back(self, pair: Floats, through: Mask, steps: int) -> Floats:
        """Return a probability and its complement's, `steps` steps earlier in the states of `through`."""
        rows = self.matrix[through]
        for _ in range(steps):
            before = rows @ pair
            if np.array_equal(before, pair[through]):
                break
            pair[through] = before
        return pair

    def _reached(self, values: Floats, through: Mask) -> Floats:
        """Return the expected value of the reached state outside of `through`; 0 for runs that never leave it.

        Prob0 and Prob1, the states where it is exactly 0 or 1, follow from the graph; the others solve equations.
        """
        positive = self.graph.back(~through & (values > 0), through)
        below_one = self.graph.back((~through & (values < 1)) | ~positive, through)
        values = np.where(through, positive & ~below_one, values)
        maybe = through & positive & below_one
        rows = self.matrix[maybe]
        outside = rows[:, ~maybe]
        found = solve(rows[:, maybe], outside.sum(axis=1), outside @ values[~maybe])
        values[maybe] = np.clip(found, np.nextafter(0, 1), np.nextafter(1, 0))
        return values

    def expected_steps(self, target: Mask) -> Floats:
        """Return (states,): the expected number of steps to the target, infinite if it may never be reached."""
        every = np.ones_like(target)
        never = ~self.graph.back(target, every)
        surely = ~self.graph.back(never, ~target)
        values = np.where(surely, 0.0, np.inf)
        maybe = surely & ~target
        rows = self.matrix[maybe]
        values[maybe] = solve(rows[:, maybe], rows[:, target].sum(axis=1), np.ones(int(maybe.sum())))
        return values

    def long_run(self, part: Mask) -> Floats:
        """Return (states,): the long-run share of time in a part.

        It is the stationary share of each bottom component, times the probability of reaching it.
        """
        count, number = self.graph.bottom()
        inside = number >= 0
        # The visits of each state of a bottom component, relative to the first state of the same component.
        first = np.zeros(self.graph.size, bool)
        first[np.flatnonzero(inside)[np.unique(number[inside], return_index=True)[1]]] = True
        weight, rest = first.astype(float), inside & ~first
        rows = self.matrix[rest]
        entering = np.asarray(self.matrix[first][:, rest].sum(axis=0)).ravel()
        weight[rest] = solve(rows[:, rest], rows[:, first].sum(axis=1), entering, visits=True)
        total = np.bincount(number[inside], weight[inside], minlength=count)
        good = np.bincount(number[inside], (weight * part)[inside], minlength=count)
        missed = np.bincount(number[inside], (weight * ~part)[inside], minlength=count)
        share = np.where(missed == 0, 1.0, good / total)
        values = np.zeros(self.graph.size)
        values[inside] = share[number[inside]]
        return self._reached(values, ~inside)
