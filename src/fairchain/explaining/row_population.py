"""Rows of a table as people who can be drawn: each group's own rows, one of them at random in each round.

Where the same person is to be compared as each group, every row is shown as every group instead. What is found out in
this way is about these rows, whether they are everybody or a sample of a larger population.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.populations import Population, Rounds, Scratch
from fairchain.populations.streams import Address, unit_reals
from fairchain.prepare import Case
from fairchain.spec import Group, Individual, Spec
from fairchain.spec.subgroups import subgroups_of_groups
from fairchain.statements import rows_phrase
from fairchain.tables import TableRows

Values = NDArray[np.floating]


class RowPopulation(Population):
    """Draws rows of a table with replacement.

    Groups without rows are left out.

    Parameters
    ----------
    case
        About the rows of a table.
    dtype
        Of the feature values handed out.
    """

    def __init__(self, case: Case, dtype: Any) -> None:
        spec, rows = case.spec, case.rows
        assert rows is not None
        assert case.concerned is not None
        assert case.members is not None
        right = _with_true_label(rows, spec)
        masks = case.members & right
        sizes = masks.sum(axis=1)
        kept = np.flatnonzero(sizes).tolist()
        if len(kept) < 2:
            raise DataError(f"{rows.source}: {len(kept)} groups have at least 1 row, and two are needed")
        self.groups: tuple[Group, ...] = tuple(case.groups[number] for number in kept)
        self._sizes = tuple(float(sizes[number]) for number in kept)
        super().__init__(subgroups_of_groups(self.groups), rows.values.shape[1], dtype)
        values = rows.values.astype(dtype)
        self._individual = isinstance(spec.property, Individual)
        self._tables = (
            [_shown_as(values[case.concerned & right], spec, group, rows.source) for group in self.groups]
            if self._individual
            else [values[masks[number]] for number in kept]
        )
        self._phrase = rows_phrase(len(rows.values), rows.source, exact=True, given=spec.property.given)

    def __str__(self) -> str:
        """In one phrase, for the statement."""
        return f"{self._phrase}, {'each as every group' if self._individual else 'those of a group with equal weight'}"

    def shares(self) -> tuple[float, ...]:
        """How many rows each group has."""
        return self._sizes

    def draw(self, address: Address, count: int, _scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address: a place between 0 and 1 for each round, the same for all groups."""
        words = address.halfwords(2 * count)
        places = unit_reals(words[:count], words[count:])

        def show(subgroup: int) -> Values:
            table = self._tables[subgroup]
            chosen: Values = table[(places * len(table)).astype(np.int64)]
            return chosen

        return Rounds(show)


def _shown_as(values: Values, spec: Spec, group: Group, source: str) -> Values:
    """Everybody with the protected features of a group."""
    names = [feature.name for feature in spec.features]
    shown = values.copy()
    for protected, domain in zip(spec.property.protected, group.domains, strict=True):
        if domain.size != 1:
            raise DataError(
                f'{source}: group "{group.name}" has several values, and a person of a table can be shown with one '
                f'only; give "{protected}" groups of single values'
            )
        shown[:, names.index(protected)] = domain.low
    return shown


def _with_true_label(rows: TableRows, spec: Spec) -> NDArray[np.bool_]:
    """Return (rows,): whether a row has the true label that the criterion is about; True where it is about none."""
    criterion = getattr(spec.property, "criterion", "demographic_parity")
    if criterion == "demographic_parity":
        return np.ones(len(rows.values), bool)
    if criterion != "equal_opportunity" or spec.property.outcome is None or rows.truth is None:
        raise SpecError(
            f'property.criterion: "{criterion}" compares several true labels at once; to explain one of them write '
            'criterion = "equal_opportunity" and outcome = "..."'
        )
    right: NDArray[np.bool_] = rows.truth == spec.model.labels.index(spec.property.outcome)
    return right
