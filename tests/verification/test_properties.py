"""Verdicts about small worlds agree with what is counted by hand, for every kind of property, population and engine.

At delta 1e-6 a wrong verdict, gap or rate among the few hundred of a run has a chance below 1e-3; seeds are fixed.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fairchain import Decision, Interval, Verdict, parse_spec, verify
from tests.verification.exact import KINDS, POPULATIONS, Answers, Numbers, random_answers

DELTA = 1e-6
NETWORKS = 50


def thresholds(asked: Answers, rng: np.random.Generator) -> list[float]:
    """One that the network meets and one that it fails, neither very near; where there is room for both."""
    truth, sign = float(asked.measured()), -1 if asked.kind == "ratio" else 1
    wanted = [truth + sign * rng.uniform(0.05, 0.2), truth - sign * rng.uniform(0.05, 0.2)]
    return [round(float(each), 3) for each in wanted if 0.01 < each < 0.99]


def contains_the_truth(verdict: Verdict, truth: Numbers) -> None:
    """Rounding of a bound is far below 1e-9."""

    def inside(number: float, interval: Interval) -> bool:
        return interval.low - 1e-9 <= number <= interval.high + 1e-9

    assert inside(truth.measured, verdict.gap)
    for group in verdict.groups:
        exact = truth.rates[group.name, int(group.outcome[1:])] if truth.rates else truth.measured
        assert inside(exact, group.probability)


@pytest.mark.parametrize("number", range(NETWORKS))
def test_a_verdict_is_the_exact_answer_and_every_interval_contains_it(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(number)
    asked = random_answers(rng, KINDS[number % 3], POPULATIONS[number // 3 % 4])
    path, truth = asked.net.save(tmp_path / "network.onnx"), asked.numbers()
    for threshold in thresholds(asked, rng):
        data = asked.spec(path, threshold, engine="sampling", delta=DELTA, seed=number, budget={"rounds": 20_000})
        verdict = verify(None, parse_spec(data), data=asked.world.table, workers=1)
        contains_the_truth(verdict, truth)
        if verdict.decision is Decision.UNDECIDED:
            # A ratio of rare outcomes takes longer; of one that nobody gets it takes for ever.
            assert (asked.kind, verdict.stopped) == ("ratio", "rounds")
        else:
            assert (verdict.decision is Decision.FAIR) == asked.fair(threshold)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_sampling_enumeration_and_bounds_answer_the_same_question_alike(first: int, tmp_path: Path) -> None:
    """Among other thresholds at a gap of exactly the threshold, which is FAIR: nothing may call it UNFAIR."""
    for number in range(first, first + 10):
        rng = np.random.default_rng(5000 + number)
        # Bounds take no condition and no features that depend on each other.
        asked = replace(random_answers(rng, KINDS[number % 3], POPULATIONS[number // 3 % 2]), given=None)
        path, truth, exact = asked.net.save(tmp_path / f"{number}.onnx"), asked.numbers(), asked.measured()
        at = float(exact) if number % 2 and 0 < exact < 1 else thresholds(asked, rng)[0]
        verdicts = {}
        for engine in ("sampling", "enumeration", "bounds"):
            data = asked.spec(path, at, engine=engine, delta=DELTA, seed=number, budget={"rounds": 2000})
            verdicts[engine] = verdict = verify(None, parse_spec(data), data=asked.world.table, workers=1)
            assert verdict.engine == engine
            contains_the_truth(verdict, truth)
            assert verdict.decision in (Decision.UNDECIDED, Decision.FAIR if asked.fair(at) else Decision.UNFAIR)
        listed, bounded = verdicts["enumeration"], verdicts["bounds"]
        assert listed.decision is not Decision.UNDECIDED
        assert bounded.delta == 0
        # All inputs are evaluated, so that only rounding is left between the bounds and the exact numbers.
        assert Fraction(bounded.gap.low) <= exact <= Fraction(bounded.gap.high)
        assert bounded.gap.high - bounded.gap.low < 1e-12
        assert bounded.decision is listed.decision or abs(at - float(exact)) < 1e-12
