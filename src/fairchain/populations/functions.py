"""Inputs drawn by a Python function of the caller, in one of two declared forms.

Independent: `f(rng, count)` for the overall population, or `f(rng, count, group)` for one group. Every group gets its
own generator, so the rows of two groups in a round are independent, however many numbers the function uses. Coupled:
`Coupled(f, uniforms=m)` with `f(u, group)`, where `u` has a row of m uniform numbers for each round and every group
gets the same `u`. Each row of the result must be a function of its own row of `u`, and this is checked.

Values are also checked row by row, because a value outside of a feature's range or a row of another group would void
the verdict. numpy does not promise that the methods of its generators give the same numbers in every version, and a
function can be changed: runs on such a population have no certificate.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import near, unknown
from fairchain.populations.base import FeaturePopulation, Inputs, Rounds, Scratch
from fairchain.populations.streams import Address, unit_reals
from fairchain.spec import CategoryFeature, Feature, ProbabilityFormula, Spec, domain_of
from fairchain.spec.subgroups import Subgroup
from fairchain.system.user_code import user_code
from fairchain.tables.frames import has_masked

# Number of rows drawn before the run, to check that the function draws only from the generator, or row by row.
TRIAL, TRIAL_COUPLED = 8, 64
# Number of chunks in which a coupled function computes every row a second time, in another order; in later ones every
# eighth row on average, and at least this many. And the stream of these choices.
WHOLE_CHUNKS, EACH, LEAST, CHECK_SUBSTREAM = 16, 8, 8, 2**61
# Number of trial rows that it computes again with them: their results must not change during a run.
RECOMPUTED_ROWS = 4
# Rounding of sums in another order, relative to a feature's range, which is not a dependence on other rows.
FUNCTION_ROUNDING = 1e-9
# Uniform numbers for each round: 8192 rounds of them take 256 MiB.
MOST_UNIFORMS = 4096
FORMS = (
    "write it as f(rng, count) for the overall population, as f(rng, count, group) for one group, or pass "
    "fairchain.Coupled(f, uniforms=m) for f(u, group)"
)
COUPLED_FORMS = "write it as f(u, group) for one group, or as f(u) for the overall population"
ROWS_NOT_INDEPENDENT = (
    "{name}: a row of the result depends on other rows of u, or changes from call to call; compute each row from its "
    "own row of u alone, or write f(rng, count, group)"
)
FUNCTION_FAILED = "the function failed:"


@dataclass(frozen=True)
class Coupled:
    """A function that turns uniform random numbers into inputs, with common random numbers for all groups.

    Parameters
    ----------
    function
        A function `f(u, group)`. `u` is a read-only array of shape (rounds, uniforms) with independent uniform numbers
        in [0, 1), and `group` is the name of a group, or None for the overall population. The function returns one
        input of the group for each row of `u`. The result is an array of shape (rounds, features) with categories as
        indices, or a mapping or frame with a column for each feature. Each returned row must depend only on its own row
        of `u`. This condition is checked for every row of the first 16 chunks, and for about an eighth of the rows of
        later chunks. Suppose that n later chunks contain rows that violate the condition. Then all these rows escape
        detection with probability at most exp(-n/9). A function `f(u)` without `group` draws from the overall
        population, and fairchain selects the members of each group.
    uniforms
        Number of uniform numbers that one input needs, from 1 to 4096.

    Examples
    --------
    >>> import numpy as np
    >>> def applicants(u, group):
    ...     return np.column_stack([np.full(len(u), group == "sex=Male"), np.floor(80 * u[:, 0])])
    >>> Coupled(applicants, uniforms=1).uniforms
    1
    """

    function: Callable[..., Any]
    uniforms: int

    def __post_init__(self) -> None:
        whole = isinstance(self.uniforms, int) and not isinstance(self.uniforms, bool)
        if not whole or not 1 <= self.uniforms <= MOST_UNIFORMS:
            raise DataError(
                f"{_name_of(self.function)}: uniforms is {self.uniforms!r}; give the number of uniform random numbers "
                f"that one input needs, a whole number from 1 to {MOST_UNIFORMS:,}"
            )

    def __call__(self, u: Inputs, **group: Any) -> Any:
        """Call the function."""
        return self.function(u, **group)


class FunctionPopulation(FeaturePopulation):
    """A population whose inputs a Python function draws; `name` is its name in messages.

    The function takes a numpy `Generator` and the number of rows to draw, all independent of each other. If it also has
    a parameter `group`, it gets the name of a group (None for all) and draws rows of that group; otherwise it draws
    from the overall population, and `accepts` selects the rows of a subgroup. It returns an array (count, features)
    with categories as their index, or a mapping or frame with a column for each feature, categories by name. A
    `Coupled` function gets uniform numbers instead.

    Raises a DataError if the function cannot be called in this form, fails, returns anything other than such rows, or
    is declared as coupled and does not compute each row from its own row of `u`.
    """

    def __init__(
        self,
        spec: Spec,
        subgroups: Sequence[Subgroup] | None,
        function: Callable[..., Any],
        dtype: DTypeLike = np.float32,
        name: str | None = None,
    ) -> None:
        super().__init__(spec, subgroups, dtype)
        self._uniforms = function.uniforms if isinstance(function, Coupled) else None
        self._function = function.function if isinstance(function, Coupled) else function
        self.name = name or _name_of(self._function)
        self._features = spec.features
        # Tolerance for rounding in each column: 0 for integers.
        domains = [domain_of(feature) for feature in spec.features]
        self._rounding = np.array([FUNCTION_ROUNDING * (d.high - d.low) if d.real else 0.0 for d in domains])
        self._by_group = _takes_group(self.name, self._function, coupled=self._uniforms is not None)
        if self._by_group and isinstance(spec.property, ProbabilityFormula):
            raise SpecError(
                f"{self.name}: takes a group, and the conditions of a formula are not groups of a feature; write it "
                "as f(rng, count) for the overall population, to which the conditions are applied"
            )
        # The caller's function may not be thread-safe.
        self._one_at_a_time = threading.Lock()
        # For each number of `shows`, rows of `u` from the trial of a coupled function, and their values.
        self._kept: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
        self._try()

    def __str__(self) -> str:
        return f"the inputs that the Python function {self.name} draws"

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions about the function that cannot be checked."""
        if self._uniforms is not None:
            return ()
        return (
            f"{self.name}: the rows of one call are assumed to be independent draws of one distribution; only a "
            "function passed as fairchain.Coupled is checked",
        )

    @property
    def exact(self) -> bool:
        """Whether every subgroup is shown its own rows; otherwise `accepts` selects them."""
        return self._by_group or all(subgroup.group is None for subgroup in self.subgroups)

    def draw(self, address: Address, count: int, _scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address: they are the same as long as function and numpy are."""
        # The rows of one subgroup at a time, because many subgroups would need much memory.
        drawn: dict[int, Inputs] = {}

        def show(subgroup: int) -> Inputs:
            key = self.shows(subgroup)
            if key not in drawn:
                drawn.clear()
                drawn[key] = self.values_of(address, count, subgroup)
            return drawn[key]

        return Rounds(show)

    def values_of(self, address: Address, count: int, subgroup: int) -> Inputs:
        """Call the function for a subgroup: with its own generator, or with the uniforms that all subgroups share."""
        if self._uniforms is None:
            return self._call(subgroup, count, _generator(address, self.shows(subgroup)), count).astype(self.dtype)
        u = _uniforms(address, count, self._uniforms)
        values = self._call(subgroup, count, u)
        rows = _checked_again(address, count, CHECK_SUBSTREAM + self.shows(subgroup))
        first_u, first_values = self._kept[self.shows(subgroup)]
        self._check_rows(subgroup, np.concatenate([u[rows], first_u]), np.concatenate([values[rows], first_values]))
        return values.astype(self.dtype)

    def shows(self, subgroup: int) -> int:
        """Return a number; subgroups with the same number show the same rows."""
        return subgroup if self._by_group else 0

    def _call(self, subgroup: int, count: int, *arguments: Any) -> NDArray[np.float64]:
        """Call the function and check its result: `count` rows of a subgroup."""
        group = self.subgroups[subgroup].group
        extra = {"group": None if group is None else group.name} if self._by_group else {}
        with self._one_at_a_time, user_code(self.name, FUNCTION_FAILED, DataError):
            answer = self._function(*arguments, **extra)
        values = self._checked(answer, count)
        if self._by_group and group is not None and not (belong := self.belong(subgroup, values)).all():
            raise DataError(
                f"{self.name}: {int((~belong).sum())} of {count} rows do not belong to the requested group "
                f'"{group.name}"; return only rows of that group, or leave the parameter group out'
            )
        return values

    def _check_rows(self, subgroup: int, u: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Compute rows again, in another order and among other rows: each must have the same values as before."""
        again = self._call(subgroup, len(u), _read_only(u))
        if (np.abs(again - values) > self._rounding).any():
            raise DataError(ROWS_NOT_INDEPENDENT.format(name=self.name))

    def _try(self) -> None:
        """Refuse, before the run, a function with internal state, or a coupled one whose rows depend on each other."""
        for subgroup in {self.shows(subgroup): subgroup for subgroup in range(len(self.subgroups))}.values():
            if self._uniforms is None:
                # Rounds are drawn again by address, so a generator in the same state must give the same rows.
                once, again = (self.values_of(Address(0, 0), TRIAL, subgroup) for _ in range(2))
                if not np.array_equal(once, again):
                    raise DataError(
                        f"{self.name}: two calls with a generator in the same state gave different rows; "
                        "draw every random number from rng, and keep nothing between two calls"
                    )
                continue
            # Permuted, split and repeated rows of `u` must give permuted, split and repeated rows of the result.
            u = _uniforms(Address(0, 0), TRIAL_COUPLED, self._uniforms)
            values = self._call(subgroup, TRIAL_COUPLED, u)
            order = np.random.Generator(np.random.Philox(0)).permutation(TRIAL_COUPLED)
            for rows in (order, order[:1], order[:5], order[5:], np.repeat(order[:7], 3), np.full(3, order[-1])):
                self._check_rows(subgroup, u[rows], values[rows])
            self._kept[self.shows(subgroup)] = u[:RECOMPUTED_ROWS], values[:RECOMPUTED_ROWS]

    def _checked(self, answer: Any, count: int) -> NDArray[np.float64]:
        """Return the function's result as a matrix of valid values."""
        if has_masked(answer) or (isinstance(answer, Mapping) and any(map(has_masked, answer.values()))):
            raise DataError(f"{self.name}: returned masked values; return a value for every cell")
        is_array = isinstance(answer, np.ndarray)
        if is_array and answer.shape != (count, self.width):
            raise DataError(
                f"{self.name}: returned an array of shape {answer.shape}; {count} rows with {self.width} "
                f"features were requested, shape ({count}, {self.width})"
            )
        if not is_array and not isinstance(answer, Mapping) and not hasattr(answer, "columns"):
            raise DataError(
                f"{self.name}: returned {type(answer).__name__}; return an array ({count}, {self.width}), "
                "or a mapping or frame with a column for each feature"
            )
        present = [] if is_array else [str(each) for each in getattr(answer, "columns", answer)]
        values = np.empty((count, self.width))
        for place, feature in enumerate(self._features):
            if is_array:
                values[:, place] = self._numbers(feature, answer[:, place])
                continue
            name = feature.name if feature.name in present or feature.column is None else feature.column
            if name not in present:
                raise DataError(f"{self.name}: {unknown('column', name, present)}")
            column = np.asarray(answer[name])
            if column.shape != (count,):
                raise DataError(
                    f'{self.name}: column "{feature.name}" has shape {column.shape}, and {count} rows were requested; '
                    "return one value for each"
                )
            if isinstance(feature, CategoryFeature):
                values[:, place] = self._indices(feature, column)
            else:
                values[:, place] = self._numbers(feature, column)
        return values

    def _indices(self, feature: CategoryFeature, column: NDArray[Any]) -> NDArray[np.float64]:
        """Return the index of categories given by their names, or by their aliases."""
        index = {str(cell): place for place, cell in enumerate(feature.aliases or ())}
        index |= {str(value): place for place, value in enumerate(feature.values)}
        found, places = np.unique(column.astype(str), return_inverse=True)
        names = found.tolist()
        if (wrong := next((name for name in names if name not in index), None)) is not None:
            raise DataError(
                f'{self.name}: column "{feature.name}" has "{wrong}", which is not one of its values; '
                f"{near(wrong, list(index))}"
            )
        values: NDArray[np.float64] = np.array([index[name] for name in names], np.float64)[places]
        return values

    def _numbers(self, feature: Feature, column: NDArray[Any]) -> NDArray[np.float64]:
        """Return numbers in the feature's range, integers if required."""
        domain = domain_of(feature)
        try:
            values = column.astype(np.float64)
        except (TypeError, ValueError):
            raise DataError(f'{self.name}: column "{feature.name}" must contain only numbers') from None
        wrong = ~domain.holds(values) | (False if domain.real else values != np.floor(values))
        if wrong.any():
            row = int(wrong.argmax())
            kind = "number" if domain.real else "whole number"
            what = "index of a category, a whole number" if isinstance(feature, CategoryFeature) else kind
            raise DataError(
                f'{self.name}: column "{feature.name}" has {values[row]:g} in row {row}; '
                f"it must be {'an' if what[0] == 'i' else 'a'} {what} from {domain.low:g} to {domain.high:g}"
            )
        return values


def _generator(address: Address, substream: int) -> np.random.Generator:
    """Return a generator with its own key, so that `jumped` and `spawn` never reach another substream."""
    # Words of fixed length, because numbers that are split into a variable number of words could be confused.
    words = [address.seed >> shift & 0xFFFFFFFF for shift in range(0, 128, 32)]
    words += [number >> shift & 0xFFFFFFFF for number in (address.chunk, address.copy, substream) for shift in (0, 32)]
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(words)))


