"""Promises of the language of `given`: it means what Python would mean, and a mistake is pointed at."""

from __future__ import annotations

import pickle
import string
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, RealFeature
from fairchain.spec.condition_text import MOST_CHARACTERS, NO_ARITHMETIC
from fairchain.spec.conditions import MOST_CONDITION_DEPTH, Predicate, parse_expression, parse_predicate

RACES = ("White", "Black", 'it\'s "other"', "`", "")[:4]
FEATURES: tuple[Feature, ...] = (
    IntegerFeature(name="age", low=17, high=90),
    IntegerFeature(name="hours-per-week", low=0, high=99),
    RealFeature(name="score", low=-1.0, high=1.0),
    CategoryFeature(name="sex", values=("Female", "Male")),
    CategoryFeature(name="race", values=RACES),
    CategoryFeature(name="level", values=(1, 2, 10)),
    RealFeature(name="capital gain (`$`)", low=0.0, high=1.0),
    CategoryFeature(name="लिंग", values=("स्त्री", "पुरुष")),
    IntegerFeature(name="in", low=0, high=1),
)
NAMES = [feature.name for feature in FEATURES]
# What Python's own evaluation calls the features.
PLAIN = {name: f"f{i}" for i, name in enumerate(NAMES)}
NUMBERS = [0, 1, 2, 6, 8]


def written(name: str) -> str:
    plain = name in ("age", "hours-per-week", "score", "sex", "race", "level", "लिंग")
    return name if plain else "`" + name.replace("`", "``") + "`"


def people(rows: int = 64, seed: int = 0, dtype: Any = np.float64) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    columns = []
    for feature in FEATURES:
        if isinstance(feature, CategoryFeature):
            columns.append(rng.integers(0, len(feature.values), rows))
        elif isinstance(feature, IntegerFeature):
            columns.append(rng.integers(feature.low, feature.high + 1, rows))
        else:
            # Few values, so that equality is not rare.
            columns.append(np.round(rng.uniform(feature.low, feature.high, rows), 1))
    return np.column_stack(columns).astype(dtype)


def in_words(row: NDArray[Any]) -> dict[str, Any]:
    """A row as Python's evaluation sees it: categories by their names."""
    return {
        PLAIN[feature.name]: feature.values[int(value)] if isinstance(feature, CategoryFeature) else float(value)
        for feature, value in zip(FEATURES, row, strict=True)
    }


def quoted(value: str | int, quote: str) -> str:
    return str(value) if isinstance(value, int) else quote + value.replace(quote, 2 * quote) + quote


@st.composite
def operands(draw: st.DrawFn) -> tuple[str, str]:
    """A number in our words and in Python's."""
    if draw(st.booleans()):
        name = NAMES[draw(st.sampled_from(NUMBERS))]
        return written(name), PLAIN[name]
    number = draw(st.one_of(st.integers(-5, 99), st.sampled_from([0.1, -0.5, 0.3, 17.0, 1e3, 2.5e-1])))
    return str(number), str(number)


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, str]:
    sign = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    kind = draw(st.sampled_from(["chain", "set", "category", "category set"]))
    if kind == "chain":
        name = NAMES[draw(st.sampled_from(NUMBERS))]
        # A feature in every second place: no two constants meet.
        parts = [draw(operands()), (written(name), PLAIN[name]), draw(operands())][: draw(st.integers(2, 3))]
        ours, theirs = parts[0]
        for our, their in parts[1:]:
            each = draw(sign)
            ours, theirs = f"{ours} {each} {our}", f"{theirs} {each} {their}"
        return ours, theirs
    negated = draw(st.sampled_from(["", "not "]))
    if kind == "set":
        name = NAMES[draw(st.sampled_from(NUMBERS))]
        numbers = draw(st.lists(st.one_of(st.integers(0, 90), st.sampled_from([0.1, -0.5])), min_size=1, max_size=20))
        return f"{written(name)} {negated}in {numbers}", f"{PLAIN[name]} {negated}in {numbers}"
    feature = FEATURES[draw(st.sampled_from([3, 4, 5, 7]))]
    assert isinstance(feature, CategoryFeature)
    values = draw(st.lists(st.sampled_from(feature.values), min_size=1, max_size=5))
    quotes = [quoted(value, draw(st.sampled_from("'\""))) for value in values]
    name = written(feature.name)
    if kind == "category set":
        return f"{name} {negated}in [{','.join(quotes)}]", f"{PLAIN[feature.name]} {negated}in {values!r}"
    each = draw(st.sampled_from(["==", "!="]))
    if draw(st.booleans()):
        return f"{quotes[0]} {each} {name}", f"{values[0]!r} {each} {PLAIN[feature.name]}"
    return f"{name}{each}{quotes[0]}", f"{PLAIN[feature.name]} {each} {values[0]!r}"


