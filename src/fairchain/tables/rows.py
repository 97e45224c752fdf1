"""The rows of a table, encoded as the features of a spec."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import many
from fairchain.spec import CategoryFeature, Marginals, Spec, Table
from fairchain.tables.cell_values import feature_values, label_values, missing_cells, must_not_merge
from fairchain.tables.read import RawTable

NO_RECORDED_SCORES = (
    '{source}: column "{column}": decision = "score" reads recorded scores, and some cells are not finite numbers; fix '
    "them, or remove decision in [model] if the column has decisions"
)
POPULATION_IS_NOT_A_TABLE = (
    'population.kind: a table is given, but the population is of another kind; write kind = "table"'
)


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table, encoded as the features of a spec; all arrays are read-only.

    Parameters
    ----------
    values
        (rows, features) in the order of the spec: a category as the index of its value, a number in the user's units. A
        feature with stated frequencies is not read from the table; it is NaN here, like a missing value that is passed
        to the model (`keep_missing`).
    truth
        Index of each true label in `model.labels`, if the spec names a column with them.
    recorded
        Index of each recorded decision in `model.labels`, if the spec names a column with them.
    numbers
        Number of each row in the table; the first is 1, and a header does not count.
    dropped
        The number of rows that were left out because of a missing value.
    lacking
        The columns whose missing values are the reason.
    source
        The name of the table in messages.
    sha256
        Hash of everything above that affects a verdict, equal for equal rows from any file or frame: the ASCII text
        `fairchain people 1`, the numbers of rows and features as unsigned 64-bit integers, a byte each for the presence
        of truth and recorded, then values row by row as 64-bit floats (-0.0 is not 0.0), truth and recorded as signed
        16-bit integers; all little-endian.
    table
        The table, if it is a frame or a mapping of columns, not a file: row i of the arrays is its row `numbers[i] -
        1`.
    path
        The path of the file, if it is one.
    scores
        The recorded score of each row, if the spec's recorded decisions are scores.
    repeats
        The number of copies of each row, if the arrays contain only distinct rows; then the hash begins with `fairchain
        counted people 1` and ends with these numbers as 64-bit integers.
    """

    values: NDArray[Any]
    truth: NDArray[np.int16] | None
    recorded: NDArray[np.int16] | None
    numbers: NDArray[np.int64]
    dropped: int
    source: str
    sha256: str
    table: RawTable | None = field(default=None, repr=False)
    repeats: NDArray[np.int64] | None = field(default=None, repr=False)
    scores: NDArray[np.float64] | None = field(default=None, repr=False)
    path: Path | None = field(default=None, repr=False)
    lacking: tuple[str, ...] = field(default=(), repr=False)

    @property
    def count(self) -> int:
        """The number of rows of the table, including copies."""
        return len(self.values) if self.repeats is None else int(self.repeats.sum())

    def sizes(self, masks: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the number of rows of the table in each of these masks, (..., rows)."""
        if self.repeats is None:
            return np.asarray(np.count_nonzero(masks, axis=-1), np.int64)
        sums: NDArray[np.int64] = masks.astype(np.int64) @ self.repeats
        return sums


def encode_named_or_numbered(table: RawTable, spec: Spec) -> TableRows:
    """Encode rows other than the population: categories by their names or, if a table has none of them, by numbers.

    Raises
    ------
    DataError
        The problem with the names, if the numbers do not fit either.
    """
    try:
        return encode_rows(table, spec)
    except DataError as error:
        described = tuple(
            replace(each, aliases=tuple(range(len(each.values)))) if isinstance(each, CategoryFeature) else each
            for each in spec.described
        )
        try:
            return encode_rows(table, replace(spec, described=described))
        except (DataError, SpecError):
            raise error from None


def encode_rows(table: RawTable, spec: Spec, keep: Collection[str] | None = None) -> TableRows:
    """Encode the rows of a table as the features of a spec.

    Parameters
    ----------
    table
        A table from `read_table`.
    spec
        A spec with a population of kind table or marginals, which determines missing cells and whether such rows are
        left out.
    keep
        The features whose missing values are kept; by default those of the spec.

    Raises
    ------
    DataError
        For a missing column, a cell that is not a value of the feature, a number out of range, or a missing value: one
        message with the column, the first row and the remedy.
    SpecError
        If the spec's own keys about the table are invalid.
    """
    population = spec.population
    if not isinstance(population, Table | Marginals):
        raise SpecError(POPULATION_IS_NOT_A_TABLE)
    stated = population.frequencies if isinstance(population, Marginals) else {}
    kept_missing = _given_to_the_model(spec) if keep is None else keep
    gone = np.zeros(table.count, bool)
    lacking: list[str] = []

    values = np.empty((table.count, len(spec.features)), np.float64)
    for place, feature in enumerate(spec.features):
        if feature.name in stated:
            values[:, place] = np.nan
            continue
        values[:, place] = column = feature_values(table, feature, population.na_values)
        if feature.model_input and not (isinstance(population, Table) and population.prediction):
            must_not_merge(table, feature)
        missing = np.isnan(column)
        if feature.name in kept_missing:
            continue
        if missing.any() and not population.drop_missing:
            raise missing_cells(table, feature.column or feature.name, missing, feature)
        if missing.any():
            gone |= missing
            lacking.append(feature.column or feature.name)
    truth, recorded = (_labels(table, spec, key, gone, lacking) for key in ("label", "prediction"))
    dropped, repeats = int(gone.sum()), table.repeats
    if dropped == table.count:
        raise DataError(
            f"{table.source}: all of {many(table.count, 'row')} lack a value that is used; state missing = ... in "
            "the features that they lack, or fix the table"
        )
    kept = np.flatnonzero(~gone)
    if dropped:
        values = values[kept]
        truth = None if truth is None else truth[kept]
        recorded = None if recorded is None else recorded[kept]
    if repeats is not None:
        dropped, repeats = int(repeats[gone].sum()), repeats[kept]
    numbers = kept + 1
    for array in (values, truth, recorded, numbers):
        if array is not None:
            array.flags.writeable = False
    sha256 = _digest(values, truth, recorded, repeats)
    kept_table = None if table.frame is None else table
    scores = recorded_scores(table, spec)
    scores = None if scores is None else scores[kept]
    return TableRows(
        values,
        truth,
        recorded,
        numbers,
        dropped,
        table.source,
        sha256,
        kept_table,
        repeats,
        scores,
        table.path,
        tuple(lacking),
    )


def _digest(
    values: NDArray[np.float64],
    truth: NDArray[np.int16] | None,
    recorded: NDArray[np.int16] | None,
    repeats: NDArray[np.int64] | None,
) -> str:
    """Return the hash of rows (see `TableRows`)."""
    digest = hashlib.sha256(b"fairchain people 1" if repeats is None else b"fairchain counted people 1")
    digest.update(struct.pack("<QQ??", *values.shape, truth is not None, recorded is not None))
    digest.update(values.astype("<f8", copy=False).data)
    for labels in (truth, recorded):
        if labels is not None:
            digest.update(labels.astype("<i2", copy=False).data)
    if repeats is not None:
        digest.update(repeats.astype("<i8").data)
    return digest.hexdigest()


def _given_to_the_model(spec: Spec) -> set[str]:
    """Return the features whose missing values are passed to the model: inputs that define no group and no
    condition.
    """
    if not isinstance(spec.population, Table) or not spec.population.keep_missing:
        return set()
    used = set(spec.protected)
    if spec.property.given is not None:
        from fairchain.spec.conditions import parse_predicate

        used.update(parse_predicate(spec.property.given, spec.features).names)
    return {feature.name for feature in spec.features if feature.model_input} - used


def recorded_scores(table: RawTable, spec: Spec) -> NDArray[np.float64] | None:
    """Return the scores in the column of recorded decisions, NaN if one is missing; None if it has decisions."""
    population = spec.population
    name = population.prediction if isinstance(population, Table) else None
    if name is None or not isinstance(population, Table) or spec.model.decision != "score":
        return None
    scores = table.numeric(name, population.na_values)
    if scores is None or not np.isfinite(scores[~np.isnan(scores)]).all():
        raise DataError(NO_RECORDED_SCORES.format(source=table.source, column=name))
    return scores


def _labels(
    table: RawTable, spec: Spec, key: str, gone: NDArray[np.bool_], lacking: list[str]
) -> NDArray[np.int16] | None:
    """Return the labels in the column that the spec names under this key.

    Rows without one are added to `gone`, and then the column to `lacking`.
    """
    population = spec.population
    name = getattr(population, key) if isinstance(population, Table) else None
    if name is None or not isinstance(population, Table):
        return None
    scores = recorded_scores(table, spec) if key == "prediction" else None
    if scores is None:
        labels = label_values(table, key, name, spec.model, population.na_values)
    else:
        above = scores > float(spec.model.decision_threshold or 0.0)
        labels = np.where(np.isnan(scores), -1, above).astype(np.int16)
    missing = labels < 0
    if missing.any() and not population.drop_missing:
        raise missing_cells(table, name, missing, None)
    if missing.any():
        gone |= missing
        lacking.append(name)
    return labels
