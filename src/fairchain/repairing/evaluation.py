"""Candidates tried on data that is drawn once and stays: differences between them are never luck of the draw.

The same coupled rounds and the same labelled rows serve every candidate. What comes out steers the search and
promises nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.edit.candidates import Prepared, Tunable
from fairchain.models.edit.weights import Array
from fairchain.prepare import Case
from fairchain.spec import Comparison
from fairchain.statistics.rate_counts import gaps_of
from fairchain.verification.counting import count_rows

# Rounds that are drawn at once.
CHUNK = 4096
Labels = NDArray[np.integer]


@dataclass(frozen=True)
class LabelledRows:
    """Labelled rows: feature values, or the words of texts, and the number of each true label."""

    values: NDArray[Any]
    truth: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.values)

    def part(self, rows: NDArray[np.integer]) -> LabelledRows:
        """Some of them."""
        return LabelledRows(self.values[rows], self.truth[rows])


@dataclass(frozen=True)
class Score:
    """What a candidate came to: its largest gap, and the share of rows it gets right (or decides as before).

    `error` is one standard error of the change of accuracy, which only rows that are decided otherwise can make.
    """

    gap: float
    accuracy: float
    error: float = 0.0

    @property
    def prudent(self) -> float:
        """Accuracy less what may be luck: a candidate that changes many decisions to gain a few rows wins nothing."""
        return self.accuracy - self.error


# Of a candidate that answers with something that is no class, or with the same class (almost) whatever it is asked.
FAILED = Score(1.0, 0.0)
# Of the decisions other than the usual one, the part that a repair must leave.
VARIETY = 0.1


def usual_share(labels: Labels) -> float:
    """The share of the most frequent decision."""
    return float(np.bincount(labels).max() / len(labels))


def is_empty(before: float, after: float, agreement: float | None) -> bool:
    """Whether a network gives (almost) everybody the same answer, and is no repair of one that did not.

    From the share of the usual answer before and after; `agreement` with the old decisions, where that is to be kept,
    must be more than the old usual answer alone would have.
    """
    return 1 - after < VARIETY * (1 - before) or (before < 1 and agreement is not None and agreement <= before)


class Inputs(Protocol):
    """People that a candidate is shown, and the gap that its decisions about them come to."""

    @property
    def values(self) -> NDArray[np.floating]:
        """Their features, (people, features)."""

    def gap(self, labels: Labels) -> float:
        """The largest gap over pairs and outcomes, 0 when all are alike; of a ratio what is missing to 1."""


@dataclass(frozen=True)
class DrawnInputs:
    """Coupled rounds, one block after another for each subgroup."""

    values: NDArray[np.floating]
    comparison: Comparison

    def gap(self, labels: Labels) -> float:
        """From the rates that each subgroup was counted with."""
        counted = self.comparison.fold(labels.reshape(len(self.comparison.subgroups), -1))
        rates = np.array([(counted == outcome).mean(axis=1) for outcome in self.comparison.rows])
        return _largest(rates, self.comparison)


@dataclass(frozen=True)
class TableInputs:
    """Rows that are everybody there is."""

    case: Case

    @property
    def values(self) -> NDArray[np.floating]:
        """Everybody."""
        assert self.case.rows is not None
        return self.case.rows.values

    def gap(self, labels: Labels) -> float:
        """Counted as the verdict counts them."""
        return _largest(count_rows(self.case, labels).counts.rates, self.case.comparison)


def _largest(rates: NDArray[np.float64], comparison: Comparison) -> float:
    return max(0.0, float(gaps_of(rates, rates, comparison.measure)[comparison.compared].max()))


def inputs_of(case: Case, seed: int, count: int, rounds: int | None = None) -> Inputs:
    """Draw about so many inputs over all groups, or so many rounds, with this seed; of a table take all rows."""
    if case.population is None:
        return TableInputs(case)
    comparison, population = case.comparison, case.population
    subgroups = range(len(comparison.subgroups))
    rounds = rounds or max(1024, count // len(subgroups))
    parts = [
        population.rounds(seed, chunk, min(CHUNK, rounds - start)).inputs(subgroups)
        for chunk, start in enumerate(range(0, rounds, CHUNK))
    ]
    width = parts[0].shape[1]
    values = np.concatenate([part.reshape(len(subgroups), -1, width) for part in parts], axis=1)
    return DrawnInputs(values.reshape(-1, width), comparison)


def _decided(network: Tunable, prepared: Prepared) -> Labels:
    """What the original network decides; that it does not is an error, and no candidate's failure."""
    labels = network.decide(prepared, {})
    if labels is None:
        raise ModelError(f"{network.name}: has no decision for some input; verify it before it is repaired")
    return labels


class CandidateTrial:
    """Tries candidates.

    Parameters
    ----------
    network
        The network with weights that can be given anew.
    inputs
        People that the gap is measured on.
    rows
        Labelled rows. Without them accuracy is agreement with the original network on the inputs.
    """

    def __init__(self, network: Tunable, inputs: Inputs, rows: LabelledRows | None) -> None:
        self._network, self._inputs, self._rows = network, inputs, rows
        self._people = network.prepare(inputs.values)
        self._labelled = network.prepare(rows.values) if rows is not None else None
        self._before = _decided(network, self._people)
        self._usual = usual_share(self._before)
        self._right = None
        if self._labelled is not None and rows is not None:
            self._right = _decided(network, self._labelled) == rows.truth

    @property
    def inputs(self) -> int:
        """How many inputs a candidate is shown."""
        return len(self._inputs.values) + (len(self._rows) if self._rows is not None else 0)

    def score(self, weights: Mapping[str, Array]) -> Score:
        """What a candidate comes to; {} is the original network."""
        labels = self._network.decide(self._people, weights)
        if labels is None:
            return FAILED
        agreement = float(np.mean(labels == self._before)) if self._rows is None else None
        if is_empty(self._usual, usual_share(labels), agreement):
            return FAILED
        gap = self._inputs.gap(labels)
        if self._rows is None or self._labelled is None:
            return Score(gap, agreement or 0.0)
        found = self._network.decide(self._labelled, weights)
        if found is None:
            return FAILED
        right = found == self._rows.truth
        other = np.count_nonzero(right != self._right)
        return Score(gap, float(np.mean(right)), float(np.sqrt(other)) / len(right))
