"""A chain from any traces, which may return to a state: sequences of state names, each from start to end.

In such a chain, the probability of reaching a last state equals the frequency of traces that ended there: at every
other state inflow equals outflow, so visits divided by the number of traces solve the equations of reachability.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from fairchain.chain.chain import Chain
from fairchain.errors import ChainError


def chain_of_traces(traces: Iterable[Sequence[str]]) -> Chain:
    """Return the chain of these traces by frequency; every state is a label of its own.

    All traces must start in the same state, and a state in which a trace ends must not occur inside one.

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
