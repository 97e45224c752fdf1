"""Labels and trials: the column of true labels, the possible meanings of the model's output, and the best encoding.

The model is run on the rows in each possible encoding, and their true labels choose one. Agreement is balanced
accuracy, the mean over the labels of the share of their rows that the model gets right, so that a constant model has
no advantage. An encoding further down the list must be clearly better to be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairchain.drafting.columns import Columns, Profile, like_protected, match_inputs, underscored
from fairchain.drafting.guesses import DraftOptions, Guess
from fairchain.drafting.signature import Class, Signature
from fairchain.errors import DataError, DecisionThresholdNeededError, InputError, ModelError, SpecError
from fairchain.messages import listed, shown, unknown
from fairchain.models import Model, OnnxModel, load_model
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.base import Described, spread
from fairchain.spec import Budget, Difference, Guarantee, ModelSpec, Spec, Table, Texts
from fairchain.spec.population_keys import NA_VALUES
from fairchain.spec.schema import DecisionKind
from fairchain.spec.validate import refuse_nul
from fairchain.tables import TableRows
from fairchain.tables.columns import plain_text

# Likeliest first; compared as lower-case words joined by underscores.
LABEL_NAMES = (
    *("label", "labels", "target", "y", "y_true", "truth", "ground_truth", "class", "outcome", "two_year_recid"),
    *("is_recid", "recid", "income", "risk", "credit_risk", "deposit", "subscribed", "approved", "loan_status"),
    *("hired", "admitted", "accepted", "granted", "decision", "result", "response", "output", "salary", "churn"),
    *("survived", "good_bad", "diagnosis", "status"),
)
FAVOURABLE = (
    *("yes", "approved", "approve", "accepted", "accept", "granted", "grant", "hired", "hire", "admitted", "admit"),
    *("good", "positive", "favourable", "favorable", "true", "success", "passed", "pass", "selected", "paid", "1"),
)
# Most labels of a column that was named, and of one that is guessed.
MOST_LABELS, FEW_LABELS = 100, 20
LABELS_DO_NOT_FIT_SCORES = "{names_count} labels ({names}) and the network gives {scores} scores"
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
DECISION_THRESHOLD_NEEDED = (
    "{name}: its scores go from {low:g} to {high:g}, so they are not probabilities, and nothing says which of them "
    "mean which label; state the score above which the second label is decided: --decision-threshold "
    "(decision_threshold=...), or --decision logit if that is 0"
)
DIRECTION_NEEDED = (
    "labels: the rows do not show whether a score above {decision_threshold:g} means {above} or {below}; state the "
    "labels in this order, below and above: --labels BELOW --labels ABOVE (labels=[below, above])"
)


@dataclass(frozen=True)
class OutputReading:
    """Meaning of the model's output; `free`: the order of the labels is a guess that rows may change."""

    model: ModelSpec
    guesses: tuple[Guess, ...] = ()
    free: bool = False

    def decided(self, decision: DecisionKind, why: str = "") -> OutputReading:
        """Return the same labels with a decision and its reason."""
        guesses = (*self.guesses, Guess("model.decision", why)) if why else self.guesses
        return OutputReading(replace(self.model, decision=decision), guesses, self.free)


def find_label(columns: Columns, taken: Signature, labels: Sequence[str] = ()) -> tuple[str | None, str]:
    """Return the column that seems to hold the true labels, and the reason; None if there is none."""
    inputs = match_inputs(columns, taken) or dict.fromkeys(taken.columns)
    rest = [name for name in columns if name not in inputs and not like_protected([name])]
    able: dict[str, set[str]] = {}
    for name in rest:
        with suppress(DataError):  # a column that cannot be read, and may not be needed
            able[name] = {*columns[name].counts} - {*NA_VALUES}
    able = {name: texts for name, texts in able.items() if 2 <= len(texts) <= FEW_LABELS}
    if labels or any(isinstance(each, str) for each in taken.classes):
        # Labels that are stated, and those of a model that states texts, are these texts; numbers may stand for others.
        able = {name: texts for name, texts in able.items() if texts <= {*labels, *taken.class_names}}
    # The last of names that are equally like that of a label.
    named = [name for name in reversed(able) if underscored(name) in LABEL_NAMES]
    same = [name for name, texts in able.items() if texts == set(taken.class_names)]
    width = taken.inputs[0].width if len(taken.inputs) == 1 else None
    over = rest if inputs else list(columns)[-1:] if width == len(columns) - 1 else []
    if named:
        return min(named, key=lambda name: LABEL_NAMES.index(underscored(name))), "by its name"
    if len(same) == 1:
        return same[0], "since it holds the model's labels"
    if len(over) == 1 and over[0] in able:
        return over[0], "since the model does not take it"
    return None, ""


