"""Drafting a spec about texts: a column of texts, a list of terms, and a model that gets the texts as they are."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairchain.drafting.columns import Profile, frame_feature
from fairchain.drafting.draft import must_have, with_question
from fairchain.drafting.groups import with_stated_groups
from fairchain.drafting.guesses import Draft, DraftOptions, Guess
from fairchain.drafting.signature import read_signature
from fairchain.drafting.trials import Trials, about_agreement
from fairchain.errors import ModelError, SpecError, UnansweredError
from fairchain.populations.text_rows import TextRows, read_texts
from fairchain.spec import CategoryFeature, TextFeature, Texts
from fairchain.tables import RawTable, read_table
from fairchain.text.corpus import texts_in
from fairchain.text.terms import NEUTRAL, SHIPPED, lists_of

TermLists = str | Mapping[str, Sequence[str]]
# Name of the value that a text has which mentions none of the others.
NONE = "none"
# Texts on which the two orders of labels are compared with the true labels.
COMPARED = 512
TABLE_READING = 'reading: "{reading}" is for tables; texts are "observed" or "swapped" (--as)'
OBSERVED = (
    "The rate of a group is that of the texts that mention it, and the texts may differ in other respects. For the "
    'same texts with the terms of each group: reading="swapped" (--as swapped).'
)

NAME_LABELS = "{problem}; or name what it answers with: --labels fine --labels toxic (labels=[...] in Python)"


def draft_text_spec(
    data: Any, model: Any, options: DraftOptions, *, text: str, terms: TermLists | None = None
) -> Draft:
    """Return a spec about texts with a note for each guess, the loaded model and the texts.

    `data` may also be a .txt or .jsonl file. `text` is the column with the texts; of a .txt file what they are called.
    `terms` is a list that ships with fairchain, a file, or the terms of each value; None if the groups are columns.
    """
    if options.prediction is not None:
        raise SpecError("prediction: decisions about texts are not read from a column; give the model")
    if model is None:
        raise SpecError("model: missing; give the model that reads the texts")
    file = isinstance(data, str | Path)
    kind = options.property.get("kind", "difference")
    reading = options.reading or ("swapped" if kind == "individual" else "observed")
    if reading not in ("observed", "swapped"):
        raise SpecError(TABLE_READING.format(reading=reading))
    mentioned = [] if terms is None else [_mentioned(terms, swapped=reading == "swapped")]
    names = [feature.name for feature in mentioned]
    protected = options.protected or tuple(names)
    table, column = _columns(data, text)
    given = str(options.property.get("given") or "")
    beside = [name for name in protected if name not in names]
    beside += [name for name in table.names if name in given and name not in (*beside, *names, text)]
    must_have(table, [("label", options.label), *(("protected", name) for name in beside)])
    columns = [replace(frame_feature(Profile(table, name)), model_input=False) for name in beside]
    told = [] if options.reading or reading == "swapped" else [Guess("population.as", OBSERVED)]
    taken = read_signature(model, options.model_output, options.limits)
    truth = Profile(table, options.label) if options.label is not None else None
    features = (TextFeature(name=text), *(with_stated_groups(each, options.groups) for each in (*mentioned, *columns)))
    population = Texts(
        path=str(data) if file else None,
        column=column,
        label=options.label,
        reading=reading,
        drop_missing=truth is not None and bool(truth.missing),
    )
    read = partial(read_texts, frame=None if file else data)
    trials = Trials(taken, dataclasses.replace(options, protected=protected), population, read, COMPARED, certain=True)
    try:
        trial = trials.best([features], truth)
    except UnansweredError as error:
        raise error if options.labels else ModelError(NAME_LABELS.format(problem=error)) from None
    told += [*trial.reading.guesses, *about_agreement(trial, options.label)]
    stated = {"protected": protected, "min_size": 1.0 if reading == "observed" else None}
    spec = with_question(trial.spec, model, stated, options, told)
    loaded, rows = trial.model, trial.rows
    assert loaded is not None
    assert isinstance(rows, TextRows)
    if trial.reading.free:
        # True labels are numbers in the order of the labels, which the trial may have changed.
        rows = read(spec)
        loaded = trials.load(spec, rows, loaded)
    return Draft(spec, tuple(told), protected, loaded, rows.for_spec(spec))


def _mentioned(terms: TermLists, *, swapped: bool) -> CategoryFeature:
    """Return the feature of a list of terms: its values, and one for texts that mention none of them.

    Swapped texts mention none of them only if the list has neutral words in place of a term.
    """
    name = "mentioned"
    if isinstance(terms, str):
        name = terms if terms in SHIPPED else Path(terms).stem
        lists = list(lists_of(CategoryFeature(name=name, values=(NONE,), terms=terms)))
        stated: str | dict[str, tuple[str, ...]] = terms
    else:
        stated = {value: (words,) if isinstance(words, str) else tuple(words) for value, words in terms.items()}
        lists = list(stated)
    values = [value for value in lists if value != NEUTRAL]
    if not swapped or NEUTRAL in lists:
        values = list(dict.fromkeys([*values, NONE]))
    return CategoryFeature(name=name, values=tuple(values), terms=stated)


def _columns(data: Any, text: str) -> tuple[RawTable, str | None]:
    """Return the columns beside the texts, and the name of the column of texts; none of a .txt file."""
    suffix = Path(data).suffix.lower() if isinstance(data, str | Path) else ""
    if suffix not in (".txt", ".jsonl"):
        return read_table(data), text
    path, first = Path(data), None
    if suffix == ".jsonl":
        with suppress(OSError, ValueError, RecursionError), path.open("rb") as file:
            first = json.loads(file.readline(16_000_000))
    # None if the file holds bare texts.
    cells = first.items() if isinstance(first, dict) else ()
    keys = [key for key, value in cells if not isinstance(value, list | dict)]
    if suffix == ".txt" or (not keys and next(texts_in(path, None, {}, len), None) is not None):
        return RawTable(str(path), (), 0, dict[str, Any]().__getitem__), None
    names = [name for name in keys if name != text]
    rows = list(texts_in(path, text, dict.fromkeys(names, "it"), len))
    columns = {name: [cells[place] for _, cells in rows] for place, name in enumerate(names)}
    read = read_table({**columns, text: [each for each, _ in rows]})
    # Its cells are texts, as those of a CSV file.
    return dataclasses.replace(read, source=str(path), frame=None), text
