"""Texts of a file or a frame: unchanged, or as rows of word numbers, with further columns.

A file is read as a stream; for texts as word numbers only the words that a network reads are kept. Bytes that are not
UTF-8 are replaced by a character that separates words.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import shown, unknown
from fairchain.spec import Texts
from fairchain.tables import read_table
from fairchain.text.files import digest_of, keep, kept, key_of, limited_lines, stamps_of
from fairchain.text.lexicon import Ids, Lexicon, tokenise

# Limits of a corpus: bytes of the file and of one text, texts, and kept words of all texts.
MOST_CORPUS_BYTES = 8_000_000_000
LONGEST_TEXT = 16_000_000
MOST_TEXTS = 20_000_000
MOST_CORPUS_WORDS = 250_000_000
# Largest number of characters of unchanged texts.
MOST_KEPT_CHARACTERS = 1_000_000_000
# Number of characters in which most networks have found all the words that they read; the rest is processed if not.
LETTERS_PER_WORD = 10
# Characters of a cell of pair_by: a label or a number, not a text.
LONGEST_MARK = 200
# Version; it changes whenever the same texts would give other words.
CORPUS_CACHE_VERSION = 2
NOT_A_TEXT = "{source}: column {column}: row {row:,} has a {type}, not a text; name the column with the texts"
SEVERAL_COLUMNS = '{source}: has {count} columns; name the one with the texts: column = "..."'
CORPUS_FORMATS = "a .txt file with a text on each line, or a .csv, .tsv or .jsonl file"


@dataclass(frozen=True, eq=False)
class Corpus:
    """The texts of a file or a frame.

    Parameters
    ----------
    values
        Unchanged texts, (texts, 1) of str; or the word numbers of texts with a known word, (texts, length) int32, with
        0 after a text's last word.
    name
        The file, frame or data set, for messages and statements.
    sha256
        Hash of the file; for a frame, of the cells that are used.
    total
        The number of texts, including those that are left out because they are empty or contain no known word.
    numbers
        (texts,): the number of each text in the file or frame, from 1; None for a corpus from the cache.
    ranks
        (texts,) int32; texts with equal cells in `pair_by` have the same rank, and a larger cell a higher one. All 0
        without such a column.
    columns
        The cells of the further columns that the spec names, only for the texts here.
    replaced
        Texts in which bytes that are not UTF-8 were replaced.
    """

    values: NDArray[Any]
    name: str
    sha256: str
    total: int
    ranks: Ids
    numbers: NDArray[np.int64] | None = None
    columns: dict[str, NDArray[np.object_]] = field(default_factory=dict)
    replaced: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def raw(self) -> bool:
        """Whether the texts are unchanged."""
        return self.values.dtype == object

    @property
    def ids(self) -> Ids:
        """The word numbers of the texts."""
        assert not self.raw
        return self.values

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """All texts, by rank and then by length, so that neighbours are similar."""
        found: NDArray[np.intp] = np.lexsort((self.lengths, self.ranks))
        return found

    @cached_property
    def mentioned(self) -> dict[str, dict[str, NDArray[np.bool_]]]:
        """For terms that were searched, by their hash: the texts, (texts,), that mention each value."""
        return {}

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of words of each text that are read; for unchanged texts the characters."""
        if self.raw:
            return np.array([len(text) for text in self.values[:, 0].tolist()], np.int64)
        counted: NDArray[np.int64] = np.count_nonzero(self.ids, axis=1)
        return counted


# The further columns that are read, each with the key of the spec that names it.
Beside = dict[str, str]


def read_corpus(
    population: Texts,
    lexicon: Lexicon | None = None,
    length: int = 0,
    *,
    beside: Beside | None = None,
    frame: Any = None,
) -> Corpus:
    """Return the corpus that a population names; the last one of a file stays in memory.

    `lexicon` has the words that a network reads, and `length` their number; without them texts are unchanged. `beside`
    has further columns, each with the key of the spec that names it. `frame` is a frame or a mapping of columns with
    the texts, instead of a file. Raises a DataError if the texts cannot be read, are too many, or none has a known
    word.
    """
    # A text that is shown as every group does not need a similar one.
    pair_by = population.pair_by if population.reading == "observed" else None
    if frame is not None:
        return _from_frame(frame, population.column, pair_by, _named(pair_by, beside), lexicon, length)
    column = population.column
    if population.dataset is not None:
        column, pair_by = column or "comment", population.pair_by or "toxic"
    (path,) = corpus_files(population)
    # A user's own texts are not copied into the cache.
    cached = population.dataset is not None and not beside
    named = tuple(_named(pair_by, beside).items())
    return _loaded(path, column, pair_by, named, length, lexicon, stamps_of(path), cached=cached)


