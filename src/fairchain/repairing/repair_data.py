"""The data of a repair: a seed for every purpose, inputs on which gaps are measured, and labelled rows.

Seeds are derived from the user's seed by a hash, so that the draws of the final verification differ from those of the
selection. They key the counter-based generator: streams for different purposes coincide only if 63 random bits do.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.messages import shown
from fairchain.prepare import Case, case_of
from fairchain.spec import Marginals, Spec, Table, TextFeature, Texts
from fairchain.statistics.payoff import gaps_of
from fairchain.tables import encode_named_or_numbered, read_table
from fairchain.tables.read import RawTable
from fairchain.tables.rows import label_values
from fairchain.verification.counting import count_rows

# Purposes of the random numbers of a repair.
SEARCH_SEED, REFINE_SEED, SPLIT_SEED = "search", "refine", "split"
OPTIMIZER_SEED, PRICE_SEED, CERTIFICATE_SEED = "optimizer", "price", "certificate"
# Rounds that are drawn at once.
DRAWN_AT_ONCE = 4096
# Fewer rows than this on either side give no useful accuracy.
LEAST_ROWS = 20
TOO_FEW_LABELLED = (
    "{rows:,} labelled rows are too few for a search on one half and a hold-out of the other; "
    f"give at least {2 * LEAST_ROWS}, or none to keep agreement with the original network instead"
)
# The column of true labels if none is named.
LABEL = "label"
LABEL_NOT_NAMED = (
    "{source}: labelled: it is not stated which column has the true labels; name it with --label (label=...), one of "
    "{names}"
)
LabelArray = NDArray[np.integer]


def seed_for(seed: int, purpose: str, number: int = 0) -> int:
    """Return the seed of a purpose, a deterministic function of the arguments.

    >>> seed_for(0, SEARCH_SEED) == seed_for(0, SEARCH_SEED), seed_for(0, SEARCH_SEED) == seed_for(0, CERTIFICATE_SEED)
    (True, False)
    """
    text = f"fairchain repair 1, {purpose}, {number}, seed {seed}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


@dataclass(frozen=True, eq=False)
class SearchInputs:
    """Inputs of a case, (inputs, features): coupled rounds, one block for each subgroup, or all rows of a table."""

    case: Case
    values: NDArray[np.floating]

    def gap(self, labels: LabelArray) -> float:
        """Return the largest gap over pairs and outcomes, 0 if all rates are equal; for a ratio, 1 minus the ratio."""
        comparison = self.case.comparison
        if self.case.population is None:
            rates = count_rows(self.case, labels).counts.rates
        else:
            counted = comparison.fold(labels.reshape(len(comparison.subgroups), -1))
            rates = np.array([(counted == outcome).mean(axis=1) for outcome in comparison.rows])
        return max(0.0, float(gaps_of(rates, rates, comparison.measure)[comparison.compared].max()))


def inputs_of(case: Case, seed: int, count: int, rounds: int | None = None) -> SearchInputs:
    """Draw about this many inputs over all subgroups, or this many rounds; for a table take all rows."""
    if case.population is None:
        assert case.rows is not None
        return SearchInputs(case, case.rows.values)
    subgroups = range(len(case.comparison.subgroups))
    rounds = rounds or max(1024, count // len(subgroups))
    parts = [
        case.population.rounds(seed, chunk, min(DRAWN_AT_ONCE, rounds - start)).inputs(subgroups)
        for chunk, start in enumerate(range(0, rounds, DRAWN_AT_ONCE))
    ]
    width = parts[0].shape[1]
    values = np.concatenate([part.reshape(len(subgroups), -1, width) for part in parts], axis=1)
    return SearchInputs(case, values.reshape(-1, width))


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows: features or words, and the index of each true label; `whole` if they are all of a population."""

    values: NDArray[Any]
    truth: NDArray[np.integer]
    whole: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def sha256(self) -> str:
        """The hash of the rows and their labels."""
        digest = hashlib.sha256(f"fairchain labelled rows 1, {self.values.shape}, {self.values.dtype}".encode())
        if self.values.dtype == object:
            digest.update(json.dumps(self.values[:, 0].tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(self.values).data)
        digest.update(self.truth.astype("<i8").data)
        return digest.hexdigest()

    def part(self, rows: NDArray[np.integer]) -> LabelledRows:
        """Return some of the rows."""
        return LabelledRows(self.values[rows], self.truth[rows], self.whole)

    def shuffled(self, seed: int) -> LabelledRows:
        """Return the rows in random order: a file may be sorted, and the search uses only its first rows."""
        random = np.random.Generator(np.random.Philox(seed_for(seed, SPLIT_SEED)))
        return self.part(random.permutation(len(self)))

    def split(self, seed: int) -> tuple[LabelledRows, LabelledRows]:
        """Return two random halves, one for the search and one held out; each row of the table is in one of them.

        Equal rows may be in both halves: with all of them in one, the held-out half would no longer be a sample of
        the population of the rows.
        """
        if len(self) < 2 * LEAST_ROWS:
            raise DataError(TOO_FEW_LABELLED.format(rows=len(self)))
        mixed, half = self.shuffled(seed), len(self) // 2
        return mixed.part(np.arange(half)), mixed.part(np.arange(half, len(self)))

    def in_common(self, other: LabelledRows) -> int:
        """Return the number of rows of the other table that equal a row of this one, including the label."""
        seen = set(self._rows())
        return sum(row in seen for row in other._rows())

    def _rows(self) -> list[Any]:
        """Return each row with its label as a comparable value."""
        if self.values.dtype == object:
            return list(zip(self.values[:, 0].tolist(), self.truth.tolist(), strict=True))
        return [row.tobytes() for row in np.column_stack([self.values, self.truth])]


def labelled_rows_of(case: Case) -> LabelledRows | None:
    """Return the rows of a table, or the texts, with the true labels that the spec names; None without such a column.

    A corpus is the whole population of its texts.
    """
    rows, population = case.rows, case.spec.population
    if rows is None or rows.truth is None or not isinstance(population, Table | Texts):
        return None
    return LabelledRows(rows.values, rows.truth, isinstance(population, Texts) or population.reading == "population")


def halves(case: Case) -> tuple[Case, Case]:
    """Return the case on a random half of its rows, for the search, and on the other, for the final verification."""
    rows = case.rows
    assert rows is not None
    random = np.random.Generator(np.random.Philox(seed_for(case.seed.value, SPLIT_SEED)))
    order = random.permutation(len(rows.values))
    cases = []
    for places in np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :]):
        numbers = rows.numbers[places]
        # The hash of a part follows from that of the table and the numbers of its rows.
        digest = hashlib.sha256(f"fairchain rows of {rows.sha256}".encode() + numbers.astype("<i8").tobytes())
        part = dataclasses.replace(
            rows,
            values=rows.values[places],
            truth=None if rows.truth is None else rows.truth[places],
            recorded=None if rows.recorded is None else rows.recorded[places],
            numbers=numbers,
            dropped=0,
            sha256=digest.hexdigest(),
        )
        cases.append(case_of(case.spec, case.model, part, function=case.function))
    return cases[0], cases[1]