def compound(inner: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda t: (f"{t[0][0]} {t[1]} {t[2][0]}", f"{t[0][1]} {t[1]} {t[2][1]}")
        ),
        inner.map(lambda t: (f"not {t[0]}", f"not {t[1]}")),
        inner.map(lambda t: (f"({t[0]})", f"({t[1]})")),
    )


@given(st.recursive(comparisons(), compound, max_leaves=8), st.integers(0, 9))
def test_it_means_what_python_means(both: tuple[str, str], seed: int) -> None:
    ours, theirs = both
    rows = people(16, seed)
    code = compile(theirs, "theirs", "eval")
    expected = [bool(eval(code, {"__builtins__": {}}, in_words(row))) for row in rows]
    predicate = parse_predicate(ours, FEATURES)
    assert predicate.holds(rows).tolist() == expected
    assert set(predicate.names) == {name for name in NAMES if PLAIN[name] in code.co_names}
    # Its own text is read back as the same thing, and does not change any more.
    again = parse_predicate(str(predicate), FEATURES)
    assert str(again) == str(predicate)
    assert again.holds(rows).tolist() == expected


# fmt: off
WORDS = st.sampled_from([
    "age", "sex", "score", "'Male'", '"', "'", "`", "and", "or", "not", "in", "[", "]", "(", ")", ",", "==", "=", "<",
    "!=", "17", "-1e5", "1e999", "x-1", "0.", "é", "\u0940", "\ud800", "\x00", "eval", "__import__('os')", "\n",
])
# fmt: on


