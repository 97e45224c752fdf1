"""The rows of a table, encoded as the features of a spec.

Categories become their index and numbers stay in the user's units; a missing cell becomes the feature's `missing`, or
NaN. An invalid cell raises one DataError that names the column, the first row and the remedy.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import many, near, shown
from fairchain.spec import (
    CategoryFeature,
    Feature,
    IntegerFeature,
    Marginals,
    ModelSpec,
    RealFeature,
    Spec,
    Table,
    Texts,
)
from fairchain.tables.columns import Column, TextCells, number_text, numbers_in, plain_text
from fairchain.tables.read import RawTable

MISSING, UNSEEN, UNCLEAR = -1, -2, -3
TYPES_MERGED = (
    "the cells {cells} have different types but are one value of the spec, and the model may distinguish them; "
    "write them alike"
)
CODES_NEEDED = "state the table's name of each label, in the order of labels: codes = [...] in [model]"
NOT_A_LABEL = "{found} not one of model.labels{value} {known}; {remedy}"
LABEL_IS_ANOTHER_CODE = (
    "{found} a label and the code of another one; rename the labels in [model], so that no name is a code"
)
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

    Raises a DataError with the problem of the names, if the numbers do not fit either.
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
    """Encode the rows of a table as the features of a spec with a population of kind table or marginals.

    The missing values of the features in `keep` are kept; by default those that the spec passes to the model. Raises a
    DataError for a missing column, a cell that is not a value of the feature, a number out of range, or a missing
    value, with the column, the first row and the remedy; and a SpecError if the spec's own keys about the table are
    invalid.
    """
    population = spec.population
    if not isinstance(population, Table | Marginals):
        raise SpecError(POPULATION_IS_NOT_A_TABLE)
    stated = population.frequencies if isinstance(population, Marginals) else {}
    modelled = not (isinstance(population, Table) and population.prediction)
    kept_missing = _given_to_the_model(spec) if keep is None else keep
    gone, lacking = np.zeros(table.count, bool), list[str]()
    values = np.empty((table.count, len(spec.features)), np.float64)
    for place, feature in enumerate(spec.features):
        if feature.name in stated:
            values[:, place] = np.nan
            continue
        values[:, place] = column = feature_values(table, feature, population.na_values)
        if feature.model_input and modelled:
            must_not_merge(table, feature)
        name = feature.column or feature.name
        if feature.name not in kept_missing and leave_out(table, name, np.isnan(column), population, gone, feature):
            lacking.append(name)
    truth, _ = _labels(table, spec, "label", gone, lacking)
    recorded, scores = _labels(table, spec, "prediction", gone, lacking)
    dropped, repeats = int(gone.sum()), table.repeats
    if dropped == table.count:
        raise DataError(
            f"{table.source}: all of {many(table.count, 'row')} lack a value that is used; state missing = ... in "
            "the features that they lack, or fix the table"
        )
    kept = np.flatnonzero(~gone)
    if dropped:
        values = values[kept]
        truth, recorded = (None if labels is None else labels[kept] for labels in (truth, recorded))
        scores = None if scores is None else scores[kept]
    if repeats is not None:
        dropped, repeats = int(repeats[gone].sum()), repeats[kept]
    numbers = kept + 1
    for array in (values, truth, recorded, numbers):
        if array is not None:
            array.flags.writeable = False
    digest = hashlib.sha256(b"fairchain people 1" if repeats is None else b"fairchain counted people 1")
    digest.update(struct.pack("<QQ??", *values.shape, truth is not None, recorded is not None))
    for part, kind in ((values, "<f8"), (truth, "<i2"), (recorded, "<i2"), (repeats, "<i8")):
        if part is not None:
            digest.update(part.astype(kind, copy=False).data)
    return TableRows(
        values=values,
        truth=truth,
        recorded=recorded,
        numbers=numbers,
        dropped=dropped,
        source=table.source,
        sha256=digest.hexdigest(),
        table=None if table.frame is None else table,
        repeats=repeats,
        scores=scores,
        path=table.path,
        lacking=tuple(lacking),
    )


def _given_to_the_model(spec: Spec) -> set[str]:
    """Return the features whose missing values the model gets: inputs that define no group and no condition."""
    if not isinstance(spec.population, Table) or not spec.population.keep_missing:
        return set()
    from fairchain.spec.conditions import given_features

    return {each.name for each in spec.features if each.model_input}.difference(spec.protected, given_features(spec))


def _labels(
    table: RawTable, spec: Spec, key: str, gone: NDArray[np.bool_], lacking: list[str]
) -> tuple[NDArray[np.int16] | None, NDArray[np.float64] | None]:
    """Return the labels in the column that the spec names under this key, and the scores that they come from, if any.

    Rows without one are added to `gone`, and then the column to `lacking`.
    """
    population, scores = spec.population, None
    name = getattr(population, key) if isinstance(population, Table) else None
    if name is None or not isinstance(population, Table):
        return None, None
    if key == "prediction" and spec.model.decision == "score":
        scores = table.numeric(name, population.na_values)
        if scores is None or not np.isfinite(scores[~np.isnan(scores)]).all():
            raise DataError(NO_RECORDED_SCORES.format(source=table.source, column=name))
        above = scores > float(spec.model.decision_threshold or 0.0)
        labels = np.where(np.isnan(scores), -1, above).astype(np.int16)
    else:
        labels = label_values(table, key, name, spec.model, population.na_values)
    if leave_out(table, name, labels < 0, population, gone):
        lacking.append(name)
    return labels, scores


def feature_values(table: RawTable, feature: Feature, na_values: Sequence[str]) -> NDArray[np.float64]:
    """Return one feature of all rows; NaN if the cell is missing and the feature has no value for missing cells."""
    substitute, name = _substitute(feature), feature.column or feature.name
    cells = table.cells(name, f'state the table\'s name of it: column = "..." in the [[feature]] "{feature.name}"')
    where = f"{table.source}: column {shown(name)}"
    if isinstance(feature, CategoryFeature):
        values = _category_values(cells, feature, where, na_values)
    else:
        values = _number_values(cells, feature, where, na_values)
    if substitute is not None:
        values[np.isnan(values)] = substitute
    return values


def must_not_merge(table: RawTable, feature: Feature) -> None:
    """Raise a DataError if a model could distinguish cells that are one value of a category here."""
    name = feature.column or feature.name
    cells = table.cells(name, "")
    if isinstance(feature, CategoryFeature) and isinstance(cells, TextCells) and cells.merged:
        raise DataError(f"{table.source}: column {shown(name)}: {TYPES_MERGED.format(cells=cells.merged)}")


def label_values(table: RawTable, key: str, name: str, model: ModelSpec, na_values: Sequence[str]) -> NDArray[np.int16]:
    """Return the labels in a column as their index, -1 for a missing one; `key` is the column's key in the spec.

    A cell is a label's name or its code. Other numbers are not interpreted as the index of a label.
    """
    cells = table.cells(name, f'name the column: {key} = "..." in [population]')
    where = f"{table.source}: column {shown(name)}"
    codes = [str(code) for code in model.codes or ()]
    found = _look_up(cells, [*enumerate(model.labels), *enumerate(codes)], na_values)
    if found.bad == UNCLEAR:
        raise DataError(f"{where}: {LABEL_IS_ANOTHER_CODE.format(found=found)}")
    if found.bad:
        known = f"({near(found.cell, [*model.labels, *codes])})"
        remedy = "fix the cells, or labels and codes in [model]" if codes else CODES_NEEDED
        value = " or model.codes" if codes else ""
        raise DataError(f"{where}: {NOT_A_LABEL.format(found=found, value=value, known=known, remedy=remedy)}")
    return found.indices.astype(np.int16)


def leave_out(
    table: RawTable,
    column: str,
    missing: NDArray[np.bool_],
    population: Table | Marginals | Texts,
    gone: NDArray[np.bool_],
    feature: Feature | None = None,
) -> bool:
    """Add the rows without a value in a column that is used to `gone`, and return whether there are some.

    Raises a DataError if the population does not leave out such rows.
    """
    if not missing.any():
        return False
    if not population.drop_missing:
        remedy = f'state their value: missing = ... in the [[feature]] "{feature.name}"' if feature else "fix them"
        raise DataError(
            f"{table.source}: column {shown(column)}: no value in {many(int(missing.sum()), 'row')}, the first of them "
            f"row {int(np.argmax(missing)) + 1:,}; {remedy}, or leave such rows out: drop_missing = true in "
            "[population]"
        )
    gone |= missing
    return True


@dataclass(frozen=True, eq=False)
class _Found:
    """Indices of all cells; if some have none: the reason (`bad`), the number of such rows, and the first, from 0."""

    indices: NDArray[np.int32]
    bad: int
    count: int
    distinct: int
    row: int
    cell: str

    def __str__(self) -> str:
        """Return the beginning of a message."""
        return f"{_rows_that(self.row, self.count, shown(self.cell), self.distinct)}, which is"


def _look_up(cells: Column, texts: Iterable[tuple[int, str | int]], na_values: Sequence[str]) -> _Found:
    """Return the index of every cell: by its exact text, else as a missing value, else as a number (1.0 as 1)."""
    known: dict[str, int] = {}
    for index, text in texts:
        name = str(text).strip()
        known[name] = index if known.get(name, index) == index else UNCLEAR
    missing = {text.strip(): MISSING for text in ("", *na_values)}
    exact = missing | known
    plain = {plain_text(name): index for names in (missing, known) for name, index in names.items()} | known
    indices = np.empty(cells.count, np.int32)
    bad, row, cell = 0, 0, ""
    unseen: dict[str, int] = {}
    for piece in cells.pieces():
        at = (exact.get(level) for level in piece.levels)
        levels = zip(piece.levels, at, strict=True)
        found = np.array([plain.get(plain_text(level), UNSEEN) if i is None else i for level, i in levels], np.int32)
        here = found[piece.codes]
        indices[piece.start : piece.start + len(here)] = here
        if (found < MISSING).any():
            wrong = np.flatnonzero(here < MISSING)
            if not bad:
                first = int(wrong[0])
                bad, row, cell = int(here[first]), piece.start + first, piece.levels[piece.codes[first]]
            for code, count in zip(*np.unique(piece.codes[wrong], return_counts=True), strict=True):
                level = piece.levels[code]
                unseen[level] = unseen.get(level, 0) + int(count)
    return _Found(indices, bad, sum(unseen.values()), len(unseen), row, cell)


def _category_values(
    cells: Column, feature: CategoryFeature, where: str, na_values: Sequence[str]
) -> NDArray[np.float64]:
    names, owner = feature.values if feature.aliases is None else feature.aliases, f'feature "{feature.name}"'
    found = _look_up(cells, enumerate(names), na_values)
    if found.bad == UNCLEAR:
        raise SpecError(f'{owner}: "{found.cell}" means two values; give each a different alias')
    if found.bad:
        key = "values" if feature.aliases is None else "aliases"
        raise DataError(
            f"{where}: {found} not one of the {key} of {owner} ({near(found.cell, [str(name) for name in names])}); "
            "add it to values, state the table's name of each value in aliases, or, if it means a missing value, "
            "add it to na_values in [population]"
        )
    values = found.indices.astype(np.float64)
    values[found.indices == MISSING] = np.nan
    return values


def _number_values(
    cells: Column, feature: IntegerFeature | RealFeature, where: str, na_values: Sequence[str]
) -> NDArray[np.float64]:
    parsed, owner = numbers_in(cells, na_values), f'feature "{feature.name}"'
    if parsed.bad:
        raise DataError(
            f"{where}: {_rows_that(parsed.row, parsed.bad, shown(parsed.cell))}, which is not a number; "
            "write numbers like 1234.5, add the text to na_values in [population] if it means a missing value, "
            f'or make {owner} kind = "category"'
        )
    values = parsed.values

    def refuse(wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            first = int(np.argmax(wrong))
            raise DataError(f"{where}: {_rows_that(first, int(wrong.sum()), number_text(values[first]))}, {why}")

    refuse(np.isinf(values), "which is infinite; fix the cells")
    if isinstance(feature, IntegerFeature):
        remedy = 'use kind = "real", or round the column'
        refuse(values > np.floor(values), f"but {owner} has whole numbers; {remedy}")
    if feature.clip:
        return np.clip(values, feature.low, feature.high, out=values)
    outside = (values < feature.low) | (values > feature.high)
    if outside.any():
        refuse(
            outside,
            f"outside of low = {number_text(feature.low)} and high = {number_text(feature.high)} of {owner}; the "
            f"column goes from {number_text(np.nanmin(values))} to {number_text(np.nanmax(values))}: widen low and "
            "high, or replace values beyond them by low and high: clip = true",
        )
    return values


def _rows_that(first: int, count: int, cell: str, kinds: int = 1) -> str:
    """Return `row 7 holds 3.5 (12 such rows)`: the beginning of a message; `first` counts from 0."""
    different = f" with {kinds:,} different cells" if kinds > 1 else ""
    return f"row {first + 1:,} holds {cell}" + (f" ({count:,} such rows{different})" if count > 1 else "")


def _substitute(feature: Feature) -> float | None:
    """Return the value of a missing cell, which must be one of the feature's values."""
    stated, key = feature.missing, f'feature "{feature.name}".missing'
    if stated is None:
        return None
    if isinstance(feature, CategoryFeature):
        names = [str(value) for value in feature.values]
        text = stated if isinstance(stated, str) else number_text(stated)
        if text not in names:
            raise SpecError(f"{key}: {shown(text)} is not one of its values ({near(text, names)}); state one of them")
        return float(names.index(text))
    whole = isinstance(feature, IntegerFeature)
    if isinstance(stated, str) or not feature.low <= stated <= feature.high or (whole and stated != int(stated)):
        kind = "a whole number" if whole else "a number"
        raise SpecError(
            f"{key}: found {stated}; state {kind} from {number_text(feature.low)} to {number_text(feature.high)}"
        )
    return float(stated)
