"""Labels: the column that holds them, their names and order, the meaning of the model's output, and the outcome."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from fairchain.drafting.columns import Columns, Profile, like_protected, match_inputs, underscored
from fairchain.drafting.guesses import DraftOptions, Guess
from fairchain.drafting.signature import Class, Signature
from fairchain.errors import DataError, SpecError
from fairchain.messages import listed, shown, unknown
from fairchain.spec import ModelSpec
from fairchain.spec.population_keys import NA_VALUES
from fairchain.spec.schema import DecisionKind
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

    `free`: the order of the labels is a guess that rows may change. `scores`: one column, whose scores must show that
    they are probabilities.
    """

    model: ModelSpec
    guesses: tuple[Guess, ...] = ()
    free: bool = False
    scores: bool = False

    def decided(self, decision: DecisionKind, why: str = "") -> OutputReading:
        """Return the same labels with a decision and its reason."""
        guesses = (*self.guesses, Guess("model.decision", why)) if why else self.guesses
        return OutputReading(replace(self.model, decision=decision), guesses, self.free)


def find_label(columns: Columns, taken: Signature, labels: Sequence[str] = ()) -> tuple[str | None, str]:
    """Return the column that seems to hold the true labels, and the reason; None if there is none.

    `labels` are those that the caller stated, if any.
    """
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
        # The cut-off is on the probability of the second label.
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
            raise SpecError("decision_threshold: a cut-off decides between two labels, and there are more; drop it")
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
    column = dataclasses.replace(reading.decided("logit"), scores=True)
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
