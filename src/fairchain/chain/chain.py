"""A discrete-time Markov chain (DTMC) with labels, and with bounds and counts of its transitions.

A chain is data: states, labels, a sparse matrix of probabilities and, if it was learned, the counts behind them and
an interval for each. `learn` learns it from a network, `chain_of_traces` counts given traces, `formats` writes and
reads it, `fairchain.pctl` checks queries on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ChainError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
# Tolerance for the sum of a row's probabilities: files round them.
ROW_SUM_ERROR = 1e-6
PROBABILITIES_DO_NOT_SUM = 'the probabilities of state "{states}" sum to {sums:.9g}, not to 1'


@dataclass(frozen=True, eq=False)
class Chain:
    """A discrete-time Markov chain.

    The transitions are three arrays of equal length, sorted by source and then by target, without duplicates.

    Parameters
    ----------
    states
        A name for each state, all different.
    sources, targets, probabilities
        The transitions. Every state has at least one transition. The probabilities of each source sum to 1.
    labels
        For each label, such as `sex=Female` or `Y=>50K`, the states with this label.
    initial
        The index of the initial state.
    low, high
        Bounds of the transition probabilities, if they are known. All bounds hold simultaneously with probability at
        least 1 - delta.
    counts
        Number of observations of each transition, if the chain was learned.
    unvisited
        States that were never visited. Their transitions are placeholders. If the answer to a query depends on such
        states, the answer names these states.
    metadata
        Kind, estimator, delta, discretisers (rules that divide the values of a unit into states), fidelity and similar
        facts, as plain JSON values.
    """

    states: tuple[str, ...]
    sources: Indices
    targets: Indices
    probabilities: Floats
    labels: Mapping[str, frozenset[int]]
    initial: int = 0
    low: Floats | None = None
    high: Floats | None = None
    counts: NDArray[np.int64] | None = None
    unvisited: frozenset[int] = frozenset()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise a ChainError if this is not a Markov self."""
        size, count = len(self.states), len(self.sources)
        if not size:
            raise ChainError("a chain needs at least one state")
        if len(set(self.states)) != size:
            raise ChainError("two states have the same name")
        for name in ("targets", "probabilities", "low", "high", "counts"):
            array = getattr(self, name)
            if array is not None and len(array) != count:
                raise ChainError(f"{len(array)} {name} for {count} transitions")
        if count and not (
            min(self.sources.min(), self.targets.min()) >= 0 and max(self.sources.max(), self.targets.max()) < size
        ):
            raise ChainError("a transition leads from or to a state that does not exist")
        order = self.sources.astype(np.int64) * size + self.targets
        if (np.diff(order) <= 0).any():
            raise ChainError("transitions are not sorted, or one occurs twice")
        if not np.isfinite(self.probabilities).all() or (self.probabilities < 0).any():
            raise ChainError("a probability is negative or not a number")
        sums = np.bincount(self.sources, self.probabilities, minlength=size)
        wrong = np.flatnonzero(np.abs(sums - 1) > ROW_SUM_ERROR)
        if wrong.size:
            state = int(wrong[0])
            raise ChainError(PROBABILITIES_DO_NOT_SUM.format(states=self.states[state], sums=sums[state]))
        _check_bounds(self)
        if not 0 <= self.initial < size:
            raise ChainError("the initial state does not exist")
        for label, states in self.labels.items():
            if any(not 0 <= state < size for state in states):
                raise ChainError(f'label "{label}" names a state that does not exist')

    def __len__(self) -> int:
        return len(self.states)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and _comparable(self) == _comparable(other)

    __hash__ = None  # type: ignore[assignment]  # equal by content, and holds arrays

    @cached_property
    def matrix(self) -> csr_array:
        """The probabilities as a sparse matrix, (states, states)."""
        from scipy.sparse import csr_array

        size = len(self.states)
        return with_int_indices(csr_array((self.probabilities, self.targets, self.starts), shape=(size, size)))

    @cached_property
    def starts(self) -> Indices:
        """The row pointer of the matrix: the first transition of each state, and the number of all transitions."""
        starts: Indices = np.searchsorted(self.sources, np.arange(len(self.states) + 1)).astype(np.intp)
        return starts

    def index(self, state: str) -> int:
        """Return the index of a state."""
        if state not in self.states:
            raise ChainError(f'unknown state "{state}"')
        return self.states.index(state)

    def __repr__(self) -> str:
        return f"<Chain of {len(self.states):,} states and {len(self.sources):,} transitions>"

    def __str__(self) -> str:
        from fairchain.chain.display import chain_table

        return chain_table(self)

    def _repr_html_(self) -> str:
        from fairchain.chain.display import chain_html

        return chain_html(self)

    @property
    def has_intervals(self) -> bool:
        """Whether bounds of the transitions are known."""
        return self.low is not None and self.high is not None


