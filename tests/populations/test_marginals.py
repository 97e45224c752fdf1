"""Promises of `population.marginals`: every subgroup has the stated frequencies, restricted to it, and nothing else.

Each statistical test would fail for one seed in a million if what it promises held; the seeds are fixed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, kstest

from fairchain.errors import DataError, SpecError
from fairchain.populations import Scratch, UniformPopulation
from fairchain.populations.marginals import MarginalPopulation, marginal_shares
from fairchain.spec import Spec, parse_spec
from fairchain.spec.subgroups import Subgroup
from tests.questions import category, integer, question, real

RARE = 1e-6
SEX = category("sex", "Female", "Male")
JOB = category("job", "a", "b", "c", "d")
AGE = integer("age", 0, 9, groups={"young": [0, 3], "odd": {"values": [5, 9]}})
STATED = {
    "sex": {"Female": 0.25, "Male": 0.75},
    "job": {"a": 0.5, "c": 0.2, "d": 0.3},
    "age": [[0, 1, 0.4], [2, 9, 0.6]],
}

GOLDEN_ROWS = [[0.0, 1.0, 1.6397486860144435, 1.0, 0.0], [0.0, 1.0, 4.627074105011346, 1.0, 0.0]]
GOLDEN_HASH = "59f673f0805be5748fe4391b3c71320d04ad20f8f289635b7b6288f37cfbb1a5"


@dataclass(frozen=True)
class Rows:
    values: NDArray[np.float64]
    source: str = "people.csv"


def asked(
    *features: dict[str, Any], frequencies: dict[str, Any] | None = None, protected: list[str] | None = None
) -> Spec:
    return parse_spec(
        question(*features, protected=protected)
        | {"population": {"kind": "marginals", "path": "people.csv", "frequencies": frequencies or {}}}
    )


def stated(*features: dict[str, Any], protected: list[str] | None = None, **frequencies: Any) -> MarginalPopulation:
    return MarginalPopulation(asked(*features, frequencies=frequencies, protected=protected), dtype=np.float64)


def frequent(values: NDArray[Any], expected: dict[float, float]) -> bool:
    """Whether these are values of that law, as far as can be seen."""
    found, counts = np.unique(values, return_counts=True)
    likely = {value: share for value, share in expected.items() if share}
    if found.tolist() != sorted(likely):
        return False
    shares = np.array([likely[value] for value in found.tolist()])
    return len(found) == 1 or chisquare(counts, shares * len(values)).pvalue > RARE


def shares_of(column: NDArray[Any]) -> dict[float, float]:
    found, counts = np.unique(column, return_counts=True)
    return dict(zip(found.tolist(), (counts / len(column)).tolist(), strict=True))


def people(count: int = 500) -> Rows:
    """Rows in which the features depend on each other, which independent marginals must forget."""
    rng = np.random.default_rng(1)
    job = rng.choice(4, count, p=[0.1, 0.4, 0.2, 0.3])
    return Rows(np.stack([job, np.minimum(9, job * 2 + rng.integers(0, 4, count)), job > 1], axis=1).astype(np.float64))


# ------------------------------------------------------------------------------------------------------- the draws
def test_the_draws_of_a_chunk_are_pinned() -> None:
    """Certificates are checked by drawing again: a change here would make every one of them uncheckable."""
    features = [JOB, AGE, real("x", 0, 5), category("town", "p", "q", "r"), SEX]
    uneven = {"x": [[0, 1, 0.5], [1, 5, 0.5]], "town": {"p": 0.123457, "q": 0.654321, "r": 0.222222}}
    drawn = stated(*features, protected=["age", "sex"], **uneven, **STATED)
    shown = drawn.rounds(42, 7, 100, copy=1).inputs(range(4))
    assert shown[:2].tolist() == GOLDEN_ROWS
    assert hashlib.sha256(shown.astype("<f8").tobytes()).hexdigest() == GOLDEN_HASH


def test_stated_categories_have_their_shares() -> None:
    drawn = stated(JOB, SEX, **{key: STATED[key] for key in ("job", "sex")})
    shown = drawn.rounds(1, 1, 20_000).show(0)
    assert frequent(shown[:, 0], {0: 0.5, 1: 0, 2: 0.2, 3: 0.3})


def test_shares_with_six_decimals_are_drawn_as_they_are() -> None:
    shares = {"a": 0.100003, "b": 0.400001, "c": 0.299999, "d": 0.199997}
    drawn = stated(JOB, SEX, job=shares)
    shown = drawn.rounds(1, 1, 40_000).show(0)
    assert frequent(shown[:, 0], dict(enumerate(shares.values())))


@pytest.mark.parametrize(
    "pieces", [[[0, 1, 0.4], [2, 9, 0.6]], [[0, 2, 0.123457], [3, 9, 0.876543]], {"3": 0.25, "9": 0.25, "0": 0.5}]
)
def test_integers_have_the_shares_of_their_values_or_pieces(pieces: Any) -> None:
    if isinstance(pieces, dict):
        expected = {float(key): share for key, share in pieces.items()}
    else:
        expected = {k: share / (high - low + 1) for low, high, share in pieces for k in range(low, high + 1)}
    shown = stated(integer("k", 0, 9), SEX, k=pieces).rounds(2, 2, 40_000).show(0)
    assert frequent(shown[:, 0], expected)


def test_wide_pieces_of_integers_are_uniform_inside() -> None:
    drawn = stated(integer("k", -(10**9), 10**9), SEX, k=[[-(10**9), -1, 0.3], [10, 10**9, 0.7]])
    values = drawn.rounds(2, 2, 40_000).show(0)[:, 0]
    assert frequent(values > 0, {0: 0.3, 1: 0.7})
    assert kstest((values[values > 0] - 10) / 10**9, "uniform").pvalue > RARE
    assert kstest(-values[values < 0] / 10**9, "uniform").pvalue > RARE
    assert frequent(values % 3, {0: 1 / 3, 1: 1 / 3, 2: 1 / 3})


def test_pieces_of_reals_are_uniform_inside() -> None:
    values = stated(real("x", 0, 10), SEX, x=[[5, 10, 0.2], [0, 1, 0.8]]).rounds(2, 2, 40_000).show(0)[:, 0]
    assert frequent(values > 1, {0: 0.8, 1: 0.2})
    assert kstest(values[values <= 1], "uniform").pvalue > RARE
    assert kstest((values[values > 1] - 5) / 5, "uniform").pvalue > RARE


def test_without_frequencies_and_without_a_table_a_feature_is_uniform() -> None:
    wide = integer("wide", 0, 2**31)
    drawn = stated(integer("k", 3, 9), real("x", -2, 5), wide, SEX, sex=STATED["sex"])
    shown = drawn.rounds(3, 3, 40_000).show(0)
    assert frequent(shown[:, 0], dict.fromkeys(range(3, 10), 1 / 7))
    assert kstest((shown[:, 1] + 2) / 7, "uniform").pvalue > RARE
    assert kstest(shown[:, 2] / 2**31, "uniform").pvalue > RARE


def test_a_table_gives_its_columns_frequencies() -> None:
    rows = people()
    drawn = MarginalPopulation(asked(JOB, AGE, SEX), None, rows, np.float64)
    shown = drawn.rounds(1, 1, 40_000).show(0)
    assert frequent(shown[:, 0], shares_of(rows.values[:, 0]))
    assert frequent(shown[:, 1], shares_of(rows.values[:, 1]))


def test_a_large_table_is_drawn_with_its_frequencies() -> None:
    rng = np.random.default_rng(2)
    rows = Rows(np.stack([rng.choice(4, 70_001), rng.choice(10, 70_001), rng.choice(2, 70_001)], 1).astype(np.float64))
    drawn = MarginalPopulation(asked(JOB, AGE, SEX), None, rows, np.float64)
    shown = drawn.rounds(1, 1, 40_000).show(0)
    assert frequent(shown[:, 0], shares_of(rows.values[:, 0]))
    assert frequent(shown[:, 1], shares_of(rows.values[:, 1]))


def test_a_real_column_is_drawn_from_its_own_numbers() -> None:
    rng = np.random.default_rng(3)
    rows = Rows(np.stack([np.round(rng.normal(0, 1, 300), 2), rng.choice(2, 300)], axis=1))
    drawn = MarginalPopulation(asked(real("x", -9, 9), SEX), None, rows, np.float64)
    assert frequent(drawn.rounds(1, 1, 100_000).show(0)[:, 0], shares_of(rows.values[:, 0]))


def test_stated_frequencies_come_before_those_of_the_table() -> None:
    rows = people()
    drawn = MarginalPopulation(asked(JOB, AGE, SEX, frequencies={"job": STATED["job"]}), None, rows, np.float64)
    shown = drawn.rounds(1, 1, 20_000).show(0)
    assert frequent(shown[:, 0], {0: 0.5, 2: 0.2, 3: 0.3})
    assert frequent(shown[:, 1], shares_of(rows.values[:, 1]))


def test_columns_are_independent_although_those_of_the_table_are_not() -> None:
    """The correlation of 40,000 independent pairs exceeds 5 standard deviations once in 1.7 million."""
    shown = MarginalPopulation(asked(JOB, AGE, SEX), [Subgroup("everybody")], people()).rounds(1, 1, 40_000).show(0)
    assert np.abs(np.corrcoef(shown.T) - np.eye(3)).max() < 5 / np.sqrt(40_000)


# -------------------------------------------------------------------------------------------------------- the subgroups
def conditional(column: NDArray[Any], members: Sequence[float]) -> dict[float, float]:
    return shares_of(column[np.isin(column, members)])


def test_each_subgroup_has_the_law_given_its_group_and_everybody_the_whole() -> None:
    rows = people()
    groups = {"low": ["a", "b"], "high": ["c", "d"]}
    one = asked(category("job", "a", "b", "c", "d", groups=groups), AGE, SEX, protected=["job", "age"])
    named = MarginalPopulation(one, None, rows).subgroups
    drawn = MarginalPopulation(one, [*named, Subgroup("everybody")], rows, np.float64)
    rounds = drawn.rounds(4, 4, 40_000)
    for subgroup, (jobs, ages) in enumerate(
        [*product([[0, 1], [2, 3]], [[0, 1, 2, 3], [5, 9]]), (range(4), range(10))]
    ):
        shown = rounds.show(subgroup)
        job, age = (conditional(rows.values[:, place], list(part)) for place, part in enumerate((jobs, ages)))
        joint = {10 * i + j: p * q for (i, p), (j, q) in product(job.items(), age.items())}
        assert frequent(shown[:, 0] * 10 + shown[:, 1], joint)
        assert frequent(shown[:, 2], shares_of(rows.values[:, 2]))


def test_a_group_that_cuts_stated_pieces_has_the_law_given_the_group() -> None:
    k = integer("k", 0, 99, groups={"few": {"values": [2, 50, 99]}, "mid": [5, 40], "last": [60, 98]})
    pieces = [[0, 12, 0.123457], [13, 29, 0.3], [30, 99, 0.576543]]
    whole = {n: share / (high - low + 1) for low, high, share in pieces for n in range(low, high + 1)}
    rounds = stated(k, SEX, k=pieces, protected=["k"]).rounds(5, 5, 40_000)
    for subgroup, members in enumerate([[2, 50, 99], range(5, 41), range(60, 99)]):
        mass = sum(whole[n] for n in members)
        assert frequent(rounds.show(subgroup)[:, 0], {n: whole[n] / mass for n in members})


def test_a_real_group_that_cuts_stated_pieces_has_the_law_given_the_group() -> None:
    x = real("x", 0, 10, groups={"low": [0.5, 3], "high": [3, 10]})
    drawn = stated(x, SEX, x=[[0, 1, 0.5], [2, 4, 0.5]], protected=["x"])
    assert drawn.shares() == (0.5, 0.25)
    low, high = (drawn.rounds(5, 5, 40_000).show(subgroup).copy()[:, 0] for subgroup in (0, 1))
    assert frequent(low > 1, {0: 0.5, 1: 0.5})
    assert kstest((low[low > 1] - 2), "uniform").pvalue > RARE
    assert kstest((low[low <= 1] - 0.5) * 2, "uniform").pvalue > RARE
    assert kstest(high - 3, "uniform").pvalue > RARE


def test_only_protected_columns_differ_and_subgroups_keep_their_order() -> None:
    """By inverse CDF from the same words, the person who is high among the young is high among the old."""
    rows = people()
    drawn = MarginalPopulation(
        asked(JOB, integer("age", 0, 9, groups={"young": [0, 3], "old": [4, 9]}), SEX, protected=["age"]),
        None,
        rows,
        np.float64,
    )
    young, old = drawn.rounds(1, 2, 3000).inputs([0, 1]).reshape(2, 3000, 3)
    assert np.array_equal(young[:, [0, 2]], old[:, [0, 2]])
    order = np.lexsort((old[:, 1], young[:, 1]))
    assert (np.diff(old[order, 1]) >= 0).all()


def test_neither_the_other_subgroups_nor_their_order_change_what_an_subgroup_may_show() -> None:
    """Coupled or alone, a subgroup's distribution is the same; here even its draws are."""
    rows, one = people(), asked(JOB, AGE, SEX, protected=["age", "sex"])
    every = MarginalPopulation(one, None, rows, np.float64)
    shown = every.rounds(8, 8, 2000).inputs(range(4)).reshape(4, 2000, 3)
    for subgroup in range(4):
        alone = MarginalPopulation(one, [every.subgroups[subgroup]], rows, np.float64)
        assert np.array_equal(alone.rounds(8, 8, 2000).show(0), shown[subgroup])
    assert np.array_equal(every.rounds(8, 8, 2000).inputs([3, 1]).reshape(2, 2000, 3), shown[[3, 1]])


