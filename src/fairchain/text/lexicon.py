"""Words: the tokeniser, and the numbered words that a network knows, with their vectors if it has any."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import near
from fairchain.spec import TextFeature
from fairchain.spec.documents import is_file
from fairchain.text.files import stamps_of

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
    files: list[Path] = []
    if feature.vocabulary is None and not is_file(feature.vectors):
        from fairchain.datasets import here

        # Errors in a name are reported when it is read.
        with suppress(DataError):
            files = here(str(feature.vectors))
    else:
        path = Path(feature.vocabulary or str(feature.vectors))
        # The words of a matrix are in a file of their own.
        files = [path, path.with_suffix(".txt")] if path.suffix.lower() == ".npy" else [path]
    return _loaded(feature, stamps_of(*files))


@lru_cache(maxsize=2)
def _loaded(feature: TextFeature, _stamps: object) -> Lexicon:
    from fairchain.text.vectors import DATASETS, dataset_vectors, read_vectors, read_vocabulary

    source = feature.vocabulary or str(feature.vectors)
    if feature.vocabulary is not None:
        words, table, sha256 = read_vocabulary(source)
    elif is_file(source):
        words, table, sha256 = read_vectors(source)
    elif source in DATASETS:
        words, table, sha256 = dataset_vectors(source)
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
