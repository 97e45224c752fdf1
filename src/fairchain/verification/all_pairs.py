"""The gap of every pair of groups, from the evidence of a verdict: its rounds, or the rates that it counted.

A verdict is about the largest gap; here each pair has an interval, and all of them hold together (docs/mathematics.md,
"Every pair"). Nothing is decided by it, and nothing is evaluated for it.
"""

from __future__ import annotations

import math
from itertools import combinations

from fairchain.number_format import Bounded
from fairchain.prepare import Case
from fairchain.records import Record
from fairchain.spec.properties import outcome_names
from fairchain.statistics import DIFFERENCE, RATIO, Interval, Tally
from fairchain.statistics.intervals import pair_bounds
from fairchain.verification.verdict import RunRecord, Verdict


class PairGap(Record, frozen=True):
    """P(outcome | first) - P(outcome | second) with its interval; of a ratio the smaller of the two over the larger."""

    first: str
    second: str
    outcome: str
    estimate: float
    low: float
    high: float


class AllPairs(Record, frozen=True):
    """The gaps of all pairs, whose intervals hold together with probability 1 - delta.

    `measure` is how pairs are compared: "difference" or "ratio". `of_rates` says that the intervals follow from those
    of the groups, so that both hold in one event.
    """

    pairs: tuple[PairGap, ...]
    measure: str
    delta: float
    of_rates: bool


def all_pairs(case: Case, verdict: Verdict) -> AllPairs | None:
    """Return the gap of every pair, from the verdict on a case; None where groups are not compared with each other.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> from fairchain.prepare import prepare
    >>> from fairchain.verification.verifier import verify_case
    >>> case = prepare(None, example("census"))
    >>> len(all_pairs(case, verify_case(case)).pairs)
    10
    """
    comparison, run = case.comparison, verdict.evidence
    if comparison.individual or getattr(case.spec.property, "compare", "") != "groups":
        return None
    truths = {subgroup.name: subgroup.truth for subgroup in comparison.subgroups}
    # Rounds that show an input to two groups say more about their difference than the rates of both.
    of_rates = not (isinstance(run, RunRecord) and run.coupled)
    if isinstance(run, RunRecord) and run.coupled:
        names, outcomes = comparison.counted, outcome_names(case.spec, comparison)
        tally = run.tally(len(names), len(comparison.rows))
        found = [
            PairGap(names[i], names[j], outcomes[row], *_numbers(gap))
            for (row, i, j), gap in pair_intervals(tally, verdict.delta, comparison.measure).items()
        ]
    else:
        between = ratio_between if comparison.measure == "ratio" else _difference
        found = [
            PairGap(one.name, other.name, one.outcome, *_numbers(between(one, other)))
            for one, other in combinations(verdict.record.groups, 2)
            if one.outcome == other.outcome
        ]
    pairs = tuple(pair for pair in found if truths[pair.first] == truths[pair.second])
    return AllPairs(pairs, comparison.measure, verdict.delta, of_rates)


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