def output_readings(taken: Signature, truth: Profile | None, options: DraftOptions) -> list[OutputReading]:
    """Return the possible meanings of the model's output, the likeliest first; the first that works is taken."""
    names: tuple[str, ...] = ()
    if truth is not None:
        names = tuple(dict.fromkeys(plain_text(text) for text in truth.texts if text not in NA_VALUES))
        if not 2 <= len(names) <= MOST_LABELS:
            raise _not_labels(truth, f"{len(names):,} different labels, and there must be 2 to {MOST_LABELS}")
    labels, why, free = _labels(names, taken, truth, options)
    codes, cut = _codes(labels, taken), options.decision_threshold
    told = [Guess("model.labels", why)] if why else []
    if taken.classes and not options.labels and cut is not None and options.decision is None:
        # The threshold is on the probability of the second label.
        second = str(options.outcome if options.outcome in labels else favourable(labels) or labels[-1])
        pairs = zip(labels, codes or taken.classes, strict=True)
        labels, codes = zip(*sorted(pairs, key=lambda pair: pair[0] == second), strict=True)
        told.append(Guess("model.decision_threshold", f"{shown(second)} is decided above a probability of {cut:g}."))
        free = False
    model = ModelSpec(
        labels=tuple(labels),
        codes=codes,
        decision=options.decision,
        output=options.model_output,
        decision_threshold=cut,
        deterministic=options.deterministic,
    )
    found = [OutputReading(model, tuple(told), free)]
    unnamed = not options.labels and not taken.classes and (taken.labels or taken.answers is None)
    if unnamed and cut is None and names and all(name.lstrip("-").isdigit() for name in names):
        # The network may return the whole numbers of the table.
        found.insert(0, OutputReading(replace(model, labels=names, codes=_unless_places([*map(int, names)]))))
    return [each for reading in found for each in _with_decision(reading, taken)]


def _labels(
    names: Sequence[str], taken: Signature, truth: Profile | None, options: DraftOptions
) -> tuple[Sequence[str], str, bool]:
    """Return the labels in the model's order, the reason, and whether the rows may change that order.

    They are those stated, the model's own, which the table may call by other names, those of the table, or places.
    """
    called: Sequence[str] = taken.class_names
    if set(names) == {"True", "False"} and taken.classes == (0, 1):
        called = ("False", "True")
    cut, scores, why, free = options.decision_threshold, None if taken.labels else taken.answers, "", False
    places = tuple(map(str, range(scores or 0)))
    if options.labels:
        names = options.labels
    elif called and set(names) <= set(called):
        names = called
    elif called and len(names) != len(called):
        raise _not_labels(truth, f"the labels {listed(names)} and the model knows {listed(called)}")
    elif called:
        why = f"Guess: what the model calls {listed(called)} is {listed(names)} in the table, in this order."
        free = True
    elif cut is not None and not names and scores in (None, 1, 2):
        names = (f"at most {cut:g}", f"above {cut:g}")
    elif len(places) > 1 and set(names) <= set(places):
        why = "The table calls its labels 0, 1, ... too." if names else "Neither network nor table name the labels."
        names = places
    elif len(places) > 1 and len(names) != scores:
        counts = {"names_count": len(names), "names": listed(names), "scores": scores}
        raise _not_labels(truth, LABELS_DO_NOT_FIT_SCORES.format(**counts))
    elif not names:
        names, why = ("0", "1"), "Guess: two labels; neither model nor table name them."
    elif names == tuple(map(str, range(len(names)))):
        # Of a score nothing says that more of it means 1: the rows must show it.
        free = cut is not None and scores == 1
    elif options.prediction is None:
        why, free = "Guess: the model has the labels of the table in sorted order.", True
    return names, why, free


def _not_labels(truth: Profile | None, what: str) -> DataError:
    assert truth is not None
    where = f"{truth.table.source}: column {shown(truth.name)}"
    return DataError(f"{where} holds {what}; name the column with the true labels: --label (label=...)")


def _codes(labels: Sequence[str], taken: Signature) -> tuple[Class, ...] | None:
    """Return what the model calls these labels: its own classes, unless these are the labels themselves or 0, 1, ..."""
    if not taken.labels or not taken.classes or list(taken.classes) == list(labels):
        return None
    by_name = dict(zip(taken.class_names, taken.classes, strict=True))
    if len(labels) != len(by_name):
        raise SpecError(f"labels: found {listed(labels)}, and the model has {listed(list(by_name))}; name each of them")
    return _unless_places([by_name[each] for each in labels] if set(labels) == set(by_name) else taken.classes)


