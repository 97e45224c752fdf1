"""From a table and a model to a draft: the label first, then features, answers, and who is compared."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from fairchain.drafting.codes import about_codes
from fairchain.drafting.draft import Draft, Guess
from fairchain.drafting.labels import find_label, find_outcome, readings
from fairchain.drafting.layouts import Columns, Layout, layouts, misfit
from fairchain.drafting.names import like_protected
from fairchain.drafting.profile import Profile
from fairchain.drafting.protect import choose, protect
from fairchain.drafting.takes import Signature, signature_of
from fairchain.drafting.trial import Trial, about_agreement, try_all
from fairchain.errors import DataError, SpecError
from fairchain.model import Limits
from fairchain.model.load import PYTHON
from fairchain.spec import Difference, Spec, Table, Uniform, parse_spec
from fairchain.spec.schema import Decision, Population
from fairchain.tables import RawTable, read_table
from fairchain.tables.wording import many, near, shown

Reading = Literal["sample", "population", "uniform"]
# What a spec calls a model that was handed over in Python and has no file yet.
UNSAVED = "model.onnx"
_TABLES = ("", "model", "feature", "population", "property")


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the caller knows and need not be guessed; see `infer_spec`."""

    label: str | None = None
    protected: tuple[str, ...] = ()
    outcome: str | None = None
    threshold: float = 0.1
    reading: Reading = "sample"
    ignore: tuple[str, ...] = ()
    decision: Decision | None = None
    output: str | None = None
    prediction: str | None = None
    limits: Limits | None = None


def infer_spec(
    table: Any,
    model: Any = None,
    *,
    label: str | None = None,
    protected: str | Sequence[str] = (),
    outcome: str | None = None,
    threshold: float = 0.1,
    reading: Reading = "sample",
    ignore: Sequence[str] = (),
    decision: Decision | None = None,
    output: str | None = None,
    prediction: str | None = None,
    limits: Limits | None = None,
) -> Spec:
    """A spec for these people and this model, inferred; a warning says what is probably wrong with it.

    Parameters
    ----------
    table
        A CSV or Parquet file, a pandas or polars frame, or a mapping of names to columns.
    model
        Anything that `verify` takes, or None if there is none yet.
    label
        The column with the true labels; by default guessed by its name, or because it is no input of the model.
    protected
        The features whose groups are compared; by default the one that a law is likeliest to protect, by its name.
    outcome
        The label looked at; by default one that people hope for, by its name.
    threshold
        The largest difference that still counts as fair.
    reading
        `"sample"`: the verdict is about the people that the rows were drawn from; `"population"`: the rows are
        everybody; `"uniform"`: the table gives ranges and names only, and people are drawn uniformly.
    ignore
        Columns that are no input of the model.
    decision, output
        As in `[model]` of a spec, where the model leaves a doubt.
    prediction
        A column with recorded decisions, in place of a model.
    limits
        What an untrusted network may ask for.

    Raises
    ------
    DataError, ModelError, SpecError
        One message with what was found and what to give.

    Examples
    --------
    >>> people = {"hours": [20, 40] * 40, "sex": ["F", "F", "M", "M"] * 20, "hired": ["no", "yes"] * 40}
    >>> spec = infer_spec(people, label="hired")
    >>> [feature.name for feature in spec.features], spec.property.protected, spec.property.outcome
    (['hours', 'sex'], ('sex',), 'yes')
    """
    wishes = Wishes(
        label=label,
        protected=(protected,) if isinstance(protected, str) else tuple(protected or ()),
        outcome=outcome,
        threshold=threshold,
        reading=reading,
        ignore=tuple(ignore),
        decision=decision,
        output=output,
        prediction=prediction,
        limits=limits,
    )
    draft = draft_spec(table, model, wishes)
    for text in draft.warnings:
        warnings.warn(text, UserWarning, stacklevel=2)
    return draft.spec


def draft_spec(table: Any, model: Any = None, wishes: Wishes | None = None) -> Draft:
    """As `infer_spec`, with a sentence for everything that was guessed and no warnings on the way."""
    wishes = wishes or Wishes()
    if model is not None and wishes.prediction is not None:
        raise SpecError("prediction: recorded decisions take the model's place; give one of the two")
    raw = read_table(table)
    columns = _columns(raw, table, wishes)
    taken = signature_of(model, wishes.output, wishes.limits)
    label, told, ways = _labelled(columns, taken, wishes)
    known = label or wishes.prediction
    answers = readings(taken, Profile(raw, known) if known else None, wishes.decision, wishes.output)
    people = Table(reading="sample", label=label, prediction=wishes.prediction, drop_missing=True)
    trial = try_all(raw, model, ways, answers, people, wishes.limits)
    checks = (about_agreement(trial, label), about_codes(model, trial, people, wishes.limits))
    told += (*trial.reading.guesses, *trial.layout.guesses, *(check for check in checks if check is not None))
    paths = (_model_path(model, wishes), str(table) if isinstance(table, str | Path) else None)
    return _assembled(raw, trial, wishes, paths, label, (*_about_model(model, wishes), *told))


