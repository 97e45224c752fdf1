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
    """The possible replacements of the words of some texts, and the largest number of replaced words of a text.

    `words`, (words, 2), has the position of each word with synonyms in its text, and its row in `offered`; the words of
    a text are side by side. `spans`, (texts, 2), has the index of the first one of each text, and their number. In a
    text without such a word, the first word is replaced by itself, so that all texts are alike.

    `offered`, (rows, most), and `counts`, (rows,), are those of the `synonyms`, with further rows for such words.
    """

    synonyms: Synonyms
    most: int
    words: Ids
    spans: NDArray[np.intp]
    offered: Ids
    counts: Ids

    @property
    def sha256(self) -> str:
        """Return the hash of all replacements."""
        return self.synonyms.sha256

    def apply(self, drawn: Ids, texts: NDArray[np.intp], random: HalfWords) -> None:
        """Replace words of texts, (subgroups, rounds, words), with these numbers, (subgroups, rounds).

        All subgroups use the same `random`, (most, 2, rounds).
        """
        spans = self.spans.take(texts, axis=0)
        # (most, 1, rounds): the same for all subgroups.
        where, which = random[:, 0, None], random[:, 1, None]
        replaced = self.words.take(_scaled(where, spans[..., 1]) + spans[..., 0], axis=0)
        rows = replaced[..., 1]
        starts = np.arange(0, drawn.size, drawn.shape[2]).reshape(texts.shape)
        chosen = _scaled(which, self.counts.take(rows)) + rows * self.offered.shape[1]
        # A position may be drawn twice: the last word remains.
        drawn.reshape(-1)[(replaced[..., 0] + starts).reshape(-1)] = self.offered.reshape(-1).take(chosen).reshape(-1)


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
    counts, parts = np.zeros(len(ids), np.intp), []
    # A text without a word that can be replaced: its first word gets a row of its own.
    own_words: dict[int, int] = {}
    for start in range(0, len(ids), REPLACED_AT_ONCE):
        texts = ids[start : start + REPLACED_AT_ONCE]
        rows = synonyms.places.take(texts)
        for text in np.flatnonzero(~rows.any(axis=1)).tolist():
            word = int(texts[text, 0])
            rows[text, 0] = own_words.setdefault(word, len(synonyms.offered) + len(own_words))
        counts[start : start + len(rows)] = np.count_nonzero(rows, axis=1)
        found = rows.nonzero()
        parts.append(np.column_stack([found[1], rows[found]]).astype(np.int32))
    if all((part[:, 1] >= len(synonyms.offered)).all() for part in parts):
        raise DataError(
            f"{name}: no word of its texts has a synonym in {lexicon.name}; write replace = 0 in [population]"
        )
    further = np.zeros((len(own_words), synonyms.offered.shape[1]), np.int32)
    further[:, 0] = list(own_words)
    return Replacing(
        synonyms,
        population.replace,
        np.concatenate(parts),
        np.column_stack([np.cumsum(counts) - counts, counts]),
        np.concatenate([synonyms.offered, further]),
        np.append(synonyms.counts, np.ones(len(own_words), synonyms.counts.dtype)),
    )


# The synonyms of a lexicon in memory are kept in memory too.
_nearest = lru_cache(maxsize=2)(nearest_words)


def _scaled(words: HalfWords, sizes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return integers below these sizes, each equally likely up to one part in 2**32."""
    scaled: NDArray[np.int64] = np.multiply(words, sizes, dtype=np.int64) >> 32
    return scaled
