"""Witnesses: counterfactual pairs of a run, whose decision changes with the protected features alone."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.models.base import decide, in_words, shown_value
from fairchain.populations.streams import decision_words
from fairchain.prepare import Case
from fairchain.spec import Comparison, Group, Spec, Texts
from fairchain.statistics import Rule
from fairchain.verification.record import Witness
from fairchain.verification.verdict import RunRecord

# Number of witnesses to keep, and number of rounds to search.
WITNESSES, SEARCH = 3, 4096


def find_witnesses(case: Case, rule: Rule, record: RunRecord, *, seconds: float = math.inf) -> tuple[Witness, ...]:
    """Return a few inputs of the first rounds with different decisions in two compared subgroups.

    The rounds are drawn again rather than kept: memory use is constant, and a run without changes costs nothing. The
    search takes about this many seconds at most.
    """
    late = time.perf_counter() + seconds
    spec, comparison, model = case.spec, case.comparison, case.model
    i, j, outcome = rule.widest()
    if (
        model is None
        or not spec.model.deterministic
        or not record.coupled
        or not rule.tally.only[outcome, i, j]
        # Two texts that mention different groups are not a witness.
        or (isinstance(spec.population, Texts) and spec.population.reading == "observed")
    ):
        return ()
    pair = tuple(comparison.evaluated((i, j)))
    if any(comparison.subgroups[subgroup].group is None for subgroup in pair):
        return ()
    found: list[Witness] = []
    for rounds, length, first, drawn in _first_rounds(record, comparison, i, j):
        if time.perf_counter() > late:
            break
        chunk = case.population.rounds(record.seed.value, first, rounds, subgroups=drawn, drawn=length)
        shown = chunk.inputs(pair)
        words = np.tile(decision_words(record.seed.value, first, rounds), len(pair)) if model.drawn else None
        labels = decide(model, shown, words).reshape(len(pair), rounds)
        inputs = shown.reshape(len(pair), rounds, -1)
        found += changed_points(case, [comparison.subgroups[subgroup].name for subgroup in pair], labels, inputs)
        if len(found) >= WITNESSES:
            break
    return tuple(found[:WITNESSES])


def changed_rows(case: Case, values: NDArray[np.floating], labels: NDArray[np.integer]) -> tuple[Witness, ...]:
    """Return the first rows of a table with a changed decision.

    `values` are the evaluated rows, and `labels` (subgroups, rows) their classes as each subgroup.
    """
    names = [subgroup.name for subgroup in case.comparison.subgroups]
    flips = np.flatnonzero(case.comparison.fold(labels)[0])[:WITNESSES]
    rows = values[flips]
    return tuple(changed_points(case, names, labels[:, flips], np.broadcast_to(rows, (len(names), *rows.shape))))


def changed_texts(
    case: Case, groups: Sequence[Group | None], texts: NDArray[np.int64], labels: NDArray[np.integer]
) -> tuple[Witness, ...]:
    """Return the first texts whose decision changes with their terms, from (groups, texts) labels."""
    seen = labels == case.comparison.outcomes[0] if case.comparison.outcomes else labels
    flips = np.flatnonzero((seen != seen[0]).any(axis=0))[:WITNESSES]
    if not len(flips):
        return ()
    rows: Any = case.rows
    inputs = np.stack([rows.values[texts[flips]] if g is None else rows.shown_as(texts[flips], g) for g in groups])
    names = ["as it is" if group is None else group.name for group in groups]
    return tuple(changed_points(case, names, labels[:, flips], inputs))


def changed_points(
    case: Case, names: Sequence[str], labels: NDArray[np.integer], inputs: NDArray[np.floating]
) -> list[Witness]:
    """Return the first inputs whose class, or outcome if the property names one, differs between the named groups.

    `labels` is (groups, inputs), and `inputs` those that were shown as each group. If features depend on each other,
    two groups may show different inputs; these are not witnesses.
    """
    spec, comparison = case.spec, case.comparison
    columns = [place for place, feature in enumerate(spec.features) if feature.name not in spec.protected]
    found = []
    seen = labels == comparison.outcomes[0] if comparison.individual and comparison.outcomes else labels
    for row in np.flatnonzero((seen != seen[0]).any(axis=0)):
        other = int((seen[:, row] != seen[0, row]).argmax())
        if spec.text is not None or np.array_equal(inputs[0, row, columns], inputs[other, row, columns]):
            classes = spec.model.labels[int(labels[0, row])], spec.model.labels[int(labels[other, row])]
            shown = (
                unprotected(spec, inputs[0, row])
                if spec.text is None
                else text_pair(spec, names[other], inputs[0, row], inputs[other, row])
            )
            found.append(Witness((names[0], names[other]), classes, shown))
        if len(found) == WITNESSES:
            break
    return found


def _first_rounds(
    record: RunRecord, comparison: Comparison, i: int, j: int
) -> Iterator[tuple[int, int, int, Sequence[int]]]:
    """Return rounds of the early batches in which i and j were decided differently.

    They are the counted rounds of the first chunk, its length, its number, and the drawn subgroups.
    """
    searched = 0
    for plan, batch in record.entries:
        rounds = min(batch.rounds, batch.size)
        if not rounds or searched > SEARCH:
            return
        searched += rounds
        if {i, j} <= set(plan.groups):
            one, other = (list(plan.groups).index(group) for group in (i, j))
            own = batch.together.diagonal(axis1=1, axis2=2)
            both = batch.together[:, one, other]
            if (own[:, one] > both).any() or (own[:, other] > both).any():
                yield rounds, min(plan.rounds, batch.size), batch.first, comparison.evaluated(plan.groups)


def unprotected(spec: Spec, row: NDArray[np.floating]) -> dict[str, str | float]:
    """Return the unprotected features of an input, with the names of the spec; for a text its words."""
    if spec.text is not None:
        return {spec.text.name: quote(spec, in_words(spec.text, row))}
    return {
        feature.name: shown_value(feature, value)
        for feature, value in zip(spec.features, row, strict=True)
        if feature.name not in spec.protected
    }


def quote(spec: Spec, text: str) -> str:
    """Return a text for display: in full only if the spec says so."""
    from fairchain.text.quoting import quoted

    population = spec.population
    assert isinstance(population, Texts)
    return text if population.show_texts else quoted(text, population.mask_words)


def text_pair(spec: Spec, name: str, one: NDArray[Any], other: NDArray[Any]) -> dict[str, str | float]:
    """Return a text, and the same text as another group, for display."""
    from fairchain.text.quoting import quoted_pair

    text, population = spec.text, spec.population
    assert text is not None
    assert isinstance(population, Texts)
    both = in_words(text, one), in_words(text, other)
    if not population.show_texts:
        both = quoted_pair(*both, population.mask_words)
    return {text.name: both[0], f"{text.name} as {name}": both[1]}
