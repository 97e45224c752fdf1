"""Chains learned from a network: exact where that is promised, measured where it is not, the same for every worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import example, load_spec, verify
from fairchain.chain import Chain
from fairchain.chain.build import estimate
from fairchain.chain.context import prepare_context
from fairchain.chain.display import heading
from fairchain.chain.learn import EPSILON_NOT_REACHED, learn_chain, learn_family
from fairchain.chain.plan import TWO_DIFFERENT_STATES
from fairchain.chain.state_units import REQUESTED_TWICE, UNIT_NOT_FINITE, numbers_of, parse_request
from fairchain.chain.traces import TRACE_STATE_OUT_OF_RANGE, count_link
from fairchain.errors import ChainError, ModelError
from fairchain.models import OnnxModel
from fairchain.pctl import check_chain
from fairchain.populations import UniformPopulation
from fairchain.spec import parse_spec
from tests.messages import says
from tests.networks import linear, save
from tests.questions import category, integer, question

CENSUS = load_spec(example("census"))
STATES = ["capital-gain:bins=5", "layer3[2]", "layer5:kmeans=3"]


def counted(rounds: int) -> np.ndarray:
    """(groups, labels): frequencies by asking the network directly about the same people."""
    model = OnnxModel(str(CENSUS.model.path), CENSUS)
    population = UniformPopulation(CENSUS, dtype=model.dtype)
    total = np.zeros((len(population.groups), 2))
    for chunk, start in enumerate(range(0, rounds, 4096)):
        drawn = population.rounds(0, chunk, min(4096, rounds - start))
        for group in range(len(population.groups)):
            total[group] += np.bincount(model.predict(drawn.show(group)), minlength=2)
    return total / rounds


@pytest.mark.parametrize("states", [[], ["age"], STATES], ids=len)
def test_a_product_chain_reaches_labels_as_often_as_they_were_counted(states: list[str]) -> None:
    chain = learn_chain(None, CENSUS, units=states, rounds=5000, seed=0)
    direct = counted(5000)
    for group, name in enumerate(chain.states[1:6]):
        for label, word in enumerate(CENSUS.model.labels):
            assert check_chain(chain, f'P=? [ F "Y={word}" ]', start=name).value == pytest.approx(
                direct[group, label], abs=1e-12
            )


def test_intervals_contain_what_many_more_rounds_say() -> None:
    """delta 1e-6 for all transitions together; 50 times as many rounds, themselves off by a few thousandths."""
    chain = learn_chain(None, CENSUS, units=STATES[:2], rounds=4000)
    more = learn_chain(None, CENSUS, units=STATES[:2], rounds=200_000, seed=1)
    assert chain.states == more.states
    assert chain.low is not None
    assert chain.high is not None
    assert more.counts is not None
    often = np.bincount(more.sources, more.counts)[more.sources] > 20_000
    assert (chain.low <= more.probabilities + 0.01)[often].all()
    assert (chain.high >= more.probabilities - 0.01)[often].all()
    sums = np.bincount(chain.sources, chain.probabilities)
    assert sums == pytest.approx(np.ones(len(chain)), abs=1e-12)


def reached(chain: Chain) -> np.ndarray:
    """(groups, labels): P(label | group)."""
    values = [check_chain(chain, f'P=? [ F "Y={word}" ]').values for word in CENSUS.model.labels]
    return np.stack(values, axis=1)[1:6]


def test_a_shared_chain_comes_with_its_fidelity_and_it_is_right() -> None:
    chain = learn_chain(None, CENSUS, units=["layer3[2]"], chain="shared", rounds=20_000)
    phi = chain.metadata["fidelity"]
    error = np.abs(reached(chain) - counted(200_000)).max()
    assert phi["low"] - 0.003 <= error <= phi["high"] + 0.003
    assert "fidelity" not in learn_chain(None, CENSUS, units=["layer3[2]"], rounds=2000).metadata
    assert len(chain) == 1 + 5 + 2 + 2


@pytest.mark.parametrize("kind", ["product", "shared"])
def test_the_same_chain_whatever_the_workers(kind: str) -> None:
    one, two = (learn_chain(None, CENSUS, units=STATES, chain=kind, rounds=9000, workers=n) for n in (1, 2))  # type: ignore[arg-type]
    assert one == two


def test_a_family_of_units_from_one_pass_is_what_each_alone_would_be() -> None:
    units = ["capital-gain", "layer1[5]", "layer5[0]", "age"]
    family = learn_family(None, CENSUS, units=units, rounds=6000)
    for unit in units:
        alone = learn_chain(None, CENSUS, units=[unit], rounds=6000)
        assert family[unit].states == alone.states
        assert np.array_equal(family[unit].counts, alone.counts)  # type: ignore[arg-type]
    everything = learn_family(None, CENSUS, rounds=500)
    assert len(everything) == 12 + 64 + 32 + 16 + 8 + 4


def test_epsilon_goes_on_until_every_transition_is_known() -> None:
    chain = learn_chain(None, CENSUS, units=["age"], epsilon=0.03)
    assert chain.low is not None
    assert chain.high is not None
    learned = (chain.sources > 0) & (chain.targets != chain.sources)
    assert (chain.high - chain.low)[learned].max() <= 0.06
    assert chain.metadata["sound"]
    with pytest.raises(ChainError, match=says(EPSILON_NOT_REACHED)):
        learn_chain(None, CENSUS, units=["age"], epsilon=0.001, rounds=10_000)


def test_the_papers_rule_stops_earlier_and_says_that_it_is_not_sound() -> None:
    sound = learn_chain(None, CENSUS, units=["sex"], epsilon=0.01)
    paper = learn_chain(None, CENSUS, units=["sex"], epsilon=0.01, rule="paper")
    assert not paper.metadata["sound"]
    assert 10 * paper.metadata["rounds"] < sound.metadata["rounds"]


def test_estimators_by_hand() -> None:
    table = np.array([[3, 1, 0], [0, 0, 0], [2, 2, 2]])
    assert estimate(table, "frequency")[0].tolist() == [0.75, 0.25, 0]
    assert estimate(table, "laplace")[0] == pytest.approx([4 / 7, 2 / 7, 1 / 7])
    assert estimate(table, "good-turing")[0] == pytest.approx([9 / 16, 3 / 16, 4 / 16])
    for estimator in ("frequency", "laplace", "good-turing"):
        assert estimate(table, estimator)[1] == pytest.approx([1 / 3] * 3)  # type: ignore[arg-type]
        assert estimate(table, estimator)[2] == pytest.approx([1 / 3] * 3)  # type: ignore[arg-type]


def test_a_state_that_was_never_seen_is_marked_and_an_answer_that_needs_it_says_so() -> None:
    chain = learn_chain(None, CENSUS, units=["hours-per-week:bins=10.2,10.6"], rounds=300)
    assert [chain.states[state] for state in sorted(chain.unvisited)] == [
        f"{group} & 10.2 <= hours-per-week < 10.6" for group in chain.states[1:6]
    ]


@pytest.mark.parametrize(
    ("states", "message"),
    [
        (["leyer3[2]"], "did you mean layer3"),
        (["layer3[16]"], r'"layer3" has 16 units, numbered from 0'),
        (["capital-gain:kmeens=3"], 'unknown method "kmeens"'),
        (["capital-gain:kmeans=1"], "2 or more"),
        (["capital-gain:bins=a"], "a is not a number"),
        (["layer3:sign"], "whole layer"),
        (["sex:kmeans=2"], "a category has no order"),
        (["layer5[0]:quantiles=1000"], "distinct"),
        (["layer3:kmeans=5000"], "kmeans makes at most 64 parts"),
        (["age:width=1001"], "width makes at most 1,000 parts"),
        ([f"age:bins={','.join(map(str, range(1000)))}"], "give fewer than 1,000"),
        (["layer3[2]:sign=5"], "sign takes no number; leave =5 out"),
        (["sex:values=2"], "values takes no number"),
        (["age:thirds=3"], 'unknown method "thirds"'),
        (["age", "layer3[2]", "age:bins=3"], "age:bins=3: age is requested twice"),
        (["layer3[2]", "layer3[2]"], r"layer3\[2\] is requested twice"),
        (["race"], "race already defines the groups"),
        (["educatoin"], "did you mean education"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_state_that_cannot_be_had_is_one_message(states: list[str], message: str) -> None:
    with pytest.raises((ChainError, ModelError), match=message) as caught:
        learn_chain(None, CENSUS, units=states, rounds=100)
    assert "\n" not in str(caught.value)


def test_the_shares_of_groups_are_those_of_the_population() -> None:
    spec = load_spec(example("credit"))
    subject = prepare_context(None, spec, (), None, None)
    chain = learn_chain(None, spec, rounds=100)
    shares = np.asarray(subject.population.shares())
    assert chain.probabilities[chain.sources == 0] == pytest.approx(shares / shares.sum())


def test_a_chain_of_a_tables_frequencies_is_about_those(tmp_path: Path) -> None:
    """Not silently about uniform people: the share of a value is the table's."""
    rows = [{"age": 3, "sex": "Female"}] * 3 + [{"age": 7, "sex": "Male"}]
    table = tmp_path / "people.csv"
    table.write_text("age,sex\n" + "".join(f"{row['age']},{row['sex']}\n" for row in rows))
    path = save(linear([[-1.0, 1.0], [0.0, 0.0]], [4.5, 0.0]), tmp_path / "network.onnx")
    data = question(integer("age"), category("sex", "Female", "Male"), path=str(path))
    data["population"] = {"kind": "marginals", "path": str(table)}
    chain = learn_chain(None, parse_spec(data), units=["age"], rounds=2000)
    assert check_chain(chain, 'P=? [ F "age=3" ]').value == pytest.approx(0.75, abs=0.05)
    assert chain.probabilities[chain.sources == 0] == pytest.approx([0.75, 0.25])


