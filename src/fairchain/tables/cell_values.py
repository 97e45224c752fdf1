"""Conversion of the cells of a column to values of a feature, or to labels of the spec.

Categories become their index and numbers stay in the user's units; a missing cell becomes the feature's `missing`, or
NaN. An invalid cell raises one DataError that names the column, the first row and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import many, near, shown
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, ModelSpec, RealFeature
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


@dataclass(frozen=True)
class _Place:
    """The name of a column in messages: `rows.csv: column "age"`, and its feature in the spec."""

    source: str
    column: str
    owner: str = ""

    def error(self, what: str) -> DataError:
        return DataError(f"{self.source}: column {shown(self.column)}: {what}")


def feature_values(table: RawTable, feature: Feature, na_values: Sequence[str]) -> NDArray[np.float64]:
    """Return one feature of all rows; NaN if the cell is missing and the feature has no value for missing cells."""
    substitute = _substitute(feature)
    name = feature.column or feature.name
    cells = table.cells(name, f'state the table\'s name of it: column = "..." in the [[feature]] "{feature.name}"')
    place = _Place(table.source, name, f'feature "{feature.name}"')
    if isinstance(feature, CategoryFeature):
        values = _category_values(cells, feature, place, na_values)
    else:
        values = _number_values(cells, feature, place, na_values)
    if substitute is not None:
        values[np.isnan(values)] = substitute
    return values


def must_not_merge(table: RawTable, feature: Feature) -> None:
    """Raise a DataError if a model could distinguish cells that are one value of a category here."""
    name = feature.column or feature.name
    cells = table.cells(name, "")
    if isinstance(feature, CategoryFeature) and isinstance(cells, TextCells) and cells.merged:
        raise _Place(table.source, name).error(TYPES_MERGED.format(cells=cells.merged))


def label_values(table: RawTable, key: str, name: str, model: ModelSpec, na_values: Sequence[str]) -> NDArray[np.int16]:
    """Return the labels in a column as their index, -1 for a missing one; `key` is the column's key in the spec.

    A cell is a label's name or its code. Other numbers are not interpreted as the index of a label.
    """
    place = _Place(table.source, name)
    cells = table.cells(name, f'name the column: {key} = "..." in [population]')
    codes = [str(code) for code in model.codes or ()]
    found = _look_up(cells, [*enumerate(model.labels), *enumerate(codes)], na_values)
    if found.bad == UNCLEAR:
        raise place.error(LABEL_IS_ANOTHER_CODE.format(found=found))
    if found.bad:
        known = f"({near(found.cell, [*model.labels, *codes])})"
        remedy = "fix the cells, or labels and codes in [model]" if codes else CODES_NEEDED
        raise place.error(
            NOT_A_LABEL.format(found=found, value=" or model.codes" if codes else "", known=known, remedy=remedy)
        )
    return found.indices.astype(np.int16)


def missing_cells(table: RawTable, column: str, missing: NDArray[np.bool_], feature: Feature | None) -> DataError:
    """Return the error about rows without a value in a column that is used."""
    remedy = f'state their value: missing = ... in the [[feature]] "{feature.name}", or ' if feature else ""
    return _Place(table.source, column).error(
        f"no value in {many(int(missing.sum()), 'row')}, the first of them row {int(np.argmax(missing)) + 1:,}; "
        f"{remedy or 'fix them, or '}leave such rows out: drop_missing = true in [population]"
    )


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
    """Return the index of every cell: by its exact text, otherwise as a missing value, otherwise as a number (1.0 as
    1).
    """
    exact: dict[str, int] = {}
    for index, text in texts:
        name = str(text).strip()
        exact[name] = index if exact.get(name, index) == index else UNCLEAR
    plain = {plain_text(name): index for name, index in exact.items()} | exact
    missing = {text.strip(): MISSING for text in ("", *na_values)}
    plain = {plain_text(name): MISSING for name in missing} | plain
    exact = missing | exact
    indices = np.empty(cells.count, np.int32)
    bad, row, cell = 0, 0, ""
    unseen: dict[str, int] = {}
    for piece in cells.pieces():
        known = [exact.get(level) for level in piece.levels]
        levels = zip(piece.levels, known, strict=True)
        found = np.array([plain.get(plain_text(level), UNSEEN) if at is None else at for level, at in levels], np.int32)
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
    cells: Column, feature: CategoryFeature, place: _Place, na_values: Sequence[str]
) -> NDArray[np.float64]:
    names = feature.values if feature.aliases is None else feature.aliases
    found = _look_up(cells, enumerate(names), na_values)
    if found.bad == UNCLEAR:
        raise SpecError(f'{place.owner}: "{found.cell}" means two values; give each a different alias')
    if found.bad:
        key = "values" if feature.aliases is None else "aliases"
        raise place.error(
            f"{found} not one of the {key} of {place.owner} ({near(found.cell, [str(name) for name in names])}); "
            "add it to values, state the table's name of each value in aliases, or, if it means a missing value, "
            "add it to na_values in [population]"
        )
    values = found.indices.astype(np.float64)
    values[found.indices == MISSING] = np.nan
    return values


def _number_values(
    cells: Column, feature: IntegerFeature | RealFeature, place: _Place, na_values: Sequence[str]
) -> NDArray[np.float64]:
    parsed = numbers_in(cells, na_values)
    if parsed.bad:
        raise place.error(
            f"{_rows_that(parsed.row, parsed.bad, shown(parsed.cell))}, which is not a number; "
            "write numbers like 1234.5, add the text to na_values in [population] if it means a missing value, "
            f'or make {place.owner} kind = "category"'
        )
    values = parsed.values
    _refuse(values, np.isinf(values), place, "which is infinite; fix the cells")
    if isinstance(feature, IntegerFeature):
        remedy = 'use kind = "real", or round the column'
        _refuse(values, values > np.floor(values), place, f"but {place.owner} has whole numbers; {remedy}")
    if feature.clip:
        return np.clip(values, feature.low, feature.high, out=values)
    outside = (values < feature.low) | (values > feature.high)
    if outside.any():
        extremes = f"from {number_text(np.nanmin(values))} to {number_text(np.nanmax(values))}"
        wrong = (
            f"outside of low = {number_text(feature.low)} and high = {number_text(feature.high)} of {place.owner}; "
            f"the column goes {extremes}: widen low and high, or replace values beyond them by low and high: clip = "
            "true"
        )
        _refuse(values, outside, place, wrong)
    return values


def _refuse(values: NDArray[np.float64], wrong: NDArray[np.bool_], place: _Place, why: str) -> None:
    if wrong.any():
        first = int(np.argmax(wrong))
        raise place.error(f"{_rows_that(first, int(wrong.sum()), number_text(values[first]))}, {why}")


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