def _check_bounds(chain: Chain) -> None:
    """Raise a ChainError for bounds that are not in order, or that exclude a frequency."""
    if (chain.low is None) != (chain.high is None):
        raise ChainError('"low" and "high" belong together, and one is missing')
    if chain.low is None or chain.high is None:
        return
    low, high, found = chain.low, chain.high, chain.probabilities
    checks = [
        ((low >= 0) & (low <= high) & (high <= 1 + ROW_SUM_ERROR), "are not two numbers in rising order from 0 to 1")
    ]
    # A smoothed estimate may lie outside the bounds of the counts.
    if chain.metadata.get("estimator") == "frequency":
        inside = (low <= found + ROW_SUM_ERROR) & (found <= high + ROW_SUM_ERROR)
        checks.append((inside, f"do not contain {found[np.argmin(inside)]:g}, its estimate"))
    for right, problem in checks:
        for place in np.flatnonzero(~right)[:1]:
            source, target = chain.states[chain.sources[place]], chain.states[chain.targets[place]]
            raise ChainError(f'the bounds [{low[place]:g}, {high[place]:g}] of "{source}" -> "{target}" {problem}')


def _comparable(chain: Chain) -> tuple[Any, ...]:
    arrays = (chain.sources, chain.targets, chain.probabilities, chain.low, chain.high, chain.counts)
    return (
        chain.states,
        *(None if array is None else array.tolist() for array in arrays),
        {label: states for label, states in chain.labels.items() if states},
        chain.initial,
        chain.unvisited,
        dict(chain.metadata),
    )


def with_int_indices(matrix: Any) -> Any:
    """Return a sparse matrix with C integers as indices, the only type that all solvers of scipy accept."""
    matrix.indices, matrix.indptr = (each.astype(np.intc, copy=False) for each in (matrix.indices, matrix.indptr))
    return matrix


def chain_of_traces(traces: Iterable[Sequence[str]]) -> Chain:
    """Return the chain of these traces by frequency; every state is a label of its own.

    All traces must start in the same state, and a state in which a trace ends must not occur inside one; other states
    may recur. The probability of reaching a last state equals the frequency of traces that ended there: at every other
    state inflow equals outflow, so visits divided by the number of traces solve the equations of reachability.

    >>> chain = chain_of_traces([["Start", "a", "a", "yes"], ["Start", "a", "no"]])
    >>> chain.states
    ('Start', 'a', 'yes', 'no')
    """
    pairs: Counter[tuple[str, str]] = Counter()
    ends: set[str] = set()
    starts: set[str] = set()
    for trace in traces:
        if len(trace) < 2:
            raise ChainError("a trace needs at least two states")
        starts.add(trace[0])
        ends.add(trace[-1])
        pairs.update(pairwise(trace))
    if len(starts) != 1:
        raise ChainError(
            "no traces" if not starts else f"traces start in {len(starts)} different states; add a first one"
        )
    inside = {first for first, _ in pairs}
    if ends & inside:
        raise ChainError(f'some traces end in "{min(ends & inside)}" and others continue from it; use two names')
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    number = {name: place for place, name in enumerate(names)}
    edges = {(number[one], number[two]): count for (one, two), count in pairs.items()}
    edges |= {(number[end], number[end]): 0 for end in ends}
    order = sorted(edges)
    sources, targets = np.array(order, np.intp).T
    counts = np.array([edges[edge] for edge in order], np.int64)
    visits = np.bincount(sources, counts, minlength=len(names))
    absorbing = visits[sources] == 0
    return Chain(
        states=tuple(names),
        sources=sources,
        targets=targets,
        probabilities=np.where(absorbing, 1.0, counts / np.maximum(visits[sources], 1)),
        labels={name: frozenset({place}) for name, place in number.items()},
        initial=number[starts.pop()],
        counts=counts,
        metadata={"kind": "traces", "estimator": "frequency"},
    )
