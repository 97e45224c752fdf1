"""Every group and every pair, for somebody who wants to look: from a number of rounds that is fixed beforehand.

A verdict stops as soon as it can, and no longer asks groups that cannot change it; its intervals are as wide as that
leaves them. A survey asks all groups equally often. Nothing is decided by it (docs/mathematics.md, "Every pair").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from fairchain.models import Limits
from fairchain.number_format import Bounded
from fairchain.prepare import Case, prepare
from fairchain.records import Record
from fairchain.spec import Comparison, Spec, comparison_of
from fairchain.spec.properties import outcome_names
from fairchain.statistics import DIFFERENCE, RATIO, Interval, Tally
from fairchain.statistics.intervals import pair_bounds, probability_any_time
from fairchain.verification.record import GroupRate
from fairchain.verification.sampler import Sampler, default_workers, thread_pool
from fairchain.verification.verdict import Verdict

ROUNDS, BATCH = 20_000, 4096
# Far from the people of a verdict, of a chain and of an explanation.
FIRST_CHUNK = 2**44
# By number of the outcome and of two groups.
Between = dict[tuple[int, int, int], Interval]


class PairGap(Record, frozen=True):
    """P(outcome | first) - P(outcome | second) with its interval; of a ratio the smaller of the two over the larger."""

    first: str
    second: str
    outcome: str
    estimate: float
    low: float
    high: float


class AllPairs(Record, frozen=True):
    """Estimates for every group and pair; those of groups hold together with probability 1 - delta, as do the pairs'.

    `measure` is how pairs are compared: "difference" or "ratio". `rounds` is 0 where all rows of a table were counted.
    """

    groups: tuple[GroupRate, ...]
    pairs: tuple[PairGap, ...]
    measure: str
    rounds: int
    delta: float


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
    case = prepare(model, spec, seed=seed, limits=limits)
    return survey_case(case, rounds=rounds, workers=workers, progress=progress)


def survey_case(
    case: Case,
    *,
    rounds: int = ROUNDS,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> AllPairs | None:
    """Estimate every group and pair of a case; None where groups are not compared side by side, or rows are counted."""
    if case.population is None or getattr(case.spec.property, "compare", "") != "groups":
        return None
    tally = _counted(case, rounds, workers or default_workers(), progress)
    return _survey(case.spec, case.comparison, tally, rounds)


def survey_of_rows(verdict: Verdict) -> AllPairs:
    """The same of a verdict that asked every row: its own groups, and the pairs that follow from them.

    Where the groups' intervals hold, so do those of the pairs: both hold together.
    """
    groups = tuple(GroupRate(group.name, group.outcome, *_numbers(group.probability)) for group in verdict.groups)
    comparison = comparison_of(verdict.spec)
    side_by_side = not comparison.individual and getattr(verdict.spec.property, "compare", "") == "groups"
    truths = {subgroup.name: subgroup.truth for subgroup in comparison.subgroups}
    between = _ratio_between if comparison.measure == "ratio" else _difference
    pairs = [
        PairGap(one.name, other.name, one.outcome, *_numbers(between(one, other)))
        for one, other in combinations(groups if side_by_side else (), 2)
        if one.outcome == other.outcome and truths[one.name] == truths[other.name]
    ]
    return AllPairs(groups, tuple(pairs), comparison.measure, verdict.rounds, verdict.delta)


def _counted(case: Case, rounds: int, workers: int, progress: Callable[[int, int], None] | None) -> Tally:
    comparison = case.comparison
    assert case.model is not None
    everybody = tuple(range(len(comparison.counted)))
    tally = Tally.empty(len(everybody), len(comparison.rows))
    done, chunk = 0, FIRST_CHUNK
    with thread_pool(workers) as pool:
        sampler = Sampler(
            case.model, case.population, case.seed.value, comparison, coupled=True, pool=pool, workers=workers
        )
        while done < rounds:
            batch = sampler.run(chunk, min(BATCH, rounds - done), everybody, lambda _: False)
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
        GroupRate(name, outcome, *(float(side[row, i]) for side in (tally.rates, low, high)))
        for row, outcome in enumerate(outcomes)
        for i, name in enumerate(names)
    ]
    between = _ratios(tally, delta) if comparison.measure == "ratio" else _differences(tally, delta)
    gaps = [
        PairGap(names[i], names[j], outcome, *_numbers(between[row, i, j]))
        for row, outcome in enumerate(outcomes)
        for i, j in combinations(range(len(names)), 2)
    ]
    if comparison.measure == "difference" and len(spec.model.labels) == 2 and len(outcomes) == 1:
        other = spec.model.labels[1 - spec.model.labels.index(outcomes[0])]
        groups += [GroupRate(g.name, other, *_complement(g, 1.0)) for g in groups]
        gaps += [PairGap(p.first, p.second, other, *_complement(p, 0.0)) for p in gaps]
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


def _ratio_between(one: Bounded, other: Bounded) -> Interval:
    """The smaller over the larger of two numbers, each known within its bounds; two that are 0 are alike."""
    less, more = (one, other) if one.estimate <= other.estimate else (other, one)
    if more.high == 0:
        return Interval(1.0, 1.0, 1.0)
    ratio = less.estimate / more.estimate if more.estimate > 0 else 1.0
    return _at_most_one(ratio, less.low / more.high, less.high / more.low if more.low > 0 else math.inf)


def _difference(one: Bounded, other: Bounded) -> Interval:
    return Interval(one.estimate - other.estimate, one.low - other.high, one.high - other.low)


def _complement(value: Bounded, whole: float) -> tuple[float, float, float]:
    return whole - value.estimate, whole - value.high, whole - value.low


def _numbers(value: Bounded) -> tuple[float, float, float]:
    return value.estimate, value.low, value.high