def test_units_that_cannot_be_are_named_before_anybody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*_: object, **__: object) -> None:
        raise AssertionError("people were drawn")

    monkeypatch.setattr(UniformPopulation, "rounds", nobody)
    for states in (["age", "age"], ["race"], ["layer3:kmeans=5000"]):
        with pytest.raises(ChainError):
            learn_chain(None, CENSUS, units=states)


def test_a_family_may_divide_a_unit_in_two_ways_but_not_twice_alike() -> None:
    units = ["layer3[2]", "layer3[2]:quantiles=3"]
    assert list(learn_family(None, CENSUS, units=units, rounds=200)) == units
    with pytest.raises(ChainError, match=says(REQUESTED_TWICE)):
        learn_family(None, CENSUS, units=["age", "age"], rounds=200)


def test_every_shared_chain_of_a_family_has_its_fidelity() -> None:
    family = learn_family(None, CENSUS, units=["layer3[2]", "age"], chain="shared", rounds=2000)
    for unit, chain in family.items():
        assert (
            chain.metadata["fidelity"]
            == learn_chain(None, CENSUS, units=[unit], chain="shared", rounds=2000).metadata["fidelity"]
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "paper"}, "give epsilon"),
        ({"rule": "papr", "epsilon": 0.1}, 'unknown rule "papr"'),
        ({"epsilon": 0.5}, "epsilon: found 0.5"),
        ({"rounds": 0}, "at least one"),
        ({"rounds": 10**20}, "at most 1,000,000,000"),
        ({"chain": "both"}, 'unknown kind of chain "both"'),
        ({"estimator": "mean"}, 'unknown estimator "mean"'),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ChainError, match=message):
        learn_chain(None, CENSUS, **options)


