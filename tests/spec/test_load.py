"""Promises of `spec.load`: TOML and JSON read alike, and every mistake gives one message with file, key and remedy."""

from __future__ import annotations

import json
import tomllib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fairchain.errors import SpecError
from fairchain.examples import EXAMPLES, example
from fairchain.spec import json_schema, load_spec, parse_spec, revise
from fairchain.spec.load import MOST_SPEC_BYTES
from fairchain.system.untrusted_files import NO_FILE_HERE, UNREADABLE
from tests.child import run_child
from tests.messages import says_one_of
from tests.questions import category, changed, integer, question, real

TOML = """
[model]
path = "network.onnx"
labels = ["no", "yes"]

[[feature]]
name = "age"
kind = "integer"
low = 0
high = 9
groups = {young = [0, 3], odd = {values = [5, 7, 9]}, four = 4}

[[feature]]
name = "sex"
kind = "category"
values = ["Female", "Male"]

[property]
kind = "difference"
protected = ["age", "sex"]
outcome = "yes"
threshold = 0.25

[guarantee]
delta = 1e-3
budget = {rounds = 1e4}
"""

AGE_BY_GROUPS = changed(question(), "property.protected", ["age"])
NAN, INFINITY = float("nan"), float("inf")

# What is changed in a good spec, and words that the message must have.
MISTAKES: dict[str, tuple[dict[str, Any], str, Any, list[str]]] = {
    "two Bayesian networks": (
        question(),
        "population",
        {"kind": "network", "path": "x.bif", "nodes": [{"name": "a"}]},
        ["population: has both path and nodes"],
    ),
    "unknown table": (question(), "modle", {}, ["modle", "unknown key", 'did you mean "model"']),
    "unknown model key": (question(), "model.lables", [], ["model.lables", 'did you mean "labels"']),
    "unknown feature key": (question(), "feature.0.lowest", 1, ['feature "age".lowest', 'did you mean "low"']),
    "unknown property key": (question(), "property.treshold", 1, ["property.treshold", 'did you mean "threshold"']),
    "unknown guarantee key": (question(), "guarantee.detla", 1, ["guarantee.detla", 'did you mean "delta"']),
    "unknown budget key": (question(), "guarantee.budget.round", 1, ["budget.round", 'did you mean "rounds"']),
    "unknown population key": (question(), "population.knd", "uniform", ["population.knd", 'did you mean "kind"']),
    "unknown group key": (
        AGE_BY_GROUPS,
        "feature.0.groups",
        {"a": {"value": [1]}, "b": 2},
        ['feature "age".groups.a.value', 'did you mean "values"'],
    ),
    "groups in the wrong table": (question(), "property.groups", {}, ["property.groups", "[[feature]]"]),
    "low above high": (question(), "feature.0.low", 10, ['feature "age"', "low 10 is above high 9", "exchange"]),
    "threshold 0": (question(), "property.threshold", 0, ["property.threshold", "found 0", "between 0 and 1"]),
    "threshold 1": (question(), "property.threshold", 1, ["property.threshold", "found 1", "between 0 and 1"]),
    "threshold 1.5": (question(), "property.threshold", 1.5, ["property.threshold", "1.5", "between 0 and 1"]),
    "threshold of a signalling NaN": (
        question(),
        "property.threshold",
        Decimal("sNaN"),
        ["property.threshold", "sNaN"],
    ),
    "delta of a signalling NaN": (question(), "guarantee", {"delta": Decimal("sNaN")}, ["guarantee.delta", "sNaN"]),
    "threshold of a huge fraction": (question(), "property.threshold", Fraction(10**400, 3), ["property.threshold"]),
    "two keys that are one text": (
        question(),
        "feature.0.groups",
        {1: [0, 4], "1": [5, 9]},
        ["groups", "expected str"],
    ),
    "threshold NaN": (question(), "property.threshold", NAN, ["property.threshold", "nan", "between 0 and 1"]),
    "threshold as text": (question(), "property.threshold", "0.1", ["property.threshold", '"0.1"', "write a number"]),
    "delta 0": (question(), "guarantee.delta", 0, ["guarantee.delta", "found 0", "for example delta = 1e-6"]),
    "epsilon too large": (question(), "guarantee.epsilon", 0.5, ["guarantee.epsilon", "found 0.5", "epsilon = 0.01"]),
    "rounds 1.5": (question(), "guarantee.budget.rounds", 1.5, ["guarantee.budget.rounds", "whole number", "1e8"]),
    "rounds without end": (question(), "guarantee.budget.rounds", INFINITY, ["guarantee.budget.rounds", "1e8"]),
    "seed too large": (question(), "guarantee.seed", 2**63, ["guarantee.seed", "2**63 - 1"]),
    "unknown rule": (question(), "guarantee.rule", "guess", ["guarantee.rule", '"guess"', '"betting"']),
    "no such protected feature": (
        question(),
        "property.protected",
        ["sx"],
        ["property.protected", 'unknown feature "sx"', 'did you mean "sex"'],
    ),
    "nothing protected": (question(), "property.protected", [], ["property.protected", "at least one"]),
    "protected twice": (question(), "property.protected", ["sex", "sex"], ["property.protected", '"sex"', "twice"]),
    "outcome is no label": (
        question(),
        "property.outcome",
        "yess",
        ["property.outcome", '"yess"', "model.labels", 'did you mean "yes"'],
    ),
    "labels twice": (question(), "model.labels", ["no", "no"], ["model.labels", '"no"', "twice", "different"]),
    "one label": (question(), "model.labels", ["no"], ["model.labels", "every class"]),
    "codes for labels too few": (question(), "model.codes", [1], ["model.codes", "1 codes for 2 labels", "each"]),
    "codes for labels twice": (question(), "model.codes", [1, 1], ["model.codes", "twice"]),
    "codes that no label can be": (question(), "model.codes", [0, 2**70], ["model.codes", "2**63"]),
    "codes for values too few": (question(), "feature.1.codes", [1], ['"sex".codes', "1 codes for 2 values", "each"]),
    "codes for values not finite": (question(), "feature.1.codes", [0, NAN], ['"sex".codes', "finite"]),
    "codes and one_hot": (
        question(category("sex", "f", "m", one_hot=True)),
        "feature.0.codes",
        [1, 2],
        ['feature "sex"', "exclude", "keep one"],
    ),
    "an old name: cut": (question(), "model.cut", 0.5, ["model.cut: renamed; write decision_threshold = ..."]),
    "an old name: cells": (
        question(),
        "feature.1.cells",
        [1, 2],
        [".cells: renamed; write aliases = [...]"],
    ),
    "an old name: unseen": (question(), "feature.0.unseen", True, ["unseen: renamed; write model_input = false"]),
    "cut without a threshold": (question(), "model.decision_threshold", 0.5, ["model.decision_threshold", "state one"]),
    "integers without end": (question(), "feature.0.high", 10**400, ['feature "age"', "2**32"]),
    "too many integers": (question(), "feature.0.high", 2**33, ['feature "age"', "2**32", 'kind = "real"']),
    "integers that no double can hold": (
        question(integer("k", 2**60), category("s", "a", "b")),
        "feature.0.high",
        2**60 + 5,
        ['feature "k"', "2**53"],
    ),
    "real range that overflows": (
        question(real("x", -1.7e308, 0), category("s", "a", "b")),
        "feature.0.high",
        1.7e308,
        ['feature "x"', "narrow"],
    ),
    "real range of one point": (question(real("x"), integer("k")), "feature.0.low", 1.0, ['feature "x"', "widen"]),
    "feature missing": (question(), "feature", ..., ["feature", "missing", "[[feature]]"]),
    "no features": (question(), "feature", [], ["feature", "[[feature]]"]),
    "kind missing": (question(), "feature.0.kind", ..., ['"age".kind', "missing", '"real", "category" or "text"']),
    "unknown kind": (question(), "feature.0.kind", "int", ['"age".kind', '"int"', '"integer"']),
    "low missing": (question(), "feature.0.low", ..., ['"age".low', "missing", "low = "]),
    "low is no integer": (question(), "feature.0.low", 0.5, ['"age".low', "0.5", "int"]),
    "names twice": (question(), "feature.0.name", "sex", ["feature.name", '"sex"', "twice", "different"]),
    "values missing": (question(), "feature.1.values", [], ['"sex".values', "at least one"]),
    "values that print alike": (question(), "feature.1.values", [1, "1"], ['"sex".values', "twice"]),
    "not a table": (question(), "model", None, ["model", "null"]),
}


