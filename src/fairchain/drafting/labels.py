"""Labels: which column holds them, what they are called, in which order, and what the model's answer means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from fairchain.drafting.draft_result import Guess
from fairchain.drafting.input_layouts import Columns, match_inputs
from fairchain.drafting.model_signature import Class, Signature
from fairchain.drafting.name_hints import like_label, like_protected, wanted
from fairchain.drafting.profile import Profile
from fairchain.errors import DataError
from fairchain.messages import near, shown
from fairchain.spec import ModelSpec
from fairchain.spec.schema import NOT_KNOWN, Decision
from fairchain.tables.columns import plain_text

# More different cells than this are no labels.
MOST_LABELS = 100
FEW_LABELS = 20


@dataclass(frozen=True)
class Reading:
    """How to read the model's answers.

    `free`: the order of the labels is a guess that rows may change; `given`: the decision was not guessed.
    """

    model: ModelSpec
    guesses: tuple[Guess, ...] = ()
    free: bool = False
    given: bool = False


def find_label(columns: Columns, taken: Signature) -> tuple[str | None, Guess | None]:
    """The column with the true labels, guessed; None if no column looks like it."""
    inputs = (match_inputs(columns, taken) if taken.inputs else None) or dict.fromkeys(taken.columns)
    rest = [name for name in columns if name not in inputs and not like_protected([name])]
    able = {name: columns[name] for name in rest if _few(columns[name])}
    named = like_label(able)
    if named is not None:
        return named, _about_label(named, "by its name")
    known = {str(each) for each in taken.classes}
    same = [name for name, profile in able.items() if known and {*profile.counts} - {*NOT_KNOWN} == known]
    if len(same) == 1:
        return same[0], _about_label(same[0], "since it holds the model's labels")
    width = taken.inputs[0].width if len(taken.inputs) == 1 else None
    if inputs:
        over = rest if len(rest) == 1 else []
    else:
        over = list(columns)[-1:] if width == len(columns) - 1 else []
    if over and over[0] in able:
        return over[0], _about_label(over[0], "since it is no input")
    return None, None


def _about_label(name: str, why: str) -> Guess:
    return Guess("population.label", f"Guess: column {shown(name)} has the true labels, {why}.")


def _few(profile: Profile) -> bool:
    """Whether a column can hold labels at all."""
    try:
        return 2 <= len(set(profile.counts) - {*NOT_KNOWN}) <= FEW_LABELS
    except DataError:  # a column that cannot be read, and perhaps nobody needs
        return False


def readings(
    taken: Signature, truth: Profile | None, decision: Decision | None = None, output: str | None = None
) -> list[Reading]:
    """The ways to read the model's answers, the likeliest first; the first that works is taken."""
    names = _names(truth)
    base = ModelSpec(labels=("0", "1"), decision=decision, output=output)
    if taken.classes:
        return [_by_classes(base, taken, names, truth)]
    if taken.answers is not None and taken.answers > 1 and not taken.labels:
        made = [_by_scores(base, taken, names, truth)]
    elif taken.answers == 1 and not taken.labels:
        made = [_sorted(base, names)]
    else:
        made = _by_numbers(base, names)
    return [each for reading in made for each in _decided(reading, taken)]


def _names(truth: Profile | None) -> tuple[str, ...]:
    if truth is None:
        return ()
    names = list(dict.fromkeys(plain_text(text) for text in truth.texts if text not in NOT_KNOWN))
    if not 2 <= len(names) <= MOST_LABELS:
        raise DataError(
            f"{truth.table.source}: column {shown(truth.name)} holds {len(names):,} different labels, and there must "
            f"be 2 to {MOST_LABELS}; name the column with the true labels: --label (label=...)"
        )
    return tuple(names)


def _by_classes(base: ModelSpec, taken: Signature, names: tuple[str, ...], truth: Profile | None) -> Reading:
    """The model says what it calls its labels, and in which order."""
    called = tuple(str(each) for each in taken.classes)
    if set(names) == {"True", "False"} and taken.classes == (0, 1):
        called = ("False", "True")
    codes = _codes(taken.classes) if taken.labels else None
    if set(names) <= set(called):
        if codes is not None and isinstance(codes[0], str):
            codes = None
        return Reading(replace(base, labels=called, codes=codes))
    if len(names) != len(called):
        assert truth is not None
        raise DataError(
            f"{truth.table.source}: column {shown(truth.name)} holds the labels {_listed(names)} and the model knows "
            f"{_listed(called)}; name the column with the true labels: --label (label=...)"
        )
    guess = f"Guess: what the model calls {_listed(called)} is {_listed(names)} in the table, in this order."
    return Reading(replace(base, labels=names, codes=codes), (Guess("model.labels", guess),), free=True)


