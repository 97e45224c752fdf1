"""Modes of certain answers: branch and bound, alone and with rounds in what it leaves open, and enumeration.

For branch and bound an input is a group (2) and two real numbers x and y, drawn evenly from 0 to 1. The network says
yes where x + y is below the cutoff c of the group, so that its rate is c^2 / 2. Boxes never settle the line x + y = c:
some probability stays open however many are halved.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np

from benchmarks.calibration.known_truth import (
    DELTA,
    NO_YES,
    Plain,
    below,
    category,
    number,
    outside,
    spec_of,
    with_rounds,
)
from benchmarks.calibration.measure import GAP, RATES, TOGETHER, VERDICT, Effort, Mode, Wrong
from benchmarks.calibration.network_modes import dense_network
from benchmarks.calibration.population_modes import AT_THRESHOLD
from benchmarks.calibration.unsound import Breaking, counted_often, exchanged
from fairchain import Decision, verify
from fairchain.models import OnnxModel
from fairchain.models.inspect.linear_bounds import InputBoxes
from fairchain.prepare import prepare
from fairchain.spec import Spec
from fairchain.statistics import masses
from fairchain.statistics.strata import StrataRule
from fairchain.verification.bounding import BoundingRun
from fairchain.verification.partition import LabelBounds

Cutoffs = tuple[float, float]
EITHER = (Decision.FAIR, Decision.UNFAIR)
# The rates are 0.18 and 0.32.
CUTOFFS = 0.6, 0.8
# From which part of all rounds on, rounds are drawn in open boxes of at most this probability.
STRATA = (0.2, 0.4), (0.5, 0.2)
# Certain bounds are asked about cutoffs that are multiples of GRID, thus without rounding, and about thresholds nearer
# to the gap than NEAR, after so many steps of halving.
GRID, NEAR, STEPS = 1 / 64, 0.02, 9
# How often each round is counted by an unsound variant: doubled so many times.
DOUBLED = 4


class Boxes:
    """One question about the network with these cutoffs; `gap` is the true one, in the property's own unit."""

    def __init__(self, cutoffs: Cutoffs, gap: float, wrong: Collection[Decision] = EITHER, **about: Any) -> None:
        self.cutoffs, self.gap, self.wrong = cutoffs, gap, wrong
        numbers = [{"name": name, "kind": "real", "low": 0, "high": 1} for name in ("x", "y")]
        model: Plain = {"labels": list(NO_YES), "decision": "argmax"}
        self.spec: Spec = spec_of([category("g", 2), *numbers], about, model=model, engine="bounds")

    @cached_property
    def model(self) -> OnnxModel:
        """The network, loaded once."""
        first, second = self.cutoffs
        content = dense_network([[0, 1, 1], [1, 0, 0]], [0, 0], [[1, 0], [0, second - first]], [0, first])
        return OnnxModel.from_bytes(content, "calibration.onnx", self.spec)

    def run(self, seed: int, rounds: int, *, sampling: bool) -> BoundingRun:
        """Begin a run."""
        return BoundingRun(prepare(self.model, with_rounds(self.spec, rounds), seed=seed), sampling=sampling)

    def mistakes(self, run: BoundingRun) -> Wrong:
        """Return which statements of a run are wrong."""
        answer = run.answer("rounds")
        found = {VERDICT: answer.decision in self.wrong, GAP: outside(self.gap, answer.gap.low, answer.gap.high)}
        if not run.case.comparison.individual:
            # Where both labels are counted, "yes" is the last.
            bounds = zip(self.cutoffs, *(side[-1] for side in answer.bounds), strict=True)
            found[RATES] = any(outside(cutoff**2 / 2, low, high) for cutoff, low, high in bounds)
            found[TOGETHER] = found[GAP] or found[RATES]
        return found

    def play(self, seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
        """Draw rounds among all inputs, then in open boxes, then in fewer of them."""
        with breaking():
            run = self.run(seed, effort.rounds, sampling=True)
            for until, mass in (*STRATA, (1.0, 0.0)):
                while run.rule.decision is Decision.UNDECIDED and run.rule.rounds < until * effort.rounds:
                    run.sample(effort.rounds - run.rule.rounds)
                while run.partition.open_mass > mass > 0 and run.rule.decision is Decision.UNDECIDED:
                    run.halve()
            return self.mistakes(run)


def bounded(seed: int, _: Effort, breaking: Breaking = nullcontext) -> Wrong:
    """Halve boxes of a network chosen by the seed, and draw nothing."""
    rng = np.random.default_rng(seed)
    low, high = sorted(rng.choice(np.arange(8, 65), 2, replace=False) * GRID)
    gap = (high**2 - low**2) / 2
    threshold = min(max(gap + rng.uniform(-NEAR, NEAR), 0.001), 0.999)
    wrong = [Decision.UNFAIR] if gap <= threshold else [Decision.FAIR]
    boxes = Boxes((float(low), float(high)), gap, wrong, threshold=float(threshold))
    with breaking():
        run = boxes.run(seed, 1, sampling=False)
        for _step in range(STEPS):
            run.halve()
        return boxes.mistakes(run)


def enumerated(seed: int, _: Effort, breaking: Breaking = nullcontext) -> Wrong:
    """Verify a network of 30 inputs; the rates of its 3 groups are random tenths, and the threshold is two tenths."""
    tenths = np.random.default_rng((seed, 5)).integers(1, 10, 3).tolist()
    spec = spec_of([category("g", 3), number(most=9)], {"threshold": 0.2}, engine="enumeration")
    with breaking():
        verdict = verify(below(tenths), spec, workers=1)
    fair = max(tenths) - min(tenths) <= 2
    return {VERDICT: verdict.decision is not (Decision.FAIR if fair else Decision.UNFAIR)}


def open_for_all() -> Any:
    """Return a context in which rounds in open boxes count as rounds among all inputs."""
    begin = StrataRule.begin

    def otherwise(rule: StrataRule, settled: Any, _mass: float, slack: float) -> None:
        begin(rule, 0 * settled, 1.0, slack)

    return exchanged(StrataRule, "begin", otherwise)


def middles_for_boxes() -> Any:
    """Return a context in which a network's label in the middle of a box is taken for that of the whole box."""
    bounds = LabelBounds.__call__

    def middle(self: LabelBounds, boxes: InputBoxes) -> Any:
        centre = (boxes.low + boxes.high) / 2
        return bounds(self, InputBoxes(centre, centre, boxes.first, boxes.last, boxes.blocks))

    return exchanged(LabelBounds, "__call__", middle)


def rounded_gaps() -> Any:
    """Return a context in which an enumeration subtracts rates as floating-point numbers."""
    return exchanged(masses, "gap_of_fractions", lambda more, less, _measure: Fraction(float(more) - float(less)))


def certain_modes() -> list[Mode]:
    """Return all modes of this module."""
    breaking: Breaking = partial(counted_often, BoundingRun, "_batch", DOUBLED)
    often = f"every round counted {2**DOUBLED} times", breaking
    taken = "open boxes are taken for all inputs", open_for_all
    about = [
        ("difference, 2 groups", Boxes(CUTOFFS, 0.14, threshold=0.14), often),
        ("ratio, 2 groups", Boxes(CUTOFFS, 0.5625, kind="ratio", threshold=0.5625), taken),
        ("individual", Boxes(CUTOFFS, 0.14, kind="individual", threshold=0.14), taken),
    ]
    return [
        *(
            Mode(
                "uniform, real numbers",
                name,
                "bounds and betting",
                AT_THRESHOLD,
                DELTA,
                boxes.play,
                variant,
                partial(boxes.play, breaking=breaking),
            )
            for name, boxes, (variant, breaking) in about
        ),
        Mode(
            "uniform, real numbers",
            "difference, 2 groups",
            "deterministic bounds",
            "known for the network of every seed",
            0.0,
            bounded,
            "the label in the middle of a box is used for the whole box",
            partial(bounded, breaking=middles_for_boxes),
        ),
        Mode(
            "uniform",
            "difference, 3 groups",
            "enumeration",
            "every gap is a tenth",
            0.0,
            enumerated,
            "rates subtracted as floating-point numbers",
            partial(enumerated, breaking=rounded_gaps),
        ),
    ]
