"""Modes about several questions: one wrong verdict among them is a wrong statement."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, partial

import numpy as np

from benchmarks.calibration.known_truth import DELTA, Labels, Values, as_labels, category, number, spec_of, with_rounds
from benchmarks.calibration.measure import VERDICT, Effort, Mode, Wrong
from benchmarks.calibration.population_modes import AGAIN
from benchmarks.calibration.unsound import Breaking
from fairchain import Decision, verify_family
from fairchain.spec import Spec

# Questions of the family. Every feature moves the cutoff by 100 of 1000, so that each gap is the threshold.
QUESTIONS = 5


@cache
def at_threshold() -> tuple[Spec, ...]:
    """Return questions about five features of one model, each with a gap equal to its threshold."""
    features = [*(category(f"g{place}", 2) for place in range(QUESTIONS)), number()]
    return tuple(spec_of(features, {"protected": [f"g{place}"], "threshold": 0.1}) for place in range(QUESTIONS))


def decide(values: Values) -> Labels:
    """Say yes below 200, and 100 more for each feature that is 1."""
    return as_labels(values[:, QUESTIONS] < 200 + 100 * np.sum(values[:, :QUESTIONS], axis=1))


def play(seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
    """Answer all questions, which see the same inputs; every verdict is wrong."""
    with breaking():
        family = verify_family(
            decide, [with_rounds(each, effort.rounds) for each in at_threshold()], seed=seed, workers=1
        )
    return {VERDICT: any(verdict.decision is not Decision.UNDECIDED for verdict in family.verdicts)}


def family_modes() -> list[Mode]:
    """Return all modes about several questions."""
    variant, breaking = AGAIN
    return [
        Mode(
            "uniform",
            "five questions with dependent evidence",
            "family",
            "every gap equal to its threshold",
            DELTA,
            play,
            variant,
            partial(play, breaking=breaking),
        )
    ]