def _codes(classes: Sequence[Class]) -> tuple[Class, ...] | None:
    return None if list(classes) == list(range(len(classes))) else tuple(classes)


def _by_scores(base: ModelSpec, taken: Signature, names: tuple[str, ...], truth: Profile | None) -> Reading:
    """One score for each label, in an order that the network does not tell."""
    count = taken.answers or 0
    places = tuple(map(str, range(count)))
    if set(names) <= set(places):
        why = "The table calls its labels 0, 1, ... too." if names else "Neither network nor table name the labels."
        return Reading(replace(base, labels=places), (Guess("model.labels", why),))
    if len(names) == count:
        return _sorted(base, names)
    assert truth is not None
    raise DataError(
        f"{truth.table.source}: column {shown(truth.name)} holds {len(names)} labels ({_listed(names)}) and the "
        f"network gives {count} scores; name the column with the true labels: --label (label=...)"
    )


def _by_numbers(base: ModelSpec, names: tuple[str, ...]) -> list[Reading]:
    """Labels come out of the network as whole numbers: those of the table, or 0, 1, ..."""
    ways = [_sorted(base, names)]
    if names and all(name.lstrip("-").isdigit() for name in names):
        codes = tuple(int(name) for name in names)
        ways.insert(0, Reading(replace(base, labels=names, codes=_codes(codes))))
    return ways


def _sorted(base: ModelSpec, names: tuple[str, ...]) -> Reading:
    if not names:
        return Reading(base, (Guess("model.labels", "Guess: two labels; neither model nor table name them."),))
    if names == tuple(map(str, range(len(names)))):
        return Reading(replace(base, labels=names))
    guess = Guess("model.labels", "Guess: the model has the labels of the table in sorted order.")
    return Reading(replace(base, labels=names), (guess,), free=True)


def _decided(reading: Reading, taken: Signature) -> list[Reading]:
    """With what the answer means: given, seen in the network, or several ways to try."""
    if reading.model.decision is not None:
        return [Reading(reading.model, reading.guesses, reading.free, given=True)]
    if taken.labels:
        return [reading]
    if taken.answers is not None and taken.answers > 1:
        if taken.maker != "Sigmoid":
            return [reading]
        guess = Guess("model.decision", f"Guess: the largest of the {taken.answers} outputs is the class.")
        return [decided(reading, "argmax", guess)]
    if taken.answers == 1 and taken.maker == "Sigmoid":
        return [decided(reading, "probability", Guess("model.decision", "The network ends in a Sigmoid."))]
    column = Reading(replace(reading.model, decision="logit"), reading.guesses, reading.free)
    if taken.answers == 1:
        return [column]
    return [reading, column] if len(reading.model.labels) == 2 else [reading]


def decided(reading: Reading, decision: Decision, guess: Guess) -> Reading:
    """The same labels with a decision, and why."""
    return Reading(replace(reading.model, decision=decision), (*reading.guesses, guess), reading.free, given=True)


def find_outcome(labels: Sequence[str], outcome: str | None) -> tuple[str | None, Guess | None]:
    """The label that is looked at: the one given, one that people hope for, the second of two, or every one."""
    if outcome is not None:
        if outcome not in labels:
            raise DataError(f"outcome: {shown(outcome)} is none of the labels ({near(outcome, labels)})")
        return outcome, None
    named = wanted(labels)
    key = "property.outcome"
    if len(labels) == 2:
        chosen = named or labels[1]
        why = "by its name" if named else "the second label"
        return chosen, Guess(
            key, f"Guess: {shown(chosen)}, {why}. For a difference either label will do, for a ratio not."
        )
    if named is not None:
        return named, Guess(key, f"Guess: {shown(named)} is what people hope for, by its name.")
    return None, Guess(key, "Every label is looked at; no name tells what people hope for.")


def _listed(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(shown(name) for name in names[:most]) + (", ..." if len(names) > most else "")
