"""The largest and the smallest expectation over all chains between the bounds, by policy iteration.

Without cycles one pass from the end is enough. With cycles the extreme chain is guessed, its linear equations are
solved, and the guess is improved until it is stable. The result is checked independently: values that no chain between
the bounds can make worse by one more step are bounds, however they were found (docs/chains.md).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fairchain.pctl.equations import UnsolvedError, solve
from fairchain.pctl.graph import Floats, Indices, Mask, components_of
from fairchain.pctl.interval_rows import CERTAIN, IntervalRows, sums

# Number of guesses of the extreme chain; fewer if many states would have to be solved.
MOST_GUESSES = 100
MOST_SOLVED = 1e6
# The relative rounding error of a few further operations.
LAST_DIGITS = 16 * 2.0**-53
# The guess is stable if the values change by no more than this, relative to the largest.
SETTLED = 1e-13
# Up to this many stages are processed one by one.
MOST_STAGES = 2000


def reached(rows: IntervalRows, inside: Mask, values: Floats, *, largest: bool) -> Floats:
    """Return a bound of the expected value, in [0, 1], of the state outside of `inside` that is reached.

    `inside` must be left with certainty in every chain between the bounds. The result is an upper bound if `largest`,
    otherwise a lower one; for the states outside it is the given value.
    """
    if not inside.any():
        return values
    rows = rows.only(inside)
    stages = staged(rows, inside)
    # No expectation is outside of [0, 1], and a margin of 1 must cover everything.
    found = np.clip(_iterated(stages, values, 0.0, largest=largest), 0.0, 1.0)
    margin = _margin(rows, stages, inside, found, largest=largest) * (1 + LAST_DIGITS) + LAST_DIGITS
    safe = np.minimum(found + margin, 1.0) if largest else np.maximum(found - margin, 0.0)
    result: Floats = np.where(inside, safe, values)
    return result


def steps(rows: IntervalRows, inside: Mask, values: Floats, *, largest: bool) -> Floats:
    """Return a bound of the expected number of steps until `inside` is left, plus the value of the reached state.

    It is an upper bound if `largest`, and then `inside` must be left with certainty; otherwise a lower one, and
    `values` must contain for the states inside a number of steps that some chain between the bounds attains.
    """
    if not inside.any():
        return values
    rows = rows.only(inside)
    found = _iterated(staged(rows, inside), values, 1.0, largest=largest)
    after = 1 + rows.back(found, largest=largest)
    worth = found[rows.targets]
    scale = max(float(found[inside].max()), float(worth[np.isfinite(worth)].max(initial=1.0)))
    wrong = _wrong(found[inside], after[inside], largest=largest) + float(rows.noise.max()) * scale + LAST_DIGITS
    # Each step costs 1: slightly larger costs cover the error of one step.
    if wrong < 0.5:
        safe = found / (1 - wrong) if largest else found * (1 - wrong)
    else:
        safe = np.full(rows.size, np.inf if largest else 0.0)
    result: Floats = np.where(inside, safe, values)
    return result


def _iterated(stages: list[IntervalRows], values: Floats, gain: float, *, largest: bool) -> Floats:
    """Return the extreme values of all stages, from the last to the first."""
    values = values.copy()
    for rows in stages:
        states = np.unique(rows.sources)
        if np.isin(rows.targets, states).any():
            inside = np.zeros(rows.size, bool)
            inside[states] = True
            values = _improved(rows, inside, values, gain, largest=largest)
        else:
            values[states] = gain + rows.back(values, largest=largest)[states]
    return values


def _improved(rows: IntervalRows, inside: Mask, values: Floats, gain: float, *, largest: bool) -> Floats:
    """Return the values of the last policy of policy iteration, from given values."""
    policy = rows.extremal(values, largest=largest)
    for _ in range(min(MOST_GUESSES, 2 + int(MOST_SOLVED / inside.sum()))):
        try:
            found = _solved(rows, inside, values, gain, policy)
        except UnsolvedError:
            # If a guess cannot be solved, the earlier result is checked like any other.
            return values
        better = rows.extremal(found, largest=largest)
        settled = np.abs(found[inside] - values[inside]).max() <= SETTLED * np.abs(found[inside]).max()
        values = found
        if settled or np.array_equal(better, policy):
            break
        policy = better
    return values


def _solved(rows: IntervalRows, inside: Mask, values: Floats, gain: float, weights: Floats) -> Floats:
    from scipy.sparse import coo_array

    used = weights > 0
    sources, targets, weights = rows.sources[used], rows.targets[used], weights[used]
    stays = inside[targets]
    leaving = sums(sources[~stays], weights[~stays], rows.size)[inside]
    right = gain + sums(sources[~stays], (weights * values[targets])[~stays], rows.size)[inside]
    place = np.cumsum(inside) - 1
    entries = (weights[stays], (place[sources[stays]], place[targets[stays]]))
    size = int(inside.sum())
    found = values.copy()
    found[inside] = solve(coo_array(entries, shape=(size, size)).tocsr(), leaving, right)
    return found


def _margin(rows: IntervalRows, stages: list[IntervalRows], inside: Mask, found: Floats, *, largest: bool) -> Floats:
    """Return the margin that turns values which one more step may change slightly into bounds that no step changes.

    With w at least 1 larger than its own largest expectation, an error of e in one step is covered by e * w.
    """
    after = rows.back(found, largest=largest)
    wrong = _wrong(found[inside], after[inside], largest=largest) + float(rows.noise.max())
    length = _iterated(stages, np.zeros(rows.size), 1.0, largest=True)
    progress = (length - rows.back(length, largest=True))[inside].min() - float(rows.noise.max()) * length.max()
    if not progress > CERTAIN:
        return np.ones(rows.size)
    margin: Floats = wrong * length / progress
    return margin


def _wrong(found: Floats, after: Floats, *, largest: bool) -> float:
    """Return by how much one more step would exceed the values."""
    return max(0.0, float((after - found if largest else found - after).max()))


def staged(rows: IntervalRows, inside: Mask) -> list[IntervalRows]:
    """Return the rows in stages, each of which needs only values of earlier ones; a single stage if there were too
    many.
    """
    within = inside[rows.targets]
    count, component = components_of(rows.size, rows.sources[within], rows.targets[within])
    stage = _heights(count, component[rows.sources[within]], component[rows.targets[within]])
    if stage is None:
        return [rows]
    of_row = stage[component[rows.sources]]
    order = np.argsort(of_row, kind="stable")
    ends = np.searchsorted(of_row[order], np.arange(int(of_row.max()) + 2))
    return [rows.part(order[begin:end]) for begin, end in pairwise(ends) if end > begin]


def _heights(count: int, sources: Indices, targets: Indices) -> Indices | None:
    """Return for each node the longest path to a node without successors; None if that is very long."""
    other = sources != targets
    order = np.argsort(targets[other], kind="stable")
    sources, targets = sources[other][order], targets[other][order]
    starts = np.searchsorted(targets, np.arange(count + 1))
    waiting = np.bincount(sources, minlength=count)
    height = np.zeros(count, np.intp)
    ready = np.flatnonzero(waiting == 0)
    for level in range(MOST_STAGES):
        height[ready] = level
        lengths = starts[ready + 1] - starts[ready]
        if not lengths.any():
            return height
        shift = np.repeat(starts[ready] - np.cumsum(lengths) + lengths, lengths)
        before = sources[shift + np.arange(len(shift))]
        np.subtract.at(waiting, before, 1)
        candidates = np.unique(before)
        ready = candidates[waiting[candidates] == 0]
    return None