def test_the_same_chunk_is_the_same_bytes_whatever_was_drawn_before_and_by_whom() -> None:
    one = asked(JOB, AGE, SEX, protected=["age", "sex"])
    fresh = MarginalPopulation(one, None, people()).rounds(5, 3, 500).inputs(range(4)).tobytes()
    used = MarginalPopulation(one, None, people())
    scratch = Scratch()
    for count in (7, 9000, 1):
        used.rounds(5, 3, count, scratch=scratch).show(2)
    assert used.rounds(5, 3, 500, scratch=scratch).inputs(range(4)).tobytes() == fresh
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda _: used.rounds(5, 3, 500).inputs(range(4)).tobytes(), range(8)))
    assert set(again) == {fresh}
    others = [used.rounds(*where).inputs(range(4)).tobytes() for where in ((6, 3, 500), (5, 4, 500), (5, 3, 500, 1))]
    assert len({fresh, *others}) == 4


def test_single_precision_is_the_double_precision_rounded() -> None:
    one = asked(real("x", 0, 10), AGE, SEX, frequencies={"x": [[0, 1, 0.5], [2, 4, 0.5]]})
    single, double = (MarginalPopulation(one, dtype=kind).rounds(2, 2, 500).inputs([0, 1]) for kind in ("f4", "f8"))
    assert np.array_equal(single, double.astype(np.float32))