def corpus_files(population: Texts) -> list[Path]:
    """Return the file of a corpus. Raises a DataError if it is a data set that the cache lacks, a SpecError if none."""
    if population.dataset is not None:
        from fairchain.datasets import here

        return here(population.dataset)[:1]
    if population.path is not None:
        return [Path(population.path)]
    raise SpecError(
        'population.path: missing; name the file of the texts, path = "texts.csv", write dataset = "toxicity", or '
        "give the texts: --data (data=... in Python)"
    )


def _named(pair_by: str | None, beside: Beside | None) -> Beside:
    """Return the further columns, with the one by which texts are paired first."""
    return ({} if pair_by is None else {pair_by: "pair_by in [population]"}) | (beside or {})


@lru_cache(maxsize=1)
def _loaded(
    path: Path,
    column: str | None,
    pair_by: str | None,
    named: tuple[tuple[str, str], ...],
    length: int,
    lexicon: Lexicon | None,
    _stamps: object,
    *,
    cached: bool,
) -> Corpus:
    """Read a corpus with further columns; the words of a `cached` one are kept in the user's cache."""

    def read() -> Corpus:
        digest = hashlib.sha256()
        rows = texts_in(path, column, dict(named), digest.update)
        return _gathered(rows, str(path), digest, pair_by, [name for name, _ in named], length, lexicon)

    if not cached or lexicon is None:
        return read()
    from fairchain.datasets import cache_dir

    sha256, folder = digest_of(path), cache_dir() / "corpora"
    key = key_of(CORPUS_CACHE_VERSION, sha256, column, pair_by, length, lexicon.sha256, lexicon.unknown)
    arrays = kept(folder, key) or {}
    if arrays.keys() == {"ids", "total", "ranks"} and _usable(**arrays, length=length, words=len(lexicon)):
        return Corpus(arrays["ids"], str(path), sha256, int(arrays["total"]), arrays["ranks"])
    found = read()
    if found.sha256 == sha256:
        keep(folder, key, ids=found.ids, total=np.array(found.total), ranks=found.ranks)
    return found


def _usable(ids: NDArray[Any], total: NDArray[Any], ranks: NDArray[Any], length: int, words: int) -> bool:
    fits = ids.dtype == np.int32 and ids.ndim == 2 and ids.shape[1] == length and len(ids) > 0
    fits = fits and total.shape == () and ranks.dtype == np.int32 and ranks.shape == ids.shape[:1]
    return fits and bool(ids.min() >= 0 and ids.max() <= words)


def _from_frame(
    frame: Any, column: str | None, pair_by: str | None, named: Beside, lexicon: Lexicon | None, length: int
) -> Corpus:
    """Return the texts of a table in memory, with every blank."""
    table = read_table(frame)
    if column is None and len(table.names) > 1:
        raise DataError(SEVERAL_COLUMNS.format(source=table.source, count=len(table.names)))
    column = table.names[0] if column is None else column
    cells = [table.texts(name) for name in _present(table.source, table.names, named)]
    table.cells(column, 'name the column with the texts: column = "..." in [population]')
    # The original cells, because a table has no blanks around its texts.
    keys = list(frame.columns) if hasattr(frame, "columns") else list(frame)
    original = frame[keys[table.names.index(column)]]
    texts = []
    for number, text in enumerate(original.to_list() if hasattr(original, "to_list") else list(original), 1):
        missing = text is None or (isinstance(text, float) and math.isnan(text)) or type(text).__name__ == "NAType"
        if not isinstance(text, str) and not missing:
            found = type(text).__name__
            raise DataError(NOT_A_TEXT.format(source=table.source, column=shown(column), row=number, type=found))
        texts.append("" if missing else str(text))
    digest = hashlib.sha256()

    def rows() -> Iterator[tuple[str, tuple[str, ...]]]:
        for text, *others in zip(texts, *cells, strict=True):
            row = (text, tuple(other or "" for other in others))
            digest.update(json.dumps(row).encode() + b"\n")
            yield row

    return _gathered(rows(), table.source, digest, pair_by, list(named), length, lexicon)


