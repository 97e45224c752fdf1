"""Finite spaces have the weights of their populations: summing out, merging and conditioning are exact."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from fairchain.populations import build_population, finite
from fairchain.populations.finite import Factor, FiniteSpace, TooManyCellsError, whole_weights
from fairchain.spec import parse_spec
from fairchain.spec.subgroups import OVERALL, Subgroup
from tests.questions import category, integer, question, real


def weight(space: FiniteSpace, indices: tuple[int, ...]) -> int:
    """The product of all factors at one input, in the plainest way."""
    found = 1
    for factor in space.factors:
        found *= int(factor.weights[tuple(indices[column] for column in factor.columns)])
    return found


def weights(space: FiniteSpace) -> dict[tuple[int, ...], int]:
    return {indices: weight(space, indices) for indices in product(*map(range, space.sizes))}


def mass(space: FiniteSpace) -> int:
    return int(space.marginal(space.factors, ()).item())


def random_space(rng: np.random.Generator) -> FiniteSpace:
    sizes = rng.integers(1, 4, 4).tolist()
    factors = []
    for columns in ((0,), (1, 0), (2, 1), (3, 1, 2)):
        shape = [sizes[column] for column in columns]
        factors.append(Factor(columns, rng.integers(0, 5, shape).astype(object)))
    return FiniteSpace(tuple(np.arange(float(size)) for size in sizes), tuple(factors))


@pytest.mark.parametrize("seed", range(30))
def test_sums_over_columns_are_those_of_all_inputs(seed: int) -> None:
    space = random_space(np.random.default_rng(seed))
    every = weights(space)
    assert mass(space) == sum(every.values())
    by_two = space.marginal(space.factors, (3, 0))
    for one, other in np.ndindex(by_two.shape):
        assert by_two[one, other] == sum(each for at, each in every.items() if (at[3], at[0]) == (one, other))


@pytest.mark.parametrize("seed", range(30))
def test_merging_and_conditioning_keep_every_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = random_space(rng)
    every = weights(space)
    column = int(rng.integers(4))
    assert mass(space.merged(column)) == mass(space)
    classes = [0, *np.sort(rng.integers(0, 2, space.sizes[column] - 1)).tolist()]
    merged = space.merged(column, classes)
    for at, each in weights(merged).items():
        inside = [i for i, number in enumerate(classes) if number == at[column]]
        assert each == sum(every[(*at[:column], i, *at[column + 1 :])] for i in inside)
    given = space.where([0, 2], lambda rows: rows[:, 0] <= rows[:, 2])
    assert mass(given) == sum(each for at, each in every.items() if at[0] <= at[2])


def drawn_space(data: dict[str, Any], cuts: dict[int, list[float]] | None = None) -> FiniteSpace | None:
    spec = parse_spec(data)
    return build_population(spec, [Subgroup(OVERALL)]).finite_space(cuts or {})


def test_latent_nodes_are_summed_out_and_rows_are_divided_by_their_sums() -> None:
    nodes = [
        {"name": "z", "values": ["p", "q"], "probabilities": [0.3, 0.7]},
        {"name": "sex", "parents": ["z"], "probabilities": {"p": [0.1, 0.9], "q": [0.4, 0.6]}},
        {
            "name": "b",
            "parents": ["sex", "z"],
            "probabilities": {
                "F, p": [0.2, 0.3, 0.5],
                "F, q": [0.1, 0.1, 0.8],
                "M, p": [1 / 3, 1 / 3, 1 / 3],
                "M, q": [0.0, 0.5, 0.5],
            },
        },
    ]
    data = question(integer("b", 0, 2), category("sex", "F", "M")) | {"population": {"kind": "network", "nodes": nodes}}
    space = drawn_space(data)
    assert space is not None
    z = [Fraction(3, 10), Fraction(7, 10)]
    sex = [[Fraction(1, 10), Fraction(9, 10)], [Fraction(4, 10), Fraction(6, 10)]]
    b = {
        (0, 0): [Fraction(each, 10) for each in (2, 3, 5)],
        (0, 1): [Fraction(each, 10) for each in (1, 1, 8)],
        (1, 0): [Fraction(1, 3)] * 3,
        (1, 1): [Fraction(each, 10) for each in (0, 5, 5)],
    }
    total = mass(space)
    for hours, person in product(range(3), range(2)):
        exact = sum(z[k] * sex[k][person] * b[person, k][hours] for k in range(2))
        assert Fraction(weight(space, (hours, person)), total) == exact


def test_intervals_of_a_real_feature_have_their_exact_shares() -> None:
    pieces = [[0.0, 1.0, 0.25], [1.0, 4.0, 0.75]]
    data = question(real("x", 0.0, 4.0), category("sex", "F", "M"))
    data["population"] = {"kind": "marginals", "frequencies": {"x": pieces}}
    assert drawn_space(data) is None
    space = drawn_space(data, {0: [0.5, 2.0, 9.0]})
    assert space is not None
    assert space.values[0].tolist() == [0.25, 1.25, 3.0]
    total = mass(space)
    shares = [Fraction(2 * weight(space, (cell, 0)), total) for cell in range(3)]
    assert shares == [Fraction(1, 8), Fraction(1, 8) + Fraction(1, 4), Fraction(1, 2)]


def test_a_normal_node_cannot_be_listed_unless_nothing_looks_at_it() -> None:
    nodes = [{"name": "sex", "probabilities": [0.5, 0.5]}, {"name": "x", "mean": 0.5, "std": 0.1}]
    data = question(real("x"), category("sex", "F", "M")) | {"population": {"kind": "network", "nodes": nodes}}
    assert drawn_space(data) is None
    space = drawn_space(data, {0: []})
    assert space is not None
    assert space.sizes == (1, 2)


def test_a_product_with_too_many_cells_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finite, "MOST_FACTOR_CELLS", 10)
    space = random_space(np.random.default_rng(3))
    wide = FiniteSpace(
        tuple(np.arange(4.0) for _ in space.values),
        (Factor((0, 1), np.ones((4, 4), object)), Factor((1, 2), np.ones((4, 4), object))),
    )
    with pytest.raises(TooManyCellsError):
        wide.merged(1)


def test_whole_weights_are_the_smallest_ones() -> None:
    assert whole_weights([Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)]).tolist() == [1, 2, 3]
    assert whole_weights([Fraction(2, 7), Fraction(2, 7)]).tolist() == [1, 1]
