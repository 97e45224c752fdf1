"""Labels: the column that holds them, their names and order, the meaning of the model's output, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from fairchain.drafting.columns import Columns, Profile, like_protected, match_inputs, plain
from fairchain.drafting.guesses import DraftOptions, Guess
from fairchain.drafting.signature import Class, Signature
from fairchain.errors import DataError, SpecError
from fairchain.messages import listed, shown, unknown
from fairchain.spec import ModelSpec
from fairchain.spec.schema import NA_VALUES, Decision
from fairchain.spec.validate import refuse_nul
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


@dataclass(frozen=True)
class OutputReading:
    """Meaning of the model's output.

    `free`: the order of the labels is a guess that rows may change; `given`: the decision was not guessed.
    """

    model: ModelSpec
    guesses: tuple[Guess, ...] = ()
    free: bool = False
    given: bool = False

    def decided(self, decision: Decision, why: str = "") -> OutputReading:
        """Return the same labels with a decision and its reason."""
        guesses = (*self.guesses, Guess("model.decision", why)) if why else self.guesses
        return OutputReading(replace(self.model, decision=decision), guesses, self.free, given=True)


def find_label(columns: Columns, taken: Signature, labels: Sequence[str] = ()) -> tuple[str | None, Guess | None]:
    """Return the column that seems to hold the true labels, and the reason; None if there is none.

    `labels` are those that the caller stated, if any.
    """
    inputs = (match_inputs(columns, taken) if taken.inputs else None) or dict.fromkeys(taken.columns)
    rest = [name for name in columns if name not in inputs and not like_protected([name])]
    able: dict[str, set[str]] = {}
    for name in rest:
        with suppress(DataError):  # a column that cannot be read, and may not be needed
            able[name] = {*columns[name].counts} - {*NA_VALUES}
    able = {name: texts for name, texts in able.items() if 2 <= len(texts) <= FEW_LABELS}
    if labels or any(isinstance(each, str) for each in taken.classes):
        # Labels that are stated, and those of a model that states texts, are these texts; numbers may stand for others.
        able = {name: texts for name, texts in able.items() if texts <= {*labels, *map(str, taken.classes)}}
    # The name that is most like that of a label, the last of equals.
    ranked = [(LABEL_NAMES.index(plain(name)), -place) for place, name in enumerate(able) if plain(name) in LABEL_NAMES]
    same = [name for name, texts in able.items() if texts == {str(each) for each in taken.classes}]
    width = taken.inputs[0].width if len(taken.inputs) == 1 else None
    over = rest if inputs else list(columns)[-1:] if width == len(columns) - 1 else []
    if ranked:
        found, why = list(able)[-min(ranked)[1]], "by its name"
    elif len(same) == 1:
        found, why = same[0], "since it holds the model's labels"
    elif len(over) == 1 and over[0] in able:
        found, why = over[0], "since the model does not take it"
    else:
        return None, None
    return found, Guess("population.label", f"Guess: column {shown(found)} has the true labels, {why}.")


def output_readings(taken: Signature, truth: Profile | None, options: DraftOptions) -> list[OutputReading]:
    """Return the possible meanings of the model's output, the likeliest first; the first that works is taken."""
    names = () if truth is None else _names(truth)
    cut = options.decision_threshold
    base = ModelSpec(
        labels=("0", "1"),
        decision=options.decision,
        output=options.model_output,
        decision_threshold=cut,
        deterministic=options.deterministic,
    )
    if options.labels:
        stated = OutputReading(replace(base, labels=options.labels, codes=_stated_codes(taken, options.labels)))
        return _with_decision(stated, taken)
    if taken.classes:
        reading = _by_classes(base, taken, names, truth)
        if cut is not None and options.decision is None:
            reading = _cut_off_second(reading, taken, options.outcome)
        return _with_decision(reading, taken)
    scores = taken.answers if not taken.labels else None
    places = tuple(map(str, range(scores or 0)))
    if cut is not None and not names and scores in (None, 1, 2):
        found = [OutputReading(replace(base, labels=(f"at most {cut:g}", f"above {cut:g}")))]
    elif scores is not None and scores > 1 and set(names) <= set(places):
        why = "The table calls its labels 0, 1, ... too." if names else "Neither network nor table name the labels."
        found = [OutputReading(replace(base, labels=places), (Guess("model.labels", why),))]
    elif scores is not None and scores > 1 and len(names) != scores:
        raise _not_labels(
            truth, LABELS_DO_NOT_FIT_SCORES.format(names_count=len(names), names=listed(names), scores=scores)
        )
    elif not names:
        why = "Guess: two labels; neither model nor table name them."
        found = [OutputReading(base, (Guess("model.labels", why),))]
    elif names == tuple(map(str, range(len(names)))):
        # Of a score nothing says that more of it means 1: the rows must show it.
        found = [OutputReading(replace(base, labels=names), free=cut is not None and scores == 1)]
    elif options.prediction is not None:
        found = [OutputReading(replace(base, labels=names))]
    else:
        guess = Guess("model.labels", "Guess: the model has the labels of the table in sorted order.")
        found = [OutputReading(replace(base, labels=names), (guess,), free=True)]
    if scores is None and cut is None and names and all(name.lstrip("-").isdigit() for name in names):
        # The network may return the whole numbers of the table.
        found.insert(0, OutputReading(replace(base, labels=names, codes=_codes([int(name) for name in names]))))
    return [each for reading in found for each in _with_decision(reading, taken)]


