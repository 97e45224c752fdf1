"""Every group and every pair, for somebody who wants to look: from a number of rounds that is fixed beforehand.

A verdict stops as soon as it can, and no longer asks groups that cannot change it; its intervals are as wide as that
leaves them. A survey asks all groups equally often. Nothing is decided by it (docs/mathematics.md, "Every pair").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from fairchain.models import Limits, Model, load_model
from fairchain.populations import build_population
from fairchain.populations.build import large_enough, with_nodes
from fairchain.spec import Comparison, Spec, comparison_of, load_spec, revise
from fairchain.spec.conditions import predicate_of
from fairchain.spec.seeds import seed_of
from fairchain.statistics import DIFFERENCE, RATIO, Interval, Tally
from fairchain.statistics.intervals import pair_bounds, probability_any_time
from fairchain.tables import frequencies_from
from fairchain.verification.sampler import Sampler, default_workers, thread_pool
from fairchain.verification.verdict import Verdict, kind_of, outcome_names

ROUNDS, BATCH = 20_000, 4096
# Far from the people of a verdict, of a chain and of an explanation.
FIRST_CHUNK = 2**44
Plain = dict[str, Any]
# By number of the outcome and of two groups.
Between = dict[tuple[int, int, int], Interval]


@dataclass(frozen=True)
class GroupRate:
    """P(outcome | group)."""

    name: str
    outcome: str
    probability: Interval


@dataclass(frozen=True)
class PairGap:
    """P(outcome | first) - P(outcome | second); of a ratio the smaller of the two over the larger."""

    first: str
    second: str
    outcome: str
    gap: Interval


@dataclass(frozen=True)
class AllPairs:
    """Groups and pairs; the intervals of groups hold together with probability 1 - delta, and so do those of pairs.

    `measure` is how pairs are compared: "difference" or "ratio". `rounds` is 0 where every row of a table was asked.
    """

    groups: tuple[GroupRate, ...]
    pairs: tuple[PairGap, ...]
    measure: str
    rounds: int
    delta: float

    def to_dict(self) -> Plain:
        """As plain JSON values."""
        return {
            "groups": [_flat(asdict(group), "probability", "probability") for group in self.groups],
            "pairs": [_flat(asdict(pair), "gap", "estimate") for pair in self.pairs],
            "measure": self.measure,
            "rounds": self.rounds,
            "delta": self.delta,
        }


def survey(
    model: Any,
    spec: Spec | str | Path,
    *,
    rounds: int = ROUNDS,
    seed: int | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AllPairs | None:
    """Show so many people to the network as every group; None where there are no groups side by side to be shown.

    Parameters
    ----------
    model, spec, seed, workers, limits
        As for `verify`.
    rounds
        How many people.
    progress
        Called with the rounds done and wanted.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> found = survey(None, example("census"), rounds=1000)
    >>> len(found.groups), len(found.pairs)
    (10, 20)
    """
    asked = spec if isinstance(spec, Spec) else load_spec(spec)
    asked = with_nodes(revise(asked, guarantee__seed=seed))
    if kind_of(asked) == "individual" or getattr(asked.property, "compare", "") != "groups":
        return None
    source = model if model is not None else asked.model.path
    loaded = load_model(source, asked, limits, allow_python=model is not None)
    people = frequencies_from(asked)
    groups, _ = large_enough(asked, people)
    comparison = comparison_of(asked, groups)
    population = build_population(
        asked, comparison.subgroups, loaded.dtype, people=people, predicate=predicate_of(asked)
    )
    data_sha256 = people.sha256 if people is not None else population.sha256
    seeded = seed_of(asked, loaded.sha256, data_sha256).value
    tally = _counted(loaded, population, seeded, comparison, rounds, workers or default_workers(), progress)
    return _survey(asked, comparison, tally, rounds)


def survey_of_rows(verdict: Verdict) -> AllPairs:
    """The same of a verdict that asked every row: its own groups, and the pairs that follow from them.

    Where the groups' intervals hold, so do those of the pairs: both hold together.
    """
    groups = tuple(GroupRate(group.name, group.outcome, group.probability) for group in verdict.groups)
    comparison = comparison_of(verdict.spec)
    side_by_side = not comparison.individual and getattr(verdict.spec.property, "compare", "") == "groups"
    truths = {subgroup.name: subgroup.truth for subgroup in comparison.subgroups}
    between = _ratio_between if comparison.measure == "ratio" else _difference
    pairs = [
        PairGap(one.name, other.name, one.outcome, between(one.probability, other.probability))
        for one, other in combinations(groups if side_by_side else (), 2)
        if one.outcome == other.outcome and truths[one.name] == truths[other.name]
    ]
    return AllPairs(groups, tuple(pairs), comparison.measure, verdict.rounds, verdict.delta)


def _counted(
    model: Model,
    population: Any,
    seed: int,
    comparison: Comparison,
    rounds: int,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> Tally:
    everybody = tuple(range(len(comparison.counted)))
    tally = Tally.empty(len(everybody), len(comparison.rows))
    done, chunk = 0, FIRST_CHUNK
    with thread_pool(workers) as pool:
        sampler = Sampler(model, population, seed, comparison, coupled=True, pool=pool, workers=workers)
        while done < rounds:
            batch = sampler.run(chunk, min(BATCH, rounds - done), everybody, lambda: False)
            tally += Tally.of_batch(batch.rounds, batch.together, everybody, len(everybody))
            done, chunk = done + batch.rounds, chunk + batch.chunks
            if progress is not None:
                progress(done, rounds)
    return tally


def _survey(spec: Spec, comparison: Comparison, tally: Tally, rounds: int) -> AllPairs:
    names, outcomes, delta = comparison.counted, outcome_names(spec, comparison), spec.guarantee.delta
    trials = np.broadcast_to(tally.trials, tally.successes.shape)
    low, high = probability_any_time(tally.successes, trials, delta / tally.successes.size)
    groups = [
        GroupRate(name, outcome, Interval(*(float(side[row, i]) for side in (tally.rates, low, high))))
        for row, outcome in enumerate(outcomes)
        for i, name in enumerate(names)
    ]
    between = _ratios(tally, delta) if comparison.measure == "ratio" else _differences(tally, delta)
    gaps = [
        PairGap(names[i], names[j], outcome, between[row, i, j])
        for row, outcome in enumerate(outcomes)
        for i, j in combinations(range(len(names)), 2)
    ]
    if comparison.measure == "difference" and len(spec.model.labels) == 2 and len(outcomes) == 1:
        other = spec.model.labels[1 - spec.model.labels.index(outcomes[0])]
        groups += [GroupRate(g.name, other, _turned(g.probability, 1.0)) for g in groups]
        gaps += [PairGap(p.first, p.second, other, _turned(p.gap, 0.0)) for p in gaps]
    return AllPairs(tuple(groups), tuple(gaps), comparison.measure, rounds, delta)


def _differences(tally: Tally, delta: float) -> Between:
    """Of each pair once, the first minus the second; delta is shared out among all of them and both sides."""
    outcomes, count, _ = tally.gaps.shape
    pairs = list(combinations(range(count), 2))
    below, above = pair_bounds(tally.cells, math.log(2 * len(pairs) * outcomes / delta), DIFFERENCE)
    return {
        (row, i, j): Interval(*(float(side[row, i, j]) for side in (tally.gaps, below, above)))
        for row in range(outcomes)
        for i, j in pairs
    }


def _ratios(tally: Tally, delta: float) -> Between:
    """Of each pair the smaller over the larger. Which that is was seen on the same people: both ways share delta."""
    gaps = RATIO.gaps(tally)
    outcomes, count, _ = gaps.shape
    bar = math.log(2 * count * (count - 1) * outcomes / delta)
    below, above = pair_bounds(RATIO.cells(tally), bar, RATIO)
    found = {}
    for row in range(outcomes):
        for i, j in combinations(range(count), 2):
            less, more = (i, j) if tally.rates[row, i] <= tally.rates[row, j] else (j, i)
            # The evidence has what is missing to 1 in P(less) / P(more).
            low, high = 1 - float(above[row, more, less]), 1 - float(below[row, more, less])
            found[row, i, j] = _at_most_one(1 - float(gaps[row, more, less]), low, high)
    return found


def _at_most_one(ratio: float, low: float, high: float) -> Interval:
    """From bounds of a ratio to those of the smaller number over the larger: it or its inverse."""
    return Interval(min(ratio, 1.0), min(low, 1 / high if high > 1 else low), min(high, 1.0))


def _ratio_between(one: Interval, other: Interval) -> Interval:
    """The smaller over the larger of two numbers, each known within its bounds; two that are 0 are alike."""
    less, more = (one, other) if one.estimate <= other.estimate else (other, one)
    if more.high == 0:
        return Interval(1.0, 1.0, 1.0)
    ratio = less.estimate / more.estimate if more.estimate > 0 else 1.0
    return _at_most_one(ratio, less.low / more.high, less.high / more.low if more.low > 0 else math.inf)


def _difference(one: Interval, other: Interval) -> Interval:
    return Interval(one.estimate - other.estimate, one.low - other.high, one.high - other.low)


def _turned(interval: Interval, whole: float) -> Interval:
    return Interval(whole - interval.estimate, whole - interval.high, whole - interval.low)


def _flat(values: Plain, key: str, estimate: str) -> Plain:
    interval = values.pop(key)
    return {**values, estimate: interval["estimate"], "low": interval["low"], "high": interval["high"]}
