"""Promises of `spec.texts`: a question about texts reads as any other, and what cannot be meant gives one message."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import msgspec
import pytest

from fairchain.errors import SpecError
from fairchain.spec import TextFeature, Texts, groups_of, json_schema, parse_spec, revise
from fairchain.spec.validate import NO_TEXT_FEATURE, TERMS_NEED_TEXT
from tests.messages import says
from tests.questions import category, changed, integer, question

TEXT = {"name": "comment", "kind": "text", "length": 60, "vectors": "glove"}
WHO = category("religion", "christian", "muslim", "none", terms="religion")


def about_texts() -> dict[str, Any]:
    data = question(copy.deepcopy(TEXT), copy.deepcopy(WHO))
    return {**data, "population": {"kind": "text", "dataset": "toxicity", "as": "observed", "replace": 3}}


def test_a_question_about_texts_reads_as_any_other() -> None:
    spec = parse_spec(about_texts())
    assert spec.text == TextFeature(name="comment", length=60, vectors="glove")
    assert [feature.name for feature in spec.features] == ["religion"]
    assert [feature.name for feature in spec.described] == ["comment", "religion"]
    assert spec.population == Texts(dataset="toxicity", reading="observed", replace=3)
    assert [group.name for group in groups_of(spec)] == ["religion=christian", "religion=muslim", "religion=none"]
    assert parse_spec(msgspec.to_builtins(spec)) == spec
    assert revise(spec, guarantee__seed=5).described == spec.described
    jsonschema.validate(about_texts(), json_schema())


def test_terms_say_that_the_network_has_no_such_input() -> None:
    assert [not feature.model_input for feature in parse_spec(about_texts()).features] == [True]


MISTAKES: dict[str, tuple[str, Any, list[str]]] = {
    "no words": (
        "feature.0.vectors",
        ...,
        ['feature "comment".length', "without them the model gets the text as it is", "glove"],
    ),
    "both kinds of words": ("feature.0.vocabulary", "w.txt", ['feature "comment"', "both vectors and vocabulary"]),
    "no length": ("feature.0.length", ..., ["has no length", "length = 60"]),
    "length 0": ("feature.0.length", 0, ["length: found 0", "from 1 to 10000"]),
    "length without end": ("feature.0.length", 10**9, ["length", "from 1 to 10000"]),
    "padding in the middle": ("feature.0.pad", "middle", ["pad", '"right" or "left"']),
    "values of a text": ("feature.0.values", ["a"], ['feature "comment".values', "unknown key"]),
    "no terms": ("feature.1.terms", ..., ['feature "religion"', "gets only the text", "terms ="]),
    "terms of an unknown value": ("feature.1.terms", {"hindu": ["hindu"]}, ['"hindu" is not one of its values']),
    "codes of a term": ("feature.1.codes", [1, 2, 3], ["codes: the text determines which groups it mentions"]),
    "one-hot terms": ("feature.1.one_hot", True, ["one_hot", "only the text"]),
    "a text without a corpus": ("population", {"kind": "uniform"}, ["population.kind", 'write kind = "text"']),
    "two corpora": ("population.path", "a.csv", ["population", "both path and dataset"]),
    "an unknown data set": ("population.dataset", "news", ["population.dataset", '"toxicity"']),
    "no reading": ("population.as", ..., ["population.as: missing", "observed", "swapped"]),
    "an unknown reading": ("population.as", "sample", ["population.as", "observed", "swapped"]),
    "too many replacements": ("population.replace", 101, ["population.replace", "0 to 100"]),
    "no neighbours": ("population.neighbours", 0, ["population.neighbours", "1 to 100"]),
    "other synonyms": ("population.synonyms", "thesaurus", ["population.synonyms", '"wordnet"']),
    "wordnet without a folder": ("population.synonyms", "wordnet", ["population.wordnet", "name its folder"]),
    "a folder without wordnet": ("population.wordnet", "wn", ["population.wordnet", "remove one"]),
    "a condition": ("property.given", "religion == 'muslim'", ["property.given", "the text determines"]),
    "true labels": (
        "property.criterion",
        "equal_opportunity",
        ["property.criterion", "needs the true labels", 'label = "..."'],
    ),
    "the same text in no group": (
        "property",
        {"kind": "individual", "protected": ["religion"], "threshold": 0.1},
        ["property.kind", 'as = "swapped"'],
    ),
    "a protected text": ("property.protected", ["comment"], ["property.protected", 'unknown feature "comment"']),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_names_the_key_and_the_remedy(name: str) -> None:
    key, value, words = MISTAKES[name]
    with pytest.raises(SpecError) as caught:
        parse_spec(changed(about_texts(), key, value))
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([TEXT, {**TEXT, "name": "reply"}, WHO], ['feature "reply"', "second text"]),
        ([TEXT, integer("age"), WHO], ['feature "age"', "model_input = false"]),
        ([TEXT, {**TEXT}], ["feature.name", '"comment" occurs twice']),
    ],
)
def test_beside_a_text_stands_only_who_is_mentioned(features: list[dict[str, Any]], words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({**about_texts(), "feature": features})
    assert all(word in str(caught.value) for word in words)


def test_terms_and_corpora_need_a_text() -> None:
    with pytest.raises(SpecError, match=says(TERMS_NEED_TEXT)):
        parse_spec(question(integer("age"), copy.deepcopy(WHO)))
    with pytest.raises(SpecError, match=says(NO_TEXT_FEATURE)):
        parse_spec({**question(), "population": about_texts()["population"]})
