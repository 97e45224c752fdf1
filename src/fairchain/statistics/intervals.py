"""Confidence sequences and intervals for a sample size fixed in advance (docs/mathematics-intervals.md).

Each takes only counts and computes bounds by bisection on the values that are not refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairchain.statistics.e_values import PAIRS_AT_ONCE, distinct, log_wealth, reaches, wealth_of_one
from fairchain.statistics.payoff import DIFFERENCE, Payoff
from fairchain.statistics.tally import Counts, Tally

Floats = NDArray[np.float64]
# Bisection of an interval of length 2 down to 2**-44, far below the resolution of counts.
BISECTIONS = 45
FEW_BRACKETS = 32
# Far more than a single bracket takes: the bound is valid wherever the search ends.
MOST_SEARCH_STEPS = 200


@dataclass(frozen=True)
class Interval:
    """A number with its bounds, printed as `0.055 [0.043, 0.069]`. An exact number is printed without bounds.

    >>> print(Interval(0.055, 0.043, 0.069))
    0.055 [0.043, 0.069]
    >>> 0.06 in Interval(0.055, 0.043, 0.069)
    True
    """

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self:}"

    def __format__(self, form: str) -> str:
        if self.low == self.high:
            return f"{self.estimate:{form or '.4f'}}"
        form = form or ".3f"
        return f"{self.estimate:{form}} [{self.low:{form}}, {self.high:{form}}]"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def bisect(
    excess: Callable[[Floats], Floats],
    inside: ArrayLike,
    outside: ArrayLike,
    alone: Callable[[float], float] | None = None,
) -> Floats:
    """Return the refuted end of a shrinking bracket: a conservative bound, within rounding.

    `excess` takes values of shape (points, *shape of the bracket), and returns the evidence minus the critical value:
    below 0 a value is not refuted. A few brackets are divided into 32 parts at a time instead of two, because a numpy
    call costs far more than the additional values. A single one is then closed from both ends, by `alone` if there is a
    faster way to compute the excess of one value.
    """
    near, far = np.array(inside, float), np.array(outside, float)
    shape, columns = near.shape, np.arange(near.size)
    bits = 5 if near.size <= FEW_BRACKETS else 1
    parts = 2**bits
    weights = (np.arange(parts + 1) / parts)[:, None]
    near, far = near.ravel(), far.ravel()
    least = abs(far - near) * 2.0**-BISECTIONS
    for _ in range(BISECTIONS // bits):
        points = near + (far - near) * weights
        points[-1] = far
        found = excess(points[1:-1].reshape(-1, *shape)).reshape(parts - 1, -1)
        kept = ~(found >= 0)
        # The farthest point from the inside that is not refuted; zero is the inside itself.
        last = np.where(kept.any(axis=0), parts - 1 - kept[::-1].argmax(axis=0), 0)
        near, far = points[last, columns], points[last + 1, columns]
        if near.size == 1 and 0 < last[0] < parts - 1:
            inner, outer = ((float(points[at, 0]), float(found[at - 1, 0])) for at in (last[0], last[0] + 1))
            alone = alone or (lambda value: float(excess(np.full((1, *shape), value)).item()))
            return np.full(shape, _closed(alone, inner, outer, float(least[0])))
    return far.reshape(shape)


def _closed(
    excess: Callable[[float], float], inside: tuple[float, float], outside: tuple[float, float], least: float
) -> float:
    """Return the refuted end of a bracket as short as `least`, by the Illinois method; an end is (value, excess)."""
    (near, below), (far, above) = inside, outside
    moved, before = 0, abs(far - near)
    for step in range(MOST_SEARCH_STEPS):
        if abs(far - near) <= least:
            break
        place = below / (below - above) if math.isfinite(below) and math.isfinite(above) else 0.5
        if step % 4 == 3:
            # If the excess jumps, linear interpolation does not help.
            place = place if abs(far - near) < before / 4 else 0.5
            before = abs(far - near)
        # Far enough inside that the bracket is closed once an end is that close to the crossing.
        margin = min(0.5, 0.4 * least / abs(far - near))
        value = near + (far - near) * min(max(place, margin), 1 - margin)
        if value in (near, far):
            break
        found = excess(value)
        if found >= 0:
            far, above, below, moved = value, found, below / 2 if moved > 0 else below, 1
        else:
            near, below, above, moved = value, found, above / 2 if moved < 0 else above, -1
    return far


# How far above a payoff's smallest gap the search for the largest bound begins: at -1 itself a bet has nothing to lose.
FIRST_STEP = 2.0**-40


def largest_above(
    tally: Tally,
    compared: NDArray[np.bool_],
    log_bar: float,
    caps: Callable[[slice], Floats] | None = None,
    *,
    payoff: Payoff = DIFFERENCE,
) -> float:
    """Return the largest upper bound of the gaps of compared pairs, without computing the others.

    `caps` gives for some outcomes known upper bounds of the gaps, (outcomes, k, k): beyond its cap a pair counts as
    refuted. The search starts from below for a bound that every pair refutes: the pair that is farthest from refuting
    it gives the next bound, and pairs that refute it are finished. Pairs whose counts are not worse than those of the
    pair that gave the bound are skipped by comparing counts, so that wealth is computed for few pairs.
    """
    bound, worst = payoff.least + FIRST_STEP, None
    # One step of the bisection.
    step = 2.0 ** (1 - BISECTIONS) * (1 - payoff.least)
    if compared.any():
        i, j, outcome = pair = payoff.widest(tally, compared)
        widest = payoff.cells_of(tally, pair)
        above = float(upper_bounds(widest, log_bar, payoff))
        cap = 1.0 if caps is None else float(caps(slice(outcome, outcome + 1))[0, i, j])
        bound = max(bound, min(above, cap))
        worst = widest if 0 <= above <= bound else None
    for part, some in tally.parts():
        if bound >= 1:
            break
        left = compared[part]
        if worst is not None:
            left = left & ~payoff.no_worse_than(some, worst)
        if left.any():
            left = left & payoff.open_pairs(some, bound, log_bar, at_least=True)
        if not left.any():
            continue
        cells, place = distinct(payoff.cells(some)[left])
        most = np.full(len(cells), 1.0 if caps is None else -np.inf)
        if caps is not None:
            np.maximum.at(most, place, caps(part)[left])
        while len(cells) and bound < 1:
            growths = payoff.against_at_least(bound)
            held = ~(reaches(cells, growths, log_bar) | (most <= bound))
            cells, most = cells[held], most[held]
            if len(cells):
                slowest = int(log_wealth(cells[:PAIRS_AT_ONCE], growths).argmin())
                above = float(upper_bounds(cells[slowest], log_bar, payoff))
                found = min(above, float(most[slowest]))
                # A bound that rounding would leave unchanged is raised by one step of the bisection.
                bound = found if found > bound else bound + step
                worst = cells[slowest] if 0 <= above <= bound else worst
    return bound


def largest_below(
    tally: Tally, compared: NDArray[np.bool_], log_bar: float, payoff: Payoff = DIFFERENCE, *, known: float = -1.0
) -> float:
    """Return the largest lower bound of compared pairs: the largest c for which some pair refutes "my gap is at most
    c".

    It is at least `known`, where the search starts.
    """
    bound, test = known, max(known, payoff.least + FIRST_STEP)
    for part, some in tally.parts():
        # log(1 + x) <= x: a pair whose payoffs sum to at most 0 has no wealth above 1.
        left = compared[part] & (payoff.gaps(some) > test)
        if not left.any():
            continue
        left &= payoff.open_pairs(some, test, log_bar, at_least=False)
        cells = payoff.cells(some)[left]
        while len(cells) and test < 1:
            growths = payoff.against_at_most(test)
            cells = cells[reaches(cells, growths, log_bar)]
            if len(cells):
                place = int(log_wealth(cells[:PAIRS_AT_ONCE], growths).argmax())
                found = float(lower_bounds(cells[place], log_bar, payoff))
                bound = max(bound, found)
                # Pairs that are alike refute the bound itself, and nothing beyond the last step of the bisection.
                test = max(test, found) + 2.0 ** (2 - BISECTIONS)
                cells = np.delete(cells, place, axis=0)
    return bound


def pair_bounds(cells: Counts, log_bar: float, payoff: Payoff = DIFFERENCE) -> tuple[Floats, Floats]:
    """Return bounds of every pair's gap, valid at every time, (...,) from (..., 3); each spends exp(-log_bar)."""
    return lower_bounds(cells, log_bar, payoff), upper_bounds(cells, log_bar, payoff)


