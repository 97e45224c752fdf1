"""Texts from a file, one after another, and as rows of word numbers: what a network reads of them.

A file is read as a stream: only the words that a network reads are kept. Bytes that are not UTF-8 become a sign that
separates words.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.messages import near, shown
from fairchain.spec import Texts
from fairchain.text.files import digest_of, keep, kept, key_of, limited_lines, stamps_of
from fairchain.text.lexicon import Ids, Lexicon, tokenise

# What a corpus may ask for: bytes of the file and of one text, texts, and words that are kept of all of them.
MOST_BYTES = 8_000_000_000
LONGEST_TEXT = 16_000_000
MOST_TEXTS = 20_000_000
MOST_WORDS = 250_000_000
# Characters of a text by which most networks have read as many words as they read; the rest is looked at if not.
LETTERS_PER_WORD = 10
# Characters of a cell of pair_by: a label or a number, and no text.
LONGEST_MARK = 200
# Changes whenever the same texts would give other words.
VERSION = 2
NO_PAIRS = "; change or remove pair_by in [population]"
READ = "a .txt file with a text on each line, or a .csv, .tsv or .jsonl file"


@dataclass(frozen=True, eq=False)
class Corpus:
    """The texts that hold a known word, as rows of word numbers.

    Parameters
    ----------
    ids
        (texts, length) int32; what comes after a text's last word is 0.
    name
        The file or data set, for messages and statements.
    sha256
        Of the file.
    total
        How many texts there are, also those that are left out since they hold no known word.
    ranks
        (texts,) int32; texts whose cells in `pair_by` are alike have the same rank, and a larger cell a higher one.
        All 0 where there is no such column.
    """

    ids: Ids
    name: str
    sha256: str
    total: int
    ranks: Ids

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """All texts, by rank and then by length: neighbours are alike."""
        found: NDArray[np.intp] = np.lexsort((self.lengths, self.ranks))
        return found

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many words of each text are read."""
        counted: NDArray[np.int64] = np.count_nonzero(self.ids, axis=1)
        return counted


def read_corpus(population: Texts, lexicon: Lexicon, length: int) -> Corpus:
    """Return the corpus that a population names, cut to what a network reads; the last one is kept in memory.

    Raises a DataError if the file cannot be read, is too large or has no text with a known word.
    """
    if population.dataset is not None:
        from fairchain.datasets import here

        path = here(population.dataset)[0]
        column, pair_by = population.column or "comment", population.pair_by or "toxic"
        return _loaded(path, column, pair_by, length, lexicon, stamps_of(path), known=True)
    path = Path(str(population.path))
    # One text as every group needs no other like it.
    paired = population.pair_by if population.reading == "observed" else None
    return _loaded(path, population.column, paired, length, lexicon, stamps_of(path), known=False)


@lru_cache(maxsize=1)
def _loaded(
    path: Path, column: str | None, pair_by: str | None, length: int, lexicon: Lexicon, _stamps: object, *, known: bool
) -> Corpus:
    """Read a corpus; the words of a `known` data set are kept in the user's cache once they have been looked up.

    A user's own texts are not copied there.
    """
    if not known:
        return _read(path, column, pair_by, length, lexicon)
    from fairchain.datasets import cache_dir

    sha256, folder = digest_of(path), cache_dir() / "corpora"
    key = key_of(VERSION, sha256, column, pair_by, length, lexicon.sha256, lexicon.unknown)
    arrays = kept(folder, key) or {}
    if arrays.keys() == {"ids", "total", "ranks"} and _usable(**arrays, length=length, words=len(lexicon)):
        return Corpus(arrays["ids"], str(path), sha256, int(arrays["total"]), arrays["ranks"])
    found = _read(path, column, pair_by, length, lexicon)
    if found.sha256 == sha256:
        keep(folder, key, ids=found.ids, total=np.array(found.total), ranks=found.ranks)
    return found


def _usable(ids: NDArray[Any], total: NDArray[Any], ranks: NDArray[Any], length: int, words: int) -> bool:
    fits = ids.dtype == np.int32 and ids.ndim == 2 and ids.shape[1] == length and len(ids) > 0
    fits = fits and total.shape == () and ranks.dtype == np.int32 and ranks.shape == ids.shape[:1]
    return fits and bool(ids.min() >= 0 and ids.max() <= words)


def _read(path: Path, column: str | None, pair_by: str | None, length: int, lexicon: Lexicon) -> Corpus:
    numbers, unknown = lexicon.numbers, lexicon.unknown
    digest = hashlib.sha256()
    words, ends, marks = array("i"), array("q"), array("i")
    seen: dict[str, int] = {}
    total = 0
    for text, mark in texts_in(path, column, pair_by, digest.update):
        total += 1
        if len(mark) > LONGEST_MARK:
            raise DataError(
                f"{path}: {shown(str(pair_by))} has a cell of more than {LONGEST_MARK} characters; pair_by "
                "names a column of labels or numbers"
            )
        found = _known(text, numbers, unknown, length)
        if not found:
            continue
        words.extend(found)
        ends.append(len(words))
        marks.append(seen.setdefault(mark, len(seen)))
        if total > MOST_TEXTS or len(ends) * length > MOST_WORDS:
            raise DataError(
                f"{path}: more than {min(MOST_TEXTS, MOST_WORDS // length):,} texts of {length} words; keep some"
            )
    if not total:
        raise DataError(f"{path}: holds no texts; give {READ}")
    if not ends:
        raise DataError(f"{path}: none of its {total:,} texts holds a word of {lexicon.name}; is it one language?")
    stops = np.frombuffer(ends, np.int64)
    ids = np.zeros((len(stops), length), np.int32)
    ids[np.arange(length) < np.diff(stops, prepend=0)[:, None]] = np.frombuffer(words, np.int32)
    ranks = _ranks(list(seen))[np.frombuffer(marks, np.int32)]
    return Corpus(ids, str(path), digest.hexdigest(), total, ranks)


