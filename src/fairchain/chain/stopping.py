"""When traces are enough: every transition out of every state within epsilon, all together.

The sound rule looks at bounds that hold at any time. The paper's takes its bound H(n) for each state, word for word,
and is not sound (docs/mathematics.md, "The paper's rule").
"""

from __future__ import annotations

import math

import numpy as np

from fairchain.chain.build import Plan
from fairchain.chain.traces import PathCounts
from fairchain.evidence.interval import probability_any_time


def enough(counts: PathCounts, plan: Plan, epsilon: float, rule: str) -> bool:
    """Whether every state that was ever seen has been seen often enough."""
    return _paper(counts, plan, epsilon) if rule == "paper" else _sound(counts, plan, epsilon)


def _transitions(counts: PathCounts, plan: Plan) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """For each link: how often each transition was seen, how often its source was, and how many are possible."""
    found = []
    for link in counts.links:
        group, state, following = link.triples()
        shared = plan.kind == "shared"
        # The group column has one state, whose group is the state.
        key = state if shared and link.width > 1 else group * link.width + state
        code, place = np.unique(key * link.next_width + following, return_inverse=True)
        seen = np.bincount(place, link.counts.astype(np.float64))
        _, at = np.unique(code // link.next_width, return_inverse=True)
        visits = np.bincount(at, seen)[at]
        groups = 1 if shared and link.width > 1 else len(plan.groups)
        found.append((seen, visits, groups * link.width * link.next_width))
    return found


def _sound(counts: PathCounts, plan: Plan, epsilon: float) -> bool:
    links = _transitions(counts, plan)
    alpha = plan.delta / sum(possible for *_, possible in links)
    for seen, visits, _ in links:
        # The widest are near one half or rarely visited: most are settled by these, before all are looked at.
        worst = np.argsort(visits / np.maximum(seen * (visits - seen), 1))[-64:]
        for part in (worst, slice(None)):
            low, high = probability_any_time(seen[part], visits[part], alpha)
            rate = seen[part] / visits[part]
            if np.maximum(rate - low, high - rate).max() > epsilon:
                return False
    return True


def _paper(counts: PathCounts, plan: Plan, epsilon: float) -> bool:
    """n_p >= H(n) for every state p that was seen, with the largest |1/2 - n_pq/n_p| over all states q: always 1/2."""
    states = 1 + len(plan.groups) + len(plan.labels)
    states += sum(len(column.names) * (len(plan.groups) if plan.kind == "product" else 1) for column in plan.columns)
    needed = needed_by_paper(states, epsilon, plan.delta)
    return all(visits.min() >= needed for _, visits, _ in _transitions(counts, plan))


def needed_by_paper(states: int, epsilon: float, delta: float) -> float:
    """How often a state must be seen by the paper's rule, in a chain of so many states."""
    half, level = epsilon / 2, -math.expm1(math.log1p(-delta) / 2)
    return 2 / half**2 * math.log(2 * states / level) * (0.25 - (0.5 - 2 * half / 3) ** 2)
