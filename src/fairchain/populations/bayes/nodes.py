"""The nodes of a Bayesian network: their tables, their values, and the arrays from which they are drawn.

A `Choice` has a table with a row for each combination of its parents' values, found by its key: the values joined by ",
" in the order of the parents. Keys are constructed from the values and compared, never split, so a value may contain ",
" itself. A `Normal` is a number: a mean, the contributions of its numeric parents, and a normal deviation. If it is a
feature, it is clipped to the feature's low and high, and rounded if the feature is an integer; its children use that
value. A `Computed` node is computed from its parents by an expression, or gives the interval of a parent between
thresholds. If all its parents have tables, it becomes a table of zeros and ones, so that everything that applies to
tables applies to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise, product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.messages import doubled, near
from fairchain.spec import CategoryFeature, Feature, IntegerFeature, Node, RealFeature
from fairchain.spec.conditions import parse_expression
from fairchain.spec.validate import MOST_EXACT

# Limits of a network; larger ones are refused before memory is allocated.
MOST_NODES = 10_000
MOST_TABLE_CELLS = 2_000_000
# Largest difference between 1 and the sum of a row, for rounding in the file; the row is then divided by its sum.
ROW_SUM_ERROR = 1e-6

NodeValue = str | int
AMBIGUOUS_VALUES = '"{twice}" can be read in two ways; rename values of its parents that contain ", "'
SWITCHES_NEEDED = (
    '"{name}" is a number; state the threshold at which the probabilities switch, switches = {{{name} = 40}}, give '
    "that parent values and probabilities, or this node mean, std and slopes"
)
SLOPES_NEEDED = (
    '"{name}" is a number; state the change of the mean per unit, slopes = {{{name} = ...}}, or where the node '
    "switches, switches = {{{name} = 40}}"
)
FEATURE_IS_A_CATEGORY = "the feature is a category; give the probabilities of its values instead"
REAL_FEATURE_IN_TABLE = (
    'feature "{name}" is real and a table has single values; give the node mean and std instead of probabilities, '
    'or make the feature kind = "integer"'
)
TOO_MANY_COMBINATIONS = "{count} combinations of its parents' values are too many; use fewer"
TOO_MANY_NODE_VALUES = "{high} values are more than {most_cells}; list those that occur"


def keys_of(parents: Sequence[Sequence[NodeValue]]) -> Iterator[str]:
    """Yield the keys of all combinations, the last parent's value changing fastest; without parents one empty key."""
    return (", ".join(map(str, combination)) for combination in product(*parents))


def row_problem(row: Sequence[float], values: Sequence[NodeValue]) -> str | None:
    """Return the problem with the probabilities of these values, and what to write; None if they are valid."""
    if len(row) != len(values):
        return f"found {len(row)} probabilities for {len(values)} values ({some_names(values)}); write one for each"
    for probability, value in zip(row, values, strict=True):
        if not (math.isfinite(probability) and probability >= 0):
            return f'the probability of "{value}" is {probability:g}; write a number from 0 to 1'
    total = sum(row)
    if abs(total - 1) > ROW_SUM_ERROR:
        return f"the probabilities of {some_names(values)} sum to {total:.9g}; write numbers that sum to 1"
    return None


def cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return running sums along the last axis, which end in exactly 1.

    They are summed as integer multiples of 2**-62, so that neither length nor order of the summation loses digits: each
    step equals its probability within the 2**-53 that the random numbers resolve.
    """
    steps = np.rint(probabilities * 2.0**62).astype(np.uint64)
    sums = np.cumsum(steps, axis=-1, dtype=np.uint64).astype(np.float64)
    quotients: NDArray[np.float64] = sums / sums[..., -1:]
    return quotients


def some_names(names: Sequence[object], most: int = 8) -> str:
    """Return the first few names."""
    shown = ", ".join(str(name) for name in names[:most])
    return f"{shown}, ..." if len(names) > most else shown


# Sums of numbers up to this cannot overflow, and deviations from 53-bit random numbers are below 9.
MOST_NUMBER = 1e300
MOST_DEVIATIONS = 9.0
# Largest number of cells of the table of a computed node; a larger one is computed when it is drawn.
MOST_TABULATED = 200_000
# Largest number of keys in which a similar one is searched.
MOST_LOOKED_AT = 1000

Reals = NDArray[np.float64]
Entry = TypeVar("Entry")


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several values, drawn as its index: `table` is (combinations of `choices`, values).

    `shown` is the value in a feature's column for each value; `numbers` is the number of each value in a sum, if all
    are integers. `stated` is the table before its rows were divided by their sums.
    """

    name: str
    choices: tuple[str, ...]
    values: tuple[NodeValue, ...]
    table: Reals
    shown: Reals
    numbers: Reals | None
    stated: Reals

    @property
    def parents(self) -> tuple[str, ...]:
        """The nodes on which it depends."""
        return self.choices

    @property
    def reach(self) -> float:
        """Bound of its absolute value in a sum."""
        return 0.0 if self.numbers is None else float(np.abs(self.numbers).max())


