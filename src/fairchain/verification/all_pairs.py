"""Estimates of every group and every pair, from a number of rounds that is fixed beforehand.

A verdict stops as soon as it can, and no longer draws groups that cannot change it; its intervals are as wide as that
leaves them. Here all groups are drawn equally often. Nothing is decided by it (docs/mathematics.md, "Every pair").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations

import numpy as np

from fairchain.executors import AnyWorkers, open_workers
from fairchain.number_format import Bounded
from fairchain.prepare import Case
from fairchain.records import Record
from fairchain.spec import comparison_of
from fairchain.spec.properties import outcome_names
from fairchain.statistics import DIFFERENCE, RATIO, Interval, Tally
from fairchain.statistics.intervals import pair_bounds, probability_any_time
from fairchain.verification.record import GroupRate
from fairchain.verification.sampler import Sampler
from fairchain.verification.verdict import Verdict

ROUNDS, BATCH = 20_000, 4096
# Far from the inputs of a verdict, of a chain and of an explanation.
FIRST_CHUNK = 2**44


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


def estimate_all_pairs(
    case: Case,
    *,
    rounds: int = ROUNDS,
    workers: AnyWorkers = None,
    progress: Callable[[int, int], None] | None = None,
) -> AllPairs | None:
    """Estimate every group and pair of a case; None where groups are not compared side by side, or rows are counted.

    Parameters
    ----------
    case
        As `prepare` makes it.
    rounds
        The number of rounds, each of which is evaluated as every group.
    workers
        As for `verify`.
    progress
        Called with the rounds done and wanted.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> from fairchain.prepare import prepare
    >>> found = estimate_all_pairs(prepare(None, example("census")), rounds=1000)
    >>> len(found.groups), len(found.pairs)
    (10, 20)
    """
    spec, comparison = case.spec, case.comparison
    if case.population is None or getattr(spec.property, "compare", "") != "groups":
        return None
    tally = _counted(case, rounds, workers, progress)
    names, outcomes, delta = comparison.counted, outcome_names(spec, comparison), spec.guarantee.delta
    trials = np.broadcast_to(tally.trials, tally.successes.shape)
    low, high = probability_any_time(tally.successes, trials, delta / tally.successes.size)
    groups = [
        GroupRate(name, outcome, *(float(side[row, i]) for side in (tally.rates, low, high)))
        for row, outcome in enumerate(outcomes)
        for i, name in enumerate(names)
    ]
    gaps = [
        PairGap(names[i], names[j], outcomes[row], *_numbers(gap))
        for (row, i, j), gap in pair_intervals(tally, delta, comparison.measure).items()
    ]
    if comparison.measure == "difference" and len(spec.model.labels) == 2 and len(outcomes) == 1:
        other = spec.model.labels[1 - spec.model.labels.index(outcomes[0])]
        groups += [GroupRate(g.name, other, 1 - g.estimate, 1 - g.high, 1 - g.low) for g in groups]
        # 0 - x and not -x, which is -0.0 for equal rates.
        gaps += [PairGap(p.first, p.second, other, 0 - p.estimate, 0 - p.high, 0 - p.low) for p in gaps]
    return AllPairs(tuple(groups), tuple(gaps), comparison.measure, rounds, delta)


def all_pairs_of_rows(verdict: Verdict) -> AllPairs:
    """Return the same for a verdict that evaluated every row: its own groups, and the pairs that follow from them.

    Where the groups' intervals hold, so do those of the pairs: both hold together.
    """
    groups = tuple(GroupRate(group.name, group.outcome, *_numbers(group.probability)) for group in verdict.groups)
    comparison = comparison_of(verdict.spec)
    side_by_side = not comparison.individual and getattr(verdict.spec.property, "compare", "") == "groups"
    truths = {subgroup.name: subgroup.truth for subgroup in comparison.subgroups}
    between = ratio_between if comparison.measure == "ratio" else _difference
    pairs = [
        PairGap(one.name, other.name, one.outcome, *_numbers(between(one, other)))
        for one, other in combinations(groups if side_by_side else (), 2)
        if one.outcome == other.outcome and truths[one.name] == truths[other.name]
    ]
    return AllPairs(groups, tuple(pairs), comparison.measure, verdict.rounds, verdict.delta)


def _counted(case: Case, rounds: int, workers: AnyWorkers, progress: Callable[[int, int], None] | None) -> Tally:
    comparison = case.comparison
    assert case.model is not None
    groups = tuple(range(len(comparison.counted)))
    tally = Tally.empty(len(groups), len(comparison.rows))
    done, chunk = 0, FIRST_CHUNK
    with open_workers(workers) as opened:
        sampler = Sampler(case.model, case.population, case.seed.value, comparison, coupled=True, workers=opened)
        while done < rounds:
            batch = sampler.run(chunk, min(BATCH, rounds - done), groups, lambda _: False)
            tally += Tally.of_batch(batch.rounds, batch.together, groups, len(groups))
            done, chunk = done + batch.rounds, chunk + batch.chunks
            if progress is not None:
                progress(done, rounds)
    return tally


def pair_intervals(tally: Tally, delta: float, measure: str) -> dict[tuple[int, int, int], Interval]:
    """Return for each (outcome, i, j), i < j, the gap with bounds that hold together with probability 1 - delta.

    It is the first rate minus the second, or of a ratio the smaller over the larger. Which one is smaller was seen in
    the same rounds, so that both ways share delta.
    """
    payoff = RATIO if measure == "ratio" else DIFFERENCE
    gaps = payoff.gaps(tally)
    outcomes, count, _ = gaps.shape
    bounds = count * (count - 1) * (2 if payoff.relative else 1) * outcomes
    below, above = pair_bounds(payoff.cells(tally), math.log(bounds / delta), payoff)
    found = {}
    for row in range(outcomes):
        for i, j in combinations(range(count), 2):
            more, less = (j, i) if payoff.relative and tally.rates[row, i] <= tally.rates[row, j] else (i, j)
            gap, low, high = (float(side[row, more, less]) for side in (gaps, below, above))
            # The gap of a ratio is 1 - P(less) / P(more).
            found[row, i, j] = _at_most_one(1 - gap, 1 - high, 1 - low) if payoff.relative else Interval(gap, low, high)
    return found


def _at_most_one(ratio: float, low: float, high: float) -> Interval:
    """Return the interval of the smaller number over the larger, from bounds of their ratio: it or its inverse."""
    return Interval(min(ratio, 1.0), min(low, 1 / high if high > 1 else low), min(high, 1.0))


def ratio_between(one: Bounded, other: Bounded) -> Interval:
    """Return the smaller over the larger of two numbers, each known within its bounds; two that are 0 are alike."""
    less, more = (one, other) if one.estimate <= other.estimate else (other, one)
    if more.high == 0:
        return Interval(1.0, 1.0, 1.0)
    ratio = less.estimate / more.estimate if more.estimate > 0 else 1.0
    return _at_most_one(ratio, less.low / more.high, less.high / more.low if more.low > 0 else math.inf)


def _difference(one: Bounded, other: Bounded) -> Interval:
    return Interval(one.estimate - other.estimate, one.low - other.high, one.high - other.low)


def _numbers(value: Bounded) -> tuple[float, float, float]:
    return value.estimate, value.low, value.high
