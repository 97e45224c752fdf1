"""The words that a network knows, numbered from 1, with their vectors if it takes vectors."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.messages import suggest
from fairchain.spec import TextFeature
from fairchain.spec.files import is_file

Ids = NDArray[np.int32]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words by number: word i of the list has number i + 1, and 0 is no word.

    Parameters
    ----------
    words
        In the order of the file. Of a word that stands twice the first counts; an empty one is never met.
    table
        (words + 1, width) float32: row i is the vector of word number i, and row 0 is zero; None where the network
        takes numbers of words.
    sha256
        Of the words and their vectors.
    name
        The file or data set, for messages.
    unknown
        The number that stands for every word that is not in the list; 0 to leave such words out.
    """

    words: tuple[str, ...] = field(repr=False)
    table: Vectors | None = field(repr=False)
    sha256: str
    name: str
    unknown: int = 0

    def __len__(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        """How many numbers a vector has; 0 where there are none."""
        return 0 if self.table is None else self.table.shape[1]

    @property
    def vectors(self) -> Vectors | None:
        """The vectors in the order of the words."""
        return None if self.table is None else self.table[1:]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word."""
        # Backwards, so that of a word that stands twice the first stays.
        return dict(zip(reversed(self.words), range(len(self.words), 0, -1), strict=True))

    def ids(self, tokens: Iterable[str]) -> Ids:
        """The numbers of these words; those that are not known are left out, or become `unknown`."""
        numbers, unknown = self.numbers, self.unknown
        found = [numbers.get(token, unknown) for token in tokens]
        return np.array(found if unknown else [number for number in found if number], np.int32)

    def word(self, number: int) -> str:
        """The word with this number, from 1."""
        if not 1 <= number <= len(self.words):
            raise ValueError(f"there is no word number {number}")
        return self.words[number - 1]

    def text(self, ids: Iterable[int]) -> str:
        """A row of numbers as words; padding is left out."""
        return " ".join(self.word(int(number)) for number in ids if number)


def lexicon_of(feature: TextFeature) -> Lexicon:
    """The words, and their vectors, that a text feature names.

    The last few are kept, since the population, the network and its checks ask for the same one.

    Raises
    ------
    DataError
        If the file cannot be read, or the data set is not in the cache.
    """
    return _loaded(_Wanted.of(feature))


@dataclass(frozen=True)
class _Wanted:
    """What decides which lexicon it is; a file that was written again is another one."""

    feature: str
    vectors: str | None
    vocabulary: str | None
    unknown: str
    stamps: tuple[tuple[Path, int, int], ...]

    @classmethod
    def of(cls, feature: TextFeature) -> _Wanted:
        stamps: list[tuple[Path, int, int]] = []
        # What is wrong with a file, or a name, is said when it is read.
        with suppress(OSError, ValueError, DataError):
            for path in _files_of(feature):
                found = path.stat()
                stamps.append((path, found.st_mtime_ns, found.st_size))
        return cls(feature.name, feature.vectors, feature.vocabulary, feature.unknown, tuple(stamps))


def _files_of(feature: TextFeature) -> list[Path]:
    name = feature.vocabulary or feature.vectors or ""
    if feature.vocabulary is None and not is_file(name):
        from fairchain.datasets import here

        return here(name)
    path = Path(name)
    # The words of a matrix stand in a file of their own.
    return [path, path.with_suffix(".txt")] if path.suffix.lower() == ".npy" else [path]


@lru_cache(maxsize=2)
def _loaded(wanted: _Wanted) -> Lexicon:
    words, table, sha256 = _read(wanted)
    source = wanted.vocabulary or str(wanted.vectors)
    if table is not None and not np.isfinite(table).all():
        raise DataError(f"{source}: some numbers are not finite; repair the file")
    lexicon = Lexicon(words, table, sha256, source)
    if wanted.unknown == "skip":
        return lexicon
    if wanted.unknown not in lexicon.numbers:
        raise DataError(
            f'feature "{wanted.feature}".unknown: {source} has no word "{wanted.unknown}" to stand for unknown ones; '
            'name one that it has, or write unknown = "skip"'
        )
    return replace(lexicon, unknown=lexicon.numbers[wanted.unknown])


def _read(wanted: _Wanted) -> tuple[tuple[str, ...], Vectors | None, str]:
    from fairchain.text.vectors import DATASETS, dataset_vectors, read_vectors, read_vocabulary

    if wanted.vocabulary is not None:
        return read_vocabulary(wanted.vocabulary)
    vectors = str(wanted.vectors)
    if is_file(vectors):
        return read_vectors(vectors)
    if vectors in DATASETS:
        return dataset_vectors(vectors)
    raise DataError(
        f'feature "{wanted.feature}".vectors: there are no vectors "{vectors}" ({suggest(vectors, DATASETS)}); a file '
        "is named with its suffix"
    )
