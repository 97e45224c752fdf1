"""Linear equations of chains that are left with certainty: (I - Q) x = b, and the same for the transposed matrix.

States are taken in the order of their strongly connected components, what is reached first: without cycles that is
back substitution. Small components are inverted all at once; large ones are iterated (`iterate`) where that is fast,
which is where factors would fill up, and factorised otherwise, unless that would take too much memory. What either
finds is checked: the residual, times the expected steps until the part is left, bounds the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fairchain.errors import QueryError
from fairchain.pctl.graph import Floats, Indices, components_of
from fairchain.pctl.iterate import iterated

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# So few states are solved as one dense matrix: looking for components takes longer.
DENSE = 48
# Components up to this size are inverted as dense matrices, those up to the next are always factorised.
SMALL = 32
MIDDLE = 500
# Products in a round of an iteration before factors are tried.
MOST_PRODUCTS = 100
# With no more multiplications than this elimination is the fastest way; where it would take more than the next the
# iteration goes on, for so many of its own.
EASY = 1e8
MOST_ELIMINATING = 1e11
MOST_ITERATING = 4e8
# Beyond so many steps in one component less than six digits of an answer would be right.
MOST_STEPS = 1e10
ACCURATE = 1e-6
EPSILON = float(np.finfo(float).eps)


class UnsolvedError(QueryError):
    """The equations of a part of the chain cannot be solved with the digits, the time and the memory there are."""


class NeverLeftError(UnsolvedError):
    """A part of the chain is left so rarely that its equations have no answer in floating numbers."""

    def __init__(self, size: int, steps: float = math.inf) -> None:
        often = f"after {steps:.1g} steps" if math.isfinite(steps) else "after very many steps"
        super().__init__(
            f"a part of the chain with {size:,} states is left {often} on average, too many for the numbers of a "
            "computer; ask with a bound on the steps, such as F<=1000"
        )


class TooManySlowError(UnsolvedError):
    """Each part is right to six digits, and all of them together may not be."""

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count:,} parts of the chain, one behind the other, are left so slowly that the numbers of a computer do "
            "not give six digits of the answer; ask with a bound on the steps, such as F<=1000"
        )


class TooDenseError(UnsolvedError):
    """An iteration does not converge, and factors would fill the memory."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"a part of the chain with {size:,} states leads from everywhere to everywhere, and its equations cannot "
            "be solved in reasonable time; ask with a bound on the steps, such as F<=1000"
        )


def system(inner: csr_array, leaving: Floats) -> csr_array:
    """I - Q for the transitions among some states, given with what leaves them in each row.

    The diagonal is what leaves a state, added up; subtracting a loop's probability from 1 would lose its digits.
    """
    from scipy.sparse import coo_array

    edges = inner.tocoo()
    other = edges.row != edges.col
    rows, columns, weights = edges.row[other], edges.col[other], edges.data[other]
    size = inner.shape[0]
    diagonal = leaving + np.bincount(rows, weights, minlength=size)
    every = np.arange(size)
    entries = (np.concatenate([-weights, diagonal]), (np.concatenate([rows, every]), np.concatenate([columns, every])))
    return coo_array(entries, shape=inner.shape).tocsr()