@given(st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=20).map(" ".join), st.lists(WORDS).map("".join)))
def test_any_text_is_a_predicate_or_a_spec_error(text: str) -> None:
    try:
        predicate = parse_predicate(text, FEATURES)
    except SpecError:
        return
    assert predicate.holds(people(4)).shape == (4,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["column 1:", "ends where more was expected"]),
        ("age >= 18 =", ["column 11:", 'found "=", write "==" to compare']),
        ("age = 18", ["column 5:", 'write "=="']),
        ("age ≥ 18", ["column 5:", 'write ">="']),
        ("age > 1 && age < 3", ["column 9:", 'write "and"']),
        ("age > 1 AND age < 30", ["column 9:", 'found "AND", write "and"']),
        ("NOT age > 1", ["column 1:", '"NOT"', 'write "not"']),
        ("agee >= 18", ["column 1:", 'unknown feature "agee"', 'did you mean "age"?']),
        ("wealth >= 18", ["column 1:", 'unknown feature "wealth"', 'expected one of "age", "hours-per-week"', '"in"']),
        ("sex == 'Femal'", ["column 8:", '"Femal" is not a value of "sex"', 'did you mean "Female"?']),
        ("sex in ['Male', 'X']", ["column 17:", '"X" is not a value of "sex"', 'expected one of "Female", "Male"']),
        ("sex == Female", ["column 8:", "put a value of \"sex\" in quotes: 'Female'"]),
        ("sex < 'Male'", ["column 1:", 'found "<"', '"sex" is a category', "no order", "sex == 'Female'"]),
        ("sex == race", ["column 1:", "is a category", "its own values only"]),
        ("age == sex", ["column 1:", '"sex" is a category']),
        ("sex == 1", ["column 8:", "the number 1", 'the values of "sex" are texts', "'Female'"]),
        ("level == 3", ["column 10:", '"3" is not a value of "level"', 'expected one of "1", "2", "10"']),
        ("age > 'old'", ["column 7:", '"age" is a number', "the text 'old'"]),
        ("age in ['old']", ["column 9:", '"age" is a number']),
        ("age", ["column 1:", "age alone is not a condition"]),
        ("age and sex == 'Male'", ["column 1:", "age alone is not a condition"]),
        ("3 < 4", ["column 1:", "compares two constants"]),
        ("1 < 2 < age", ["column 1:", "compares two constants"]),
        ("3 in [3]", ["column 1:", "3 is not a feature"]),
        ("age + 1 > 3", ["column 1:", NO_ARITHMETIC]),
        ("age -1 > 3", ["column 1:", NO_ARITHMETIC]),
        ("age-1 > 3", ["column 1:", 'unknown feature "age-1"', NO_ARITHMETIC, '"-" and "." belong to a name']),
        ("age > 3-1", ["column 7:", NO_ARITHMETIC]),
        ("age * 2 > 3", ["column 5:", NO_ARITHMETIC]),
        ("age > 1_000", ["column 7:", '"1_000" is not a number']),
        ("2nd > 1", ["column 1:", '"2nd" is not a number', "backticks"]),
        ("age > 1e999", ["column 7:", "1e999 is too large", "finite"]),
        ("age not 3", ["column 9:", 'cannot be read from "3" on']),
        ("age in 3", ["column 8:", "a list in brackets"]),
        ("age in []", ["column 8:", "a list in brackets"]),
        ("age in [1", ["column 8:", 'cannot be read from "[1" on']),
        ("1 < age in [2]", ["column 5:", 'join the two with "and"']),
        ("(age > 1", ["column 1:", 'cannot be read from "(age" on']),
        ("age > 1)", ["column 8:", 'cannot be read from ")" on']),
        ("age > f(1)", ["column 7:", "expected a feature, a number"]),
        ("age > 1 if sex == 'Male' else 3", ["column 9:", 'found "if"']),
        ("age > (sex == 'Male')", ["column 8:", "expected a feature, a number"]),
        ("age > --3", ["column 7:", NO_ARITHMETIC]),
        ("f'{age}' == sex", ["column 2:", "where a comparison"]),
        ("annual income > 3", ["column 8:", 'found "income" where a comparison', "a name with blanks in backticks"]),
        ("age[0] > 1", ["column 1:", "expected a feature"]),
        ("sex == 'Male", ["column 8:", "without a closing quote"]),
        ("age > 1; import os", ["column 8:", 'found ";"']),
        ("not " * (MOST_CONDITION_DEPTH + 1) + "age > 1", ["nested deeper than 100"]),
        ("(" * 5000, ["cannot be read"]),
        (" " * (MOST_CHARACTERS + 1), ["10001 characters", "10000"]),
        ("x" * MOST_CHARACTERS, ["column 1:", "unknown feature", "..."]),
        ("age > 1 and 'a\nb'", ["column 13:", "alone is not a condition"]),
    ],
)
def test_a_mistake_is_pointed_at(text: str, words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        parse_predicate(text, FEATURES)
    message = str(caught.value)
    assert message.startswith("property.given: ")
    assert len(message) < 400
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("17<=age  <26", "17 <= age < 26"),
        ("((age>1))", "age > 1"),
        ("(age) > 1", "age > 1"),
        ("age>1 and(score<.5 or not sex=='Male')", "age > 1 and (score < 0.5 or not sex == 'Male')"),
        ('race == "it\'s ""other"""', "race == 'it''s \"other\"'"),
        ("level in [1, 10.0, '2']", "level in [1, 10, 2]"),
        ("`capital gain (``$``)` > +1e-3", "`capital gain (``$``)` > 0.001"),
        ("`in` == 1", "`in` == 1"),
        ("`age` == 1e3", "age == 1000"),
        ("not not age == 1", "not not age == 1"),
    ],
)
def test_the_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_predicate(text, FEATURES)) == canonical


