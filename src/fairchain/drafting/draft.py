"""Drafting a spec from a table and a model.

The model is read first and once; then the label, the features, the meaning of the output, the protected groups and
the population are inferred in this order, each with notes about its guesses. The result is checked as any other spec.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fairchain.drafting.columns import (
    ONLY_A_LABEL,
    WIDTH_DIFFERS,
    Columns,
    Profile,
    about_layout,
    frame_feature,
    is_typed,
    layouts,
    like_protected,
)
from fairchain.drafting.groups import find_protected, with_groups
from fairchain.drafting.guesses import Draft, DraftOptions, Guess, RowsAre
from fairchain.drafting.signature import Signature, read_signature
from fairchain.drafting.trials import EncodingTrial, Trials, about_agreement, find_label, find_outcome
from fairchain.errors import DataError, ModelError, SpecError
from fairchain.messages import listed, many, shown, unknown
from fairchain.models import Limits
from fairchain.models.adapters.from_service import Service
from fairchain.models.file_frames import framed
from fairchain.models.frames import cell_kind
from fairchain.models.load import is_path, is_url
from fairchain.spec import Difference, Feature, Guarantee, Spec, Table, Uniform, parse_spec
from fairchain.spec.schema import DecisionKind
from fairchain.statements import MANY_DROPPED
from fairchain.tables import RawTable, TableRows, encode_rows, read_table

TEXT_READING = 'reading: "{reading}" is about texts; name their column: text=... (--text)'
OWN_RANGES = "State ranges that you chose without these rows, or give other rows from the same source"
SAME_ROWS = f": the guarantee of a sample does not hold for the same rows. {OWN_RANGES}."
ROWS_ALONE = (
    f', so the verdict is about these rows alone. {OWN_RANGES}, and set as = "sample" for a verdict about the source.'
)
LATER_RANGES = (
    "No ranges to compare: ranges that are derived from these rows are not valid for a sample. Write your own: "
    "groups = {...}."
)
NO_GAP = (
    "The model does not take {name}, and no uniformly drawn input depends on it: there can be no gap. Compare the rows "
    "instead: --as sample or --as population."
)
ONLY_GROUPS = "The model does not take this column; it only defines the groups."
LABEL_IS_INPUT = (
    "Column {name} seems to hold the true labels, but the model takes as many values as there are columns with it, so "
    "it is taken for an input. If it is not, add the column that is missing."
)
PROTECTED_LABEL = (
    "protected: {name} is the column of the {use}, not of groups; name another column, or another column for the {use}"
)
BLANKS_LEFT_OUT = "Blanks before a cell of the file are left out."
CELLS_SENT = "The file does not say what its cells are, and the service gets them as {told}. "
LABELS_NEEDED = (
    "{source}: column {name} may have the true labels, but the model's answers do not agree with it, so it does not "
    "show which label each answer means; state the labels in the model's order: labels=[...] (--labels), name the "
    "column of the true labels: label=... (--label), or leave the column out: ignore=[...] (--ignore)"
)
# Path in the spec of a model that was given in Python and has no file yet.
UNSAVED = "model.onnx"
NO_MODEL = "No model was given; name its file here."
SAVE_MODEL = (
    "The model was given in Python: give it again with --model (model=... in Python), or save the result of "
    "fairchain.to_onnx as this file."
)
SERVICE_ADDRESS = "The model is a service, whose address is given on the command line or in Python, never in a file."
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
    decision: DecisionKind | None = None,
    decision_threshold: float | None = None,
    labels: Sequence[str] = (),
    model_output: str | None = None,
    prediction: str | None = None,
    limits: Limits | None = None,
) -> Spec:
    """Infer a spec from a table and a model, and warn about guesses that are probably wrong.

    Parameters
    ----------
    table
        A CSV or Parquet file, a pandas or polars frame, or a mapping of names to columns.
    model
        Any model that `verify` takes, or None if there is no model yet.
    protected
        The features whose groups are compared; by default the feature whose name most likely denotes a protected
        feature.
    threshold
        The largest difference that still counts as fair.
    reading
        As for `check`, or `"uniform"`: only the ranges and names are taken from the table, and inputs are drawn
        uniformly.
    label, outcome, ignore, decision, decision_threshold, labels, model_output, prediction
        As for `check`. Values that are not given are guessed.
    limits
        Limits for an untrusted network.

    Raises
    ------
    DataError, ModelError, SpecError
        If no spec can be inferred. The message states what was found and what to pass instead.

    Examples
    --------
    >>> applicants = {"hours": [20, 40] * 40, "sex": ["F", "F", "M", "M"] * 20, "hired": ["no", "yes"] * 40}
    >>> spec = infer_spec(applicants, label="hired")
    >>> [feature.name for feature in spec.features], spec.property.protected, spec.property.outcome
    (['hours', 'sex'], ('sex',), 'yes')
    """
    stated = dict(locals())  # there are no other names yet
    del stated["table"], stated["model"]
    draft = draft_spec(table, model, DraftOptions(**stated))
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
    told: list[Guess] = []
    taken = read_signature(model, options.model_output, options.limits)
    raw, path = read_table(table), str(table) if isinstance(table, str | Path) else None
    # A service takes columns too, but as JSON and not as a frame of pandas.
    if taken.frame and path is not None and not isinstance(taken.source, Service):
        raw, note = framed(raw, Path(path), {name: taken.values_of(name) for name in raw.names})
        told.append(Guess("population.path", note))
    columns = {name: Profile(raw, name, taken.values_of(name)) for name in raw.names}
    named = [("ignore", name) for name in options.ignore]
    must_have(raw, [*named, ("label", options.label), ("prediction", options.prediction)])
    label, used, possible = _label_and_layouts(columns, taken, options, told)
    assumed = Table(reading="sample", label=label, prediction=options.prediction, drop_missing=True)
    trials = Trials(taken, options, assumed, partial(encode_rows, raw), certain=taken.frame and bool(taken.classes))
    trial = trials.best(possible, columns.get(label or options.prediction or ""))
    features = trial.spec.features
    about_inputs = about_layout(used, taken, features) if used else []
    told += [*trial.reading.guesses, *about_inputs, *about_agreement(trial, label, about_inputs)]
    if not options.every_group and options.label is None and trial.order_unclear:
        raise SpecError(LABELS_NEEDED.format(source=raw.source, name=shown(str(label))))
    _about_file(raw, taken, features, told)
    inputs = [feature.name for feature in features]
    others = [name for name in raw.names if name not in ("", *inputs, label, options.prediction)]
    protected = find_protected({name: columns[name] for name in (*inputs, *others)}, inputs, options, told)
    besides = [name for name in protected if name not in inputs]
    no_gap = [Guess("population", NO_GAP.format(name=shown(name)), loud=True) for name in besides]
    told += no_gap if options.reading == "uniform" else [Guess(f"feature.{name}", ONLY_GROUPS) for name in besides]
    features += tuple(replace(frame_feature(columns[name]), model_input=False) for name in besides)
    rows, likely = trial.rows, tuple(like_protected(raw.names))
    if besides or (trial.keeps_missing and not options.protected):
        # Rows without a value of a protected feature are in no group.
        question = Difference(protected=protected, threshold=0.1)
        rows = encode_rows(raw, replace(trial.spec, described=features, property=question))
    features, min_size = with_groups(features, rows.values, protected, raw.source, options, told)
    reading, features = _rows_are(features, protected, options, told)
    if reading == "uniform":
        spec = replace(trial.spec, described=features, population=Uniform())
        spec = with_question(spec, model, {"protected": protected}, options, told)
        # The table gives ranges and names only.
        told = [guess for guess in told if not guess.key.startswith(("population.", "property.min_size"))]
        return Draft(spec, tuple(told), likely)
    rows_of = replace(trial.spec.population, path=path, reading=reading, keep_missing=trial.keeps_missing)
    spec = replace(trial.spec, described=features, population=rows_of)
    spec = with_question(spec, model, {"protected": protected, "min_size": min_size}, options, told)
    # True labels are numbers in the order of the labels, which the trial may have changed. Rows without a value of a
    # condition are left out.
    if trial.reading.free or (trial.keeps_missing and spec.property.given):
        rows = encode_rows(raw, replace(spec, population=replace(rows_of, drop_missing=True)))
    _about_missing(raw, features, trial, rows, told)
    spec = replace(spec, population=replace(rows_of, drop_missing=rows.dropped > 0))
    loaded = None if trial.model is None else trials.load(spec, rows, trial.model)
    return Draft(spec, tuple(told), likely, loaded, rows)


def with_question(spec: Spec, model: Any, stated: Mapping[str, Any], options: DraftOptions, told: list[Guess]) -> Spec:
    """Return the spec with the path of its model and its question, of these keys and the options, checked as any is."""
    path = None
    if is_path(model):
        path = str(os.fspath(model))
    elif options.prediction is None:
        service = is_url(model) or isinstance(model, Service)
        told.append(Guess("model.path", NO_MODEL if model is None else SERVICE_ADDRESS if service else SAVE_MODEL))
        path = None if service else UNSAVED
    outcome = find_outcome(spec.model.labels, options.outcome, told)
    question = {"kind": "difference", "outcome": outcome, "threshold": options.threshold, **stated, **options.property}
    content = msgspec.to_builtins(replace(spec, model=replace(spec.model, path=path), guarantee=Guarantee()))
    content["property"] = {key: value for key, value in question.items() if value is not None}
    content["guarantee"] |= options.guarantee
    return parse_spec(content)


def must_have(table: RawTable, named: Sequence[tuple[str, str | None]]) -> None:
    """Raise a DataError unless the table has the columns that options name, if they do."""
    for option, name in named:
        if name is not None and name not in table.names:
            raise DataError(f"{table.source}: {option}: {unknown('column', name, table.names)}")


def _label_and_layouts(
    columns: Columns, taken: Signature, options: DraftOptions, told: list[Guess]
) -> tuple[str | None, Columns, list[tuple[Feature, ...]]]:
    """Return the label, the columns that may be inputs, and their layouts.

    A guessed label is an input after all if there is no layout without it. Recorded decisions have no inputs: only what
    defines the groups is needed.
    """
    left = {"", options.prediction, *options.ignore} - {options.label}
    columns = {name: profile for name, profile in columns.items() if name not in left}
    if options.prediction is not None and not options.every_group:
        used = [name for name in columns if name in options.protected or name in str(options.property.get("given", ""))]
        features = tuple(frame_feature(columns[name]) for name in used if name != options.label)
        if features:
            return options.label, {}, [features]
    label, why = (options.label, "") if options.label is not None else find_label(columns, taken, options.labels)
    for each in (label, None) if why else (label,):
        inputs = {name: profile for name, profile in columns.items() if name != each}
        found = layouts(inputs, taken, options.protected) if inputs else []
        if found and why:
            taken_for_input = each is None
            text = LABEL_IS_INPUT if taken_for_input else "Guess: column {name} has the true labels, {why}."
            text = text.format(name=shown(str(label)), why=why)
            told.append(Guess("population.label", text, loud=taken_for_input))
        if found:
            uses = {each: "true labels", options.prediction: "recorded decisions"}
            for name in options.protected:
                if name in uses:
                    raise SpecError(PROTECTED_LABEL.format(name=shown(name), use=uses[name]))
            return each, inputs, found
    offered = [name for name in columns if name != label]
    if not offered or not taken.inputs:
        raise ModelError(ONLY_A_LABEL.format(name=taken.name))
    texts = [name for name in offered if columns[name].numbers is None]
    spread = len(offered) - len(texts) + sum(len(columns[name].counts) for name in texts)
    raise ModelError(
        WIDTH_DIFFERS.format(
            name=taken.name,
            width=taken.inputs[0].width,
            count=len(offered),
            besides=f'besides the label "{label}" ' if label is not None else "",
            wide=f" ({spread} with one input for each value of a text column)" if texts else "",
            columns=listed(offered),
        )
    )


def _about_file(raw: RawTable, taken: Signature, features: Sequence[Feature], told: list[Guess]) -> None:
    """Note what a model gets for the cells of a file of texts."""
    kinds: dict[str, list[str]] = {}
    for feature in features:
        kinds.setdefault(cell_kind(feature), []).append(feature.name)
    cells = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    if not is_typed(raw) and (taken.frame or any(each.text for each in taken.inputs)):
        told.append(Guess("population.path", (CELLS_SENT.format(told=cells) if taken.frame else "") + BLANKS_LEFT_OUT))


def _about_missing(
    raw: RawTable, features: Sequence[Feature], trial: EncodingTrial, rows: TableRows, told: list[Guess]
) -> None:
    """Note what happens to missing values; a warning if many rows are left out for them."""
    if trial.keeps_missing:
        columns = [feature.column or feature.name for feature in features]
        kept = [name for name in columns if Profile(raw, name).missing and name not in rows.lacking]
        where = f" ({listed(kept)})" if kept else ""
        told.append(Guess("population.keep_missing", f"Missing values{where} are given to the model as they are."))
    if rows.dropped:
        text = f"{many(rows.dropped, 'row')} of {raw.count:,} lack a value ({listed(rows.lacking)}) and are left out. "
        remedy = "To keep them, state missing = ... in the [[feature]]."
        told.append(Guess("population.drop_missing", text + remedy, loud=rows.dropped > MANY_DROPPED * raw.count))


def _rows_are(
    features: tuple[Feature, ...], protected: Sequence[str], options: DraftOptions, told: list[Guess]
) -> tuple[RowsAre, tuple[Feature, ...]]:
    """Return whether the rows are a sample or the population, and the features with valid groups.

    Conditional on the values of the protected features, decisions within a group are independent draws: groups of
    single values, and a smallest size, may be chosen from a sample. Ranges whose ends follow the rows may not
    (docs/mathematics-tables.md, "Independent groups").
    """
    cut = [feature.name for feature in features if feature.name not in options.groups and _has_ranges(feature)]
    reading = options.reading or "sample"
    if reading == "sample" and (ranges := [name for name in cut if name in protected]):
        stated = options.reading == "sample"
        text = f"The ranges of {shown(ranges[0])} were derived from these rows"
        told.append(Guess("population.as", text + (SAME_ROWS if stated else ROWS_ALONE), loud=stated))
        reading = reading if stated else "population"
    if reading == "sample":
        # A later question about another feature would be about the same rows.
        later = {f"feature.{name}.groups": name for name in cut if name not in protected}
        told[:] = [each for each in told if each.key not in later]
        told += [Guess(f"feature.{name}", LATER_RANGES) for name in later.values()]
        features = tuple(replace(each, groups={}) if each.name in later.values() else each for each in features)
    return reading, features


def _has_ranges(feature: Feature) -> bool:
    return any(isinstance(each, tuple) for each in feature.groups.values())
