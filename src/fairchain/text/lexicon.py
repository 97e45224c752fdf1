"""Words: the tokeniser, and the numbered words that a network knows, with their vectors if it has any.

Words and vectors are read from GloVe text, word2vec binary, .npy with its words, or a vocabulary. Every reader returns
the words, a table of their vectors below a row of zeros (or None), and a sha256 of the files.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import near
from fairchain.spec import TextFeature
from fairchain.spec.documents import is_file
from fairchain.text.files import digest_of, limited_lines, opened, stamps_of

Ids = NDArray[np.int32]
UNKNOWN_WORD_NUMBER = "unknown word number {number}; expected 1 to {words}"
Vectors = NDArray[np.float32]
_APOSTROPHES = str.maketrans("\u2019\u02bc`", "'''")
# Characters that separate words; apostrophes are handled later.
_SEPARATORS = re.compile(r"[^\w']|_")
_ASCII = {code: " " for code in range(128) if not chr(code).isalnum()} | {ord("'"): "'", ord("`"): "'"}
# English contractions at the end of a word are separate words, as in lists of word vectors: do n't, he 's. The pattern
# begins with a literal character, so that the search skips most of a text quickly.
_APOSTROPHE = re.compile(r"'(?:((?<=n')t|s|m|d|re|ve|ll)(?!\w))?")
NO_UNKNOWN_WORD = (
    'feature "{name}".unknown: {source} does not contain the word "{unknown}"; name a word that it contains, or '
    'write unknown = "skip"'
)
UNKNOWN_VECTORS = 'feature "{name}".vectors: unknown vectors "{source}" ({hint}); a file is named with its suffix'
VECTORS_NOT_FINITE = "{source}: some numbers are not finite; repair the file"

WordVectors = tuple[tuple[str, ...], Vectors | None, str]
# Limits of a list of vectors: the largest lists in use have 3 million words of 300 numbers.
MOST_VECTORS_BYTES = 8_000_000_000
MOST_VECTORS = 5_000_000
MOST_WIDTH = 4096
MOST_LIST_BYTES = 500_000_000
# Characters of a line of a vocabulary, and bytes of a word in a binary file.
LONGEST_WORD = 1000
# Largest length of a line of a text file: a word and MOST_WIDTH numbers.
LONGEST_VECTOR_LINE = LONGEST_WORD + 32 * MOST_WIDTH
DATASETS = ("glove",)
TOO_MANY_WORDS = (
    "{path}: more than {most_words:,} words, or one of more than {longest_word:,} bytes; it must be a list, one word "
    "per line"
)
TABLE_TOO_LARGE = "{path}: more than {most_words:,} words or {most_width:,} numbers each; is it the file?"


def tokenise(text: str) -> list[str]:
    """Return the words of a text in lower case; everything but letters and digits separates them and is left out.

    The rule is simple, so that a network can be trained on the same words.

    >>> tokenise("Don't shout: we're all Anglo-Saxon here, aren't we?")
    ['do', "n't", 'shout', 'we', "'re", 'all', 'anglo', 'saxon', 'here', 'are', "n't", 'we']
    """
    text = text.lower()
    # A string's own methods are several times as fast as a pattern, and most texts are plain ASCII.
    if text.isascii():
        text = text.translate(_ASCII)
    else:
        text = _SEPARATORS.sub(" ", text.translate(_APOSTROPHES))
    if "'" in text:
        text = _APOSTROPHE.sub(_apart, text.replace("n't", " n't"))
    return text.split()


def _apart(found: re.Match[str]) -> str:
    end = found[1]
    if end is None:
        return " "
    return "'t " if end == "t" else f" '{end} "


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Words by number: word i of the list has number i + 1, and 0 is padding.

    Parameters
    ----------
    words
        The words in the order of the file. If a word occurs twice, the first one counts; an empty word never occurs in
        texts.
    table
        (words + 1, width) float32: row i is the vector of word number i, and row 0 is zero; None if the network takes
        numbers of words.
    sha256
        The hash of the words and their vectors.
    name
        The file or data set, for messages.
    unknown
        The number of every word that is not in the list; 0 to leave such words out.
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
        """The length of a vector; 0 if there are no vectors."""
        return 0 if self.table is None else self.table.shape[1]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Number of each word."""
        # In reverse order, so that the first of two equal words remains.
        return dict(zip(reversed(self.words), range(len(self.words), 0, -1), strict=True))

    def ids(self, tokens: Iterable[str]) -> Ids:
        """Return the numbers of these words; unknown words are left out, or become `unknown`."""
        numbers, unknown = self.numbers, self.unknown
        found = [numbers.get(token, unknown) for token in tokens]
        return np.array(found if unknown else [number for number in found if number], np.int32)

    def word(self, number: int) -> str:
        """Return the word with this number, from 1."""
        if not 1 <= number <= len(self.words):
            raise ValueError(UNKNOWN_WORD_NUMBER.format(number=number, words=len(self.words)))
        return self.words[number - 1]

    def text(self, ids: Iterable[int]) -> str:
        """Return a row of numbers as words; padding is left out."""
        return " ".join(self.word(int(number)) for number in ids if number)