@given(st.recursive(comparisons(), compound, max_leaves=8), st.integers(0, 9))
def test_a_copy_for_another_process_means_the_same(both: tuple[str, str], seed: int) -> None:
    rows = people(seed=seed)
    predicate = parse_predicate(f"{both[0]} and age > 20", FEATURES)
    for one in (predicate, *predicate.conjuncts, Predicate.joined(predicate.conjuncts)):
        copy = pickle.loads(pickle.dumps(one))
        assert (str(copy), copy.names, len(copy.conjuncts)) == (str(one), one.names, len(one.conjuncts))
        assert np.array_equal(copy.holds(rows), one.holds(rows))


def test_the_same_value_name_means_each_features_own_value() -> None:
    features = [CategoryFeature(name="one", values=("a", "b")), CategoryFeature(name="other", values=("b", "a"))]
    predicate = parse_predicate("one == 'a' == other", features)
    assert predicate.holds(np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0]])).tolist() == [True, False, False]


def test_names_are_in_the_order_of_the_spec() -> None:
    assert parse_predicate("sex == 'Male' or age > 3 or age < hours-per-week", FEATURES).names == (
        "age", "hours-per-week", "sex",
    )  # fmt: skip


def test_constants_are_rounded_like_the_columns() -> None:
    """A 0.1 read into single precision equals 0.1, and 1e300 is simply beyond every value."""
    rows = people(8, dtype=np.float32)
    rows[:, 2] = 0.1
    for text in ("score == 0.1", "score >= 0.1", "score <= 0.1", "score in [0.1]", "score < 1e300", "score > -1e300"):
        assert parse_predicate(text, FEATURES).holds(rows).all(), text
    whole = np.array([[20]])
    assert not parse_predicate("age == 20.5", FEATURES[:1]).holds(whole).any()


def test_a_value_that_is_not_a_number_is_unequal_to_everything() -> None:
    rows = np.full((1, len(FEATURES)), np.nan)
    assert not parse_predicate("age < 3 or age >= 3 or age in [3] or sex == 'Male'", FEATURES).holds(rows).any()
    assert parse_predicate("age != 3 and age not in [3] and sex != 'Male'", FEATURES).holds(rows).all()


def test_the_longest_condition_is_read_and_holds_quickly() -> None:
    """No recursion over `and`: as many parts as fit."""
    text = " and ".join(["age!=1"] * (MOST_CHARACTERS // 11))
    assert parse_predicate(text, FEATURES).holds(people()).all()
    nested = "(" * MOST_CONDITION_DEPTH + "age > 1" + ")" * MOST_CONDITION_DEPTH
    assert str(parse_predicate(nested, FEATURES)) == "age > 1"


def test_nested_comparisons_of_computed_numbers_are_read_and_computed_quickly() -> None:
    text = "age"
    for _ in range(45):
        text = f"(1 if 0 <= ({text}) + 1 <= 2 else age)"
    # If an operand were read or computed twice, each level would double the time: this would never end.
    assert parse_expression(text, FEATURES, None, "node").of(people(4)).shape == (4,)


def test_every_printable_name_can_be_written() -> None:
    features = [IntegerFeature(name=string.printable, low=0, high=1)]
    predicate = parse_predicate(written(string.printable) + " == 1", features)
    assert predicate.names == (string.printable,)
    assert str(parse_predicate(str(predicate), features)) == str(predicate)
