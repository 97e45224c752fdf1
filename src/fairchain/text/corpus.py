"""Texts from a file, one after another, and as rows of word numbers: what a network reads of them.

A file is read as a stream: only the words that a network reads are kept. Bytes that are no UTF-8 become a sign that
separates words.
"""

from __future__ import annotations

import csv
import hashlib
import json
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.spec import Texts
from fairchain.tables.wording import near, shown
from fairchain.text.keeping import keep, kept, key_of
from fairchain.text.lexicon import Ids, Lexicon
from fairchain.text.lines import Digest, digest_of, limited_lines
from fairchain.text.tokens import tokenise

# What a corpus may ask for: bytes of the file and of one text, texts, and words that are kept of all of them.
MOST_BYTES = 8_000_000_000
LONGEST_TEXT = 16_000_000
MOST_TEXTS = 20_000_000
MOST_WORDS = 250_000_000
# Characters of a text by which most networks have read as many words as they read; the rest is looked at if not.
LETTERS_PER_WORD = 10
# Changes whenever the same texts would give other words.
VERSION = 1
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
    """

    ids: Ids
    name: str
    sha256: str
    total: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many words of each text are read."""
        counted: NDArray[np.int64] = np.count_nonzero(self.ids, axis=1)
        return counted


def read_corpus(population: Texts, lexicon: Lexicon, length: int) -> Corpus:
    """The corpus that a population names, cut to what a network reads; the last one is kept in memory.

    Raises
    ------
    DataError
        If the file cannot be read, is too large or holds no text with a known word.
    """
    path, column = located(population)
    stamp = None
    with suppress(OSError, ValueError):
        found = path.stat()
        stamp = found.st_mtime_ns, found.st_size
    wanted = _Wanted(path, column, length, stamp)
    # What the cache holds anyway may stand there in another form too; a user's own texts may not.
    return _read(wanted, lexicon) if population.dataset is None else _read_kept(wanted, lexicon)


@dataclass(frozen=True)
class _Wanted:
    """What decides, with the words, which corpus it is; a file that was written again is another one."""

    path: Path
    column: str | None
    length: int
    stamp: tuple[int, int] | None


def located(population: Texts) -> tuple[Path, str | None]:
    """The file of a corpus and the column that holds the texts."""
    if population.dataset is not None:
        from fairchain.datasets import here

        return here(population.dataset)[0], population.column or "comment"
    return Path(str(population.path)), population.column


@lru_cache(maxsize=1)
def _read_kept(wanted: _Wanted, lexicon: Lexicon) -> Corpus:
    """A corpus of a data set, whose words are kept in the cache once they have been looked up."""
    from fairchain.datasets import cache_dir

    sha256, folder = digest_of(wanted.path), cache_dir() / "corpora"
    key = key_of(VERSION, sha256, wanted.column, wanted.length, lexicon.sha256, lexicon.unknown)
    arrays = kept(folder, key) or {}
    ids, total = arrays.get("ids"), arrays.get("total")
    if ids is not None and total is not None and total.shape == () and _usable(ids, wanted.length, len(lexicon)):
        return Corpus(ids, str(wanted.path), sha256, int(total))
    found = _read(wanted, lexicon)
    if found.sha256 == sha256:
        keep(folder, key, ids=found.ids, total=np.array(found.total))
    return found


def _usable(ids: NDArray[Any], length: int, words: int) -> bool:
    fits = ids.dtype == np.int32 and ids.ndim == 2 and ids.shape[1] == length and len(ids) > 0
    return fits and bool(ids.min() >= 0 and ids.max() <= words)


@lru_cache(maxsize=1)
def _read(wanted: _Wanted, lexicon: Lexicon) -> Corpus:
    path, length = wanted.path, wanted.length
    numbers, unknown = lexicon.numbers, lexicon.unknown
    digest = hashlib.sha256()
    words, ends = array("i"), array("q")
    total = 0
    for text in texts_in(path, wanted.column, digest):
        total += 1
        found = _known(text, numbers, unknown, length)
        if not found:
            continue
        words.extend(found)
        ends.append(len(words))
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
    return Corpus(ids, str(path), digest.hexdigest(), total)


def _known(text: str, numbers: dict[str, int], unknown: int, length: int) -> list[int]:
    """The numbers of the first known words of a text."""
    start = text
    if len(text) > LETTERS_PER_WORD * length:
        # A blank separates words whatever surrounds it, so what stands before it can be cut by itself.
        start = text[: text.rfind(" ", 0, LETTERS_PER_WORD * length) + 1] or text
    found = [number for token in tokenise(start) if (number := numbers.get(token, unknown))]
    if len(found) < length and len(start) < len(text):
        found = [number for token in tokenise(text) if (number := numbers.get(token, unknown))]
    return found[:length]


def texts_in(path: Path, column: str | None, digest: Digest) -> Iterator[str]:
    """The texts of a file, one after another; the digest takes its bytes on the way."""
    suffix = path.suffix.lower()
    lines = (line.decode(errors="replace") for line in limited_lines(path, LONGEST_TEXT, MOST_BYTES, digest))
    if suffix == ".txt":
        if column is not None:
            raise DataError(f"{path}: a .txt file has a text on each line and no column {shown(column)}; remove column")
        return (line for line in lines if line.strip())
    if suffix == ".jsonl":
        return _from_json(path, column, lines)
    if suffix in (".csv", ".tsv"):
        return _from_table(path, column, lines, tabs=suffix == ".tsv")
    raise DataError(f'{path}: a corpus that ends in "{suffix}" is not read; give {READ}')


def _from_json(path: Path, column: str | None, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found: Any = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(f"{path}, line {number:,}: no JSON; write one text or one object on each line") from None
        if isinstance(found, dict):
            if column is None:
                raise DataError(f'{path}: holds objects; say which key has the text: column = "..." in [population]')
            if column not in found:
                raise DataError(
                    f"{path}, line {number:,}: there is no key {shown(column)} ({near(column, list(found))})"
                )
            found = found[column]
        if found is not None and not isinstance(found, str):
            raise DataError(f"{path}, line {number:,}: the text is no string; put quotes around it")
        yield found or ""


def _from_table(path: Path, column: str | None, lines: Iterator[str], *, tabs: bool) -> Iterator[str]:
    # In tab-separated texts a quote is just a character.
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    with _long_cells():
        rows = _rows(path, csv.reader((f"{line}\n" for line in lines), **dialect))
        header = [name.strip() for name in next(rows, [])]
        if not header:
            return
        if column is None and len(header) > 1:
            raise DataError(f'{path}: has {len(header)} columns; say which one has the texts: column = "..."')
        if column is not None and column not in header:
            raise DataError(f"{path}: there is no column {shown(column)} ({near(column, header)})")
        place = 0 if column is None else header.index(column)
        for number, row in enumerate(rows, 1):
            if len(row) != len(header):
                raise DataError(
                    f"{path}, row {number:,}: has {len(row)} cells and the header {len(header)}; put quotes around "
                    "cells that hold a separator"
                )
            yield row[place]


def _rows(path: Path, reader: Any) -> Iterator[list[str]]:
    try:
        yield from (row for row in reader if row)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num:,}: {error}; double the quotes inside a cell") from None


@contextmanager
def _long_cells() -> Iterator[None]:
    """The standard library's limit on cells is a setting for the whole process, and shorter than texts are."""
    before = csv.field_size_limit(LONGEST_TEXT)
    try:
        yield
    finally:
        csv.field_size_limit(before)
