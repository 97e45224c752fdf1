"""Rows of a stream: lines are parsed to keys (the values of the protected columns and the prediction), and encoded.

Whole blocks are parsed at once. Only a block with an error is parsed line by line, to report the line and the error. A
row is one line: line ends inside quotes are not allowed.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter, itemgetter
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.messages import listed, shown, unknown
from fairchain.monitoring.bounds import MOST_GROUPS, name_problem
from fairchain.monitoring.state import StreamSpec

GroupCells = tuple[str, ...]
Form = Literal["csv", "jsonl"]
# Function from the values of the protected columns to the name of the group, or None for a row in no group; it raises a
# DataError for values that are not those of the features.
Grouping = Callable[[Sequence[str]], str | None]
Scalar = str | int | float | bool
# Some programs start UTF-8 files with it.
MARK = b"\xef\xbb\xbf"
MOST_STREAM_LABELS = 1000
NOT_A_DECISION = "{label} is not one of model.labels ({known})"
MOST_KEYS = 100_000
STREAM_SUFFIXES: dict[str, Form] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}


@dataclass(frozen=True)
class ParsedLines:
    """The rows of a block: their keys, the line of each within the block, and the invalid lines."""

    keys: list[GroupCells]
    lines: Sequence[int]
    bad: list[tuple[int, str]]


Parser = Callable[[bytes], ParsedLines]


class _BadLineError(ValueError):
    """The problem with a line."""


def csv_parser(header: bytes, columns: Sequence[str], delimiter: str, where: str) -> Parser:
    """Return a parser for the lines under this header."""
    try:
        names = [name.strip() for name in _cells(header.decode("utf-8-sig").rstrip("\r\n"), delimiter)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{where}: the first line is not the header of a CSV file in UTF-8 ({error})") from None
    places = [_place(name, names, delimiter, where) for name in columns]
    choose, width = itemgetter(*places), len(names)

    def whole(raw: bytes) -> list[GroupCells] | None:
        text = raw.decode().removesuffix("\n").split("\n")
        rows = list(csv.reader(text, delimiter=delimiter, strict=True, skipinitialspace=True))
        if len(rows) != len(text) or set(map(len, rows)) != {width}:
            return None
        return list(map(choose, rows))

    def single(line: bytes) -> GroupCells:
        cells = _cells(line.decode().removesuffix("\r"), delimiter)
        if len(cells) != width:
            raise _BadLineError(f"{len(cells)} cells, but the header has {width}")
        key: GroupCells = choose(cells)
        return key

    return _parser(columns, whole, single)


def json_parser(columns: Sequence[str]) -> Parser:
    """Return a parser for one JSON object on each line."""
    fields = [f"f{i}" for i in range(len(columns))]
    shape = msgspec.defstruct(
        "Row", [(name, Scalar) for name in fields], rename=dict(zip(fields, columns, strict=True))
    )
    decoder, choose = msgspec.json.Decoder(shape), attrgetter(*fields)

    def whole(raw: bytes) -> list[GroupCells] | None:
        # One by one: the decoder's own splitting would accept two objects on a line, or one on two lines, as two rows.
        keys = list(map(choose, map(decoder.decode, raw.removeprefix(MARK).removesuffix(b"\n").split(b"\n"))))
        values = list(zip(*keys, strict=True))
        if all(set(map(type, each)) == {str} for each in values):
            return keys
        return list(zip(*(map(_text, each) for each in values), strict=True))

    def single(line: bytes) -> GroupCells:
        return tuple(map(_text, choose(decoder.decode(line.removeprefix(MARK)))))

    return _parser(columns, whole, single)


def _parser(
    columns: Sequence[str], whole: Callable[[bytes], list[GroupCells] | None], single: Callable[[bytes], GroupCells]
) -> Parser:
    def parse(raw: bytes) -> ParsedLines:
        try:
            keys = whole(raw)
        except (UnicodeDecodeError, csv.Error, msgspec.DecodeError):
            keys = None
        if keys is not None and not any(map(_problem, set(keys))):
            return ParsedLines(keys, range(len(keys)), [])
        parsed = ParsedLines([], lines := [], [])
        for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n")):
            try:
                if line.strip():
                    key = single(line)
                    if problem := _problem(key):
                        raise _BadLineError(f'{problem[1]} "{columns[problem[0]]}"')
                    parsed.keys.append(key)
                    lines.append(number)
            except _BadLineError as error:
                parsed.bad.append((number, str(error)))
            except UnicodeDecodeError:
                parsed.bad.append((number, "not UTF-8 text"))
            except csv.Error as error:
                parsed.bad.append((number, f"not CSV ({error})"))
            except msgspec.DecodeError as error:
                parsed.bad.append((number, _plain(str(error), columns)))
        return parsed

    return parse


def _problem(key: GroupCells) -> tuple[int, str] | None:
    """Return the first cell with a missing or invalid value, and the problem."""
    for place, cell in enumerate(key):
        if not cell or "\0" in cell:
            return place, "a NUL character in" if cell else "no value for"
    return None


def _plain(problem: str, columns: Sequence[str]) -> str:
    """Return a decoder's message in the user's terms."""
    for name in columns:
        if f"required field `{name}`" in problem:
            return f'no value for "{name}"'
        if f"$.{name}" in problem:
            return f'"{name}" is not a text, a number or a truth value'
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
        raise DataError(f'{where}: unknown column "{name}"; the header has no "{delimiter}", try --delimiter {other!r}')
    raise DataError(f"{where}: {unknown('column', name, names)}")


def _text(value: Scalar) -> str:
    """Return a JSON value as it is written on the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def stream_format(suffix: str, start: bytes) -> Form:
    """Return `csv` or `jsonl`, by the name of the input or otherwise by its first character."""
    found = STREAM_SUFFIXES.get(suffix.lower())
    return found or ("jsonl" if start.removeprefix(MARK).lstrip()[:1] == b"{" else "csv")