@dataclass(frozen=True, eq=False)
class Normal:
    """A number between low and high: `mean` and `std` for each combination of `choices`, and `slopes` of the others."""

    name: str
    choices: tuple[str, ...]
    slopes: tuple[tuple[str, float], ...]
    mean: Reals
    std: Reals
    low: float
    high: float
    whole: bool
    reach: float

    @property
    def parents(self) -> tuple[str, ...]:
        """The nodes on which it depends."""
        return self.choices + tuple(name for name, _ in self.slopes)


@dataclass(frozen=True, eq=False)
class Computed:
    """A value computed from other nodes: a number between low and high, or one of `values`, as its index.

    `compute` takes (rows, inputs): for each parent its number, or the index of its value if the values are names.
    """

    name: str
    parents: tuple[str, ...]
    compute: Callable[[Reals], Reals]
    values: tuple[NodeValue, ...] | None
    low: float
    high: float
    whole: bool
    reach: float

    def of(self, inputs: Reals) -> Reals:
        """Return the value of each row, clipped to its range, and rounded for an integer."""
        found = np.array(self.compute(inputs), np.float64)
        if self.whole:
            np.rint(found, out=found)
        # Adding 0 turns a rounded -0.0 into an ordinary 0.
        return np.clip(found, self.low, self.high) + 0.0


BayesNode = Choice | Normal | Computed
Made = Mapping[str, BayesNode]


def values_of(node: BayesNode) -> tuple[NodeValue, ...] | None:
    """Return the values of a node with a list of values; None for a number."""
    return None if isinstance(node, Normal) else node.values


def number_of(node: BayesNode) -> Reals | None:
    """Return the number of each value of a node in a sum; None if it is itself a number, or its values are names."""
    return node.numbers if isinstance(node, Choice) else None


@dataclass(frozen=True)
class Site:
    """The name of a node in messages: a file or `population.nodes`, and the node's name."""

    source: str
    node: str

    def error(self, key: str, problem: str) -> SpecError:
        """Return the error about one key of the node, or about the whole node."""
        return SpecError(f'{self.source}: node "{self.node}"{f".{key}" if key else ""}: {problem}')


def make_node(site: Site, node: Node, feature: Feature | None, made: Made) -> BayesNode:
    """Return the node as arrays; `made` has its parents. Raises a SpecError that names it."""
    parents = {name: made[name] for name in node.parents}
    if node.value is not None:
        return _computed(site, node, feature, parents)
    if (node.probabilities is None) == (node.mean is None):
        found = "neither probabilities nor mean" if node.mean is None else "both probabilities and mean"
        remedy = "give the probabilities of its values, mean and std of a number, or an expression in value"
        raise site.error("", f"has {found}; {remedy}")
    if node.mean is None:
        if node.std is not None or node.slopes:
            raise site.error("", "has probabilities, so std and slopes have no effect; remove them")
        return _choice(site, node, feature, parents)
    if isinstance(feature, CategoryFeature):
        raise site.error("mean", FEATURE_IS_A_CATEGORY)
    if node.std is None:
        raise site.error("std", "missing; write the standard deviation, for example std = 1.0")
    if node.values is not None:
        raise site.error("values", "a number with mean and std has no list of values; remove it")
    return _normal(site, node, feature, parents)


