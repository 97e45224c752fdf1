"""People to look at: shown as two groups, the same in everything else, and decided differently.

Rows of a table come first if there is one; then people who were drawn, the nearest to a row of it first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.context import PEOPLE, ComparedPair, EffectContext
from fairchain.explaining.result import Example
from fairchain.spec import CategoryFeature, Group, domain_of
from fairchain.text import lexicon_of
from fairchain.verification.witnesses import unprotected

Values = NDArray[np.floating]
MOST, SEARCH = 5, 4096
# Rows of a table that are looked at, and drawn people whose nearest row is looked for.
MOST_ROWS, MOST_DRAWN = 100_000, 200


def examples(case: EffectContext, question: ComparedPair) -> tuple[Example, ...]:
    """A few people who are decided differently as the two groups of the question."""
    found = _real(case, question) if case.rows is not None else []
    if len(found) < MOST:
        found += _drawn(case, question, MOST - len(found))
    return tuple(found)


def _real(case: EffectContext, question: ComparedPair) -> list[Example]:
    """Rows of the table that are decided differently as one group and as the other."""
    assert case.rows is not None
    values = case.rows.values[:MOST_ROWS]
    if np.isnan(values).any():  # a feature whose frequencies are stated is not in the table
        return []
    pair = [case.groups[question.more], case.groups[question.less]]
    shown = [_as(case, values, group) for group in pair]
    # A row that is in neither group would be changed on both sides, and nobody real would be left.
    real = np.flatnonzero((shown[0] == values).all(axis=1) | (shown[1] == values).all(axis=1))
    people = np.stack([one[real] for one in shown]).astype(case.model.dtype)
    labels = _labels(case, people)
    return [
        _example(case, question, people[:, row], labels[:, row], int(case.rows.numbers[real[row]]), 0.0)
        for row in _flips(question, labels)[:MOST].tolist()
    ]


def _as(case: EffectContext, values: Values, group: Group) -> Values:
    """Everybody as a group: with their own protected values if these belong to it, else with its middle one."""
    names = [feature.name for feature in case.spec.features]
    shown = values.copy()
    for protected, domain in zip(case.spec.property.protected, group.domains, strict=True):
        column = shown[:, names.index(protected)]
        middle = (domain.low + domain.high) / 2 if domain.real else (domain.low + domain.high) // 2
        middle = domain.points[len(domain.points) // 2] if domain.points else middle
        column[~domain.holds(column)] = middle
    return shown


def _drawn(case: EffectContext, question: ComparedPair, most: int) -> list[Example]:
    """People of the first rounds; two groups may show different people, and these are left out."""
    shown = [people.copy() for people in case.people(PEOPLE, min(SEARCH, case.chunk))]
    people = np.stack([shown[question.more], shown[question.less]])
    labels = _labels(case, people)
    protected = case.spec.property.protected
    columns = [place for place, feature in enumerate(case.spec.features) if feature.name not in protected]
    if case.spec.text is not None:
        # One text with the terms of each group in it, or texts that have nothing to do with each other.
        same = np.full(people.shape[1], getattr(case.population, "swapped", False))
    else:
        same = (people[0][:, columns] == people[1][:, columns]).all(axis=1)
    flips = _flips(question, labels)
    flips = flips[same[flips]]
    rows = case.rows
    columns = [] if rows is None else [place for place in columns if not np.isnan(rows.values[0, place])]
    if rows is None or not columns:
        return [_example(case, question, people[:, row], labels[:, row]) for row in flips[:most].tolist()]
    near = [(*_nearest(case, people[0, row], columns), row) for row in flips[:MOST_DRAWN].tolist()]
    return [
        _example(case, question, people[:, row], labels[:, row], int(rows.numbers[place]), distance)
        for distance, place, row in sorted(near)[:most]
    ]


def _nearest(case: EffectContext, person: Values, columns: list[int]) -> tuple[float, int]:
    """How far the nearest row of the table is, as a share of each feature's range on average, and which it is."""
    assert case.rows is not None
    rows = case.rows.values[:MOST_ROWS]
    total = np.zeros(len(rows))
    for column in columns:
        feature, domain = case.spec.features[column], domain_of(case.spec.features[column])
        off = np.abs(rows[:, column] - person[column])
        total += off > 0 if isinstance(feature, CategoryFeature) else off / max(domain.high - domain.low, 1e-12)
    place = int(total.argmin())
    return float(total[place] / len(columns)), place


def _flips(question: ComparedPair, labels: NDArray[np.integer]) -> NDArray[np.intp]:
    """Who is decided differently: first those who go the way of the gap."""
    values = question.values(labels)
    return np.concatenate([np.flatnonzero(values > 0), np.flatnonzero(values < 0)])


def _labels(case: EffectContext, people: NDArray[np.floating]) -> NDArray[np.integer]:
    """(2, rows): the classes of the same people as two groups."""
    return np.stack([case.model.predict(one) for one in people])


def _in_words(case: EffectContext, person: Values) -> dict[str, str | float]:
    """Somebody besides the protected features, or a text as the first group has it."""
    text = case.spec.text
    return unprotected(case.spec, person) if text is None else {text.name: lexicon_of(text).text(person.tolist())}


def _example(
    case: EffectContext,
    question: ComparedPair,
    person: Values,
    labels: NDArray[np.integer],
    row: int | None = None,
    distance: float | None = None,
) -> Example:
    names, classes = case.groups, case.spec.model.labels
    return Example(
        (names[question.more].name, names[question.less].name),
        (classes[int(labels[0])], classes[int(labels[1])]),
        _in_words(case, person[0]),
        row,
        distance,
    )
