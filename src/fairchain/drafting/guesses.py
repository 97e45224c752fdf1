"""Drafts of specs: the caller's options, the inferred spec with a note for every guess, and its commented TOML file.

TOML is written here, since comments matter: every guess is a comment beside its key, values are on one line.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from fairchain.errors import SpecError
from fairchain.messages import EXISTS_ALREADY, NO_FOLDER
from fairchain.models import Limits, Model
from fairchain.spec import Spec
from fairchain.spec.feature_keys import GroupExpr
from fairchain.spec.schema import DecisionKind
from fairchain.system.atomic_write import place
from fairchain.tables import TableRows

# Tables of a spec, in the order of the file; "" is the spec as a whole.
TABLES = ("", "model", "feature", "population", "property")
RowsAre = Literal["sample", "population", "uniform", "observed", "swapped"]
LINE_WIDTH = 110
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Keys that come first or last in a table; the others have the order of the schema.
_PLACES = {"name": 0, "delta": 0, "kind": 1, "groups": 3}
_ABOUT_READING = {
    "sample": (
        'The verdict is about the source of the rows. If they are the whole population: as = "population".',
        "The guarantee needs rows that the model was not fitted on.",
    ),
    "population": ('The rows are the whole population, and the result is exact. If they are a sample: as = "sample".',),
}
NOT_IN_TOML = "TOML has no {type}"


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """Options that replace a guess; `infer_spec` and `check` document each.

    `groups` has the groups of a feature by its name. `property` and `guarantee` are further keys of these tables.
    `every_group`: features that are likely protected get groups too, so that a later run may compare them.
    """

    label: str | None = None
    protected: tuple[str, ...] = ()
    outcome: str | None = None
    threshold: float = 0.1
    reading: RowsAre | None = None
    ignore: tuple[str, ...] = ()
    decision: DecisionKind | None = None
    decision_threshold: float | None = None
    labels: tuple[str, ...] = ()
    model_output: str | None = None
    deterministic: bool = True
    prediction: str | None = None
    groups: Mapping[str, Mapping[str, GroupExpr]] = field(default_factory=dict)
    property: Mapping[str, Any] = field(default_factory=dict)
    guarantee: Mapping[str, Any] = field(default_factory=dict)
    every_group: bool = True
    limits: Limits | None = None

    def __post_init__(self) -> None:
        for key in ("protected", "ignore", "labels"):
            # One name or several; labels and columns of a frame may be numbers, or texts of NumPy.
            given: Any = getattr(self, key)
            one = isinstance(given, str) or not isinstance(given, Iterable)
            object.__setattr__(self, key, () if given is None else tuple(map(str, [given] if one else given)))


@dataclass(frozen=True)
class Guess:
    """Note about one key of the spec, as `model.labels` or `feature.age`; "" is the spec as a whole.

    `text` states the value taken, the reason, and what to check. A `loud` note is a warning: the spec is probably
    wrong until it is edited.
    """

    key: str
    text: str
    loud: bool = False


@dataclass(frozen=True)
class Draft:
    """Inferred spec with its guesses, in the order of the tables; `likely` names columns that may be protected.

    `model` and `rows` are the model, loaded for this spec, and the rows of the table as its features.
    """

    spec: Spec
    guesses: tuple[Guess, ...]
    likely: tuple[str, ...] = ()
    model: Model | None = field(default=None, repr=False)
    rows: TableRows | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        ordered = sorted(self.guesses, key=lambda guess: TABLES.index(guess.key.partition(".")[0]))
        object.__setattr__(self, "guesses", tuple(ordered))

    def about(self, key: str) -> tuple[str, ...]:
        """Return the notes about one key, without the warnings."""
        return tuple(guess.text for guess in self.guesses if guess.key == key and not guess.loud)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes that must be read before a verdict is used."""
        return tuple(guess.text for guess in self.guesses if guess.loud)


