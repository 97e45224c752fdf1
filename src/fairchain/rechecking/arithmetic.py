"""The arithmetic of a certificate, implemented independently from docs/mathematics.md, without code of statistics/.

All functions take plain counts: for one outcome and an ordered pair of groups, (plus, zero, minus) counts the rounds in
which only the first group got the outcome, both or neither did, and only the second did. For a ratio (`relative`) the
middle cell counts only rounds with both, the gap c is 1 - p_j/p_i, and the payoff of a round is (1-c) X_i - X_j instead
of X_i - X_j - c.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Triple = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]

Side = Literal["above", "below"]

# The largest ratio that is reported if one group is compared with another in one direction only.
LARGEST_RATIO = 1000.0

# The largest reported factor of distribution shift, and the largest number of pairs for which one is computed from
# rounds.
LARGEST_FACTOR = 1000.0
MOST_SHIFTED_PAIRS = 4096

FRACTIONS = [0.97 / 1.5**g for g in range(18)]
SHARES = [1 / (g + 2) for g in range(18)]
TOTAL_SHARE = sum(SHARES)


def log_evidence(cells: Triple, c: float, side: Side, relative: bool = False, share: bool = False) -> Floats:
    """Return the log e-value against "gap >= c" (side "above") or "gap <= c" (side "below")."""
    plus, zero, minus = cells
    result = np.full(np.shape(plus), -np.inf)
    for factors, weight in log_factors(c, side, relative, share):
        result = np.logaddexp(result, plus * factors[0] + zero * factors[1] + minus * factors[2] + weight)
    return result


def log_factors(
    c: float, side: Side, relative: bool, share: bool = False
) -> Iterator[tuple[tuple[float, float, float], float]]:
    """Yield for each betting fraction the log factors of the three cells, and the logarithm of its weight.

    The e-value is the sum over fractions of exp(weight + plus * first + zero * second + minus * third). For a share the
    third cell is empty: no member of the second group gets the outcome.
    """
    only_second = 1.0 if relative else c if share else 1 + c
    for fraction, weight in zip(FRACTIONS, SHARES, strict=True):
        if side == "above":
            stake = fraction / (1 - c)
            factors = (1 - stake * (1 - c), 1 + stake * c, 1 + stake * only_second)
        else:
            stake = fraction / most_lost(c, relative, share)
            factors = (1 + stake * (1 - c), 1 - stake * c, 1 - stake * only_second)
        first, second, third = map(math.log, factors)
        yield (first, second, third), math.log(weight / TOTAL_SHARE)


def most_lost(c: float, relative: bool, share: bool) -> float:
    """Return the largest loss of a bet that the gap is above c; a bet that a share is above 0 has no loss."""
    if share:
        return max(c, 0.5**60)
    return 1.0 if relative else 1 + c


def crossing(refuted: Callable[[float], bool], kept: float, gone: float) -> float:
    """Return the position of a bound between a value that is kept and one that is refuted."""
    for _ in range(60):
        middle = (kept + gone) / 2
        if refuted(middle):
            gone = middle
        else:
            kept = middle
    return gone


def largest_bound(cells: Triple, bar: float, caps: Floats, relative: bool = False, least: float = -1.0) -> float:
    """Return the largest upper bound of a gap over pairs, each of which is known not to exceed its cap."""
    low, high = least + 1e-12, 1.0 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        beaten = (log_evidence(cells, middle, "above", relative) >= bar) | (caps <= middle)
        if beaten.all():
            high = middle
            continue
        low = middle
        plus, zero, minus = cells
        cells, caps = (plus[~beaten], zero[~beaten], minus[~beaten]), caps[~beaten]
    return high


def least_gap(compared: NDArray[np.bool_], relative: bool) -> float | None:
    """Return the smallest gap that can be reported, if some pair is compared in one direction only; otherwise None.

    `compared` is (outcomes, i, j). With both directions the largest gap is never below 0.
    """
    if all(bool(compared[o, j, i]) for o, i, j in np.argwhere(compared)):
        return None
    return 1 - LARGEST_RATIO if relative else -1.0


def ratio_of(more: Any, less: Any, *, cap: bool = True) -> Any:
    """Return less/more, by default at most the largest ratio that is reported."""
    if not more:
        return Fraction(LARGEST_RATIO) if less else Fraction(1)
    return min(less / more, LARGEST_RATIO) if cap else less / more


def any_time_bounds(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return bounds of a probability from the ratio of the uniform mixture to the likelihood."""
    failures = trials - successes
    mixture = math.lgamma(successes + 1) + math.lgamma(failures + 1) - math.lgamma(trials + 2)

    def refuted(p: float) -> bool:
        if (p <= 0 and successes) or (p >= 1 and failures):
            return True
        likelihood = (successes * math.log(p) if successes else 0) + (failures * math.log1p(-p) if failures else 0)
        return mixture - likelihood >= -math.log(alpha)

    centre = successes / trials if trials else 0.5
    low = crossing(refuted, centre, 0.0) if successes else 0.0
    high = crossing(refuted, centre, 1.0) if failures else 1.0
    return low, high