def _gathered(
    rows: Iterator[tuple[str, tuple[str, ...]]],
    name: str,
    digest: Any,
    pair_by: str | None,
    columns: list[str],
    length: int,
    lexicon: Lexicon | None,
) -> Corpus:
    """Return a corpus from texts with their cells in these columns; the first may be `pair_by`."""
    words, ends, marks, numbers = array("i"), array("q"), array("i"), array("q")
    kept_texts: list[str] = []
    cells: list[tuple[str, ...]] = []
    seen: dict[str, int] = {}
    total = characters = replaced = 0
    for total, (text, others) in enumerate(rows, 1):
        mark = others[0] if pair_by is not None else ""
        if len(mark) > LONGEST_MARK:
            raise DataError(
                f"{name}: {shown(str(pair_by))} has a cell of more than {LONGEST_MARK} characters; pair_by "
                "names a column of labels or numbers"
            )
        if lexicon is None:
            if not text.strip():
                continue
            kept_texts.append(text)
            characters += len(text)
            replaced += "\N{REPLACEMENT CHARACTER}" in text
        else:
            found = _known(text, lexicon.numbers, lexicon.unknown, length)
            if not found:
                continue
            words.extend(found)
            ends.append(len(words))
        numbers.append(total)
        marks.append(seen.setdefault(mark, len(seen)))
        cells.append(others)
        if total > MOST_TEXTS or len(ends) * length > MOST_CORPUS_WORDS:
            raise DataError(
                f"{name}: more than {min(MOST_TEXTS, MOST_CORPUS_WORDS // length):,} texts of {length} words; keep some"
            )
        if characters > MOST_KEPT_CHARACTERS:
            raise DataError(f"{name}: more than {MOST_KEPT_CHARACTERS:,} characters; keep some of its texts")
    if not total:
        raise DataError(f"{name}: contains no texts; give {CORPUS_FORMATS}")
    if not numbers:
        why = "is one" if lexicon is None else f"contains a word of {lexicon.name}; do both have the same language?"
        raise DataError(f"{name}: none of its {total:,} texts {why}")
    if lexicon is None:
        values: NDArray[Any] = np.empty((len(kept_texts), 1), object)
        values[:, 0] = kept_texts
    else:
        stops = np.frombuffer(ends, np.int64)
        values = np.zeros((len(stops), length), np.int32)
        values[np.arange(length) < np.diff(stops, prepend=0)[:, None]] = np.frombuffer(words, np.int32)
    ranks = _ranks(list(seen))[np.frombuffer(marks, np.int32)]
    beside = {column: np.array([row[place] for row in cells], object) for place, column in enumerate(columns)}
    placed = np.frombuffer(numbers, np.int64)
    return Corpus(values, name, digest.hexdigest(), total, ranks, placed, beside, replaced)


def _ranks(cells: list[str]) -> Ids:
    """Return the rank of each of these distinct cells: as numbers if all are numbers, otherwise as texts."""
    values: list[Any] = cells
    with suppress(ValueError):
        numbers = [float(cell) if cell.strip() else -math.inf for cell in cells]
        values = cells if any(map(math.isnan, numbers)) else numbers
    places = {value: place for place, value in enumerate(sorted(set(values)))}
    return np.array([places[value] for value in values], np.int32)


def _known(text: str, numbers: dict[str, int], unknown: int, length: int) -> list[int]:
    """Return the numbers of the first known words of a text."""
    # A blank always separates words, so the text before it can be split independently.
    start = text[: text.rfind(" ", 0, LETTERS_PER_WORD * length) + 1] if len(text) > LETTERS_PER_WORD * length else ""
    for part in (start, text) if start else (text,):
        found = [number for token in tokenise(part) if (number := numbers.get(token, unknown))]
        if len(found) >= length:
            break
    return found[:length]


