"""Chains over time from matrices of states: exact where that is promised, with bounds that hold where visits depend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from fairchain.chain import Chain
from fairchain.chain.build import ChainPlan
from fairchain.chain.discretize import Discretizer
from fairchain.chain.fidelity import fidelity_over_time
from fairchain.chain.over_time.passage_bounds import folded_bounds
from fairchain.chain.over_time.time_chain import TimePlan, build_over_time
from fairchain.chain.over_time.time_counts import TimeCounts, TimeShape, count_traces
from fairchain.errors import ChainError
from fairchain.pctl import check_chain
from fairchain.statistics.intervals import clopper_pearson

Arrays = tuple[np.ndarray, np.ndarray, list[np.ndarray]]


def states_of(names: int, unit: str = "lstm1") -> Discretizer:
    centres = tuple((float(place),) for place in range(names))
    return Discretizer(tuple(f"{unit} cluster {place + 1}" for place in range(names)), "kmeans", centres=centres)


def plan_of(shape: TimeShape, view: str, kind: str = "product", **more: Any) -> TimePlan:
    columns = (states_of(shape.width), *(states_of(width, f"layer{n}") for n, width in enumerate(shape.after[:-1], 1)))
    labels = tuple(f"l{label}" for label in range(shape.after[-1]))
    plan = ChainPlan(("sex=F", "sex=M"), (0.5, 0.5), columns, labels, kind, "frequency", 0.01, **more)  # type: ignore[arg-type]
    return TimePlan(plan, shape, "lstm1", view)  # type: ignore[arg-type]


def random_traces(rng: np.random.Generator, rows: int, shape: TimeShape, sticky: float = 0.6) -> Arrays:
    """Traces that remember their first state, so that no chain of them is the whole truth."""
    states = rng.integers(shape.width, size=(rows, shape.steps))
    stay = rng.random(states.shape) < sticky
    for step in range(1, shape.steps):
        states[:, step] = np.where(stay[:, step], states[:, step - 1], states[:, step])
    lengths = rng.integers(1, shape.steps + 1, rows) if shape.varied else np.full(rows, shape.steps)
    after = [(rng.integers(width, size=rows) + states[:, 0]) % width for width in shape.after]
    return states, lengths, after


def counted(groups: list[Arrays], shape: TimeShape) -> TimeCounts:
    return TimeCounts.of_groups([count_traces(*each, shape, moments=True) for each in groups])


def from_groups(chain: Chain, label: str) -> np.ndarray:
    """The probability of reaching a label from each of the two groups."""
    values: np.ndarray = check_chain(replace(chain, low=None, high=None), f'P=? [ F "{label}" ]').values[1:3]
    return values


shapes = st.builds(
    TimeShape,
    steps=st.integers(1, 6),
    width=st.integers(1, 4),
    after=st.lists(st.integers(2, 3), min_size=1, max_size=3).map(tuple),
    varied=st.booleans(),
)


@given(shapes, st.integers(0, 2**32 - 1), st.sampled_from(["folded", "unrolled"]))
@settings(max_examples=40)
def test_a_product_chain_reaches_labels_as_often_as_they_were_counted(shape: TimeShape, seed: int, view: str) -> None:
    rng = np.random.default_rng(seed)
    groups = [random_traces(rng, 40, shape) for _ in range(2)]
    chain = build_over_time(counted(groups, shape), plan_of(shape, view), {})
    for label in range(shape.after[-1]):
        shares = [(after[-1] == label).mean() for _, _, after in groups]
        assert from_groups(chain, f"Y=l{label}") == pytest.approx(shares, abs=1e-12)


@given(shapes, st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_an_unrolled_product_chain_is_exact_after_every_step(shape: TimeShape, seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = [random_traces(rng, 40, shape) for _ in range(2)]
    chain = build_over_time(counted(groups, shape), plan_of(shape, "unrolled"), {})
    for step in range(1, shape.steps + 1):
        shares = [(lengths >= step).mean() for _, lengths, _ in groups]
        assert from_groups(chain, f"step={step}") == pytest.approx(shares, abs=1e-12)
        for state in range(shape.width):
            shares = [((lengths >= step) & (states[:, step - 1] == state)).mean() for states, lengths, _ in groups]
            assert from_groups(chain, f"lstm1@{step} cluster {state + 1}") == pytest.approx(shares, abs=1e-12)


@given(shapes, st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_counts_are_those_of_going_through_the_traces_one_by_one(shape: TimeShape, seed: int) -> None:
    states, lengths, after = random_traces(np.random.default_rng(seed), 12, shape)
    counts = count_traces(states, lengths, after, shape, moments=True)
    taken = np.zeros((12, shape.steps, shape.width, shape.following), int)
    for row, length in enumerate(lengths):
        trace = [*states[row, :length], shape.width + after[0][row]]
        for step in range(length):
            taken[row, step, trace[step], trace[step + 1]] += 1
    assert np.array_equal(counts.steps[0], taken.sum(axis=0))
    pairs = taken.sum(axis=1)
    visits = pairs.sum(axis=2)
    assert counts.moments is not None
    assert np.array_equal(counts.moments.square[0], (pairs**2).sum(axis=0))
    assert np.array_equal(counts.moments.cross[0], (pairs * visits[:, :, None]).sum(axis=0))
    assert np.array_equal(counts.moments.visits[0], (visits**2).sum(axis=0))
    assert np.array_equal(counts.visited[0], (visits > 0).sum(axis=0))
    assert counts.labels[0].tolist() == np.bincount(after[-1], minlength=shape.after[-1]).tolist()
    for one, two, link in zip(after, after[1:], counts.after, strict=False):
        assert link[0].sum() == 12
        assert link[0, one[0], two[0]] > 0


def test_counts_add_whatever_the_chunks_and_however_short_they_are_cut() -> None:
    shape = TimeShape(5, 3, (2,))
    states, lengths, (labels,) = random_traces(np.random.default_rng(1), 100, shape)
    whole = count_traces(states, lengths, [labels], shape, moments=True)
    order = np.argsort(lengths, kind="stable")
    parts = [order[:30], order[30:60], order[60:]]
    cut = [
        count_traces(states[part, : lengths[part].max()], lengths[part], [labels[part]], shape, moments=True)
        for part in parts
    ]
    total = cut[0] + cut[1] + cut[2]
    assert np.array_equal(total.steps, whole.steps)
    assert np.array_equal(total.entry, whole.entry)
    assert np.array_equal(total.visited, whole.visited)
    assert total.moments is not None
    assert whole.moments is not None
    assert np.array_equal(total.moments.square, whole.moments.square)


@pytest.mark.parametrize("lengths", [[0, 2], [1, 4]])
def test_traces_that_cannot_be_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ChainError, match="1 to 3 may be"):
        count_traces(np.zeros((2, 3), int), np.array(lengths), [np.zeros(2, int)], TimeShape(3, 2, (2,)))
    with pytest.raises(ChainError, match=r"\(2, 4\)"):
        count_traces(np.zeros((2, 4), int), np.array([1, 1]), [np.zeros(2, int)], TimeShape(3, 2, (2,)))
    with pytest.raises(ChainError, match="where 3 to 3"):
        count_traces(np.zeros((2, 3), int), np.array([3, 2]), [np.zeros(2, int)], TimeShape(3, 2, (2,), varied=False))


def sticky(runs: int, traces: int) -> tuple[TimeCounts, np.ndarray, float]:
    """(counts with a run for each group, share of A -> A, its truth): half of the traces stay in A, half alternate.

    A trace that stays visits A 20 times and goes from A to A 19 times; one that alternates 10 times and never.
    """
    shape = TimeShape(20, 2, (2,), varied=False)
    rows = np.array([[0] * 20, [0, 1] * 10])
    lengths, labels = np.full(2, 20), np.zeros(2, int)
    stays, turns = (count_traces(rows[[n]], lengths[[n]], [labels[[n]]], shape, moments=True) for n in range(2))
    many = np.random.default_rng(8).binomial(traces, 0.5, runs)
    counts = TimeCounts.of_groups([times(stays, each) + times(turns, traces - each) for each in many.tolist()])
    return counts, 19 * many / (20 * many + 10 * (traces - many)), 9.5 / 15


def times(counts: TimeCounts, number: int) -> TimeCounts:
    assert counts.moments is not None
    parts = (counts.moments.square, counts.moments.cross, counts.moments.visits)
    moments = type(counts.moments)(*(part * number for part in parts))
    return TimeCounts(counts.entry * number, counts.steps * number, (), counts.visited * number, moments)


def test_bounds_of_a_folded_chain_hold_where_visits_of_a_trace_depend_on_each_other() -> None:
    """300 runs at level 0.05. If an interval failed just as often as it may, this would fail once in 10^5 times.

    Clopper-Pearson on the visits, as if they were independent, must fail the same test.
    """
    runs, level = 300, 0.05
    allowed = int(binom.isf(1e-5, runs, level))
    counts, rate, truth = sticky(runs, 200)
    taken = counts.steps.sum(axis=1)
    assert counts.moments is not None
    low, high = folded_bounds(taken, counts.moments, 20, level)
    assert ((low[:, 0, 0] > truth) | (high[:, 0, 0] < truth)).sum() <= allowed
    visits = taken[:, 0].sum(axis=1)
    naive_low, naive_high = clopper_pearson(taken[:, 0, 0], visits, level)
    assert ((naive_low > truth) | (naive_high < truth)).sum() > allowed
    # And they say something: not more than three times as wide as two standard deviations to each side.
    assert (high - low)[:, 0, 0].mean() <= 3 * 4 * rate.std()


@pytest.mark.parametrize("kind", ["product", "shared"])
def test_bounds_of_a_folded_chain_hold_together_for_random_traces(kind: str) -> None:
    """25 chains at delta 0.01 for all transitions of each; more than 4 wrong ones have a chance below 10^-5."""
    shape = TimeShape(5, 3, (2,))
    rng = np.random.default_rng(3)

    def learned(rows: int) -> Chain:
        groups = [random_traces(rng, rows, shape, sticky) for sticky in (0.2, 0.8)]
        return build_over_time(counted(groups, shape), plan_of(shape, "folded", kind), {})

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
    shape = TimeShape(4, 2, (2,))
    rng = np.random.default_rng(4)
    few, many = (
        build_over_time(counted([random_traces(rng, n, shape) for _ in range(2)], shape), plan_of(shape, view), {})
        for n in (400, 40_000)
    )
    widths = [(chain.high - chain.low)[chain.sources > 0].max() for chain in (few, many)]  # type: ignore[operator]
    assert widths[1] < widths[0] / 7


def test_a_shared_chain_adds_its_groups_up() -> None:
    shape = TimeShape(4, 3, (3, 2))
    rng = np.random.default_rng(6)
    counts = counted([random_traces(rng, 500, shape) for _ in range(2)], shape)
    for view, states in (("folded", 3), ("unrolled", 12)):
        shared = build_over_time(counts, plan_of(shape, view, "shared"), {})
        product = build_over_time(counts, plan_of(shape, view), {})
        assert len(shared) == 1 + 2 + states + 3 + 2
        assert len(product) == 1 + 2 + 2 * (states + 3) + 2
        assert shared.counts is not None
        assert product.counts is not None
        assert shared.counts.sum() == product.counts.sum()


def test_fidelity_sees_what_a_folded_chain_forgets() -> None:
    """Everybody goes A, A, B: a folded chain has a quarter of them in B after step 3; labels it has right."""
    shape = TimeShape(3, 2, (2,), varied=False)
    traces = (np.array([[0, 0, 1]] * 1000), np.full(1000, 3), [np.arange(1000) % 2])
    counts = counted([traces, traces], shape)
    folded = plan_of(shape, "folded")
    found = fidelity_over_time(build_over_time(counts, folded, {}), folded, counts, 0.01)
    assert found["estimate"] == pytest.approx(0, abs=1e-12)
    assert found["steps"]["estimate"] == pytest.approx(0.75)
    assert 0.7 < found["steps"]["low"] <= 0.75 <= found["steps"]["high"]
    assert found["steps"]["step"] == 3
    unrolled = plan_of(shape, "unrolled")
    found = fidelity_over_time(build_over_time(counts, unrolled, {}), unrolled, counts, 0.01)
    assert found["steps"]["estimate"] == found["visits"]["estimate"] == pytest.approx(0, abs=1e-12)


def test_fidelity_sees_what_an_unrolled_chain_forgets() -> None:
    """A, C, A or B, C, B: the chain lets a quarter of all go from A by C to B, and more are ever in A than were."""
    shape = TimeShape(3, 3, (2,), varied=False)
    rows = np.array([[0, 2, 0], [1, 2, 1]] * 500)
    traces = (rows, np.full(1000, 3), [np.zeros(1000, int)])
    counts = counted([traces, traces], shape)
    plan = plan_of(shape, "unrolled")
    found = fidelity_over_time(build_over_time(counts, plan, {}), plan, counts, 0.01)
    assert found["steps"]["estimate"] == pytest.approx(0, abs=1e-12)
    assert found["visits"]["estimate"] == pytest.approx(0.25)


def test_what_was_never_seen_is_marked_and_steps_that_cannot_be_are_left_out() -> None:
    shape = TimeShape(3, 2, (2,), varied=False)
    traces = (np.zeros((50, 3), int), np.full(50, 3), [np.zeros(50, int)])
    chain = build_over_time(counted([traces, traces], shape), plan_of(shape, "unrolled"), {})
    assert {chain.states[state] for state in chain.unvisited} == {
        *(f"{sex} & lstm1@{step} cluster 2" for sex in ("sex=F", "sex=M") for step in (1, 2, 3)),
        "Y=l1",
    }
    label = chain.index("Y=l0")
    before = {chain.states[source] for source in chain.sources[chain.targets == label]} - {"Y=l0"}
    assert before == {f"{sex} & lstm1@3 cluster {n}" for sex in ("sex=F", "sex=M") for n in (1, 2)}


def test_too_many_transitions_are_refused_with_what_to_do() -> None:
    shape = TimeShape(200, 80, (2,))
    traces = (np.zeros((2, 200), int), np.full(2, 200), [np.zeros(2, int)])
    with pytest.raises(ChainError, match='or for view = "folded"'):
        build_over_time(counted([traces, traces], shape), plan_of(shape, "unrolled"), {})


def test_a_name_that_would_stand_for_two_things_is_refused() -> None:
    shape = TimeShape(3, 2, (2,))
    plan = ChainPlan(("step=1", "step=2"), (0.5, 0.5), (states_of(2),), ("no", "yes"), "product", "frequency", 0.01)
    with pytest.raises(ChainError, match="step=1"):
        TimePlan(plan, shape, "lstm1", "unrolled")
    TimePlan(plan, shape, "lstm1", "folded")


def equal_on_disk(chain: Chain, folder: Any, form: str, name: str) -> Chain:
    from fairchain.chain import read_chain, write_chain

    write_chain(chain, folder / name, form)
    return read_chain(folder / name)


@pytest.mark.parametrize(("form", "name"), [("json", "c.json"), ("drn", "c.drn"), ("explicit", "c.tra")])
@pytest.mark.parametrize("view", ["folded", "unrolled"])
def test_chains_over_time_can_be_written_and_read(view: str, form: str, name: str, tmp_path: Any) -> None:
    shape = TimeShape(3, 2, (2,))
    rng = np.random.default_rng(7)
    chain = build_over_time(
        counted([random_traces(rng, 300, shape) for _ in range(2)], shape), plan_of(shape, view), {}
    )
    again = equal_on_disk(chain, tmp_path, form, name)
    for formula in ('P=? [ F "Y=l1" ]', 'P=? [ F "lstm1 cluster 2" ]', 'R=? [ F ("Y=l0" | "Y=l1") ]'):
        assert check_chain(again, formula).value == pytest.approx(check_chain(chain, formula).value, abs=1e-12)
    if form == "json":
        assert again == chain