def _columns(raw: RawTable, table: Any, wishes: Wishes) -> Columns:
    """The columns that may be inputs or the label."""
    asked = [("ignore", name) for name in wishes.ignore]
    asked += [(key, name) for key in ("label", "prediction") if (name := getattr(wishes, key)) is not None]
    for key, name in asked:
        if name not in raw.names:
            raise DataError(f"{raw.source}: {key}: there is no column {shown(name)} ({near(name, raw.names)})")
    # CSV knows texts only; frames and Parquet tell the text "1" from the number 1.
    typed = not isinstance(table, str | Path | RawTable) or str(table).lower().endswith(".parquet")
    left = {"", wishes.prediction, *wishes.ignore} - {wishes.label}
    return {name: Profile(raw, name, typed) for name in raw.names if name not in left}


def _labelled(columns: Columns, taken: Signature, wishes: Wishes) -> tuple[str | None, tuple[Guess, ...], list[Layout]]:
    """The label, what was guessed about it, and the layouts of the other columns; a guess that leaves none is none."""
    guess = None
    label = wishes.label
    if label is None:
        label, guess = find_label(columns, taken)
    for each in (label,) if guess is None else (label, None):
        inputs = {name: profile for name, profile in columns.items() if name != each}
        if not inputs:
            raise DataError("the table has no column besides the label; give one with the inputs of the model")
        ways = layouts(inputs, taken, _shown_besides(inputs, taken, wishes))
        if ways:
            return each, (guess,) if guess is not None and each is not None else (), ways
    raise misfit({name: profile for name, profile in columns.items() if name != label}, taken, label)


def _shown_besides(inputs: Columns, taken: Signature, wishes: Wishes) -> list[str]:
    """Protected columns that an estimator was not fitted on: it gets the same frame without them."""
    if not taken.columns:
        return []
    if wishes.protected:
        return [name for name in wishes.protected if name in inputs]
    return [] if like_protected(taken.columns) else like_protected(inputs)[:1]


def _model_path(model: Any, wishes: Wishes) -> str | None:
    if isinstance(model, str | os.PathLike) and not str(model).startswith(PYTHON):
        return str(os.fspath(model))
    return UNSAVED if wishes.prediction is None else None


def _about_model(model: Any, wishes: Wishes) -> Iterator[Guess]:
    if model is None and wishes.prediction is None:
        yield Guess("model.path", "No model was given; name its file here.")
    elif _model_path(model, wishes) == UNSAVED:
        yield Guess(
            "model.path", "The model was given in Python; save what fairchain.to_onnx makes of it as this file."
        )


def _assembled(
    raw: RawTable,
    trial: Trial,
    wishes: Wishes,
    paths: tuple[str | None, str | None],
    label: str | None,
    told: tuple[Guess, ...],
) -> Draft:
    names = [feature.name for feature in trial.layout.features]
    others = [name for name in raw.names if name not in names and name != label]
    likely = (*like_protected(names), *like_protected(others))
    protected = choose(names, others, wishes.protected, raw.source)
    people = protect(trial.layout.features, trial.values, protected, likely, raw.source)
    outcome, hoped = find_outcome(trial.reading.model.labels, wishes.outcome)
    uniform = wishes.reading == "uniform"
    population: Population = Uniform()
    if wishes.reading != "uniform":
        population = Table(
            path=paths[1],
            reading=wishes.reading,
            label=label,
            prediction=wishes.prediction,
            drop_missing=trial.dropped > 0,
        )
    spec = Spec(
        model=msgspec.structs.replace(trial.reading.model, path=paths[0]),
        features=people.features,
        property=Difference(
            protected=people.protected,
            outcome=outcome,
            threshold=wishes.threshold,
            min_size=None if uniform else people.min_size,
        ),
        population=population,
    )
    told += tuple(_about_rows(raw, trial, wishes))
    told += (*people.guesses, *_about_protected(protected, names, others, wishes), *((hoped,) if hoped else ()))
    told = tuple(guess for guess in told if not (uniform and guess.key in ("population.label", "property.min_size")))
    checked = parse_spec(msgspec.to_builtins(spec))
    return Draft(checked, tuple(sorted(told, key=lambda guess: _TABLES.index(guess.key.partition(".")[0]))), likely)


def _about_rows(raw: RawTable, trial: Trial, wishes: Wishes) -> Iterator[Guess]:
    if trial.dropped and wishes.reading != "uniform":
        lacking = [f.name for f in trial.layout.features if Profile(raw, f.column or f.name).missing]
        owners = f" ({', '.join(map(shown, lacking[:5]))}{', ...' if len(lacking) > 5 else ''})" if lacking else ""
        yield Guess(
            "population.drop_missing",
            f"{many(trial.dropped, 'row')} of {raw.count:,} lack a value{owners} and are left out. To keep them, state "
            "missing = ... in the [[feature]].",
            loud=trial.dropped > raw.count / 2,
        )


def _about_protected(
    protected: Sequence[str], names: Sequence[str], others: Sequence[str], wishes: Wishes
) -> Iterator[Guess]:
    also = [name for name in like_protected(names) if name not in protected]
    text = "" if wishes.protected else f"Guess: {shown(protected[0])}, by its name."
    if also:
        text += f" Also likely: {', '.join(map(shown, also))}."
    blind = like_protected(others)
    if blind:
        text += f" Likely, but no input of the model: {', '.join(map(shown, blind))}."
    if text:
        yield Guess("property.protected", text.strip())
