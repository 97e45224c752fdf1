"""Promises of checking a network: what cannot be meant is refused with the node, what was found and what to write."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.errors import SpecError
from fairchain.populations.bayes.graph import DEPENDS_ON_ITSELF, TOO_MANY_NODES, BayesGraph, build_graph
from fairchain.populations.bayes.nodes import (
    AMBIGUOUS_VALUES,
    FEATURE_IS_A_CATEGORY,
    REAL_FEATURE_IN_TABLE,
    SLOPES_NEEDED,
    SWITCHES_NEEDED,
    TOO_MANY_COMBINATIONS,
    TOO_MANY_NODE_VALUES,
    Choice,
    Normal,
)
from fairchain.spec import Node, parse_spec
from tests.messages import says
from tests.questions import category, changed, integer, question, real

SEX = category("sex", "Female", "Male")
JOB = category("job", "none", "some")
FEATURES = [JOB, integer("age", 17, 90), real("pay", 0, 100), SEX]
NODES: dict[str, Any] = {
    "nodes": [
        {"name": "sex", "probabilities": [0.5, 0.5]},
        {"name": "mood", "values": ["bad", "good"], "probabilities": [0.5, 0.5]},
        {
            "name": "job",
            "parents": ["sex", "mood"],
            "probabilities": {
                "Female, bad": [0.5, 0.5],
                "Female, good": [0.25, 0.75],
                "Male, bad": [0.0, 1.0],
                "Male, good": [0.125, 0.875],
            },
        },
        {"name": "age", "values": [20, 40, 60], "probabilities": [0.25, 0.25, 0.5]},
        {
            "name": "pay",
            "parents": ["age", "job"],
            "mean": {"none": 10.0, "some": 20.0},
            "std": 5.0,
            "slopes": {"age": 0.5},
        },
    ]
}


def build(data: dict[str, Any], features: list[dict[str, Any]] | None = None) -> BayesGraph:
    spec = parse_spec(question(*(features or FEATURES)) | {"population": {"kind": "network", **data}})
    return build_graph(spec.features, spec.population.nodes, "people.json")  # type: ignore[union-attr]


def choice(graph: BayesGraph, name: str) -> Choice:
    node = graph.nodes[name]
    assert isinstance(node, Choice)
    return node


def test_nodes_become_arrays_parents_first() -> None:
    graph = build({"nodes": NODES["nodes"][::-1]})
    assert list(graph.nodes) == ["age", "mood", "sex", "job", "pay"]
    job, pay = choice(graph, "job"), graph.nodes["pay"]
    assert job.table.tolist() == [[0.5, 0.5], [0.25, 0.75], [0, 1], [0.125, 0.875]]
    assert choice(graph, "age").shown.tolist() == [20, 40, 60]
    assert isinstance(pay, Normal)
    assert (pay.choices, pay.slopes) == (("job",), (("age", 0.5),))
    assert (pay.mean.tolist(), pay.std.tolist()) == ([10, 20], [5, 5])
    assert graph.ancestors(["job"]) == ["mood", "sex", "job"]
    assert graph.descendants(["sex"]) == ["job", "pay"]


def test_an_integer_feature_has_all_its_values_unless_it_lists_some() -> None:
    nodes = [NODES["nodes"][0], {"name": "k", "probabilities": [0.25, 0.25, 0.5]}]
    assert choice(build({"nodes": nodes}, [integer("k", -1, 1), SEX]), "k").shown.tolist() == [-1, 0, 1]
    listed = changed({"nodes": nodes}, "nodes.1.values", ["1", "-1", "0"])
    assert choice(build(listed, [integer("k", -1, 1), SEX]), "k").shown.tolist() == [1, -1, 0]


def test_a_categorys_values_may_stand_in_any_order() -> None:
    nodes = [{"name": "sex", "values": ["Male", "Female"], "probabilities": [0.25, 0.75]}]
    assert choice(build({"nodes": nodes}, [SEX]), "sex").table.tolist() == [[0.75, 0.25]]


def test_values_that_are_numbers_and_their_text_are_the_same() -> None:
    nodes = [{"name": "grade", "values": ["2", "1"], "probabilities": [0.25, 0.75]}]
    assert choice(build({"nodes": nodes}, [category("grade", 1, 2)]), "grade").table.tolist() == [[0.75, 0.25]]


def test_rounding_in_a_file_is_forgiven_and_divided_out() -> None:
    table = choice(build(changed(NODES, "nodes.0.probabilities", [0.3333333, 0.6666666])), "sex").table
    assert table.sum() == 1
    assert table[0, 0] == pytest.approx(1 / 3, abs=1e-6)


def test_values_with_commas_are_found_by_their_keys() -> None:
    sex = category("sex", "a, b", "a")
    nodes = [
        {"name": "sex", "probabilities": [0.5, 0.5]},
        {"name": "h", "values": ["c", "d, e"], "probabilities": [0.5, 0.5]},
        {
            "name": "job",
            "parents": ["sex", "h"],
            "probabilities": {"a, b, c": [1, 0], "a, b, d, e": [0, 1], "a, c": [0.5, 0.5], "a, d, e": [0.25, 0.75]},
        },
    ]
    assert choice(build({"nodes": nodes}, [JOB, sex]), "job").table[:, 0].tolist() == [1, 0, 0.5, 0.25]
    doubtful = changed({"nodes": nodes}, "nodes.1.values", ["c", "b, c"])
    with pytest.raises(SpecError, match=says(AMBIGUOUS_VALUES)):
        build(doubtful, [JOB, sex])


def test_a_number_may_be_the_same_for_all_combinations() -> None:
    pay = build(changed(NODES, "nodes.4.mean", 10.0)).nodes["pay"]
    assert isinstance(pay, Normal)
    assert (pay.choices, pay.mean.tolist()) == ((), [10])


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("0.name", "sxe", 'people.json: node "sex" is missing, and every feature must be a node; did you mean "sxe"?'),
        ("1.name", "sex", 'node "sex": occurs twice; rename or remove one'),
        (
            "0.probabilities",
            [0.5, 0.4],
            'node "sex".probabilities: the probabilities of Female, Male sum to 0.9; write',
        ),
        ("0.probabilities", [1.5, -0.5], 'node "sex".probabilities: the probability of "Male" is -0.5; write a number'),
        ("0.probabilities", [1.0], 'node "sex".probabilities: found 1 probabilities for 2 values (Female, Male)'),
        ("0.probabilities", [], "found 0 probabilities for 2 values"),
        ("0.probabilities", [float("nan"), 1.0], 'the probability of "Female" is nan; write a number from 0 to 1'),
        ("0.probabilities", {"": [0.5, 0.5]}, "it has no parents; write one list: probabilities = [...]"),
        (
            "0.probabilities",
            ...,
            'node "sex": has neither probabilities nor mean; give the probabilities of its values',
        ),
        ("0.mean", 1.0, 'node "sex": has both probabilities and mean'),
        ("0.std", 1.0, 'node "sex": has probabilities, so std and slopes have no effect; remove them'),
        (
            "0.values",
            ["Female", "male"],
            'node "sex".values: "male" is not a value of feature "sex"; did you mean "Male"?',
        ),
        ("0.values", ["Female"], 'node "sex".values: "Male" is missing, a value of feature "sex"; add it or remove it'),
        (
            "0.values",
            ["Male", "Female", "Male"],
            'node "sex".values: "Male" occurs twice; every value must be different',
        ),
        ("0.values", [], 'node "sex".values: found no value; list at least one'),
        ("1.values", ..., 'node "mood".values: missing, as no feature has this name; name them'),
        ("2.parents", ["sex", "moood"], 'node "job".parents: unknown node "moood"; did you mean "mood"?'),
        ("2.parents", ["sex", "sex"], 'node "job".parents: "sex" occurs twice; name each parent once'),
        ("2.parents", ["sex", "job"], 'node "job".parents: it depends on itself (job <- job); remove one'),
        ("3.parents", ["pay"], 'node "pay".parents: it depends on itself (pay <- age <- pay); remove one of these'),
        (
            "2.parents",
            ["mood", "sex"],
            '.probabilities: "Female, bad" is not a combination of values of mood, sex; write them in this',
        ),
        ("2.parents", ["mood"], 'node "job".probabilities: "Female, bad" is not a combination of values of mood; '),
        (
            "2.probabilities",
            [0.5, 0.5],
            'write a list for each combination: probabilities = {"Female, bad" = [...], ...}',
        ),
        (
            "2.probabilities.Male, bad",
            ...,
            'nothing is stated for "Male, bad"; write an entry for each of 4 combinations',
        ),
        (
            "2.probabilities.Male, bad",
            [1, 1],
            'node "job".probabilities."Male, bad": the probabilities of none, some sum',
        ),
        (
            "2.probabilities.Male,bad",
            [1, 0],
            '"Male,bad" is not a combination of values of sex, mood; did you mean "Male, b',
        ),
        (
            "3.values",
            [20, 40, 99],
            'node "age".values: "99" is not a whole number from 17 to 90, the range of feature "age"',
        ),
        ("3.values", ["20", "40", "060"], '"060" is not a whole number from 17 to 90'),
        ("3.values", ["20", "40", "old"], '"old" is not a whole number from 17 to 90'),
        (
            "4.mean.none",
            ...,
            'node "pay".mean: nothing is stated for "none"; write an entry for each of 2 combinations',
        ),
        ("4.mean.none", float("inf"), 'node "pay".mean: found inf; write a finite number'),
        ("4.std", ..., 'node "pay".std: missing; write the standard deviation, for example std = 1.0'),
        ("4.std", -1.0, 'node "pay".std: found -1; a standard deviation is at least 0'),
        ("4.std", {"none": 1.0}, 'node "pay".std: nothing is stated for "some"'),
        ("4.values", [1, 2], 'node "pay".values: a number with mean and std has no list of values; remove it'),
        ("4.slopes", {"agee": 1.0}, 'node "pay".slopes: "agee" is not one of its parents; did you mean "age"?'),
        ("4.slopes", {"age": 1.0, "job": 1.0}, 'node "pay".slopes: the values of "job" are names, not numbers; remove'),
        ("4.slopes.age", float("nan"), 'node "pay".slopes.age: found nan; write a finite number'),
        ("4.slopes.age", 1e300, 'node "pay".slopes: it could become as large as 6e+301; choose other units'),
    ],
)
def test_what_cannot_be_meant_is_refused(key: str, value: Any, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        build(changed(NODES, f"nodes.{key}", value))
    assert expected in str(caught.value)
    assert str(caught.value).startswith("people.json: ")


def test_probabilities_that_depend_on_a_number_are_refused() -> None:
    odd = changed(NODES, "nodes.1", {"name": "mood", "mean": 0.0, "std": 1.0})
    with pytest.raises(SpecError, match=says(SWITCHES_NEEDED, name="mood")):
        build(odd)


def test_a_number_without_a_slope_is_refused() -> None:
    odd = changed(NODES, "nodes.3", {"name": "age", "mean": 40.0, "std": 10.0})
    with pytest.raises(SpecError, match=says(SLOPES_NEEDED, name="age")):
        build(changed(odd, "nodes.4.slopes", {}))


def test_a_category_cannot_be_a_number_nor_a_real_feature_a_table() -> None:
    with pytest.raises(SpecError, match=says(FEATURE_IS_A_CATEGORY)):
        build(changed(NODES, "nodes.0", {"name": "sex", "mean": 0.0, "std": 1.0}))
    with pytest.raises(SpecError, match=says(REAL_FEATURE_IN_TABLE, name="pay")):
        build(changed(NODES, "nodes.4", {"name": "pay", "values": [1, 2], "probabilities": [0.5, 0.5]}))


def test_large_tables_are_refused_quickly() -> None:
    started = time.perf_counter()
    many = [{"name": f"p{i}", "values": ["a", "b"], "probabilities": [0.5, 0.5]} for i in range(60)]
    parents = [node["name"] for node in many]
    deep = {"name": "sex", "parents": parents, "probabilities": {"x": [0.5, 0.5]}}
    with pytest.raises(SpecError, match=says(TOO_MANY_COMBINATIONS)):
        build({"nodes": [*many, deep]}, [SEX])
    wide = [NODES["nodes"][0], {"name": "k", "probabilities": [1.0]}]
    with pytest.raises(SpecError, match=says(TOO_MANY_NODE_VALUES, most_cells="2000000")):
        build({"nodes": wide}, [integer("k", 0, 4_000_000_000), SEX])
    crowd = tuple(Node(name=f"n{i}", values=("a",), probabilities=(1.0,)) for i in range(10_001))
    with pytest.raises(SpecError, match=says(TOO_MANY_NODES, nodes_count="10001", most_nodes="10000")):
        build_graph([], crowd, "people.json")
    assert time.perf_counter() - started < 2


def test_a_long_chain_needs_no_deep_recursion() -> None:
    def link(name: str, parent: str) -> Node:
        return Node(name=name, mean=0.0, std=1.0, parents=(parent,), slopes={parent: 0.5})

    chain = [Node(name="n0", mean=0.0, std=1.0), *(link(f"n{i}", f"n{i - 1}") for i in range(1, 9000))]
    graph = build_graph(parse_spec(question(real("n8999"), SEX)).features[:1], chain[::-1], "people.json")
    assert len(graph.nodes) == 9000
    ring = [*chain[1:], link("n0", "n8999")]
    with pytest.raises(SpecError, match=says(DEPENDS_ON_ITSELF)):
        build_graph([], ring, "people.json")


ANYTHING = st.recursive(
    st.floats() | st.integers(-3, 3) | st.sampled_from(["sex", "Female", "job", "Female, bad", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "Female", "none"]), inner),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(range(5)), st.sampled_from(Node.__struct_fields__), ANYTHING)
def test_any_change_of_one_key_ends_in_a_graph_or_in_one_message(node: int, key: str, value: Any) -> None:
    try:
        graph = build(changed(NODES, f"nodes.{node}.{key}", value))
    except SpecError:
        return
    assert all(np.isfinite(each.table).all() for each in graph.nodes.values() if isinstance(each, Choice))
