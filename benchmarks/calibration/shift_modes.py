"""Modes about distribution shift: a tipping factor above the true one is a wrong statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from benchmarks.calibration.known_truth import DELTA, ROUNDING, Truth, with_rounds
from benchmarks.calibration.measure import TIPPING, Effort, Mode, Wrong
from benchmarks.calibration.population_modes import uniform
from benchmarks.calibration.unsound import Breaking, exchanged
from fairchain import verify
from fairchain.statistics import shift
from fairchain.verification import verdict as verdicts

# The largest factor for which something holds, between 1 and 10.
Holds = Callable[[float], bool]


def largest(holds: Holds) -> float:
    """Return the largest factor between 1 and 10 for which something holds."""
    low, high = 1.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def reached(rates: tuple[float, float], factor: float) -> tuple[float, float]:
    """Return the smallest and the largest difference that two rates can have within a factor, each by itself."""
    inputs = [np.array([rate, 1 - rate]) for rate in rates]
    ends = []
    for share in inputs:
        # Weight goes to the inputs with the outcome, or away from it, as far as all weights stay within the factor.
        most = min(factor * share[0], 1 - share[1] / factor)
        least = max(share[0] / factor, 1 - factor * share[1])
        ends.append((least, most))
    return ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]


@contextmanager
def estimates_for_bounds() -> Iterator[None]:
    """Take estimates in place of bounds, for both factors."""
    exact = shift.factor_of_rates

    def from_estimates(low: Any, high: Any, *arguments: Any, **options: Any) -> float:
        middle = (low + high) / 2
        return exact(middle, middle, *arguments, **options)

    def rate(successes: Any, trials: Any, _alpha: float) -> tuple[Any, Any]:
        return successes / trials, successes / trials

    with exchanged(verdicts, "factor_of_rates", from_estimates), exchanged(shift, "probability_any_time", rate):
        yield


def tipping_mode(about: str, cutoffs: tuple[int, int], threshold: float) -> Mode:
    """Return the mode of a question whose verdict does not depend on the seed."""
    drawing = uniform(cutoffs, {"threshold": threshold}, Truth(abs(cutoffs[0] - cutoffs[1]) / 1000))
    more, less = max(cutoffs) / 1000, min(cutoffs) / 1000
    # In a round the group with the lower rate never gets what the other one does not get.
    apart = (more - less, 0.0)
    fair = more - less <= threshold

    def factor(rates: tuple[float, float]) -> float:
        if fair:
            return largest(lambda factor: reached(rates, factor)[1] <= threshold)
        return largest(lambda factor: reached(rates, factor)[0] > threshold)

    truth = {"each_group": factor((more, less)), "all_groups_alike": factor(apart)}

    def play(seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
        with breaking():
            found = verify(drawing.model, with_rounds(drawing.spec, 8 * effort.rounds), seed=seed, workers=1).tipping
        known = {} if found is None else found.to_dict()
        return {TIPPING: any(known[name] > true + ROUNDING for name, true in truth.items() if name in known)}

    return Mode(
        "uniform",
        about,
        "tipping factors",
        "smaller than reported",
        DELTA,
        play,
        "estimates in place of bounds",
        partial(play, breaking=estimates_for_bounds),
    )


def shift_modes() -> list[Mode]:
    """Return all modes about distribution shift."""
    return [
        tipping_mode("FAIR, both factors", (300, 320), 0.1),
        tipping_mode("UNFAIR, both factors", (650, 300), 0.1),
    ]
