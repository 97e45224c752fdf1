"""Drafting a spec from a table and a model.

The model is read first and once; then the label, the features, the meaning of the output, the protected groups and
the population are inferred in this order, each with notes about its guesses. The result is checked as any other spec.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairchain.drafting.columns import (
    Columns,
    InputLayout,
    Profile,
    frame_feature,
    layouts,
    like_protected,
    misfit,
    must_have,
)
from fairchain.drafting.groups import candidates, with_groups
from fairchain.drafting.guesses import Draft, DraftOptions, Guess, RowsAre, in_order
from fairchain.drafting.labels import find_label, find_outcome, output_readings
from fairchain.drafting.signature import Signature, model_path_of, read_signature
from fairchain.drafting.trials import EncodingTrial, Trials, about_agreement, order_unclear, reloaded, with_question
from fairchain.errors import SpecError
from fairchain.messages import listed, many, shown
from fairchain.models import Limits
from fairchain.models.file_frames import framed
from fairchain.models.frames import cell_kind
from fairchain.spec import Difference, Feature, Spec, Table, Uniform
from fairchain.spec.schema import Decision, Guarantee, Population
from fairchain.statements import MANY_DROPPED
from fairchain.tables import RawTable, TableRows, encode_rows, read_table

TEXT_READING = 'rows: "{reading}" is about texts; name their column: text=... (--text)'
SAME_ROWS = ": the guarantee of a sample does not hold for the same rows"
NO_GAP = (
    "The model does not take {name}, and no uniformly drawn input depends on it: there can be no gap. Compare the rows "
    "instead: --as sample or --as population."
)
BLANKS_LEFT_OUT = "Blanks before a cell of the file are left out."
CELLS_SENT = "The file does not say what its cells are, and the service gets them as {told}. " + BLANKS_LEFT_OUT
LABELS_NEEDED = (
    "{source}: column {name} may have the true labels, but the model's answers do not agree with it, so it does not "
    "show which label each answer means; state the labels in the model's order: labels=[...] (--labels), name the "
    "column of the true labels: label=... (--label), or leave the column out: ignore=[...] (--ignore)"
)
MODEL_AND_PREDICTION = "prediction: recorded decisions take the model's place; give one of the two"


def infer_spec(
    table: Any,
    model: Any = None,
    *,
    label: str | None = None,
    protected: str | Sequence[str] | None = None,
    outcome: str | None = None,
    threshold: float = 0.1,
    reading: RowsAre | None = None,
    ignore: Sequence[str] = (),
    decision: Decision | None = None,
    decision_threshold: float | None = None,
    labels: Sequence[str] = (),
    model_output: str | None = None,
    prediction: str | None = None,
    limits: Limits | None = None,
) -> Spec:
    """Infer a spec from a table and a model; a warning says what is probably wrong with it.

    Parameters
    ----------
    table
        A CSV or Parquet file, a pandas or polars frame, or a mapping of names to columns.
    model
        Any model that `verify` takes, or None if there is none yet.
    protected
        The features whose groups are compared; by default the feature whose name most likely means a protected
        attribute.
    threshold
        The largest difference that still counts as fair.
    reading
        As `rows` of `check`; also `"uniform"`: the table gives ranges and names only, and inputs are drawn uniformly.
    label, outcome, ignore, decision, decision_threshold, labels, model_output, prediction
        As for `check`; what is not given is guessed.
    limits
        Limits for an untrusted network.

    Raises
    ------
    DataError, ModelError, SpecError
        With one message that states what was found and what to pass instead.

    Examples
    --------
    >>> applicants = {"hours": [20, 40] * 40, "sex": ["F", "F", "M", "M"] * 20, "hired": ["no", "yes"] * 40}
    >>> spec = infer_spec(applicants, label="hired")
    >>> [feature.name for feature in spec.features], spec.property.protected, spec.property.outcome
    (['hours', 'sex'], ('sex',), 'yes')
    """
    options = DraftOptions(
        label=label,
        protected=(protected,) if isinstance(protected, str) else tuple(protected or ()),
        outcome=outcome,
        threshold=threshold,
        reading=reading,
        ignore=tuple(ignore),
        decision=decision,
        decision_threshold=decision_threshold,
        labels=tuple(labels),
        model_output=model_output,
        prediction=prediction,
        limits=limits,
    )
    draft = draft_spec(table, model, options)
    for text in draft.warnings:
        warnings.warn(text, UserWarning, stacklevel=2)
    return draft.spec


def draft_spec(table: Any, model: Any = None, options: DraftOptions | None = None) -> Draft:
    """Infer a spec as `infer_spec` does, and return it with a note for every guess instead of warnings."""
    options = options or DraftOptions()
    if model is not None and options.prediction is not None:
        raise SpecError(MODEL_AND_PREDICTION)
    if options.reading in ("observed", "swapped"):
        raise SpecError(TEXT_READING.format(reading=options.reading))
    taken = read_signature(model, options.model_output, options.limits)
    raw, about_file = _read(table, taken)
    # CSV knows texts only; frames and Parquet tell the text "1" from the number 1.
    typed = raw.frame is not None or str(table).lower().endswith(".parquet")
    columns = _columns(raw, typed, taken, options)
    label, about_label, possible = _label_and_layouts(columns, taken, options)
    known = label or options.prediction
    readings = output_readings(taken, Profile(raw, known) if known else None, options)
    rows = Table(reading="sample", label=label, prediction=options.prediction, drop_missing=True)
    # A draft may use a tenth of a budget of evaluations.
    budget = options.guarantee.get("budget", {}).get("evaluations")
    most = None if budget is None else max(1, int(budget) // 10)
    trial = Trials(raw, taken, rows, options.protected, most).best(possible, readings)
    if not options.every_group and options.label is None and order_unclear(trial):
        raise SpecError(LABELS_NEEDED.format(source=raw.source, name=shown(str(label))))
    protected, features, min_size, found, about_groups = _protected(raw, columns, typed, trial, options)
    outcome, about_outcome = find_outcome(trial.spec.model.labels, options.outcome)
    model_path, about_path = model_path_of(model, options)
    reading, about_rows = _rows_are(features, protected, options)
    if taken.frame and not typed:
        about_file = _about_cells(trial.layout.features)
    elif not typed and any(each.text for each in taken.inputs):
        about_file = (Guess("population.path", BLANKS_LEFT_OUT),)
    told = (*about_file, *about_label, *about_path, *trial.reading.guesses, *trial.layout.guesses)
    told += about_agreement(trial, label)
    told += (*about_outcome, *about_groups, *about_rows, *_about_missing(raw, features, trial, found.dropped))
    population: Population = Uniform()
    if reading == "uniform":
        min_size = None
        told = tuple(guess for guess in told if not guess.key.startswith(("population.", "property.min_size")))
    else:
        path = str(table) if isinstance(table, str | Path) else None
        missing = {"drop_missing": found.dropped > 0, "keep_missing": trial.keeps_missing}
        population = replace(rows, path=path, reading=reading, **missing)
    spec = replace(
        trial.spec,
        model=replace(trial.spec.model, path=model_path),
        described=features,
        population=population,
        guarantee=Guarantee(),
    )
    stated = {"protected": protected, "outcome": outcome, "threshold": options.threshold, "min_size": min_size}
    spec = with_question(spec, {**stated, "kind": "difference", **options.property}, options.guarantee)
    draft = Draft(spec, in_order(told), tuple(like_protected(raw.names)))
    if reading == "uniform":
        return draft
    # True labels are numbers in the order of the labels, which the trial may have changed.
    same = not trial.reading.free and not (trial.keeps_missing and spec.property.given)
    final = found if same else encode_rows(raw, spec)
    return dataclasses.replace(
        draft, rows=final, model=None if trial.model is None else reloaded(taken, trial.model, spec, final)
    )


def _read(table: Any, taken: Signature) -> tuple[RawTable, tuple[Guess, ...]]:
    """Return a table, and a note if it is a file whose cells a model gets as those of a frame."""
    raw = read_table(table)
    if not taken.takes_pandas or not isinstance(table, str | Path):
        return raw, ()
    raw, note = framed(raw, Path(table), {name: taken.values_of(name) for name in raw.names})
    return raw, (Guess("population.path", note),)


def _about_cells(features: Sequence[Feature]) -> tuple[Guess]:
    """Return what a service gets for the cells of a file of texts."""
    kinds: dict[str, list[str]] = {}
    for feature in features:
        kinds.setdefault(cell_kind(feature), []).append(feature.name)
    told = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    return (Guess("population.path", CELLS_SENT.format(told=told)),)


def _about_missing(raw: RawTable, features: Sequence[Feature], trial: EncodingTrial, dropped: int) -> list[Guess]:
    """Return what happens to missing values; a warning if many rows are left out for them."""
    told: list[Guess] = []
    if not trial.keeps_missing and not dropped:
        return told
    lacking = [feature.name for feature in features if Profile(raw, feature.column or feature.name).missing]
    where = f" ({listed(lacking)})" if lacking else ""
    if trial.keeps_missing:
        told.append(Guess("population.keep_missing", f"Missing values{where} are given to the model as they are."))
    if dropped:
        text = f"{many(dropped, 'row')} of {raw.count:,} lack a value{where} and are left out. "
        remedy = "To keep them, state missing = ... in the [[feature]]."
        told.append(Guess("population.drop_missing", text + remedy, loud=dropped > MANY_DROPPED * raw.count))
    return told


def _columns(raw: RawTable, typed: bool, taken: Signature, options: DraftOptions) -> Columns:
    """Return the columns that may be inputs or the label."""
    must_have(raw, [("ignore", name) for name in options.ignore])
    must_have(raw, [("label", options.label), ("prediction", options.prediction)])
    left = {"", options.prediction, *options.ignore} - {options.label}
    return {name: Profile(raw, name, typed, taken.values_of(name)) for name in raw.names if name not in left}


def _label_and_layouts(
    columns: Columns, taken: Signature, options: DraftOptions
) -> tuple[str | None, tuple[Guess, ...], list[InputLayout]]:
    """Return the label, the guess about it, and the layouts of the other columns.

    A guessed label is an input after all if there is no layout without it.
    """
    if options.prediction is not None and not options.every_group:
        # Of recorded decisions only what defines the groups is needed.
        used = [name for name in columns if name in options.protected or name in str(options.property.get("given", ""))]
        features = tuple(frame_feature(columns[name]) for name in used if name != options.label)
        if features:
            return options.label, (), [InputLayout(features)]
    label, guess = (options.label, None) if options.label is not None else find_label(columns, taken, options.labels)
    for each in (label,) if guess is None else (label, None):
        inputs = {name: profile for name, profile in columns.items() if name != each}
        found = layouts(inputs, taken, options.protected) if inputs else []
        if found and each is None and label is not None:
            guess = Guess(
                "population.label",
                f"Column {shown(label)} seems to hold the true labels, but the model takes as many values as there are "
                "columns with it, so it is taken for an input. If it is not, add the column that is missing.",
                loud=True,
            )
        if found:
            return each, (guess,) if guess is not None else (), found
    raise misfit({name: profile for name, profile in columns.items() if name != label}, taken, label)


def _protected(
    raw: RawTable, columns: Columns, typed: bool, trial: EncodingTrial, options: DraftOptions
) -> tuple[tuple[str, ...], tuple[Feature, ...], float | None, TableRows, list[Guess]]:
    """Return the protected features, all features with groups, the smallest group, the rows, and the guesses.

    A protected column that the model does not take becomes a feature that it does not see.
    """
    names = [feature.name for feature in trial.layout.features]
    labels = (trial.spec.population.label, options.prediction) if isinstance(trial.spec.population, Table) else ()
    others = [name for name in raw.names if name and name not in (*names, *labels)]
    problem: SpecError | None = None
    for protected in candidates(names, others, options.protected, raw.source):
        besides = [name for name in protected if name not in names]
        added = (frame_feature(columns.get(name) or Profile(raw, name, typed)) for name in besides)
        features = (*trial.layout.features, *(replace(feature, model_input=False) for feature in added))
        found = trial.rows
        if besides or (trial.keeps_missing and not options.protected):
            # Rows without a value of a protected feature are in no group.
            prop = Difference(protected=protected, threshold=0.1)
            found = encode_rows(raw, replace(trial.spec, described=features, property=prop))
        try:
            grouped, min_size, told = with_groups(features, found.values, protected, raw.source, options)
        except SpecError as error:
            problem = problem or error
            continue
        also = [name for name in like_protected([*names, *others]) if name not in protected]
        why = "" if options.protected else f"Guess: {shown(protected[0])}, by its name."
        why += f" Also likely: {', '.join(map(shown, also))}." if also and options.every_group else ""
        about = [Guess("property.protected", why.strip())] if why else []
        for name in besides:
            if options.reading == "uniform":
                about.append(Guess("population", NO_GAP.format(name=shown(name)), loud=True))
            else:
                about.append(
                    Guess(f"feature.{name}", "The model does not take this column; it only defines the groups.")
                )
        return protected, grouped, min_size, found, [*told, *about]
    assert problem is not None
    raise problem


def _rows_are(
    features: Sequence[Feature], protected: Sequence[str], options: DraftOptions
) -> tuple[RowsAre, tuple[Guess, ...]]:
    """Return whether the rows are a sample or the population, and the reason.

    Conditional on the values of the protected features, decisions within a group are independent draws: groups of
    single values, and a smallest size, may be chosen from a sample. Ranges whose ends follow the rows may not
    (docs/mathematics.md, "Independent groups").
    """
    ranges = [
        feature.name
        for feature in features
        if feature.name in protected
        and feature.name not in options.groups
        and any(isinstance(members, tuple) for members in feature.groups.values())
    ]
    if not ranges or options.reading not in (None, "sample"):
        return options.reading or "sample", ()
    cut = f"The ranges of {shown(ranges[0])} were cut by looking at these rows"
    own = "State ranges of your own, chosen without these rows, or give other rows of the same source"
    if options.reading == "sample":
        text = f"{cut}{SAME_ROWS}. {own}."
        return "sample", (Guess("population.as", text, loud=True),)
    text = f'{cut}, so the verdict is about these rows alone. {own}, and write as = "sample" to speak about the source.'
    return "population", (Guess("population.as", text),)
