"""Trials of guesses: the model is run on the rows in each possible encoding, and their true labels choose one.

Agreement is balanced accuracy, the mean over the labels of the share of their rows that the model gets right, so that
a constant model has no advantage. An encoding further down the list must be clearly better to be taken.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.drafting.columns import Profile
from fairchain.drafting.guesses import DraftOptions, Guess
from fairchain.drafting.labels import OutputReading, output_readings
from fairchain.drafting.signature import Signature
from fairchain.errors import CutOffNeededError, DataError, InputError, ModelError
from fairchain.messages import shown
from fairchain.models import Model, OnnxModel
from fairchain.models.base import Described, spread
from fairchain.spec import Budget, Difference, Guarantee, Spec, Table, Texts
from fairchain.tables import TableRows

# Rows on which a network is tried; of Python code, which may be slow or cost money, fewer, and fewer still if there
# are several encodings.
MOST_ROWS, MOST_EVALUATED, FEW_EVALUATED = 50_000, 5_000, 256
# What agreement must gain for another encoding, and for another order of the labels.
BETTER, CLEARLY_BETTER = 0.02, 0.1
# Rows with a missing value on which it is tried whether Python code takes them.
TRIED_MISSING = 16
ORDER_NOT_SHOWN = (
    " That does not show which label each answer of the model means: state them in its order, --labels (labels=...), "
    "or name the column of the true labels, --label (label=...)."
)
PROBABILITIES = "Guess: all scores are between 0 and 1: probabilities, cut at 0.5."
CUT_OFF_NEEDED = (
    "{name}: its scores go from {low:g} to {high:g}, so they are not probabilities, and nothing says which of them "
    "mean which label; state the score above which the second label is decided: --decision-threshold "
    "(decision_threshold=...), or --decision logit if that is 0"
)
DIRECTION_NEEDED = (
    "labels: the rows do not show whether a score above {decision_threshold:g} means {above} or {below}; state the "
    "labels in this order, below and above: --labels BELOW --labels ABOVE (labels=[below, above])"
)


@dataclass(frozen=True, eq=False)
class EncodingTrial:
    """Encoding under which the model runs: its features, the meaning of its output, and the rows.

    `spec` suffices to load the model; its property is a placeholder. `confusion` (labels, labels) counts rows by true
    label and by the model's, None without true labels.
    """

    spec: Spec
    reading: OutputReading
    rows: TableRows
    model: Model | None = None
    confusion: NDArray[np.int64] | None = None

    @property
    def keeps_missing(self) -> bool:
        """Whether missing values are given to the model."""
        return isinstance(self.spec.population, Table) and self.spec.population.keep_missing

    @property
    def agreement(self) -> float:
        """Balanced accuracy; 0 without true labels."""
        return balanced(self.confusion) if self.confusion is not None else 0.0

    @property
    def order_unclear(self) -> bool:
        """Whether the true labels of the rows leave it open which label each answer of the model means."""
        labels = len(self.spec.model.labels)
        return self.reading.free and self.confusion is not None and self.agreement <= 1 / labels + CLEARLY_BETTER


def balanced(confusion: NDArray[np.int64]) -> float:
    """Return the balanced accuracy over the true labels that occur.

    >>> balanced(np.array([[90, 0], [10, 0]]))
    0.5
    """
    rows = confusion.sum(axis=1)
    there = rows > 0
    return float((np.diagonal(confusion)[there] / rows[there]).mean())


@dataclass(frozen=True, eq=False)
class Trials:
    """What is tried: a model, if there is one, on the rows that `read` returns for a spec with this population.

    Python code gets `most` rows at most, and a tenth of a stated budget. `certain`: the model or the caller states
    inputs and labels, so that the rows are compared with true labels only to find their order.
    """

    taken: Signature
    options: DraftOptions
    population: Table | Texts
    read: Callable[[Spec], TableRows]
    most: int = MOST_EVALUATED
    certain: bool = False

    def best(self, layouts: Sequence[Described], truth: Profile | None) -> EncodingTrial:
        """Return the first encoding under which the model runs, unless the true labels clearly favour another."""
        best: EncodingTrial | None = None
        problem: InputError | None = None
        readings = output_readings(self.taken, truth, self.options)
        most = min(self.budget or self.most, self.most if len(layouts) == 1 else FEW_EVALUATED)
        for layout in layouts:
            for reading in readings:
                try:
                    trial = self._tried(layout, reading, most)
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
            if best is not None and self.taken.runs_code and not self.taken.inputs:
                break  # Python code, which may cost money, is not evaluated in other encodings once it runs in one
        if best is None:
            assert problem is not None
            raise problem
        return _with_ordered_labels(best)

    @property
    def budget(self) -> int | None:
        """How many inputs a draft may evaluate: a tenth of a stated budget."""
        budget = self.options.guarantee.get("budget", {}).get("evaluations")
        return None if budget is None else max(1, int(budget) // 10)

    def _tried(self, layout: Described, reading: OutputReading, most: int) -> EncodingTrial:
        """Run the model in one encoding; Python code with the missing values first, if it may take them."""
        spec = Spec(
            model=reading.model,
            described=tuple(layout),
            population=self.population,
            property=Difference(protected=self.options.protected, threshold=0.1),
            guarantee=Guarantee(budget=Budget(evaluations=self.budget)),
        )
        if self.taken.runs_code and isinstance(spec.population, Table):
            keeping = replace(spec, population=replace(spec.population, keep_missing=True))
            rows = self.read(keeping)
            lacking = np.isnan(rows.values)
            names = [feature.name for feature, lacks in zip(layout, lacking.T, strict=True) if lacks.any()]
            if not names:
                return self._run(EncodingTrial(spec, reading, rows), most)
            if self.taken.may_take_missing(names):
                some = np.flatnonzero(lacking.any(axis=1))[:TRIED_MISSING]
                with suppress(ModelError):  # it does not take them
                    return self._run(EncodingTrial(keeping, reading, rows), most, some)
        return self._run(EncodingTrial(spec, reading, self.read(spec)), most)

    def _run(self, trial: EncodingTrial, most: int, missing: NDArray[np.int64] | None = None) -> EncodingTrial:
        """Run the model on the rows of a trial; first on those at `missing`, which lack a value."""
        spec, reading, rows = trial.spec, trial.reading, trial.rows
        if self.taken.source is None:
            return trial if rows.recorded is None else _compared(trial, slice(None), rows.recorded)
        model = self.taken.load(spec, rows)
        if missing is not None:
            _predicted(model, rows.values[missing])
        chosen = spread(len(rows.values), MOST_ROWS if isinstance(model, OnnxModel) else most)
        if reading.scores:
            scores = model.scores(rows.values[chosen].astype(model.dtype))
            low, high = float(np.min(scores)), float(np.max(scores))
            if not (low >= 0 and high <= 1):
                raise CutOffNeededError(CUT_OFF_NEEDED.format(name=model.name, low=low, high=high))
            reading = reading.decided("probability", PROBABILITIES)
            spec = replace(spec, model=reading.model)
            model = self.reloaded(model, spec, rows)
        trial = dataclasses.replace(trial, spec=spec, reading=reading, model=model)
        if rows.truth is None or (self.certain and not reading.free):
            return trial
        return _compared(trial, chosen, _predicted(model, rows.values[chosen]))

    def reloaded(self, model: Model, spec: Spec, rows: TableRows) -> Model:
        """Return the model for another spec with the same inputs; Python code keeps the answers that it gave."""
        again = getattr(model, "for_spec", None)
        return self.taken.load(spec, rows) if again is None else again(spec)


def _predicted(model: Model, values: NDArray[np.float64]) -> NDArray[np.int64]:
    parts = [model.predict(part.astype(model.dtype)) for part in np.array_split(values, len(values) // 8192 + 1)]
    return np.concatenate(parts).astype(np.int64)


def _compared(trial: EncodingTrial, chosen: slice | NDArray[np.int64], answers: NDArray[np.integer]) -> EncodingTrial:
    """Return the trial with the counts of these answers by the true labels of the chosen rows."""
    truth, labels = trial.rows.truth, len(trial.spec.model.labels)
    if truth is None:
        return trial
    counts = np.bincount(truth[chosen].astype(np.int64) * labels + answers, minlength=labels * labels)
    return dataclasses.replace(trial, confusion=counts.reshape(labels, labels))


def _with_ordered_labels(trial: EncodingTrial) -> EncodingTrial:
    """Return the trial with the order of labels that agrees with the rows, if the guessed one is clearly worse.

    Each answer of the model means the label whose rows get it most often. Of a score the rows must show clearly which
    label is above the cut-off.
    """
    reading, confusion, model = trial.reading, trial.confusion, trial.reading.model
    if not reading.free:
        return trial
    score, order, gain = model.decision == "score", list(range(len(model.labels))), 0.0
    if confusion is not None:
        found = (confusion / confusion.sum(axis=1, keepdims=True).clip(1)).argmax(axis=0).tolist()
        if sorted(found) == order:
            gain = balanced(confusion[found]) - balanced(confusion[found[::-1]] if score else confusion)
            order = found
    if gain <= CLEARLY_BETTER or confusion is None:
        if not score:
            return trial
        below, above = map(shown, model.labels)
        raise CutOffNeededError(
            DIRECTION_NEEDED.format(decision_threshold=model.decision_threshold, above=above, below=below)
        )
    why = "Guess: in this order the model agrees with the rows; in another order it would be right less often."
    guesses = tuple(guess for guess in reading.guesses if guess.key != "model.labels")
    model = replace(model, labels=tuple(model.labels[place] for place in order))
    ordered = dataclasses.replace(reading, model=model, guesses=(*guesses, Guess("model.labels", why)))
    # The label that is now at place i was at order[i]; the rows by true label follow it.
    spec = replace(trial.spec, model=model)
    return dataclasses.replace(trial, spec=spec, reading=ordered, confusion=confusion[order])


def about_agreement(trial: EncodingTrial, label: str | None, about_inputs: Sequence[Guess] = ()) -> list[Guess]:
    """Return the model's accuracy on the rows; a warning if it is too low, or does not show the order of the labels."""
    confusion = trial.confusion
    if confusion is None or label is None:
        return []
    rows = int(confusion.sum())
    commonest = int(confusion.sum(axis=1).argmax())
    right, constant = float(np.trace(confusion)) / rows, float(confusion[commonest].sum()) / rows
    text = (
        f"The model agrees with column {shown(label)} in {right:.1%} of {rows:,} rows; always answering "
        f"{shown(trial.reading.model.labels[commonest])} would agree in {constant:.1%}"
    )
    if right >= constant:
        return [Guess("", f"{text}.{ORDER_NOT_SHOWN if trial.order_unclear else ''}", loud=trial.order_unclear)]
    checks = ["the order of labels in [model]"] if trial.reading.free else []
    if any(guess.key == "feature" and not guess.loud for guess in about_inputs):
        checks.append("the order of the features")
    checks.append("scale = {...} of each number if the model was trained on scaled ones")
    return [Guess("", f"{text}, which is more. Check {'; '.join(checks)}.", loud=True)]
