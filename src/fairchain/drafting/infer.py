"""From a table and a model to a draft: which column is the label, what the model takes, and how it is read."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairchain.drafting.assemble import Ground, assemble
from fairchain.drafting.codes import about_codes
from fairchain.drafting.draft_result import Draft, Guess
from fairchain.drafting.encoding_trial import about_agreement, try_all
from fairchain.drafting.input_layouts import Columns, InputLayout, layouts, misfit
from fairchain.drafting.labels import find_label, readings
from fairchain.drafting.model_signature import Signature, signature_of
from fairchain.drafting.options import DraftOptions, Reading
from fairchain.drafting.profile import Profile
from fairchain.errors import DataError, SpecError
from fairchain.messages import near, shown
from fairchain.models import Limits
from fairchain.models.load import PYTHON
from fairchain.spec import Spec, Table
from fairchain.spec.schema import Decision
from fairchain.tables import RawTable, read_table

# What a spec calls a model that was handed over in Python and has no file yet.
UNSAVED = "model.onnx"


def infer_spec(
    table: Any,
    model: Any = None,
    *,
    label: str | None = None,
    protected: str | Sequence[str] | None = None,
    outcome: str | None = None,
    threshold: float = 0.1,
    reading: Reading | None = None,
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
        everybody; `"uniform"`: the table gives ranges and names only, and people are drawn uniformly. By default
        a sample, unless the protected groups are ranges of a number: where these were cut by looking at the rows, the
        bounds of a sample do not hold for the same rows.
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
    wishes = DraftOptions(
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


def draft_spec(table: Any, model: Any = None, wishes: DraftOptions | None = None) -> Draft:
    """As `infer_spec`, with a sentence for everything that was guessed and no warnings on the way."""
    wishes = wishes or DraftOptions()
    if model is not None and wishes.prediction is not None:
        raise SpecError("prediction: recorded decisions take the model's place; give one of the two")
    raw = read_table(table)
    # CSV knows texts only; frames and Parquet tell the text "1" from the number 1.
    typed = not isinstance(table, str | Path | RawTable) or str(table).lower().endswith(".parquet")
    columns = _columns(raw, typed, wishes)
    taken = signature_of(model, wishes.output, wishes.limits)
    label, told, ways = _labelled(columns, taken, wishes)
    known = label or wishes.prediction
    answers = readings(taken, Profile(raw, known) if known else None, wishes.decision, wishes.output)
    people = Table(reading="sample", label=label, prediction=wishes.prediction, drop_missing=True)
    trial = try_all(raw, model, ways, answers, people, wishes.limits)
    checks = (about_agreement(trial, label), about_codes(model, trial, people, wishes.limits))
    told += (*trial.reading.guesses, *trial.layout.guesses, *(check for check in checks if check is not None))
    path, about = _model_path(model, wishes)
    table_path = str(table) if isinstance(table, str | Path) else None
    return assemble(Ground(raw, typed, wishes, people, path, table_path), trial, (*about, *told))


def _columns(raw: RawTable, typed: bool, wishes: DraftOptions) -> Columns:
    """The columns that may be inputs or the label."""
    asked = [("ignore", name) for name in wishes.ignore]
    asked += [(key, name) for key in ("label", "prediction") if (name := getattr(wishes, key)) is not None]
    for key, name in asked:
        if name not in raw.names:
            raise DataError(f"{raw.source}: {key}: there is no column {shown(name)} ({near(name, raw.names)})")
    left = {"", wishes.prediction, *wishes.ignore} - {wishes.label}
    return {name: Profile(raw, name, typed) for name in raw.names if name not in left}


def _labelled(
    columns: Columns, taken: Signature, wishes: DraftOptions
) -> tuple[str | None, tuple[Guess, ...], list[InputLayout]]:
    """The label, what was guessed about it, and the layouts of the other columns; a guess that leaves none is none."""
    guess = None
    label = wishes.label
    if label is None:
        label, guess = find_label(columns, taken)
    for each in (label,) if guess is None else (label, None):
        inputs = {name: profile for name, profile in columns.items() if name != each}
        ways = layouts(inputs, taken, wishes.protected) if inputs else []
        if ways and each is None and label is not None:
            guess = Guess(
                "population.label",
                f"Column {shown(label)} seems to hold the true labels, but the model takes as many values as there are "
                "columns with it, so it is taken for an input. If it is none, give the column that is missing.",
                loud=True,
            )
        if ways:
            return each, (guess,) if guess is not None else (), ways
    raise misfit({name: profile for name, profile in columns.items() if name != label}, taken, label)


def _model_path(model: Any, wishes: DraftOptions) -> tuple[str | None, tuple[Guess, ...]]:
    """What the spec calls the model, and what is to be said about that."""
    if wishes.prediction is not None:
        return None, ()
    if model is None:
        return UNSAVED, (Guess("model.path", "No model was given; name its file here."),)
    if isinstance(model, str | os.PathLike) and not str(model).startswith(PYTHON):
        return str(os.fspath(model)), ()
    saved = "The model was given in Python; save what fairchain.to_onnx makes of it as this file."
    return UNSAVED, (Guess("model.path", saved),)
