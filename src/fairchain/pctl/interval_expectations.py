"""The largest and the smallest expectation over all chains between the bounds, by policy iteration.

Without cycles one pass from the end does it. On cycles the extreme chain is guessed, its linear equations solved, the
guess improved until it stays. What is returned is checked apart from how it was found: values that no chain between
the bounds can make worse by one more step are bounds, whatever they are (docs/chains.md).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from fairchain.pctl.equations import UnsolvedError, solve
from fairchain.pctl.graph import Floats, Indices, Mask, components_of
from fairchain.pctl.interval_rows import CERTAIN, IntervalRows, sums

# Guesses of the extreme chain; fewer where so many states would have to be solved for.
MOST_GUESSES = 100
MOST_SOLVED = 1e6
# What a few further operations may do, relative to their result.
LAST_DIGITS = 16 * 2.0**-53
# The guess stays when the values move by no more than this, relative to the largest.
SETTLED = 1e-13
# So many stages are worth going through one by one.
MOST_STAGES = 2000


def reached(rows: IntervalRows, inside: Mask, values: Floats, *, largest: bool) -> Floats:
    """Return a bound of the expected value, in [0, 1], of the state outside of `inside` that is reached.

    `inside` must be left with certainty, whichever chain between the bounds is the true one. The result is an upper
    bound if `largest`, else a lower one; in the states outside it is what was given.
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
    """Return a bound of the expected number of steps until `inside` is left, plus the value of the state reached.

    An upper bound if `largest`, and then `inside` must be left with certainty; else a lower one, and `values` must
    hold for the states inside a number of steps that some chain between the bounds can do with.
    """
    if not inside.any():
        return values
    rows = rows.only(inside)
    found = _iterated(staged(rows, inside), values, 1.0, largest=largest)
    after = 1 + rows.back(found, largest=largest)
    worth = found[rows.targets]
    scale = max(float(found[inside].max()), float(worth[np.isfinite(worth)].max(initial=1.0)))
    wrong = _wrong(found[inside], after[inside], largest=largest) + _noise(rows) * scale + LAST_DIGITS
    # Each step costs 1: making all costs a little larger covers what is wrong with one step of them.
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
            # Where a guess cannot be solved, what was found before is checked like any other.
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
    """Return the margin that makes values which one more step may change a little into bounds that no step can.

    With w at least 1 larger than its own largest expectation, an error of e in one step is covered by e * w.
    """
    after = rows.back(found, largest=largest)
    wrong = _wrong(found[inside], after[inside], largest=largest) + _noise(rows)
    length = _iterated(stages, np.zeros(rows.size), 1.0, largest=True)
    progress = (length - rows.back(length, largest=True))[inside].min() - _noise(rows) * length.max()
    if not progress > CERTAIN:
        return np.ones(rows.size)
    margin: Floats = wrong * length / progress
    return margin


def _noise(rows: IntervalRows) -> float:
    """Return the rounding error of the expected value of a row's next state, relative to the largest value."""
    return float(rows.noise.max())


def _wrong(found: Floats, after: Floats, *, largest: bool) -> float:
    """Return by how much one more step would go beyond the values found."""
    return max(0.0, float((after - found if largest else found - after).max()))


def staged(rows: IntervalRows, inside: Mask) -> list[IntervalRows]:
    """Return the rows in stages, each of which needs only values of those before it; one if they were too many."""
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
