"""Chains as files: PRISM's language and explicit files, Storm's DRN, DOT for drawing, and JSON that keeps everything.

What each of them holds, and what survives a round trip, stands in docs/chain-files.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from fairchain.chain.chain import Chain
from fairchain.chain.formats import dot, drn, explicit, json_file, prism
from fairchain.chain.formats.files import write_texts
from fairchain.errors import ChainError

__all__ = ["FORMS", "Form", "chain_text", "read_chain", "write_chain"]


@dataclass(frozen=True)
class Form:
    """A form of file.

    Parameters
    ----------
    suffixes
        How the names of such files end; the first one is the usual one.
    about
        What it is for, in a few words.
    text
        A chain as a file's text; None if it takes several files.
    read
        The way back; None if there is none.
    intervals
        Whether bounds can stand in place of probabilities.
    """

    suffixes: tuple[str, ...]
    about: str
    text: Callable[..., str] | None
    read: Callable[..., Chain] | None
    intervals: bool = False


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "prism": Form((".prism", ".pm"), "the PRISM language, for PRISM and Storm", prism.to_text, None, True),
        "explicit": Form(explicit.SUFFIXES, "PRISM's .tra, .sta and .lab", None, explicit.read),
        "drn": Form((".drn",), "Storm's explicit format", drn.to_text, drn.read, True),
        "dot": Form((".dot", ".gv"), "a drawing, for Graphviz", dot.to_text, None),
        "json": Form((".json",), "everything the chain holds", json_file.to_text, json_file.read),
    }
)


def write_chain(
    chain: Chain, path: str | Path, form: str | None = None, *, intervals: bool = False
) -> tuple[Path, ...]:
    """Write a chain to a file, whole or not at all.

    Parameters
    ----------
    chain
        The chain.
    path
        Where to; for "explicit" the stem that the three files share, or the name of one of them.
    form
        One of `FORMS`; by default told by how the path ends.
    intervals
        Write the bounds of the transitions in place of their probabilities ("drn" and "prism").

    Returns
    -------
    tuple of Path
        The files written.
    """
    path = Path(path)
    name = form_of(path, form)
    if name != "explicit":
        write_texts({path: chain_text(chain, name, intervals=intervals)})
        return (path,)
    check_intervals(name, intervals)
    files = files_of(path, name)
    write_texts(dict(zip(files, explicit.to_texts(chain).values(), strict=True)))
    return files


def files_of(path: Path, form: str) -> tuple[Path, ...]:
    """The files that a chain in this form takes, if one of them is named."""
    if form != "explicit":
        return (path,)
    stem = explicit.stem_of(path)
    return tuple(stem.with_name(stem.name + suffix) for suffix in explicit.SUFFIXES)


def chain_text(chain: Chain, form: str, *, intervals: bool = False) -> str:
    """A chain as the text of a file, for any form but "explicit", which takes three."""
    _check_form(form)
    check_intervals(form, intervals)
    text = FORMS[form].text
    if text is None:
        raise ChainError(f'"{form}" takes three files ({", ".join(FORMS[form].suffixes)}); write it to a path')
    return text(chain, intervals=True) if intervals else text(chain)


def read_chain(path: str | Path, form: str | None = None, *, fix_deadlocks: bool = False) -> Chain:
    """Read a chain from a file that fairchain, PRISM or Storm wrote.

    Parameters
    ----------
    path
        The file; for "explicit" the .tra, beside which .sta and .lab are looked for.
    form
        One of `FORMS`; by default told by how the path ends.
    fix_deadlocks
        Let a state without transitions stay where it is, as PRISM and Storm do; otherwise it is an error.

    Raises
    ------
    ChainError
        One message with the file, the line and what to write there.
    """
    path = Path(path)
    name = form_of(path, form)
    read = FORMS[name].read
    if read is None:
        back = ", ".join(f'"{each}"' for each, entry in FORMS.items() if entry.read)
        raise ChainError(f'{path}: "{name}" is written but not read; read the chain from {back}')
    return read(path, fix_deadlocks=fix_deadlocks)


def form_of(path: Path, form: str | None) -> str:
    """The form asked for, or the one that a path's ending tells."""
    if form is not None:
        _check_form(form)
        return form
    for name, entry in FORMS.items():
        if path.suffix.lower() in entry.suffixes:
            return name
    endings = ", ".join(suffix for entry in FORMS.values() for suffix in entry.suffixes)
    raise ChainError(f"{path}: its name does not tell the form of the file; end it with one of {endings}, or name one")


def _check_form(form: str) -> None:
    if form not in FORMS:
        raise ChainError(f'there is no form "{form}"; there is {", ".join(FORMS)}')


def check_intervals(form: str, intervals: bool) -> None:
    """Raise a ChainError if bounds are asked for in a form that has no place for them."""
    if intervals and not FORMS[form].intervals:
        able = ", ".join(f'"{name}"' for name, entry in FORMS.items() if entry.intervals)
        raise ChainError(f'"{form}" has no place for intervals alone; write {able}, or "json", which holds both')
