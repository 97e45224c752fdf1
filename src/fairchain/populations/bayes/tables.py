"""Tables of conditional probabilities: their limits, their keys and their rows, wherever they were read from.

A row belongs to a combination of the parents' values and is found by its key, the values joined by ", " in the order
of the parents. Keys are made from the values and compared, never taken apart, so a value may contain ", " itself.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

# What a network may have at most; more is refused before memory is asked for.
MOST_NODES = 10_000
MOST_CELLS = 2_000_000
# How far the sum of a row may be from 1, for rounding in the file; the row is then divided by its sum.
TOLERANCE = 1e-6

Value = str | int
Item = TypeVar("Item", bound=Hashable)


def key_of(combination: Iterable[Value]) -> str:
    """The key of one combination of the parents' values: `Female, White`."""
    return ", ".join(str(value) for value in combination)


def keys_of(parents: Sequence[Sequence[Value]]) -> Iterator[str]:
    """The keys of all combinations, the last parent's value changing fastest; one empty key without parents."""
    return (key_of(combination) for combination in product(*parents))


def combinations(parents: Sequence[Sequence[Value]]) -> int:
    """How many combinations there are; 1 without parents."""
    return math.prod(len(values) for values in parents)


def row_problem(row: Sequence[float], values: Sequence[Value]) -> str | None:
    """What is wrong with the probabilities of these values, and what to write; None if nothing is."""
    if len(row) != len(values):
        return f"found {len(row)} probabilities for {len(values)} values ({some(values)}); write one for each"
    for probability, value in zip(row, values, strict=True):
        if not (math.isfinite(probability) and probability >= 0):
            return f'the probability of "{value}" is {probability:g}; write a number from 0 to 1'
    total = sum(row)
    if abs(total - 1) > TOLERANCE:
        return f"the probabilities of {some(values)} sum to {total:.9g}; write numbers that sum to 1"
    return None


def cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Running sums along the last axis, which end in exactly 1.

    Summed as whole multiples of 2**-62, so that neither length nor order of the summation costs digits: each step is
    as high as its probability within the 2**-53 that the random numbers resolve.
    """
    steps = np.rint(probabilities * 2.0**62).astype(np.uint64)
    sums = np.cumsum(steps, axis=-1, dtype=np.uint64).astype(np.float64)
    quotients: NDArray[np.float64] = sums / sums[..., -1:]
    return quotients


def repeated(items: Iterable[Item]) -> Item | None:
    """The first item that was there before."""
    seen: set[Item] = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


def near(name: str, known: Sequence[str]) -> str:
    """`did you mean "x"?` if something is near, else some of what there is."""
    same = [each for each in known if _plain(each) == _plain(name)]
    close = same or get_close_matches(name, known, n=1)
    return f'did you mean "{close[0]}"?' if close else f"there is {some(known)}"


def _plain(name: str) -> str:
    """A name without what is mistaken most easily: capitals, blanks and what is written in their place."""
    return name.casefold().translate({ord(mark): None for mark in " _-."})


def some(names: Sequence[object], most: int = 8) -> str:
    """The first few names."""
    shown = ", ".join(str(name) for name in names[:most])
    return f"{shown}, ..." if len(names) > most else shown