def _unless_places(codes: Sequence[Class]) -> tuple[Class, ...] | None:
    return None if list(codes) == list(range(len(codes))) else tuple(codes)


def _with_decision(reading: OutputReading, taken: Signature) -> list[OutputReading]:
    """Return the reading with what the output means: given, visible in the model, or several to try."""
    refuse_nul(reading.model)
    sigmoid, one, cut = taken.maker == "Sigmoid", taken.answers == 1, reading.model.decision_threshold
    if reading.model.decision is not None:
        return [reading]
    if cut is not None:
        if len(reading.model.labels) != 2:
            raise SpecError("decision_threshold: divides two labels, and there are more; remove it")
        several, column = reading.decided("probability"), reading.decided("score")
        if (taken.classes and taken.labels) or taken.answers == 2 or sigmoid:
            return [several]
        return [column] if one else [column, several]
    if taken.labels or (taken.answers is not None and not one and not sigmoid):
        return [reading]
    if sigmoid and one:
        return [reading.decided("probability", "The network ends in a Sigmoid.")]
    if sigmoid and taken.answers is not None:
        return [reading.decided("argmax", f"Guess: the largest of the {taken.answers} outputs is the class.")]
    column = reading.decided("logit")
    return [column] if one else [reading, column] if len(reading.model.labels) == 2 else [reading]


def find_outcome(labels: Sequence[str], outcome: str | None, told: list[Guess]) -> str | None:
    """Return the outcome: the one given, a favourable one, the second of two labels, or None for every label."""
    if outcome is not None:
        if outcome not in labels:
            raise DataError(f"outcome: {unknown('label', outcome, labels)}")
        return outcome
    named = favourable(labels)
    text = "Every label is compared; no name shows a favourable outcome."
    if named is not None:
        text = f"Guess: {shown(named)} is the favourable outcome, by its name."
    if len(labels) == 2:
        why = "by its name" if named else "the second label"
        named = named or labels[1]
        text = f"Guess: {shown(named)}, {why}. The choice matters for a ratio, not for a difference."
    told.append(Guess("property.outcome", text))
    return named