def solve(matrix: csr_array, right: Floats, leaving: Floats | None = None) -> Floats:
    """Solve matrix @ x = right for x, for a matrix that `system` made, or its transpose.

    With what leaves the states, for values and not for the transpose, the errors of all parts together are bounded,
    rounding included, where the right side has no negative entries. Without, each large part is checked for itself.

    Raises
    ------
    UnsolvedError
        If the matrix has no inverse, or nearly none, or is too large for what it is like.
    """
    if not matrix.shape[0]:
        return np.zeros_like(right, dtype=float)
    if (matrix.diagonal() <= 0).any():
        raise NeverLeftError(matrix.shape[0])
    if matrix.shape[0] <= DENSE:
        return _dense(matrix, right, leaving)
    order, component = _order(matrix)
    ordered = matrix[order][:, order].tocsr()
    values = right[order].astype(float)
    left = None if leaving is None else leaving[order]
    stop = len(order)
    errors = []
    for start in _blocks(component)[::-1]:
        rows = ordered[start:stop]
        known = values[start:stop] - rows[:, stop:] @ values[stop:]
        # Seen from the block, what leads behind it leaves as well; those entries are negative.
        ways = None if left is None else left[start:stop] - rows[:, stop:].sum(axis=1)
        block = rows[:, start:stop]
        if component[stop - 1] == component[start] and stop - start > SMALL:
            values[start:stop], error = _large(block, known, ways)
        else:
            values[start:stop], error = _small(block, component[start:stop] - component[start], known, ways)
        # What is behind was added up before.
        adding = EPSILON * np.diff(rows.indptr).max() * np.abs(values[start:stop]).max(axis=0)
        errors.append(error + adding)
        stop = start
    if not np.isfinite(values).all():
        raise NeverLeftError(matrix.shape[0])
    # A part averages what is behind it, so the errors of parts add up and do not grow otherwise.
    if leaving is not None and _inaccurate(np.sum(errors, axis=0), values):
        sizes = np.bincount(component)
        slow = int((sizes > 1).sum())
        raise TooManySlowError(slow) if slow > 1 else NeverLeftError(int(sizes.max()))
    answer = np.empty_like(values)
    answer[order] = values
    return answer


def stationary(matrix: Floats) -> Floats:
    """How often each state is visited, relative to the most visited, in a chain whose states all reach each other.

    States are eliminated one by one without a subtraction, so that rare states are as exact as others; for small
    chains, since every step fills the matrix.
    """
    matrix = matrix.copy()
    size = len(matrix)
    for last in range(size - 1, 0, -1):
        matrix[:last, last] /= matrix[last, :last].sum()
        matrix[:last, :last] += np.outer(matrix[:last, last], matrix[last, :last])
    visits = np.ones(size)
    for state in range(1, size):
        visits[state] = visits[:state] @ matrix[:state, state]
        visits[: state + 1] /= visits[: state + 1].max()
    return visits


def _dense(matrix: csr_array, right: Floats, leaving: Floats | None) -> Floats:
    full = matrix.toarray()
    try:
        values, error = _refined(matrix, right.astype(float), lambda known: np.linalg.solve(full, known), leaving)
        steps = np.linalg.solve(full, np.diag(full))
    except np.linalg.LinAlgError:
        raise NeverLeftError(matrix.shape[0]) from None
    _must_be_left_soon(steps)
    if not np.isfinite(values).all():
        raise NeverLeftError(matrix.shape[0])
    if _inaccurate(error, values):
        raise NeverLeftError(matrix.shape[0], float(steps.max()))
    return values


def _order(matrix: csr_array) -> tuple[Indices, Indices]:
    """States in an order in which edges between components lead ahead, and the number of each one's component."""
    edges = matrix.tocoo()
    count, component = components_of(matrix.shape[0], edges.row, edges.col)
    rank = _ranks(count, component[edges.row], component[edges.col])[component]
    order = np.argsort(rank, kind="stable")
    return order, rank[order]


def _blocks(component: Indices) -> Indices:
    """Where blocks begin: a large component is one, and so is everything between two of them."""
    sizes = np.bincount(component)
    large = sizes > SMALL
    first = np.concatenate([[True], large[1:] | large[:-1]])
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    starts: Indices = begins[first]
    return starts


def _ranks(count: int, sources: Indices, targets: Indices) -> Indices:
    """A number for each component such that edges lead to larger ones."""
    if (sources <= targets).all():
        return np.arange(count)
    if (sources >= targets).all():
        return np.arange(count)[::-1]
    return topological(count, sources, targets)


def topological(count: int, sources: Indices, targets: Indices) -> Indices:
    """Ranks for a graph that has no cycles besides loops: edges lead to larger ranks."""
    other = sources != targets
    sources, targets = sources[other], targets[other]
    by_source = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[by_source], np.arange(count + 1))
    followers = targets[by_source].tolist()
    waiting = np.bincount(targets, minlength=count).tolist()
    ready = [node for node in range(count) if not waiting[node]]
    for node in ready:
        for follower in followers[starts[node] : starts[node + 1]]:
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    ranks = np.empty(count, np.intp)
    ranks[ready] = np.arange(count)
    return ranks


