"""Formulas are read as they are written, back and forth, and mistakes are pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.errors import QueryError
from fairchain.pctl import Formula, parse
from fairchain.pctl.formula import (
    Bound,
    Eventually,
    ExpectedSteps,
    GapQuery,
    Joined,
    Label,
    LongRun,
    Next,
    Not,
    Path,
    Probability,
    Truth,
    Until,
    Window,
)

A, B, C = Label("a"), Label("b"), Label("c")


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ('P=? [ F "a" ]', Probability(None, Eventually(A))),
        ('P>=.5[G<=3"a"]', Probability(Bound(">=", 0.5), Eventually(A, Window(0, 3), always=True))),
        ('P < 1e-3 [ X "a" ]', Probability(Bound("<", 1e-3), Next(A))),
        ('P=? [ "a" U[2,5] "b" ]', Probability(None, Until(A, B, Window(2, 5)))),
        ('P=? [ "a" U<3 "b" ]', Probability(None, Until(A, B, Window(0, 2)))),
        ('P=? [ F=4 "b" ]', Probability(None, Eventually(B, Window(4, 4)))),
        ('P=? [ F>4 "b" ]', Probability(None, Eventually(B, Window(5)))),
        ('P=? [ "a" W<=7 "b" ]', Probability(None, Until(A, B, Window(0, 7), weak=True))),
        ('S>0.25 [ "a" ]', LongRun(Bound(">", 0.25), A)),
        ('R<=5 [ F "a" ]', ExpectedSteps(Bound("<=", 5.0), A)),
        ('R{"steps"}=? [ F "a" ]', ExpectedSteps(None, A)),
        ('T=? [ F "a" ]', ExpectedSteps(None, A)),
        ('gap<=0.1 [ F "a" ] over "b", "c=*"', GapQuery(Bound("<=", 0.1), Eventually(A), ("b", "c=*"))),
        ('"a" | "b" & !"c"', Joined("|", (A, Joined("&", (B, Not(C)))))),
        ('"a" => "b" <=> "c" => true', Joined("=>", (A, Joined("<=>", (B, C)), Truth(True)))),
        ('("a" | false) & "c"', Joined("&", (Joined("|", (A, Truth(False))), C))),
        ('P=? [ F "a" & "b" ]', Probability(None, Eventually(Joined("&", (A, B))))),
        ('P=? [ "a" & "b" U "c" ]', Probability(None, Until(Joined("&", (A, B)), C))),
        (
            'P=? [ F P>0 [ X "a" ] ]',
            Probability(None, Eventually(Probability(Bound(">", 0.0), Next(A)))),
        ),
    ],
)
def test_every_construct_is_read(text: str, formula: Formula) -> None:
    assert parse(text) == formula
    assert parse(str(formula)) == formula


@pytest.mark.parametrize(
    "label", ["Y=>50K", "sex=Female", "layer3[2] off", 'say "hi"', "back\\slash", "a\\", "", "ü ∧ 'x'", "two\nlines"]
)
def test_a_label_may_hold_any_character(label: str) -> None:
    formula = Label(label)
    assert parse(str(formula)) == formula
    written = '"' + label.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert parse(f"P=? [ F {written} ]") == Probability(None, Eventually(formula))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'column 1: the formula ends where a label in quotes, true, false, "!", "(" or one of P S R was expected'),
        ('P=? [ F "a" ) ]', 'column 13: found ")", expected "]"'),
        ('P=? [ F "a"', 'column 12: the formula ends where "]" was expected'),
        ("P=? [ F done ]", 'column 9: found "done", expected a label'),
        ("P=? [ F done ]", 'write a label in quotes: "done"'),
        ("P=? [ F 'a' ]", "column 9: found ', write labels in double quotes"),
        ("P=? [ F “a” ]", "column 9: found “, write labels in straight double quotes"),
        ('P=? [ F "a ]', 'column 9: found " without a closing quote'),
        ('p=? [ F "a" ]', "did you mean P?"),
        ('P=? [ f "a" ]', "did you mean F?"),
        ("P=? [ F tru ]", "did you mean true?"),
        ('gpa=? [ F "a" ] over "b"', "did you mean gap?"),
        ('P=? [ "a" UU "b" ]', "did you mean U?"),
        ('P=? [ eventually "a" ]', "column 7: found eventually, write F"),
        ('P=? [ F "a" and "b" ]', "column 13: found and, write &"),
        ('P=? [ F "a" && "b" ]', 'column 13: found &&, write "&"'),
        ('P=> 0.5 [ F "a" ]', 'column 2: found "=>", write ">="'),
        ('P=<0.5 [ F "a" ]', 'column 2: found =<, write "<="'),
        ('P=0.5 [ F "a" ]', 'column 2: found "=", write P=? for the number, or P>=p to compare'),
        ('P [ F "a" ]', 'column 3: found "[", expected "=?" or one of >= > <= < after P'),
        ('P>=x [ F "a" ]', "column 4: found"),
        ('P>=1.5 [ F "a" ]', "column 4: found 1.5, expected a probability from 0 to 1"),
        ('P>=1e999 [ F "a" ]', "column 4: found 1e999, expected a probability"),
        ('R>=1e999 [ F "a" ]', "column 4: found 1e999, expected a finite number"),
        ('Pmax=? [ F "a" ]', "column 1: found Pmax, but a chain has no choices to optimise; write P=?"),
        ('P=? [ F G "a" ]', "column 9: G inside another path formula needs its own P, like P>=1 [ G ... ]"),
        ('P=? [ "a" ]', 'column 11: found "]", expected "U" or "W"'),
        ('F "a"', "column 1: F belongs inside the brackets of P, like P=? [ F ... ]"),
        ('P=? [ X<=3 "a" ]', "column 7: X is exactly one step and takes no bound"),
        ('P=? [ F<=2.5 "a" ]', "column 10: found 2.5, expected a whole number of steps"),
        ('P=? [ F<0 "a" ]', "column 8: no time is before step 0"),
        ('P=? [ F<=1000001 "a" ]', "column 10: found 1000001, expected at most 1000000 steps"),
        ('P=? [ F[5,2] "a" ]', "column 11: the window ends at 2, before it begins at 5"),
        ('P=? [ "a" W>=2 "b" ]', "column 12: W takes an upper bound only"),
        ("R=? [ C<=5 ]", 'column 7: found "C", expected "F"'),
        ('R{"money"}=? [ F "a" ]', 'column 3: found "money", expected "steps"'),
        ('R=? [ F<=5 "a" ]', "column 8: the expected number of steps is until phi holds at all"),
        ('P>=0.5 [ F P=? [ X "a" ] ]', "column 13: P=? is a number and cannot be part of another formula"),
        ('P=? [ F "a" ] & "b"', 'column 15: found "&", expected the end: a formula with =? cannot be part'),
        ('"b" & P=? [ F "a" ]', "column 8: P=? is a number"),
        ('!gap=? [ F "a" ] over "b"', "column 2: gap is a whole query"),
        ('gap=? [ F "a" ]', 'column 16: the formula ends where "over" and the labels of the groups'),
        ('gap=? [ F "a" ] for "b"', "column 17: found for, write over"),
        ('gap=? [ F "a" ] over "b",', "column 26: the formula ends where the label of a group"),
        ('"a" "b"', 'column 5: found "b", expected the end'),
        ('"a" # "b"', 'column 5: found "#", which has no meaning here'),
        ("(" * 101, "column 102: more than 100 levels of nesting"),
        ("!" * 5000 + '"a"', "more than 100 levels of nesting"),
        ('"a" & ' * 2000 + '"a"', "12003 characters are more than 10000"),
        ('"' + "\\" * 9000, "close the quotes"),
    ],
)
def test_a_mistake_is_one_message_with_its_column(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


names = st.text(max_size=8)
numbers = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 1e-7]), st.floats(0, 1))
signs = st.sampled_from([">=", ">", "<=", "<"])
bounds = st.builds(Bound, signs, numbers)
windows = st.one_of(
    st.just(Window()),
    st.builds(
        lambda low, more: Window(low, None if more is None else low + more),
        st.integers(0, 9),
        st.one_of(st.none(), st.integers(0, 9)),
    ),
)
upper = st.one_of(st.just(Window()), st.builds(Window, st.just(0), st.integers(0, 9)))


def paths(states: st.SearchStrategy[Formula]) -> st.SearchStrategy[Path]:
    return st.one_of(
        st.builds(Next, states),
        st.builds(Eventually, states, windows, st.booleans()),
        st.builds(Until, states, states, windows),
        st.builds(Until, states, states, upper, st.just(True)),
    )


def larger(states: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    several = st.lists(states, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Not, states),
        st.builds(Joined, st.sampled_from(["&", "|", "=>", "<=>"]), several),
        st.builds(Probability, bounds, paths(states)),
        st.builds(LongRun, bounds, states),
        st.builds(ExpectedSteps, st.builds(Bound, signs, st.floats(0, 1e9)), states),
    )


states = st.recursive(st.one_of(st.builds(Label, names), st.builds(Truth, st.booleans())), larger, max_leaves=12)
asked = st.one_of(st.none(), bounds)
questions = st.one_of(
    states,
    st.builds(Probability, asked, paths(states)),
    st.builds(LongRun, asked, states),
    st.builds(ExpectedSteps, asked, states),
    st.builds(GapQuery, asked, paths(states), st.lists(names, min_size=1, max_size=3).map(tuple)),
)


@given(questions)
def test_the_text_of_a_formula_reads_back_as_the_formula(formula: Formula) -> None:
    assert parse(str(formula)) == formula
    assert str(parse(str(formula))) == str(formula)


words = st.sampled_from(
    ["P", "S", "R", "T", "gap", "over", "X", "F", "G", "U", "W", "=?", ">=", "<", "=", "=>", "<=>", "&", "|", "!", "(",
     ")", "[", "]", "{", "}", ",", '"a"', "true", "0.5", "3", "1e5", '"', "\\", "x", "?"]
)  # fmt: skip


@given(
    st.one_of(
        st.text(max_size=60), st.lists(words, max_size=25).map(" ".join), st.lists(words, max_size=9).map("".join)
    )
)
def test_any_text_is_a_formula_or_one_error(text: str) -> None:
    try:
        formula = parse(text)
    except QueryError as error:
        assert str(error).startswith("column ")  # noqa: PT017
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert parse(str(formula)) == formula