def test_uniform_frequencies_are_the_uniform_law() -> None:
    one = asked(JOB, SEX, frequencies={"sex": {"Female": 0.5, "Male": 0.5}})
    uniform = UniformPopulation(one, dtype=np.float64).rounds(1, 1, 300).inputs([0, 1])
    assert np.array_equal(MarginalPopulation(one, dtype=np.float64).rounds(1, 1, 300).inputs([0, 1]), uniform)


# ------------------------------------------------------------------------------------------------ shares and words
def test_shares_are_those_of_the_rows() -> None:
    rows, one = people(), asked(JOB, AGE, SEX, protected=["age", "sex"])
    drawn = MarginalPopulation(one, None, rows)
    young, male = np.isin(rows.values[:, 1], [0, 1, 2, 3]).mean(), rows.values[:, 2].mean()
    assert drawn.shares()[1] == pytest.approx(young * male, rel=1e-15)
    assert MarginalPopulation(one, [Subgroup("everybody")], rows).shares() == (1.0,)


def test_shares_can_be_asked_for_before_empty_groups_are_left_out() -> None:
    rows = Rows(np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]))
    one = asked(JOB, SEX, protected=["job"])
    subgroups = [
        Subgroup(f"job={name}", group) for name, group in zip("abcd", UniformPopulation(one).groups, strict=True)
    ]
    assert marginal_shares(one, subgroups, rows) == (0.5, 0.5, 0.0, 0.0)
    uniform = parse_spec(question(JOB, SEX, protected=["job"]))
    assert marginal_shares(uniform, subgroups, None) == (0.25,) * 4