def test_a_feature_called_like_the_label_does_not_answer_for_it(tmp_path: Path) -> None:
    path = save(linear([[-1.0, 1.0], [0.0, 0.0]]), tmp_path / "network.onnx")
    data = question(category("Y", "no", "yes"), category("sex", "Female", "Male"), path=str(path))
    with pytest.raises(ChainError, match=says(TWO_DIFFERENT_STATES, name="Y=no")):
        learn_chain(None, parse_spec(data), units=["Y"], rounds=100)


def test_shares_that_nobody_knows_are_not_said_to_be_known(tmp_path: Path) -> None:
    """Among people for whom a condition holds, groups have shares of which the chain knows nothing."""
    path = save(linear([[-1.0, 1.0], [0.0, 0.0]], [4.5, 0.0]), tmp_path / "network.onnx")
    data = question(integer("age"), category("sex", "Female", "Male"), path=str(path))
    data["property"]["given"] = "age >= 2"
    chain = learn_chain(None, parse_spec(data), rounds=500)
    assert chain.low is not None
    assert chain.high is not None
    assert chain.low[:2].tolist() == [0, 0]
    assert chain.high[:2].tolist() == [1, 1]
    assert not chain.unvisited


def test_a_trace_outside_its_states_is_not_counted_elsewhere() -> None:
    inside = np.array([0, 1])
    assert count_link(0, 2, (inside, inside), (2, 2)).table.sum() == 2
    for wrong in (np.array([0, 2]), np.array([-1, 0])):
        with pytest.raises(ChainError, match=says(TRACE_STATE_OUT_OF_RANGE)):
            count_link(0, 2, (wrong, inside), (2, 2))
        with pytest.raises(ChainError, match=says(TRACE_STATE_OUT_OF_RANGE)):
            count_link(0, 2, (inside, wrong), (2, 2))


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_no_number_is_in_no_state(odd: float) -> None:
    """Not silently in the last one, nor in the first cluster."""
    request = parse_request("relu[1]", CENSUS)
    values = np.zeros((2, 13))
    assert numbers_of(request, values, {"relu": np.array([[odd, 1.0], [0.0, 2.0]])}).tolist() == [[1], [2]]
    with pytest.raises(ChainError, match=says(UNIT_NOT_FINITE, name="relu[1]")):
        numbers_of(request, values, {"relu": np.array([[0.0, 1.0], [0.0, odd]])})