# "At most -1" and "at least 1" bet with nothing to lose, so the ends themselves are never tested.
def lower_bounds(cells: ArrayLike, log_bar: float, payoff: Payoff = DIFFERENCE) -> Floats:
    """Return the lower bounds of gaps, (...,) from three counts each, (..., 3)."""
    return _bounds(cells, log_bar, payoff, upper=False)


def upper_bounds(cells: ArrayLike, log_bar: float, payoff: Payoff = DIFFERENCE) -> Floats:
    """Return the upper bounds of gaps, (...,) from three counts each, (..., 3)."""
    return _bounds(cells, log_bar, payoff, upper=True)


def _bounds(counted: ArrayLike, log_bar: float, payoff: Payoff, *, upper: bool) -> Floats:
    cells = np.asarray(counted)
    growth = payoff.against_at_least if upper else payoff.against_at_most
    ends = np.full(cells.shape[:-1], payoff.least), np.ones(cells.shape[:-1])
    inside, outside = ends if upper else ends[::-1]
    counts = cells.tolist() if cells.ndim == 1 else []

    def of_one(gap: float) -> float:
        return wealth_of_one(counts, *payoff.of_one(gap, at_least=upper)) - log_bar

    alone = of_one if cells.ndim == 1 else None
    return bisect(lambda gap: log_wealth(cells, growth(gap)) - log_bar, inside, outside, alone)


