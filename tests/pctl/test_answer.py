"""What an answer says: gaps between groups, comparisons, what it depends on, and names that do not exist."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.chain import Chain
from fairchain.errors import QueryError
from fairchain.messages import unknown
from fairchain.pctl import check_chain, parse
from fairchain.pctl.checker import ANSWER_HAS_NO_TRUTH, NO_EVIDENCE, EngineName, widest
from fairchain.pctl.point_values import NO_STATE_CHAIN
from fairchain.pctl.storm import STORM_MISSING
from tests.messages import says
from tests.pctl.builders import chain_of

GROUPS = ["sex=Female", "sex=Male", "sex=Other"]


def groups(*, bounds: bool = False) -> Chain:
    """Start, three groups, two labels: 0.3, 0.5 and 0.45 of the groups get yes."""
    rows = [{1: 0.5, 2: 0.3, 3: 0.2}, {4: 0.3, 5: 0.7}, {4: 0.5, 5: 0.5}, {4: 0.45, 5: 0.55}, {4: 1.0}, {5: 1.0}]
    labels = {"Start": [0], **{name: [place] for place, name in enumerate(GROUPS, 1)}, "Y=yes": [4], "Y=no": [5]}
    chain = chain_of(rows, labels)
    if not bounds:
        return chain
    width = np.where(chain.probabilities < 1, 0.02, 0.0)
    return replace(chain, low=chain.probabilities - width, high=chain.probabilities + width)


def test_a_gap_is_the_largest_difference_between_groups() -> None:
    answer = check_chain(groups(), 'gap=? [ F "Y=yes" ] over "sex=*"')
    assert answer.value == pytest.approx(0.2)
    assert (answer.low, answer.high, answer.bounds) == (None, None, None)
    assert {name: group.value for name, group in answer.groups.items()} == pytest.approx(
        {"sex=Female": 0.3, "sex=Male": 0.5, "sex=Other": 0.45}
    )
    assert check_chain(groups(), 'gap=? [ F "Y=yes" ] over "sex=Male", "sex=Other"').value == pytest.approx(0.05)
    assert str(check_chain(groups(), 'gap<=0.2 [ F "Y=yes" ] over "sex=*"')) == "true: 0.2 against <=0.2"


def test_the_bounds_of_a_gap_come_from_those_of_the_groups() -> None:
    answer = check_chain(groups(bounds=True), 'gap=? [ F "Y=yes" ] over "sex=*"')
    assert (answer.low, answer.value, answer.high) == pytest.approx((0.16, 0.2, 0.24))
    assert str(answer) == "0.2 [0.16, 0.24]"
    verdicts = {
        edge: check_chain(groups(bounds=True), f'gap<={edge} [ F "Y=yes" ] over "sex=*"') for edge in (0.1, 0.2, 0.3)
    }
    assert {edge: (answer.value, answer.undecided) for edge, answer in verdicts.items()} == {
        0.1: (False, False),
        0.2: (True, True),
        0.3: (True, False),
    }
    assert str(verdicts[0.2]) == "undecided: 0.2 [0.16, 0.24] against <=0.2"


def test_a_group_of_several_states_counts_each_as_often_as_it_is_entered() -> None:
    """Two states have the label; one is entered with 3/4, by way of a loop, and the other also comes behind it."""
    rows = [{0: 0.2, 1: 0.6, 2: 0.2}, {2: 0.5, 3: 0.5}, {3: 0.1, 4: 0.9}, {3: 1.0}, {4: 1.0}]
    chain = chain_of(rows, {"g=1": [1, 2], "g=2": [2], "yes": [3]})
    answer = check_chain(chain, 'gap=? [ F "yes" ] over "g=*"')
    assert answer.groups["g=1"].value == pytest.approx(3 / 4 * (0.5 + 0.5 * 0.1) + 1 / 4 * 0.1)
    assert answer.groups["g=2"].value == pytest.approx(0.1)


def test_a_pattern_is_a_label_first_and_only_the_star_is_special() -> None:
    rows = [{1: 0.5, 2: 0.25, 3: 0.25}, {1: 1.0}, {2: 1.0}, {3: 1.0}]
    chain = chain_of(rows, {"a*": [1], "ab": [2], "a?[x]": [3]})
    assert set(check_chain(chain, 'gap=? [ F "ab" ] over "a*", "ab"').groups) == {"a*", "ab"}
    assert set(check_chain(chain, 'gap=? [ F "ab" ] over "a?[*", "ab"').groups) == {"a?[x]", "ab"}
    assert set(check_chain(chain, 'gap=? [ F "ab" ] over "*"').groups) == {"a*", "ab", "a?[x]"}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=6))
def test_the_widest_gap_is_that_of_all_pairs(pairs: list[tuple[float, float]]) -> None:
    low, high = (np.array(side) for side in zip(*(sorted(pair) for pair in pairs), strict=True))
    every = [(i, j) for i in range(len(low)) for j in range(len(low)) if i != j]
    least, most = widest(low, high)
    above = max(Fraction(high[i]) - Fraction(low[j]) for i, j in every)
    below = max(0, *(Fraction(low[i]) - Fraction(high[j]) for i, j in every))
    assert above <= Fraction(most) <= above + Fraction(1e-15)
    assert below - Fraction(1e-15) <= Fraction(least) <= below


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ('P=? [ F "Y=Yes" ]', 'column 9: unknown label "Y=Yes"; did you mean "Y=yes"?'),
        ('P=? [ F "sex=female" ]', 'did you mean "sex=Female"'),
        ('P=? [ F "zzz" ]', 'unknown label "zzz"; expected one of "Start", "sex=Female"'),
        ('P=? [ "Start" U P>0 [ X "Stat" ] ]', 'column 25: unknown label "Stat"; did you mean "Start"?'),
        ('gap=? [ F "Y=yes" ] over "race=*"', 'unknown label "race=*"'),
        ('gap=? [ F "Y=yes" ] over "sex=Male"', 'a gap needs at least two groups, found only "sex=Male"'),
    ],
)
def test_a_name_that_is_not_there_is_one_message(formula: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        check_chain(groups(), formula)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("engine", ["own", "storm"])
def test_init_is_the_initial_state_unless_the_chain_has_its_own(engine: EngineName) -> None:
    """s1 -> s0 -> s1 with 1/2 each, and s1 is initial: P(back in s1 within 2 steps) = 1/2."""
    if engine == "storm":
        pytest.importorskip("stormpy")
    rows = [{1: 0.5, 2: 0.5}, {0: 1.0}, {2: 1.0}]
    chain = chain_of(rows, {"end": [2]}, initial=1)
    assert check_chain(chain, 'P=? [ F=2 "init" ]', engine=engine).value == pytest.approx(1 / 2)
    assert check_chain(chain, '"init" & !"deadlock"', engine=engine).values.tolist() == [False, True, False]
    own = chain_of(rows, {"end": [2], "init": [0], "deadlock": [2]}, initial=1)
    assert check_chain(own, '"init"', engine=engine).values.tolist() == [True, False, False]
    assert check_chain(own, 'P=? [ F "deadlock" ]', engine=engine).value == 1


def test_a_state_or_an_engine_that_is_not_there_is_one_message() -> None:
    # Of names with one letter and a number all are as near as each other: they are listed, none is suggested.
    with pytest.raises(QueryError, match=says(NO_STATE_CHAIN, name='"s9"')):
        check_chain(groups(), 'P=? [ F "Y=yes" ]', start="s9")
    with pytest.raises(QueryError, match=says(unknown("engine", "prism", ("own", "storm")))):
        check_chain(groups(), 'P=? [ F "Y=yes" ]', engine="prism")  # type: ignore[arg-type]


def test_without_stormpy_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(QueryError, match=says(STORM_MISSING)):
        check_chain(groups(), 'P=? [ F "Y=yes" ]', engine="storm")


def test_the_answer_is_that_of_the_state_asked_about() -> None:
    answer = check_chain(groups(), 'P=? [ F "Y=yes" ]', start="s2")
    assert (answer.value, answer.state) == (0.5, "s2")
    assert check_chain(groups(), parse('P=? [ F "Y=yes" ]'), start="s2").value == 0.5
    assert check_chain(groups(), '"sex=Male"', start="s2").value is True
    np.testing.assert_allclose(answer.values, [0.39, 0.3, 0.5, 0.45, 1, 0])


def test_an_answer_is_plain_json() -> None:
    for formula in (
        'P=? [ F "Y=yes" ]',
        'P>=0.3 [ F "Y=yes" ]',
        'R=? [ F "Y=yes" ]',
        'gap=? [ F "Y=yes" ] over "sex=*"',
    ):
        for chain in (groups(), groups(bounds=True)):
            written = json.dumps(check_chain(chain, formula).to_dict(), allow_nan=False)
            assert json.loads(written)["formula"] == formula
    assert check_chain(groups(), 'R=? [ F "Y=yes" ]').to_dict()["value"] == "inf"


def test_an_answer_has_no_truth_of_its_own() -> None:
    with pytest.raises(TypeError, match=says(ANSWER_HAS_NO_TRUTH)):
        bool(check_chain(groups(), 'P>=0.9 [ F "Y=yes" ]'))


def test_what_was_never_seen_is_named_if_it_matters() -> None:
    """s3 was never seen: it matters where its row is used, in the order of time and not beyond a step bound."""
    chain = replace(groups(bounds=True), unvisited=frozenset({3}))
    for formula in ('P=? [ F "Y=yes" ]', 'P=? [ F<=2 "Y=yes" ]', 'S=? [ "Y=yes" ]', 'P=? [ X P>0.4 [ X "Y=yes" ] ]'):
        answer = check_chain(chain, formula)
        assert answer.depends_on == ("s3",), formula
        assert "note: depends on a state that was never visited, with placeholder probabilities: s3" in str(answer)
    for formula in (
        'P=? [ X "Y=yes" ]',
        'P=? [ F<=1 "Y=yes" ]',
        'P=? [ F ("sex=Other" | "Y=yes") ]',
        'P=? [ !"sex=Other" U "Y=yes" ]',
        '"Start" & !"Y=no"',
        'R=? [ F ("sex=Male" | "sex=Female" | "sex=Other") ]',
    ):
        assert check_chain(chain, formula).depends_on == (), formula
    assert check_chain(chain, 'P=? [ F "Y=yes" ]', start="s2").depends_on == ()
    assert check_chain(chain, 'gap=? [ F "Y=yes" ] over "sex=Male", "sex=Female"').depends_on == ()
    for question in (('P=? [ F "Y=yes" ]', "s3"), ('gap=? [ F "Y=yes" ] over "sex=*"', None)):
        with pytest.raises(QueryError, match=says(NO_EVIDENCE, states='"s3"')):
            check_chain(chain, question[0], start=question[1])
    assert check_chain(chain, '"sex=Other"', start="s3").value is True


def test_many_unseen_states_are_not_all_listed() -> None:
    rows = [dict.fromkeys(range(1, 11), 0.1), *({place: 1.0} for place in range(1, 11))]
    chain = chain_of(rows, {"a": [1]}, unvisited=frozenset(range(1, 11)))
    (note,) = check_chain(chain, 'P=? [ G !"a" ]').notes
    assert "9 states that were never visited" in note
    assert note.endswith("s2, s3, s4, s5, s6, ...")
