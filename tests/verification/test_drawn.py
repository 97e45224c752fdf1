"""Decisions drawn with the network's probabilities: every engine agrees with sums of these probabilities.

The network ends in a sigmoid or softmax. A drawn decision has the probability that a 32-bit word falls into the label's
interval, so that the truth is a fraction, computed here from the network's own output. At delta 1e-6 one of the few
hundred intervals misses the truth with a chance below 1e-3; seeds are fixed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import Decision, ModelError, SpecError, Verdict, explain, parse_spec, recheck, verify
from fairchain.certificates import make_certificate
from fairchain.models.base import NON_DETERMINISTIC
from fairchain.models.onnx.decision import (
    DECISION_WORDS,
    NOT_PROBABILITIES,
    RANDOM_DECISIONS,
    DecisionRule,
    NoDecisionError,
    labels_drawn,
    words_that_change,
)
from fairchain.models.onnx.session import NETWORK_IS_DETERMINISTIC
from fairchain.prepare import prepare
from tests.messages import says
from tests.networks import constant, graph, node, save, value
from tests.questions import category, changed, integer, question
from tests.verification.exact import KINDS, POPULATIONS, random_answers

AGES, SEXES, JOBS = 4, 2, 3
Person = tuple[int, int, int]


def network(path: Path, rng: np.random.Generator, columns: int) -> Path:
    """A linear network of (age, job, sex) that ends in a sigmoid of one column or a softmax of several."""
    end = node("Sigmoid", ["a"], ["y"]) if columns == 1 else node("Softmax", ["a"], ["y"], axis=-1)
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["a"]), end]
    constants = [constant("w", rng.normal(0, 0.7, (3, columns))), constant("b", rng.normal(0, 0.5, columns))]
    return save(graph(nodes, [value("x", shape=("N", 3))], [value("y", shape=("N", columns))], constants), path)


def asked(path: Path, labels: int, **prop: Any) -> dict[str, Any]:
    data = question(
        integer("age", 0, AGES - 1),
        category("job", *(f"j{job}" for job in range(JOBS))),
        category("sex", "F", "M"),
        path=str(path),
        labels=[f"l{label}" for label in range(labels)],
        decision="random",
    )
    data["property"] |= prop
    data["guarantee"] = {"delta": 1e-6, "budget": {"rounds": 4000}}
    return data


def shares_of(data: dict[str, Any]) -> dict[Person, list[Fraction]]:
    """The exact probability of each label of every person, from the network's own numbers."""
    model = prepare(None, parse_spec(data)).model
    assert model is not None
    people = list(product(range(AGES), range(JOBS), range(SEXES)))
    ends = model.ends(np.array(people, np.float32))
    return {
        person: [Fraction(int(b - a), DECISION_WORDS) for a, b in zip([0, *row], row, strict=False)]
        for person, row in zip(people, ends.tolist(), strict=True)
    }


def gap(shares: dict[Person, list[Fraction]], people: list[Person], outcome: int) -> Fraction:
    rates = []
    for sex in range(SEXES):
        inside = [shares[person][outcome] for person in people if person[2] == sex]
        rates.append(sum(inside, start=Fraction(0)) / len(inside))
    return abs(rates[0] - rates[1])


def changing(shares: dict[Person, list[Fraction]], people: list[Person], outcome: int | None) -> Fraction:
    """Lay the labels of both sexes side by side on [0, 1), cut at all ends, and add the pieces that differ."""
    total = Fraction(0)
    for age, job, _ in people:
        both = [np.cumsum(shares[age, job, sex]).tolist() for sex in range(SEXES)]
        edges = sorted({Fraction(0), *both[0], *both[1]})
        for low, high in pairwise(edges):
            labels = {sum(low >= end for end in ends) for ends in both}
            differ = len({label == outcome for label in labels}) > 1 if outcome is not None else len(labels) > 1
            total += (high - low) * differ
    return total / len(people)


def contains(verdict: Verdict, truth: Fraction) -> None:
    assert verdict.gap.low - 1e-9 <= float(truth) <= verdict.gap.high + 1e-9
    if verdict.decision is not Decision.UNDECIDED:
        assert (verdict.decision is Decision.FAIR) == (truth <= Fraction(repr(verdict.spec.property.threshold)))


def rows_of(people: list[Person]) -> dict[str, list[Any]]:
    return {
        "age": [age for age, _, _ in people],
        "job": [f"j{job}" for _, job, _ in people],
        "sex": ["FM"[sex] for _, _, sex in people],
    }