def _small(matrix: csr_array, component: Indices, right: Floats, leaving: Floats | None) -> tuple[Floats, Floats]:
    """Small components, one after the other, and how much the values of each column may be off."""
    if matrix.shape[0] == 1:
        single: Floats = right / matrix.data[0]
        return single, EPSILON * np.abs(single[0])
    return _refined(matrix, right, _substituted(matrix, component), leaving)


def _large(matrix: csr_array, right: Floats, leaving: Floats | None) -> tuple[Floats, Floats]:
    """A single large component, and how much the values of each column may be off."""
    size = matrix.shape[0]
    columns = np.column_stack([right, matrix.diagonal()])
    effort = _elimination(matrix) if size > MIDDLE else 0.0
    values = iterated(matrix, columns, MOST_PRODUCTS) if effort > EASY else None
    if values is None and effort > MOST_ELIMINATING:
        values = iterated(matrix, columns, MOST_PRODUCTS, grouped=True)
        if values is None:
            values = iterated(matrix, columns, int(MOST_ITERATING / matrix.nnz))
        if values is None:
            raise TooDenseError(size)
    if values is None:
        inverse = _factorised(matrix)
        values = inverse(columns)
        values = values + inverse(_residual(matrix, columns, values, leaving)[0])
    error = _largest_error(matrix, columns, values, leaving)
    return values[:, :-1].reshape(right.shape), error.reshape(right.shape[1:])