def write(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "audit.json"
    path.write_bytes(msgspec.json.encode(data))
    return path


def test_toml_and_json_read_alike(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(TOML)
    (tmp_path / "audit.json").write_text(json.dumps(tomllib.loads(TOML)))
    assert load_spec(tmp_path / "audit.toml") == load_spec(tmp_path / "audit.json")


def test_the_model_is_found_beside_the_spec(tmp_path: Path) -> None:
    (tmp_path / "audit.toml").write_text(TOML)
    assert load_spec(tmp_path / "audit.toml").model.path == str(tmp_path / "network.onnx")


def test_what_is_not_said_has_a_default() -> None:
    spec = parse_spec(changed(question(), "guarantee", ...))
    assert (spec.guarantee.delta, spec.guarantee.rule, spec.guarantee.seed) == (1e-6, "betting", None)
    assert spec.property.outcome is None


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_names_the_key_and_the_remedy(name: str) -> None:
    good, key, value, words = MISTAKES[name]
    with pytest.raises(SpecError) as caught:
        parse_spec(changed(good, key, value))
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bad.toml", b"[model\npath = 1", ["not valid TOML", "line 1"]),
        ("bad.json", b'{"model": ', ["not valid JSON"]),
        ("list.json", b"[1, 2]", ["one JSON object"]),
        ("twice.json", b'{"model": {"labels": ["a"], "labels": ["b"]}}', ['the key "labels" occurs twice']),
        ("bad.toml", b'[model]\npath = "\xe9"', ["not UTF-8", "save it as UTF-8"]),
        ("bad.json", b'{"model": "\xe9"}', ["UTF-8"]),
        ("deep.toml", b"a = " + b"[" * 50_000 + b"]" * 50_000, ["nested too deeply"]),
        ("deep.json", b"[" * 50_000 + b"]" * 50_000, ["nested too deeply"]),
        ("huge.toml", b"#" * (MOST_SPEC_BYTES + 1), ["larger than", "path of a spec"]),
        ("empty.toml", b"", ["model", "missing"]),
        ("spec.yaml", b"model: x", [".toml or .json", '".yaml"', "rename"]),
    ],
)
def test_a_file_that_is_no_spec_says_so(tmp_path: Path, name: str, content: bytes, words: list[str]) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / name)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / name}: ")
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", ["missing.toml", "a\0b.toml", "."])
def test_a_path_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match=says_one_of(NO_FILE_HERE, UNREADABLE)):
        load_spec(tmp_path / name)


