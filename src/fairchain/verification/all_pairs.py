"""The gap of every pair of groups, from the evidence of a verdict: its rounds, or its counted rates.

A verdict is about the largest gap; this module gives each pair an interval. All intervals hold in one event with the
verdict, the gap and the rates (docs/mathematics-intervals.md, "One event"), and each is intersected with the others.
Nothing is decided or evaluated here.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fairchain.number_format import Bounded
from fairchain.prepare import Case
from fairchain.records import Record
from fairchain.spec.properties import outcome_names
from fairchain.statistics import DIFFERENCE, RATIO, Interval, Tally
from fairchain.statistics.intervals import pair_bounds
from fairchain.statistics.rules import OF_PAIRS
from fairchain.verification.verdict import RunRecord, Verdict


class PairGap(Record, frozen=True):
    """P(outcome | first) - P(outcome | second) with its interval; for a ratio, the smaller over the larger rate."""

    first: str
    second: str
    outcome: str
    estimate: float
    low: float
    high: float


class AllPairs(Record, frozen=True):
    """The gaps of all pairs. All intervals, including those of the verdict, hold together with probability 1 - delta.

    `measure` is the comparison of a pair: "difference" or "ratio".
    """

    pairs: tuple[PairGap, ...]
    measure: str
    delta: float


def all_pairs(case: Case, verdict: Verdict) -> AllPairs | None:
    """Return the gap of every pair, from the verdict on a case; None if groups are not compared with each other.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> from fairchain.prepare import prepare
    >>> from fairchain.verification.verifier import verify_case
    >>> case = prepare(None, example("census"))
    >>> len(all_pairs(case, verify_case(case)).pairs)
    10
    """
    comparison, run, spec = case.comparison, verdict.evidence, case.spec
    if comparison.individual or getattr(spec.property, "compare", "") != "groups":
        return None
    between = ratio_between if comparison.measure == "ratio" else _difference
    truths = {subgroup.name: subgroup.truth for subgroup in comparison.subgroups}
    names, outcomes = comparison.counted, outcome_names(spec, comparison)
    coupled = isinstance(run, RunRecord) and run.coupled
    found = {
        (one.name, other.name, one.outcome): between(one, other)
        for one, other in combinations(verdict.record.groups, 2)
        if one.outcome == other.outcome
        and truths[one.name] == truths[other.name]
        and (not coupled or one.outcome in outcomes)
    }
    # A verdict over shifts is about other populations than the rounds, and spends delta on their gaps.
    if verdict.sound and spec.property.shift is None:
        if isinstance(run, RunRecord) and coupled:
            # Rounds that show an input to two groups determine their difference more precisely than the two rates.
            spend = verdict.delta * (OF_PAIRS if spec.guarantee.epsilon is None else 1 / 2)
            tally = run.tally(len(names), len(comparison.rows))
            either_way = comparison.compared | comparison.compared.swapaxes(1, 2)
            for (row, i, j), gap in pair_intervals(tally, spend, either_way, comparison.measure).items():
                pair = names[i], names[j], outcomes[row]
                found[pair] = _both(gap, found[pair])
        if getattr(spec.property, "reference", None) is None:
            found = _within(found, verdict.gap, ratio=comparison.measure == "ratio")
        elif comparison.measure != "ratio":
            # The gap to a reference group has one direction.
            first = verdict.widest.more
            for pair, gap in found.items():
                if first in pair[:2]:
                    ends = (-1.0, verdict.gap.high) if pair[0] == first else (-verdict.gap.high, 1.0)
                    found[pair] = _both(gap, Interval(gap.estimate, *ends))
    pairs = tuple(PairGap(*pair, gap.estimate, gap.low, gap.high) for pair, gap in found.items())
    return AllPairs(pairs, comparison.measure, verdict.delta)


def pair_intervals(
    tally: Tally, spend: float, compared: NDArray[np.bool_], measure: str
) -> dict[tuple[int, int, int], Interval]:
    """Return for each compared (outcome, i, j), i < j, the gap with bounds; the joint error probability is at most
    `spend`.

    The gap is the first rate minus the second, or for a ratio the smaller over the larger. The same rounds show which
    rate is smaller, so both directions share `spend`. `compared` is (outcomes, groups, groups), in both directions.
    """
    payoff = RATIO if measure == "ratio" else DIFFERENCE
    gaps = payoff.gaps(tally)
    bounds = int(compared.sum()) * (2 if payoff.relative else 1)
    below, above = pair_bounds(payoff.cells(tally), math.log(bounds / spend), payoff)
    found = {}
    for row, i, j in np.argwhere(np.triu(compared)).tolist():
        # By the rounds of both, from which the bounds are: other rounds can show the opposite.
        turned = payoff.relative and tally.only[row, i, j] <= tally.only[row, j, i]
        more, less = (j, i) if turned else (i, j)
        gap, low, high = (float(side[row, more, less]) for side in (gaps, below, above))
        # The gap of a ratio is 1 - P(less) / P(more).
        found[row, i, j] = _at_most_one(1 - gap, 1 - high, 1 - low) if payoff.relative else Interval(gap, low, high)
    return found


def _within(
    found: dict[tuple[str, str, str], Interval], gap: Interval, *, ratio: bool
) -> dict[tuple[str, str, str], Interval]:
    """Return the intervals intersected with the verdict's: no pair exceeds the largest gap, and one attains it."""
    if ratio:
        most, attains = Interval(gap.estimate, gap.low, 1.0), [pair for pair in found if found[pair].low <= gap.high]
    else:
        most = Interval(0.0, -gap.high, gap.high)
        attains = [pair for pair in found if max(-found[pair].low, found[pair].high) >= gap.low]
    found = {pair: _both(each, most) for pair, each in found.items()}
    for pair in attains if len(attains) == 1 else ():
        one = found[pair]
        if ratio:
            found[pair] = _both(one, Interval(one.estimate, 0.0, gap.high))
        elif one.low > -gap.low:
            found[pair] = _both(one, Interval(one.estimate, gap.low, gap.high))
        elif one.high < gap.low:
            found[pair] = _both(one, Interval(one.estimate, -gap.high, -gap.low))
    return found


def _both(one: Interval, other: Interval) -> Interval:
    """Return the intersection of two simultaneous intervals, with the estimate of the first, clipped to it.

    If they are disjoint, which has probability at most delta, the first is kept.
    """
    low, high = max(one.low, other.low), min(one.high, other.high)
    return Interval(min(max(one.estimate, low), high), low, high) if low <= high else one


def _at_most_one(ratio: float, low: float, high: float) -> Interval:
    """Return the interval of the smaller over the larger of two numbers, from bounds of their ratio or its inverse."""
    return Interval(min(ratio, 1.0), min(low, 1 / high if high > 1 else low), min(high, 1.0))


def ratio_between(one: Bounded, other: Bounded) -> Interval:
    """Return the smaller over the larger of two numbers, each given by bounds; the ratio of 0 and 0 is 1."""
    less, more = (one, other) if one.estimate <= other.estimate else (other, one)
    if more.high == 0:
        return Interval(1.0, 1.0, 1.0)
    ratio = less.estimate / more.estimate if more.estimate > 0 else 1.0
    return _at_most_one(ratio, less.low / more.high, less.high / more.low if more.low > 0 else math.inf)


def _difference(one: Bounded, other: Bounded) -> Interval:
    return Interval(one.estimate - other.estimate, one.low - other.high, one.high - other.low)