def _ranks(cells: list[str]) -> Ids:
    """Return the rank of each of these different cells: as numbers if they all are, otherwise as they are written."""
    values: list[Any] = cells
    with suppress(ValueError):
        numbers = [float(cell) if cell.strip() else -math.inf for cell in cells]
        values = cells if any(map(math.isnan, numbers)) else numbers
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.array([places[value] for value in values], np.int32)


def _known(text: str, numbers: dict[str, int], unknown: int, length: int) -> list[int]:
    """Return the numbers of the first known words of a text."""
    start = text
    if len(text) > LETTERS_PER_WORD * length:
        # A blank separates words whatever surrounds it, so the text before it can be cut by itself.
        start = text[: text.rfind(" ", 0, LETTERS_PER_WORD * length) + 1] or text
    found = [number for token in tokenise(start) if (number := numbers.get(token, unknown))]
    if len(found) < length and len(start) < len(text):
        found = [number for token in tokenise(text) if (number := numbers.get(token, unknown))]
    return found[:length]


def texts_in(
    path: Path, column: str | None, pair_by: str | None, update: Callable[[bytes], object]
) -> Iterator[tuple[str, str]]:
    """Yield the texts of a file with their cells in `pair_by`; `update` gets the bytes of the file on the way."""
    suffix = path.suffix.lower()
    lines = (line.decode(errors="replace") for line in limited_lines(path, LONGEST_TEXT, MOST_BYTES, update))
    if suffix == ".txt":
        if column is not None:
            raise DataError(f"{path}: a .txt file has a text on each line and no column {shown(column)}; remove column")
        if pair_by is not None:
            raise DataError(f"{path}: a .txt file has no column {shown(pair_by)} beside its texts; remove pair_by")
        return ((line, "") for line in lines if line.strip())
    if suffix == ".jsonl":
        return _from_json(path, column, pair_by, lines)
    if suffix in (".csv", ".tsv"):
        return _from_table(path, column, pair_by, lines, tabs=suffix == ".tsv")
    raise DataError(f'{path}: a corpus that ends in "{suffix}" is not read; give {READ}')


def _from_json(path: Path, column: str | None, pair_by: str | None, lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found: Any = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(
                f"{path}, line {number:,}: not valid JSON; write a text or an object on each line"
            ) from None
        mark: Any = None
        if isinstance(found, dict):
            if column is None:
                raise DataError(f'{path}: holds objects; say which key has the text: column = "..." in [population]')
            for key, remedy in ((column, ""), (pair_by, NO_PAIRS)):
                if key is not None and key not in found:
                    known = near(key, list(found))
                    raise DataError(f"{path}, line {number:,}: there is no key {shown(key)} ({known}){remedy}")
            found, mark = found[column], None if pair_by is None else found[pair_by]
        elif pair_by is not None:
            raise DataError(f"{path}, line {number:,}: is a bare text, with no key {shown(pair_by)}; remove pair_by")
        if found is not None and not isinstance(found, str):
            raise DataError(f"{path}, line {number:,}: the text is not a string; put quotes around it")
        if pair_by is not None and isinstance(mark, list | dict):
            raise DataError(f"{path}, line {number:,}: {shown(pair_by)} is neither a number nor a word; remove pair_by")
        yield found or "", "" if mark is None else str(mark)


def _from_table(
    path: Path, column: str | None, pair_by: str | None, lines: Iterator[str], *, tabs: bool
) -> Iterator[tuple[str, str]]:
    # In tab-separated texts a quote is just a character.
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    # The standard library's limit on cells is a setting for the whole process, and shorter than texts are.
    before = csv.field_size_limit(LONGEST_TEXT)
    reader = csv.reader((f"{line}\n" for line in lines), **dialect)
    try:
        rows = (row for row in reader if row)
        header = [name.strip() for name in next(rows, [])]
        if not header:
            return
        if column is None and len(header) > 1:
            raise DataError(f'{path}: has {len(header)} columns; say which one has the texts: column = "..."')
        for name, remedy in ((column, ""), (pair_by, NO_PAIRS)):
            if name is not None and name not in header:
                raise DataError(f"{path}: there is no column {shown(name)} ({near(name, header)}){remedy}")
        place = 0 if column is None else header.index(column)
        beside = None if pair_by is None else header.index(pair_by)
        for number, row in enumerate(rows, 1):
            if len(row) != len(header):
                raise DataError(
                    f"{path}, row {number:,}: has {len(row)} cells and the header {len(header)}; put quotes around "
                    "cells that contain a separator"
                )
            yield row[place], "" if beside is None else row[beside]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num:,}: {error}; double the quotes inside a cell") from None
    finally:
        csv.field_size_limit(before)