def lexicon_of(feature: TextFeature) -> Lexicon:
    """Return the words, and their vectors, that a text feature names.

    The last few lexicons are cached, since the population, the network and its checks use the same one. Raises a
    DataError if the file cannot be read, or the data set is not in the cache.
    """
    if feature.raw:
        raise SpecError(
            f'feature "{feature.name}": this network takes words, and the spec has neither vectors nor vocabulary; '
            'write length = ... and vectors = "glove" (or a file) if it takes vectors of words, vocabulary = '
            '"words.txt" if it takes their numbers'
        )
    return _loaded(feature, stamps_of(*lexicon_files(feature)))


def lexicon_files(feature: TextFeature) -> list[Path]:
    """Return the files of the words, and of their vectors, that a text feature names; none for raw texts."""
    if feature.raw:
        return []
    if feature.vocabulary is None and not is_file(feature.vectors):
        from fairchain.datasets import here

        # Errors in a name are reported when it is read.
        with suppress(DataError):
            return here(str(feature.vectors))
        return []
    path = Path(feature.vocabulary or str(feature.vectors))
    # The words of a matrix are in a file of their own.
    return [path, path.with_suffix(".txt")] if path.suffix.lower() == ".npy" else [path]


@lru_cache(maxsize=2)
def _loaded(feature: TextFeature, _stamps: object) -> Lexicon:
    source = feature.vocabulary or str(feature.vectors)
    if feature.vocabulary is not None:
        words, table, sha256 = read_vocabulary(source)
    elif is_file(source):
        words, table, sha256 = read_vectors(source)
    elif source in DATASETS:
        from fairchain.datasets import here

        words, table, sha256 = _beside(*here(source))
    else:
        raise DataError(UNKNOWN_VECTORS.format(name=feature.name, source=source, hint=near(source, DATASETS)))
    if table is not None and not np.isfinite(table).all():
        raise DataError(VECTORS_NOT_FINITE.format(source=source))
    lexicon = Lexicon(words, table, sha256, source)
    if feature.unknown == "skip":
        return lexicon
    if feature.unknown not in lexicon.numbers:
        raise DataError(NO_UNKNOWN_WORD.format(name=feature.name, source=source, unknown=feature.unknown))
    return replace(lexicon, unknown=lexicon.numbers[feature.unknown])


def read_vocabulary(path: str | Path) -> WordVectors:
    """Return the words of a network that takes numbers: line i, from 0, is the word with number i."""
    words, sha256 = _words(Path(path))
    return words, None, sha256


def read_vectors(path: str | Path) -> WordVectors:
    """Return words and their vectors, by the file's suffix.

    .txt, .vec
        A line for each word: the word, then its numbers, separated by blanks. A first line with two whole numbers, as
        fastText writes it, is skipped.
    .bin
        As word2vec writes it: a line with the number of words and of numbers, then for each word its bytes, a blank
        and its numbers as little-endian float32.
    .npy
        A matrix, a row for each word; the words are one per line in the .txt file of the same name.
    """
    path = Path(path)
    match path.suffix.lower():
        case ".txt" | ".vec":
            return _read_text(path)
        case ".bin":
            return _read_binary(path)
        case ".npy":
            return _beside(path, path.with_suffix(".txt"))
    raise DataError(
        f"{path}: word vectors end in .txt or .vec (GloVe text), .bin (word2vec) or .npy (beside a .txt with the "
        "words); rename it, or convert it"
    )


def _words(path: Path) -> tuple[tuple[str, ...], str]:
    """Return the lines of a list of words, and the file's sha256."""
    with opened(path, MOST_LIST_BYTES) as file:
        content = file.read()
    lines = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n", MOST_VECTORS)
    if len(lines) > MOST_VECTORS or max(map(len, lines)) > LONGEST_WORD:
        raise DataError(TOO_MANY_WORDS.format(path=path, most_words=MOST_VECTORS, longest_word=LONGEST_WORD))
    if not any(lines):
        raise DataError(f"{path}: contains no words; write one per line")
    return tuple(_decoded(line, number) for number, line in enumerate(lines, 1)), hashlib.sha256(content).hexdigest()


