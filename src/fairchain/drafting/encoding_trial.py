"""Guesses put to the test: each way to show the rows to the model is tried, and the rows' own labels choose.

Agreement is the mean over the labels of the share of their rows that the model gets right, so that a model which
always says the same has no more than chance. A way further down the list must be clearly better to be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.drafting.draft_result import Guess
from fairchain.drafting.input_layouts import InputLayout
from fairchain.drafting.labels import Reading, decided
from fairchain.errors import DataError, InputError, ModelError
from fairchain.messages import shown
from fairchain.models import Limits, Model, load_model
from fairchain.spec import Difference, Spec
from fairchain.spec.schema import Population
from fairchain.tables import RawTable, people_of

# Rows on which a guess is tried.
MOST_ROWS = 50_000
BETTER = 0.02
CLEARLY = 0.1
MOST_PERMUTED = 6


@dataclass(frozen=True, eq=False)
class EncodingTrial:
    """One way that works.

    Parameters
    ----------
    layout, reading
        How the rows are shown to the model and its answers read.
    values, truth
        The rows that can be used, and their true labels if these are known.
    dropped
        How many rows were left out for a missing value.
    seen
        Rows by true label and by the model's; None without true labels.
    """

    layout: InputLayout
    reading: Reading
    values: NDArray[np.float64]
    truth: NDArray[np.int64] | None
    dropped: int
    seen: NDArray[np.int64] | None

    @property
    def agreement(self) -> float:
        """Mean share of rows that the model gets right, over the labels that occur."""
        return balanced(self.seen) if self.seen is not None else 0.0


def balanced(seen: NDArray[np.int64]) -> float:
    """Mean over the true labels of the share that the model gives them.

    >>> balanced(np.array([[90, 0], [10, 0]]))
    0.5
    """
    rows = seen.sum(axis=1)
    there = rows > 0
    return float((np.diagonal(seen)[there] / rows[there]).mean())


def spec_of(layout: InputLayout, reading: Reading, population: Population) -> Spec:
    """A spec that is good enough to load a model with; nothing is protected yet."""
    asked = Difference(protected=(layout.features[0].name,), threshold=0.1)
    return Spec(model=reading.model, described=layout.features, property=asked, population=population)


def try_all(
    table: RawTable,
    model: Any,
    ways: Iterable[InputLayout],
    readings: Iterable[Reading],
    population: Population,
    limits: Limits | None,
) -> EncodingTrial:
    """The first way that works, unless the labels of the rows speak clearly for another."""
    readings = list(readings)
    best: EncodingTrial | None = None
    problem: InputError | None = None
    for layout in ways:
        for reading in readings:
            try:
                trial = _tried(table, model, layout, reading, population, limits)
            except (DataError, ModelError) as error:
                problem = problem or error
                continue
            if best is None or trial.agreement > best.agreement + BETTER:
                best = trial
            break
    if best is None:
        assert problem is not None
        raise problem
    return _in_order(best)


def _tried(
    table: RawTable, model: Any, layout: InputLayout, reading: Reading, population: Population, limits: Limits | None
) -> EncodingTrial:
    people = people_of(table, spec_of(layout, reading, population))
    rows = some_rows(len(people.values))
    answers = None if people.recorded is None else people.recorded[rows].astype(np.int64)
    if model is not None:

        def ask(tried: Reading) -> NDArray[np.int64]:
            return ask_rows(load(model, spec_of(layout, tried, population), limits), people.values[rows])

        reading = _settled(reading, ask)
        answers = ask(reading)
    truth = None if people.truth is None else people.truth.astype(np.int64)
    seen = None
    if truth is not None and answers is not None:
        seen = confusion(truth[rows], answers, len(reading.model.labels))
    return EncodingTrial(layout, reading, people.values, truth, people.dropped, seen)


def confusion(truth: NDArray[np.int64], answers: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    """(labels, labels): how many rows have which true label and get which answer."""
    counts: NDArray[np.int64] = np.bincount(truth * labels + answers, minlength=labels * labels)
    return counts.reshape(labels, labels)


def some_rows(count: int, most: int = MOST_ROWS) -> NDArray[np.int64]:
    """Rows spread over the whole table."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def load(model: Any, spec: Spec, limits: Limits | None) -> Model:
    """The model behind this spec. Whoever calls named the model; a name in a spec file never comes here."""
    return load_model(model, spec, limits, allow_python=True)


def ask_rows(model: Model, values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The label number that the model gives each row."""
    parts = [model.predict(part.astype(model.dtype)) for part in np.array_split(values, len(values) // 4096 + 1)]
    return np.concatenate(parts).astype(np.int64)


def _settled(reading: Reading, ask: Callable[[Reading], NDArray[np.int64]]) -> Reading:
    """Whether one column of scores is a logit or a probability: some answer is below 0 or above 1, or none is."""
    if reading.model.decision != "logit" or reading.given:
        return reading
    for cut, outside in ((1.0, 1), (-float(np.finfo(np.float32).tiny), 0)):
        if (ask(Reading(replace(reading.model, cut=cut))) == outside).any():
            seen = Guess("model.decision", "Some scores lie below 0 or above 1, so they are no probabilities.")
            return decided(reading, "logit", seen)
    guess = Guess("model.decision", "Guess: all scores lie between 0 and 1, so they are probabilities.")
    return decided(reading, "probability", guess)


def _in_order(trial: EncodingTrial) -> EncodingTrial:
    """With the labels in the order that agrees with the rows, if their order was free and the guess clearly wrong."""
    reading, seen = trial.reading, trial.seen
    if seen is None or not reading.free or len(seen) > MOST_PERMUTED:
        return trial
    orders = [list(order) for order in permutations(range(len(seen)))]
    best = max(orders, key=lambda order: balanced(seen[order]))
    if balanced(seen[best]) <= trial.agreement + CLEARLY:
        return trial
    why = "Guess: in this order the model agrees with the rows; in sorted order it would be right less often."
    guesses = tuple(guess for guess in reading.guesses if guess.key != "model.labels")
    labels = tuple(reading.model.labels[place] for place in best)
    ordered = Reading(replace(reading.model, labels=labels), (*guesses, Guess("model.labels", why)), free=True)
    assert trial.truth is not None
    # The label that is now at place i stood at best[i]; the true labels follow it.
    truth = np.argsort(best)[trial.truth]
    return EncodingTrial(trial.layout, ordered, trial.values, truth, trial.dropped, seen[best])


def about_agreement(trial: EncodingTrial, label: str | None) -> Guess | None:
    """How often the model says what the rows say; loud if always giving the same answer would be right more often."""
    seen = trial.seen
    if seen is None or label is None:
        return None
    rows = int(seen.sum())
    commonest = int(seen.sum(axis=1).argmax())
    right, constant = float(np.trace(seen)) / rows, float(seen[commonest].sum()) / rows
    text = (
        f"The model agrees with column {shown(label)} in {right:.1%} of {rows:,} rows; always answering "
        f"{shown(trial.reading.model.labels[commonest])} would agree in {constant:.1%}"
    )
    if right >= constant:
        return Guess("", f"{text}.")
    return Guess("", f"{text}, which is more. {_what_to_check(trial)}", loud=True)


def _what_to_check(trial: EncodingTrial) -> str:
    checks = ["the order of labels in [model]"] if trial.reading.free else []
    if any(guess.key == "feature" for guess in trial.layout.guesses):
        checks.append("the order of the features")
    checks.append("scale = {...} of each number if the model was trained on scaled ones")
    return f"Check {'; '.join(checks)}."