def _names(truth: Profile) -> tuple[str, ...]:
    """Return the labels in a column, in order."""
    names = tuple(dict.fromkeys(plain_text(text) for text in truth.texts if text not in NA_VALUES))
    if not 2 <= len(names) <= MOST_LABELS:
        raise _not_labels(truth, f"{len(names):,} different labels, and there must be 2 to {MOST_LABELS}")
    return names


def _stated_codes(taken: Signature, labels: Sequence[str]) -> tuple[Class, ...] | None:
    """Return what the model calls the stated labels: its own classes, unless these are the labels themselves."""
    if not taken.labels or not taken.classes or [str(each) for each in taken.classes] == list(labels):
        return _codes(taken.classes) if taken.labels and taken.classes and isinstance(taken.classes[0], int) else None
    by_name = {str(each): each for each in taken.classes}
    if set(labels) == set(by_name):  # the same labels in another order
        return tuple(by_name[label] for label in labels)
    if len(labels) != len(taken.classes):
        raise SpecError(f"labels: found {listed(labels)}, and the model has {listed(list(by_name))}; name each of them")
    return tuple(taken.classes)


def _not_labels(truth: Profile | None, what: str) -> DataError:
    assert truth is not None
    where = f"{truth.table.source}: column {shown(truth.name)}"
    return DataError(f"{where} holds {what}; name the column with the true labels: --label (label=...)")


def _by_classes(base: ModelSpec, taken: Signature, names: tuple[str, ...], truth: Profile | None) -> OutputReading:
    """Return the labels that the model states, in its order."""
    called = tuple(str(each) for each in taken.classes)
    if set(names) == {"True", "False"} and taken.classes == (0, 1):
        called = ("False", "True")
    codes = _codes(taken.classes) if taken.labels else None
    if set(names) <= set(called):
        texts = codes is not None and isinstance(codes[0], str)
        return OutputReading(replace(base, labels=called, codes=None if texts else codes))
    if len(names) != len(called):
        raise _not_labels(truth, f"the labels {listed(names)} and the model knows {listed(called)}")
    guess = f"Guess: what the model calls {listed(called)} is {listed(names)} in the table, in this order."
    return OutputReading(replace(base, labels=names, codes=codes), (Guess("model.labels", guess),), free=True)


def _cut_off_second(reading: OutputReading, taken: Signature, outcome: str | None) -> OutputReading:
    """Return the labels of a classifier in the order in which the cut-off is on the probability of the second."""
    labels, codes = reading.model.labels, reading.model.codes or taken.classes
    second = outcome if outcome in labels else favourable(labels) or labels[-1]
    ordered = sorted(zip(labels, codes, strict=True), key=lambda pair: pair[0] == second)
    labels, codes = zip(*ordered, strict=True)
    cut = reading.model.decision_threshold
    told = Guess("model.decision_threshold", f"{shown(second)} is decided above a probability of {cut:g}.")
    return OutputReading(replace(reading.model, labels=labels, codes=codes), (*reading.guesses, told), given=True)


def _codes(classes: Sequence[Class]) -> tuple[Class, ...] | None:
    return None if list(classes) == list(range(len(classes))) else tuple(classes)


def _with_decision(reading: OutputReading, taken: Signature) -> list[OutputReading]:
    """Return the reading with what the output means: given, visible in the model, or several to try."""
    refuse_nul(reading.model)
    sigmoid, one, cut = taken.maker == "Sigmoid", taken.answers == 1, reading.model.decision_threshold
    if reading.model.decision is not None:
        return [OutputReading(reading.model, reading.guesses, reading.free, given=True)]
    if cut is not None:
        if len(reading.model.labels) != 2:
            raise SpecError("decision_threshold: a cut-off decides between two labels, and there are more; drop it")
        if taken.classes and taken.labels:
            return [reading.decided("probability")]
        several, column = reading.decided("probability"), reading.decided("score")
        return [column] if one and not sigmoid else [several] if taken.answers == 2 or sigmoid else [column, several]
    if taken.labels or (taken.answers is not None and not one and not sigmoid):
        return [reading]
    if sigmoid and one:
        return [reading.decided("probability", "The network ends in a Sigmoid.")]
    if sigmoid and taken.answers is not None:
        return [reading.decided("argmax", f"Guess: the largest of the {taken.answers} outputs is the class.")]
    column = OutputReading(replace(reading.model, decision="logit"), reading.guesses, reading.free)
    if one:
        return [column]
    return [reading, column] if len(reading.model.labels) == 2 else [reading]


def find_outcome(labels: Sequence[str], outcome: str | None) -> tuple[str | None, tuple[Guess, ...]]:
    """Return the outcome: the one given, a favourable one, the second of two labels, or None for every label."""
    if outcome is not None:
        if outcome not in labels:
            raise DataError(f"outcome: {unknown('label', outcome, labels)}")
        return outcome, ()
    chosen = named = favourable(labels)
    if len(labels) == 2:
        chosen = named or labels[1]
        why = "by its name" if named else "the second label"
        text = f"Guess: {shown(chosen)}, {why}. The choice matters for a ratio, not for a difference."
    elif named is not None:
        text = f"Guess: {shown(named)} is the favourable outcome, by its name."
    else:
        text = "Every label is compared; no name shows a favourable outcome."
    return chosen, (Guess("property.outcome", text),)


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
