"""Chains over time from matrices of states: exact where that is promised, with bounds that hold where visits depend."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fairchain.chain import Chain
from fairchain.chain.build import build_chain, folded_bounds
from fairchain.chain.learn import fidelity
from fairchain.chain.plan import FEWER_CLUSTERS, TWO_DIFFERENT_STATES, ChainPlan
from fairchain.chain.state_units import Discretizer
from fairchain.chain.traces import WRONG_NUMBER_OF_STEPS, Moments, Passages, TraceCounts, count_steps
from fairchain.errors import ChainError
from fairchain.pctl import check_chain
from fairchain.statistics.intervals import clopper_pearson
from tests.messages import says

Arrays = tuple[np.ndarray, np.ndarray, list[np.ndarray]]
GROUPS = ("sex=F", "sex=M")


@dataclass(frozen=True)
class Shape:
    """Steps of traces, states over time, and widths of the columns after the last step, the labels last."""

    steps: int
    width: int
    after: tuple[int, ...]
    varied: bool = True


def states_of(names: int, unit: str = "lstm1") -> Discretizer:
    centres = tuple((float(place),) for place in range(names))
    return Discretizer(tuple(f"{unit} cluster {place + 1}" for place in range(names)), "kmeans", centres=centres)


def plan_of(shape: Shape, view: str, kind: str = "product", groups: tuple[str, ...] = GROUPS) -> ChainPlan:
    units = (states_of(shape.width), *(states_of(width, f"layer{n}") for n, width in enumerate(shape.after[:-1], 1)))
    return ChainPlan(
        groups,
        (1 / len(groups),) * len(groups),
        units,
        tuple(f"l{label}" for label in range(shape.after[-1])),
        kind,  # type: ignore[arg-type]
        "frequency",
        0.01,
        view=view,  # type: ignore[arg-type]
        timed="lstm1",
        steps=shape.steps,
        varied=shape.varied,
    )


def random_traces(rng: np.random.Generator, rows: int, shape: Shape, sticky: float = 0.6) -> Arrays:
    """Traces that remember their first state, so that no chain of them is the whole truth."""
    states = rng.integers(shape.width, size=(rows, shape.steps))
    stay = rng.random(states.shape) < sticky
    for step in range(1, shape.steps):
        states[:, step] = np.where(stay[:, step], states[:, step - 1], states[:, step])
    lengths = rng.integers(1, shape.steps + 1, rows) if shape.varied else np.full(rows, shape.steps)
    after = [(rng.integers(width, size=rows) + states[:, 0]) % width for width in shape.after]
    return states, lengths, after


def counts_of(group: int, traces: Arrays, plan: ChainPlan) -> TraceCounts:
    states, lengths, after = traces
    inside = np.arange(states.shape[1]) < lengths[:, None]
    return count_steps(group, plan, states[inside], Passages.of(lengths, plan), after, moments=True)


def counted(groups: list[Arrays], plan: ChainPlan) -> TraceCounts:
    return reduce(add, (counts_of(group, traces, plan) for group, traces in enumerate(groups)))


def built(groups: list[Arrays], shape: Shape, view: str, kind: str = "product") -> Chain:
    plan = plan_of(shape, view, kind)
    return build_chain(counted(groups, plan), plan, {})


def from_groups(chain: Chain, label: str) -> np.ndarray:
    """The probability of reaching a label from each of the two groups."""
    values: np.ndarray = check_chain(replace(chain, low=None, high=None), f'P=? [ F "{label}" ]').values[1:3]
    return values


shapes = st.builds(
    Shape,
    steps=st.integers(1, 6),
    width=st.integers(1, 4),
    after=st.lists(st.integers(2, 3), min_size=1, max_size=3).map(tuple),
    varied=st.booleans(),
)


@given(shapes, st.integers(0, 2**32 - 1), st.sampled_from(["folded", "unrolled"]))
@settings(max_examples=40)
def test_a_product_chain_reaches_labels_as_often_as_they_were_counted(shape: Shape, seed: int, view: str) -> None:
    rng = np.random.default_rng(seed)
    groups = [random_traces(rng, 40, shape) for _ in range(2)]
    chain = built(groups, shape, view)
    for label in range(shape.after[-1]):
        shares = [(after[-1] == label).mean() for _, _, after in groups]
        assert from_groups(chain, f"Y=l{label}") == pytest.approx(shares, abs=1e-12)


@given(shapes, st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_an_unrolled_product_chain_is_exact_after_every_step(shape: Shape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [random_traces(rng, 40, shape) for _ in range(2)]
    chain = built(groups, shape, "unrolled")
    for step in range(1, shape.steps + 1):
        shares = [(lengths >= step).mean() for _, lengths, _ in groups]
        assert from_groups(chain, f"step={step}") == pytest.approx(shares, abs=1e-12)
        for state in range(shape.width):
            shares = [((lengths >= step) & (states[:, step - 1] == state)).mean() for states, lengths, _ in groups]
            assert from_groups(chain, f"lstm1@{step} cluster {state + 1}") == pytest.approx(shares, abs=1e-12)


@given(shapes, st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_counts_are_those_of_going_through_the_traces_one_by_one(shape: Shape, seed: int) -> None:
    states, lengths, after = random_traces(np.random.default_rng(seed), 12, shape)
    following = shape.width + shape.after[0]
    taken = np.zeros((12, shape.steps, shape.width, following), int)
    for row, length in enumerate(lengths):
        trace = [*states[row, :length], shape.width + after[0][row]]
        for step in range(length):
            taken[row, step, trace[step], trace[step + 1]] += 1
    pairs = taken.sum(axis=1)
    visits = pairs.sum(axis=2)
    for view in ("folded", "unrolled"):
        counts = counts_of(0, (states, lengths, after), plan_of(shape, view, groups=("all",)))
        tables = [link.dense(1)[0] for link in counts.links]
        assert tables[0].tolist() == [np.bincount(states[:, 0], minlength=shape.width).tolist()]
        if view == "folded":
            assert np.array_equal(tables[1], pairs.sum(axis=0))
        else:
            for step in range(shape.steps):
                ahead = taken[:, step].sum(axis=0)
                stays = ahead if shape.varied else ahead[:, : shape.width]
                ends = ahead[:, shape.width :]
                assert np.array_equal(tables[1 + step], ends if step == shape.steps - 1 else stays)
        assert counts.moments is not None
        assert np.array_equal(counts.moments.square[0], (pairs**2).sum(axis=0))
        assert np.array_equal(counts.moments.cross[0], (pairs * visits[:, :, None]).sum(axis=0))
        assert np.array_equal(counts.moments.visits[0, :, 0], (visits**2).sum(axis=0))
        assert counts.visited is not None
        assert np.array_equal(counts.visited[0], (visits > 0).sum(axis=0))
        assert counts.occupied is not None
        assert np.array_equal(counts.occupied[0], taken.sum(axis=(0, 3)))
        assert counts.labels[0].tolist() == np.bincount(after[-1], minlength=shape.after[-1]).tolist()
        for one, two, table in zip(after, after[1:], tables[len(tables) - len(after) + 1 :], strict=False):
            assert table.sum() == 12
            assert table[one[0], two[0]] > 0


def test_counts_add_whatever_the_chunks_and_however_short_they_are_cut() -> None:
    shape = Shape(5, 3, (2,))
    plan = plan_of(shape, "folded")
    states, lengths, (labels,) = random_traces(np.random.default_rng(1), 100, shape)
    whole = counts_of(1, (states, lengths, [labels]), plan)
    order = np.argsort(lengths, kind="stable")
    total = reduce(
        add,
        (
            counts_of(1, (states[part, : lengths[part].max()], lengths[part], [labels[part]]), plan)
            for part in (order[:30], order[30:60], order[60:])
        ),
    )
    for one, two in zip(total.links, whole.links, strict=True):
        assert np.array_equal(one.dense(2), two.dense(2))
    assert np.array_equal(total.visited, whole.visited)  # type: ignore[arg-type]
    assert np.array_equal(total.occupied, whole.occupied)  # type: ignore[arg-type]
    assert total.moments is not None
    assert whole.moments is not None
    assert np.array_equal(total.moments.square, whole.moments.square)


@pytest.mark.parametrize("lengths", [[0, 2], [1, 4]])
def test_traces_that_cannot_be_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ChainError, match=says(WRONG_NUMBER_OF_STEPS, least2="1", steps="3")):
        Passages.of(np.array(lengths), plan_of(Shape(3, 2, (2,)), "folded"))
    with pytest.raises(ChainError, match=says(WRONG_NUMBER_OF_STEPS, largest="3", least2="3", steps="3")):
        Passages.of(np.array([3, 2]), plan_of(Shape(3, 2, (2,), varied=False), "folded"))


def sticky(runs: int, traces: int) -> tuple[np.ndarray, Moments, np.ndarray, float]:
    """(taken, moments, share of A -> A, its truth), a run for each group: half of the traces stay in A, half alternate.

    A trace that stays visits A 20 times and goes from A to A 19 times; one that alternates 10 times and never.
    """
    plan = plan_of(Shape(20, 2, (2,), varied=False), "folded", groups=("all",))
    rows = np.array([[0] * 20, [0, 1] * 10])
    stays, turns = (counts_of(0, (rows[[n]], np.full(1, 20), [np.zeros(1, int)]), plan) for n in range(2))
    many = np.random.default_rng(8).binomial(traces, 0.5, runs)

    def mixed(one: np.ndarray, two: np.ndarray) -> np.ndarray:
        return many[:, None, None] * one + (traces - many)[:, None, None] * two

    taken = mixed(stays.links[1].dense(1), turns.links[1].dense(1))
    assert stays.moments is not None
    assert turns.moments is not None
    names = ("square", "cross", "visits")
    moments = Moments(*(mixed(getattr(stays.moments, name), getattr(turns.moments, name)) for name in names))
    return taken, moments, 19 * many / (20 * many + 10 * (traces - many)), 9.5 / 15


def test_bounds_of_a_folded_chain_hold_where_visits_of_a_trace_depend_on_each_other() -> None:
    """300 runs at level 0.05. If an interval failed just as often as it may, this would fail once in 10^5 times.

    Clopper-Pearson on the visits, as if they were independent, must fail the same test.
    """
    runs, level = 300, 0.05
    allowed = int(binom.isf(1e-5, runs, level))
    taken, moments, rate, truth = sticky(runs, 200)
    low, high = folded_bounds(taken, moments, 20, level)
    assert ((low[:, 0, 0] > truth) | (high[:, 0, 0] < truth)).sum() <= allowed
    visits = taken[:, 0].sum(axis=1)
    naive_low, naive_high = clopper_pearson(taken[:, 0, 0], visits, level)
    assert ((naive_low > truth) | (naive_high < truth)).sum() > allowed
    # And they say something: not more than three times as wide as two standard deviations to each side.
    assert (high - low)[:, 0, 0].mean() <= 3 * 4 * rate.std()


@pytest.mark.parametrize("kind", ["product", "shared"])
def test_bounds_of_a_folded_chain_hold_together_for_random_traces(kind: str) -> None:
    """25 chains at delta 0.01 for all transitions of each; more than 4 wrong ones have a chance below 10^-5."""
    shape = Shape(5, 3, (2,))
    rng = np.random.default_rng(3)

    def learned(rows: int) -> Chain:
        groups = [random_traces(rng, rows, shape, sticky) for sticky in (0.2, 0.8)]
        return built(groups, shape, "folded", kind)

    truth = learned(100_000).probabilities
    wrong = 0
    for _ in range(25):
        chain = learned(300)
        assert chain.low is not None
        assert chain.high is not None
        assert (chain.low <= chain.probabilities).all()
        assert (chain.probabilities <= chain.high).all()
        # What 100,000 traces say is itself off by a little.
        wrong += bool(((chain.low > truth + 0.004) | (chain.high < truth - 0.004)).any())
    assert wrong <= 4


@pytest.mark.parametrize("view", ["folded", "unrolled"])
def test_bounds_get_narrow(view: str) -> None:
    shape = Shape(4, 2, (2,))
    rng = np.random.default_rng(4)
    few, many = (built([random_traces(rng, n, shape) for _ in range(2)], shape, view) for n in (400, 40_000))
    widths = [(chain.high - chain.low)[chain.sources > 0].max() for chain in (few, many)]  # type: ignore[operator]
    assert widths[1] < widths[0] / 7


def test_a_shared_chain_adds_its_groups_up() -> None:
    shape = Shape(4, 3, (3, 2))
    rng = np.random.default_rng(6)
    groups = [random_traces(rng, 500, shape) for _ in range(2)]
    for view, states in (("folded", 3), ("unrolled", 12)):
        shared = built(groups, shape, view, "shared")
        product = built(groups, shape, view)
        assert len(shared) == 1 + 2 + states + 3 + 2
        assert len(product) == 1 + 2 + 2 * (states + 3) + 2
        assert shared.counts is not None
        assert product.counts is not None
        assert shared.counts.sum() == product.counts.sum()


def measured(groups: list[Arrays], plan: ChainPlan) -> dict[str, Any]:
    counts = counted(groups, plan)
    return fidelity(build_chain(counts, plan, {}), plan, counts)


def test_fidelity_sees_what_a_folded_chain_forgets() -> None:
    """Everybody goes A, A, B: a folded chain has a quarter of them in B after step 3; labels it has right."""
    shape = Shape(3, 2, (2,), varied=False)
    traces = (np.array([[0, 0, 1]] * 1000), np.full(1000, 3), [np.arange(1000) % 2])
    found = measured([traces, traces], plan_of(shape, "folded"))
    assert found["estimate"] == pytest.approx(0, abs=1e-12)
    assert found["steps"]["estimate"] == pytest.approx(0.75)
    assert 0.7 < found["steps"]["low"] <= 0.75 <= found["steps"]["high"]
    assert found["steps"]["step"] == 3
    found = measured([traces, traces], plan_of(shape, "unrolled"))
    assert found["steps"]["estimate"] == found["visits"]["estimate"] == pytest.approx(0, abs=1e-12)


def test_fidelity_sees_what_an_unrolled_chain_forgets() -> None:
    """A, C, A or B, C, B: the chain lets a quarter of all go from A by C to B, and more are ever in A than were."""
    shape = Shape(3, 3, (2,), varied=False)
    rows = np.array([[0, 2, 0], [1, 2, 1]] * 500)
    traces = (rows, np.full(1000, 3), [np.zeros(1000, int)])
    found = measured([traces, traces], plan_of(shape, "unrolled"))
    assert found["steps"]["estimate"] == pytest.approx(0, abs=1e-12)
    assert found["visits"]["estimate"] == pytest.approx(0.25)


def test_what_was_never_seen_is_marked_and_steps_that_cannot_be_are_left_out() -> None:
    shape = Shape(3, 2, (2,), varied=False)
    traces = (np.zeros((50, 3), int), np.full(50, 3), [np.zeros(50, int)])
    chain = built([traces, traces], shape, "unrolled")
    assert {chain.states[state] for state in chain.unvisited} == {
        *(f"{sex} & lstm1@{step} cluster 2" for sex in ("sex=F", "sex=M") for step in (1, 2, 3)),
        "Y=l1",
    }
    label = chain.index("Y=l0")
    before = {chain.states[source] for source in chain.sources[chain.targets == label]} - {"Y=l0"}
    assert before == {f"{sex} & lstm1@3 cluster {n}" for sex in ("sex=F", "sex=M") for n in (1, 2)}


def test_too_many_transitions_are_refused_with_what_to_do() -> None:
    shape = Shape(200, 80, (2,))
    with pytest.raises(ChainError, match=says(FEWER_CLUSTERS)):
        plan_of(shape, "unrolled")
    plan_of(shape, "folded")


def test_a_name_that_would_stand_for_two_things_is_refused() -> None:
    shape = Shape(3, 2, (2,))
    with pytest.raises(ChainError, match=says(TWO_DIFFERENT_STATES, name="step=1")):
        plan_of(shape, "unrolled", groups=("step=1", "step=2"))
    plan_of(shape, "folded", groups=("step=1", "step=2"))


def equal_on_disk(chain: Chain, folder: Any, form: str, name: str) -> Chain:
    from fairchain.chain import read_chain, write_chain

    write_chain(chain, folder / name, form)
    return read_chain(folder / name)


@pytest.mark.parametrize(("form", "name"), [("json", "c.json"), ("drn", "c.drn"), ("explicit", "c.tra")])
@pytest.mark.parametrize("view", ["folded", "unrolled"])
def test_chains_over_time_can_be_written_and_read(view: str, form: str, name: str, tmp_path: Any) -> None:
    shape = Shape(3, 2, (2,))
    rng = np.random.default_rng(7)
    chain = built([random_traces(rng, 300, shape) for _ in range(2)], shape, view)
    again = equal_on_disk(chain, tmp_path, form, name)
    for formula in ('P=? [ F "Y=l1" ]', 'P=? [ F "lstm1 cluster 2" ]', 'R=? [ F ("Y=l0" | "Y=l1") ]'):
        assert check_chain(again, formula).value == pytest.approx(check_chain(chain, formula).value, abs=1e-12)
    if form == "json":
        assert again == chain
