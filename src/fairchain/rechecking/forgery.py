"""The value of a sample of chunks: the number of chunks that a forgery needs, and the probability that all escape.

The formulas and their limits are in docs/mathematics.md, "A sampled recheck".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairchain.certificate_format import BatchEvidence
from fairchain.rechecking import arithmetic
from fairchain.rechecking.arithmetic import Side
from fairchain.rechecking.replay import ReplayedRule

# Numbers in memory at once: pairs are processed in blocks.
AT_ONCE = 5_000_000


def escape_probability(chunks: int, sampled: int, forged: int) -> float:
    """Return the probability that a sample without replacement contains none of the forged chunks.

    >>> escape_probability(100, 60, 1), round(escape_probability(100, 60, 5), 4)
    (0.4, 0.0087)
    """
    if forged > chunks - sampled:
        return 0.0
    return math.prod((chunks - sampled - each) / (chunks - each) for each in range(forged))


def smallest_forgery(batches: Sequence[BatchEvidence], question: ReplayedRule, verdict: str) -> int | None:
    """Return the number of chunks that a verdict depends on: without them, the others are no evidence for it.

    It is a lower bound, at least 1; None without a verdict. For FAIR it is the minimum over all pairs, because FAIR
    needs all of them. For UNFAIR it is that of the leaders, or in estimate mode of the pair that needs most. For a
    verdict about shifted populations it is 1.
    """
    if verdict not in ("FAIR", "UNFAIR"):
        return None
    if question.shift > 1:
        return 1
    side: Side = "above" if verdict == "FAIR" else "below"
    if side == "below" and question.epsilon is None:
        return max(1, int(_needed(_cells(batches, question, None), question, side)[0]))
    pairs = np.argwhere(question.compared)
    size = sum(batch.chunks for batch in batches)
    block = max(1, AT_ONCE // (3 * max(size, 1)))
    needed = np.concatenate(
        [
            _needed(_cells(batches, question, pairs[start : start + block]), question, side)
            for start in range(0, len(pairs), block)
        ]
    )
    return max(1, int(needed.min() if side == "above" else needed.max()))


def _needed(cells: NDArray[np.int64], question: ReplayedRule, side: Side) -> NDArray[np.int64]:
    """Return for each pair the fewest chunks without which its e-value is at most 1; `cells` is (chunks, pairs, 3).

    The e-value is a mean over betting fractions, so it is at most 1 only if each fraction's share is. The logarithm of
    a fraction's wealth is a sum over chunks, of which the largest terms are removed first; the fraction that needs most
    decides.
    """
    most = np.zeros(cells.shape[1], np.int64)
    for factors, weight in arithmetic.log_factors(question.threshold, side, question.relative, question.share):
        gains = cells @ np.array(factors)
        left = gains.sum(axis=0) + weight
        taken = left - np.cumsum(-np.sort(-gains, axis=0), axis=0)
        enough = (taken <= 0).argmax(axis=0) + 1
        most = np.maximum(most, np.where(left <= 0, 0, enough))
    return most


def _cells(
    batches: Sequence[BatchEvidence], question: ReplayedRule, pairs: NDArray[np.intp] | None
) -> NDArray[np.int64]:
    """Return (chunks, pairs, 3), the counts (only the first, middle, only the second) of every chunk.

    `pairs` are (outcome, i, j); None means the leader of each batch.
    """
    found = [np.zeros((1 if pairs is None else len(pairs), 3), np.int64)]
    for batch in batches:
        if pairs is not None:
            outcome, first, second = pairs.T
        elif batch.leader is not None:
            first, second, outcome = np.array(batch.leader)[:, None]
        else:
            continue
        place = np.full(question.groups, -1)
        place[batch.groups] = np.arange(len(batch.groups))
        a, b = place[first], place[second]
        drawn = (a >= 0) & (b >= 0)
        for chunk in range(batch.chunks):
            tables = batch.tables(chunk)
            both = tables[outcome, a, b]
            plus, minus = tables[outcome, a, a] - both, tables[outcome, b, b] - both
            middle = both if question.relative else batch.size(chunk) - plus - minus
            found.append(np.stack([plus, middle, minus], axis=1) * drawn[:, None])
    return np.stack(found)
