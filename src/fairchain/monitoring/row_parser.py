"""Lines to rows: for each line the values of the protected columns and the prediction, as text.

Whole blocks are parsed at once. Only where something in a block is wrong is it gone through line by line, to say
which line and what is wrong with it. A row is one line: line ends inside quotes are not allowed.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import attrgetter, itemgetter
from typing import Literal

import msgspec

from fairchain.errors import DataError

Key = tuple[str, ...]
Form = Literal["csv", "jsonl"]
Scalar = str | int | float | bool
# Some programs begin UTF-8 files with it.
MARK = b"\xef\xbb\xbf"
SUFFIXES: dict[str, Form] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}


@dataclass(frozen=True)
class Columns:
    """Which columns are read: the protected ones, then the prediction."""

    protected: tuple[str, ...]
    prediction: str

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, as they stand in a key."""
        return (*self.protected, self.prediction)


@dataclass(frozen=True)
class ParsedLines:
    """The rows of a block: their keys, the line within the block that each is on, and the lines that are wrong."""

    keys: list[Key]
    lines: Sequence[int]
    bad: list[tuple[int, str]]


Parser = Callable[[bytes], ParsedLines]


class _BadLineError(ValueError):
    """What is wrong with a line."""


def csv_parser(header: bytes, columns: Columns, delimiter: str, where: str) -> Parser:
    """A parser for the lines under this header."""
    try:
        names = [name.strip() for name in _cells(header.decode("utf-8-sig").rstrip("\r\n"), delimiter)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{where}: the first line is no header of a CSV file in UTF-8 ({error})") from None
    places = [_place(name, names, delimiter, where) for name in columns.names]
    choose, width = itemgetter(*places), len(names)

    def whole(raw: bytes) -> list[Key] | None:
        text = raw.decode().removesuffix("\n").split("\n")
        rows = list(csv.reader(text, delimiter=delimiter, strict=True, skipinitialspace=True))
        if len(rows) != len(text) or set(map(len, rows)) != {width}:
            return None
        return list(map(choose, rows))

    def single(line: bytes) -> Key:
        cells = _cells(line.decode().removesuffix("\r"), delimiter)
        if len(cells) != width:
            raise _BadLineError(f"{len(cells)} cells, but the header has {width}")
        key: Key = choose(cells)
        return key

    return _parser(columns, whole, single)


def json_parser(columns: Columns) -> Parser:
    """A parser for one JSON object on each line."""
    fields = [f"f{i}" for i in range(len(columns.names))]
    shape = msgspec.defstruct(
        "Row", [(name, Scalar) for name in fields], rename=dict(zip(fields, columns.names, strict=True))
    )
    decoder, choose = msgspec.json.Decoder(shape), attrgetter(*fields)

    def whole(raw: bytes) -> list[Key] | None:
        # One by one: the decoder's own splitting would take two objects on a line, or one on two lines, for two rows.
        keys = list(map(choose, map(decoder.decode, raw.removeprefix(MARK).removesuffix(b"\n").split(b"\n"))))
        values = list(zip(*keys, strict=True))
        if all(set(map(type, each)) == {str} for each in values):
            return keys
        return list(zip(*(map(_text, each) for each in values), strict=True))

    def single(line: bytes) -> Key:
        return tuple(map(_text, choose(decoder.decode(line.removeprefix(MARK)))))

    return _parser(columns, whole, single)


def _parser(columns: Columns, whole: Callable[[bytes], list[Key] | None], single: Callable[[bytes], Key]) -> Parser:
    def parse(raw: bytes) -> ParsedLines:
        try:
            keys = whole(raw)
        except (UnicodeDecodeError, csv.Error, msgspec.DecodeError):
            keys = None
        if keys is not None and not any(map(_problem, set(keys))):
            return ParsedLines(keys, range(len(keys)), [])
        return _line_by_line(raw, columns, single)

    return parse


def _line_by_line(raw: bytes, columns: Columns, single: Callable[[bytes], Key]) -> ParsedLines:
    parsed = ParsedLines([], lines := [], [])
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n")):
        if not line.strip():
            continue
        try:
            key = single(line)
            if problem := _problem(key):
                place, what = problem
                raise _BadLineError(f'{what} "{columns.names[place]}"')
        except _BadLineError as error:
            parsed.bad.append((number, str(error)))
        except UnicodeDecodeError:
            parsed.bad.append((number, "not UTF-8 text"))
        except csv.Error as error:
            parsed.bad.append((number, f"not CSV ({error})"))
        except msgspec.DecodeError as error:
            parsed.bad.append((number, _plain(str(error), columns)))
        else:
            parsed.keys.append(key)
            lines.append(number)
    return parsed


def _problem(key: Key) -> tuple[int, str] | None:
    """Return the first cell that is no value, and what is wrong with it."""
    for place, cell in enumerate(key):
        if not cell:
            return place, "no value for"
        if "\0" in cell:
            return place, "a NUL character in"
    return None


def _plain(problem: str, columns: Columns) -> str:
    """A decoder's message in the user's words."""
    for name in columns.names:
        if f"required field `{name}`" in problem:
            return f'no value for "{name}"'
        if f"$.{name}" in problem:
            return f'"{name}" is no text, number or truth value'
    return f"not a JSON object with the columns ({problem})"


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True), [])


def _place(name: str, names: list[str], delimiter: str, where: str) -> int:
    if names.count(name) > 1:
        raise DataError(f'{where}: two columns are called "{name}"; rename one of them')
    if name in names:
        return names.index(name)
    other = next((each for each in ";\t|," if each != delimiter and len(names) == 1 and each in names[0]), None)
    if other:
        raise DataError(f'{where}: no column "{name}"; the header has no "{delimiter}", try --delimiter {other!r}')
    near = get_close_matches(name, names, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"there is {', '.join(names[:12])[:300]}"
    raise DataError(f'{where}: no column "{name}"; {hint}')


def _text(value: Scalar) -> str:
    """A JSON value as it would stand on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def format_of(suffix: str, start: bytes) -> Form:
    """`csv` or `jsonl`, by the name of the input or else by its first character."""
    found = SUFFIXES.get(suffix.lower())
    return found or ("jsonl" if start.removeprefix(MARK).lstrip()[:1] == b"{" else "csv")