def any_time_table(counts: NDArray[Any], trials: NDArray[Any], alpha: float) -> NDArray[np.float64]:
    """Return (..., 3): share, lower and upper bound for every count; equal counts are computed once."""
    known: dict[tuple[int, int], tuple[float, float, float]] = {}
    found = np.empty((*counts.shape, 3))
    for place in np.ndindex(counts.shape):
        key = int(counts[place]), int(trials[place])
        if key not in known:
            known[key] = (key[0] / max(key[1], 1), *any_time_bounds(*key, alpha))
        found[place] = known[key]
    return found


def trials_within(successes: int, trials: int, alpha: float, within: float) -> float:
    """Forecast the trials after which these bounds are within a half width of the rate."""
    rate, needed = successes / max(trials, 1), float(max(trials, 1))
    information = math.inf
    for other in (rate + within, rate - within):
        if 0 < other < 1:
            parts = [(rate, other), (1 - rate, 1 - other)]
            information = min(information, sum(p * math.log(p / q) for p, q in parts if p > 0))
    for _ in range(4):
        spread = 2 * math.pi * rate * (1 - rate) + 1 / needed
        needed = max(1.0, 1.01 * (math.log(needed / spread) / 2 + math.log(1 / alpha)) / information)
    return needed


def shifted_rates(rate: Any, factor: float) -> tuple[Any, Any]:
    """Return the smallest and the largest rate if no input is more than `factor` times as frequent, or as rare."""
    low = np.maximum(rate / factor, 1 - factor * (1 - rate))
    return low, np.minimum(factor * rate, 1 - (1 - rate) / factor)


def shifted_gap(more: Any, less: Any, factor: Any, relative: bool = False) -> Any:
    """Return the largest gap of two rates, or of two shares of rounds, within a factor; exact for fractions."""
    if factor != 1:
        more, less = min(factor * more, 1 - (1 - more) / factor), max(less / factor, 1 - factor * (1 - less))
    return 1 - ratio_of(more, less, cap=False) if relative else more - less


def largest_mean(shares: Mapping[float, float], factor: float) -> float:
    """Return the largest mean of a variable with these values and probabilities over all populations within a factor.

    By duality it is the minimum over the values t of t + factor * E[(V - t)+] - E[(t - V)+] / factor.
    """
    return min(
        turn + sum(share * (value - turn) * (factor if value > turn else 1 / factor) for value, share in shares.items())
        for turn in shares
    )


def tipping_factor(holds: Callable[[float], bool]) -> float:
    """Return the largest factor from 1 to 1000 for which a condition holds, by bisection of its logarithm."""
    if holds(LARGEST_FACTOR):
        return LARGEST_FACTOR
    low, high = 0.0, math.log(LARGEST_FACTOR)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(math.exp(middle)) else (low, middle)
    return math.exp(low)


def exact_bounds(successes: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return Clopper-Pearson bounds: the probabilities at which a tail of the binomial has probability alpha/2."""
    low, high = bounds_at(successes, trials, np.array([alpha / 2]))
    return float(low[0]), float(high[0])


def bounds_at(successes: int, trials: int, levels: Floats) -> tuple[Floats, Floats]:
    """Return for each level the rates at which the upper and the lower tail of the binomial have that probability."""
    from scipy.special import bdtr, bdtrc

    def search(tail: Callable[[Floats], Floats], rising: bool) -> Floats:
        kept, gone = np.zeros_like(levels), np.ones_like(levels)
        for _ in range(60):
            middle = (kept + gone) / 2
            inside = (tail(middle) <= levels) if rising else (tail(middle) > levels)
            kept, gone = np.where(inside, middle, kept), np.where(inside, gone, middle)
        return kept if rising else gone

    low = search(lambda p: bdtrc(successes - 1, trials, p), True) if successes else np.zeros_like(levels)
    high = search(lambda p: bdtr(successes, trials, p), False) if successes < trials else np.ones_like(levels)
    return low, high


def planned_rounds(successes: NDArray[np.int64], trials: int, alpha: float, epsilon: float) -> int:
    """Return the rounds that a pilot plans for exact intervals at `alpha` with half width epsilon."""
    z = -NormalDist().inv_cdf(alpha / 2)
    most = 0
    for count in np.ravel(successes):
        rate = float(count) / trials
        slack = 2 * math.sqrt(max(rate * (1 - rate), 1 / trials) / trials)
        rate = 0.5 - max(abs(rate - 0.5) - slack, 0)
        spread = rate * (1 - rate) * (z / epsilon) ** 2
        most = max(most, math.ceil(spread + ((z * z + 2) * (1 - 2 * rate) / 1.5 + 1) / epsilon))
    return most
