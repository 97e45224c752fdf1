"""Linear equations of transient states: (I - Q) x = b for values, and (I - Q)^T y = b for expected visits.

Strongly connected components are solved one after the other; without cycles this is back substitution. Components of up
to ELIMINATED states are eliminated without subtraction (Grassmann, Taksar and Heyman), so that every entry has a small
relative error however rarely the component is left. Larger ones are factorised (`splu`), and the residual times the
expected steps until the component is left bounds the error. Equations that need more work are left to Storm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from fairchain.chain.chain import with_int_indices
from fairchain.errors import QueryError
from fairchain.pctl.graph import Floats, Indices, components_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Up to this many states are eliminated as one dense matrix: finding components takes longer.
MOST_DENSE_STATES = 48
# Components up to SMALL states are inverted in batches of one size, those up to ELIMINATED one by one.
SMALL = 32
ELIMINATED = 300
# Multiplications, estimated from the bandwidth, above which a component is not factorised.
MOST_FACTORISING = 1e11
# Factors lose all but six digits beyond this many expected steps; elimination loses none until numbers underflow.
MOST_EXPECTED_STEPS = 1e10
MOST_ELIMINATED_STEPS = 1e250
ACCURATE = 1e-6
EPSILON = float(np.finfo(float).eps)
BOUND_STEPS = "use a bound on the steps, such as F<=1000"


LEFT_TOO_RARELY = (
    "a part of the chain with {size:,} states is left {often} on average, too many for floating-point numbers; "
    "{bound_steps}"
)
TOO_LARGE_TO_FACTORISE = (
    "the equations of a part of the chain with {leaving_count:,} states cannot be factorised in reasonable time; use "
    'engine="storm" (--engine storm), or {bound_steps}'
)
ROUNDING_ADDS_UP = (
    "the rounding errors of {parts:,} consecutive parts of the chain may add up to more than the sixth digit; "
    "{bound_steps}"
)


class UnsolvedError(QueryError):
    """The equations of a component cannot be solved to six digits in floating point, or not in reasonable time."""


def _never_left(size: int, steps: float = math.inf) -> UnsolvedError:
    often = f"after {steps:.1g} steps" if math.isfinite(steps) else "after very many steps"
    return UnsolvedError(LEFT_TOO_RARELY.format(size=size, often=often, bound_steps=BOUND_STEPS))


def solve(inner: csr_array, leaving: Floats, right: Floats, *, visits: bool = False) -> Floats:
    """Solve (I - Q) x = right for the transitions Q among transient states.

    Parameters
    ----------
    inner
        (n, n): Q. Its diagonal is not used: 1 minus a loop's probability is computed as the sum of the other
        transitions, without cancellation.
    leaving
        (n,): the probability that each state leaves Q.
    right
        (n,) or (n, columns), not negative.
    visits
        Solve the transposed equations instead: expected visits to each state, from the expected entries `right`.

    Raises
    ------
    UnsolvedError
        If the solution is not accurate to six digits of its largest entry, or would take too long. For visits each
        factorised component is checked separately.
    """
    from scipy.sparse import coo_array

    if not len(leaving):
        return np.zeros_like(right, dtype=float)
    values = right.reshape(len(right), -1).astype(float)
    edges = inner.tocoo()
    other = edges.row != edges.col
    rates = coo_array((edges.data[other], (edges.row[other], edges.col[other])), shape=inner.shape).tocsr()
    if len(leaving) <= MOST_DENSE_STATES:
        return _eliminated(rates.toarray(), leaving, values, visits=visits).reshape(right.shape)
    count, component = components_of(len(leaving), edges.row, edges.col)
    # Edges lead to components with smaller numbers; for the transpose, to larger ones.
    component = count - 1 - component
    order = np.argsort(component, kind="stable")
    component = component[order]
    rates, leaving, values = rates[order][:, order].tocsr(), leaving[order], values[order]
    used = rates.T.tocsr() if visits else rates
    # A large component is a block, and so is everything between two of them.
    sizes = np.bincount(component)
    large = sizes > SMALL
    begins = np.cumsum(sizes) - sizes
    starts = begins[np.append(True, large[1:] | large[:-1])].tolist()
    blocks = list(pairwise([*starts, len(order)]))
    errors = np.zeros(values.shape[1])
    for start, stop in blocks if visits else blocks[::-1]:
        block, solved = slice(start, stop), slice(0, start) if visits else slice(stop, None)
        known = values[block] + used[block][:, solved] @ values[solved]
        among, out = rates[block, start:stop], leaving[block] + rates[block, stop:].sum(axis=1)
        if component[stop - 1] != component[start] or stop - start <= SMALL:
            values[block], error = _small(among, out, component[block] - component[start], known, visits=visits)
        elif stop - start <= ELIMINATED:
            values[block] = _eliminated(among.toarray(), out, known, visits=visits)
            error = _rounding(values[block], np.array([stop - start]))
        else:
            values[block], error = _factorised(among, out, known, visits=visits)
        errors += error
    if not np.isfinite(values).all():
        raise _never_left(len(order))
    # A component averages the values after it, so errors of components add up but are not amplified.
    if not visits and _inaccurate(errors, values):
        parts = int((sizes > 1).sum())
        raise UnsolvedError(ROUNDING_ADDS_UP.format(parts=parts, bound_steps=BOUND_STEPS))
    answer = np.empty_like(values)
    answer[order] = values
    return answer.reshape(right.shape)


def _eliminated(rates: Floats, leaving: Floats, right: Floats, *, visits: bool = False) -> Floats:
    """Solve by elimination without subtraction (GTH), for one dense matrix or a stack of them.

    `rates` is (..., n, n) with an unused diagonal, `leaving` (..., n), `right` (..., n, columns); none is negative.
    """
    size = rates.shape[-1]
    # One more column, the expected steps, shows how often the component is left; for A^T it is as large.
    total = leaving + rates.sum(axis=-1)
    rates, leaving = rates.copy(), leaving.copy()
    right = np.concatenate([right, total[..., None]], axis=-1)
    pivots = np.empty_like(leaving)
    with np.errstate(all="ignore"):
        for last in range(size - 1, -1, -1):
            pivots[..., last] = leaving[..., last] + rates[..., last, :last].sum(axis=-1)
            pivot = pivots[..., last, None]
            into, ahead = rates[..., :last, last], rates[..., last, :last] / pivot
            moved = right[..., last, None, :]
            if visits:
                right[..., :last, :] += ahead[..., None] * moved
            else:
                right[..., :last, :] += into[..., None] * (moved / pivot[..., None])
            leaving[..., :last] += into * (leaving[..., last, None] / pivot)
            rates[..., :last, :last] += into[..., None] * ahead[..., None, :]
        for state in range(size):
            weights = rates[..., :state, state] if visits else rates[..., state, :state]
            # Not a matrix product: a linear algebra library starts threads for it, which wait for each other.
            known = right[..., state, :] + np.einsum("...i,...ic->...c", weights, right[..., :state, :])
            right[..., state, :] = known / pivots[..., state, None]
    most = float(right[..., -1].max())
    if not most < MOST_ELIMINATED_STEPS or not np.isfinite(right).all():
        raise _never_left(size, most)
    solution: Floats = right[..., :-1]
    return solution


def _rounding(values: Floats, sizes: Indices) -> Floats:
    """Return the largest error of elimination for components of these sizes, in each column.

    An entry of the inverse is a ratio of polynomials of degree n - 1 and n with positive terms, so relative changes e
    of the entries change it by at most 2 n e; eliminating the m-th state changes them by (m + 3) EPSILON / 2.
    """
    error: Floats = np.sum(EPSILON * (sizes + 4.0) ** 3 / 3) * np.abs(values).max(axis=0)
    return error


def _small(
    rates: csr_array, leaving: Floats, component: Indices, right: Floats, *, visits: bool
) -> tuple[Floats, Floats]:
    """Solve small components in order: back substitution with the inverse of each component."""
    from scipy.sparse import coo_array, eye_array
    from scipy.sparse.linalg import spsolve_triangular

    edges = rates.tocoo()
    inside = component[edges.row] == component[edges.col]
    between = coo_array((edges.data[~inside], (edges.row[~inside], edges.col[~inside])), shape=rates.shape).tocsr()
    among = (edges.row[inside], edges.col[inside], edges.data[inside])
    inverse = _inverses(*among, leaving + between.sum(axis=1), component)
    if visits:
        inverse, between = inverse.T.tocsr(), between.T.tocsr()
    triangle = (eye_array(len(leaving), format="csr") - inverse @ between).tocsr()
    values: Floats = spsolve_triangular(with_int_indices(triangle), inverse @ right, lower=visits, unit_diagonal=True)
    return values, _rounding(values, np.bincount(component))


def _inverses(rows: Indices, columns: Indices, weights: Floats, leaving: Floats, component: Indices) -> csr_array:
    """Return the inverse of a matrix with entries only within components, for all components of one size at a time."""
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
        places = first[chosen][:, None] + np.arange(size)
        identity = np.broadcast_to(np.eye(size), dense.shape)
        inverse = _eliminated(dense, leaving[places], identity)
        found.append((inverse.ravel(), np.repeat(places, size, 1).ravel(), np.tile(places, (1, size)).ravel()))
    data, row, column = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return coo_array((data, (row, column)), shape=(len(component),) * 2).tocsr()


def _factorised(rates: csr_array, leaving: Floats, right: Floats, *, visits: bool) -> tuple[Floats, Floats]:
    """Solve one large component by its factors, and return the largest error of the values of each column."""
    from scipy.sparse import diags_array

    if _multiplications(rates) > MOST_FACTORISING:
        raise UnsolvedError(TOO_LARGE_TO_FACTORISE.format(leaving_count=len(leaving), bound_steps=BOUND_STEPS))
    matrix = (diags_array(leaving + rates.sum(axis=1)) - rates).tocsr()
    known = None if visits else leaving
    if visits:
        matrix = matrix.T.tocsr()
    columns = np.column_stack([right, matrix.diagonal()])
    inverse = _factors(matrix)
    values = inverse(columns)
    # One step of refinement restores digits that the factors lost.
    values = values + inverse(_residual(matrix, columns, values, known)[0])
    return values[:, :-1], _largest_error(matrix, columns, values, known)


def _factors(matrix: csr_array) -> Callable[[Floats], Floats]:
    from scipy.sparse.linalg import splu

    try:
        # Rows or columns are diagonally dominant, so pivots need not be exchanged, and the pattern of the matrix and
        # its transpose determines the fill-in.
        factors = splu(with_int_indices(matrix.tocsc()), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
    except RuntimeError:
        raise _never_left(matrix.shape[0]) from None
    inverse: Callable[[Floats], Floats] = factors.solve
    return inverse


def _multiplications(matrix: csr_array) -> float:
    """Estimate the multiplications of a factorisation, from the width of a band that contains all entries."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    place = np.empty(matrix.shape[0], np.intp)
    place[reverse_cuthill_mckee(matrix)] = np.arange(matrix.shape[0])
    edges = matrix.tocoo()
    rows, columns = place[edges.row], place[edges.col]
    first = np.arange(matrix.shape[0])
    np.minimum.at(first, np.maximum(rows, columns), np.minimum(rows, columns))
    return float(np.square(np.arange(matrix.shape[0]) - first, dtype=float).sum())