def _checked_again(address: Address, count: int, substream: int) -> NDArray[np.intp]:
    """Return the rows of a chunk to compute a second time: all of the first chunks in another order, then some."""
    if address.chunk < WHOLE_CHUNKS:
        return np.argsort(address.halfwords(count, substream), kind="stable")
    return address.integers(count, max(LEAST, count // EACH), substream).astype(np.intp)


def _uniforms(address: Address, count: int, uniforms: int) -> NDArray[np.float64]:
    """Return an array (rounds, uniforms) of independent uniform numbers in [0, 1) with 53 random bits."""
    words = address.halfwords(2 * count * uniforms)
    return _read_only(unit_reals(*words.reshape(2, -1)).reshape(count, uniforms))


def _read_only(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Make an array read-only: a function that overwrites its `u` would change the input of the next group."""
    u.flags.writeable = False
    return u


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _takes_group(name: str, function: Callable[..., Any], *, coupled: bool) -> bool:
    """Return whether the function takes the group."""
    forms = COUPLED_FORMS if coupled else FORMS
    if not callable(function):
        raise DataError(f"{name}: not a function; {forms}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    by_group = "group" in signature.parameters
    try:
        signature.bind(*([None] if coupled else [None, 0]), **({"group": None} if by_group else {}))
    except TypeError:
        given = "an array of uniforms" if coupled else "a generator and a number of rows"
        raise DataError(f"{name}: cannot be called with {given}; {forms}") from None
    return by_group
