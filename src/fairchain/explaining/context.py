"""The context of an explanation: the case, the population that draws inputs for every group, and the network, if any.

For a table, a round shows one row of each group, drawn with replacement; if individuals are compared, every row is
shown as every group instead. The results are about these rows, even if they are a sample of a larger population.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.models import Model, OnnxModel
from fairchain.populations import Population, Rounds, Scratch
from fairchain.populations.streams import Address, unit_reals
from fairchain.prepare import GROUPED_ROWS, Case, group_population
from fairchain.spec import Group, Individual, Spec, Table
from fairchain.spec.subgroups import subgroups_of_groups
from fairchain.spec.validate import refuse_shift
from fairchain.statements import rows_phrase
from fairchain.tables import TableRows

Values = NDArray[np.floating]
# Addresses of chunks, disjoint from those of verdicts and chains: the counted inputs, a pilot, and the donors whose
# activations replace those of the inputs, with the group of each donor.
INPUTS, PILOT_ADDRESS, DONORS, DONOR_GROUPS = (2**42 + part * 2**40 for part in range(4))
# Rounds in a chunk: fewer if there are many groups, so that a chunk fits into memory.
MOST_CHUNK, MOST_CHUNK_ROWS, LEAST_CHUNK = 4096, 2**16, 256
SEVERAL_TRUE_LABELS = (
    'property.criterion: "{criterion}" compares several true labels at once; to explain one of them write criterion = '
    '"equal_opportunity" and outcome = "..."'
)
SEVERAL_VALUES = (
    '{source}: group "{group}" has several values, and a row can be shown with only one; give "{name}" groups of '
    "single values"
)


@dataclass(frozen=True)
class ComparedPair:
    """Two groups, by index, and the label whose rates are compared.

    `changes`: different decisions are counted in either direction; with `any_label` for every label.
    """

    more: int
    less: int
    label: int
    changes: bool = False
    any_label: bool = False

    def values(self, labels: NDArray[np.integer]) -> NDArray[np.int8]:
        """Return the value of each round, -1, 0 or 1, from the labels, (2, rounds); the mean is the gap."""
        if self.any_label:
            changes: NDArray[np.int8] = (labels[0] != labels[1]).astype(np.int8)
            return changes
        first, second = (labels == self.label).astype(np.int8)
        values: NDArray[np.int8] = np.abs(first - second) if self.changes else first - second
        return values


@dataclass(frozen=True, eq=False)
class EffectContext:
    """A case with the population and the groups that are explained.

    Parameters
    ----------
    case, model
        The case, and its model.
    population, groups
        The population draws for every group; for a table it draws rows, and groups without rows are left out.
    shares
        (groups,): probability of each group among these groups; equal if unknown.
    rows
        Rows in which witnesses are searched.
    """

    case: Case
    model: Model
    population: Population
    groups: tuple[Group, ...]
    shares: NDArray[np.float64]
    rows: TableRows | None

    @property
    def spec(self) -> Spec:
        """The question."""
        return self.case.spec

    @property
    def network(self) -> OnnxModel | None:
        """The network, whose neurons can be intervened on; None for a model that can only be evaluated."""
        return self.model if isinstance(self.model, OnnxModel) else None

    @property
    def chunk(self) -> int:
        """Number of rounds in a chunk: it depends on the question only, not on the workers."""
        return max(LEAST_CHUNK, min(MOST_CHUNK, MOST_CHUNK_ROWS // len(self.groups)))

    @property
    def outcomes(self) -> tuple[int, ...]:
        """The labels that are counted: those of the comparison, or all if any change of a decision counts."""
        return self.case.comparison.outcomes or tuple(range(len(self.spec.model.labels)))

    def inputs(self, chunk: int, count: int) -> Iterator[NDArray[np.floating]]:
        """Yield the inputs of a chunk as each group in turn; each array is valid until the next one."""
        rounds = self.population.rounds(self.case.seed.value, chunk, count)
        for group in range(len(self.groups)):
            yield rounds.show(group)

    def donors(self, chunk: int, count: int) -> NDArray[np.floating]:
        """Draw one further input for each round of a chunk, of a random group with the groups' shares."""
        words = Address(self.case.seed.value, DONOR_GROUPS + chunk).halfwords(2 * count)
        edges = np.cumsum(self.shares)[:-1]
        group = np.searchsorted(edges, unit_reals(words[:count], words[count:]), side="right")
        shown = self.inputs(DONORS + chunk, count)
        chosen = next(shown).copy()
        for number, inputs in enumerate(shown, start=1):
            chosen[group == number] = inputs[group == number]
        return chosen


