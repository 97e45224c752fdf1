"""Forecast of a run before it starts: the stopping rule is run on simulated rounds (docs/scaling.md).

No guarantee depends on a forecast. `Rule.forecast` gives the remaining rounds during a run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairchain.statistics.intervals import Floats
from fairchain.statistics.rules import Rule
from fairchain.statistics.tally import Counts, Tally

RUNS = 100
# A run that needs more rounds has no forecast of a verdict.
HORIZON = 10**10
# Up to this many groups all combinations of answers are listed; for more groups this many are drawn.
LISTED_GROUPS, DRAWN_PATTERNS = 12, 2**13


@dataclass(frozen=True, eq=False)
class RoundAnswers:
    """Distribution of the answers of a round: combinations of the groups' labels, and the probability of each.

    `labels` is (patterns, groups), and `shares` is (patterns,).
    """

    labels: NDArray[np.integer]
    shares: Floats

    @classmethod
    def assumed(cls, rates: Sequence[float], differ: float | None = None) -> RoundAnswers:
        """Return labels 0 and 1 with these rates of 1.

        `differ` is the share of rounds in which two groups get different labels, as a mean over pairs; by default
        groups answer independently. It is clipped to the range from the smallest possible value for these rates to
        independent answers. The result is a mixture of rounds with the smallest share and rounds with independent
        answers.
        """
        p = np.asarray(rates, float)
        edges = np.concatenate([[0.0], np.sort(p), [1.0]])
        alike = (edges[:-1] + edges[1:])[:, None] / 2 < p
        if len(p) <= LISTED_GROUPS:
            independent = (np.arange(2 ** len(p))[:, None] >> np.arange(len(p)) & 1).astype(bool)
            chance = np.where(independent, p, 1 - p).prod(axis=1)
        else:
            # Each group has exactly its share of the patterns, in its own order.
            ordered = (np.arange(DRAWN_PATTERNS)[:, None] + 0.5) / DRAWN_PATTERNS < p
            independent = np.random.default_rng(0).permuted(ordered, axis=0)
            chance = np.full(DRAWN_PATTERNS, 1 / DRAWN_PATTERNS)
        least, most = differing(rates)
        part = 0.0 if differ is None or most <= least else min(max((most - differ) / (most - least), 0.0), 1.0)
        shares = np.concatenate([part * np.diff(edges), (1 - part) * chance])
        kept = shares > 0
        return cls(np.concatenate([alike, independent])[kept].astype(np.uint8), shares[kept] / shares.sum())

    @classmethod
    def seen(cls, labels: NDArray[np.integer]) -> RoundAnswers:
        """Return the frequencies of observed rounds, (groups, rounds)."""
        found, counts = np.unique(labels, axis=1, return_counts=True)
        return cls(found.T, counts / counts.sum())

    def draw(self, rounds: int, rng: np.random.Generator) -> Counts:
        """Return (patterns,): the counts of each combination in this many rounds."""
        if rounds * 4 < len(self.shares):
            places = np.searchsorted(self.shares.cumsum()[:-1], rng.random(rounds), side="right")
            return np.bincount(places, minlength=len(self.shares))
        return np.asarray(rng.multinomial(rounds, self.shares))


def differing(rates: Sequence[float]) -> tuple[float, float]:
    """Return the share of rounds in which two groups differ, a mean over pairs: the smallest, and if independent."""
    p = np.asarray(rates, float)
    i, j = np.triu_indices(len(p), 1)
    return float(np.abs(p[i] - p[j]).mean()), float((p[i] * (1 - p[j]) + p[j] * (1 - p[i])).mean())


@dataclass(frozen=True)
class Spread:
    """A number over simulated runs: the mean, and what 95 of 100 runs do not exceed; None if runs do not end."""

    mean: float | None
    most: float | None

    @classmethod
    def of(cls, values: ArrayLike) -> Spread:
        """Return the spread of some values, infinite if a run did not end."""
        found = np.sort(np.asarray(values, float))
        each = (float(found.mean()), float(found[math.ceil(0.95 * len(found)) - 1]))
        return cls(*(value if math.isfinite(value) else None for value in each))

    def times(self, factor: float) -> Spread:
        """Return the spread of a multiple."""
        return Spread(*(None if value is None else value * factor for value in (self.mean, self.most)))


@dataclass(frozen=True)
class RunForecast:
    """Result of simulated runs: rounds, evaluations, and the number of runs with each decision."""

    rounds: Spread
    evaluations: Spread
    decisions: dict[str, int]

    @property
    def decision(self) -> str:
        """The decision of most runs."""
        return max(self.decisions, key=lambda name: self.decisions[name])


def forecast_run(
    rule: Callable[[], Rule],
    answers: RoundAnswers,
    *,
    outcomes: Sequence[int] = (1,),
    evaluations: Callable[[Sequence[int]], int] = len,
    runs: int = RUNS,
    seed: int = 0,
    most_rounds: int = HORIZON,
) -> RunForecast:
    """Run a stopping rule, a new one for each of so many runs, on simulated rounds with these answers.

    `outcomes` are the labels that the rule counts, and `evaluations` returns the number of evaluations per round from
    the groups of a batch. A run that reaches `most_rounds` has no forecast end.

    Examples
    --------
    >>> from fairchain.statistics import BettingRule
    >>> forecast = forecast_run(lambda: BettingRule(2, 1, 0.1, 1e-6), RoundAnswers.assumed([0.3, 0.27], 0.05))
    >>> forecast.decision, round(forecast.evaluations.mean, -2)
    ('FAIR', 1100.0)
    """
    rng = np.random.default_rng(seed)
    hits = (answers.labels == np.asarray(outcomes)[:, None, None]).astype(float)
    rounds, spent = np.zeros((2, runs))
    decisions: Counter[str] = Counter()
    for run in range(runs):
        one = rule()
        groups = one.tally.both.shape[1]
        while (plan := one.plan()) is not None:
            if rounds[run] >= most_rounds:
                rounds[run] = spent[run] = np.inf
                break
            active = hits[:, :, list(plan.groups)]
            # Floating-point numbers are exact for counts below 2**53, and their product is much faster.
            weighted = active * answers.draw(plan.rounds, rng)[:, None]
            together = (weighted.swapaxes(1, 2) @ active).astype(np.int64)
            one.observe(plan, Tally.of_batch(plan.rounds, together, plan.groups, groups))
            rounds[run] += plan.rounds
            spent[run] += plan.rounds * evaluations(plan.groups)
        decisions[one.decision.name] += 1
    return RunForecast(Spread.of(rounds), Spread.of(spent), dict(decisions))
