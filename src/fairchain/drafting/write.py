"""A draft as a commented TOML file: every guess stands beside the key it is about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fairchain.drafting.draft_result import Draft
from fairchain.drafting.toml import comment, key, value
from fairchain.errors import SpecError
from fairchain.spec import Table
from fairchain.system.atomic_write import place

_READING = {
    "sample": (
        'The verdict is about the people whom the rows stand for. If they are everybody: as = "population".',
        "The guarantee needs rows that the model was not fitted on.",
    ),
    "population": ('The rows are everybody, and the answer is exact. If they stand for more people: as = "sample".',),
}


def write_spec(draft: Draft, folder: str | Path | None = None) -> str:
    """The text of a commented spec file.

    Parameters
    ----------
    draft
        As `draft_spec` makes it.
    folder
        Where the file will lie: its paths are taken from there. By default paths stay as they are.
    """
    spec = draft.spec
    lines = [*comment("A first spec, drafted by fairchain init. Lines that begin with Guess are to be checked.")]
    for text in draft.about(""):
        lines += comment(text)
    for text in draft.warnings:
        lines += comment(f"WARNING: {text}")
    lines += ["", "[model]", *_table(draft, "model", _fields(spec.model, folder))]
    lines += [
        "",
        *comment("In the order of the inputs; low and high are the least and the largest number in the table."),
    ]
    for text in draft.about("feature"):
        lines += comment(text)
    for feature in spec.features:
        lines += ["", "[[feature]]", *_feature(draft, feature)]
    lines += ["", "[population]", *_table(draft, "population", _fields(spec.population, folder))]
    lines += ["", "[property]", *_table(draft, "property", _fields(spec.property))]
    lines += ["", "[guarantee]", *comment("Probability of a wrong verdict, at most.")]
    lines += [f"delta = {value(spec.guarantee.delta)}"]
    return "\n".join(lines) + "\n"


def _fields(part: Any, folder: str | Path | None = None) -> dict[str, Any]:
    """The keys of one table that say something, the kind first and paths as seen from the folder."""
    plain = {field.encode_name: field.default for field in msgspec.structs.fields(part)}
    factories = {field.encode_name: field.default_factory for field in msgspec.structs.fields(part)}
    entries: dict[str, Any] = msgspec.to_builtins(part)
    kept = {}
    for name, entry in entries.items():
        default = plain.get(name, msgspec.NODEFAULT)
        made = factories.get(name, msgspec.NODEFAULT)
        usual = made() if made is not msgspec.NODEFAULT else default
        if entry is None or (usual is not msgspec.NODEFAULT and entry == msgspec.to_builtins(usual)):
            continue
        kept[name] = entry
    if "path" in kept and folder is not None:
        kept["path"] = _seen_from(Path(folder), kept["path"])
    return kept


def _seen_from(folder: Path, path: str) -> str:
    """A path relative to the folder, through real folders only; as it is where there is no way (another drive)."""
    try:
        return Path(os.path.relpath(os.path.realpath(path), os.path.realpath(folder))).as_posix()
    except ValueError:
        return Path(path).absolute().as_posix()


def _table(draft: Draft, name: str, fields: dict[str, Any]) -> Iterator[str]:
    for field, entry in fields.items():
        for text in draft.about(f"{name}.{field}"):
            yield from comment(text)
        if field == "as":
            for text in _READING[entry]:
                yield from comment(text)
        yield f"{field} = {value(entry)}"
    if name == "population" and isinstance(draft.spec.population, Table) and draft.spec.population.path is None:
        yield from comment('path = "people.csv"   (the rows were handed over in Python)')
    for field in ("decision", "outcome"):
        if field not in fields:
            for text in draft.about(f"{name}.{field}"):
                yield from comment(text)


def _feature(draft: Draft, feature: Any) -> Iterator[str]:
    for text in draft.about(f"feature.{feature.name}"):
        yield from comment(text)
    for name, entry in _ordered(_fields(feature)).items():
        for text in draft.about(f"feature.{feature.name}.{name}"):
            yield from comment(text)
        yield f"{key(name)} = {value(entry)}"


def _ordered(fields: dict[str, Any]) -> dict[str, Any]:
    """Name and kind first, groups last, as people write them."""
    first = {name: fields[name] for name in ("name", "kind") if name in fields}
    last = {name: fields[name] for name in ("groups",) if name in fields}
    return first | {name: entry for name, entry in fields.items() if name not in (*first, *last)} | last


def save_spec(draft: Draft, path: str | Path, *, force: bool = False) -> None:
    """Write the file in one step; a file that is there already stays unless `force` is true."""
    path = Path(path)
    must_be_free(path, force=force)
    text = write_spec(draft, path.parent)
    place({path: text.encode()})


def must_be_free(path: Path, *, force: bool = False) -> None:
    """Raise a SpecError unless a spec can be written there; before the work, not after it."""
    if path.suffix.lower() != ".toml":
        raise SpecError(f'{path}: the spec is written as TOML; give a name that ends in ".toml"')
    if path.is_dir() or not path.parent.is_dir():
        raise SpecError(f"{path}: cannot be written; name a file in a folder that exists")
    if path.exists() and not force:
        raise SpecError(f"{path}: exists already; give another name with -o, or --force to overwrite it")
