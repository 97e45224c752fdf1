"""Labelled rows for a repair: read like people of a table, and divided into those to search on and those kept aside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.errors import DataError, SpecError
from fairchain.repairing.evaluation import LabelledRows
from fairchain.repairing.seeds import SPLIT, derived_seed
from fairchain.spec import CategoryFeature, Marginals, Spec, Table, TextFeature
from fairchain.tables import encode_rows, read_table
from fairchain.tables.encoding import label_values
from fairchain.tables.read import RawTable

# Fewer rows than this on either side say nothing about accuracy.
LEAST_ROWS = 20
# LabelledRows that a candidate is tried on, at most.
MOST_SEARCHED = 8192


def labelled_rows(source: Any, spec: Spec, label: str | None) -> LabelledRows:
    """The rows of a table with their true labels; rows with a missing value are left out.

    Categories are found by their names or, where a table has none of them, by their numbers.
    """
    population = spec.population
    column = label or (population.label if isinstance(population, Table) else None) or "label"
    rows = Table(reading="population", label=column, drop_missing=True)
    if isinstance(population, Table | Marginals):
        rows = replace(rows, na_values=population.na_values)
    asked = replace(spec, population=rows)
    table = read_table(source)
    if spec.text is not None:
        return _texts(table, asked, spec.text, column)
    try:
        people = encode_rows(table, asked)
    except DataError as error:
        try:
            people = encode_rows(table, _by_number(asked))
        except (DataError, SpecError):
            raise error from None
    assert people.truth is not None
    return LabelledRows(people.values, people.truth)


def _texts(table: RawTable, spec: Spec, feature: TextFeature, column: str) -> LabelledRows:
    """Texts as the network reads them; those without a label or a known word are left out."""
    from fairchain.text import lexicon_of, tokenise

    lexicon = lexicon_of(feature)
    population = spec.population
    assert isinstance(population, Table)
    truth = label_values(table, "label", column, spec.model, population.na_values)
    values = np.zeros((table.count, feature.length), np.int32)
    for row, text in zip(values, table.texts(feature.name), strict=True):
        known = lexicon.ids(tokenise(text or ""))[: feature.length]
        row[: len(known)] = known
    kept = np.flatnonzero((truth >= 0) & values.any(axis=1))
    if not len(kept):
        raise DataError(f"{table.source}: no text with a label and a known word; nothing to keep the accuracy of")
    return LabelledRows(values[kept], truth[kept])


def _by_number(spec: Spec) -> Spec:
    """The same features for a table of encoded values, which has numbers in place of the names of categories."""
    described = tuple(
        replace(each, aliases=tuple(range(len(each.values)))) if isinstance(each, CategoryFeature) else each
        for each in spec.described
    )
    return replace(spec, described=described)


def divided(rows: LabelledRows, seed: int) -> tuple[LabelledRows, LabelledRows]:
    """Half of the rows to search on and half kept aside, by chance; each row of the table is on one side only.

    LabelledRows that are equal may come to stand on both sides, as people who are alike do: with all of them on one
    side those
    kept aside would no longer be a sample of where the rows come from.
    """
    if len(rows) < 2 * LEAST_ROWS:
        raise DataError(
            f"{len(rows):,} labelled rows are too few to search on one half and judge on the other; "
            f"give at least {2 * LEAST_ROWS}, or none, and agreement with the original network is kept instead"
        )
    mixed = shuffled(rows, seed)
    half = np.arange(len(rows) // 2)
    return mixed.part(half), mixed.part(np.arange(len(half), len(rows)))


def in_common(one: LabelledRows, other: LabelledRows) -> int:
    """How many rows of the other stand in the first too, with the same label."""
    seen = set(_as_bytes(one))
    return sum(row in seen for row in _as_bytes(other))


def _as_bytes(rows: LabelledRows) -> Iterator[bytes]:
    return (row.tobytes() for row in np.column_stack([rows.values, rows.truth]))


def shuffled(rows: LabelledRows, seed: int) -> LabelledRows:
    """The rows in an order of chance: a file may be sorted, and only the first of them are searched on."""
    return rows.part(np.random.Generator(np.random.Philox(derived_seed(seed, SPLIT))).permutation(len(rows)))
