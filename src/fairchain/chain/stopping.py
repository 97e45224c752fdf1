"""How many rounds a chain is learned from: so many, or as many as make every transition known within epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from fairchain.chain.build import ChainPlan
from fairchain.chain.trace_counter import CHUNK
from fairchain.chain.traces import PathCounts
from fairchain.errors import ChainError
from fairchain.statistics.intervals import probability_any_time

ROUNDS = 20_000
MOST_ROUNDS = 10**9
Rule = Literal["sound", "paper"]
Progress = Callable[[int, int | None], None]
# Counts of traces of any kind: they add.
Counts = TypeVar("Counts", bound=Any)


@dataclass(frozen=True)
class LearningEffort:
    """Rounds, or the most of them if there is an epsilon; the rule that says when it is reached; who is told."""

    rounds: int | None = None
    epsilon: float | None = None
    rule: Rule = "sound"
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None and not 1 <= self.rounds <= MOST_ROUNDS:
            raise ChainError(f"rounds: found {self.rounds}; give at least one and at most {MOST_ROUNDS:,}")
        if self.rule not in ("sound", "paper"):
            raise ChainError(f'unknown rule "{self.rule}"; expected "sound" or "paper"')
        if self.rule == "paper" and self.epsilon is None:
            raise ChainError('rule: the "paper"\'s says when epsilon is reached; give epsilon, or leave the rule out')
        if self.epsilon is not None and not 0 < self.epsilon < 0.5:
            raise ChainError(f"epsilon: found {self.epsilon:g}; give a half width between 0 and 0.5")

    def spend(
        self, count: Callable[[int, int], Counts], enough: Callable[[Counts, float, Rule], bool]
    ) -> tuple[Counts, int]:
        """Counts of as many rounds as it takes, and how many those were.

        Parameters
        ----------
        count
            Counts so many rounds from a chunk on.
        enough
            Whether counts are enough for epsilon by a rule.
        """
        if self.epsilon is None:
            wanted = self.rounds or ROUNDS
            return count(0, wanted), wanted
        most = self.rounds or MOST_ROUNDS
        counts: Any = None
        done, chunk = 0, 0
        while done < most:
            batch = min(max(CHUNK, done // 4 // CHUNK * CHUNK), most - done)
            more = count(chunk, batch)
            counts = more if counts is None else counts + more
            done, chunk = done + batch, chunk + -(-batch // CHUNK)
            if self.progress is not None:
                self.progress(done, None)
            if enough(counts, self.epsilon, self.rule):
                return counts, done
        raise ChainError(
            f"epsilon: {done:,} rounds do not make every transition known within {self.epsilon:g}; a state is too "
            "rare: leave it out, divide it otherwise, or ask for a larger epsilon"
        )


def enough(counts: PathCounts, plan: ChainPlan, epsilon: float, rule: str) -> bool:
    """Whether every state that was ever seen has been seen often enough."""
    return _paper(counts, plan, epsilon) if rule == "paper" else _sound(counts, plan, epsilon)


def _transitions(counts: PathCounts, plan: ChainPlan) -> list[tuple[np.ndarray, np.ndarray, int]]:
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


def _sound(counts: PathCounts, plan: ChainPlan, epsilon: float) -> bool:
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


def _paper(counts: PathCounts, plan: ChainPlan, epsilon: float) -> bool:
    """n_p >= H(n) for every state p that was seen, with the largest |1/2 - n_pq/n_p| over all states q: always 1/2."""
    states = 1 + len(plan.groups) + len(plan.labels)
    states += sum(len(column.names) * (len(plan.groups) if plan.kind == "product" else 1) for column in plan.columns)
    needed = needed_by_paper(states, epsilon, plan.delta)
    return all(visits.min() >= needed for _, visits, _ in _transitions(counts, plan))


def needed_by_paper(states: int, epsilon: float, delta: float) -> float:
    """How often a state must be seen by the paper's rule, in a chain of so many states."""
    half, level = epsilon / 2, -math.expm1(math.log1p(-delta) / 2)
    return 2 / half**2 * math.log(2 * states / level) * (0.25 - (0.5 - 2 * half / 3) ** 2)
