"""People drawn by a Python function of the caller: `f(rng, count)`, or `f(rng, count, group)` for people of one group.

What it returns is checked row by row, since a value that does not exist or a person of another group would void the
verdict. numpy does not promise that the methods of its generators give the same numbers in every version, and a
function can be changed: runs on such a population carry no certificate.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError
from fairchain.population.uniform import Inputs, arms_of, columns_of, shown_groups
from fairchain.spec import CategoryFeature, Feature, Group, Spec, domain_of
from fairchain.spec.arms import Arm
from fairchain.spec.near import suggest
from fairchain.tables.frames import has_masked

# People drawn twice before the run, to see that the function draws from the generator alone.
TRIAL = 8
FORMS = "write it as f(rng, count) for everybody, or as f(rng, count, group) for the people of a group"


class FunctionPopulation:
    """Where inputs come from when a Python function draws the people.

    Parameters
    ----------
    spec
        Gives the features in the order of the columns, and the groups.
    arms
        Who is shown: groups, or everybody; by default each group of the spec.
    function
        Takes a numpy `Generator` and how many people to draw, all independent of each other. If it also has a
        parameter `group`, it gets the name of a group (None for everybody) and draws people of that group; else it
        draws everybody, and who belongs to an arm is for `accepts` to say. It returns an array (count, features)
        with categories as their index, or a mapping or frame with a column for each feature, categories by name.
    dtype
        Of the feature values handed out.
    name
        What to call the function in messages.

    Raises
    ------
    DataError
        If the function cannot be called so, fails, or returns something that is no such people.
    """

    def __init__(
        self,
        spec: Spec,
        arms: Sequence[Arm] | None,
        function: Callable[..., Any],
        dtype: DTypeLike = np.float32,
        name: str | None = None,
    ) -> None:
        self.arms: tuple[Arm, ...] = arms_of(spec) if arms is None else tuple(arms)
        self.groups: tuple[Group, ...] = shown_groups(spec, self.arms)
        self.protected_columns = columns_of(spec)
        self.dtype = np.dtype(dtype)
        self.name = name or getattr(function, "__name__", None) or type(function).__name__
        self._features = spec.features
        self._function = function
        self._by_group = _takes_group(self.name, function)
        # The caller's function need not be ready for several threads at once.
        self._one_at_a_time = threading.Lock()
        self._try()

    def __str__(self) -> str:
        """In one phrase, for the statement under a verdict."""
        return f"the people that the Python function {self.name} draws"

    @property
    def width(self) -> int:
        """How many features there are."""
        return len(self._features)

    @property
    def exact(self) -> bool:
        """Whether every arm is shown its own people; else they must be picked out with `accepts`."""
        return self._by_group or all(arm.group is None for arm in self.arms)

    def accepts(self, arm: int, values: Inputs) -> NDArray[np.bool_] | None:
        """Which of these people, (rows, features), belong to an arm; None if all that it shows do."""
        if self._by_group or self.arms[arm].group is None:
            return None
        return self._belong(arm, values)

    def shares(self) -> None:
        """Not known: the function does not say."""
        return

    def desk(self) -> None:
        """The function brings memory of its own."""
        return

    def rounds(self, seed: int, chunk: int, count: int, copy: int = 0, desk: None = None) -> FunctionRounds:  # noqa: ARG002
        """Draw `count` rounds of a chunk: the same for the same arguments as long as function and numpy stay."""
        return FunctionRounds(self, (seed, chunk, count, copy))

    def people(self, address: tuple[int, int, int, int], arm: int) -> Inputs:
        """Call the function for an arm; every arm of a round gets a generator in the same state."""
        seed, chunk, count, copy = address
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, chunk, copy]))
        group = self.arms[arm].group
        extra = {"group": None if group is None else group.name} if self._by_group else {}
        try:
            with self._one_at_a_time:
                answer = self._function(generator, count, **extra)
        except Exception as error:
            raise DataError(f"{self.name}: the function failed: {type(error).__name__}: {error}") from error
        values = self._checked(answer, count)
        if self._by_group and group is not None and not (belong := self._belong(arm, values)).all():
            raise DataError(
                f'{self.name}: {int((~belong).sum())} of {count} people are not of group "{group.name}", which was '
                "asked for; return people of that group only, or leave the parameter group out"
            )
        return values.astype(self.dtype)

    def shows(self, arm: int) -> int:
        """Arms with the same number show the same people."""
        return arm if self._by_group else 0

    def _belong(self, arm: int, values: Inputs) -> NDArray[np.bool_]:
        belong = np.ones(len(values), bool)
        for column, domain in zip(self.protected_columns, self.groups[arm].domains, strict=True):
            belong &= domain.holds(values[:, column])
        return belong

    def _try(self) -> None:
        """Two calls with the same generator must give the same people: rounds are drawn again by address."""
        once, again = (self.people((0, 0, TRIAL, 0), 0) for _ in range(2))
        if not np.array_equal(once, again):
            raise DataError(
                f"{self.name}: two calls with a generator in the same state gave different people; "
                "draw every random number from rng, and keep nothing between two calls"
            )

    def _checked(self, answer: Any, count: int) -> NDArray[np.float64]:
        """What the function returned, as a matrix of values that exist."""
        columns = self._columns(answer, count)
        values = np.empty((count, self.width))
        for place, (feature, column) in enumerate(zip(self._features, columns, strict=True)):
            if column.shape != (count,):
                raise DataError(
                    f'{self.name}: column "{feature.name}" has shape {column.shape} where {count} people were asked '
                    "for; return one value for each"
                )
            if isinstance(feature, CategoryFeature) and not isinstance(answer, np.ndarray):
                values[:, place] = self._indices(feature, column)
            else:
                values[:, place] = self._numbers(feature, column)
        return values

    def _columns(self, answer: Any, count: int) -> list[NDArray[Any]]:
        if has_masked(answer) or (isinstance(answer, Mapping) and any(map(has_masked, answer.values()))):
            raise DataError(f"{self.name}: returned masked values; return a value for every cell")
        if isinstance(answer, np.ndarray):
            if answer.shape != (count, self.width):
                raise DataError(
                    f"{self.name}: returned an array of shape {answer.shape}; {count} people with {self.width} "
                    f"features were asked for, shape ({count}, {self.width})"
                )
            return list(answer.T)
        if not isinstance(answer, Mapping) and not hasattr(answer, "columns"):
            raise DataError(
                f"{self.name}: returned {type(answer).__name__}; return an array ({count}, {self.width}), "
                "or a mapping or frame with a column for each feature"
            )
        present = [str(name) for name in (answer if isinstance(answer, Mapping) else answer.columns)]
        columns = []
        for feature in self._features:
            name = feature.name if feature.name in present or feature.column is None else feature.column
            if name not in present:
                raise DataError(f'{self.name}: there is no column "{name}"; {suggest(name, present)}')
            columns.append(np.asarray(answer[name]))
        return columns

    def _indices(self, feature: CategoryFeature, column: NDArray[Any]) -> NDArray[np.float64]:
        """Categories by their names, or by what tables call them."""
        index = {str(cell): place for place, cell in enumerate(feature.cells or ())}
        index |= {str(value): place for place, value in enumerate(feature.values)}
        names, places = np.unique(column.astype(str), return_inverse=True)
        for name in names.tolist():
            if name not in index:
                raise DataError(
                    f'{self.name}: column "{feature.name}" has "{name}", which is not one of its values; '
                    f"{suggest(name, list(index))}"
                )
        found: NDArray[np.float64] = np.array([index[name] for name in names.tolist()], np.float64)[places]
        return found

    def _numbers(self, feature: Feature, column: NDArray[Any]) -> NDArray[np.float64]:
        """Numbers in the feature's range, whole where they must be."""
        domain = domain_of(feature)
        try:
            values = column.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f'{self.name}: column "{feature.name}" must hold numbers only') from None
        wrong = ~domain.holds(values)
        if not domain.real:
            wrong |= values != np.floor(values)
        if wrong.any():
            row = int(wrong.argmax())
            kind = "number" if domain.real else "whole number"
            what = "index of a category, a whole number" if isinstance(feature, CategoryFeature) else kind
            raise DataError(
                f'{self.name}: column "{feature.name}" has {values[row]:g} in row {row}; '
                f"it must be {'an' if what[0] == 'i' else 'a'} {what} from {domain.low:g} to {domain.high:g}"
            )
        return values


@dataclass(frozen=True)
class FunctionRounds:
    """The draws of one chunk, made when they are first shown."""

    population: FunctionPopulation
    address: tuple[int, int, int, int]
    _drawn: dict[int, Inputs] = field(default_factory=dict)

    def inputs(self, groups: Sequence[int]) -> Inputs:
        """Feature values, one block of rows after another for each arm: (arms * rounds, features)."""
        return np.concatenate([self.show(group) for group in groups])

    def show(self, group: int) -> Inputs:
        """The people of one arm, (rounds, features), or everybody if not exact."""
        key = self.population.shows(group)
        if key not in self._drawn:
            self._drawn.clear()
            self._drawn[key] = self.population.people(self.address, group)
        return self._drawn[key]


def _takes_group(name: str, function: Callable[..., Any]) -> bool:
    """Whether the function wants to know the group."""
    if not callable(function):
        raise DataError(f"{name}: is no function; {FORMS}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    by_group = "group" in signature.parameters
    try:
        signature.bind(None, 0, **({"group": None} if by_group else {}))
    except TypeError:
        raise DataError(f"{name}: cannot be called with a generator and a number of people; {FORMS}") from None
    return by_group
