"""Replacement of words by synonyms in many texts at once, from given random words.

For each replacement a position is drawn uniformly among the words of the text that have synonyms, and then one of the
synonyms of the original word. A position that is drawn twice is replaced once, so a text has at most as many
replacements as draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fairchain.datasets import cache_dir
from fairchain.errors import DataError, SpecError
from fairchain.spec import Texts
from fairchain.text.lexicon import Ids, Lexicon
from fairchain.text.synonyms import Synonyms, listed_words, nearest_words, read_wordnet
from fairchain.text.terms import Terms, kept_words

HalfWords = NDArray[np.uint32]
# Number of texts that are processed together.
REPLACED_AT_ONCE = 2**12
SYNONYMS_NEED_VECTORS = (
    'population.synonyms: "vectors" needs word vectors, and the network takes numbers of words; write synonyms = '
    '"wordnet", or replace = 0'
)


@dataclass(frozen=True, eq=False)
class Replacing:
    """The possible replacements of each word, and the largest number of replaced words of a text.

    `places` has the positions of all words with synonyms, text by text, and `rows` the row of each of these words in
    `synonyms.offered`; `spans`, (texts, 2), has the index of the first one of each text, and their number.
    """

    synonyms: Synonyms
    most: int
    places: NDArray[np.integer]
    rows: Ids
    spans: NDArray[np.intp]

    @property
    def sha256(self) -> str:
        """Return the hash of all replacements."""
        return self.synonyms.sha256

    def apply(self, drawn: Ids, texts: NDArray[np.intp], random: HalfWords) -> None:
        """Replace words of texts, (subgroups, rounds, words), with these numbers, (subgroups, rounds).

        All subgroups use the same `random`, (most, 2, rounds).
        """
        synonyms, words = self.synonyms, drawn.reshape(-1)
        spans = self.spans.take(texts, axis=0)
        begins, counts = spans[..., 0], spans[..., 1]
        starts = np.arange(0, words.size, drawn.shape[2]).reshape(texts.shape)
        # (most, 1, rounds): the same for all subgroups.
        where, which = random[:, 0, None], random[:, 1, None]
        if not np.logical_and.reduce(counts, axis=None):
            # A text without such a word stays as it is.
            (some,) = counts.reshape(-1).nonzero()
            where, which = random.take(some % texts.shape[1], axis=2).swapaxes(0, 1)
            begins, counts, starts = (part.take(some) for part in (begins, counts, starts))
        found = _scaled(where, counts) + begins
        at, rows = self.places.take(found) + starts, self.rows.take(found)
        chosen = _scaled(which, synonyms.counts.take(rows)) + rows * synonyms.offered.shape[1]
        # A position may be drawn twice: the last word remains.
        words[at.reshape(-1)] = synonyms.offered.reshape(-1).take(chosen).reshape(-1)


def replacing_of(population: Texts, lexicon: Lexicon, name: str, ids: Ids, terms: Sequence[Terms]) -> Replacing | None:
    """Return the replacement of words that a population states; None if there is none.

    `ids`, (texts, words), are the texts that are drawn; they belong to the corpus with this name.

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
    count, width = ids.shape
    counts, places, rows = np.zeros(count, np.intp), [], []
    for start in range(0, count, REPLACED_AT_ONCE):
        found = synonyms.places.take(ids[start : start + REPLACED_AT_ONCE])
        counts[start : start + len(found)] = np.count_nonzero(found, axis=1)
        flat = found.reshape(-1)
        replaced = flat.nonzero()[0]
        places.append((replaced % width).astype(np.min_scalar_type(width)))
        rows.append(flat.take(replaced))
    if not counts.any():
        raise DataError(
            f"{name}: no word of its texts has a synonym in {lexicon.name}; write replace = 0 in [population]"
        )
    spans = np.column_stack([np.cumsum(counts) - counts, counts])
    return Replacing(synonyms, population.replace, np.concatenate(places), np.concatenate(rows), spans)


# The synonyms of a lexicon in memory are kept in memory too.
_nearest = lru_cache(maxsize=2)(nearest_words)


def _scaled(words: HalfWords, sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return integers below these sizes, each equally likely up to one part in 2**32."""
    scaled: NDArray[np.int64] = np.multiply(words, sizes, dtype=np.int64) >> 32
    return scaled
