"""Which values a node with a table has: those of its feature, those it states, and what must hold between the two."""

from __future__ import annotations

from fairchain.errors import SpecError
from fairchain.populations.bayes.tables import MOST_CELLS, Value, near, repeated, some
from fairchain.spec.schema import CategoryFeature, Feature, IntegerFeature, Node


def values_of(node: Node, feature: Feature | None) -> tuple[Value, ...]:
    """The values in the order in which they are drawn: that of a category, else as stated.

    Raises
    ------
    SpecError
        With the problem and the remedy only; the caller knows whose values they are.
    """
    stated = node.values
    if stated is not None:
        if not stated:
            raise SpecError("found no value; list at least one")
        twice = repeated(str(value) for value in stated)
        if twice is not None:
            raise SpecError(f'"{twice}" stands twice; every value must be different')
    if isinstance(feature, CategoryFeature):
        return _of_category(stated, feature)
    if isinstance(feature, IntegerFeature):
        return _of_integer(stated, feature)
    if feature is not None:
        raise SpecError(
            f'feature "{feature.name}" is real and a table has single values; give the node mean and std in place of '
            'probabilities, or make the feature kind = "integer"'
        )
    if stated is None:
        raise SpecError('missing, as no feature has this name; name them, for example values = ["no", "yes"]')
    return stated


def _of_category(stated: tuple[Value, ...] | None, feature: CategoryFeature) -> tuple[Value, ...]:
    names = [str(value) for value in feature.values]
    found = names if stated is None else [str(value) for value in stated]
    extra, missing = set(found) - set(names), set(names) - set(found)
    for name in found:
        if name in extra:
            raise SpecError(f'"{name}" is no value of feature "{feature.name}"; {near(name, names)}')
    for name in names:
        if name in missing:
            raise SpecError(f'"{name}" is missing, a value of feature "{feature.name}"; add it or remove it there')
    return feature.values


def _of_integer(stated: tuple[Value, ...] | None, feature: IntegerFeature) -> tuple[Value, ...]:
    low, high = feature.low, feature.high
    if stated is None:
        if high - low >= MOST_CELLS:
            raise SpecError(f"{high - low + 1} values are more than {MOST_CELLS}; list those that occur")
        return tuple(range(low, high + 1))
    numbers = tuple(_whole(value) for value in stated)
    for number, value in zip(numbers, stated, strict=True):
        if number is None or not low <= number <= high:
            raise SpecError(
                f'"{value}" is no whole number from {low} to {high}, as feature "{feature.name}" has them; '
                f"found {some(stated)}"
            )
    return tuple(number for number in numbers if number is not None)


def _whole(value: Value) -> int | None:
    """A whole number, also if it was written as text; only its plain form, so that keys of tables still match."""
    if isinstance(value, int):
        return value
    digits = value.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and len(digits) <= 18
    return int(value) if plain and str(int(value)) == value else None
