"""Modes that look into a network: effects and sensitivities, chains, and the judge of a repair.

The network is small enough for everything about it to be known. An input is a group (2), a category s (3) and a whole
number x (10), all drawn evenly. The first neuron is 2 group + s, the second is x, and the answer is yes where the first
plus 2.5 is above the second: P(yes) is 0.4 and 0.6 in the two groups.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from benchmarks.calibration.known_truth import DELTA, category, number, outside, spec_of, with_delta, with_rounds
from benchmarks.calibration.measure import GAP, VERDICT, Effort, Mode, Wrong
from benchmarks.calibration.unsound import Breaking, Peeking, counted_often, deciding_by
from fairchain import Decision, explain, learn_chain
from fairchain.explaining.effect_counts import EffectCounter
from fairchain.models import OnnxModel
from fairchain.prepare import prepare
from fairchain.repairing.judge import Judge
from fairchain.repairing.search import Candidate, Score
from fairchain.spec import Spec

EFFECTS, SENSITIVITIES, TRANSITIONS, PRICE = "effects", "sensitivities", "transitions", "price"
GAP_OF_GROUPS = 0.2
# An effect is what the gap loses. Without the first neuron's own value nothing of the group is left; the second one
# does not depend on the group, so that resampling it changes single answers and no rate.
TRUE_EFFECTS = {"layer1[0]": 0.2, "layer1[1]": 0.0}
# P(yes) times the largest difference of P(on) between groups, since both neurons are on or off.
TRUE_SENSITIVITIES = {"layer1[0]": 0.5 / 3, "layer1[1]": 0.0}
# How often each round is counted by the unsound variant: doubled so many times.
DOUBLED = 7
# Candidates that a repair puts before the judge.
CANDIDATES = 3


def dense_network(hidden: Any, bias: Any, answer: Any, last: Any) -> bytes:
    """Return a dense network with one hidden layer of relus as an ONNX file; weights (outputs, inputs)."""
    constants = {"w": hidden, "b": bias, "v": answer, "c": last}
    tensors = [numpy_helper.from_array(np.asarray(each, np.float32), name) for name, each in constants.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["z"], transB=1),
        helper.make_node("Relu", ["z"], ["h"]),
        helper.make_node("Gemm", ["h", "v", "c"], ["y"], transB=1),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", 3), ("y", 2))]
    body = helper.make_graph(nodes, "calibration", ends[:1], ends[1:], tensors)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def network(group: float, middle: float) -> bytes:
    """Return the network that says yes where group * (0 or 1) + s + middle is above x."""
    return dense_network([[group, 1, 0], [0, 0, 1]], [0, 0], [[0, 1], [1, 0]], [0, middle])


@cache
def _spec() -> Spec:
    features = [category("g", 2), category("s", 3), number("x", 9)]
    spec = spec_of(features, {"threshold": 0.1})
    model = type(spec.model)(labels=spec.model.labels, decision="argmax")
    return type(spec)(model=model, described=spec.described, property=spec.property, guarantee=spec.guarantee)


@cache
def _model() -> OnnxModel:
    return OnnxModel.from_bytes(network(2, 2.5), "calibration.onnx", _spec())


def _explained(seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
    with breaking():
        found = explain(
            _model(), _spec(), units=["layer1"], rounds=2 * effort.rounds, seed=seed, workers=1, method="resample"
        )
    effects = [(TRUE_EFFECTS[unit.name], unit.effect) for unit in found.units]
    sensitivities = [(TRUE_SENSITIVITIES[unit.name], unit.sensitivity) for unit in found.units]
    return {
        GAP: any(outside(GAP_OF_GROUPS, each.low, each.high) for each in (found.gap, found.largest)),
        EFFECTS: any(outside(truth, each.low, each.high) for truth, each in effects),
        SENSITIVITIES: any(outside(truth, each.low, each.high) for truth, each in sensitivities),
    }


def _learned(kind: Any, delta: float, seed: int, effort: Effort) -> Wrong:
    """Learn the chain Start -> group -> s -> label; unsound variants state another delta than is guaranteed."""
    spec = with_delta(_spec(), delta)
    chain = learn_chain(_model(), spec, units=["s"], chain=kind, rounds=effort.rounds, seed=seed, workers=1)
    assert chain.low is not None
    assert chain.high is not None
    bounds = zip(chain.sources, chain.targets, chain.low, chain.high, strict=True)
    return {
        TRANSITIONS: any(
            outside(_transition(chain.states[source], chain.states[target]), low, high)
            for source, target, low, high in bounds
        )
    }


def _transition(source: str, target: str) -> float:
    """Return the true probability of a transition between two states, from their names."""
    if source == target:
        return 1.0
    if source == "Start":
        return 0.5
    if not target.startswith("Y="):
        return 1 / 3
    third = int(source[-1])
    groups = [int(source.partition(" & ")[0][-1])] if " & " in source else [0, 1]
    yes = float(np.mean([(3 + 2 * group + third) / 10 for group in groups]))
    return yes if target == "Y=yes" else 1 - yes


def _judged(seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
    """Put candidates before the judge that all have a gap of exactly the threshold: no verdict is right."""
    spec = with_rounds(_spec(), effort.rounds)
    spec = type(spec)(
        model=spec.model,
        described=spec.described,
        property=spec.property,
        guarantee=type(spec.guarantee)(delta=DELTA, seed=seed, engine="sampling", budget=spec.guarantee.budget),
    )
    made: Any = SimpleNamespace(
        weights=lambda point: point,
        edited=lambda content, spec: (OnnxModel.from_bytes(content, "calibration.onnx", spec), content),
    )
    candidate: Any = network(1, 2.5)
    judge = Judge(made, prepare(_model(), spec), workers=1)
    with breaking():
        judged = judge.all([Candidate(candidate, Score(0.0, 1.0), 0.0)] * CANDIDATES, made)
    prices = [each.attempt.price.change for each in judged if each.attempt.price is not None]
    verdicts = [each.verdict.decision for each in judged if each.verdict is not None]
    # The candidate decides otherwise about a tenth of the second group.
    return {
        VERDICT: any(decision is not Decision.UNDECIDED for decision in verdicts),
        PRICE: any(outside(-0.05, each.low, each.high) for each in prices),
    }


def inside_modes() -> list[Mode]:
    """Return all modes of this module."""
    known, transitions = "network known exactly", {"product": 18, "shared": 12}
    chains = [
        Mode(
            "uniform",
            f"{kind} chain, {count} transitions",
            "chain intervals",
            known,
            DELTA,
            partial(_learned, kind, DELTA),
            "no union over transitions",
            partial(_learned, kind, DELTA * count),
            share=3,
        )
        for kind, count in transitions.items()
    ]
    return [
        Mode(
            "uniform",
            "effects and sensitivities, 2 neurons",
            "explain",
            known,
            DELTA,
            _explained,
            f"every round counted {2**DOUBLED} times",
            partial(_explained, breaking=partial(counted_often, EffectCounter, "count", DOUBLED)),
            share=0.2,
        ),
        *chains,
        Mode(
            "uniform",
            f"difference, {CANDIDATES} candidates",
            "final verification of a repair",
            "gap of every candidate equal to the threshold",
            DELTA,
            _judged,
            "interval of one standard error, inspected after every batch",
            partial(_judged, breaking=partial(deciding_by, Peeking)),
            share=1 / 3,
        ),
    ]
