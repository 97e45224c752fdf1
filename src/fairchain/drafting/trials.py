"""Trials of guesses: the model is run on the rows in each possible encoding, and their true labels choose one.

Agreement is balanced accuracy, the mean over the labels of the share of their rows that the model gets right, so that
a constant model has no advantage. An encoding further down the list must be clearly better to be taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import permutations

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.drafting.columns import InputLayout
from fairchain.drafting.guesses import Guess
from fairchain.drafting.labels import OutputReading
from fairchain.drafting.signature import OpenedModel, Signature
from fairchain.errors import CutOffNeededError, DataError, InputError, ModelError
from fairchain.messages import listed, shown
from fairchain.models import Model, OnnxModel
from fairchain.spec import CategoryFeature, Difference, Spec, Table
from fairchain.spec.schema import Budget, Guarantee
from fairchain.tables import RawTable, TableRows, encode_rows

# Rows on which a network is tried, and on which the order of categories is tested; of Python code, which may be slow or
# cost money, fewer, and fewer still if there are several encodings.
MOST_ROWS, MOST_SHUFFLED_ROWS, MOST_ASKED, FEW_ASKED = 50_000, 5_000, 5_000, 256
# What agreement must gain for another encoding, and for another order of the labels.
BETTER, CLEARLY_BETTER = 0.02, 0.1
MOST_PERMUTED = 6
# Random orders of the categories, and by how much agreement must fall on average if the order matters.
SHUFFLES, MATTERS = 19, 0.01
# Rows with a missing value on which it is tried whether Python code takes them.
TRIED_MISSING = 16


@dataclass(frozen=True, eq=False)
class EncodingTrial:
    """Encoding under which the model runs.

    Parameters
    ----------
    layout, reading
        Encoding of the rows, and meaning of the output.
    rows
        The rows in this encoding; those left out for a missing value are counted there.
    confusion
        (labels, labels): rows by true label and by the model's; None without true labels.
    model
        The model, loaded for this encoding; None without one.
    keeps_missing
        Whether missing values are given to the model.
    """

    layout: InputLayout
    reading: OutputReading
    rows: TableRows
    confusion: NDArray[np.int64] | None
    model: Model | None
    keeps_missing: bool = False

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


def spec_of(layout: InputLayout, reading: OutputReading, population: Table, most: int | None = None) -> Spec:
    """Return a spec that suffices to load a model, and to ask it `most` times; its property is a placeholder."""
    placeholder = Difference(protected=(layout.features[0].name,), threshold=0.1)
    guarantee = Guarantee(budget=Budget(evaluations=most))
    return Spec(
        model=reading.model,
        described=layout.features,
        property=placeholder,
        population=population,
        guarantee=guarantee,
    )


@dataclass(frozen=True, eq=False)
class Trials:
    """What is tried: a model, if there is one, on the rows of a table; `most` rows of Python code at most.

    Missing values of the `protected` columns are not given to the model: such rows are in no group.
    """

    table: RawTable
    opened: OpenedModel | None
    taken: Signature
    population: Table
    protected: Sequence[str] = ()
    most: int | None = None

    def best(self, layouts: Sequence[InputLayout], readings: Sequence[OutputReading]) -> EncodingTrial:
        """Return the first encoding under which the model runs, unless the true labels clearly favour another."""
        best: EncodingTrial | None = None
        problem: InputError | None = None
        for layout in layouts:
            for reading in readings:
                try:
                    trial = self._tried(layout, reading, single=len(layouts) == 1)
                except CutOffNeededError:
                    raise
                except (DataError, ModelError) as error:
                    if best is None and isinstance(error, ModelError) and str(problem) == str(error):
                        raise  # no encoding helps
                    problem = problem or error
                    continue
                if best is None or trial.agreement > best.agreement + BETTER:
                    best = trial
                break
            if best is not None and self.opened is not None and not (self.opened.network or self.taken.inputs):
                break  # Python code, which may cost money, is not asked in other encodings once it runs in one
        if best is None:
            assert problem is not None
            raise problem
        if best.confusion is None and best.reading.free and best.reading.model.decision == "score":
            raise _direction_needed(best)
        return _with_ordered_labels(best)

    def _tried(self, layout: InputLayout, reading: OutputReading, *, single: bool) -> EncodingTrial:
        if self.opened is not None and self.opened.network is None:
            keeping = msgspec.structs.replace(self.population, keep_missing=True)
            inputs = {feature.name for feature in layout.features} - set(self.protected)
            rows = encode_rows(self.table, spec_of(layout, reading, keeping), inputs)
            lacking = np.isnan(rows.values)
            if not lacking.any():
                return self._run(layout, reading, self.population, rows, lacking, single=single)
            if self._may_take(layout, np.asarray(lacking.any(axis=0))):
                with suppress(ModelError):
                    return self._run(layout, reading, keeping, rows, lacking, single=single)
        rows = encode_rows(self.table, spec_of(layout, reading, self.population))
        return self._run(layout, reading, self.population, rows, np.isnan(rows.values), single=single)

    def _may_take(self, layout: InputLayout, lacking: NDArray[np.bool_]) -> bool:
        """Return whether the model says that it takes these missing values, or does not say that it does not."""
        fitted = self.taken.fitted
        if fitted is None:
            return False
        for feature, lacks in zip(layout.features, lacking.tolist(), strict=True):
            if lacks and fitted.takes_missing_in(self.taken.column(feature.name) or feature.name) is False:
                return False
        return True

    def _run(
        self,
        layout: InputLayout,
        reading: OutputReading,
        population: Table,
        rows: TableRows,
        lacking: NDArray[np.bool_],
        *,
        single: bool,
    ) -> EncodingTrial:
        keep = population.keep_missing
        truth = None if rows.truth is None else rows.truth.astype(np.int64)
        labels = len(reading.model.labels)
        if self.opened is None:
            counts = None
            if truth is not None and rows.recorded is not None:
                counts = _confusion(truth, rows.recorded.astype(np.int64), labels)
            return EncodingTrial(layout, reading, rows, counts, None)
        model = self.opened.load(spec_of(layout, reading, population, self.most), rows)
        most = MOST_ROWS
        if not isinstance(model, OnnxModel):
            most = min(MOST_ASKED if single else FEW_ASKED, self.most or MOST_ASKED)
        if keep and (found := np.flatnonzero(lacking.any(axis=1))[:TRIED_MISSING]).size:
            _predicted(model, rows.values[found])
        if reading.model.decision == "logit" and not reading.given:
            reading = _read_scores(model, rows.values[_spread(len(rows.values), most)], reading)
            model = reloaded(self.opened, model, spec_of(layout, reading, population, self.most), rows)
        if truth is None or (self.taken.frame and self.taken.classes and not reading.free):
            # The model says everything itself, and its answers for a few rows show that it runs.
            return EncodingTrial(layout, reading, rows, None, model, keep)
        chosen = _spread(len(rows.values), most)
        counts = _confusion(truth[chosen], _predicted(model, rows.values[chosen]), labels)
        return EncodingTrial(layout, reading, rows, counts, model, keep)


def reloaded(opened: OpenedModel, model: Model, spec: Spec, rows: TableRows) -> Model:
    """Return the model for another spec with the same inputs; Python code keeps the answers that it gave."""
    again = getattr(model, "for_spec", None)
    if again is None:
        return opened.load(spec, rows)
    made: Model = again(spec)
    return made


def _read_scores(model: Model, values: NDArray[np.float64], reading: OutputReading) -> OutputReading:
    """Return a column of scores as probabilities; refuse one that cannot be that, since nothing says where to cut."""
    scores = model.scores(values.astype(model.dtype))
    low, high = float(np.min(scores)), float(np.max(scores))
    if low >= 0 and high <= 1:
        return reading.decided("probability", "Guess: all scores are between 0 and 1: probabilities, cut at 0.5.")
    raise CutOffNeededError(
        f"{model.name}: its scores go from {low:g} to {high:g}, so they are not probabilities, and nothing says which "
        "of them mean which label; state the score above which the second label is decided: --decision-threshold "
        "(decision_threshold=...), or --decision logit if that is 0"
    )


def _direction_needed(trial: EncodingTrial) -> CutOffNeededError:
    below, above = trial.reading.model.labels
    cut = trial.reading.model.decision_threshold
    return CutOffNeededError(
        f"labels: the rows do not show whether a score above {cut:g} means {shown(above)} or {shown(below)}; state the "
        "labels in this order, below and above: --labels BELOW --labels ABOVE (labels=[below, above])"
    )


def _confusion(truth: NDArray[np.int64], answers: NDArray[np.int64], labels: int) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = np.bincount(truth * labels + answers, minlength=labels * labels)
    return counts.reshape(labels, labels)


def _spread(count: int, most: int) -> NDArray[np.int64]:
    """Return the indices of rows spread over the whole table."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _predicted(model: Model, values: NDArray[np.float64]) -> NDArray[np.int64]:
    parts = [model.predict(part.astype(model.dtype)) for part in np.array_split(values, len(values) // 8192 + 1)]
    return np.concatenate(parts).astype(np.int64)


def _with_ordered_labels(trial: EncodingTrial) -> EncodingTrial:
    """Return the trial with the order of labels that agrees with the rows, if the guessed one is clearly worse.

    Of a score the rows must show clearly which label is above the cut-off.
    """
    reading, confusion = trial.reading, trial.confusion
    if confusion is None or not reading.free or len(confusion) > MOST_PERMUTED:
        return trial
    orders = sorted(map(list, permutations(range(len(confusion)))), key=lambda order: balanced(confusion[order]))
    best, second = orders[-1], orders[-2]
    score = reading.model.decision == "score"
    if score and balanced(confusion[best]) <= balanced(confusion[second]) + CLEARLY_BETTER:
        raise _direction_needed(trial)
    if not score and balanced(confusion[best]) <= trial.agreement + CLEARLY_BETTER:
        return trial
    why = "Guess: in this order the model agrees with the rows; in another order it would be right less often."
    guesses = tuple(guess for guess in reading.guesses if guess.key != "model.labels")
    model = msgspec.structs.replace(reading.model, labels=tuple(reading.model.labels[place] for place in best))
    # The label that is now at place i was at best[i]; the rows by true label follow it.
    ordered = replace(reading, model=model, guesses=(*guesses, Guess("model.labels", why)))
    return replace(trial, reading=ordered, confusion=confusion[best])


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
    """Return a warning about a guessed order of categories, with what the true labels say about it.

    All guessed orders are tested together: a network that has learnt from categories does worse when they are
    shuffled. An order without any merit is the best of twenty with probability 1/20. Python code, which may be slow, is
    not asked again for this.
    """
    guessed = {guess.key for guess in trial.layout.guesses if guess.text.startswith("Guess: the network")}
    sizes = {
        place: len(feature.values)
        for place, feature in enumerate(trial.layout.features)
        if f"feature.{feature.name}" in guessed and isinstance(feature, CategoryFeature) and len(feature.values) > 1
    }
    if not sizes or trial.model is None:
        return ()
    whose = f"The order of the values of {listed([trial.layout.features[place].name for place in sizes])} is a guess"
    remedy = (
        "State the order in which the network was trained, or codes = [...], in each [[feature]], or give a table "
        "whose columns have a category type"
    )
    if trial.rows.truth is None or not isinstance(trial.model, OnnxModel):
        return (Guess("feature", f"{whose} that nothing here can check. {remedy}.", loud=True),)
    rows = _spread(len(trial.rows.values), MOST_SHUFFLED_ROWS)
    # The order of the labels may have changed since the model was loaded: agreement is that of the best order.
    truth, labels = trial.rows.truth[rows].astype(np.int64), len(trial.reading.model.labels)
    random = np.random.Generator(np.random.Philox(0))
    agreements = []
    for shuffled in range(SHUFFLES + 1):
        values = trial.rows.values[rows]
        for place, size in sizes.items() if shuffled else ():
            values[:, place] = random.permutation(size)[values[:, place].astype(np.intp)]
        found = _confusion(truth, _predicted(trial.model, values), labels)
        orders = permutations(range(labels)) if trial.reading.free and labels <= MOST_PERMUTED else [range(labels)]
        agreements.append(max(balanced(found[list(order)]) for order in orders))
    stated, *others = agreements
    if max(others) <= stated + BETTER and np.mean(others) < stated - MATTERS:
        text = f"{whose}; none of {SHUFFLES} other orders agrees clearly better with the labels. {remedy}."
    else:
        text = f"{whose}, and probably a wrong one: other orders agree with the labels as well. {remedy}."
    return (Guess("feature", text, loud=True),)
