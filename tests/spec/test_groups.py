"""Promises of `spec.groups`: what can be written as a group, what it is called, and what it contains."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.errors import SpecError
from fairchain.spec import Domain, domain_of, groups_of, parse_spec
from fairchain.spec.groups import MOST_GROUPS, RANGE_TOO_WIDE, TOO_MANY_GROUPS
from tests.messages import says
from tests.questions import category, integer, question, real, spec

COLOURS = category("colour", "red", "green", "blue", "grey")


def named(*features: dict[str, Any], protected: list[str] | None = None) -> dict[str, tuple[Domain, ...]]:
    return {group.name: group.domains for group in groups_of(spec(*features, protected=protected))}


def groups(feature: dict[str, Any], expressions: dict[str, Any]) -> dict[str, Domain]:
    return {name: domains[0] for name, domains in named({**feature, "groups": expressions}).items()}


def test_without_stated_groups_there_is_one_for_each_value() -> None:
    assert named(category("sex", "Female", "Male")) == {"sex=Female": (Domain(0, 0),), "sex=Male": (Domain(1, 1),)}
    assert named(integer("age", 3, 5)) == {f"age={i}": (Domain(i, i),) for i in (3, 4, 5)}


def test_an_integer_group_is_a_value_a_range_or_a_set() -> None:
    found = groups(
        integer("age", 0, 20),
        {
            "one": 1,
            "few": [2, 4],
            "odd": {"values": [9, 5, 7]},
            "long": {"low": 10, "high": 12},
            "row": {"values": [14, 13]},
        },
    )
    assert found == {
        "age=one": Domain(1, 1),
        "age=few": Domain(2, 4),
        "age=odd": Domain(5, 9, points=(5, 7, 9)),
        "age=long": Domain(10, 12),
        "age=row": Domain(13, 14),
    }


def test_a_category_group_is_a_name_or_names() -> None:
    found = groups(COLOURS, {"warm": "red", "cold": ["grey", "green"], "sea": {"values": ["blue"]}})
    assert found == {
        "colour=warm": Domain(0, 0),
        "colour=cold": Domain(1, 3, points=(1, 3)),
        "colour=sea": Domain(2, 2),
    }


def test_whole_numbers_may_name_categories() -> None:
    assert groups(category("k", 10, 20), {"a": 20, "b": [10]}) == {"k=a": Domain(1, 1), "k=b": Domain(0, 0)}


def test_a_real_group_is_a_range_and_ranges_may_touch() -> None:
    found = groups(real("x", 0, 1), {"low": [0, 0.5], "high": {"low": 0.5, "high": 1}})
    assert found == {"x=low": Domain(0, 0.5, real=True, open_high=True), "x=high": Domain(0.5, 1, real=True)}


def test_several_protected_features_make_combinations_in_the_stated_order() -> None:
    found = named(category("race", "White", "Black"), category("sex", "Female", "Male"), protected=["sex", "race"])
    assert list(found) == [
        "sex=Female & race=White",
        "sex=Female & race=Black",
        "sex=Male & race=White",
        "sex=Male & race=Black",
    ]
    assert found["sex=Male & race=White"] == (Domain(1, 1), Domain(0, 0))


def test_values_outside_every_group_are_left_out() -> None:
    assert sum(domain.size for domain in groups(integer("age", 0, 9), {"a": [0, 1], "b": 9}).values()) == 3


def test_a_domain_knows_its_size_and_members() -> None:
    assert [Domain(3, 7).size, Domain(1, 9, points=(1, 9)).size, Domain(0, 1, real=True).size] == [5, 2, 0]
    assert Domain(1, 9, points=(1, 9)).contains(9)
    assert not Domain(1, 9, points=(1, 9)).contains(5)
    assert domain_of(spec(COLOURS).features[0]) == Domain(0, 3)


NAN, INFINITY = float("nan"), float("inf")
AGE, X = integer("age", 0, 9), real("x", 0, 1)


@pytest.mark.parametrize(
    ("feature", "expressions", "words"),
    [
        (AGE, {"a": 1}, ["property.protected", "one group only", "at least two"]),
        (category("sex", "only"), {}, ["property.protected", "one group only", "at least two"]),
        (AGE, {"a": [1, 4], "b": [4, 6]}, ['"age".groups', '"a" and "b" share', "one group at most"]),
        (AGE, {"a": {"values": [1, 4]}, "b": [3, 6]}, ['"age".groups', "share"]),
        (AGE, {"a": [3, 6], "b": {"values": [1, 4]}}, ['"age".groups', "share"]),
        (AGE, {"a": {"values": [1, 4]}, "b": 4}, ['"age".groups', "share"]),
        (COLOURS, {"a": ["red", "blue"], "b": "blue"}, ['"colour".groups', "share"]),
        (X, {"a": [0, 0.5], "b": [0.4, 1]}, ['"x".groups', "share"]),
        (AGE, {"a": [5, 10], "b": 1}, ['"age".groups.a', "[5, 10]", "[0, 9]", "narrow"]),
        (AGE, {"a": -1, "b": 1}, ['"age".groups.a', "-1", "[0, 9]"]),
        (X, {"a": [0, 2], "b": [0, 1]}, ['"x".groups.a', "[0, 2]", "[0, 1]"]),
        (AGE, {"a": [4, 2], "b": 1}, ['"age".groups.a', "low 4 is above high 2", "exchange"]),
        (AGE, {"a": [], "b": 1}, ['"age".groups.a', "no values", "at least one"]),
        (AGE, {"a": {"values": []}, "b": 1}, ['"age".groups.a', "no values", "at least one"]),
        (AGE, {"a": {}, "b": 1}, ['"age".groups.a', "low = ..., high = ..."]),
        (AGE, {"a": {"low": 1}, "b": 1}, ['"age".groups.a', "low = ..., high = ..."]),
        (AGE, {"a": {"values": [5], "low": 1, "high": 2}, "b": 7}, ['"age".groups.a', "values", "low"]),
        (AGE, {"a": [1, 2, 3], "b": 5}, ['"age".groups.a', "list of 3", "{values = [1, 3, 5]}"]),
        (AGE, {"a": {"values": [1, 1]}, "b": 5}, ['"age".groups.a', "twice"]),
        (AGE, {"a": 1.5, "b": 5}, ['"age".groups.a', "1.5", "whole number"]),
        (AGE, {"a": [1, 2.5], "b": 5}, ['"age".groups.a', "whole numbers"]),
        (AGE, {"a": "young", "b": 5}, ['"age".groups.a', '"young"', "number"]),
        (AGE, {"a": NAN, "b": 5}, ['"age".groups.a']),
        (AGE, {"a": INFINITY, "b": 5}, ['"age".groups.a']),
        (AGE, {"a": [1, INFINITY], "b": 5}, ['"age".groups.a']),
        (AGE, {"a": [NAN, 3], "b": 5}, ['"age".groups.a']),
        (AGE, {"a": 10**400, "b": 5}, ['"age".groups.a']),
        (AGE, {"a": [1, 10**400], "b": 5}, ['"age".groups.a']),
        (X, {"a": [0, NAN], "b": [0.5, 1]}, ['"x".groups.a']),
        (X, {"a": [NAN, NAN], "b": [0.5, 1]}, ['"x".groups.a']),
        (X, {"a": 0.5, "b": [0.6, 1]}, ['"x".groups.a', "probability 0", "[low, high]"]),
        (X, {"a": [0.5, 0.5], "b": [0.6, 1]}, ['"x".groups.a', "probability 0", "[low, high]"]),
        (X, {}, ["property.protected", '"x" is real', "groups = {"]),
        (COLOURS, {"a": [], "b": "red"}, ['"colour".groups.a', "no values", "at least one"]),
        (COLOURS, {"a": "pink", "b": "red"}, ['"colour".groups.a', '"pink"', 'expected one of "red", "green"']),
        (COLOURS, {"a": 0, "b": "red"}, ['"colour".groups.a', '"0"', 'expected one of "red", "green"']),
        (COLOURS, {"a": ["blue", "blue"], "b": "red"}, ['"colour".groups.a', "twice"]),
        (COLOURS, {"a": {"low": 0, "high": 1}, "b": "red"}, ['"colour".groups.a', "no values", "at least one"]),
        (integer("age", 0, MOST_GROUPS), {}, ["property.protected", f"more than {MOST_GROUPS}", "groups = {"]),
    ],
)
def test_a_group_that_cannot_be_meant_is_an_error_with_a_remedy(
    feature: dict[str, Any], expressions: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(question({**feature, "groups": expressions}))
    for word in words:
        assert word in str(caught.value)


def test_too_many_combinations_are_refused() -> None:
    with pytest.raises(SpecError, match=says(TOO_MANY_GROUPS, count="600", most_groups="500")):
        spec(integer("a", 1, 20), integer("b", 1, 30), protected=["a", "b"])


def test_groups_of_a_feature_that_is_not_protected_are_checked_too() -> None:
    with pytest.raises(SpecError, match=says(RANGE_TOO_WIDE)):
        spec(integer("age", 0, 9, groups={"a": [5, 99]}), category("sex", "f", "m"))


expressions = st.one_of(
    st.integers(-2, 12),
    st.tuples(st.integers(-2, 12), st.integers(-2, 12)).map(list),
    st.lists(st.integers(-2, 12), max_size=4).map(lambda values: {"values": values}),
)


def meant(expression: Any) -> list[int]:
    """The values that a group expression of whole numbers stands for, said in the simplest way."""
    if isinstance(expression, int):
        return [expression]
    if isinstance(expression, list):
        return list(range(expression[0], expression[1] + 1))
    return list(expression["values"])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from("abc"), expressions, min_size=2, max_size=3))
def test_groups_are_accepted_exactly_if_they_are_disjoint_subsets_of_the_range(stated: dict[str, Any]) -> None:
    wanted = {f"age={name}": meant(expression) for name, expression in stated.items()}
    everything = [value for values in wanted.values() for value in values]
    good = all(wanted.values()) and len(set(everything)) == len(everything) and set(everything) <= set(range(10))
    try:
        found = groups(integer("age", 0, 9), stated)
    except SpecError:
        assert not good
        return
    assert good
    assert {name: [v for v in range(-2, 13) if d.contains(v)] for name, d in found.items()} == {
        name: sorted(values) for name, values in wanted.items()
    }
    assert all(found[name].size == len(values) for name, values in wanted.items())
