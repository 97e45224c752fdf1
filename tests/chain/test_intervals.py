"""The bounds of transitions keep their promise: for groups apart and added up, and whenever one stops.

Statistical tests have fixed seeds, and would fail for one choice of seeds in a million if the promise held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from fairchain import example, load_spec
from fairchain.chain.build import bounds, build_chain
from fairchain.chain.chain import Chain
from fairchain.chain.context import ChainContext, fitted, prepare_context
from fairchain.chain.learn import learn_chain
from fairchain.chain.plan import ChainPlan
from fairchain.chain.state_units import StateUnit
from fairchain.chain.traces import TraceCounter, count_columns
from fairchain.executors import Workers
from fairchain.populations import build_population
from fairchain.spec import Spec, groups_of, parse_spec, revise
from fairchain.spec.conditions import parse_predicate
from fairchain.spec.subgroups import Subgroup, subgroups_of_groups
from fairchain.statistics.intervals import clopper_pearson, probability_any_time
from tests.networks import constant, graph, node, save, value
from tests.questions import category, integer, question

RARE = 1e-6
DELTA = 0.1
SEEDS = 120
ROUNDS = 1000
GROUPS = 9


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> ChainContext:
    """400 inputs in each of nine groups; two neurons and a label that all depend on the group, and on each other."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("Relu", ["a"], ["h"]),
        node("MatMul", ["x", "v"], ["y"]),
    ]
    network = graph(
        nodes,
        [value("x", shape=("N", 3))],
        [value("y")],
        [
            constant("w", [[1.0, 1.0], [0.0, 1.0], [0.2, -0.2]]),
            constant("b", [-9.5, -17.5]),
            constant("v", [[0.2, 0.0], [-1.0, 0.4], [0.1, 0.2]]),
        ],
    )
    path = save(network, tmp_path_factory.mktemp("network") / "network.onnx")
    data = question(
        integer("x", 0, 19), integer("y", 0, 19), category("town", *(f"t{n}" for n in range(GROUPS))), path=str(path)
    )
    data["guarantee"]["delta"] = DELTA
    return prepare_context(None, parse_spec(data), ("layer1[0]", "layer1[1]"), None, None)


def units_of(subject: ChainContext) -> tuple[StateUnit, ...]:
    return fitted(subject)


def plan_of(subject: ChainContext, kind: Any) -> ChainPlan:
    names = tuple(group.name for group in subject.groups)
    columns = tuple(unit.discretizer for unit in units_of(subject))
    return ChainPlan(names, (1 / GROUPS,) * GROUPS, columns, ("no", "yes"), kind, "frequency", DELTA)


def truth(subject: ChainContext, kind: Any) -> Chain:
    """The chain of all inputs, each once: its frequencies are the probabilities."""
    units, total = units_of(subject), None
    for group in range(GROUPS):
        people = np.array([(x, y, group) for x, y in product(range(20), repeat=2)], subject.probe.model.dtype)
        labels, hidden = subject.probe(people)
        counts = count_columns(
            group, plan_of(subject, kind), [*(unit.states(people, hidden) for unit in units), labels]
        )
        total = counts if total is None else total + counts
    assert total is not None
    return build_chain(total, plan_of(subject, kind), {})


def runs_that_miss(subject: ChainContext, kind: Any) -> int:
    """In how many of the seeds at least one transition's probability lies outside its interval."""
    plan, units, exact = plan_of(subject, kind), units_of(subject), truth(subject, kind)
    missed = 0
    for seed in range(SEEDS):
        asked = replace(subject, spec=revise(subject.spec, guarantee__seed=seed))
        chain = build_chain(TraceCounter(asked, [(units, plan)], Workers()).counts(0, ROUNDS)[0], plan, {})
        assert chain.low is not None
        assert chain.high is not None
        missed += bool(((chain.low > exact.probabilities) | (chain.high < exact.probabilities)).any())
    return missed


ALLOWED = binom.isf(RARE, SEEDS, DELTA)


@pytest.mark.parametrize("kind", ["product", "shared"])
def test_all_intervals_hold_together(subject: ChainContext, kind: str) -> None:
    assert runs_that_miss(replace(subject, apart=kind == "shared"), kind) <= ALLOWED


def test_they_would_not_if_one_person_counted_for_all_groups(subject: ChainContext) -> None:
    """The test above is able to fail: this is what `apart` is for."""
    assert runs_that_miss(replace(subject, apart=False), "shared") > ALLOWED


def misses(
    bound: Callable[..., Any], chances: list[tuple[float, float]], each: int, level: float
) -> tuple[float, float]:
    """The exact probability that the bounds of groups added up lie above, and below, what they speak of.

    `chances`: of each group, to visit the state, and then to go on; `each` people of every group.
    """
    size = each * len(chances)
    law = np.zeros((size + 1, size + 1))
    law[0, 0] = 1
    for visit, go in chances * each:
        after = law * (1 - visit)
        after[1:] += law[:-1] * visit * (1 - go)
        after[1:, 1:] += law[:-1, :-1] * visit * go
        law = after
    visits, seen = (grid.ravel() for grid in np.indices(law.shape))
    low, high = bound(np.minimum(seen, visits), visits, level)
    aim = sum(visit * go for visit, go in chances) / sum(visit for visit, _ in chances)
    return float(law.ravel()[low > aim + 1e-12].sum()), float(law.ravel()[high < aim - 1e-12].sum())


