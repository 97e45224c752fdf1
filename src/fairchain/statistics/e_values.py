"""E-values that are valid at any stopping time (docs/mathematics.md, "Betting").

A hypothesis states that a payoff has mean at most 0. Under the hypothesis, the wealth of a bet on the payoff, with a
stake that can never lose everything, is a non-negative supermartingale that starts at 1: it ever reaches 1/delta with
probability at most delta (Ville). Several stakes are played at once, each with its share of the initial wealth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Fractions of the largest stake that cannot go bankrupt, and the logarithm of each one's share of the initial wealth.
# Most gaps are far from the threshold and need a large stake, so large stakes get more (docs/mathematics.md, "The
# stakes").
BETS = 0.97 * 1.5 ** -np.arange(18.0)
LOG_SHARES = -np.log(np.arange(18) + 2.0) - np.log((1 / (np.arange(18) + 2.0)).sum())

Floats = NDArray[np.float64]


def growth(payoffs: ArrayLike, most_lost: ArrayLike) -> Floats:
    """Return the log growth of wealth for each payoff and stake: (..., payoffs, stakes).

    `most_lost` is the largest loss of a payoff, so that no stake can go bankrupt.
    """
    payoffs, lost = np.asarray(payoffs, float), np.asarray(most_lost, float)
    logs: Floats = np.log1p(payoffs[..., None] * (BETS / lost[..., None, None]))
    return logs


def log_wealth(cells: ArrayLike, growths: Floats) -> Floats:
    """Return the log wealth of all stakes together after these counts of payoffs: (...,) from (..., payoffs)."""
    each = _weigh(cells, growths) + LOG_SHARES
    top = each.max(axis=-1, keepdims=True)
    total: Floats = np.log(np.exp(each - top).sum(axis=-1)) + top[..., 0]
    return total


_SHARES = np.exp(LOG_SHARES)
_STAKES: list[tuple[float, float]] = list(zip(BETS.tolist(), LOG_SHARES.tolist(), strict=True))


def wealth_of_one(counts: Sequence[int], payoffs: Sequence[float], most_lost: float) -> float:
    """Return the same for one pair and one hypothesis: plain numbers are faster than arrays of three."""
    (i, j, k), (x, y, z) = counts, [payoff / most_lost for payoff in payoffs]
    log = math.log1p
    logs = [share + i * log(bet * x) + j * log(bet * y) + k * log(bet * z) for bet, share in _STAKES]
    top = max(logs)
    return top + math.log(sum([math.exp(each - top) for each in logs]))


def wealth_and_best_of_one(counts: Sequence[int], growths: Floats) -> tuple[float, float]:
    """Return the log wealth of one pair over all stakes together, and the log growth of the best of them.

    From the growth of each stake, (payoffs, stakes).
    """
    each = growths.T.dot(counts)
    best: float = each.item(each.argmax())
    each -= best
    return best + math.log(_SHARES.dot(np.exp(each, out=each))), best


def wealth_and_best(totals: NDArray[np.integer] | Floats, growths: Floats) -> tuple[Floats, Floats]:
    """Return the log wealth of all stakes together, and the log growth of the best of them, (pairs,) each.

    From (payoffs, pairs) and (stakes, payoffs): numpy is slow along a short last axis.
    """
    each = growths @ totals
    best: Floats = np.maximum.reduce(each, axis=0)
    each -= best
    return np.log(_SHARES @ np.exp(each, out=each)) + best, best


# Number of pairs whose stakes are computed at once, so that they fit in the cache.
PAIRS_AT_ONCE = 2**12
# Up to this many pairs it is faster to compute all stakes at once.
FEW_AT_ONCE = 2**8


def reaches(cells: ArrayLike, growths: Floats, log_bar: float) -> NDArray[np.bool_]:
    """Return whether log wealth reaches the critical value, (pairs,) from (pairs, payoffs); cheaper than the wealth.

    One stake that wins for most pairs is tested first, then the best of all. The best is less than the wealth, by a
    factor of at most the number of stakes, so that only pairs in between are summed. Growths are the same for all
    pairs, or (pairs, payoffs, stakes). Equal counts are computed once if growths are the same.
    """
    cells = np.asarray(cells)
    if growths.ndim == 2:
        different, place = distinct(cells)
        if len(different) < len(cells):
            return reaches(different, growths, log_bar)[place]
    cells = cells.astype(float)
    found = np.zeros(len(cells), bool)
    for start in range(0, len(cells), PAIRS_AT_ONCE):
        places = np.arange(start, min(start + PAIRS_AT_ONCE, len(cells)))
        if growths.ndim == 2 and len(places) > FEW_AT_ONCE:
            likely = int((_weigh(cells[places[:: len(BETS)]], growths) + LOG_SHARES).sum(axis=0).argmax())
            found[places] = cells[places] @ growths[:, likely] + LOG_SHARES[likely] >= log_bar
            places = places[~found[places]]
        each = _weigh(cells[places], growths if growths.ndim == 2 else growths[places]) + LOG_SHARES
        best = each.max(axis=-1)
        reached = best >= log_bar
        near = np.flatnonzero(~reached & (best >= log_bar - np.log(len(BETS)) - 1e-9))
        if len(near):
            reached[near] = np.log(np.exp(each[near] - best[near, None]).sum(axis=-1)) + best[near] >= log_bar
        found[places] = reached
    return found


def distinct(counts: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
    """Return the distinct rows of counts, and the index of each row among them; unchanged if few can be equal.

    Rows are marked in a table of all combinations between the smallest and largest counts, which is much faster than
    sorting. The sum of the first three replaces the second, because it is mostly the same for all of them.
    """
    if len(counts) <= PAIRS_AT_ONCE:
        return counts, np.arange(len(counts))
    first, second, third, *others = counts.T
    key, size = np.zeros(len(counts), np.intp), 1
    for column in (first, first + second + third, third, *others):
        low, high = int(column.min()), int(column.max())
        size *= high - low + 1
        if size > len(counts):
            return counts, np.arange(len(counts))
        if high > low:
            key *= high - low + 1
            key += column - low
    last = np.full(size, -1)
    last[key] = np.arange(len(key))
    kept = last >= 0
    place = np.cumsum(kept) - 1
    return counts[last[kept]], place[key]


def _weigh(cells: ArrayLike, growths: Floats) -> Floats:
    """Return the log growth of each stake after these counts: (..., stakes) from (..., payoffs)."""
    cells = np.asarray(cells, float)
    each: Floats = cells @ growths if growths.ndim == 2 else (cells[..., None, :] @ growths)[..., 0, :]
    return each


def rounds_to_go(
    wealth: ArrayLike, cells: ArrayLike, growths: Floats, log_bar: float, rounds: ArrayLike | None = None
) -> Floats:
    """Forecast the further rounds until log wealth reaches the critical value, at these frequencies; inf if it falls.

    `rounds` is the number of rounds behind the cells, if some rounds are in no cell. The best single stake determines
    the rate. This is only a forecast: no guarantee depends on it.
    """
    seen = np.asarray(cells).sum(axis=-1) if rounds is None else rounds
    rate = _weigh(cells, growths).max(axis=-1) / np.maximum(seen, 1)
    grows = rate > 0
    return np.where(grows, np.maximum(log_bar - np.asarray(wealth), 0) / np.where(grows, rate, 1.0), np.inf)
