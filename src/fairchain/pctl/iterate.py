"""A Krylov iteration for the equations of one strongly connected part, plain or with its clusters solved exactly.

Where a part falls into clusters that are hardly ever left, the plain iteration stands still: within a cluster all is
settled soon, and what is wrong is one number for each cluster. Those numbers have equations of their own, few enough
to be solved exactly in every step. Clusters are only guessed, and a bad guess costs time: `solve` checks what is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from fairchain.pctl.graph import Floats, Indices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# When an iteration is good enough, relative to the answer, and how often it is begun anew before it is given up.
TOLERANCE = 1e-14
ROUNDS = 4
# Clusters show in so many random vectors after so many steps of averaging; at most so many groups are made of them,
# and no more than one for so many states. There are no clusters if values deviate more than this within groups,
# relative to how much they deviate at all: with clusters it is less than 0.05, without them more than 0.5.
VECTORS = 4
AVERAGINGS = 30
MOST_GROUPS = 2000
STATES_A_GROUP = 10
ALIKE = 0.1

Operator = Callable[[Floats], Floats]


def iterated(matrix: csr_array, right: Floats, products: int, *, grouped: bool = False) -> Floats | None:
    """The solution, one column at a time; None if it does not get there with so many products in a round."""
    from scipy.sparse import diags_array

    scale = 1 / matrix.diagonal()
    scaled = (diags_array(scale) @ matrix).tocsr()
    correct = _corrections(scaled, products, grouped=grouped)
    if correct is None:
        return None
    columns = right.reshape(len(right), -1)
    answer = np.zeros_like(columns)
    for number, column in enumerate(scale * columns.T):
        found, missing = answer[:, number], column
        for _ in range(ROUNDS):
            before = np.abs(missing).max()
            found = found + correct(missing)
            missing = column - scaled @ found
            if np.abs(missing).max() <= TOLERANCE * np.abs(found).max():
                # Where a part is left slowly, the last digits of the residual are many of the answer's.
                answer[:, number] = found + correct(missing)
                break
            if not np.abs(missing).max() < before / 2:
                return None
        else:
            return None
    return answer.reshape(right.shape)


def _corrections(matrix: csr_array, products: int, *, grouped: bool) -> Operator | None:
    """What to add to an answer for what it misses; None if there are no clusters whose equations could help."""
    if not grouped:
        return lambda missing: _stabilised(lambda vector: matrix @ vector, missing, products)
    guess = _by_groups(matrix)
    if guess is None:
        return None
    return lambda missing: guess(_stabilised(lambda vector: matrix @ guess(vector), missing, products))


def _by_groups(matrix: csr_array) -> Operator | None:
    """About the inverse of a matrix with ones on its diagonal: exact for sums over groups, one step for the rest."""
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    found = _groups(matrix)
    if found is None:
        return None
    group, shape = found
    count = int(group.max()) + 1
    edges = matrix.tocoo()
    entries = (edges.data * shape[edges.col], (group[edges.row], group[edges.col]))
    try:
        factors = splu(coo_array(entries, shape=(count, count)).tocsc())
    except RuntimeError:
        return None

    def guess(vector: Floats) -> Floats:
        level: Floats = shape * factors.solve(np.bincount(group, vector, minlength=count))[group]
        rest: Floats = vector - matrix @ level
        return level + rest

    return guess


def _groups(matrix: csr_array) -> tuple[Indices, Floats] | None:
    """The number of each state's group, and what a solution looks like within a group; None without clusters.

    Averaging over the next states makes any vector alike within a cluster, up to the shape that it gives to a vector
    of ones, long before clusters become alike. So sorted values have gaps, and groups end at the widest ones. Random
    vectors rarely put two clusters at the same place, and more rarely so all of them.
    """
    size = matrix.shape[0]
    vectors = np.column_stack([np.ones(size), np.random.default_rng(0).random((size, VECTORS))])
    for _ in range(AVERAGINGS):
        vectors -= matrix @ vectors / 2
    shape = vectors[:, 0]
    values = (vectors[:, 1:] / shape[:, None]).T
    ends = min(MOST_GROUPS, size // STATES_A_GROUP) // VECTORS
    group = np.zeros(size, np.intp)
    for value in values:
        order = np.lexsort((value, group))
        first = np.diff(group[order]) > 0
        gaps = np.where(first, 0.0, np.diff(value[order]))
        first[np.argsort(gaps, kind="stable")[len(gaps) - ends :]] = True
        group[order] = np.concatenate([[0], np.cumsum(first)])
    return (group, shape) if all(_alike(value, group) for value in values) else None


def _alike(value: Floats, group: Indices) -> bool:
    middle = np.bincount(group, value) / np.bincount(group)
    return bool(np.std(value - middle[group]) <= ALIKE * np.std(value))


def _stabilised(matrix: Operator, right: Floats, products: int) -> Floats:
    """The stabilised method of biconjugate gradients, until ten digits are there or it is not worth going on.

    Written out because of its products: a linear algebra library starts threads for them, which wait for each other
    ten times as long as they work when the machine is busy.
    """

    def dot(left: Floats, other: Floats) -> float:
        return float(np.add.reduce(left * other))

    answer = np.zeros_like(right)
    missing, direction = right.copy(), right.copy()
    # Residuals are compared with something that has a part of everything; a right side of one state has not.
    shadow = np.cos(np.arange(len(right)))
    enough = 1e-20 * dot(right, right)
    share = dot(shadow, missing)
    for _ in range(products):
        ahead = matrix(direction)
        along = dot(shadow, ahead)
        if share == 0 or along == 0:
            break
        first = share / along
        halfway = missing - first * ahead
        turned = matrix(halfway)
        length = dot(turned, turned)
        second = dot(turned, halfway) / length if length else 0.0
        answer += first * direction + second * halfway
        missing = halfway - second * turned
        if dot(missing, missing) <= enough or second == 0:
            break
        share, before = dot(shadow, missing), share
        direction = missing + share / before * first / second * (direction - second * ahead)
    return answer