def context_of(case: Case, witnesses: TableRows | None = None) -> EffectContext:
    """Return the context of a case; witnesses are searched in these rows, by default in those of the case."""
    check_explainable(case.spec)
    if case.rows is not None and case.rows.repeats is not None:
        raise DataError(GROUPED_ROWS.format(source=case.rows.source))
    model = case.model
    assert model is not None
    population: Population
    if isinstance(case.spec.population, Table):
        population = rows = RowPopulation(case, model.dtype)
        groups = rows.groups
    else:
        population, groups = group_population(case), case.groups
    known = population.shares()
    total = float(sum(known)) if known is not None else 0.0
    shares = np.array(known, float) / total if total else np.full(len(groups), 1 / len(groups))
    # A text is not changed by replacing columns: pairs of texts are drawn.
    own = None if case.spec.text is not None else case.rows
    return EffectContext(case, model, population, groups, shares, own if witnesses is None else witnesses)


def check_explainable(spec: Spec) -> None:
    """Raise a SpecError if there is no model, or if true labels are needed and unknown."""
    refuse_shift(spec, "an explanation")
    if getattr(spec.population, "prediction", None) is not None:
        raise SpecError("population.prediction: recorded decisions have no model that could be explained; remove it")
    parity = getattr(spec.property, "criterion", "demographic_parity") == "demographic_parity"
    if not parity and not isinstance(spec.population, Table):
        raise SpecError('property.criterion: without rows there are no true labels; write "demographic_parity"')


class RowPopulation(Population):
    """The rows of a case's table, with equal weight in each group; groups without rows are left out."""

    def __init__(self, case: Case, dtype: DTypeLike) -> None:
        spec, rows = case.spec, case.rows
        assert rows is not None
        assert case.concerned is not None
        assert case.members is not None
        labelled = np.ones(len(rows.values), bool)
        criterion = getattr(spec.property, "criterion", "demographic_parity")
        if criterion != "demographic_parity":
            if criterion != "equal_opportunity" or spec.property.outcome is None or rows.truth is None:
                raise SpecError(SEVERAL_TRUE_LABELS.format(criterion=criterion))
            labelled = rows.truth == spec.model.labels.index(spec.property.outcome)
        masks = case.members & labelled
        sizes = masks.sum(axis=1)
        kept = np.flatnonzero(sizes).tolist()
        if len(kept) < 2:
            raise DataError(f"{rows.source}: only {len(kept)} groups have rows, and two are needed")
        self.groups: tuple[Group, ...] = tuple(case.groups[number] for number in kept)
        self._sizes = tuple(float(sizes[number]) for number in kept)
        super().__init__(subgroups_of_groups(self.groups), rows.values.shape[1], dtype)
        values = rows.values.astype(dtype)
        phrase = rows_phrase(len(rows.values), rows.source, exact=True, given=spec.property.given)
        if isinstance(spec.property, Individual):
            for group in self.groups:
                for protected, domain in zip(spec.protected, group.domains, strict=True):
                    if domain.size != 1:
                        raise DataError(SEVERAL_VALUES.format(source=rows.source, group=group.name, name=protected))
            concerned = values[case.concerned & labelled]
            self._tables = [shown_as(concerned, spec, group) for group in self.groups]
            self._phrase = f"{phrase}, each as every group"
        else:
            self._tables = [values[masks[number]] for number in kept]
            self._phrase = f"{phrase}, those of a group with equal weight"

    def __str__(self) -> str:
        return self._phrase

    def shares(self) -> tuple[float, ...]:
        """Return the number of rows of each group."""
        return self._sizes

    def draw(self, address: Address, count: int, _scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address: a position in [0, 1) for each round, the same for all groups."""
        words = address.halfwords(2 * count)
        places = unit_reals(words[:count], words[count:])

        def show(subgroup: int) -> Values:
            table = self._tables[subgroup]
            chosen: Values = table[(places * len(table)).astype(np.int64)]
            return chosen

        return Rounds(show)


def shown_as(values: Values, spec: Spec, group: Group) -> Values:
    """Return all rows as a group: with their own protected values if they belong to it, otherwise with a middle one."""
    names = [feature.name for feature in spec.features]
    shown = values.copy()
    for protected, domain in zip(spec.protected, group.domains, strict=True):
        column = shown[:, names.index(protected)]
        middle = (domain.low + domain.high) / 2 if domain.real else (domain.low + domain.high) // 2
        middle = domain.points[len(domain.points) // 2] if domain.points else middle
        column[~domain.holds(column)] = middle
    return shown