def _elimination(matrix: csr_array) -> float:
    """About how many multiplications elimination takes at most, from the width of a band that holds all entries."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    place = np.empty(matrix.shape[0], np.intp)
    place[reverse_cuthill_mckee(matrix)] = np.arange(matrix.shape[0])
    edges = matrix.tocoo()
    rows, columns = place[edges.row], place[edges.col]
    first = np.arange(matrix.shape[0])
    np.minimum.at(first, np.maximum(rows, columns), np.minimum(rows, columns))
    return float(np.square(np.arange(matrix.shape[0]) - first, dtype=float).sum())


def _largest_error(matrix: csr_array, right: Floats, values: Floats, leaving: Floats | None) -> Floats:
    """How much the values of each column but the last may be off; refused if that is the sixth digit of the largest.

    The matrix A has an inverse without negative entries. So if A v >= c > 0 for a v > 0, and no equation is missed by
    more than r, then no value is off by more than r v / c; v, the last column, is the steps until the part is left.
    """
    steps = values[:, -1]
    _must_be_left_soon(steps)
    residual, inside, ends = _residual(matrix, right, values, leaving)
    missed = np.abs(residual) + inside
    # The inverse times what leaves is 1, and times the right side the values: for them rounding at the ends counts once
    # and not for every step. The last column's equations have the diagonal on their right side.
    missed[:, -1] += ends[:, -1]
    missed = (missed / matrix.diagonal()[:, None]).max(axis=0)
    progress = 1 - missed[-1]
    if steps.min() <= 0 or not progress > 0:
        raise NeverLeftError(len(steps))
    largest = np.abs(values[:, :-1]).max(axis=0)
    once = 2 * EPSILON * (np.diff(matrix.indptr).max() + 3) * largest
    error: Floats = missed[:-1] * (steps.max() / progress) + once
    if _inaccurate(error, values[:, :-1]):
        raise NeverLeftError(len(steps))
    return error


def _inaccurate(error: Floats, values: Floats) -> bool:
    return not (error <= ACCURATE * np.abs(values).max(axis=0)).all()


def _residual(
    matrix: csr_array, right: Floats, values: Floats, leaving: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """By how much the equations are missed, and how far rounding may change that: within the part, and at its ends.

    What leaves a state is known better than the rounded diagonal tells: x_i times the diagonal, minus the others, is
    x_i times what leaves, plus the differences x_i - x_j weighted, which are small where a part is left slowly.
    """
    if leaving is None:
        return right - matrix @ values, np.zeros_like(values), np.zeros_like(values)
    entries = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(entries)), entries)
    across = (-1,) + (1,) * (values.ndim - 1)
    # The diagonal itself has the difference 0, and there is one in every row.
    flows = -matrix.data.reshape(across) * (values[rows] - values[matrix.indices])
    out = leaving.reshape(across) * values
    first = matrix.indptr[:-1]
    residual = right - out - np.add.reduceat(flows, first, axis=0)
    unit = EPSILON * (entries + 3).reshape(across)
    inside = unit * np.add.reduceat(np.abs(flows), first, axis=0)
    return residual, inside, unit * (np.abs(right) + np.abs(out))


def _must_be_left_soon(steps: Floats) -> None:
    """Refuse equations whose answers would lose all digits: the steps until a component is left say how many."""
    most = float(np.abs(steps).max())
    if not most < MOST_STEPS:
        raise NeverLeftError(len(steps), most)


def _refined(
    matrix: csr_array, right: Floats, inverse: Callable[[Floats], Floats], leaving: Floats | None
) -> tuple[Floats, Floats]:
    """One step of refinement brings back digits that elimination lost; the error is what is still missed, solved for.

    Nothing is said of it where it is not known what leaves the states.
    """
    values = inverse(right)
    values = values + inverse(_residual(matrix, right, values, leaving)[0])
    if leaving is None:
        return values, np.zeros(right.shape[1:])
    residual, inside, ends = _residual(matrix, right, values, leaving)
    error: Floats = np.abs(inverse(np.abs(residual) + inside + ends)).max(axis=0)
    return values, error


def _factorised(matrix: csr_array) -> Callable[[Floats], Floats]:
    from scipy.sparse.linalg import splu

    try:
        # Rows or columns are diagonally dominant: the pivots may stay where they are, so that the pattern of the matrix
        # and its transpose says where factors fill.
        factors = splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
    except RuntimeError:
        raise NeverLeftError(matrix.shape[0]) from None
    inverse: Callable[[Floats], Floats] = factors.solve
    return inverse


def _substituted(matrix: csr_array, component: Indices) -> Callable[[Floats], Floats]:
    """Back substitution, after each component's own equations are solved for its states."""
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import spsolve_triangular

    edges = matrix.tocoo()
    inside = component[edges.row] == component[edges.col]
    own = _inverse(edges.row[inside], edges.col[inside], edges.data[inside], component)
    _must_be_left_soon(own @ matrix.diagonal())
    between = (edges.data[~inside], (edges.row[~inside], edges.col[~inside]))
    ahead = own @ coo_array(between, shape=matrix.shape).tocsr()
    triangle = (ahead + eye_array(matrix.shape[0], format="csr")).tocsr()

    def inverse(right: Floats) -> Floats:
        solved: Floats = spsolve_triangular(triangle, own @ right, lower=False, unit_diagonal=True)
        return solved

    return inverse


def _inverse(rows: Indices, columns: Indices, weights: Floats, component: Indices) -> csr_array:
    """The inverse of a matrix that has entries only inside of components, all components of one size at a time."""
    from scipy.sparse import coo_array

    sizes = np.bincount(component)
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    found: list[tuple[Floats, Indices, Indices]] = []
    for size in np.unique(sizes):
        chosen = np.flatnonzero(sizes == size)
        number = np.full(len(sizes), -1)
        number[chosen] = np.arange(len(chosen))
        mine = sizes[component[rows]] == size
        row, column = rows[mine], columns[mine]
        dense = np.zeros((len(chosen), size, size))
        start = first[component[row]]
        dense[number[component[row]], row - start, column - start] = weights[mine]
        try:
            inverse = 1 / dense if size == 1 else np.linalg.inv(dense)
        except np.linalg.LinAlgError:
            raise NeverLeftError(int(size)) from None
        places = first[chosen][:, None] + np.arange(size)
        found.append((inverse.ravel(), np.repeat(places, size, 1).ravel(), np.tile(places, (1, size)).ravel()))
    data, row, column = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return coo_array((data, (row, column)), shape=(len(component),) * 2).tocsr()
