"""Linear equations of chains that are left with certainty: (I - Q) x = b, and the same for the transposed matrix.

States are taken in the order of their strongly connected components, what is reached first: without cycles that is
back substitution. Small components are inverted all at once; large ones are iterated where that is fast, which is
where factors would fill up, and factorised otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fairchain.checker.graph import Floats, Indices, components_of
from fairchain.errors import QueryError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Components up to this size are inverted as dense matrices, those up to the next are always factorised.
SMALL = 32
MIDDLE = 500
# When an iteration is good enough, relative to the answer, and how often it is tried before factors are.
TOLERANCE = 1e-14
# Beyond so many steps in one component less than six digits of an answer would be right.
MOST_STEPS = 1e10
ROUNDS = 4


class SingularError(ArithmeticError):
    """The equations have no single answer: a part of the chain is never left."""


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


def solve(matrix: csr_array, right: Floats) -> Floats:
    """Solve matrix @ x = right for x, for a matrix that `system` made, or its transpose.

    Raises
    ------
    SingularError
        If the matrix has no inverse.
    """
    if not matrix.shape[0]:
        return np.zeros_like(right, dtype=float)
    if (matrix.diagonal() <= 0).any():
        raise SingularError
    order, component = _order(matrix)
    ordered = matrix[order][:, order].tocsr()
    values = right[order].astype(float)
    stop = len(order)
    for start in _blocks(component)[::-1]:
        rows = ordered[start:stop]
        known = values[start:stop] - rows[:, stop:] @ values[stop:]
        values[start:stop] = _block(rows[:, start:stop], component[start:stop] - component[start], known)
        stop = start
    if not np.isfinite(values).all():
        raise SingularError
    answer = np.empty_like(values)
    answer[order] = values
    return answer


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


def _block(matrix: csr_array, component: Indices, right: Floats) -> Floats:
    """One block: small components, or a single large one."""
    size = matrix.shape[0]
    if size == 1:
        single: Floats = right / matrix.data[0]
        return single
    if size > SMALL and not component[-1]:
        if size > MIDDLE and (iterated := _iterated(matrix, right)) is not None:
            return iterated
        inverse = _factorised(matrix)
        _must_be_left_soon(matrix, inverse)
        return _refined(matrix, right, inverse)
    return _refined(matrix, right, _substituted(matrix, component))


def _must_be_left_soon(matrix: csr_array, inverse: Callable[[Floats], Floats]) -> None:
    """Refuse equations whose answers would lose all digits: the steps until a component is left say how many."""
    steps = float(np.abs(inverse(matrix.diagonal())).max())
    if not steps < MOST_STEPS:
        raise QueryError(
            f"a part of the chain with {matrix.shape[0]:,} states is left after {steps:.1g} steps on average, too many "
            "for the numbers of a computer; ask with a bound on the steps, such as F<=1000"
        )


def _refined(matrix: csr_array, right: Floats, inverse: Callable[[Floats], Floats]) -> Floats:
    """One step of refinement brings back digits that elimination lost."""
    values = inverse(right)
    return values + inverse(right - matrix @ values)


def _factorised(matrix: csr_array) -> Callable[[Floats], Floats]:
    from scipy.sparse.linalg import splu

    try:
        # Rows or columns are diagonally dominant: the pivots may stay where they are.
        factors = splu(matrix.tocsc(), diag_pivot_thresh=0.0)
    except RuntimeError:
        raise SingularError from None
    inverse: Callable[[Floats], Floats] = factors.solve
    return inverse


def _substituted(matrix: csr_array, component: Indices) -> Callable[[Floats], Floats]:
    """Back substitution, after each component's own equations are solved for its states."""
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import spsolve_triangular

    edges = matrix.tocoo()
    inside = component[edges.row] == component[edges.col]
    own = _inverse(edges.row[inside], edges.col[inside], edges.data[inside], component)
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
            raise SingularError from None
        places = first[chosen][:, None] + np.arange(size)
        found.append((inverse.ravel(), np.repeat(places, size, 1).ravel(), np.tile(places, (1, size)).ravel()))
    data, row, column = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return coo_array((data, (row, column)), shape=(len(component),) * 2).tocsr()


def _iterated(matrix: csr_array, right: Floats) -> Floats | None:
    """By a Krylov method; None if it does not get there quickly."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import bicgstab

    scale = 1 / matrix.diagonal()
    scaled = (diags_array(scale) @ matrix).tocsr()
    columns = right.reshape(len(right), -1)
    answer = np.zeros_like(columns)
    for number, column in enumerate(scale * columns.T):
        found, missing = answer[:, number], column
        for _ in range(ROUNDS):
            before = np.abs(missing).max()
            found = found + bicgstab(scaled, missing, rtol=1e-10, maxiter=100)[0]
            missing = column - scaled @ found
            if np.abs(missing).max() <= TOLERANCE * np.abs(found).max():
                answer[:, number] = found
                break
            if not np.abs(missing).max() < before / 100:
                return None
        else:
            return None
    return answer.reshape(right.shape)