def favourable(labels: Sequence[str]) -> str | None:
    """Return the favourable label, by its name; None if no name shows it.

    >>> favourable(["<=50K", ">50K"]), favourable(["bad", "good"]), favourable(["0", "1"]), favourable(["a", "b"])
    ('>50K', 'good', '1', None)
    """
    folded = {label.strip().casefold(): label for label in reversed(labels)}
    for word in FAVOURABLE:
        if word in folded:
            return folded[word]
    above = [label for label in labels if label.lstrip().startswith(">")]
    return above[0] if len(above) == 1 else None


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
        budget = self.options.guarantee.get("budget", {}).get("evaluations")
        budget = None if budget is None else max(1, int(budget) // 10)
        most = min(budget or self.most, self.most if len(layouts) == 1 else FEW_EVALUATED)
        for layout in layouts:
            for reading in readings:
                spec = Spec(
                    model=reading.model,
                    described=tuple(layout),
                    population=self.population,
                    property=Difference(protected=self.options.protected, threshold=0.1),
                    guarantee=Guarantee(budget=Budget(evaluations=budget)),
                )
                try:
                    trial = self._tried(spec, reading, most)
                except DecisionThresholdNeededError:
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

    def _tried(self, spec: Spec, reading: OutputReading, most: int) -> EncodingTrial:
        """Run the model in one encoding; Python code with the missing values first, if it may take them."""
        if self.taken.runs_code and isinstance(spec.population, Table):
            keeping = replace(spec, population=replace(spec.population, keep_missing=True))
            rows = self.read(keeping)
            lacking = np.isnan(rows.values)
            names = [feature.name for feature, lacks in zip(spec.described, lacking.T, strict=True) if lacks.any()]
            if not names:
                return self._run(spec, reading, rows, most)
            fitted = self.taken.fitted
            if all(fitted.takes_missing_in(fitted.column(name) or name) is not False for name in names):
                some = np.flatnonzero(lacking.any(axis=1))[:TRIED_MISSING]
                with suppress(ModelError):  # it does not take them
                    return self._run(keeping, reading, rows, most, some)
        return self._run(spec, reading, self.read(spec), most)

    def _run(
        self, spec: Spec, reading: OutputReading, rows: TableRows, most: int, missing: NDArray[np.int64] | None = None
    ) -> EncodingTrial:
        """Run the model on these rows; first on those at `missing`, which lack a value."""
        if self.taken.source is None:
            counts = None if rows.recorded is None else _confusion(spec, rows.truth, rows.recorded)
            return EncodingTrial(spec, reading, rows, confusion=counts)
        model = self.load(spec, rows)
        if missing is not None:
            _predicted(model, rows.values[missing])
        chosen = spread(len(rows.values), MOST_ROWS if isinstance(model, OnnxModel) else most)
        if reading.model.decision == "logit" and self.options.decision is None:
            # The scores of one column must show that they are probabilities.
            scores = model.scores(rows.values[chosen].astype(model.dtype))
            low, high = float(np.min(scores)), float(np.max(scores))
            if not (low >= 0 and high <= 1):
                raise DecisionThresholdNeededError(
                    DECISION_THRESHOLD_NEEDED.format(name=model.name, low=low, high=high)
                )
            reading = reading.decided("probability", PROBABILITIES)
            spec = replace(spec, model=reading.model)
            model = self.load(spec, rows, model)
        if rows.truth is None or (self.certain and not reading.free):
            return EncodingTrial(spec, reading, rows, model)
        counts = _confusion(spec, rows.truth[chosen], _predicted(model, rows.values[chosen]))
        return EncodingTrial(spec, reading, rows, model, counts)

    def load(self, spec: Spec, rows: TableRows, model: Model | None = None) -> Model:
        """Return the model for this spec; Python code that is loaded as `model` keeps the answers that it gave."""
        if isinstance(model, FunctionModel):
            return model.for_spec(spec)
        # The caller named this model; a name from a spec file never comes here.
        return load_model(self.taken.source, spec, self.options.limits, allow_python=True, rows=rows)


def _predicted(model: Model, values: NDArray[np.float64]) -> NDArray[np.int64]:
    parts = [model.predict(part.astype(model.dtype)) for part in np.array_split(values, len(values) // 8192 + 1)]
    return np.concatenate(parts).astype(np.int64)


def _confusion(spec: Spec, truth: NDArray[np.integer] | None, answers: NDArray[np.integer]) -> NDArray[np.int64] | None:
    """Return the counts of rows by true label and by answer; None without true labels."""
    labels = len(spec.model.labels)
    if truth is None:
        return None
    return np.bincount(truth.astype(np.int64) * labels + answers, minlength=labels**2).reshape(labels, labels)


def _with_ordered_labels(trial: EncodingTrial) -> EncodingTrial:
    """Return the trial with the order of labels that agrees with the rows, if the guessed one is clearly worse.

    Each answer of the model means the label whose rows get it most often. Of a score the rows must show clearly which
    label is above the threshold.
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
        cut = model.decision_threshold
        raise DecisionThresholdNeededError(DIRECTION_NEEDED.format(decision_threshold=cut, above=above, below=below))
    why = "Guess: in this order the model agrees with the rows; in another order it would be right less often."
    guesses = [guess for guess in reading.guesses if guess.key != "model.labels"]
    model = replace(model, labels=tuple(model.labels[place] for place in order))
    ordered = OutputReading(model, (*guesses, Guess("model.labels", why)), free=True)
    # The label that is now at place i was at order[i]; the rows by true label follow it.
    return EncodingTrial(replace(trial.spec, model=model), ordered, trial.rows, trial.model, confusion[order])


def about_agreement(trial: EncodingTrial, label: str | None, about_inputs: Sequence[Guess] = ()) -> list[Guess]:
    """Return the model's accuracy on the rows; a warning if it is too low, or does not show the order of the labels."""
    confusion = trial.confusion
    if confusion is None or label is None:
        return []
    rows = int(confusion.sum())
    commonest = int(confusion.sum(axis=1).argmax())
    right, constant = float(np.trace(confusion)) / rows, float(confusion[commonest].sum()) / rows
    recorded = trial.model is None
    decided = "The decisions agree" if recorded else "The model agrees"
    text = (
        f"{decided} with column {shown(label)} in {right:.1%} of {rows:,} rows; always answering "
        f"{shown(trial.reading.model.labels[commonest])} would agree in {constant:.1%}"
    )
    if right >= constant:
        return [Guess("", f"{text}.{ORDER_NOT_SHOWN if trial.order_unclear else ''}", loud=trial.order_unclear)]
    if recorded:
        return [Guess("", f"{text}, which is more. Check the columns of decisions and of true labels.", loud=True)]
    checks = ["the order of labels in [model]"] if trial.reading.free else []
    if any(guess.key == "feature" and not guess.loud for guess in about_inputs):
        checks.append("the order of the features")
    checks.append("scale = {...} of each number if the model was trained on scaled ones")
    return [Guess("", f"{text}, which is more. Check {'; '.join(checks)}.", loud=True)]
