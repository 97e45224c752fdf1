"""Which text mentions whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairchain.text.corpus import Corpus
from fairchain.text.lexicon import Lexicon
from fairchain.text.terms import Terms

Mask = NDArray[np.bool_]
# Texts that are looked at together, so that memory stays flat.
BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Mentions:
    """For each value of a feature the texts that hold one of its terms; a text may mention several, or nobody.

    A term that stands behind the words that the network reads does not count: the network cannot know of it.
    """

    terms: Terms
    by_value: dict[str, Mask]

    @classmethod
    def of(cls, corpus: Corpus, lexicon: Lexicon, terms: Terms) -> Mentions:
        """Look for the terms of a feature in a corpus."""
        values = [value for value in terms.words if value != terms.nobody]
        owner = np.zeros(len(lexicon) + 1, np.int16)
        for place, value in enumerate(values, 1):
            owner[[lexicon.numbers[word] for word in terms.words[value] if word in lexicon.numbers]] = place
        found = np.zeros((len(values), len(corpus.ids)), bool)
        for start in range(0, len(corpus.ids), BLOCK):
            owners = owner[corpus.ids[start : start + BLOCK]]
            for place in np.unique(owners[owners > 0]).tolist():
                found[place - 1, start : start + BLOCK] = (owners == place).any(axis=1)
        return cls(terms, dict(zip(values, found, strict=True)))

    @property
    def anybody(self) -> Mask:
        """The texts that mention some value."""
        found: Mask = np.any(list(self.by_value.values()), axis=0)
        return found

    def any_of(self, values: Sequence[str]) -> Mask:
        """The texts that mention at least one of these values; those that mention nobody have the value for that."""
        masks = [~self.anybody if value == self.terms.nobody else self.by_value[value] for value in values]
        found: Mask = np.any(masks, axis=0)
        return found