def probability_any_time(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> tuple[Floats, Floats]:
    """Return a confidence sequence for probabilities: the mixture of all bets under a uniform prior."""
    successes, trials = (np.atleast_1d(np.asarray(a, float)) for a in (successes, trials))
    failures = trials - successes

    # Log likelihood at the bounds. Equal counts are frequent, and each is computed once.
    @cache
    def evidence(got: float, not_got: float) -> float:
        return math.lgamma(got + 1) + math.lgamma(not_got + 1) - math.lgamma(got + not_got + 2)

    counted = list(map(evidence, successes.ravel().tolist(), failures.ravel().tolist()))
    level = np.array(counted).reshape(successes.shape) + np.log(alpha)
    low, high = _mixture_low(np.stack([successes, failures]), np.stack([failures, successes]), level)
    return low, 1 - high


def _mixture_low(successes: Floats, failures: Floats, level: Floats) -> Floats:
    """Return the smaller p at which the log likelihood of these counts equals the level; 0 without successes.

    Newton's method in ln p: the log likelihood is concave, and the start is below the level, so each step stays below:
    the result is conservative.
    """
    # Without successes any value is valid.
    some, failures = np.maximum(successes, 1), np.where(successes > 0, failures, 0)
    log_p = level / some
    for _ in range(100):
        p = np.exp(log_p)
        step = (level - some * log_p - failures * np.log1p(-p)) / (some - failures * p / (1 - p))
        log_p = log_p + step
        if step.max(initial=0.0) < 1e-13:
            break
    return np.where(successes > 0, np.exp(log_p), 0.0)


# Forecast trials relative to the normal approximation.
SPARE = 1.01


def trials_within(rates: ArrayLike, trials: ArrayLike, alpha: float, within: float) -> Floats:
    """Forecast the trials after which `probability_any_time` is within a half width, at these rates.

    The mixture is about sqrt(n / (2 pi v)) times smaller than the likelihood, v being the variance, so that n trials
    are enough if n KL(rate, rate +- within) = log(1 / alpha) + log(n / (2 pi v)) / 2. This is only a forecast: no
    guarantee depends on it.
    """
    rates = np.asarray(rates, float)
    needed: Floats = np.maximum(np.asarray(trials, float), 1)
    spread = 2 * math.pi * rates * (1 - rates)
    information = np.minimum(_divergence(rates, rates + within), _divergence(rates, rates - within))
    for _ in range(4):
        # Without successes, or failures, the mixture is n + 1 times smaller.
        needed = SPARE * (0.5 * np.log(needed / (spread + 1 / needed)) - math.log(alpha)) / information
        # The approximation is not valid below one trial, where it could become negative.
        needed = np.maximum(needed, 1)
    return needed


def _divergence(rate: Floats, other: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of two Bernoulli distributions; infinite if the other is impossible."""
    inside = (other > 0) & (other < 1)
    safe = np.where(inside, other, 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.nan_to_num(rate * np.log(rate / safe)) + np.nan_to_num((1 - rate) * np.log((1 - rate) / (1 - safe)))
    return np.where(inside, terms, np.inf)


def clopper_pearson(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats) -> tuple[Floats, Floats]:
    """Return exact bounds of probabilities for a number of trials fixed in advance."""
    low = clopper_pearson_bound(successes, trials, alpha / 2, upper=False)
    return low, clopper_pearson_bound(successes, trials, alpha / 2, upper=True)


def clopper_pearson_bound(successes: ArrayLike, trials: ArrayLike, alpha: float | Floats, *, upper: bool) -> Floats:
    """Return only the exact upper (or lower) bound, which fails with probability at most alpha."""
    from scipy.special import betainccinv, betaincinv

    successes, trials = np.asarray(successes, float), np.asarray(trials, float)
    failures = trials - successes
    if upper:
        return np.where(failures > 0, betainccinv(successes + 1, np.maximum(failures, 1), alpha), 1.0)
    return np.where(successes > 0, betaincinv(np.maximum(successes, 1), failures + 1, alpha), 0.0)
