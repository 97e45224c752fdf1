"""The search: generations of candidates evaluated on the same data, and the Pareto front of gap and accuracy.

Every candidate is evaluated on the same coupled rounds and the same labelled rows, so differences between candidates
are not due to different draws. The result is a proposal: its fairness is decided elsewhere, on other data.

Optimisers need no derivatives: `ask` returns a whole generation of vectors in [-1, 1], where 0 means no change, `tell`
takes their fitness, which is minimised; each uses one seed. `Swarm` is the paper's; `Evolution` is a covariance matrix
adaptation that needs no further package.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.executors import Workers
from fairchain.models.edit.candidates import Tunable
from fairchain.models.edit.weights import WeightArray
from fairchain.repairing.parameters import Parameters, Point
from fairchain.repairing.repair_data import LabelArray, LabelledRows, SearchInputs
from fairchain.repairing.result import RepairProgress
from fairchain.repairing.thresholds import ThresholdDecisions

Points = NDArray[np.float64]
OPTIMIZERS = ("evolution", "pso")
# Largest dimension for which the evolution learns the full covariance; above it, only the variances.
MOST_TOGETHER = 200
Each = TypeVar("Each")
# The fraction of the decisions other than the most frequent one that a repair must keep.
VARIETY = 0.1
# Generations without improvement after which a search ends, and the smallest improvement that counts.
MOST_IDLE_GENERATIONS = 10
BETTER_BY = 1e-4
# Largest number of parameters that are reset one by one at the end; with more, this would take longer than the search.
MOST_RESET = 150
# The paper's weight of accuracy against the gap.
ALPHA = 0.1
# Fraction of the limit that is kept as a margin.
MARGIN = 0.12
STEP = 0.2
UNDECIDED_INPUT = "{name}: has no decision for some input; verify it before it is repaired"


class Swarm:
    """Particle swarm with inertia (the paper's appendix A.7).

    Every particle starts at the unchanged network, as in the paper. With the paper's initial velocity of zero no
    particle would ever leave it, so all but the first start with a random velocity.
    """

    def __init__(self, start: Points, seed: int, particles: int = 20) -> None:
        self._random = np.random.Generator(np.random.Philox(seed))
        self._places = np.repeat(start[None], particles, axis=0)
        self._speeds = self._random.uniform(-1, 1, self._places.shape)
        self._speeds[0] = 0.0
        self._own, self._own_fitness = self._places.copy(), np.full(particles, np.inf)
        self._best = start.copy()
        self._moved = False

    def ask(self) -> Points:
        """Return the positions of the particles; the first time, all but the first have made one step."""
        if not self._moved:
            self._moved = True
            self._places = np.clip(self._places + self._speeds, -1, 1)
        return self._places.copy()

    def tell(self, points: Points, fitness: Points) -> None:
        """Keep the best positions, and move."""
        better = fitness < self._own_fitness
        self._own[better], self._own_fitness[better] = points[better], fitness[better]
        self._best = self._own[int(self._own_fitness.argmin())]
        shape = self._places.shape
        # Constants for which a swarm neither stalls nor diverges (Clerc and Kennedy's constriction).
        self._speeds = (
            0.729 * self._speeds
            + self._random.uniform(0, 1.494, shape) * (self._own - self._places)
            + self._random.uniform(0, 1.494, shape) * (self._best - self._places)
        )
        self._places = np.clip(self._places + self._speeds, -1, 1)


class Evolution:
    """Covariance matrix adaptation: a normal distribution that follows the better half of each generation."""

    def __init__(self, start: Points, step: float, seed: int) -> None:
        n = len(start)
        self._random = np.random.Generator(np.random.Philox(seed))
        self._mean, self._step = start.astype(float), step
        self.size = max(12, 4 + int(3 * np.log(n)))
        parents = self.size // 2
        weights = np.log(self.size / 2 + 0.5) - np.log(np.arange(1, parents + 1))
        self._weights = weights / weights.sum()
        # The standard constants of the method, from the dimension and the effective number of parents.
        self._parents = 1 / (self._weights**2).sum()
        m = self._parents
        self._path_rate = (4 + m / n) / (n + 4 + 2 * m / n)
        self._step_rate = (m + 2) / (n + m + 5)
        self._apart = n > MOST_TOGETHER
        faster = (n + 2) / 3 if self._apart else 1.0
        self._one = faster * 2 / ((n + 1.3) ** 2 + m)
        self._many = min(1 - self._one, faster * 2 * (m - 2 + 1 / m) / ((n + 2) ** 2 + m))
        self._damping = 1 + 2 * max(0.0, np.sqrt((m - 1) / (n + 1)) - 1) + self._step_rate
        self._length = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self._path, self._step_path = np.zeros(n), np.zeros(n)
        self._covariance: Points = np.ones(n) if self._apart else np.eye(n)
        self._axes, self._spread = np.eye(0 if self._apart else n), np.ones(n)

    def ask(self) -> Points:
        """Draw a generation, clipped to the bounds."""
        drawn = self._random.standard_normal((self.size, len(self._mean)))
        spread = drawn * self._spread
        return np.clip(self._mean + self._step * (spread if self._apart else spread @ self._axes.T), -1, 1)

    def tell(self, points: Points, fitness: Points) -> None:
        """Move mean, step and covariance towards the better half."""
        best = points[np.argsort(fitness, kind="stable")[: len(self._weights)]]
        moves = (best - self._mean) / self._step
        move = self._weights @ moves
        self._mean = self._mean + self._step * move
        whitened = move / self._spread if self._apart else self._axes @ ((self._axes.T @ move) / self._spread)
        rate, path_rate = self._step_rate, self._path_rate
        self._step_path = (1 - rate) * self._step_path + np.sqrt(rate * (2 - rate) * self._parents) * whitened
        length = float(np.linalg.norm(self._step_path))
        # A long step path is about to raise the step size; the covariance should not grow in addition.
        steady = length < (1.4 + 2 / (len(move) + 1)) * self._length * np.sqrt(1 - (1 - rate) ** 20)
        grown = np.sqrt(path_rate * (2 - path_rate) * self._parents) * move if steady else 0.0
        self._path = (1 - path_rate) * self._path + grown
        along: Points = self._path**2 if self._apart else np.outer(self._path, self._path)
        across: Points = self._weights @ moves**2 if self._apart else (moves.T * self._weights) @ moves
        kept = 1 - self._one - self._many
        self._covariance = kept * self._covariance + self._one * along + self._many * across
        self._step = float(np.clip(self._step * np.exp(rate / self._damping * (length / self._length - 1)), 1e-6, 1.0))
        values = self._covariance
        if not self._apart:
            values, self._axes = np.linalg.eigh((self._covariance + self._covariance.T) / 2)
        self._spread = np.sqrt(np.maximum(values, 1e-20))


def make_optimizer(name: str, start: Points, step: float, seed: int) -> Swarm | Evolution:
    """Return the optimiser with this name, one of `OPTIMIZERS`, which starts near `start`."""
    return Swarm(start, seed) if name == "pso" else Evolution(start, step, seed)


@dataclass(frozen=True)
class Score:
    """The largest gap of a candidate, and the share of rows that it classifies correctly (or decides as before).

    `error` is one standard error of the change of accuracy, to which only rows with a changed decision contribute.
    """

    gap: float
    accuracy: float
    error: float = 0.0

    @property
    def prudent(self) -> float:
        """Accuracy minus its error: a candidate does not win by changing many decisions to gain a few rows."""
        return self.accuracy - self.error


# The score of a candidate with an output that is not a decision, or with the same decision for (almost) every input.
WORST_SCORE = Score(1.0, 0.0)


def usual_share(labels: LabelArray) -> float:
    """Return the share of the most frequent decision."""
    return float(np.bincount(labels).max() / len(labels))


def is_almost_constant(before: float, after: float, agreement: float | None) -> bool:
    """Return whether a network gives (almost) every input the same decision, although the original did not.

    `before` and `after` are shares of the most frequent decision. `agreement` with the original decisions, if it must
    be kept, must exceed that of a model that always gives the most frequent one.
    """
    return 1 - after < VARIETY * (1 - before) or (before < 1 and agreement is not None and agreement <= before)


class CandidateTrial:
    """Scoring of candidates: their gap on `inputs`, and their accuracy on labelled rows.

    Without rows, accuracy is agreement with the original network on the inputs.
    """

    def __init__(self, network: Tunable | ThresholdDecisions, inputs: SearchInputs, rows: LabelledRows | None) -> None:
        self._network, self._inputs, self._rows = network, inputs, rows
        self._drawn: Any = network.prepare(inputs.values)
        self._labelled: Any = network.prepare(rows.values) if rows is not None else None
        self._before = self._original(self._drawn)
        self._usual = usual_share(self._before)
        self._correct = None
        if rows is not None and self._labelled is not None:
            self._correct = self._original(self._labelled) == rows.truth

    def _original(self, prepared: Any) -> LabelArray:
        labels = self._network.decide(prepared, {})
        if labels is None:
            raise ModelError(UNDECIDED_INPUT.format(name=self._network.name))
        return labels

    @property
    def inputs(self) -> int:
        """The number of inputs on which each candidate is evaluated."""
        return len(self._inputs.values) + (len(self._rows) if self._rows is not None else 0)

    def score(self, weights: Mapping[str, WeightArray]) -> Score:
        """Return the score of a candidate; {} is the original network."""
        labels = self._network.decide(self._drawn, weights)
        if labels is None:
            return WORST_SCORE
        agreement = float(np.mean(labels == self._before)) if self._rows is None else None
        if is_almost_constant(self._usual, usual_share(labels), agreement):
            return WORST_SCORE
        gap = self._inputs.gap(labels)
        if self._rows is None or self._labelled is None:
            return Score(gap, agreement or 0.0)
        found = self._network.decide(self._labelled, weights)
        if found is None:
            return WORST_SCORE
        correct = found == self._rows.truth
        other = np.count_nonzero(correct != self._correct)
        return Score(gap, float(np.mean(correct)), float(np.sqrt(other)) / len(correct))


@dataclass(frozen=True)
class Candidate:
    """A point of the search with its score, and the size of its change relative to all weights."""

    point: Point
    score: Score
    change: float


@dataclass(frozen=True)
class Objective:
    """The objective of the search.

    `limit` is the largest fair gap. Without a `floor` the most accurate fair candidate is the best; with one it is the
    candidate with the smallest gap among those of at least this accuracy. `paper` selects the paper's sum of both
    instead.
    """

    limit: float
    floor: float | None = None
    paper: bool = False

    def fitness(self, candidate: Candidate) -> float:
        """Return the fitness, which is minimised; among equals the smaller change wins."""
        gap, accuracy = candidate.score.gap, candidate.score.prudent
        if self.paper:
            return gap + ALPHA * (1 - candidate.score.accuracy)
        small = 0.01 * candidate.change
        if self.floor is not None:
            return gap / self.limit + 50 * max(0.0, self.floor - accuracy) + small
        return (1 - accuracy) + max(0.0, gap / self.limit - (1 - MARGIN)) + small


class Searcher:
    """Search that scores candidates and keeps all of them; the result does not depend on the workers.

    `base` has the arrays of the original model that candidates change. `progress` is called after each generation.
    """

    def __init__(
        self,
        trial: CandidateTrial,
        parameters: Parameters,
        base: Mapping[str, WeightArray],
        objective: Objective,
        workers: Workers | None = None,
        progress: Callable[[RepairProgress], None] | None = None,
    ) -> None:
        self._trial, self._parameters, self._objective = trial, parameters, objective
        self._workers, self._progress = workers or Workers(), progress
        self._base = base
        self._length = float(np.sqrt(sum(np.square(v, dtype=np.float64).sum() for v in self._base.values()))) or 1.0
        self.tried: list[Candidate] = []
        self.iterations = 0
        self._start = time.perf_counter()

    def run(self, optimizer: str, iterations: int, seed: int) -> str:
        """Search until there is no more improvement, Ctrl-C, or the last iteration; return why the search ended."""
        try:
            stopped = self._run(optimizer, iterations, seed)
            if optimizer != "pso":
                self._simplify()
        except KeyboardInterrupt:
            if not self.tried:
                raise
            stopped = "interrupted"
        return stopped

    def _run(self, optimizer: str, iterations: int, seed: int) -> str:
        paper, fitness_of = optimizer == "pso", self._objective.fitness
        unchanged = np.zeros(len(self._parameters.names))
        self.score([unchanged] if paper else [unchanged, *self._parameters.starts()])
        search = make_optimizer(optimizer, unchanged if paper else self._best().point, STEP, seed)
        best, waited = fitness_of(self._best()), 0
        while self.iterations < iterations:
            if paper and self._best().score.gap <= (1 - MARGIN) * self._objective.limit:
                return "fair"
            points = search.ask()
            fitness = np.array([fitness_of(each) for each in self.score(list(points))])
            search.tell(points, fitness)
            self.iterations += 1
            if self._progress is not None:
                found, seconds = self._best().score, time.perf_counter() - self._start
                done = (self.iterations, iterations, len(self.tried))
                self._progress(RepairProgress(*done, found.gap, found.accuracy, seconds))
            waited = 0 if fitness.min() < best - BETTER_BY else waited + 1
            best = min(best, float(fitness.min()))
            if waited >= MOST_IDLE_GENERATIONS:
                return "no progress"
        return "iterations"

    def _simplify(self) -> None:
        """Reset every parameter of the best candidate whose effect is within its error, the smallest first."""
        best = self._best()
        if np.count_nonzero(best.point) > MOST_RESET:
            return
        allowed = self._objective.fitness(best) + max(BETTER_BY, best.score.error) / 2
        for place in np.argsort(np.abs(best.point), kind="stable"):
            if best.point[place]:
                point = best.point.copy()
                point[place] = 0.0
                (simpler,) = self.score([point])
                if self._objective.fitness(simpler) <= allowed:
                    best = simpler

    def score(self, points: Sequence[Point]) -> list[Candidate]:
        """Score the candidates at these points."""
        weights = [self._parameters.weights(point) for point in points]
        scores = self._workers.map(self._trial.score, weights)
        found = []
        for point, changed, score in zip(points, weights, scores, strict=True):
            moved = sum(np.square(v - self._base[name], dtype=np.float64).sum() for name, v in changed.items())
            found.append(Candidate(point, score, float(np.sqrt(moved)) / self._length))
        self.tried += found
        return found

    def _best(self) -> Candidate:
        return min(self.tried, key=self._objective.fitness)


def front_of(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that no other dominates in gap and (prudent) accuracy, by increasing gap."""
    ordered = sorted(candidates, key=lambda each: (each.score.gap, -each.score.prudent, each.change))
    front: list[Candidate] = []
    for each in ordered:
        if not front or each.score.prudent > front[-1].score.prudent:
            front.append(each)
    return front


def thinned_front(front: Sequence[Each], most: int) -> list[Each]:
    """Return at most this many points of a front, evenly spaced."""
    if len(front) <= most:
        return list(front)
    places = np.unique(np.linspace(0, len(front) - 1, most).round().astype(int))
    return [front[place] for place in places]
