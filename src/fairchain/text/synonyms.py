"""Words that may replace others: those with the nearest vectors, or those of the same synset of WordNet.

Words that name groups are never replaced or offered. The nearest vectors are found once for all common words, by matrix
products, and stored in the user's cache.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.text.files import keep, key_of, limited_lines
from fairchain.text.files import kept as kept_arrays
from fairchain.text.lexicon import Ids, Lexicon, Vectors

Parsed = TypeVar("Parsed")

# Only this many words from the start of a list are replaced or offered: lists of vectors begin with the most frequent
# words, and the neighbour of a rare word is another rare one, a name or a misspelling, but not a synonym.
COMMON = 30_000
# Words whose similarities with all others are computed together, and the size of the bundles of which only the maximum
# is compared.
ROWS, BUNDLE = 256, 16
# Largest number of vector entries in memory for sorting; wider vectors are processed for fewer words together.
MOST_HELD_NUMBERS = 2**24
# Similarities are found in single precision and sorted by integers of this unit, which are the same on every machine;
# this many more than needed are sorted.
UNIT, SPARE_NEIGHBOURS = 2**20, 8
# Version; it changes whenever the same list of vectors would give other neighbours.
NEIGHBOURS_CACHE_VERSION = 2
# Files of WordNet, and their limits.
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
MOST_WORDNET_BYTES = 200_000_000
LONGEST_WORDNET_LINE = 100_000
BAD_LINE = "{path}, line {number:,}: not in the format of WordNet 3.0; install wordnet-base, or download it again"
NO_WORDNET_FOLDER = "{folder}: folder not found; name the one that contains index.noun and data.noun"


@dataclass(frozen=True, eq=False)
class Synonyms:
    """The words that can replace each word.

    `places`, (words + 1,), has for each word number its row in `offered`, 0 for a word that is not replaced. `offered`,
    (rows, most), has word numbers, the nearest first; row 0 is empty. `counts`, (rows,), is the length of each row.
    """

    places: Ids
    offered: Ids
    counts: Ids

    @cached_property
    def replaced(self) -> NDArray[np.bool_]:
        """(words + 1,): whether a word can be replaced."""
        return self.places > 0

    @cached_property
    def sha256(self) -> str:
        """Return the hash of all replacements."""
        digest = hashlib.sha256()
        for part in (self.places, self.offered, self.counts):
            digest.update(np.ascontiguousarray(part, "<i4").tobytes())
        return digest.hexdigest()


def nearest_words(lexicon: Lexicon, most: int, kept: Collection[str], cache: Path | None = None) -> Synonyms:
    """Return for each common word the `most` words whose vectors have the largest cosine with its own.

    Words in `kept` are neither replaced nor offered. The result is stored in the folder `cache`; a stored result is
    checked before it is used.
    """
    assert lexicon.table is not None
    numbers = _common(lexicon, kept)
    words = hashlib.sha256(np.ascontiguousarray(numbers, "<i4").tobytes()).hexdigest()
    key = key_of(NEIGHBOURS_CACHE_VERSION, lexicon.sha256, most, words)
    offered = None if cache is None else (kept_arrays(cache, key) or {}).get("offered")
    count = len(numbers)
    usable = offered is not None and offered.dtype == np.int32 and offered.shape == (count, min(most, count - 1))
    if offered is None or not usable or not np.isin(offered, numbers).all():
        offered = numbers[_nearest(lexicon.table[numbers], most) if count > most else _others(count)]
        if cache is not None:
            keep(cache, key, offered=offered)
    return _synonyms(len(lexicon), numbers, offered, np.full(len(numbers), offered.shape[1], np.int32))


def listed_words(lexicon: Lexicon, found: Mapping[str, Sequence[str]], most: int, kept: Collection[str]) -> Synonyms:
    """Return for each word of a list of synonyms the first `most` that the lexicon contains."""
    known = lexicon.numbers
    rows: dict[int, list[int]] = {}
    for word, others in found.items():
        if word in kept or word not in known:
            continue
        usable = [known[other] for other in others if other in known and other != word and other not in kept]
        if usable:
            rows[known[word]] = usable[:most]
    numbers = np.array(sorted(rows), np.int32)
    offered = np.zeros((len(numbers), most), np.int32)
    for place, number in enumerate(numbers.tolist()):
        offered[place, : len(rows[number])] = rows[number]
    return _synonyms(len(lexicon), numbers, offered, np.count_nonzero(offered, axis=1).astype(np.int32))


def _synonyms(words: int, numbers: Ids, offered: Ids, counts: Ids) -> Synonyms:
    """Return rows for these words after the empty row 0."""
    places = np.zeros(words + 1, np.int32)
    places[numbers] = np.arange(1, len(numbers) + 1)
    nothing = np.zeros((1, max(offered.shape[1], 1)), np.int32)
    offered = offered if offered.shape[1] else np.zeros((len(numbers), 1), np.int32)
    return Synonyms(places, np.concatenate([nothing, offered]), np.concatenate([[0], counts]).astype(np.int32))


def _common(lexicon: Lexicon, kept: Collection[str]) -> Ids:
    """Return the numbers of the eligible words: common alphabetic words of at least two letters that have a vector."""
    assert lexicon.table is not None
    numbers = [
        number
        for number, word in enumerate(lexicon.words[:COMMON], 1)
        if len(word) > 1 and word.isalpha() and word not in kept and lexicon.numbers[word] == number
    ]
    found = np.array(numbers, np.int32)
    return found[np.any(lexicon.table[found] != 0, axis=1)] if len(found) else found


def _others(count: int) -> NDArray[np.intp]:
    """Return (words, words - 1): for each of few words every other one, not sorted by similarity."""
    return (np.arange(count)[:, None] + np.arange(1, count)) % max(count, 1)


def _nearest(vectors: Vectors, most: int) -> NDArray[np.intp]:
    """Return (words, most): for each row the others with the largest cosine first; among equals the first."""
    double = vectors.astype(np.float64)
    double /= np.sqrt((double * double).sum(axis=1, keepdims=True))
    single = double.astype(np.float32)
    whole = np.rint(double * UNIT).astype(np.int64)
    count, width = vectors.shape
    # The largest difference between a product in single precision and one of integers, for vectors of length 1.
    margin = 2 * (width * 2.0**-24 + math.sqrt(width) / UNIT)
    found = np.empty((count, most), np.intp)
    block = max(1, min(ROWS, MOST_HELD_NUMBERS // (width * (most + SPARE_NEIGHBOURS))))
    for start in range(0, count, block):
        rows = np.arange(start, min(start + block, count))
        likely, least = _likely(single, rows, min(most + SPARE_NEIGHBOURS, count - 1))
        exact = np.einsum("ij,ikj->ik", whole[rows], whole[likely])
        order = np.lexsort((likely, -exact), axis=1)[:, :most]
        found[rows] = np.take_along_axis(likely, order, axis=1)
        last = np.take_along_axis(exact, order[:, -1:], axis=1)[:, 0] / UNIT**2
        # If others are as near as the last one, rounding decides which are likely; then all are sorted.
        for row in rows[last - least < margin]:
            near = whole @ whole[row]
            near[row] = np.iinfo(near.dtype).min + 1
            found[row] = np.argsort(-near, kind="stable")[:most]
    return found


def _likely(vectors: Vectors, rows: NDArray[np.intp], most: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Return the `most` others of each row with the largest product, unsorted, and the smallest of these products.

    They are in the `most` bundles of columns with the largest maxima: maxima over rows of numbers are found much faster
    than the largest of all numbers in order.
    """
    count = len(vectors)
    products = np.full((len(rows), -(-count // BUNDLE) * BUNDLE), -np.inf, np.float32)
    np.matmul(vectors[rows], vectors.T, out=products[:, :count])
    products[np.arange(len(rows)), rows] = -np.inf
    strides = products.shape[1] // BUNDLE
    if strides <= most:
        likely = np.argpartition(products, -most, axis=1)[:, -most:]
        return likely, np.take_along_axis(products, likely, axis=1).min(axis=1)
    highest = products.reshape(len(rows), BUNDLE, strides).max(axis=1)
    bundles = np.argpartition(highest, -most, axis=1)[:, -most:]
    columns = (bundles[:, :, None] + np.arange(BUNDLE) * strides).reshape(len(rows), -1)
    some = np.take_along_axis(products, columns, axis=1)
    chosen = np.argpartition(some, -most, axis=1)[:, -most:]
    return np.take_along_axis(columns, chosen, axis=1), np.take_along_axis(some, chosen, axis=1).min(axis=1)


def wordnet_files(folder: str | Path) -> list[Path]:
    """Return the files of WordNet that are read."""
    return [Path(folder) / f"{kind}.{part}" for part in PARTS_OF_SPEECH for kind in ("data", "index")]


def read_wordnet(folder: str | Path) -> dict[str, list[str]]:
    """Return for each word of WordNet 3.0 the others of its synsets, those of its most frequent meanings first.

    The folder contains its database files, as Debian's package wordnet-base installs them in /usr/share/wordnet:
    `index.noun` and similar files list, for each word, its synsets with the most frequent meaning first; `data.noun`
    lists the words of each synset. Words of several parts are left out, because texts are split into single words.
    Raises a DataError if the folder does not contain the files, or they do not have WordNet's format.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(NO_WORDNET_FOLDER.format(folder=folder))
    found: dict[str, list[str]] = {}
    for part in PARTS_OF_SPEECH:
        synsets = dict(_parsed(folder / f"data.{part}", _synset))
        for word, places in _parsed(folder / f"index.{part}", _index_entry):
            others = found.setdefault(word, []) if word.isalpha() else []
            for place in places:
                others += [other for other in synsets.get(place, ()) if other != word and other not in others]
    return found


def _synset(fields: list[bytes]) -> tuple[bytes, list[str]]:
    """Return the offset of a synset in its file, and its words: `00001740 03 n 01 entity 0 ...`."""
    words = [fields[4 + 2 * place].decode("ascii") for place in range(int(fields[3], 16))]
    # An adjective may have a syntactic marker: galore(ip).
    return fields[0], [word for word in (word.partition("(")[0].lower() for word in words) if word.isalpha()]


def _index_entry(fields: list[bytes]) -> tuple[str, list[bytes]]:
    """Return a word and the offsets of its synsets: `dog n 7 5 @ ~ #m #p %p 7 1 02084071 ...`."""
    word, synsets, pointers = fields[0].decode("ascii"), int(fields[2]), int(fields[3])
    places = fields[6 + pointers : 6 + pointers + synsets]
    if len(places) != synsets:
        raise ValueError
    return word, places


def _parsed(path: Path, parse: Callable[[list[bytes]], Parsed]) -> Iterator[Parsed]:
    """Yield what the fields of each line mean; the licence at the start is indented."""
    for number, line in enumerate(limited_lines(path, LONGEST_WORDNET_LINE, MOST_WORDNET_BYTES, len), 1):
        if line and not line.startswith(b" "):
            try:
                found = parse(line.split())
            except (IndexError, ValueError):
                raise DataError(BAD_LINE.format(path=path, number=number)) from None
            yield found
