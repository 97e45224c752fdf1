"""Linear equations of chains that are left with certainty: (I - Q) x = b, and the same for the transposed matrix.

States are taken in the order of their strongly connected components, what is reached first: without cycles that is
back substitution. Runs of small components are one compiled elimination, large ones are factorised one by one, or
iterated where the factors would fill up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fairchain.checker.graph import Floats, Indices, components_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Components up to this size are eliminated together, in the order of the states.
SMALL = 200
# Entries that the factors of a large component may have; beyond, it is iterated.
MOST_FILL = 40_000_000
# Relative residual and rounds of the iteration.
TOLERANCE = 1e-14
ROUNDS = 20


class Singular(ArithmeticError):
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
    """X with matrix @ x = right, for a matrix that `system` made, or its transpose.

    Raises
    ------
    Singular
        If the matrix has no inverse.
    """
    if not matrix.shape[0]:
        return np.zeros_like(right, dtype=float)
    if (matrix.diagonal() <= 0).any():
        raise Singular
    order, ends = _order(matrix)
    ordered = matrix[order][:, order].tocsr()
    values = right[order].astype(float)
    start = len(order)
    for begin in ends[::-1]:
        rows = ordered[begin:start]
        known = values[begin:start] - rows[:, start:] @ values[start:]
        values[begin:start] = _block(rows[:, begin:start], known, whole=start - begin > SMALL)
        start = begin
    if not np.isfinite(values).all():
        raise Singular
    answer = np.empty_like(values)
    answer[order] = values
    return answer


def _order(matrix: csr_array) -> tuple[Indices, Indices]:
    """States in an order in which edges between components lead ahead, and where each block of them begins."""
    edges = matrix.tocoo()
    count, component = components_of(matrix.shape[0], edges.row, edges.col)
    rank = _ranks(count, component[edges.row], component[edges.col])[component]
    order = np.argsort(rank, kind="stable")
    sizes = np.bincount(rank)
    large = sizes > SMALL
    # A large component is a block of its own; everything between two of them is one block.
    first = np.concatenate([[True], large[1:] | large[:-1]])
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return order, begins[first]


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


def _block(matrix: csr_array, right: Floats, *, whole: bool) -> Floats:
    """One block: a run of small components, or a `whole` large one."""
    from scipy.sparse.linalg import splu

    if matrix.shape[0] == 1:
        single: Floats = right / matrix.data[0]
        return single
    if whole and _fill(matrix) > MOST_FILL:
        return _iterated(matrix, right)
    # Rows are diagonally dominant: the pivots may stay where they are.
    options: dict[str, Any] = {"diag_pivot_thresh": 0.0} if whole else {"diag_pivot_thresh": 0.0, "permc_spec": "NATURAL"}
    try:
        factors = splu(matrix.tocsc(), **options)
    except RuntimeError:
        raise Singular from None
    values: Floats = factors.solve(right)
    # One step of refinement brings back what elimination lost.
    return values + factors.solve(right - matrix @ values)


def _fill(matrix: csr_array) -> int:
    """About how many entries the factors have at most: the profile after ordering by breadth."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    place = np.empty(matrix.shape[0], np.intp)
    place[reverse_cuthill_mckee(matrix, symmetric_mode=False)] = np.arange(matrix.shape[0])
    edges = matrix.tocoo()
    width = np.zeros(matrix.shape[0], np.intp)
    np.maximum.at(width, place[edges.row], np.abs(place[edges.row] - place[edges.col]))
    return int(2 * width.sum())


def _iterated(matrix: csr_array, right: Floats) -> Floats:
    """By a preconditioned Krylov method; graphs whose factors fill up are those on which it is fast."""
    from scipy.sparse.linalg import LinearOperator, gmres, spilu

    rough = spilu(matrix.tocsc(), drop_tol=1e-3, fill_factor=3, diag_pivot_thresh=0.0)
    operator = LinearOperator(matrix.shape, rough.solve)
    columns = right.reshape(len(right), -1)
    answer = np.zeros_like(columns)
    for number in range(columns.shape[1]):
        for _ in range(ROUNDS):
            missing = columns[:, number] - matrix @ answer[:, number]
            if np.abs(missing).max() <= TOLERANCE * max(np.abs(answer[:, number]).max(), 1e-300):
                break
            step, _ = gmres(matrix, missing, rtol=1e-8, maxiter=10, restart=50, M=operator)
            answer[:, number] += step
    return answer.reshape(right.shape)