def test_a_tensor_may_have_colons_in_its_name() -> None:
    request = parse_request("dense/relu:0[3]:kmeans=3", CENSUS)
    assert (request.name, request.tensor, request.unit, request.parts) == ("dense/relu:0[3]", "dense/relu:0", 3, 3)
    assert parse_request("dense/relu:0", CENSUS).name == "dense/relu:0"


@pytest.mark.parametrize("kind", ["product", "shared"])
def test_groups_below_min_size_are_left_out_of_a_chain_as_of_a_verdict(kind: Any, tmp_path: Path) -> None:
    path = save(linear([[0, 0.3], [0, -1]], [0.25, 0]), tmp_path / "network.onnx")
    data = question(integer("age"), category("race", "a", "b", "c"), path=str(path))
    data["property"]["min_size"] = 0.1
    data["population"] = {"kind": "marginals", "frequencies": {"race": {"a": 0.9, "b": 0.1}}}
    asked = parse_spec(data)
    chain = learn_chain(None, asked, chain=kind, rounds=200)
    assert chain.states[:3] == ("Start", "race=a", "race=b")
    assert "race=c" not in chain.states
    assert chain.metadata["left_out"] == [
        {"name": name, "share": share} for name, share in verify(None, asked).left_out
    ]
    assert "left out, below property.min_size: race=c (share 0)" in heading(chain)
    family = learn_family(None, asked, units=["age"], chain=kind, rounds=200)["age"]
    assert family.metadata["left_out"] == chain.metadata["left_out"]
    assert "race=c" not in family.states
