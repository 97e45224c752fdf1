"""Finite input spaces: every input with its exact weight, a product of integer factors of few features each.

A `FiniteSpace` lists the values of each column and the factors whose product is the weight of an input: one factor for
each feature of independent features, one for each node of a Bayesian network. Weights are whole numbers, and
probabilities are quotients of their sums, so nothing is rounded. If a weight is not a rational number, two spaces
enclose it. Columns are summed out by variable elimination (docs/mathematics-exact.md, "Finite input spaces").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce
from math import gcd, lcm, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Largest number of cells of one factor.
MOST_FACTOR_CELLS = 2**22

# Whole numbers of any size: an array of Python integers.
Weights = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Factor:
    """A part of the weight of an input that depends on these columns only: `weights` has an axis for each of them."""

    columns: tuple[int, ...]
    weights: Weights


@dataclass(frozen=True, eq=False)
class FiniteSpace:
    """All inputs of a finite population, with their weights.

    `values` has the values of each column, one array for each feature of the spec. The product of `factors` at an input
    is its weight: a whole number, in a unit that the whole space shares. If the weights are not rational, this product
    is at most the true weight, and that of `upper` at least; otherwise `upper` is None.
    """

    values: tuple[NDArray[np.float64], ...]
    factors: tuple[Factor, ...]
    upper: tuple[Factor, ...] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(map(len, self.values))

    @property
    def points(self) -> int:
        """The number of inputs, including those of weight 0."""
        return prod(self.sizes)

    @property
    def measures(self) -> tuple[tuple[Factor, ...], ...]:
        """The factors of the exact weights, or those of their lower and of their upper bounds."""
        return (self.factors,) if self.upper is None else (self.factors, self.upper)

    def marginal(self, factors: Sequence[Factor], columns: Sequence[int]) -> Weights:
        """Return the sums of the product of factors over all other columns: an array with an axis for each of these.

        The column whose product of factors is smallest is summed out next.
        """
        left = [Factor((column,), _ones(np.ones(len(self.values[column]), bool))) for column in columns]
        left += factors
        held = {column for factor in left for column in factor.columns}
        unheld = prod(size for column, size in enumerate(self.sizes) if column not in held)
        todo = held.difference(columns)
        while todo:
            column = min(sorted(todo), key=partial(_joint_cells, left, self.sizes))
            todo.discard(column)
            left = list(_merged(left, column, None, 1))
        joint = factor_product(left)
        found: Weights = joint.weights.transpose([joint.columns.index(column) for column in columns]) * unheld
        return found

    def where(self, columns: Sequence[int], holds: Callable[[NDArray[np.float64]], NDArray[np.bool_]]) -> FiniteSpace:
        """Return the space in which inputs that violate a condition on these columns have weight 0.

        `holds` takes rows of all columns, (rows, columns), but depends on `columns` only.
        """
        sizes = [len(self.values[column]) for column in columns]
        _check_cells(prod(sizes))
        rows = np.repeat(np.array([[values[0] for values in self.values]]), prod(sizes), axis=0)
        for column, index in zip(columns, np.indices(sizes).reshape(len(sizes), -1), strict=True):
            rows[:, column] = self.values[column][index]
        factor = Factor(tuple(columns), _ones(holds(rows).reshape(sizes)))
        upper = None if self.upper is None else (*self.upper, factor)
        return replace(self, factors=(*self.factors, factor), upper=upper)

    def merged(self, column: int, numbers: Sequence[int] | None = None) -> FiniteSpace:
        """Return the space in which values of a column with the same number count as one, the first of them.

        `numbers` has for each value the number of its class, 0, 1, ...; by default all are one class.
        """
        size = len(self.values[column])
        classes = np.zeros(size, np.intp) if numbers is None else np.asarray(numbers, np.intp)
        count = int(classes.max()) + 1
        if count == size:
            return self
        first = np.array([int(np.argmax(classes == number)) for number in range(count)])
        values = list(self.values)
        values[column] = values[column][first]
        return FiniteSpace(tuple(values), *(_merged(factors, column, classes, count) for factors in self.measures))


class TooManyCellsError(Exception):
    """A factor would have more cells than `MOST_FACTOR_CELLS`."""


def _check_cells(cells: int) -> None:
    if cells > MOST_FACTOR_CELLS:
        raise TooManyCellsError


def _ones(mask: NDArray[np.bool_]) -> Weights:
    return mask.astype(np.int64).astype(object)


def whole_weights(shares: Iterable[Fraction]) -> Weights:
    """Return whole numbers in the same proportions as these shares."""
    shares = list(shares)
    unit = lcm(*(share.denominator for share in shares))
    numbers = [int(share * unit) for share in shares]
    common = gcd(*numbers) or 1
    weights = np.empty(len(numbers), object)
    weights[:] = [number // common for number in numbers]
    return weights


def without(factor: Factor, columns: Collection[int]) -> Factor:
    """Return a factor without these columns, each of which has a single value."""
    gone = tuple(axis for axis, column in enumerate(factor.columns) if column in columns)
    kept = tuple(column for column in factor.columns if column not in columns)
    return Factor(kept, factor.weights.squeeze(axis=gone) if gone else factor.weights)


def factor_product(factors: Sequence[Factor]) -> Factor:
    """Return one factor that is the product of several."""
    columns = tuple(dict.fromkeys(column for factor in factors for column in factor.columns))
    sizes = {c: size for factor in factors for c, size in zip(factor.columns, factor.weights.shape, strict=True)}
    _check_cells(prod(sizes.values()))

    def spread(factor: Factor) -> Weights:
        inside = [column for column in columns if column in factor.columns]
        axes = [factor.columns.index(column) for column in inside]
        shape = [sizes[column] if column in factor.columns else 1 for column in columns]
        return factor.weights.transpose(axes).reshape(shape)

    found = reduce(np.multiply, map(spread, factors), np.ones((1,) * len(columns), np.int64).astype(object))
    return Factor(columns, np.broadcast_to(found, tuple(sizes[column] for column in columns)))


def _joint_cells(factors: Sequence[Factor], sizes: Sequence[int], column: int) -> int:
    """Return the cells of the product of all factors that have a column."""
    joined = {each for factor in factors if column in factor.columns for each in factor.columns}
    return prod(sizes[each] for each in joined)


def _merged(factors: Sequence[Factor], column: int, classes: NDArray[np.intp] | None, count: int) -> tuple[Factor, ...]:
    """Return factors in which classes of a column's values are summed; without classes the column is removed."""
    touched = [factor for factor in factors if column in factor.columns]
    joint = factor_product(touched)
    axis = joint.columns.index(column)
    if classes is None:
        summed = Factor(joint.columns[:axis] + joint.columns[axis + 1 :], np.asarray(joint.weights.sum(axis=axis)))
    else:
        parts = [np.compress(classes == number, joint.weights, axis=axis).sum(axis=axis) for number in range(count)]
        summed = Factor(joint.columns, np.stack(parts, axis=axis))
    return (*(factor for factor in factors if column not in factor.columns), summed)