def test_the_phrase_says_whose_frequencies_they_are() -> None:
    rows, some = people(), {"job": STATED["job"]}
    every = {key: STATED[key] for key in ("job", "age", "sex")}
    phrases = {
        "independent features with the frequencies of the 500 rows of people.csv": (None, rows),
        "independent features with the stated frequencies": (every, None),
        "independent features with the stated frequencies of job, the others uniform over their ranges": (some, None),
        "independent features with the stated frequencies of job, the others with those of the 500 rows of "
        "people.csv": (some, rows),
    }
    for phrase, (frequencies, table) in phrases.items():
        assert str(MarginalPopulation(asked(JOB, AGE, SEX, frequencies=frequencies), None, table)) == phrase


# -------------------------------------------------------------------------------------------------------- mistakes
@pytest.mark.parametrize(
    ("frequencies", "words"),
    [
        ({"sexx": {"Female": 1.0}}, ['population.frequencies: unknown feature "sexx"', 'did you mean "sex"']),
        ({"sex": {"Femal": 1.0}}, ["population.frequencies.sex", '"Femal"', 'did you mean "Female"']),
        ({"sex": {"Female": 0.5}}, ["population.frequencies.sex", "sum to 0.5", "sum to 1"]),
        ({"sex": {"Female": 0.5, "Male": 0.500003}}, ["population.frequencies.sex", "1.000003"]),
        ({"sex": {"Female": -0.5, "Male": 1.5}}, ["population.frequencies.sex.Female", "-0.5", "between 0 and 1"]),
        ({"sex": {"Female": float("nan"), "Male": 0.5}}, ["population.frequencies.sex.Female", "nan"]),
        ({"sex": {"Female": 1e-9, "Male": 1.0}}, ["population.frequencies.sex.Female", "six decimals", "1e-09"]),
        ({"sex": {}}, ["population.frequencies.sex", "sum to 0"]),
        ({"sex": [[0, 1, 1.0]]}, ["population.frequencies.sex", "pieces are for numbers", '"Female" = 0.5']),
        ({"x": {"1": 1.0}}, ["population.frequencies.x", "write pieces"]),
        ({"x": [[0, 11, 1.0]]}, ["population.frequencies.x", "[0, 11, 1]", "range [0, 10]"]),
        ({"x": [[3, 3, 1.0]]}, ["population.frequencies.x", "no numbers between"]),
        ({"x": [[float("nan"), 3, 1.0]]}, ["population.frequencies.x", "finite"]),
        ({"x": [[0, 3, 0.5], [2, 5, 0.5]]}, ["population.frequencies.x", "[0, 3, 0.5] and [2, 5, 0.5] overlap"]),
        ({"age": [[0, 3, 0.5], [3, 5, 0.5]]}, ["population.frequencies.age", "overlap"]),
        ({"age": [[0, 3.5, 1.0]]}, ["population.frequencies.age", "whole numbers"]),
        ({"age": [[5, 3, 1.0]]}, ["population.frequencies.age", "no numbers between"]),
        ({"age": {"12": 1.0}}, ["population.frequencies.age", '"12"', "range [0, 9]"]),
        ({"age": {"old": 1.0}}, ["population.frequencies.age", '"old"', "whole number"]),
        ({"age": {"1": 0.5, "01": 0.5}}, ["population.frequencies.age", "occurs twice"]),
        ({"sex": {"Female": 1.0, "Male": 0.0}}, ['group "sex=Male" has share 0', "population.frequencies.sex"]),
        ({}, ["population", "path = ...", "frequencies ="]),
    ],
)
def test_frequencies_that_cannot_be_meant(frequencies: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        MarginalPopulation(asked(real("x", 0, 10), integer("age", 0, 9), SEX, frequencies=frequencies))
    for word in words:
        assert word in str(caught.value)


def test_thirds_to_six_decimals_are_thirds() -> None:
    drawn = stated(category("job", "a", "b", "c"), SEX, job=dict.fromkeys("abc", 0.333333))
    assert drawn.rounds(0, 0, 6).inputs([0]).shape == (6, 2)
    assert stated(category("job", "a", "b", "c"), job=dict.fromkeys("abc", 0.333333)).shares() == (1 / 3,) * 3


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.zeros((40, 2)), ["people.csv", "0 of 40 rows", '"sex=Male"', '"sex"']),
        (np.zeros((0, 2)), ["people.csv", "no rows"]),
        (np.array([[0, 1], [np.nan, 0]]), ["people.csv", "1 of 2 rows", '"job"', "missing = ..."]),
    ],
)
def test_tables_that_cannot_be_drawn_from(rows: NDArray[np.float64], words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        MarginalPopulation(asked(JOB, SEX), None, Rows(rows))
    for word in words:
        assert word in str(caught.value)
