"""The search: generations of candidates evaluated on the same data, and the Pareto front of gap and accuracy.

Every candidate is evaluated on the same coupled rounds and the same labelled rows, so differences between candidates
are not due to different draws. The result is a proposal: its fairness is decided elsewhere, on other data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from fairchain.errors import ModelError
from fairchain.executors import Workers
from fairchain.models.edit.candidates import Tunable
from fairchain.models.edit.weights import WeightArray
from fairchain.repairing.optimizers import make_optimizer
from fairchain.repairing.parameters import Parameters, Point
from fairchain.repairing.repair_data import LabelArray, LabelledRows, SearchInputs
from fairchain.repairing.result import RepairProgress
from fairchain.repairing.thresholds import ThresholdDecisions

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
