"""Witnesses: inputs of a run that change their class with the protected feature alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairchain.evidence import Rule
from fairchain.evidence.sampling import Model, Population
from fairchain.spec import CategoryFeature, Feature, Group, Spec
from fairchain.verdict import Ledger, Witness

# How many witnesses to keep, and among how many rounds to look for them.
WITNESSES, SEARCH = 3, 4096


def find_witnesses(
    model: Model, population: Population, spec: Spec, groups: tuple[Group, ...], rule: Rule, ledger: Ledger
) -> tuple[Witness, ...]:
    """A few people of the first rounds who are decided differently as the two groups that differ most.

    The rounds are drawn again rather than kept: memory stays flat, and a run without flips costs nothing.
    """
    i, j, outcome = rule.tally.widest
    if not ledger.coupled or not rule.tally.only[outcome, i, j]:
        return ()
    found: list[Witness] = []
    labels = spec.model.labels
    for rounds, first in _first_rounds(ledger):
        shown = population.rounds(ledger.seed, first, rounds).inputs((i, j))
        classes = model.predict(shown).reshape(2, rounds)
        for row in np.flatnonzero(classes[0] != classes[1])[: WITNESSES - len(found)]:
            found.append(
                Witness(
                    (groups[i].name, groups[j].name),
                    (labels[int(classes[0, row])], labels[int(classes[1, row])]),
                    _unprotected(spec, shown[row]),
                )
            )
        if len(found) == WITNESSES:
            break
    return tuple(found)


def _first_rounds(ledger: Ledger) -> Iterator[tuple[int, int]]:
    """(rounds, chunk) of the beginning of a run."""
    searched = 0
    for _, batch in ledger.entries:
        rounds = min(batch.rounds, batch.size)
        if not rounds or searched > SEARCH:
            return
        yield rounds, batch.first
        searched += rounds


def _unprotected(spec: Spec, row: NDArray[np.floating]) -> dict[str, str | float]:
    return {
        feature.name: _in_words(feature, float(value))
        for feature, value in zip(spec.features, row, strict=True)
        if feature.name not in spec.property.protected
    }


def _in_words(feature: Feature, value: float) -> str | float:
    return str(feature.values[int(value)]) if isinstance(feature, CategoryFeature) else value
