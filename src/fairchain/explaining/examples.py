"""Counterfactual pairs for readers: inputs shown as two groups, otherwise equal, and decided differently.

Rows of a table, if given, come first; then drawn inputs, ordered by the distance to the nearest row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.context import INPUTS, ComparedPair, EffectContext, shown_as
from fairchain.explaining.result import Example, Flips
from fairchain.spec import CategoryFeature, domain_of
from fairchain.tables import TableRows
from fairchain.verification.witnesses import unprotected

Values = NDArray[np.floating]
MOST_EXAMPLES, EXAMPLE_ROUNDS = 5, 4096
# Number of rows of a table that are searched, and of drawn inputs whose nearest row is searched.
MOST_SEARCHED_ROWS, MOST_DRAWN = 100_000, 200


def examples(context: EffectContext, pair: ComparedPair) -> tuple[tuple[Example, ...], Flips | None]:
    """Return a few inputs that are decided differently as the two groups, and the counts in each direction."""
    found = [] if context.rows is None else _real(context, context.rows, pair)
    drawn, flips = _drawn(context, pair, MOST_EXAMPLES - len(found))
    return (*found, *drawn), flips


def _real(context: EffectContext, rows: TableRows, pair: ComparedPair) -> list[Example]:
    """Return rows of the table that are decided differently as one group and as the other."""
    values = rows.values[:MOST_SEARCHED_ROWS]
    # A feature with stated frequencies has no values in the table.
    if np.isnan(values).all(axis=0).any():
        return []
    shown = [shown_as(values, context.spec, context.groups[group]) for group in (pair.more, pair.less)]
    # A row of neither group would be changed on both sides, so neither side would be the real row.
    real = np.flatnonzero(_equal(shown[0], values).all(axis=1) | _equal(shown[1], values).all(axis=1))
    inputs = np.stack([one[real] for one in shown]).astype(context.model.dtype)
    labels, flips = _flips(context, pair, inputs)
    return [
        _example(context, pair, inputs[0, row], labels[:, row], int(rows.numbers[real[row]]), 0.0)
        for row in flips[:MOST_EXAMPLES].tolist()
    ]


def _drawn(context: EffectContext, pair: ComparedPair, most: int) -> tuple[list[Example], Flips | None]:
    """Return inputs of the first rounds that show the same input as the two groups, and counts of these rounds."""
    shown = [inputs.copy() for inputs in context.inputs(INPUTS, min(EXAMPLE_ROUNDS, context.chunk))]
    inputs = np.stack([shown[pair.more], shown[pair.less]])
    spec, rows = context.spec, context.rows
    columns = [place for place, each in enumerate(spec.features) if each.name not in spec.protected]
    if spec.text is not None:
        # One text with the terms of each group, or two unrelated texts.
        same = np.full(inputs.shape[1], getattr(context.population, "swapped", False))
    else:
        same = np.logical_and.reduce(_equal(inputs[0][:, columns], inputs[1][:, columns]), axis=1)
    labels, flips = _flips(context, pair, inputs)
    flips = flips[same[flips]]
    along = int((pair.values(labels)[same] > 0).sum())
    counts = Flips(along, len(flips) - along, int(same.sum())) if same.any() else None
    columns = [] if rows is None else [place for place in columns if not np.isnan(rows.values[:, place]).all()]
    if rows is None or not columns:
        return [_example(context, pair, inputs[0, row], labels[:, row]) for row in flips[:most].tolist()], counts
    near = [(*_nearest(context, inputs[0, row], columns), row) for row in flips[:MOST_DRAWN].tolist()] if most else []
    near.sort()
    against = [each for each in near if pair.values(labels[:, each[2:]])[0] < 0]
    if most > 1 and against and against[0] not in near[:most]:
        # One that contradicts the direction of the gap, if any.
        near = sorted([*near[: most - 1], against[0]])
    return [
        _example(context, pair, inputs[0, row], labels[:, row], int(rows.numbers[place]), distance)
        for distance, place, row in near[:most]
    ], counts


def _equal(first: Values, second: Values) -> NDArray[np.bool_]:
    """Return where two arrays are equal; a missing value (NaN) equals another one."""
    equal: NDArray[np.bool_] = (first == second) | (np.isnan(first) & np.isnan(second))
    return equal


def _nearest(context: EffectContext, one: Values, columns: list[int]) -> tuple[float, int]:
    """Return the distance to the nearest row, the mean over features relative to their ranges, and its index."""
    assert context.rows is not None
    rows = context.rows.values[:MOST_SEARCHED_ROWS]
    total = np.zeros(len(rows))
    for column in columns:
        feature, domain = context.spec.features[column], domain_of(context.spec.features[column])
        if isinstance(feature, CategoryFeature):
            total += ~_equal(rows[:, column], one[column])
            continue
        off = np.abs(rows[:, column] - one[column]) / max(domain.high - domain.low, 1e-12)
        # A value is as far from a missing one as it can be.
        total += np.where(_equal(rows[:, column], one[column]), 0.0, np.where(np.isnan(off), 1.0, off))
    place = int(total.argmin())
    return float(total[place] / len(columns)), place


def _flips(context: EffectContext, pair: ComparedPair, inputs: Values) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
    """Return the labels, (2, rows), and the rows decided differently: most in the direction of the gap, one against."""
    labels = np.stack([context.model.predict(one) for one in inputs])
    values = pair.values(labels)
    along, against = np.flatnonzero(values > 0), np.flatnonzero(values < 0)
    return labels, np.concatenate([along[: MOST_EXAMPLES - 1], against[:1], along[MOST_EXAMPLES - 1 :], against[1:]])


def _example(
    context: EffectContext,
    pair: ComparedPair,
    one: Values,
    labels: NDArray[np.integer],
    row: int | None = None,
    distance: float | None = None,
) -> Example:
    """Return a witness: the input without its protected features, or the text as shown to the first group."""
    spec = context.spec
    return Example(
        (context.groups[pair.more].name, context.groups[pair.less].name),
        (spec.model.labels[int(labels[0])], spec.model.labels[int(labels[1])]),
        unprotected(spec, one),
        row,
        distance,
    )
