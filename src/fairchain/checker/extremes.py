"""The largest and the smallest expectation over all chains between the bounds, by policy iteration.

The extreme chain is guessed, its linear equations solved, the guess improved until it stays. What is returned is
checked apart from how it was found: values that no chain between the bounds can make worse by one more step are
bounds, whatever they are (docs/queries.md).
"""

from __future__ import annotations

import numpy as np

from fairchain.checker.graph import Floats, Mask
from fairchain.checker.intervals import CERTAIN, IntervalRows, sums
from fairchain.checker.solve import SingularError, solve, system

MOST_GUESSES = 100
# A sum of products is off by about this much, relative to the largest value.
NOISE = 4e-16


def reached(rows: IntervalRows, inside: Mask, values: Floats, *, largest: bool) -> Floats:
    """A bound of the expected value, in [0, 1], of the state outside of `inside` that is reached.

    `inside` must be left with certainty, whichever chain between the bounds is the true one. The result is an upper
    bound if `largest`, else a lower one; in the states outside it is what was given.
    """
    if not inside.any():
        return values
    rows = rows.only(inside)
    found = _iterated(rows, inside, values, 0.0, largest=largest)
    margin = _margin(rows, inside, found, largest=largest)
    safe = np.minimum(found + margin, 1.0) if largest else np.maximum(found - margin, 0.0)
    result: Floats = np.where(inside, safe, values)
    return result


def steps(rows: IntervalRows, inside: Mask, values: Floats, *, largest: bool) -> Floats:
    """A bound of the expected number of steps until `inside` is left, plus the value of the state that is reached.

    An upper bound if `largest`, and then `inside` must be left with certainty; else a lower one, and `values` must
    hold for the states inside a number of steps that some chain between the bounds can do with.
    """
    if not inside.any():
        return values
    rows = rows.only(inside)
    found = _iterated(rows, inside, values, 1.0, largest=largest)
    after = 1 + rows.back(found, largest=largest)
    wrong = _wrong(found[inside], after[inside], largest=largest) + NOISE * found[inside].max()
    # Each step costs 1: making all costs a little larger covers what is wrong with one step of them.
    if not wrong < 0.5:
        factor = np.inf if largest else 0.0
    else:
        factor = 1 / (1 - wrong) if largest else 1 - wrong
    result: Floats = np.where(inside, found * factor, values)
    return result


def _iterated(rows: IntervalRows, inside: Mask, values: Floats, gain: float, *, largest: bool) -> Floats:
    """Policy iteration from given values; the last policy's."""
    best = rows.best(values, largest=largest)
    for _ in range(MOST_GUESSES):
        try:
            found = _solved(rows, inside, values, gain, best)
        except SingularError:
            return values
        better = rows.best(found, largest=largest)
        settled = np.abs(found[inside] - values[inside]).max() <= NOISE * np.abs(found[inside]).max()
        values = found
        if settled or np.array_equal(better, best):
            break
        best = better
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
    found[inside] = solve(system(coo_array(entries, shape=(size, size)).tocsr(), leaving), right)
    return found


def _margin(rows: IntervalRows, inside: Mask, found: Floats, *, largest: bool) -> Floats:
    """What to add to, or take from, values that one more step may change a little, so that no step can.

    With w at least 1 larger than its own largest expectation, an error of e in one step is covered by e * w.
    """
    after = rows.back(found, largest=largest)
    wrong = _wrong(found[inside], after[inside], largest=largest) + NOISE
    length = _iterated(rows, inside, np.zeros(rows.size), 1.0, largest=True)
    progress = (length - rows.back(length, largest=True))[inside].min()
    if not progress > CERTAIN:
        return np.ones(rows.size)
    margin: Floats = wrong * length / progress
    return margin


def _wrong(found: Floats, after: Floats, *, largest: bool) -> float:
    """By how much one more step would go beyond what was found."""
    return max(0.0, float((after - found if largest else found - after).max()))