def test_a_file_without_an_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    path.symlink_to("/dev/zero")
    code = "import sys, fairchain\ntry: fairchain.load_spec(sys.argv[1])\nexcept fairchain.SpecError as e: print(e)"
    assert run_child(code, path).startswith(f"{path}: ")


def test_the_message_begins_with_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, changed(question(), "property.threshold", 2))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}: property.threshold: found 2; ")


@pytest.mark.parametrize("garbage", [{None: 1}, {"model": object()}, {"\ud800": 1}, changed(question(), "x\ud800", 1)])
def test_python_objects_that_no_file_could_hold_are_a_spec_error(garbage: Any) -> None:
    with pytest.raises(SpecError):
        parse_spec(garbage)


def test_a_seed_alone_is_checked_like_every_other_change() -> None:
    spec = parse_spec(question())
    seeded = revise(spec, guarantee__seed=5)
    assert seeded == replace(spec, guarantee=replace(spec.guarantee, seed=5))
    # None leaves a seed as it is.
    assert revise(seeded, guarantee__seed=None) == seeded
    with pytest.raises(SpecError, match=r"guarantee\.seed"):
        revise(spec, guarantee__seed=-1)
    wrong = replace(spec, guarantee=replace(spec.guarantee, delta=2.0))
    with pytest.raises(SpecError, match=r"guarantee\.delta"):
        revise(wrong, guarantee__seed=5)
    # Several questions are not answered as if they were one.
    several = replace(spec, property=replace(spec.property, depth=2))
    with pytest.raises(SpecError, match=r"property\.depth"):
        revise(several, guarantee__seed=5)


