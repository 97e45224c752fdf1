"""What is explained: a network that can be looked into and cut, the people it is shown, and their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError, SpecError
from fairchain.explaining.row_population import RowPopulation
from fairchain.models import Limits, OnnxModel
from fairchain.populations.streams import Address, unit_reals
from fairchain.prepare import Case, gather, read_question
from fairchain.spec import Group, Individual, Marginals, Ratio, Spec, Table
from fairchain.spec.seeds import Seed
from fairchain.tables import TableRows, encode_rows, read_table

# Chunks of people, far from those that verdicts and chains are counted on: a pilot, the people, and the donors whose
# activations are lent to them, each of a group that is drawn too.
PEOPLE, PILOT, DONORS, DONOR_GROUPS = (2**42 + part * 2**40 for part in range(4))
# Rounds in a chunk: fewer where there are many groups, so that a chunk fits into memory.
CHUNK, MOST_ROWS, FEWEST = 4096, 2**16, 256


@dataclass(frozen=True)
class ComparedPair:
    """Two groups, as numbers, and the label whose probabilities are compared; None for any change of the decision."""

    more: int
    less: int
    label: int
    changes: bool = False
    any_label: bool = False

    def values(self, labels: NDArray[np.integer]) -> NDArray[np.int8]:
        """What a round counts, -1, 0 or 1, from the labels of the two groups, (2, rounds); its mean is the gap."""
        if self.any_label:
            changes: NDArray[np.int8] = (labels[0] != labels[1]).astype(np.int8)
            return changes
        first, second = (labels == self.label).astype(np.int8)
        values: NDArray[np.int8] = np.abs(first - second) if self.changes else first - second
        return values


@dataclass(frozen=True, eq=False)
class EffectContext:
    """The network, the people, and the groups that are compared.

    `shares` are those of each group among all people, `rows` the people of a table if one was given.
    """

    spec: Spec
    model: OnnxModel
    population: Any
    groups: tuple[Group, ...]
    shares: NDArray[np.float64]
    rows: TableRows | None
    seed: Seed

    @property
    def chunk(self) -> int:
        """Rounds in a chunk: a matter of the question alone, never of the workers."""
        return max(FEWEST, min(CHUNK, MOST_ROWS // len(self.groups)))

    @property
    def outcomes(self) -> tuple[int, ...]:
        """The labels that are looked at; of two labels one is enough for a difference."""
        labels, asked = self.spec.model.labels, self.spec.property
        if asked.outcome is not None:
            return (labels.index(asked.outcome),)
        one = len(labels) == 2 and not isinstance(asked, Ratio | Individual)
        return (1,) if one else tuple(range(len(labels)))

    def people(self, chunk: int, count: int) -> Iterator[NDArray[np.floating]]:
        """The people of a chunk as each group in turn; each array is valid until the next."""
        rounds = self.population.rounds(self.seed.value, chunk, count)
        for group in range(len(self.groups)):
            yield rounds.show(group)

    def donors(self, chunk: int, count: int) -> NDArray[np.floating]:
        """One more person for each round of a chunk, of any group: as likely as its share of all people."""
        words = Address(self.seed.value, DONOR_GROUPS + chunk).halfwords(2 * count)
        edges = np.cumsum(self.shares)[:-1]
        group = np.searchsorted(edges, unit_reals(words[:count], words[count:]), side="right")
        chosen: NDArray[np.floating] | None = None
        for number, people in enumerate(self.people(DONORS + chunk, count)):
            chosen = people.copy() if chosen is None else chosen
            chosen[group == number] = people[group == number]
        assert chosen is not None
        return chosen


def context_of(
    model: Any,
    spec: Spec | str | Path,
    *,
    table: Any = None,
    population: Callable[..., Any] | None = None,
    seed: int | None = None,
    delta: float | None = None,
    limits: Limits | None = None,
) -> EffectContext:
    """Prepare what is explained; a table that the population is not about is used for witnesses only."""
    question = read_question(spec, guarantee__seed=seed, guarantee__delta=delta)
    own = isinstance(question.population, Table | Marginals)
    _must_be_possible(question, table)
    case = gather(model, question, table=table if own else None, population=population, limits=limits, draw="groups")
    return context_from(case, None if own or table is None else _rows_of_witnesses(case.spec, table))


def context_from(case: Case, witnesses: TableRows | None = None) -> EffectContext:
    """Return what is explained about a case that draws for groups.

    Parameters
    ----------
    case
        As `gather` or `case_of` return it with `draw="groups"`.
    witnesses
        Rows to look for witnesses in; by default those of the case.
    """
    asked, loaded = case.spec, case.model
    _must_be_possible(asked, None)
    if not isinstance(loaded, OnnxModel):
        assert loaded is not None
        raise ModelError(f"{loaded.name}: only a network that onnxruntime runs can be looked into; {loaded.note}")
    drawn = RowPopulation(case, loaded.dtype) if isinstance(asked.population, Table) else case.population
    groups = drawn.groups if isinstance(drawn, RowPopulation) else case.groups
    rows = case.rows if witnesses is None else witnesses
    return EffectContext(asked, loaded, drawn, groups, _shares(drawn, len(groups)), rows, case.seed)


def _must_be_possible(spec: Spec, table: Any) -> None:
    if getattr(spec.population, "prediction", None) is not None:
        raise SpecError("population.prediction: recorded decisions have no network that could be explained; remove it")
    if table is not None and spec.text is not None:
        raise SpecError("the network reads texts, and rows of a table were given; leave --rows (table=...) out")
    parity = getattr(spec.property, "criterion", "demographic_parity") == "demographic_parity"
    if not parity and not isinstance(spec.population, Table):
        raise SpecError('property.criterion: without rows there are no true labels; write "demographic_parity"')


def _rows_of_witnesses(spec: Spec, table: Any) -> TableRows:
    """Return rows of a table that the population is not about; those with missing values are left out."""
    population = Table(reading="population", drop_missing=True)
    return encode_rows(read_table(table), msgspec.structs.replace(spec, population=population))


def _shares(population: Any, groups: int) -> NDArray[np.float64]:
    """The share of each group among all people of the groups; where it is not known, all the same."""
    shares = population.shares()
    total = float(sum(shares)) if shares is not None else 0.0
    return np.array(shares, float) / total if total else np.full(groups, 1 / groups)