class Encoder(dict[GroupCells, int]):
    """A number for each key, by which `encode` finds its group and whether it has the outcome.

    The dictionary fills itself: it contains every combination of values that has occurred, and there are few of them.
    """

    LEFT_OUT, TROUBLE = -1, -2

    def __init__(
        self, spec: StreamSpec, names: Sequence[str], grouping: Grouping | None = None, labels: Sequence[str] = ()
    ) -> None:
        super().__init__()
        self._known_labels = labels
        self._spec, self._grouping = spec, grouping or partial(group_name, spec.protected)
        self._places = {name: place for place, name in enumerate(names)}
        self._groups: list[int] = []
        self._hits: list[bool] = []
        self.labels: set[str] = set()
        self.trouble = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The groups in the order in which they were named or occurred."""
        return tuple(self._places)

    def encode(self, keys: Sequence[GroupCells]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return, (rows,) each, the index of the group, LEFT_OUT or TROUBLE, and whether the row has the outcome."""
        numbers = np.fromiter(map(self.__getitem__, keys), np.intp, len(keys))
        return np.array(self._groups, np.intp)[numbers], np.array(self._hits, bool)[numbers]

    def __missing__(self, key: GroupCells) -> int:
        *values, label = key
        self.labels.add(label)
        try:
            self._groups.append(self._group(values, label))
        except DataError as error:
            self.trouble = self.trouble or str(error)
            self._groups.append(self.TROUBLE)
        self._hits.append(label == self._spec.outcome)
        self[key] = len(self._groups) - 1
        return self[key]

    def _group(self, values: Sequence[str], label: str) -> int:
        """Return the index of a group, or LEFT_OUT; raise a DataError for values that cannot be counted."""
        if self._known_labels and label not in self._known_labels:
            raise DataError(NOT_A_DECISION.format(label=shown(label), known=listed(self._known_labels)))
        name = self._grouping(values)
        if len(self.labels) > MOST_STREAM_LABELS:
            raise DataError(
                f'column "{self._spec.prediction}" has more than {MOST_STREAM_LABELS} different values; --prediction '
                "must name decisions, not scores"
            )
        if name is None:
            return self.LEFT_OUT
        if name in self._places:
            return self._places[name]
        if len(self) >= MOST_KEYS:
            raise DataError(f"more than {MOST_KEYS} different combinations of values; check --protected")
        if self._spec.groups:
            return self.LEFT_OUT
        if problem := name_problem(name):
            raise DataError(problem)
        if len(self._places) >= MOST_GROUPS:
            raise DataError(
                f"{name} is one more than {MOST_GROUPS} groups; is this a column of groups? Name those to "
                "compare with --group"
            )
        self._places[name] = len(self._places)
        return self._places[name]


def group_name(columns: Sequence[str], values: Sequence[str]) -> str:
    """Return the name of a group: `sex=Female & race=White`."""
    return " & ".join(f"{column}={value}" for column, value in zip(columns, values, strict=True))
