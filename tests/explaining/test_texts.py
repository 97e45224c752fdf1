"""Texts: cells and words are explained, and a witness shows the text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairchain.explaining import explain
from fairchain.models import OnnxModel
from fairchain.spec import Spec, parse_spec, revise
from tests.networks import constant, graph, node, value

WORDS = ["<pad>", "the", "christian", "muslim", "is", "here", "bad", "good", "day"]
# What each word adds to the score: one group's term as much as a bad word.
SCORES = [0, 0, 0, 1.0, 0.0, 0.05, 1.0, -1.0, 0.0]
TEXTS = [
    "the christian is here",
    "the muslim is good",
    "the muslim is here the day is good",
    "christian is bad",
    "a good day the muslim is good",
    "is the christian good",
]


@pytest.fixture
def asked(tmp_path: Path) -> Spec:
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return parse_spec(
        {
            "model": {"labels": ["fine", "toxic"], "decision": "logit", "decision_threshold": 0.5},
            "feature": [
                {"name": "comment", "kind": "text", "length": 8, "vocabulary": str(tmp_path / "words.txt")},
                {
                    "name": "religion",
                    "kind": "category",
                    "values": ["christian", "muslim"],
                    "terms": {"christian": ["christian"], "muslim": ["muslim"]},
                },
            ],
            "population": {"kind": "text", "path": str(tmp_path / "texts.txt"), "as": "swapped"},
            "property": {"kind": "difference", "protected": ["religion"], "outcome": "toxic", "threshold": 0.1},
        }
    )


def network(asked: Spec) -> OnnxModel:
    """Adds up the scores of the words, behind a relu."""
    nodes = [
        node("Gather", ["scores", "x"], ["each"]),
        node("ReduceSum", ["each", "axis"], ["sum"], keepdims=0),
        node("Relu", ["sum"], ["h"]),
        node("Identity", ["h"], ["y"]),
    ]
    constants = [constant("scores", np.array(SCORES)[:, None]), constant("axis", [1], np.int64)]
    made = graph(nodes, [value("x", 7, ("N", 8))], [value("y", shape=("N", 1))], constants)
    return OnnxModel.from_bytes(made.SerializeToString(), "texts.onnx", asked)


def test_the_words_that_make_the_difference_come_first(asked: Spec) -> None:
    found = explain(network(asked), asked, rounds=1000)
    assert (found.pair.more, found.pair.less) == ("religion=muslim", "religion=christian")
    assert found.words[0].word == "muslim"
    assert found.words[0].effect.low > 0.05
    words = {each.word: each for each in found.words}
    assert words["the"].effect.estimate == 0
    assert 1 / 6 in found.gap
    # Every text mentions the group, and one of six has a bad word that keeps it toxic without the term.
    assert words["muslim"].texts == 1000
    assert 1 / 6 in words["muslim"].effect


def test_a_witness_is_the_text_as_the_group_with_the_outcome_has_it(asked: Spec) -> None:
    found = explain(network(asked), asked, rounds=200)
    assert found.witnesses[0].input == {"comment": "the muslim is here"}
    assert found.witnesses[0].labels == ("toxic", "fine")


def test_the_units_of_a_network_that_reads_texts_are_its_neurons(asked: Spec) -> None:
    found = explain(network(asked), asked, rounds=1000)
    assert [unit.name for unit in found.units] == ["layer1[0]"]
    assert found.units[0].remaining == 0


def test_the_share_that_changes_is_one_of_texts(asked: Spec) -> None:
    found = explain(network(asked), revise(asked, property__kind="individual"), rounds=200)
    assert found.headline.startswith("The share of texts decided differently as religion=")


def recurrent(asked: Spec) -> OnnxModel:
    """The words' scores go through an LSTM that is told how many there are; two units, of which the head reads one."""
    rng = np.random.default_rng(1)
    units = 2
    nodes = [
        node("Gather", ["scores", "x"], ["each"]),
        node("Transpose", ["each"], ["timed"], perm=[1, 0, 2]),
        node("LSTM", ["timed", "w", "r", "", "lengths"], ["all", "last"], hidden_size=units),
        node("Squeeze", ["last", "axis"], ["state"]),
        node("MatMul", ["state", "head"], ["y"]),
    ]
    weights = {"w": np.abs(rng.normal(1, 0.3, (1, 4 * units, 1))), "r": rng.normal(0, 0.2, (1, 4 * units, units))}
    constants = [constant(name, array) for name, array in weights.items()]
    constants += [constant("scores", np.array(SCORES)[:, None]), constant("axis", [0], np.int64)]
    constants.append(constant("head", [[0.0], [4.0]]))
    inputs = [value("x", 7, ("N", 8)), value("lengths", 6, ("N",))]
    made = graph(nodes, inputs, [value("y", shape=("N", 1))], constants)
    return OnnxModel.from_bytes(made.SerializeToString(), "lstm.onnx", asked)


def test_cells_that_read_a_text_are_units(asked: Spec) -> None:
    found = explain(recurrent(asked), asked, rounds=1000)
    assert {unit.name for unit in found.units} == {"lstm1[0]", "lstm1[1]"}
    assert found.gap.low > 0
    assert found.units[0].name == "lstm1[1]"
    assert found.units[0].remaining == 0
    assert found.units[1].effect.estimate == 0
    assert found.words[0].word == "muslim"