def _largest_error(matrix: csr_array, right: Floats, values: Floats, leaving: Floats | None) -> Floats:
    """Return the largest error of the values of each column but the last; refuse an error in the sixth digit.

    The matrix A has a non-negative inverse. So if A v >= c > 0 for a v > 0, and every residual is at most r, then every
    error is at most r v / c; v, the last column, is the expected number of steps until the part is left.
    """
    steps = values[:, -1]
    most = float(np.abs(steps).max())
    if not most < MOST_EXPECTED_STEPS:
        raise _never_left(len(steps), most)
    residual, inside, ends = _residual(matrix, right, values, leaving)
    missed = np.abs(residual) + inside
    # The inverse times the leaving probabilities is 1, and times the right side it is the values: for them rounding at
    # the ends counts once and not for every step. The last column's equations have the diagonal on their right side.
    missed[:, -1] += ends[:, -1]
    missed = (missed / matrix.diagonal()[:, None]).max(axis=0)
    progress = 1 - missed[-1]
    if steps.min() <= 0 or not progress > 0:
        raise _never_left(len(steps))
    largest = np.abs(values[:, :-1]).max(axis=0)
    once = 2 * EPSILON * (np.diff(matrix.indptr).max() + 3) * largest
    error: Floats = missed[:-1] * (steps.max() / progress) + once
    if _inaccurate(error, values[:, :-1]):
        raise _never_left(len(steps))
    return error


def _inaccurate(error: Floats, values: Floats) -> bool:
    return not (error <= ACCURATE * np.abs(values).max(axis=0)).all()


def _residual(
    matrix: csr_array, right: Floats, values: Floats, leaving: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Return the residual, and the effect of rounding on it: within the component, and at its ends.

    The leaving probability of a state is known more precisely than the rounded diagonal: x_i times the diagonal, minus
    the others, is x_i times the leaving probability, plus the weighted differences x_i - x_j, which are small if a part
    is left slowly.
    """
    if leaving is None:
        return right - matrix @ values, np.zeros_like(values), np.zeros_like(values)
    entries = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(entries)), entries)
    # The diagonal itself has the difference 0, and there is one in every row.
    flows = -matrix.data[:, None] * (values[rows] - values[matrix.indices])
    out = leaving[:, None] * values
    first = matrix.indptr[:-1]
    residual = right - out - np.add.reduceat(flows, first, axis=0)
    unit = EPSILON * (entries + 3)[:, None]
    inside = unit * np.add.reduceat(np.abs(flows), first, axis=0)
    return residual, inside, unit * (np.abs(right) + np.abs(out))
