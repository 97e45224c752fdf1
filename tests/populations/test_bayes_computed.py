"""Nodes that switch at thresholds, nodes that follow from others, and mixtures: exact against brute force.

Random small networks are evaluated a second time here, with fractions and plain Python. Statistical tests state their
chance of a false alarm.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from fairchain import Decision, parse_spec, verify
from fairchain.errors import SpecError
from fairchain.populations.bayes.graph import build_graph
from fairchain.populations.bayes.nodes import Choice, Computed
from fairchain.prepare import prepare
from fairchain.spec import Node
from tests.networks import linear, save
from tests.questions import category, changed, integer, question, real

# Expressions over age (0 to 4) and years (0 to 3), as a node writes them and as Python computes them.
EXPRESSIONS = {
    "max(age, years + 1)": lambda age, years: max(age, years + 1),
    "2 * years - min(age, 2)": lambda age, years: 2 * years - min(age, 2),
    "years if age >= 2 else 0": lambda age, years: years if age >= 2 else 0,
    "abs(age - years) + (1 if age < years and years != 2 else 0)": lambda age, years: (
        abs(age - years) + (1 if age < years and years != 2 else 0)
    ),
    "age * years - (years - age)": lambda age, years: age * years - (years - age),
    "(0 if age * 2 > years + 3 else 1) * 3": lambda age, years: (0 if age * 2 > years + 3 else 1) * 3,
}


def twentieths(rng: np.random.Generator, size: int) -> list[Fraction]:
    cuts = sorted(rng.choice(np.arange(1, 20), size - 1, replace=False).tolist())
    return [Fraction(b - a, 20) for a, b in zip([0, *cuts], [*cuts, 20], strict=True)]


def floats(shares: list[Fraction]) -> list[float]:
    return [float(share) for share in shares]


def random_network(rng: np.random.Generator) -> tuple[list[dict[str, Any]], dict[tuple[int, ...], Fraction]]:
    """Nodes over the features age, years, score, sex, and the exact share of each (age, years, score, sex).

    A hidden kind selects the distribution of age (a mixture), years switches with age, score follows from both, and sex
    switches with the score: the protected feature depends on everything.
    """
    hidden = twentieths(rng, 2)
    ages = [twentieths(rng, 5) for _ in range(2)]
    thresholds = sorted(rng.choice([1, 2, 3, 4], int(rng.integers(1, 3)), replace=False).tolist())
    pieces = [twentieths(rng, 4) for _ in range(len(thresholds) + 1)]
    text = str(rng.choice(list(EXPRESSIONS)))
    cut, sexes = int(rng.integers(1, 4)), [twentieths(rng, 2) for _ in range(2)]
    keys = [f"age < {thresholds[0]}", f"age >= {thresholds[-1]}"]
    if len(thresholds) == 2:
        keys.insert(1, f"{thresholds[0]} <= age < {thresholds[1]}")
    nodes = [
        {"name": "kind", "values": ["a", "b"], "probabilities": floats(hidden)},
        {"name": "age", "parents": ["kind"], "probabilities": dict(zip("ab", map(floats, ages), strict=True))},
        {
            "name": "years",
            "parents": ["age"],
            "switches": {"age": thresholds if len(thresholds) > 1 else thresholds[0]},
            "probabilities": dict(zip(keys, map(floats, pieces), strict=True)),
        },
        {"name": "score", "parents": ["age", "years"], "value": text},
        {
            "name": "sex",
            "parents": ["score"],
            "switches": {"score": cut},
            "probabilities": {f"score < {cut}": floats(sexes[0]), f"score >= {cut}": floats(sexes[1])},
        },
    ]
    shares: dict[tuple[int, ...], Fraction] = {}
    for kind, age, years, sex in product(range(2), range(5), range(4), range(2)):
        score = min(max(EXPRESSIONS[text](age, years), 0), 6)
        piece = pieces[sum(age >= threshold for threshold in thresholds)]
        share = hidden[kind] * ages[kind][age] * piece[years] * sexes[int(score >= cut)][sex]
        person = age, years, score, sex
        shares[person] = shares.get(person, Fraction(0)) + share
    return nodes, shares


def asked(path: Path, nodes: list[dict[str, Any]]) -> dict[str, Any]:
    data = question(
        integer("age", 0, 4), integer("years", 0, 3), integer("score", 0, 6), category("sex", "F", "M"), path=str(path)
    )
    data["population"] = {"kind": "network", "nodes": nodes}
    return data


@pytest.mark.parametrize("first", range(0, 60, 6))
def test_sampling_and_enumeration_agree_with_brute_force(first: int, tmp_path: Path) -> None:
    """60 networks at delta 1e-6: an interval misses with a chance below 1e-4."""
    for number in range(first, first + 6):
        rng = np.random.default_rng(number)
        nodes, shares = random_network(rng)
        weights, bias = rng.integers(-3, 4, (4, 2)), rng.integers(-4, 5, 2)
        path = save(linear(weights.tolist(), bias.tolist()), tmp_path / f"{number}.onnx")

        def decided(person: tuple[int, ...], w: Any = weights, b: Any = bias) -> bool:
            scores = np.array(person) @ w + b
            return bool(scores[1] > scores[0])

        groups = [sum(share for person, share in shares.items() if person[3] == sex) for sex in range(2)]
        rates = [
            sum((share for p, share in shares.items() if p[3] == sex and decided(p)), start=Fraction(0)) / groups[sex]
            for sex in range(2)
        ]
        truth = abs(rates[0] - rates[1])
        data = asked(path, nodes)
        exact = verify(None, parse_spec(changed(data, "guarantee.engine", "enumeration")), workers=1)
        assert exact.exact
        assert exact.gap.estimate == float(truth)
        data["guarantee"] = {"delta": 1e-6, "engine": "sampling", "budget": {"rounds": 3000}, "seed": number}
        spec = parse_spec(data)
        sampled = verify(None, spec, workers=1)
        assert sampled.gap.low - 1e-9 <= float(truth) <= sampled.gap.high + 1e-9
        if sampled.decision is not Decision.UNDECIDED:
            assert (sampled.decision is Decision.FAIR) == (truth <= Fraction("0.1"))
        # Everything is a table, so that groups are drawn from their own distribution, without rejection.
        assert prepare(None, spec).population.exact


def test_a_node_that_follows_from_tables_is_a_table() -> None:
    nodes = [
        Node(name="age", values=(1, 2, 3), probabilities=(0.2, 0.3, 0.5)),
        Node(name="half", parents=("age",), value="0.5 * age"),
        Node(name="old", values=("no", "yes"), parents=("half",), value="'yes' if half > 0.9 else 'no'"),
        Node(name="mood", mean=0.0, std=1.0),
        Node(name="late", parents=("mood", "age"), value="mood + age"),
    ]
    features = parse_spec(question(real("half", 0, 9), real("late", -9, 9), category("old", "no", "yes"))).features
    graph = build_graph(features, nodes, "people")
    old, half = graph.nodes["old"], graph.nodes["half"]
    assert isinstance(old, Choice)
    assert isinstance(half, Choice)
    assert half.shown.tolist() == [0.5, 1.0, 1.5]
    assert old.table.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert isinstance(graph.nodes["late"], Computed)


# A census in the style of the verification literature: capital gain and age are normal, and switch with others.
CENSUS = [
    {"name": "sex", "probabilities": [0.33, 0.67]},
    {"name": "gain", "parents": ["sex"], "mean": {"F": 568.0, "M": 1329.0}, "std": {"F": 4924.0, "M": 8326.0}},
    {
        "name": "age",
        "parents": ["sex", "gain"],
        "switches": {"gain": 7298.0},
        "mean": {"F, gain < 7298": 38.4, "F, gain >= 7298": 38.8, "M, gain < 7298": 38.4, "M, gain >= 7298": 45.8},
        "std": {"F, gain < 7298": 13.6, "F, gain >= 7298": 13.2, "M, gain < 7298": 13.4, "M, gain >= 7298": 11.5},
    },
    {
        "name": "schooling",
        "parents": ["gain"],
        "switches": {"gain": [0, 7298]},
        "mean": {"gain < 0": 9.0, "0 <= gain < 7298": 10.0, "gain >= 7298": 12.0},
        "std": 2.5,
    },
    {"name": "years", "parents": ["age", "schooling"], "value": "min(schooling, age - 5)"},
]


def census(path: Path, formula: str) -> dict[str, Any]:
    data = question(
        real("gain", -100_000, 100_000), real("age", 0, 120), real("years", -200, 30), category("sex", "F", "M"),
        path=str(path), decision="logit",
    )  # fmt: skip
    data["population"] = {"kind": "network", "nodes": CENSUS}
    data["property"] = {"kind": "formula", "formula": formula}
    return data


def test_a_node_that_switches_has_the_distribution_of_each_side(tmp_path: Path) -> None:
    """P(age > 45 | sex): normal on each side of the threshold. Ten seeds at delta 1e-3: a false alarm in 100."""
    path = save(linear([[0.0], [1.0], [0.0], [0.0]], [-45.0], end="Identity"), tmp_path / "network.onnx")

    def rate(below: tuple[float, float], above: tuple[float, float], gain: tuple[float, float]) -> float:
        low = ndtr((7298 - gain[0]) / gain[1])
        over = [1 - ndtr((45 - mean) / std) for mean, std in (below, above)]
        return float(low * over[0] + (1 - low) * over[1])

    truth = rate((38.4, 13.4), (45.8, 11.5), (1329, 8326)) - rate((38.4, 13.6), (38.8, 13.2), (568, 4924))
    data = census(path, "P(yes | sex=M) - P(yes | sex=F) <= 0.2")
    data["guarantee"] = {"delta": 1e-3, "budget": {"rounds": 3000}}
    for seed in range(10):
        assert truth in verify(None, parse_spec(data), seed=seed, workers=1).gap


def test_what_follows_holds_in_every_input_that_is_drawn(tmp_path: Path) -> None:
    path = save(linear([[0.0], [1.0], [0.0], [0.0]], [-45.0], end="Identity"), tmp_path / "network.onnx")
    spec = parse_spec(census(path, "P(yes | sex=M and years >= 6) - P(yes | sex=F and years >= 6) <= 0.2"))
    case = prepare(None, spec)
    rounds = case.population.rounds(1, 0, 5000, subgroups=[0, 1])
    one, other = (rounds.show(group).astype(np.float64).copy() for group in range(2))
    for rows, sex in ((one, 1), (other, 0)):
        gain, age, years, who = rows.T
        assert (who == sex).all()
        assert (years >= 6).all()
        assert (years <= age - 5 + 1e-4).all()
        assert np.isfinite(gain).all()
    assert not np.array_equal(one[:, 0], other[:, 0])


def test_a_hidden_category_selects_a_component(tmp_path: Path) -> None:
    """Most have no gain at all, the others a normal one: P(gain > 0) is the share of the second component."""
    nodes = [
        {"name": "sex", "probabilities": [0.5, 0.5]},
        {
            "name": "component", "values": ["none", "some"], "parents": ["sex"],
            "probabilities": {"F": [0.9, 0.1], "M": [0.7, 0.3]},
        },
        {
            "name": "gain", "parents": ["component"],
            "mean": {"none": 0.0, "some": 5.0}, "std": {"none": 0.0, "some": 0.5},
        },
    ]  # fmt: skip
    path = save(linear([[1.0], [0.0]], [-0.01], end="Identity"), tmp_path / "network.onnx")
    data = question(real("gain", -10, 10), category("sex", "F", "M"), path=str(path), decision="logit")
    data["population"] = {"kind": "network", "nodes": nodes}
    verdict = verify(None, parse_spec(data), seed=2)
    assert verdict.decision is Decision.UNFAIR
    assert 0.2 in verdict.gap
    shown = prepare(None, parse_spec(data)).population.rounds(1, 0, 4000).show(0)
    assert abs((shown[:, 0] == 0).mean() - 0.9) < 5 * math.sqrt(0.09 / 4000)


NODES = {
    "sex": {"name": "sex", "probabilities": [0.5, 0.5]},
    "age": {"name": "age", "mean": 3.0, "std": 1.0},
}


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"parents": ["sex"], "value": "max(sex, 1)"}, '"sex" is a category; compare it with its values'),
        ({"parents": ["age"], "value": "age / 2"}, 'found "/", but the operators are +, - and *'),
        ({"parents": ["age"], "value": "__import__('os')"}, "the functions are min, max, abs"),
        ({"parents": ["age"], "value": "max(age)"}, "max takes two numbers or more"),
        ({"parents": ["age"], "value": "age +"}, "ends where more was expected"),
        ({"parents": ["age"], "value": "agee + 1"}, 'unknown feature "agee"; did you mean "age"?'),
        ({"parents": ["age", "sex"], "value": "age + 1"}, '"sex" is not used in value'),
        ({"parents": ["age"], "value": "age + 1", "mean": 3.0}, "remove one of the two"),
        ({"parents": ["age"], "value": "age * 1e300 * 1e10"}, "could become as large as"),
        ({"parents": ["age"], "switches": {"sex": 1}, "mean": 1.0, "std": 1.0}, '"sex" is not one of its parents'),
        ({"parents": ["sex"], "switches": {"sex": 1}, "mean": 1.0, "std": 1.0}, "are names, not numbers"),
        ({"parents": ["age"], "switches": {"age": [3, 2]}, "mean": 1.0, "std": 1.0}, "the smallest first"),
        ({"parents": ["age"], "switches": {"age": []}, "mean": 1.0, "std": 1.0}, "write one finite number or more"),
        (
            {"parents": ["age"], "switches": {"age": 40}, "mean": {"age < 40": 1.0, "age > 40": 2.0}, "std": 1.0},
            'did you mean "age >= 40"?',
        ),
        ({"parents": ["age"], "mean": 1.0, "std": 1.0}, "or where the node switches, switches = {age = 40}"),
    ],
)
def test_a_mistake_names_the_node_the_key_and_the_remedy(node: dict[str, Any], expected: str) -> None:
    data = question(real("age", 0, 9), real("score", -9, 9), category("sex", "F", "M"))
    data["population"] = {"kind": "network", "nodes": [*NODES.values(), {"name": "score", **node}]}
    with pytest.raises(SpecError) as caught:
        prepare(lambda values: values[:, 0] > 3, parse_spec(changed(data, "model", {"labels": ["no", "yes"]})))
    assert expected in str(caught.value)
    assert 'node "score"' in str(caught.value)