def test_revise_changes_one_key_and_keeps_the_rest() -> None:
    spec = parse_spec(question())
    other = revise(spec, guarantee__delta=0.05, guarantee__budget__rounds=7.0, property__outcome=None)
    assert (other.guarantee.delta, other.guarantee.budget.rounds) == (0.05, 7)
    assert revise(other, guarantee__delta=0.001, guarantee__budget__rounds=20000.0) == spec


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"guarantee__delta": 0.0}, "guarantee.delta"),
        ({"property__outcome": "maybe"}, "property.outcome"),
        ({"property__protected": ["nobody"]}, "property.protected"),
        ({"guarantee__budget__rounds": 0.5}, "guarantee.budget.rounds"),
        ({"guarantee__sed": 1}, "guarantee.sed"),
    ],
)
def test_revise_checks_again(change: dict[str, Any], key: str) -> None:
    with pytest.raises(SpecError, match=key):
        revise(parse_spec(question()), **change)


@pytest.mark.parametrize(
    ("outcome", "protected", "formula"),
    [
        ("yes", ["sex"], "for all i, j: |P(Y=yes | sex=i) - P(Y=yes | sex=j)| <= 0.1"),
        (None, ["sex"], "for all l, i, j: |P(Y=l | sex=i) - P(Y=l | sex=j)| <= 0.1"),
        ("no", ["age", "sex"], "for all i, j: |P(Y=no | age & sex=i) - P(Y=no | age & sex=j)| <= 0.1"),
    ],
)
def test_a_property_prints_as_its_formula(outcome: str | None, protected: list[str], formula: str) -> None:
    data = changed(changed(question(), "property.outcome", outcome), "property.protected", protected)
    assert str(parse_spec(data).property) == formula


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_schema_for_editors_takes_the_embedded_specs(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    jsonschema.validate(tomllib.loads(example(name).read_text()), json_schema())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("modle", {}),
        ("property.treshold", 0.1),
        ("feature.0.hihg", 3),
        ("guarantee.delta", 0),
        ("feature.0.kind", "int"),
    ],
)
def test_the_schema_for_editors_rejects_what_we_reject(key: str, value: Any) -> None:
    jsonschema.validate(question(), json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(changed(question(), key, value), json_schema())


names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6)
integers = st.tuples(names, st.integers(-50, 50), st.integers(1, 30)).map(lambda t: integer(t[0], t[1], t[1] + t[2]))
reals = st.tuples(names, st.floats(-1e6, 1e6), st.floats(0.5, 9)).map(lambda t: real(t[0], t[1], t[1] + t[2]))
categories = st.tuples(names, st.lists(names, min_size=2, max_size=6, unique=True)).map(lambda t: category(t[0], *t[1]))


@st.composite
def questions(draw: st.DrawFn) -> dict[str, Any]:
    features = draw(st.lists(integers | reals | categories, max_size=4, unique_by=lambda feature: feature["name"]))
    last = draw(categories | integers)
    features = [feature for feature in features if feature["name"] != last["name"]]
    data = question(*features, last)
    data["property"]["threshold"] = draw(st.floats(0, 1, exclude_min=True, exclude_max=True))
    data["guarantee"] = {"seed": draw(st.integers(0, 2**63 - 1)), "rule": draw(st.sampled_from(["betting", "paper"]))}
    return data


@settings(max_examples=60, deadline=None, derandomize=True)
@given(questions())
def test_a_spec_survives_being_written_and_read_again(data: dict[str, Any]) -> None:
    spec = parse_spec(data)
    assert parse_spec(msgspec.to_builtins(spec)) == spec


keys = st.sampled_from(["model", "path", "labels", "feature", "name", "kind", "low", "high", "values", "groups", "x"])
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["integer"])
garbage = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))
PLACES = """
    model model.labels model.codes feature feature.0 feature.0.low feature.0.high feature.0.groups feature.1.values
    feature.1.codes feature.1.groups property property.protected property.threshold guarantee guarantee.budget
"""


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(PLACES.split()), garbage)
def test_garbage_in_any_place_is_a_spec_error_or_a_spec(place: str, value: Any) -> None:
    data = changed(changed(question(), "property.protected", ["age", "sex"]), place, value)
    try:
        spec = parse_spec(data)
    except SpecError:
        return
    assert parse_spec(msgspec.to_builtins(spec)) == spec