def _values(site: Site, stated: tuple[NodeValue, ...] | None, feature: Feature | None) -> tuple[NodeValue, ...]:
    """Return the values in the order in which they are drawn: that of a category, otherwise as stated."""
    if stated is not None and not stated:
        raise site.error("values", "found no value; list at least one")
    if (twice := doubled(str(value) for value in stated or ())) is not None:
        raise site.error("values", f'"{twice}" occurs twice; every value must be different')
    if isinstance(feature, CategoryFeature):
        known, found = (dict.fromkeys(map(str, values)) for values in (feature.values, stated or feature.values))
        if (name := next((name for name in found if name not in known), None)) is not None:
            problem = f'"{name}" is not a value of feature "{feature.name}"; {near(name, list(known))}'
            raise site.error("values", problem)
        if (name := next((name for name in known if name not in found), None)) is not None:
            problem = f'"{name}" is missing, a value of feature "{feature.name}"; add it or remove it there'
            raise site.error("values", problem)
        return feature.values
    if isinstance(feature, IntegerFeature):
        return _whole_numbers(site, stated, feature)
    if feature is not None:
        raise site.error("values", REAL_FEATURE_IN_TABLE.format(name=feature.name))
    if stated is None:
        example = 'for example values = ["no", "yes"]'
        raise site.error("values", f"missing, as no feature has this name; name them, {example}")
    return stated


def _whole_numbers(site: Site, stated: tuple[NodeValue, ...] | None, feature: IntegerFeature) -> tuple[int, ...]:
    low, high = feature.low, feature.high
    if stated is None:
        if high - low >= MOST_TABLE_CELLS:
            raise site.error("values", TOO_MANY_NODE_VALUES.format(high=high - low + 1, most_cells=MOST_TABLE_CELLS))
        return tuple(range(low, high + 1))
    for value in stated:
        # Also as text, but only in its plain form, so that keys of tables still match.
        if not re.fullmatch(r"0|-?[1-9][0-9]{0,17}", str(value)) or not low <= int(value) <= high:
            raise site.error(
                "values",
                f'"{value}" is not a whole number from {low} to {high}, the range of feature "{feature.name}"; '
                f"found {some_names(stated)}",
            )
    return tuple(map(int, stated))


def _choice(site: Site, node: Node, feature: Feature | None, parents: Made) -> Choice:
    values = _values(site, node.values, feature)
    choices = _with_values(parents)
    for name in parents:
        if name not in choices:
            raise site.error("parents", SWITCHES_NEEDED.format(name=name))
    stated = node.values or values
    rows = _rows(site, node, stated, choices)
    place = {str(value): i for i, value in enumerate(stated)}
    in_order = np.array(rows, np.float64)[:, [place[str(value)] for value in values]]
    table = in_order / np.array([math.fsum(row) for row in rows])[:, None]
    whole = all(isinstance(value, int) and abs(value) <= MOST_EXACT for value in values)
    numbers = np.array(values, np.float64) if whole else None
    shown = np.arange(len(values), dtype=np.float64)
    if isinstance(feature, IntegerFeature) and numbers is not None:
        shown = numbers
    return Choice(node.name, tuple(choices), values, table, shown, numbers, in_order)


def _rows(
    site: Site, node: Node, values: Sequence[NodeValue], choices: Mapping[str, tuple[NodeValue, ...]]
) -> Sequence[tuple[float, ...]]:
    """Return a checked row for each combination of the parents."""
    given = node.probabilities
    known = list(choices.values())
    if isinstance(given, Mapping):
        if not known:
            raise site.error("probabilities", "it has no parents; write one list: probabilities = [...]")
        rows = _by_key(site, "probabilities", given, choices, width=len(values))
    else:
        if known:
            example = f'probabilities = {{"{next(keys_of(known))}" = [...], ...}}'
            raise site.error("probabilities", f"it has parents; write a list for each combination: {example}")
        rows = [given or ()]
    for place, row in enumerate(rows):
        if problem := row_problem(row, values):
            key = f'."{list(keys_of(known))[place]}"' if known else ""
            raise site.error(f"probabilities{key}", problem)
    return rows


