"""Rows of a table as a population: in each round one row of each group, drawn with replacement.

Where individuals are compared, every row is shown as every group instead. The results are about these rows, also where
they are a sample of a larger population.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fairchain.errors import DataError, SpecError
from fairchain.populations import Population, Rounds, Scratch
from fairchain.populations.streams import Address, unit_reals
from fairchain.prepare import Case
from fairchain.spec import Group, Individual, Spec
from fairchain.spec.subgroups import subgroups_of_groups
from fairchain.statements import rows_phrase
from fairchain.tables import TableRows

Values = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class RowRounds(Rounds):
    """The draws of one chunk: a quantile for each round, the same for all groups."""

    quantiles: NDArray[np.float64]
    tables: Sequence[Values]

    def show(self, subgroup: int, /) -> Values:
        """Return the rows that were drawn for one group."""
        table = self.tables[subgroup]
        chosen: Values = table[(self.quantiles * len(table)).astype(np.int64)]
        return chosen


class RowPopulation(Population):
    """The rows of a table, with equal weight in each group; groups without rows are left out.

    Parameters
    ----------
    case
        About the rows of a table.
    dtype
        Of the feature values.
    """

    def __init__(self, case: Case, dtype: DTypeLike) -> None:
        spec, rows = case.spec, case.rows
        assert rows is not None
        assert case.concerned is not None
        assert case.members is not None
        labelled = _with_true_label(rows, spec)
        masks = case.members & labelled
        sizes = masks.sum(axis=1)
        kept = np.flatnonzero(sizes).tolist()
        if len(kept) < 2:
            raise DataError(f"{rows.source}: {len(kept)} groups have at least 1 row, and two are needed")
        self.groups: tuple[Group, ...] = tuple(case.groups[number] for number in kept)
        self._sizes = tuple(float(sizes[number]) for number in kept)
        super().__init__(subgroups_of_groups(self.groups), rows.values.shape[1], dtype)
        values = rows.values.astype(dtype)
        phrase = rows_phrase(len(rows.values), rows.source, exact=True, given=spec.property.given)
        if isinstance(spec.property, Individual):
            concerned = values[case.concerned & labelled]
            self._tables = [_shown_as(concerned, spec, group, rows.source) for group in self.groups]
            self._phrase = f"{phrase}, each as every group"
        else:
            self._tables = [values[masks[number]] for number in kept]
            self._phrase = f"{phrase}, those of a group with equal weight"

    def __str__(self) -> str:
        return self._phrase

    def shares(self) -> tuple[float, ...]:
        """Return the number of rows of each group."""
        return self._sizes

    def draw(self, address: Address, count: int, _scratch: Scratch, _subgroups: Sequence[int], /) -> RowRounds:
        """Draw `count` rounds at an address."""
        words = address.halfwords(2 * count)
        return RowRounds(unit_reals(words[:count], words[count:]), self._tables)


def _shown_as(values: Values, spec: Spec, group: Group, source: str) -> Values:
    """Return all rows with the protected features of a group."""
    names = [feature.name for feature in spec.features]
    shown = values.copy()
    for protected, domain in zip(spec.property.protected, group.domains, strict=True):
        if domain.size != 1:
            raise DataError(
                f'{source}: group "{group.name}" has several values, and a row can be shown with one only; '
                f'give "{protected}" groups of single values'
            )
        shown[:, names.index(protected)] = domain.low
    return shown


def _with_true_label(rows: TableRows, spec: Spec) -> NDArray[np.bool_]:
    """Return (rows,): whether a row has the true label that the criterion conditions on; True where it has none."""
    criterion = getattr(spec.property, "criterion", "demographic_parity")
    if criterion == "demographic_parity":
        return np.ones(len(rows.values), bool)
    if criterion != "equal_opportunity" or spec.property.outcome is None or rows.truth is None:
        raise SpecError(
            f'property.criterion: "{criterion}" compares several true labels at once; to explain one of them write '
            'criterion = "equal_opportunity" and outcome = "..."'
        )
    labelled: NDArray[np.bool_] = rows.truth == spec.model.labels.index(spec.property.outcome)
    return labelled