def read_labelled_rows(source: Any, spec: Spec, label: str | None) -> LabelledRows:
    """Return the rows of a table with their true labels; rows with a missing value are left out.

    Categories are matched by their names or, if a table has none of them, by their numbers.
    """
    population = spec.population
    table, named = read_table(source), label or (population.label if isinstance(population, Table | Texts) else None)
    if named is None and LABEL not in table.names:
        raise DataError(LABEL_NOT_NAMED.format(source=table.source, names=", ".join(map(shown, table.names))))
    column = named or LABEL
    complete = Table(reading="population", label=column, drop_missing=True)
    if isinstance(population, Table | Marginals):
        complete = replace(complete, na_values=population.na_values)
    by_name = replace(spec, population=complete)
    if spec.text is not None:
        truth = label_values(table, "label", column, spec.model, complete.na_values)
        texts = population.column if isinstance(population, Texts) else None
        return _labelled_texts(table, spec.text, texts if texts in table.names else spec.text.name, truth)
    rows = encode_named_or_numbered(table, by_name)
    assert rows.truth is not None
    return LabelledRows(rows.values, rows.truth)


def _labelled_texts(table: RawTable, feature: TextFeature, column: str, truth: NDArray[np.integer]) -> LabelledRows:
    """Return texts in the network's encoding; those without a label or a known word are left out."""
    from fairchain.text import lexicon_of, tokenise

    if feature.raw:
        texts = table.texts(column)
        present = np.flatnonzero((truth >= 0) & np.array([text is not None for text in texts], bool))
        if not len(present):
            raise DataError(f"{table.source}: has no text with a label; give other rows, or none")
        return LabelledRows(texts[present][:, None], truth[present])
    lexicon = lexicon_of(feature)
    values = np.zeros((table.count, feature.steps), np.int32)
    for row, text in zip(values, table.texts(column), strict=True):
        known = lexicon.ids(tokenise(text or ""))[: feature.steps]
        row[: len(known)] = known
    kept = np.flatnonzero((truth >= 0) & values.any(axis=1))
    if not len(kept):
        raise DataError(f"{table.source}: has no text with a label and a known word; give other rows, or none")
    return LabelledRows(values[kept], truth[kept])