def _normal(site: Site, node: Node, feature: Feature | None, parents: Made) -> Normal:
    for name, slope in node.slopes.items():
        parent = parents.get(name)
        if parent is None:
            there = near(name, node.parents) if node.parents else "it has none"
            raise site.error("slopes", f'"{name}" is not one of its parents; {there}')
        if values_of(parent) is not None and number_of(parent) is None:
            raise site.error("slopes", f'the values of "{name}" are names, not numbers; remove its slope')
        _check_number(site, f"slopes.{name}", slope)
    choices = {name: values for name, values in _with_values(parents).items() if name not in node.slopes}
    for name, parent in parents.items():
        if name not in node.slopes and values_of(parent) is None:
            raise site.error("slopes", SLOPES_NEEDED.format(name=name))
    mean = _entries(site, "mean", node.mean, choices)
    std = _entries(site, "std", node.std, choices)
    if len(mean) == len(std) == 1:
        # The same for all combinations, which need not be distinguished.
        choices = {}
    mean, std = np.broadcast_arrays(mean, std)
    reach = float(np.abs(mean).max()) + MOST_DEVIATIONS * float(std.max())
    reach += sum(abs(slope) * parents[name].reach for name, slope in node.slopes.items())
    if not reach <= MOST_NUMBER:
        raise site.error("slopes", f"it could become as large as {reach:g}; choose other units")
    low, high = _limits(feature)
    return Normal(
        name=node.name,
        choices=tuple(choices),
        slopes=tuple(node.slopes.items()),
        mean=mean,
        std=std,
        low=low,
        high=high,
        whole=isinstance(feature, IntegerFeature),
        reach=min(reach, max(abs(low), abs(high))),
    )


def _limits(feature: Feature | None) -> tuple[float, float]:
    """Return the numbers between which a node is clipped."""
    if feature is None or isinstance(feature, CategoryFeature):
        return -math.inf, math.inf
    return float(feature.low), float(feature.high)


def _with_values(parents: Made) -> dict[str, tuple[NodeValue, ...]]:
    """Return the parents that have a list of values, with these values."""
    return {name: values for name, node in parents.items() if (values := values_of(node)) is not None}


def _entries(
    site: Site, key: str, given: float | Mapping[str, float] | None, choices: Mapping[str, tuple[NodeValue, ...]]
) -> Reals:
    """Return the mean or std of each combination, or a single one for all."""
    if isinstance(given, Mapping):
        if not choices:
            raise site.error(key, f"no parent without a slope has named values; write one number: {key} = 1.0")
        entries = _by_key(site, key, given, choices, width=1)
    else:
        entries = [math.nan if given is None else given]
    for entry in entries:
        _check_number(site, key, entry)
        if key == "std" and entry < 0:
            raise site.error(key, f"found {entry:g}; a standard deviation is at least 0")
    return np.array(entries, np.float64)


def _computed(site: Site, node: Node, feature: Feature | None, parents: Made) -> Choice | Computed:
    """Return a node that is computed from its parents by an expression."""
    for key in ("probabilities", "mean", "std", "slopes", "switches"):
        if getattr(node, key):
            raise site.error(key, "the node has a value that follows from its parents; remove one of the two")
    where = f'{site.source}: node "{site.node}".value'
    category = None
    if node.values is not None and feature is not None and not isinstance(feature, CategoryFeature):
        raise site.error("values", "a number that follows from its parents has no list of values; remove it")
    if isinstance(feature, CategoryFeature) or node.values is not None:
        values = _values(site, node.values, feature)
        category = CategoryFeature(name=node.name, values=values)
    expression = parse_expression(
        str(node.value), [_as_feature(name, parent) for name, parent in parents.items()], category, where
    )
    if unused := next((name for name in parents if name not in expression.names), None):
        raise site.error("parents", f'"{unused}" is not used in value = "{expression}"; remove it there, or use it')
    reach = expression.reach([parent.reach for parent in parents.values()])
    if not reach <= MOST_NUMBER:
        raise site.error("value", f"it could become as large as {reach:g}; choose other units")
    low, high = _limits(feature)
    computed = Computed(
        name=node.name,
        parents=tuple(parents),
        compute=expression.of,
        values=None if category is None else category.values,
        low=low,
        high=high,
        whole=isinstance(feature, IntegerFeature),
        reach=min(reach, max(abs(low), abs(high))),
    )
    return _tabulated(computed, feature, parents) or computed


