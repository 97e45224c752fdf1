"""Formulas are read in every way of writing them, printed back in one, and a mistake is pointed at."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.errors import SpecError
from fairchain.spec import comparison_of, groups_of, parse_spec
from fairchain.spec.formulas import shape_of
from fairchain.spec.properties import kind_of, limit_of
from fairchain.spec.seeds import derive_seed
from tests.questions import category, changed, integer, question, real

FEATURES = (
    category("sex", "F", "M"),
    category("qualified", "no", "yes"),
    integer("age", 0, 9, groups={"young": [0, 3], "old": [4, 9]}),
    real("score"),
)


def asked(formula: str) -> dict[str, Any]:
    data = question(*FEATURES, labels=["rejected", "hired"])
    data["property"] = {"kind": "formula", "formula": formula}
    return data


def text_of(formula: str) -> str:
    return str(parse_spec(asked(formula)).property)


X, Y = "P(Y=hired | sex == 'F')", "P(Y=hired | sex == 'M')"


@pytest.mark.parametrize(
    ("canonical", "others"),
    [
        (
            f"{X} - {Y} <= 0.1",
            [
                "P(hired | sex=F) - P(hired | sex=M) <= 0.1",
                "P(hired|sex=F) <= P(hired|sex=M) + 0.1",
                "P(Y == hired | sex='F')<=0.1+P(hired|sex=M)",
                "P(hired|sex=M) - P(hired|sex=F) >= -0.1",
                "2 * P(hired|sex=F) - 2 * P(hired|sex=M) <= 0.2",
                "0.1 >= P(hired|sex=F) - P(hired|sex=M)",
                "P(hired|sex=F) − P(hired|sex=M) ≤ 0.1",
            ],
        ),
        (
            f"|{X} - {Y}| <= 0.05",
            ["abs(P(hired|sex=F) - P('hired'|sex=M)) <= 0.05", "0.05 >= |P(hired|sex=F)-P(hired|sex=M)|"],
        ),
        (
            f"{X} / {Y} >= 0.8",
            [
                "P(hired|sex=F) >= 0.8 * P(hired|sex=M)",
                "P(hired|sex=M) / P(hired|sex=F) <= 1.25",
                "P(hired|sex=F) / (0.8 * P(hired|sex=M)) >= 1",
                "5 * P(hired|sex=F) / P(hired|sex=M) >= 4",
            ],
        ),
        (f"{X} / {Y} >= 10/13", ["P(hired|sex=M) / P(hired|sex=F) <= 1.3"]),
        (f"{X} - {Y} <= 0", ["P(hired|sex=F) <= P(hired|sex=M)"]),
        ("P(Y=hired | age == 'young' and qualified == 'yes') - P(Y=hired) <= -0.2", [
            "P(hired | age=young and qualified) + 0.2 <= P(hired)",
        ]),
    ],
)  # fmt: skip
def test_every_way_of_writing_a_formula_has_one_canonical_form(canonical: str, others: list[str]) -> None:
    assert text_of(canonical) == canonical
    for other in others:
        assert text_of(other) == canonical
    seeds = {derive_seed(parse_spec(asked(each)), "", None) for each in [canonical, *others]}
    assert len(seeds) == 1


@given(
    st.sampled_from(["<=", ">="]),
    st.fractions(-3, 3, max_denominator=40),
    st.fractions(-3, 3, max_denominator=40),
    st.fractions(-1, 1, max_denominator=50),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_a_canonical_form_means_what_was_written(
    sign: str, a: Fraction, b: Fraction, c: Fraction, first: float, second: float
) -> None:
    """a X + b Y (sign) c, decided for two probabilities directly and by the canonical form."""
    try:
        shape = shape_of(f"({a}) * P(l | u=1) + ({b}) * P(l | u=2) {sign} {c}")
    except SpecError:
        return
    p, q = Fraction(first), Fraction(second)
    written = a * p + b * q <= c if sign == "<=" else a * p + b * q >= c
    x, y = (p, q) if shape.first.condition == "u=1" else (q, p)
    meant = x >= shape.threshold * y if shape.measure == "ratio" else x - y <= shape.threshold
    assert meant == written


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("P(hired | sex=F) > P(hired | sex=M)", 'found ">", write ">="'),
        ("P(hired | sex=F) == P(hired | sex=M)", 'by "<=" or ">="'),
        ("P(hird | sex=F) >= P(hird | sex=M)", 'did you mean "hired"?'),
        ("P(hired | sex=F) >= P(rejected | sex=M)", "of two labels"),
        ("P(hired|sex=Q) >= P(hired|sex=M)", 'column 13: "Q" is not a value of "sex"'),
        ("P(hired|sx=F) >= P(hired|sex=M)", 'column 9: unknown feature "sx"; did you mean "sex"?'),
        ("P(hired|sex=M) >= P(hired|sx=F)", 'column 27: unknown feature "sx"'),
        ("P(hired | sex=F and age) >= P(hired)", "age alone is not a condition"),
        ("P(hired | age=middle) >= P(hired)", "its groups are young, old"),
        ("P(hired | sex=F)", "found one probability"),
        ("P(hired | sex=F) - P(hired) + P(hired | sex=M) <= 0.1", "found 3 probabilities"),
        ("P(hired | sex=F", '"P(" is not closed'),
        ("P(hired | ) >= P(hired)", 'found nothing after "|"'),
        ("P(hired | sex=F) ** 2 >= P(hired)", "by their difference or their ratio"),
        ("P(hired | sex=F) - P(hired) <= 2", "for every model, or for none"),
        ("P(hired | sex=F) / P(hired) >= 1.2", 'with a number above 0 and up to 1, or by "<="'),
        ("P(hired | sex=F) / P(hired) >= 0.8 + P(hired)", "compare a ratio of two probabilities with a number"),
        ("|P(hired | sex=F) - P(hired) <= 0.1", 'found a single "|"'),
        ("P(hired | sex=F and sex=M) >= P(hired)", 'no value of "sex" satisfies'),
        ("P(hired | sex == 'F') >= P(hired | sex=F)", "both probabilities have the same condition"),
        ("P(hired | P(hired) > 0) >= P(hired)", "a probability inside a condition"),
        ("__import__('os') >= P(hired) - P(hired | sex=F)", "by their difference or their ratio"),
        ("x" * 20_000, "characters are more than"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(formula: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(asked(formula))
    assert str(caught.value).startswith("property.formula: ")
    assert expected in str(caught.value)


def test_values_that_are_demanded_become_domains_and_the_rest_a_condition() -> None:
    spec = parse_spec(asked("P(hired | sex=F and age >= 2 and age != 5 and score > 0.5) / P(hired | sex=M) >= 0.8"))
    assert spec.protected == ("sex", "age")
    first, second = groups_of(spec)
    assert first.domains[1].points == (2, 3, 4, 6, 7, 8, 9)
    assert (second.domains[1].low, second.domains[1].high) == (0, 9)
    assert str(first.condition) == "score > 0.5"
    assert second.condition is None
    assert (kind_of(spec), limit_of(spec)) == ("ratio", Fraction(1, 5))
    comparison = comparison_of(spec)
    assert comparison.compared.tolist() == [[[False, False], [True, False]]]
    assert (comparison.measure, comparison.disjoint) == ("ratio", True)
    assert not comparison_of(parse_spec(asked("P(hired | sex=F) <= P(hired)"))).disjoint


def reference(value: Any, **more: Any) -> dict[str, Any]:
    data = question(*FEATURES, labels=["rejected", "hired"], protected=["sex"])
    data["property"] |= {"outcome": "hired", "reference": value, **more}
    return data


@pytest.mark.parametrize("value", ["M", "sex=M", {"sex": "M"}])
def test_a_reference_group_is_compared_in_one_direction(value: Any) -> None:
    spec = parse_spec(reference(value))
    assert comparison_of(spec).compared.tolist() == [[[False, False], [True, False]]]
    assert str(spec.property) == "for all i: P(Y=hired | sex=M) - P(Y=hired | sex=i) <= 0.1"


def test_a_reference_among_combinations_has_half_of_the_pairs() -> None:
    data = reference({"qualified": "yes", "sex": "M"}, protected=["sex", "qualified"])
    compared = comparison_of(parse_spec(data)).compared
    assert np.argwhere(compared[0]).tolist() == [[3, 0], [3, 1], [3, 2]]
    for written in ("qualified=yes & sex=M", "M & yes"):
        same = parse_spec(changed(data, "property.reference", written))
        assert np.array_equal(comparison_of(same).compared, compared)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("property.reference", "male", 'property.reference: "male" is not one of the groups'),
        ("property.reference", {"age": 3}, "name one group of each protected feature: sex"),
        ("property.outcome", ..., "the favourable label must be known"),
        ("property.compare", "overall", "remove reference"),
        ("guarantee.epsilon", 0.01, "estimate mode compares groups with each other"),
    ],
)
def test_a_reference_that_cannot_be_meant_is_refused(key: str, value: Any, expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        parse_spec(changed(reference("M"), key, value))
