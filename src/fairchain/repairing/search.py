"""The search: generations of candidates tried on the same data, and the front of those that nothing else beats.

What is found here is a proposal. Whether it is fair is decided elsewhere, on data that nothing here has seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fairchain.models.edit.weights import Weights
from fairchain.repairing.evaluation import CandidateTrial, Score
from fairchain.repairing.optimizers import make_optimizer
from fairchain.repairing.parameters import Parameters, Point
from fairchain.repairing.result import RepairProgress

Each = TypeVar("Each")
# Generations without a better candidate after which a search ends, and what counts as better.
PATIENCE = 10
BETTER = 1e-4
# Numbers that are put back one by one in the end; more of them would take longer than the search.
MOST_PUT_BACK = 150
# The paper's weight of accuracy against the gap.
ALPHA = 0.1
# Part of the limit that is kept free, so that the verdict need not be a close one.
MARGIN = 0.12
STEP = 0.2


@dataclass(frozen=True)
class Tried:
    """One candidate: where it lies, what it came to, and the size of its change relative to all weights."""

    point: Point
    score: Score
    change: float


@dataclass(frozen=True)
class Aim:
    """What is looked for.

    `limit` is the largest fair gap. Without a `floor` the most accurate candidate that is fair is the best; with one
    it is the fairest that keeps this accuracy. `paper` takes the paper's sum of both instead.
    """

    limit: float
    floor: float | None = None
    paper: bool = False

    def fitness(self, tried: Tried) -> float:
        """Less is better. The smaller change wins among equals."""
        gap, accuracy = tried.score.gap, tried.score.prudent
        if self.paper:
            return gap + ALPHA * (1 - tried.score.accuracy)
        small = 0.01 * tried.change
        if self.floor is not None:
            return gap / self.limit + 50 * max(0.0, self.floor - accuracy) + small
        return (1 - accuracy) + max(0.0, gap / self.limit - (1 - MARGIN)) + small

    def reached(self, tried: Tried) -> bool:
        """Whether a candidate is fair with a margin."""
        return tried.score.gap <= (1 - MARGIN) * self.limit


@dataclass(frozen=True)
class Found:
    """Everything that was tried, and how the search ended."""

    tried: tuple[Tried, ...]
    iterations: int
    stopped: str


class Searcher:
    """Tries candidates and remembers all of them.

    Parameters
    ----------
    trial, knobs, weights
        What candidates are tried on, what may change, and the weights of the network.
    aim
        What is looked for.
    pool
        Threads that try several candidates at once; the result does not depend on them.
    progress
        Called after each generation.
    """

    def __init__(
        self,
        trial: CandidateTrial,
        knobs: Parameters,
        weights: Weights,
        aim: Aim,
        pool: ThreadPoolExecutor | None = None,
        progress: Callable[[RepairProgress], None] | None = None,
    ) -> None:
        self._trial, self._knobs, self._aim = trial, knobs, aim
        self._pool, self._progress = pool, progress
        self._base = weights.values
        self._length = float(np.sqrt(sum(np.square(v, dtype=np.float64).sum() for v in self._base.values()))) or 1.0
        self.tried: list[Tried] = []
        self.iterations = 0
        self._start = time.perf_counter()

    def run(self, optimizer: str, iterations: int, seed: int) -> Found:
        """Search until nothing better turns up, Ctrl-C, or the last iteration."""
        try:
            stopped = self._run(optimizer, iterations, seed)
            if optimizer != "pso":
                self._simplify()
        except KeyboardInterrupt:
            if not self.tried:
                raise
            stopped = "interrupted"
        return Found(tuple(self.tried), self.iterations, stopped)

    def _run(self, optimizer: str, iterations: int, seed: int) -> str:
        unchanged = np.zeros(len(self._knobs.names))
        first = [unchanged] if optimizer == "pso" else [unchanged, *self._knobs.starts()]
        self._try(first)
        start = unchanged if optimizer == "pso" else self._best().point
        search = make_optimizer(optimizer, start, STEP, seed)
        best, waited = self._aim.fitness(self._best()), 0
        while self.iterations < iterations:
            if optimizer == "pso" and self._aim.reached(self._best()):
                return "fair"
            points = search.ask()
            fitness = np.array([self._aim.fitness(each) for each in self._try(list(points))])
            search.tell(points, fitness)
            self.iterations += 1
            self._report(iterations)
            waited = 0 if fitness.min() < best - BETTER else waited + 1
            best = min(best, float(fitness.min()))
            if waited >= PATIENCE:
                return "no progress"
        return "iterations"

    def _simplify(self) -> None:
        """Put every number of the best candidate back that makes no difference beyond luck, the smallest first."""
        best = self._best()
        if np.count_nonzero(best.point) > MOST_PUT_BACK:
            return
        allowed = self._aim.fitness(best) + max(BETTER, best.score.error) / 2
        for place in np.argsort(np.abs(best.point), kind="stable"):
            if best.point[place]:
                point = best.point.copy()
                point[place] = 0.0
                (simpler,) = self._try([point])
                if self._aim.fitness(simpler) <= allowed:
                    best = simpler

    def _try(self, points: Sequence[Point]) -> list[Tried]:
        found = list((self._pool.map if self._pool else map)(self._tried, points))
        self.tried += found
        return found

    def _tried(self, point: Point) -> Tried:
        weights = self._knobs.weights(point)
        moved = sum(np.square(v - self._base[name], dtype=np.float64).sum() for name, v in weights.items())
        return Tried(point, self._trial.score(weights), float(np.sqrt(moved)) / self._length)

    def _best(self) -> Tried:
        return min(self.tried, key=self._aim.fitness)

    def _report(self, iterations: int) -> None:
        if self._progress is not None:
            best = self._best().score
            seconds = time.perf_counter() - self._start
            self._progress(
                RepairProgress(self.iterations, iterations, len(self.tried), best.gap, best.accuracy, seconds)
            )


def front_of(tried: Sequence[Tried]) -> list[Tried]:
    """The candidates that no other beats in gap and (prudent) accuracy both, by rising gap; smaller changes first."""
    ordered = sorted(tried, key=lambda each: (each.score.gap, -each.score.prudent, each.change))
    front: list[Tried] = []
    for each in ordered:
        if not front or each.score.prudent > front[-1].score.prudent:
            front.append(each)
    return front


def spread(front: Sequence[Each], most: int) -> list[Each]:
    """At most so many of a front, evenly."""
    if len(front) <= most:
        return list(front)
    places = np.unique(np.linspace(0, len(front) - 1, most).round().astype(int))
    return [front[place] for place in places]
