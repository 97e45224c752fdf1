"""Modes about distribution shift: tipping factors, and verdicts over all populations within a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from benchmarks.calibration.known_truth import DELTA, ROUNDING, Truth, with_rounds
from benchmarks.calibration.measure import TIPPING, Effort, Mode, Wrong
from benchmarks.calibration.population_modes import AT_THRESHOLD, mode_of, uniform
from benchmarks.calibration.row_modes import COPIES, DUPLICATES, RECORDED, Source, recorded
from benchmarks.calibration.unsound import Breaking, exchanged
from fairchain import verify
from fairchain.statistics import shift, shifted
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
        "true factors known",
        DELTA,
        play,
        "estimates in place of bounds",
        partial(play, breaking=estimates_for_bounds),
    )


def rates_for_bounds() -> Breaking:
    """Decide by the rates themselves, as if they were known."""
    return partial(exchanged, shifted.ShiftRule, "probabilities", lambda rule: (rule.rates(), rule.rates()))


def bound_for_largest() -> Breaking:
    """Take G a - b/G for the largest gap: an upper bound, which no population may reach."""
    return partial(exchanged, shifted, "most_rate", lambda rate, factor: factor * np.asarray(rate))


def verdict_modes() -> list[Mode]:
    """Return the modes in which the largest gap of all populations within a factor is the threshold."""
    # q_max(0.4) - q_min(0.3) = 0.5 - 0.24; of individuals with Z = 1 in 0.6 of all, 1 - 0.4 / 1.6 instead of 1.6 * 0.6.
    each = uniform((400, 300), {"threshold": 0.26, "shift": 1.25})
    alike = uniform((800, 200), {"threshold": 0.75, "shift": 1.6, "shift_of": "all_groups_alike"})
    rows = recorded({"threshold": 0.26, "shift": 1.25}, Source((0.3, 0.7), ((0.4, 0.3),)), 200, 0.26)
    make = partial(mode_of, "uniform", engine="bounds of shifts")
    estimates = "rates in place of their bounds", rates_for_bounds()
    return [
        make("shift of each group, 2 groups", each, estimates),
        make("shift of all groups alike", alike, ("an upper bound in place of the largest gap", bound_for_largest())),
        Mode(
            RECORDED,
            "shift of each group",
            "fixed-sample bounds",
            AT_THRESHOLD,
            DELTA,
            rows.play,
            DUPLICATES,
            partial(rows.play, copies=COPIES),
        ),
    ]


def shift_modes() -> list[Mode]:
    """Return all modes about distribution shift."""
    return [
        *verdict_modes(),
        tipping_mode("FAIR, both factors", (300, 320), 0.1),
        tipping_mode("UNFAIR, both factors", (650, 300), 0.1),
    ]