def _read_text(path: Path) -> WordVectors:
    digest = hashlib.sha256()
    words: list[str] = []
    numbers = array("f")
    width = 0
    for number, line in enumerate(limited_lines(path, LONGEST_VECTOR_LINE, MOST_VECTORS_BYTES, digest.update), 1):
        # A word may contain other white space, so only the plain space separates.
        word, *row = line.rstrip(b" ").split(b" ")
        if number == 1 and len(row) == 1 and word.isdigit() and row[0].isdigit():
            continue
        if not row or (width and len(row) != width):
            wanted = f"{width}, as the lines before it" if width else "a word and its numbers"
            raise DataError(f"{path}, line {number:,}: found {len(row)} numbers after the word, expected {wanted}")
        width = len(row)
        if width > MOST_WIDTH or len(words) == MOST_VECTORS:
            raise DataError(TABLE_TOO_LARGE.format(path=path, most_words=MOST_VECTORS, most_width=MOST_WIDTH))
        try:
            numbers.extend(map(float, row))
        except ValueError:
            raise DataError(f"{path}, line {number:,}: something after the word is not a number; repair it") from None
        words.append(_decoded(word, number))
    if not words:
        raise DataError(f"{path}: contains no vectors; write a word and its numbers in each line")
    table = _table(len(words), width)
    table[1:] = np.frombuffer(numbers, np.float32).reshape(-1, width)
    return tuple(words), table, digest.hexdigest()


def _read_binary(path: Path) -> WordVectors:
    with opened(path, MOST_VECTORS_BYTES) as file:
        head = file.readline(100).split()
        if len(head) != 2 or not all(part.isdigit() for part in head):
            raise DataError(
                f"{path}: not a word2vec file: its first line must state the number of words and of numbers"
            )
        count, width = map(int, head)
        if not 1 <= count <= MOST_VECTORS or not 1 <= width <= MOST_WIDTH:
            raise DataError(
                f"{path}: states {count:,} words of {width:,} numbers; the limits are 1 to {MOST_VECTORS:,} words and "
                f"{MOST_WIDTH:,} numbers"
            )
        # Each word takes at least its numbers, one letter and a space, so the file limits the allocated memory.
        if path.stat().st_size < count * (4 * width + 2):
            raise DataError(
                f"{path}: too short for {count:,} words of {width:,} numbers; the file is truncated, download it again"
            )
        words, table = [], _table(count, width)
        for number, (word, row) in enumerate(_binary_rows(path, file, count, 4 * width), 1):
            words.append(_decoded(word, number))
            table[number] = np.frombuffer(row, "<f4")
    return tuple(words), table, digest_of(path)


def _binary_rows(path: Path, file: BufferedReader, count: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    block, place = b"", 0
    for number in range(1, count + 1):
        while (blank := block.find(b" ", place, place + LONGEST_WORD)) < 0 or len(block) < blank + 1 + size:
            more = file.read(1 << 20)
            if not more or (blank < 0 and len(block) - place > LONGEST_WORD):
                raise DataError(
                    f"{path}: word {number:,} of {count:,} is truncated or damaged; download the file again"
                )
            block, place = block[place:] + more, 0
        yield block[place:blank].lstrip(b"\n"), block[blank + 1 : blank + 1 + size]
        place = blank + 1 + size


def _beside(path: Path, listed: Path) -> WordVectors:
    """Return a matrix, and the words of its rows from another file."""
    with opened(path, MOST_VECTORS_BYTES):
        pass
    try:
        with np.errstate(over="ignore"):
            found = np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # the header is parsed as a Python literal, and a damaged one can raise any exception
        reason = str(error).partition("\n")[0][:80] or type(error).__name__
        raise DataError(f"{path}: not a .npy file of numbers ({reason}); save it with numpy.save") from None
    if found.ndim != 2 or found.dtype.kind != "f":
        raise DataError(f"{path}: must hold a matrix of floating-point numbers, a row for each word")
    if not (1 <= found.shape[1] <= MOST_WIDTH and 1 <= len(found) <= MOST_VECTORS):
        raise DataError(
            f"{path}: has shape {found.shape}; up to {MOST_VECTORS:,} words of {MOST_WIDTH:,} numbers are read"
        )
    table = _table(*found.shape)
    # Numbers beyond float32 become infinite, which is refused where the table is used.
    with np.errstate(over="ignore"):
        table[1:] = found
    words, words_sha256 = _words(listed)
    if len(words) != len(found):
        raise DataError(f"{path}: has {len(found):,} rows and {listed} {len(words):,} words; they must be equal")
    return words, table, hashlib.sha256(f"{digest_of(path)} {words_sha256}".encode()).hexdigest()


def _table(words: int, width: int) -> Vectors:
    """Allocate the vectors, below a row of zeros for padding."""
    table = np.empty((words + 1, width), np.float32)
    table[0] = 0
    return table


def _decoded(word: bytes, number: int) -> str:
    try:
        return word.decode()
    except UnicodeDecodeError:
        # Published vectors contain a few damaged words; they occur in no text, so they only have to be different.
        return f"\0{number}"