def write_spec(draft: Draft, folder: str | Path | None = None) -> str:
    """Return the text of a commented spec file; its paths are relative to its folder if that is given."""
    spec = draft.spec
    lines = comment("A first spec, drafted by fairchain init. Check the lines that begin with Guess.")
    lines += comment(*draft.about(""), *(f"WARNING: {text}" for text in draft.warnings))
    lines += _table(draft, "model", spec.model, folder)
    order = "In the order of the inputs. low and high are the smallest and the largest number in the table."
    if spec.text is not None:
        order = "The text, which the model receives unchanged, and the features that define the groups."
    lines += ["", *comment(order, *draft.about("feature"))]
    for feature in spec.described:
        lines += _table(draft, f"feature.{feature.name}", feature)
    for name in ("population", "property", "guarantee"):
        lines += _table(draft, name, getattr(spec, name), folder)
    return "\n".join(lines) + "\n"


def _table(draft: Draft, table: str, part: Any, folder: str | Path | None = None) -> Iterator[str]:
    """Yield the lines of one table: its keys that differ from their defaults, and delta, each below its notes."""
    usual: dict[str, Any] = {}
    for key_of in msgspec.structs.fields(part):
        made = key_of.default if key_of.default_factory is msgspec.NODEFAULT else key_of.default_factory()
        usual[key_of.encode_name] = None if key_of.required or key_of.name == "delta" else msgspec.to_builtins(made)
    entries = {name: entry for name, entry in msgspec.to_builtins(part).items() if entry not in (None, usual.get(name))}
    yield from ("", "[[feature]]" if table.startswith("feature.") else f"[{table}]", *comment(*draft.about(table)))
    for name in sorted(entries, key=lambda name: _PLACES.get(name, 2)):
        entry = entries[name]
        yield from comment(*draft.about(f"{table}.{name}"))
        if name == "as":
            yield from comment(*_ABOUT_READING.get(entry, ()))
        if name == "delta":
            yield from comment("Largest probability of a wrong verdict.")
        if name == "path" and folder is not None:
            try:
                entry = Path(os.path.relpath(os.path.realpath(entry), os.path.realpath(folder))).as_posix()
            except ValueError:  # on another drive
                entry = Path(entry).absolute().as_posix()
        yield f"{key(name)} = {value(entry)}"
    if table == "population" and getattr(part, "path", "") is None:
        yield from comment('path = "data.csv"   (the rows were given in Python)')
    for name in ("decision", "outcome"):
        if name not in entries:
            yield from comment(*draft.about(f"{table}.{name}"))


def save_spec(draft: Draft, path: str | Path, *, force: bool = False) -> None:
    """Write the file atomically; an existing file is kept unless `force` is true."""
    path = Path(path)
    must_be_free(path, force=force)
    place({path: write_spec(draft, path.parent).encode()})


def must_be_free(path: Path, *, force: bool = False) -> None:
    """Raise a SpecError unless a spec can be written to this path."""
    if path.suffix.lower() != ".toml":
        raise SpecError(f'{path}: the spec is written as TOML; give a name that ends in ".toml"')
    if path.is_dir() or not path.parent.is_dir():
        raise SpecError(NO_FOLDER.format(path=path))
    if path.exists() and not force:
        raise SpecError(EXISTS_ALREADY.format(path=path))


def value(item: Any) -> str:
    """Return a value in TOML.

    >>> value(["a", 1, 0.5, True]), value({"17-25": [17, 25], "old": 99})
    ('["a", 1, 0.5, true]', '{ "17-25" = [17, 25], old = 99 }')
    """
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, str):
        letters = (c if c.isprintable() and c not in _SHORT else _SHORT.get(c, f"\\U{ord(c):08X}") for c in item)
        return f'"{"".join(letters)}"'
    if isinstance(item, int | float):
        return repr(item)
    if isinstance(item, Mapping):
        return "{ " + ", ".join(f"{key(name)} = {value(inner)}" for name, inner in item.items()) + " }"
    if isinstance(item, Sequence):
        return "[" + ", ".join(map(value, item)) + "]"
    raise TypeError(NOT_IN_TOML.format(type=type(item).__name__))


def key(name: str) -> str:
    """Return a key, in quotes if it needs them."""
    return name if _BARE.fullmatch(name) else value(name)


def comment(*texts: str) -> list[str]:
    """Return the lines of comments, each on lines of its own; no text can end a comment."""
    clean = ("".join(letter if letter.isprintable() else " " for letter in text) for text in texts)
    return [f"# {line}" for text in clean for line in textwrap.wrap(text, LINE_WIDTH - 2, break_on_hyphens=False)]