@pytest.mark.parametrize("number", range(40))
def test_every_engine_agrees_with_the_sums_of_probabilities(number: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(number)
    labels = 2 + number % 2
    path = network(tmp_path / "network.onnx", rng, 1 if labels == 2 and number % 4 else labels)
    outcome, individual = int(rng.integers(labels)), number % 5 == 0
    prop: dict[str, Any] = {"outcome": f"l{outcome}", "threshold": 0.12}
    if individual:
        prop["kind"] = "individual"
        outcome = outcome if rng.random() < 0.5 else -1
        prop["outcome"] = None if outcome < 0 else f"l{outcome}"
    data = asked(path, labels, **prop)
    shares, everybody = shares_of(data), list(product(range(AGES), range(JOBS), range(SEXES)))

    def true_of(people: list[Person]) -> Fraction:
        return (
            changing(shares, people, None if outcome < 0 else outcome) if individual else gap(shares, people, outcome)
        )

    sampled = verify(None, parse_spec(changed(data, "guarantee.engine", "sampling")), workers=1, seed=number)
    contains(sampled, true_of(everybody))
    enumerated = verify(None, parse_spec(changed(data, "guarantee.engine", "enumeration")), workers=1)
    assert enumerated.exact
    assert enumerated.gap.estimate == pytest.approx(float(true_of(everybody)), abs=1e-12)
    contains(enumerated, true_of(everybody))
    people = [*everybody, *(everybody[place] for place in rng.integers(len(everybody), size=60))]
    tabled = changed(data, "population", {"kind": "table", "as": "population"})
    counted = verify(None, parse_spec(tabled), data=rows_of(people), workers=1)
    assert counted.gap.estimate == pytest.approx(float(true_of(people)), abs=1e-12)
    contains(counted, true_of(people))
    drawn = [everybody[place] for place in rng.integers(len(everybody), size=500)]
    sample = verify(None, parse_spec(changed(tabled, "population.as", "sample")), data=rows_of(drawn), workers=1)
    contains(sample, true_of(everybody))
    kind = ("sampling", "enumeration", "population", "sample")[number % 4]
    verdict, used = {
        "sampling": (sampled, None),
        "enumeration": (enumerated, None),
        "population": (counted, rows_of(people)),
        "sample": (sample, rows_of(drawn)),
    }[kind]
    (tmp_path / "certificate.json").write_text(json.dumps(make_certificate(verdict)))
    found = recheck(tmp_path / "certificate.json", path, data=used)
    assert found.holds, [str(claim) for claim in found.claims if not claim.holds]


@pytest.mark.parametrize("first", range(0, 48, 12))
def test_drawn_decisions_of_every_population_and_comparison_agree_with_brute_force(first: int, tmp_path: Path) -> None:
    """48 questions at delta 1e-6: a sampled interval misses with a chance below 1e-4."""
    for number in range(first, first + 12):
        rng = np.random.default_rng(number)
        asked = random_answers(rng, KINDS[number % 2], POPULATIONS[number // 2 % 4])
        path = asked.net.save(tmp_path / f"{number}.onnx", softmax=True)
        everybody = list(product(*map(range, asked.world.sizes)))
        labels = [f"l{label}" for label in range(asked.labels)]
        model = prepare(None, parse_spec(replace(asked, chances={}).spec(path, 0.5)), data=asked.world.table).model
        assert model is not None
        ends = model.ends(np.array(everybody, np.float32)).tolist()
        chances = [[Fraction(b - a, DECISION_WORDS) for a, b in zip([0, *row], row, strict=False)] for row in ends]
        asked = replace(asked, chances=dict(zip(everybody, chances, strict=True)))
        exact = asked.measured()
        threshold = float(exact) if number % 3 == 0 and 0 < exact < 1 else round(float(rng.uniform(0.05, 0.6)), 3)
        spec = parse_spec(asked.spec(path, threshold, engine="enumeration"))
        verdict = verify(None, spec, data=asked.world.table, workers=1)
        assert verdict.exact
        assert verdict.gap.estimate == pytest.approx(float(exact), abs=1e-12)
        assert (verdict.decision is Decision.FAIR) == asked.fair(threshold)
        for group in verdict.groups:
            rate = asked.subgroups(labels.index(group.outcome))[group.name]
            assert group.probability.estimate == pytest.approx(float(rate), abs=1e-12)
        budget = {"rounds": 3000}
        spec = parse_spec(asked.spec(path, threshold, engine="sampling", delta=1e-6, seed=number, budget=budget))
        verdict = verify(None, spec, data=asked.world.table, workers=1)
        assert verdict.gap.low - 1e-9 <= float(exact) <= verdict.gap.high + 1e-9
        if verdict.decision is not Decision.UNDECIDED:
            assert (verdict.decision is Decision.FAIR) == asked.fair(threshold)


def test_groups_of_a_round_share_the_word_that_decides(tmp_path: Path) -> None:
    """With equal probabilities no round shows a difference; words of their own would show one in every other round."""
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Sigmoid", ["m"], ["y"])]
    constants = [constant("w", np.zeros((3, 1)))]
    path = save(
        graph(nodes, [value("x", shape=("N", 3))], [value("y", shape=("N", 1))], constants), tmp_path / "network.onnx"
    )
    data = asked(path, 2, threshold=0.05)
    verdict = verify(None, parse_spec(changed(data, "guarantee.engine", "sampling")), seed=0)
    assert (verdict.decision, verdict.gap.estimate) == (Decision.FAIR, 0.0)
    assert verdict.constant is None
    rate = next(group.probability for group in verdict.groups)
    assert 0.5 in rate


def test_a_word_belongs_to_the_label_whose_interval_holds_it() -> None:
    rule = DecisionRule("y", "random", 3, width=3)
    ends = rule.ends(np.array([[0.25, 0.0, 0.75], [1.0, 0.0, 0.0]]), 2)
    assert ends.tolist() == [
        [2**30, 2**30, DECISION_WORDS],
        [DECISION_WORDS, DECISION_WORDS, DECISION_WORDS],
    ]
    words = np.array([2**30 - 1, DECISION_WORDS - 1], np.uint32)
    assert labels_drawn(ends, words).tolist() == [0, 0]
    assert labels_drawn(ends, words + np.uint32(1)).tolist() == [2, 0]
    for wrong in ([0.5, 0.6, 0.5], [np.nan, 0.5, 0.5], [-0.5, 0.5, 1.0]):
        with pytest.raises(NoDecisionError, match=says(NOT_PROBABILITIES)):
            rule.ends(np.array([wrong]), 1)


def test_changing_words_are_those_that_give_two_groups_different_labels() -> None:
    """Against trying many words one by one."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, 64, (3, 50, 4)), axis=2) * (DECISION_WORDS // 64)
    ends[..., -1] = DECISION_WORDS
    tried = (np.arange(64) * (DECISION_WORDS // 64)).astype(np.uint32)
    for outcome in (None, 0, 2):
        for row, found in enumerate(words_that_change(ends, outcome).tolist()):
            labels = np.stack([labels_drawn(np.repeat(ends[group, row][None], 64, 0), tried) for group in range(3)])
            seen = labels if outcome is None else labels == outcome
            assert found == int((seen != seen[0]).any(axis=0).sum()) * (DECISION_WORDS // 64)


def test_what_needs_decisions_that_follow_from_the_input_refuses_drawn_ones(tmp_path: Path) -> None:
    path = network(tmp_path / "network.onnx", np.random.default_rng(0), 1)
    with pytest.raises(ModelError, match=says(RANDOM_DECISIONS)):
        explain(None, parse_spec(asked(path, 2)))


def test_scores_that_are_not_probabilities_are_refused_with_the_input(tmp_path: Path) -> None:
    def scores(values: Any) -> Any:
        return values[:, 0] * 2.0

    with pytest.raises(ModelError, match=says(NOT_PROBABILITIES)):
        verify(scores, parse_spec(asked(tmp_path / "none.onnx", 2)))


class Coin:
    """A model that is the model is random: yes with probability 0.3 for F and 0.6 for M."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(7)

    def __call__(self, values: Any) -> Any:
        return (self.random.random(len(values)) < np.where(values[:, -1] == 0, 0.3, 0.6)).astype(int)


def random_question(**model: Any) -> dict[str, Any]:
    data = asked(Path("none.onnx"), 2, threshold=0.1)
    data["model"] = {"labels": ["l0", "l1"], "decision": "label", **model}
    return data


def test_a_model_that_is_random_by_itself_is_refused_with_the_key_that_allows_it() -> None:
    with pytest.raises(ModelError, match=says(NON_DETERMINISTIC)):
        verify(Coin(), parse_spec(random_question()))


def test_a_model_that_is_declared_random_gets_a_valid_verdict_and_a_certificate_that_says_so() -> None:
    spec = parse_spec(random_question(deterministic=False))
    verdict = verify(Coin(), spec)
    assert (verdict.decision, verdict.engine) == (Decision.UNFAIR, "sampling")
    assert 0.3 in verdict.gap
    assert any("declared random" in note for note in verdict.notes)
    assert any("cannot run it again bit by bit" in note for note in make_certificate(verdict)["notes"])


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("property.kind", "individual", 'kind = "individual" is not defined'),
        ("population", {"kind": "table", "as": "population"}, "not known exactly from one decision"),
        ("guarantee.engine", "enumeration", "the model is random"),
    ],
)
def test_questions_that_have_no_answer_for_a_random_model_are_refused(key: str, value: Any, expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        verify(Coin(), parse_spec(changed(random_question(deterministic=False), key, value)), data=None)


def test_a_network_cannot_be_declared_random(tmp_path: Path) -> None:
    path = network(tmp_path / "network.onnx", np.random.default_rng(0), 1)
    with pytest.raises(ModelError, match=says(NETWORK_IS_DETERMINISTIC)):
        verify(None, parse_spec(changed(asked(path, 2), "model.deterministic", False)))