def test_added_groups_are_no_binomial_sample_but_the_bounds_at_any_time_hold() -> None:
    """One group of four goes on at all: Clopper-Pearson's lower bound fails more often than its half of the level."""
    chances = [(1.0, 0.27), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
    half = 1 - (1 - 0.27 / 4) ** 4 + 1e-9
    assert misses(clopper_pearson, chances, 1, 2 * half)[0] > 1.1 * half
    assert sum(misses(probability_any_time, chances, 1, 2 * half)) <= 2 * half


@pytest.mark.parametrize("level", [0.3, 0.1, 0.01])
def test_bounds_of_added_groups_hold_whoever_visits(level: float) -> None:
    """Exact probabilities, no sample: also where groups that visit a state rarely go on from it most."""
    random = np.random.default_rng(5)
    for _ in range(20):
        chances = [(float(a), float(p)) for a, p in zip(random.random(3) ** 3, random.random(3) ** 2, strict=True)]
        assert sum(misses(probability_any_time, chances, 5, level)) <= level


def test_stopping_when_it_suits_does_not_break_bounds_at_any_time() -> None:
    """200 runs, each looked at 60 times and stopped where the bounds are wrong, if they ever are."""
    random = np.random.default_rng(0)
    looks = np.unique(np.geomspace(10, 20_000, 60).astype(np.int64))
    wrong = {}
    for exact in (False, True):
        seen = np.cumsum(random.binomial(np.diff(looks, prepend=0), 0.3, (200, len(looks))), axis=1)
        low, high = bounds(seen, np.broadcast_to(looks, seen.shape), DELTA, exact=exact)
        wrong[exact] = int(((low > 0.3) | (high < 0.3)).any(axis=1).sum())
    assert wrong[False] <= binom.isf(RARE, 200, DELTA)
    assert wrong[True] > binom.isf(RARE, 200, DELTA)


@pytest.mark.parametrize("kind", ["product", "shared"])
def test_a_chain_that_stopped_by_its_counts_shows_the_bounds_that_stopped_it(kind: Any) -> None:
    chain = learn_chain(None, load_spec(example("census")), units=["age"], chain=kind, epsilon=0.03)
    assert chain.low is not None
    assert chain.high is not None
    assert chain.counts is not None
    learned = (chain.sources > 0) & (chain.targets != chain.sources)
    visits = np.bincount(chain.sources, chain.counts)[chain.sources]
    low, high = probability_any_time(chain.counts[learned], visits[learned], chain.metadata["delta"] / learned.sum())
    assert chain.low[learned] == pytest.approx(low, abs=1e-12)
    assert chain.high[learned] == pytest.approx(high, abs=1e-12)
    assert (chain.high - chain.probabilities)[learned].max() <= 0.03
    assert (chain.probabilities - chain.low)[learned].max() <= 0.03


@dataclass(frozen=True)
class Rows:
    values: NDArray[np.float64]
    source: str = "people.csv"


NODES = [
    {"name": "age", "parents": ["sex"], "probabilities": {"Female": [0.1] * 10, "Male": [0.1] * 10}},
    {"name": "sex", "probabilities": [0.5, 0.5]},
]


def drawn(generator: np.random.Generator, count: int) -> dict[str, Any]:
    return {
        "age": generator.integers(0, 10, count),
        "sex": np.array(["Female", "Male"])[generator.integers(0, 2, count)],
    }


def asked(kind: str = "uniform", **more: Any) -> Spec:
    return parse_spec(question() | {"population": {"kind": kind, **more}})


@cache
def populations() -> dict[str, Any]:
    """One of each kind, all with a group for each sex."""
    rows = Rows(np.array([[age, sex] for age in range(10) for sex in range(2)], np.float64))
    plain = asked()
    groups = subgroups_of_groups(groups_of(plain))
    individual = question() | {"property": {"kind": "individual", "protected": ["sex"], "threshold": 0.1}}
    old = parse_predicate("age >= 2", plain.features)
    return {
        "uniform": build_population(plain, groups),
        "marginals": build_population(asked("marginals", path="people.csv"), groups, rows=rows),
        "network": build_population(asked("network", nodes=NODES), groups),
        "function": build_population(asked("callable"), groups, function=drawn),
        "rejection": build_population(plain, groups, predicate=old),
        "average": build_population(plain, [*groups, Subgroup("both", mixed=groups_of(plain))]),
        "intervened": build_population(parse_spec(individual), groups, predicate=old),
    }


@pytest.mark.parametrize("kind", ["uniform", "marginals", "network", "function", "rejection", "average", "intervened"])
def test_copies_of_a_chunk_are_drawn_apart_by_every_population(kind: str) -> None:
    """400 ages of ten values: two independent draws agree in about a tenth, and in half with a chance below 1e-60."""
    population = populations()[kind]
    ages = [population.rounds(3, 5, 400, copy=copy).show(0)[:, 0].copy() for copy in (0, 1, 2)]
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert (ages[one] == ages[two]).mean() < 0.5