def _as_feature(name: str, node: BayesNode) -> Feature:
    """Return a parent in the form of expressions: a number, or a category if its values are names."""
    values = values_of(node)
    if values is None or number_of(node) is not None:
        return RealFeature(name=name, low=-MOST_NUMBER, high=MOST_NUMBER)
    return CategoryFeature(name=name, values=values)


def make_switch(name: str, parent: BayesNode, source: str, thresholds: Sequence[float]) -> Choice | Computed:
    """Return the node for the interval of a numeric parent, called `source`, between thresholds."""
    edges = np.array(thresholds, np.float64)
    shown = [str(int(edge)) if edge == int(edge) else repr(float(edge)) for edge in thresholds]
    between = tuple(f"{low} <= {source} < {high}" for low, high in pairwise(shown))
    values = (f"{source} < {shown[0]}", *between, f"{source} >= {shown[-1]}")

    def compute(inputs: Reals) -> Reals:
        return np.searchsorted(edges, inputs[:, 0], side="right").astype(np.float64)

    computed = Computed(name, (source,), compute, values, 0.0, float(len(thresholds)), False, 0.0)
    return _tabulated(computed, None, {source: parent}) or computed


def _tabulated(node: Computed, feature: Feature | None, parents: Made) -> Choice | None:
    """Return a computed node as a table of zeros and ones; None if a parent is a number, or the table too large."""
    choices = [parent for parent in parents.values() if isinstance(parent, Choice)]
    count = math.prod(len(parent.values) for parent in choices)
    if len(choices) < len(parents) or count > MOST_TABULATED:
        return None
    numbers = np.indices([len(parent.values) for parent in choices]).reshape(len(choices), -1)
    inputs = np.zeros((count, len(choices)))
    for column, (parent, index) in enumerate(zip(choices, numbers, strict=True)):
        inputs[:, column] = index if parent.numbers is None else parent.numbers[index]
    found = node.of(inputs)
    known: Reals
    if node.values is not None:
        values, known, place = node.values, np.arange(len(node.values), dtype=np.float64), found.astype(np.intp)
    else:
        known, place = np.unique(found, return_inverse=True)
        place = place.reshape(-1)
        whole = all(number == int(number) and abs(number) <= MOST_EXACT for number in known.tolist())
        values = tuple(int(number) if whole else repr(number) for number in known.tolist())
    if count * len(values) > MOST_TABULATED:
        return None
    table = np.zeros((count, len(values)))
    table[np.arange(count), place] = 1.0
    numeric = None if node.values is not None else known
    shown = known if feature is not None or numeric is None else np.arange(len(values), dtype=np.float64)
    return Choice(node.name, tuple(parents), values, table, shown, numeric, table)


def _check_number(site: Site, key: str, number: float) -> None:
    if not abs(number) <= MOST_NUMBER:
        raise site.error(key, f"found {number:g}; write a finite number")


def _by_key(
    site: Site, key: str, given: Mapping[str, Entry], choices: Mapping[str, tuple[NodeValue, ...]], width: int
) -> list[Entry]:
    """Return the entries in the order of the combinations, each found by its key."""
    known = list(choices.values())
    count = math.prod(map(len, known))
    if count * width > MOST_TABLE_CELLS:
        raise site.error("parents", TOO_MANY_COMBINATIONS.format(count=count))
    keys = list(keys_of(known))
    if (twice := doubled(keys)) is not None:
        raise site.error(key, AMBIGUOUS_VALUES.format(twice=twice))
    wanted = set(keys)
    if (unknown := next((each for each in given if each not in wanted), None)) is not None:
        close = get_close_matches(unknown, keys[:MOST_LOOKED_AT], n=1)
        hint = f'did you mean "{close[0]}"?' if close else f'write them in this order: "{keys[0]}"'
        raise site.error(key, f'"{unknown}" is not a combination of values of {some_names(list(choices))}; {hint}')
    if (missing := next((each for each in keys if each not in given), None)) is not None:
        raise site.error(key, f'nothing is stated for "{missing}"; write an entry for each of {count} combinations')
    return [given[each] for each in keys]
