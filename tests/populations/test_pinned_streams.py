"""Pins the first chunk of every population kind: equal seeds must give equal bytes in every version.

A kept certificate is rechecked by drawing its chunks again, so a changed hash here breaks certificates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fairchain.populations import build_population
from fairchain.populations.functions import Coupled
from fairchain.spec import comparison_of, parse_spec
from fairchain.spec.conditions import predicate_of
from tests.populations.towns import TOWN
from tests.questions import category, changed, integer, question, real
from tests.text.builders import question as text_question

SEX = category("sex", "Female", "Male")
AGE = integer("age", 0, 9, groups={"young": [0, 3], "rest": {"values": [4, 6, 7]}, "odd": {"values": [5, 9]}})
# Three of four words of `wide` are kept: the hash covers rejected words too.
FEATURES = (integer("wide", 0, 3 * 2**30 - 1), real("x", -1, 2), category("job", "a", "b", "c"), AGE, SEX)
STATED = {
    "wide": [[0, 9, 0.25], [1000, 2**31, 0.75]],
    "x": [[-1, 0, 0.3], [0.5, 2, 0.7]],
    "job": {"a": 0.123457, "b": 0.876543},
    "age": [[0, 1, 0.4], [2, 9, 0.6]],
}
TOWN_FEATURES = (
    category("job", "none", "some", "good"),
    category("race", "a", "b"),
    integer("hours", 0, 60),
    SEX,
)
NUMBERS = [
    {"name": "age", "mean": 5, "std": 2, "parents": ["sex"], "slopes": {}},
    {"name": "sex", "probabilities": [0.5, 0.5]},
]


@dataclass(frozen=True)
class Rows:
    values: NDArray[np.float64]
    source: str = "rows.csv"


def rows() -> Rows:
    """A table with few and many values, fractions and shares that no power of two divides."""
    number = np.arange(70_001)
    columns = [
        number % 7919,
        (number % 17) / 4 - 1,
        (number % 11 > 0) + (number % 70_000 == 0),
        number % 10,
        number % 3,
    ]
    return Rows(np.column_stack([*columns[:4], np.minimum(columns[4], 1)]).astype(np.float64))


def raw(rng: np.random.Generator, count: int, size: int) -> Any:
    """Return whole numbers from raw words: numpy promises only their stream to stay as it is."""
    return np.asarray(rng.bit_generator.random_raw(count) % np.uint64(size), np.float64)  # type: ignore[attr-defined]


def independent(rng: np.random.Generator, count: int, group: str | None) -> Any:
    return np.column_stack([raw(rng, count, 10), np.full(count, group == "sex=Male")])


def coupled(u: NDArray[np.float64], group: str | None) -> Any:
    return np.column_stack(
        [np.floor(10 * u[:, 0] ** (1 + (group == "sex=Male"))), np.full(len(u), group == "sex=Male")]
    )


def selected(rng: np.random.Generator, count: int) -> Any:
    return np.column_stack([raw(rng, count, 10), raw(rng, count, 2)])


SMALL = (integer("age"), SEX)
TABLES = {"kind": "network", "nodes": TOWN}
AGES = {"kind": "network", "nodes": NUMBERS}
MARGINALS = {"kind": "marginals", "path": "rows.csv"}
CALLED = {"kind": "callable"}


def asked(
    *features: dict[str, Any], protected: list[str] | None = None, population: Any = None, **asked: Any
) -> dict[str, Any]:
    data = question(*features, protected=protected)
    for key, value in asked.items():
        data = changed(data, f"property.{key}", value)
    return data if population is None else data | {"population": population}


KINDS: dict[str, tuple[Callable[[], dict[str, Any]], dict[str, Any]]] = {
    "uniform": (lambda: asked(*FEATURES, protected=["sex", "age"]), {}),
    "uniform, overall": (lambda: asked(*FEATURES, protected=["age"], compare="overall"), {}),
    "uniform, average": (lambda: asked(*FEATURES, protected=["age"], compare="average"), {}),
    "uniform, given": (lambda: asked(*FEATURES, protected=["sex"], given="x < 0.5 and age > 2"), {}),
    "uniform, individual": (lambda: asked(*FEATURES, protected=["age"], kind="individual"), {}),
    "stated": (
        lambda: asked(*FEATURES, protected=["age"], compare="overall", population=MARGINALS | {"frequencies": STATED}),
        {},
    ),
    "table": (lambda: asked(*FEATURES, protected=["age", "sex"], population=MARGINALS), {"rows": rows}),
    "network": (lambda: asked(*TOWN_FEATURES, population=TABLES, compare="overall"), {}),
    "network, individual": (lambda: asked(*TOWN_FEATURES, population=TABLES, kind="individual"), {}),
    "network of numbers": (lambda: asked(SEX, AGE, population=AGES), {}),
    "function": (lambda: asked(*SMALL, population=CALLED), {"function": lambda: independent}),
    "coupled function": (lambda: asked(*SMALL, population=CALLED), {"function": lambda: Coupled(coupled, uniforms=1)}),
    "selected": (lambda: asked(*SMALL, population=CALLED, compare="overall"), {"function": lambda: selected}),
}
TEXTS = {
    "texts": {},
    "texts, replaced": {"replace": 2, "synonyms": "vectors", "neighbours": 2},
    "texts, swapped": {"as": "swapped", "replace": 1, "synonyms": "vectors", "neighbours": 2},
}
PINNED = {
    "uniform": "355a109f344fb158",
    "uniform, overall": "4ec2fad3cf8a0905",
    "uniform, average": "24242c0b206890df",
    "uniform, given": "5206dc3eeea13a04",
    "uniform, individual": "66b20690b1c98caa",
    "stated": "093fa737dbd2e65d",
    "table": "4a7127b2ec0a61fd",
    "network": "1c25afa7dcb0e09e",
    "network, individual": "980cb7d4c9c872d7",
    "network of numbers": "ebf2b4eb7af69dbf",
    "function": "14e8f7dec2552439",
    "coupled function": "9ee22b4068cca727",
    "selected": "f819427429fc819f",
    "texts": "d67e3505e67044b0",
    "texts, replaced": "dc2712234bb41e75",
    "texts, swapped": "d61cd9352319cd08",
}


def first_chunk(data: dict[str, Any], **given: Any) -> str:
    """Return the hash of the first chunk, shown as every subgroup, and of an independent copy of one subgroup."""
    spec = parse_spec(data)
    population = build_population(
        spec, comparison_of(spec).subgroups, np.float64, predicate=predicate_of(spec), **given
    )
    every = range(len(comparison_of(spec).subgroups))
    found = hashlib.sha256(population.rounds(7, 0, 3000).inputs(every).tobytes())
    found.update(population.rounds(7, 0, 500, copy=2, subgroups=[1]).inputs([1]).tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_chunk_is_pinned(kind: str) -> None:
    data, given = KINDS[kind]
    assert first_chunk(data(), **{name: make() for name, make in given.items()}) == PINNED[kind]


@pytest.mark.parametrize("kind", TEXTS)
def test_the_first_chunk_of_texts_is_pinned(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    assert first_chunk(text_question(tmp_path, **TEXTS[kind])) == PINNED[kind]
