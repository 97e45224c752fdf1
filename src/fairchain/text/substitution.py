"""Some words of many texts replaced by synonyms at once, from random words alone.

For each replacement a place is drawn, all alike, among the words of the text that have synonyms, and then one of the
synonyms of the word that was there at first. A place that is drawn twice is replaced once: so a text has at most as
many replacements as are drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fairchain.datasets import cache_dir
from fairchain.errors import DataError, SpecError
from fairchain.spec.schema import Texts
from fairchain.text.corpus import Corpus
from fairchain.text.lexicon import Ids, Lexicon
from fairchain.text.synonyms import Synonyms, listed_words, nearest_words, read_wordnet
from fairchain.text.terms import Terms, kept_words

HalfWords = NDArray[np.uint32]
# Texts that are looked at together, so that memory stays flat.
BLOCK = 2**12
SYNONYMS_NEED_VECTORS = (
    'population.synonyms: "vectors" needs word vectors, and the network takes numbers of words; write synonyms = '
    '"wordnet", or replace = 0'
)


@dataclass(frozen=True, eq=False)
class Replacing:
    """What is needed to replace words of the texts of a corpus.

    Parameters
    ----------
    ids
        The corpus, (texts, words).
    synonyms
        What can replace a word.
    most
        How many words of a text are replaced, at most.
    """

    ids: Ids
    synonyms: Synonyms
    most: int

    @cached_property
    def _found(self) -> _Found:
        places = np.zeros(self.ids.shape, np.uint8 if self.ids.shape[1] <= 256 else np.uint16)
        return _Found(places, np.full(len(self.ids), -1, np.int32), threading.Lock())

    @property
    def sha256(self) -> str:
        """Return the hash of all replacements."""
        return self.synonyms.sha256

    def apply(self, texts: NDArray[np.intp], drawn: Ids, words: NDArray[np.uint32]) -> None:
        """Replace words of these texts, in `drawn`; `words` are random, (most, 2, texts)."""
        found = self._places_of(texts)
        counts = found.counts[texts].astype(np.uint64)
        some = np.arange(len(texts))
        if not counts.all():
            some = np.flatnonzero(counts)
            texts, counts, words = texts[some], counts[some], words[:, :, some]
        # What is at (text, place) is found in one step in the flat arrays: much quicker than by two indices.
        width = self.ids.shape[1]
        starts, rows = texts * width, some * width
        for where, which in words:
            place = found.places.ravel()[starts + _scaled(where, counts)]
            row = self.synonyms.places[self.ids.ravel()[starts + place]]
            choice = _scaled(which, self.synonyms.counts[row].astype(np.uint64))
            drawn.reshape(-1)[rows + place] = self.synonyms.offered[row, choice]

    def _places_of(self, texts: NDArray[np.intp]) -> _Found:
        """Return the places of these texts, looked for when a text is drawn first: few are, for most verdicts."""
        found = self._found
        if found.counts[texts].min(initial=0) >= 0:
            return found
        with found.lock:
            new = np.unique(texts[found.counts[texts] < 0])
            row, column = np.nonzero(self.synonyms.places[self.ids[new]])
            each = np.bincount(row, minlength=len(new))
            found.places[new[row], np.arange(len(row)) - (np.cumsum(each) - each)[row]] = column
            # Last, since this is what says to other threads that the places are there.
            found.counts[new] = each
        return found


@dataclass(frozen=True, eq=False)
class _Found:
    """For each text the places of its words that have synonyms, one after another, and how many; -1: not known yet."""

    places: NDArray[np.unsignedinteger]
    counts: NDArray[np.int32]
    lock: threading.Lock


def replacing_of(
    population: Texts, lexicon: Lexicon, corpus: Corpus, terms: Sequence[Terms], texts: NDArray[np.intp]
) -> Replacing | None:
    """Return how the words of these texts are replaced as a population says; None if none are.

    Raises a SpecError or DataError if the synonyms cannot be read, or no word of these texts has one.
    """
    if not population.replace:
        return None
    kept = kept_words().union(*(each.all_words for each in terms))
    if lexicon.unknown:
        kept |= {lexicon.word(lexicon.unknown)}
    if population.synonyms == "wordnet":
        synonyms = listed_words(lexicon, read_wordnet(str(population.wordnet)), population.neighbours, kept)
    elif lexicon.table is None:
        raise SpecError(SYNONYMS_NEED_VECTORS)
    else:
        synonyms = _nearest(lexicon, population.neighbours, kept, cache_dir() / "neighbours")
    blocks = (texts[start : start + BLOCK] for start in range(0, len(texts), BLOCK))
    if not any(synonyms.places[corpus.ids[block]].any() for block in blocks):
        raise DataError(
            f"{corpus.name}: no word of its texts has a synonym in {lexicon.name}; write replace = 0 in [population]"
        )
    return Replacing(corpus.ids, synonyms, population.replace)


# The synonyms of a lexicon that stays in memory stay there too.
_nearest = lru_cache(maxsize=2)(nearest_words)


def _scaled(words: HalfWords, sizes: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return numbers below these sizes, each as likely as any other up to one part in 2**32."""
    return (np.multiply(words, sizes, dtype=np.uint64) >> np.uint64(32)).astype(np.intp)