def texts_in(
    path: Path, column: str | None, beside: Beside, update: Callable[[bytes], object]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts of a file with their cells in other columns; `update` gets the bytes of the file.

    `beside` has the other columns, each with the key of the spec that names it.
    """
    suffix = path.suffix.lower()
    # A cell of a table may contain line ends, which are kept.
    cells = suffix in (".csv", ".tsv")
    found = limited_lines(path, LONGEST_TEXT, MOST_CORPUS_BYTES, update, ends=cells)
    lines = (line.decode(errors="replace") for line in found)
    if suffix == ".txt":
        if column is not None:
            raise DataError(f"{path}: a .txt file has a text on each line and no column {shown(column)}; remove column")
        for name, key in beside.items():
            raise DataError(f"{path}: a .txt file has no column {shown(name)} beside its texts; change or remove {key}")
        return ((line, ()) for line in lines if line.strip())
    if suffix == ".jsonl":
        return _from_json(path, column, beside, lines)
    if cells:
        return _from_table(path, column, beside, lines, tabs=suffix == ".tsv")
    raise DataError(f'{path}: a corpus that ends in "{suffix}" is not read; give {CORPUS_FORMATS}')


def _present(source: str, names: Sequence[str], beside: Beside) -> list[str]:
    """Return the names of the other columns, all of which must exist."""
    for name, key in beside.items():
        if name not in names:
            raise DataError(f"{source}: {key}: {unknown('column', name, names)}")
    return list(beside)


def _from_json(
    path: Path, column: str | None, beside: Beside, lines: Iterator[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found: Any = json.loads(line)
        except (ValueError, RecursionError):
            raise DataError(
                f"{path}, line {number:,}: not valid JSON; write a text or an object on each line"
            ) from None
        cells: list[Any] = []
        if isinstance(found, dict):
            if column is None:
                raise DataError(f'{path}: contains objects; name the key with the text: column = "..." in [population]')
            for name, where in ((column, "column in [population]"), *beside.items()):
                if name not in found:
                    raise DataError(f"{path}, line {number:,}: {where}: {unknown('key', name, list(found))}")
            cells = [found[name] for name in beside]
            found = found[column]
        else:
            for name, key in beside.items():
                raise DataError(
                    f"{path}, line {number:,}: is a bare text, with no key {shown(name)}; change or remove {key}"
                )
        if found is not None and not isinstance(found, str):
            raise DataError(f"{path}, line {number:,}: the text is not a string; put quotes around it")
        for name, cell in zip(beside, cells, strict=True):
            if isinstance(cell, list | dict):
                raise DataError(
                    f"{path}, line {number:,}: {shown(name)} is neither a number nor a word; change or remove "
                    f"{beside[name]}"
                )
        yield found or "", tuple("" if cell is None else str(cell) for cell in cells)


def _from_table(
    path: Path, column: str | None, beside: Beside, lines: Iterator[str], *, tabs: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    # In tab-separated texts a quote is an ordinary character.
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tabs else {"strict": True}
    # The standard library's limit on cells is a setting of the whole process, and shorter than texts.
    before = csv.field_size_limit(LONGEST_TEXT)
    reader = csv.reader(lines, **dialect)
    try:
        rows = (row for row in reader if row)
        header = [name.strip() for name in next(rows, [])]
        if not header:
            return
        if column is None and len(header) > 1:
            raise DataError(SEVERAL_COLUMNS.format(source=path, count=len(header)))
        if column is not None and column not in header:
            raise DataError(f"{path}: {unknown('column', column, header)}")
        place = 0 if column is None else header.index(column)
        others = [header.index(name) for name in _present(str(path), header, beside)]
        for number, row in enumerate(rows, 1):
            if len(row) != len(header):
                raise DataError(
                    f"{path}, row {number:,}: has {len(row)} cells and the header {len(header)}; put quotes around "
                    "cells that contain a separator"
                )
            yield row[place], tuple(row[other] for other in others)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num:,}: {error}; double the quotes inside a cell") from None
    finally:
        csv.field_size_limit(before)
