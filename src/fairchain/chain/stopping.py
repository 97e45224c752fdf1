"""The number of rounds for learning a chain: given, or until every transition is known within epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairchain.chain.build import column_bounds
from fairchain.chain.plan import ChainPlan
from fairchain.chain.trace_counter import TRACES_PER_CHUNK
from fairchain.chain.traces import Link, TraceCounts
from fairchain.errors import ChainError
from fairchain.messages import unknown
from fairchain.statistics.intervals import probability_any_time

ROUNDS = 20_000
MOST_ROUNDS = 10**9
StoppingRule = Literal["sound", "paper"]
LearningProgress = Callable[[int, int | None], None]
EPSILON_NOT_REACHED = (
    "epsilon: after {done:,} rounds some transition is not known within {epsilon:g}, because a state is rare; leave "
    "it out, divide it into other states, or use a larger epsilon"
)


@dataclass(frozen=True)
class LearningEffort:
    """The number of rounds, or the largest one with an epsilon; the stopping rule for epsilon; a progress callback."""

    rounds: int | None = None
    epsilon: float | None = None
    rule: StoppingRule = "sound"
    progress: LearningProgress | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None and not 1 <= self.rounds <= MOST_ROUNDS:
            raise ChainError(f"rounds: found {self.rounds}; give at least one and at most {MOST_ROUNDS:,}")
        if self.rule not in ("sound", "paper"):
            raise ChainError(unknown("rule", self.rule, ("sound", "paper")))
        if self.rule == "paper" and self.epsilon is None:
            raise ChainError('rule: "paper" is a stopping rule for epsilon; give epsilon, or leave the rule out')
        if self.epsilon is not None and not 0 < self.epsilon < 0.5:
            raise ChainError(f"epsilon: found {self.epsilon:g}; give a half width between 0 and 0.5")

    def spend(self, count: Callable[[int, int], TraceCounts], plan: ChainPlan) -> tuple[TraceCounts, int]:
        """Return counts of the needed rounds, and their number; `count` counts rounds from a chunk on."""
        if self.epsilon is None:
            wanted = self.rounds or ROUNDS
            return count(0, wanted), wanted
        most = self.rounds or MOST_ROUNDS
        counts = None
        done, chunk = 0, 0
        while done < most:
            batch = min(max(TRACES_PER_CHUNK, done // 4 // TRACES_PER_CHUNK * TRACES_PER_CHUNK), most - done)
            more = count(chunk, batch)
            counts = more if counts is None else counts + more
            done, chunk = done + batch, chunk + -(-batch // TRACES_PER_CHUNK)
            if self.progress is not None:
                self.progress(done, None)
            if enough(counts, plan, self.epsilon, self.rule):
                return counts, done
        raise ChainError(EPSILON_NOT_REACHED.format(done=done, epsilon=self.epsilon))


def enough(counts: TraceCounts, plan: ChainPlan, epsilon: float, rule: str) -> bool:
    """Return whether every visited state has been visited often enough, by the rule."""
    states = 1 + sum(plan.copies(column) * len(names) for column, names in enumerate(plan.columns) if column)
    needed = needed_by_paper(states + len(plan.groups), epsilon, plan.delta)
    for column, link in enumerate(counts.links):
        if plan.view == "folded" and column == 1 and rule == "sound":
            taken = link.dense(plan.copies(column))
            low, high = column_bounds(plan, column, taken, counts.moments)
            visits = taken.sum(axis=2, keepdims=True)
            rate = taken / np.maximum(visits, 1)
            if np.where(visits > 0, np.maximum(rate - low, high - rate), 0).max() > epsilon:
                return False
            continue
        seen, visits = _seen(link, pooled=plan.copies(column) == 1)
        if rule == "paper":
            # The largest |1/2 - n_pq/n_p| over all states q is always 1/2.
            if visits.min(initial=needed) < needed:
                return False
            continue
        # The widest intervals are near one half or of rarely visited states: they usually show that a run is not
        # finished, before all are computed.
        worst = np.argsort(visits / np.maximum(seen * (visits - seen), 1))[-64:]
        for part in (worst, slice(None)):
            low, high = probability_any_time(seen[part], visits[part], plan.delta / plan.possible)
            rate = seen[part] / visits[part]
            if np.maximum(rate - low, high - rate).max(initial=0) > epsilon:
                return False
    return True


def _seen(link: Link, *, pooled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the counts of the observed transitions, and the visits of their sources."""
    group, state, following = link.triples()
    source = state if pooled else group * link.width + state
    code, place = np.unique(source * link.next_width + following, return_inverse=True)
    seen = np.bincount(place, link.counts.astype(np.float64))
    _, at = np.unique(code // link.next_width, return_inverse=True)
    return seen, np.bincount(at, seen)[at]


def needed_by_paper(states: int, epsilon: float, delta: float) -> float:
    """Return the number of visits of a state that the paper's rule needs, in a chain of this many states."""
    half, level = epsilon / 2, -math.expm1(math.log1p(-delta) / 2)
    return 2 / half**2 * math.log(2 * states / level) * (0.25 - (0.5 - 2 * half / 3) ** 2)
