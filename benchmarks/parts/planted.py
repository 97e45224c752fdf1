"""Networks in which one known neuron, or one known feature, carries all dependence on the group: it is looked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper_models import dense_network
from benchmarks.results import Cell, Check, Column, PartResult, Table, count_name
from benchmarks.sizes import Sizes
from fairchain.explaining import explain
from fairchain.models import OnnxModel
from fairchain.spec import Spec, parse_spec

Array = NDArray[np.float64]
FEATURES, WIDTHS = 6, (12, 10)
GROUP = FEATURES  # the group comes last, 0 or 1
SMALLEST_GAP = 0.1
ROUNDS = 20_000
TEXT = """This section compares two measures by which the cause of a gap can be found: the effect on the gap, which
fairchain measures, and the paper's sensitivity. The networks are random, with two hidden layers of 12 and 10 neurons.
The decision depends on the group only through one *planted* unit. A planted neuron is ranked among the neurons of its
layer, and a planted feature is ranked among the features. The table counts in how many networks the planted unit is
*first* by each measure. In a tie, the planted unit is ranked last. The last column shows the largest gap, over all
networks of a row, that remains after the intervention on the planted unit."""
# What was planted, by family.
PLANTED = {
    "plain": "the only neuron of the first layer that receives the group",
    "always on": "the only neuron of the first layer that receives the group, active for every input",
    "decoys": "a neuron of the first layer, beside four other neurons that receive the group but have no outgoing "
    "connections",
    "deep": "a neuron of the second layer, behind a first layer in which half of the neurons receive the group",
    "interplay": "a feature that determines whether the group matters, with uniform inputs",
    "proxy": "a feature that depends on the group, in a network that does not receive the group",
}


@dataclass(frozen=True)
class Planted:
    """A network, its question, and the unit that was planted."""

    spec: Spec
    model: OnnxModel
    layer: str
    unit: str


def _random_layers(rng: np.random.Generator) -> list[list[Array]]:
    """Weights (out, in) and biases of two hidden layers and a score; nothing hears of the group."""
    sizes = [FEATURES + 1, *WIDTHS, 1]
    layers = [
        [rng.normal(0, 1.5 / np.sqrt(inputs), (outputs, inputs)), rng.normal(0, 0.3, outputs)]
        for inputs, outputs in pairwise(sizes)
    ]
    layers[0][0][:, GROUP] = 0
    return layers


def _plain(rng: np.random.Generator, layers: list[list[Array]]) -> tuple[str, str]:
    place = int(rng.integers(WIDTHS[0]))
    layers[0][0][place, GROUP] = rng.choice([-1, 1]) * rng.uniform(1, 2)
    layers[1][0][:, place] = rng.choice([-1, 1], WIDTHS[1]) * rng.uniform(0.5, 1.0, WIDTHS[1])
    return "layer1", f"layer1[{place}]"


def _always_on(rng: np.random.Generator, layers: list[list[Array]]) -> tuple[str, str]:
    layer, unit = _plain(rng, layers)
    place = int(unit[7:-1])
    weights, bias = layers[0]
    bias[place] = np.abs(weights[place]).sum() + 0.1
    return layer, unit


def _decoys(rng: np.random.Generator, layers: list[list[Array]]) -> tuple[str, str]:
    layer, unit = _plain(rng, layers)
    others = [place for place in range(WIDTHS[0]) if place != int(unit[7:-1])]
    for place in rng.choice(others, 4, replace=False):
        layers[0][0][place, GROUP] = rng.choice([-1, 1]) * rng.uniform(1, 3)
        layers[1][0][:, place] = 0
    return layer, unit


def _deep(rng: np.random.Generator, layers: list[list[Array]]) -> tuple[str, str]:
    place = int(rng.integers(WIDTHS[1]))
    informed = rng.choice(WIDTHS[0], WIDTHS[0] // 2, replace=False)
    layers[0][0][informed, GROUP] = rng.choice([-1, 1], len(informed)) * rng.uniform(0.5, 1.5, len(informed))
    kept = layers[1][0][place, informed].copy()
    layers[1][0][:, informed] = 0
    layers[1][0][place, informed] = kept + np.sign(kept)
    layers[2][0][0, place] = rng.choice([-1, 1]) * rng.uniform(1, 2)
    return "layer2", f"layer2[{place}]"


def _interplay(rng: np.random.Generator, layers: list[list[Array]]) -> tuple[str, str]:
    """One neuron is a relu of the feature for group 1, and off for group 0 and where the feature is 0."""
    feature, place = int(rng.integers(FEATURES)), int(rng.integers(WIDTHS[0]))
    strength = rng.choice([-1, 1]) * rng.uniform(3, 5)
    layers[0][0][place] = 0
    layers[0][0][place, [feature, GROUP]] = strength, abs(strength)
    layers[0][1][place] = -abs(strength)
    layers[1][0][:, place] = rng.choice([-1, 1], WIDTHS[1]) * rng.uniform(0.5, 1.0, WIDTHS[1])
    return "inputs", f"x{feature}"


def _proxy(rng: np.random.Generator, layers: list[list[Array]]) -> tuple[str, str]:
    feature = int(rng.integers(FEATURES))
    layers[0][0][:, feature] *= 2
    return "inputs", f"x{feature}"


FAMILIES: dict[str, Callable[[np.random.Generator, list[list[Array]]], tuple[str, str]]] = {
    "plain": _plain,
    "always on": _always_on,
    "decoys": _decoys,
    "deep": _deep,
    "interplay": _interplay,
    "proxy": _proxy,
}


def planted(family: str, number: int) -> Planted:
    """The network of this number: drawn until it has a gap to speak of."""
    for attempt in range(1000):
        rng = np.random.default_rng([sorted(FAMILIES).index(family), number, attempt])
        layers = _random_layers(rng)
        layer, unit = FAMILIES[family](rng, layers)
        proxy = int(unit[1:]) if family == "proxy" else None
        inputs = _inputs(rng, proxy)
        # Half of all inputs get a yes, so that there is room for a gap.
        layers[2][1][0] -= np.median(_scores(layers, inputs))
        yes = _scores(layers, inputs) > 0
        group = inputs[:, GROUP] == 1
        if abs(yes[group].mean() - yes[~group].mean()) >= SMALLEST_GAP:
            spec = _spec(proxy)
            return Planted(spec, OnnxModel.from_bytes(_network(layers), f"{family}.onnx", spec), layer, unit)
    raise ValueError(f"no network of the family {family} has a gap of {SMALLEST_GAP}")


def _inputs(rng: np.random.Generator, proxy: int | None) -> Array:
    inputs = rng.uniform(-1, 1, (4000, FEATURES + 1))
    inputs[:, GROUP] = np.arange(len(inputs)) % 2
    if proxy is not None:
        inputs[:, :GROUP] = np.sign(inputs[:, :GROUP])
        inputs[:, proxy] = (rng.random(len(inputs)) < np.where(inputs[:, GROUP] == 1, 0.8, 0.2)) * 2 - 1
    return inputs


def _scores(layers: list[list[Array]], inputs: Array) -> Array:
    hidden = inputs
    for weights, bias in layers[:-1]:
        hidden = np.maximum(hidden @ weights.T + bias, 0)
    scores: Array = hidden @ layers[-1][0][0] + layers[-1][1][0]
    return scores


def _spec(proxy: int | None) -> Spec:
    features: list[dict[str, Any]] = [
        {"name": f"x{place}", "kind": "real", "low": -1, "high": 1} for place in range(FEATURES)
    ]
    group = {"name": "group", "kind": "category", "values": ["a", "b"]}
    population: dict[str, Any] = {"kind": "uniform"}
    if proxy is not None:
        names = [feature["name"] for feature in features]
        features = [{"name": name, "kind": "category", "values": ["no", "yes"], "codes": [-1, 1]} for name in names]
        nodes: list[dict[str, Any]] = [{"name": name, "probabilities": [0.5, 0.5]} for name in ["group", *names]]
        given = {"a": [0.8, 0.2], "b": [0.2, 0.8]}
        nodes[1 + proxy] = {"name": names[proxy], "parents": ["group"], "probabilities": given}
        population = {"kind": "network", "nodes": nodes}
    return parse_spec(
        {
            "model": {"labels": ["no", "yes"], "decision": "logit"},
            "feature": [*features, group],
            "population": population,
            "property": {"kind": "difference", "protected": ["group"], "outcome": "yes", "threshold": 0.05},
        }
    )


def _network(layers: list[list[Array]]) -> bytes:
    return dense_network([(weights.T.astype(np.float32), bias.astype(np.float32)) for weights, bias in layers])


@dataclass(frozen=True)
class Search:
    """The rank of the planted unit by each measure, from 1, and the gap before and after the intervention."""

    by_effect: int
    by_sensitivity: int
    gap: float
    left: float


def look_for(family: str, number: int, rounds: int) -> Search:
    """Explain one network and rank the planted unit; of equals it counts as the last."""
    case = planted(family, number)
    units = ["features"] if case.layer == "inputs" else [case.layer]
    found = explain(case.model, case.spec, units=units, rounds=rounds, seed=number, workers=1)
    own = next(unit for unit in found.units if unit.name == case.unit)
    effect = sum(unit.effect.estimate >= own.effect.estimate for unit in found.units)
    sensitivity = sum(unit.sensitivity.estimate >= own.sensitivity.estimate for unit in found.units)
    return Search(effect, sensitivity, found.gap.estimate, own.remaining)


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # networks are made here
    """Look for the planted unit in every network of every family."""
    columns = [Column("family"), Column("what was planted"), Column("networks", "d"), Column("first by effect", "d")]
    columns += [Column("first by the paper's sensitivity", "d"), Column("mean gap", ".3f")]
    columns += [Column("largest gap after the intervention", ".4f")]
    rows: list[list[Cell]] = []
    counts: dict[str, list[int | None]] = {}
    for family, what in PLANTED.items():
        found = [look_for(family, number, ROUNDS) for number in range(sizes.planted)]
        effect, sensitivity = [each.by_effect for each in found], [each.by_sensitivity for each in found]
        counts[count_name(family, "rank by effect")] = [*effect]
        counts[count_name(family, "rank by sensitivity")] = [*sensitivity]
        gap, left = float(np.mean([each.gap for each in found])), max(abs(each.left) for each in found)
        rows.append([family, what, len(found), effect.count(1), sensitivity.count(1), gap, left])
    firsts = sum(int(str(row[3])) for row in rows)
    total = sizes.planted * len(PLANTED)
    return PartResult(
        text=TEXT,
        tables=[Table("Planted units found", columns, rows)],
        checks=[Check("planted units first by effect", firsts == total, f"{firsts} of {total}", "all")],
        settings={
            "networks of each family": sizes.planted,
            "rounds": ROUNDS,
            "the seed is": "the number of the network",
        },
        counts=counts,
    )
