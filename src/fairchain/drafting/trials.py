"""Tests of guesses: the model is run on the rows in each possible encoding, and their true labels choose one.

Agreement is balanced accuracy, the mean over the labels of the share of their rows that the model gets right, so that
a constant model has no advantage. An encoding further down the list must be clearly better to be taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.drafting.columns import InputLayout
from fairchain.drafting.guesses import Guess
from fairchain.drafting.labels import OutputReading
from fairchain.drafting.signature import OpenedModel
from fairchain.errors import DataError, InputError, ModelError
from fairchain.messages import listed, shown
from fairchain.models import Model
from fairchain.spec import CategoryFeature, Difference, Spec
from fairchain.spec.schema import Population
from fairchain.tables import RawTable, encode_rows

# Rows on which an encoding is tried, and on which the order of categories is tested.
MOST_ROWS, MOST_SHUFFLED_ROWS = 50_000, 5_000
# What agreement must gain for another encoding, and for another order of the labels.
BETTER, CLEARLY_BETTER = 0.02, 0.1
MOST_PERMUTED = 6
# Random orders of the categories, and by how much agreement must fall on average if the order matters.
SHUFFLES, MATTERS = 19, 0.01


@dataclass(frozen=True, eq=False)
class EncodingTrial:
    """Encoding under which the model runs.

    Parameters
    ----------
    layout, reading
        Encoding of the rows, and meaning of the output.
    values, truth
        The complete rows, and their true labels if these are known.
    dropped
        Number of rows left out for a missing value.
    confusion
        (labels, labels): rows by true label and by the model's; None without true labels.
    model
        The model as it was run; None for recorded decisions.
    """

    layout: InputLayout
    reading: OutputReading
    values: NDArray[np.float64]
    truth: NDArray[np.int64] | None
    dropped: int
    confusion: NDArray[np.int64] | None
    model: Model | None

    @property
    def agreement(self) -> float:
        """Balanced accuracy; 0 without true labels."""
        return balanced(self.confusion) if self.confusion is not None else 0.0


def balanced(confusion: NDArray[np.int64]) -> float:
    """Return the balanced accuracy over the true labels that occur.

    >>> balanced(np.array([[90, 0], [10, 0]]))
    0.5
    """
    rows = confusion.sum(axis=1)
    there = rows > 0
    return float((np.diagonal(confusion)[there] / rows[there]).mean())


def spec_of(layout: InputLayout, reading: OutputReading, population: Population) -> Spec:
    """Return a spec that suffices to load a model; its property is a placeholder."""
    placeholder = Difference(protected=(layout.features[0].name,), threshold=0.1)
    return Spec(model=reading.model, described=layout.features, property=placeholder, population=population)


def best_encoding(
    table: RawTable,
    model: OpenedModel | None,
    layouts: Iterable[InputLayout],
    readings: Sequence[OutputReading],
    population: Population,
) -> EncodingTrial:
    """Return the first encoding under which the model runs, unless the true labels clearly favour another."""
    best: EncodingTrial | None = None
    problem: InputError | None = None
    for layout in layouts:
        for reading in readings:
            try:
                trial = _tried(table, model, layout, reading, population)
            except (DataError, ModelError) as error:
                problem = problem or error
                continue
            if best is None or trial.agreement > best.agreement + BETTER:
                best = trial
            break
    if best is None:
        assert problem is not None
        raise problem
    return _with_ordered_labels(best)


def _tried(
    table: RawTable, model: OpenedModel | None, layout: InputLayout, reading: OutputReading, population: Population
) -> EncodingTrial:
    rows = encode_rows(table, spec_of(layout, reading, population))
    spread = _spread(len(rows.values), MOST_ROWS)
    answers = None if rows.recorded is None else rows.recorded[spread].astype(np.int64)
    loaded = None
    if model is not None:
        if reading.model.decision == "logit" and not reading.given:
            # A column of scores: one below 0 or above 1 shows that they are logits.
            logits = False
            for cut, outside in ((1.0, 1), (-float(np.finfo(np.float32).tiny), 0)):
                tried = OutputReading(msgspec.structs.replace(reading.model, decision_threshold=cut))
                answers = _predicted(model.load(spec_of(layout, tried, population)), rows.values[spread])
                logits = logits or bool((answers == outside).any())
            reading = (
                reading.decided("logit", "Some scores are below 0 or above 1, so they are not probabilities.")
                if logits
                else reading.decided("probability", "Guess: all scores are between 0 and 1: probabilities.")
            )
        loaded = model.load(spec_of(layout, reading, population))
        answers = _predicted(loaded, rows.values[spread])
    truth = None if rows.truth is None else rows.truth.astype(np.int64)
    counts = None
    if truth is not None and answers is not None:
        counts = _confusion(truth[spread], answers, len(reading.model.labels))
    return EncodingTrial(layout, reading, rows.values, truth, rows.dropped, counts, loaded)


def _confusion(truth: NDArray[np.int64], answers: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.bincount(truth * labels + answers, minlength=labels * labels)
    return counts.reshape(labels, labels)


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """Return the indices of rows spread over the whole table."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _predicted(model: Model, values: NDArray[np.float64]) -> NDArray[np.int64]:
    parts = [model.predict(part.astype(model.dtype)) for part in np.array_split(values, len(values) // 4096 + 1)]
    return np.concatenate(parts).astype(np.int64)


def _with_ordered_labels(trial: EncodingTrial) -> EncodingTrial:
    """Return the trial with the order of labels that agrees with the rows, if the guessed one is clearly worse."""
    reading, confusion = trial.reading, trial.confusion
    if confusion is None or trial.truth is None or not reading.free or len(confusion) > MOST_PERMUTED:
        return trial
    best = max(map(list, permutations(range(len(confusion)))), key=lambda order: balanced(confusion[order]))
    if balanced(confusion[best]) <= trial.agreement + CLEARLY_BETTER:
        return trial
    why = "Guess: in this order the model agrees with the rows; in sorted order it would be right less often."
    guesses = tuple(guess for guess in reading.guesses if guess.key != "model.labels")
    model = msgspec.structs.replace(reading.model, labels=tuple(reading.model.labels[place] for place in best))
    ordered = OutputReading(model, (*guesses, Guess("model.labels", why)), free=True)
    # The label that is now at place i was at best[i]; the true labels follow it.
    return replace(trial, reading=ordered, truth=np.argsort(best)[trial.truth], confusion=confusion[best])


def about_agreement(trial: EncodingTrial, label: str | None) -> tuple[Guess, ...]:
    """Return the model's accuracy on the rows; a warning if a constant answer would be right more often."""
    confusion = trial.confusion
    if confusion is None or label is None:
        return ()
    rows = int(confusion.sum())
    commonest = int(confusion.sum(axis=1).argmax())
    right, constant = float(np.trace(confusion)) / rows, float(confusion[commonest].sum()) / rows
    text = (
        f"The model agrees with column {shown(label)} in {right:.1%} of {rows:,} rows; always answering "
        f"{shown(trial.reading.model.labels[commonest])} would agree in {constant:.1%}"
    )
    if right >= constant:
        return (Guess("", f"{text}."),)
    checks = ["the order of labels in [model]"] if trial.reading.free else []
    if any(guess.key == "feature" for guess in trial.layout.guesses):
        checks.append("the order of the features")
    checks.append("scale = {...} of each number if the model was trained on scaled ones")
    return (Guess("", f"{text}, which is more. Check {'; '.join(checks)}.", loud=True),)


def about_codes(trial: EncodingTrial) -> tuple[Guess, ...]:
    """Return whether the true labels support the guessed order of categories; a warning if they do not.

    All guessed orders are tested together: a network that has learnt from categories does worse when they are
    shuffled. An order without any merit is the best of twenty with probability 1/20.
    """
    guessed = {guess.key for guess in trial.layout.guesses}
    sizes = {
        place: len(feature.values)
        for place, feature in enumerate(trial.layout.features)
        if f"feature.{feature.name}" in guessed and isinstance(feature, CategoryFeature) and len(feature.values) > 1
    }
    if not sizes or trial.model is None:
        return ()
    whose = f"The order of the values of {listed([trial.layout.features[place].name for place in sizes])} is a guess"
    remedy = "State the order in which the network was trained, or codes = [...], in each [[feature]]"
    if trial.truth is None:
        return (Guess("feature", f"{whose} that nothing here can check. {remedy}, or name the label.", loud=True),)
    rows = _spread(len(trial.values), MOST_SHUFFLED_ROWS)
    # The order of the labels may have changed since the model was loaded: its answers are places in the old one.
    truth, labels = trial.truth[rows], len(trial.reading.model.labels)
    random = np.random.Generator(np.random.Philox(0))
    agreements = []
    for shuffled in range(SHUFFLES + 1):
        values = trial.values[rows]
        for place, size in sizes.items() if shuffled else ():
            values[:, place] = random.permutation(size)[values[:, place].astype(np.intp)]
        agreements.append(balanced(_confusion(truth, _predicted(trial.model, values), labels)))
    stated, *others = agreements
    if max(others) <= stated + BETTER and np.mean(others) < stated - MATTERS:
        text = f"{whose}; none of {SHUFFLES} other orders agrees clearly better with the labels."
        return (Guess("feature", text),)
    text = f"{whose}, and probably a wrong one: other orders agree with the labels as well. {remedy}."
    return (Guess("feature", text, loud=True),)
