"""Texts of a corpus: for each group those that mention it, or one text with the terms of each group.

observed
    A round draws for each subgroup one of the texts that mention its group, with equal probabilities. A text that
    mentions two groups belongs to both: a subgroup's rate is P(Y | the text mentions the group). Each group's texts are
    sorted, by a recorded label if there is one and by length, and all subgroups draw at the same quantile: rates are
    unchanged, and the texts of a round differ less than two independent texts.
swapped
    A round draws one of the texts that mention any group, and shows it in every subgroup with each term exchanged for
    that subgroup's. Nothing else differs between subgroups.

Then up to `replace` words of the text are replaced by synonyms; in a swapped round by the same ones in all subgroups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairchain.populations.base import Inputs, Population, Rounds, Scratch
from fairchain.populations.streams import Address, scaled, surplus
from fairchain.populations.text_rows import Exchange, TextRows, joined_hash
from fairchain.spec.subgroups import Subgroup
from fairchain.text.lexicon import Ids
from fairchain.text.substitution import Replacing, replacing_of

# Substreams of random words, the same for all subgroups: for the text and for its synonyms. From AGAIN on each subgroup
# has its own.
TEXT, SYNONYMS, AGAIN = range(3)
# Largest number of groups whose number of texts is stated.
MOST_NAMED = 8


class TextPopulation(Population):
    """The distribution from which the texts of a corpus are drawn, for groups or the overall population.

    Raises a DataError if no text mentions a subgroup's group, and a SpecError if terms cannot be exchanged.
    """

    def __init__(self, rows: TextRows, subgroups: Sequence[Subgroup]) -> None:
        super().__init__(subgroups, int(rows.values.shape[1]), rows.values.dtype)
        self.rows, self.corpus, self.lexicon = rows, rows.corpus, rows.lexicon
        self.texts = rows.population
        self.swapped = rows.population.reading == "swapped"
        self.pools: tuple[NDArray[np.intp], ...] = tuple(rows.pool(subgroup) for subgroup in self.subgroups)
        # All pools in one array; for subgroups that were drawn together, their sizes and start indices, (sources, 1).
        self._pooled = np.concatenate(self.pools)
        self._known_ranges: dict[tuple[int, ...], tuple[NDArray[np.uint64], NDArray[np.intp]]] = {}
        self._most_surplus = max(surplus(len(pool)) for pool in self.pools)
        self.exchanges: tuple[Exchange | None, ...] = (None,) * len(self.subgroups)
        if self.swapped:
            self.exchanges = tuple(None if each.group is None else rows.exchange(each.group) for each in self.subgroups)
        self.replacing: Replacing | None = None
        if self.lexicon is not None:
            # The texts of the pools side by side: most corpora are much larger than the caches of a processor.
            drawn, self._pooled = np.unique(self._pooled, return_inverse=True)
            self._ids = self.corpus.ids[drawn]
            self.replacing = replacing_of(self.texts, self.lexicon, self.corpus.name, self._ids, rows.terms)

    def __str__(self) -> str:
        population, rows = self.texts, self.rows
        name = f"the data set {population.dataset}" if population.dataset else Path(self.corpus.name).name
        given = f" for which {rows.spec.property.given}" if rows.spec.property.given else ""
        if self.swapped:
            who = " and ".join(feature.name for feature in rows.protected)
            what = f"the {len(rows.any_pool):,} texts of {name}{given} that mention a {who}, as those of every group"
        else:
            sizes = [f"{each.name} {len(pool):,}" for each, pool in zip(self.subgroups, self.pools, strict=True)]
            more = [f"and {len(sizes) - MOST_NAMED} more"] if len(sizes) > MOST_NAMED else []
            listed = ", ".join(sizes[:MOST_NAMED] + more)
            mention = "mention" if rows.terms else "belong to"
            what = f"the texts of {name}{given} that {mention} each group ({listed}; {len(self.corpus):,} in all)"
        if not population.replace:
            return what
        source = "WordNet" if population.synonyms == "wordnet" else f"{population.neighbours} nearest words"
        return f"{what}, up to {population.replace} words of each replaced by synonyms ({source})"

    @property
    def sha256(self) -> str:
        """Hash of all that determines which texts may be drawn: corpus, words and their number, terms, synonyms."""
        return self.rows.sha256 if self.replacing is None else joined_hash(self.rows.sha256, self.replacing.sha256)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the corpus."""
        pair_by, remarks = self.texts.pair_by, tuple(self.rows.remarks)
        if pair_by is None or self.swapped or len(self.pools) < 2:
            return remarks
        classes = int(self.corpus.ranks.max()) + 1
        counts = [np.bincount(self.corpus.ranks[pool], minlength=classes) for pool in self.pools]
        uneven = np.any([each != counts[0] for each in counts[1:]], axis=0)
        if not uneven.any():
            return remarks
        sizes = [len(pool) for pool in self.pools]
        return (
            *remarks,
            f"Groups have {min(sizes):,} to {max(sizes):,} texts, and different numbers of them for "
            f'{int(uneven.sum()):,} of {classes:,} cells of pair_by "{pair_by}": every text of a group counts the '
            "same, so a cell with more texts has more weight in its group.",
        )

    def shares(self) -> tuple[float, ...] | None:
        """Return the share of the texts that mention each subgroup's group; None for an exchange: all are equal.

        A text that mentions two groups counts in both, so these may sum to more than 1.
        """
        return None if self.swapped else tuple(len(pool) / len(self.corpus) for pool in self.pools)

    def draw(self, address: Address, count: int, scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address; the texts of a subgroup, (rounds, words), are drawn when it is shown."""
        if self.lexicon is None:
            return Rounds(lambda subgroup: self._shown(address, subgroup, count))
        if self.swapped:
            return self._exchanged(address, count, scratch)

        def show(subgroup: int) -> Inputs:
            drawn = self._rows(scratch, "drawn", count)
            self._draw_texts(address, [subgroup], drawn[None])
            return drawn

        def together(subgroups: Sequence[int]) -> Inputs:
            blocks = np.empty((len(subgroups), count, self.width), np.int32)
            self._draw_texts(address, subgroups, blocks)
            return blocks

        return Rounds(show, together)

    def _exchanged(self, address: Address, count: int, scratch: Scratch) -> Rounds:
        """Draw texts once, and exchange their terms for those of each subgroup; by true label if these differ."""
        drawn, exchanged = self._rows(scratch, "drawn", count), self._rows(scratch, "exchanged", count)
        current: int | None = None
        # The positions of the terms among all drawn words, and the terms.
        places, terms = np.empty(0, np.intp), np.empty(0, np.int32)

        def show(subgroup: int) -> Inputs:
            nonlocal current, places, terms
            source = self._source(subgroup)
            if current != source:
                self._draw_texts(address, [source], drawn[None])
                numbers = self._term_numbers.take(drawn.reshape(-1))
                places = np.flatnonzero(numbers)
                current, terms = source, numbers[places] - 1
            exchange = self.exchanges[subgroup]
            if exchange is None:
                return drawn
            exchanged[:] = drawn
            exchanged.reshape(-1)[places] = exchange.instead[terms]
            return exchanged

        return Rounds(show)

    def _rows(self, scratch: Scratch, name: str, count: int) -> Ids:
        return scratch.rows(name, count, lambda rows: np.empty((rows, self.width), np.int32))

    @cached_property
    def _term_numbers(self) -> Ids:
        """(words + 1,): the index of each term in an exchange, the same in all of them, from 1; 0 for other words."""
        assert self.lexicon is not None
        numbers = np.zeros(len(self.lexicon) + 1, np.int32)
        for exchange in self.exchanges:
            if exchange is not None:
                numbers[exchange.terms] = np.arange(1, len(exchange.terms) + 1)
        return numbers

    def _source(self, subgroup: int) -> int:
        """Return the first subgroup that draws from the same texts."""
        if not self.swapped:
            return subgroup
        truth = self.subgroups[subgroup].truth
        return next(place for place, other in enumerate(self.subgroups) if other.truth == truth)

    def _numbers(self, address: Address, sources: Sequence[int], count: int) -> NDArray[np.intp]:
        """Draw texts, (sources, rounds): all sources at the same quantile of their sorted texts.

        They are rows of `_ids`; of the corpus, if texts are unchanged.
        """
        words, key = address.halfwords(count, TEXT), tuple(sources)
        if key not in self._known_ranges:
            all_sizes = np.array([len(pool) for pool in self.pools], np.uint64)
            all_starts = (np.cumsum(all_sizes) - all_sizes).astype(np.intp)
            self._known_ranges[key] = all_sizes[list(key), None], all_starts[list(key), None]
        sizes, starts = self._known_ranges[key]
        index, low = scaled(words, sizes)
        if np.minimum.reduce(low, axis=None) < self._most_surplus:
            for place, source in enumerate(sources):
                index[place] = address.below(words, len(self.pools[source]), AGAIN + source)
        found: NDArray[np.intp] = self._pooled.take(starts + index)
        return found

    def _shown(self, address: Address, subgroup: int, count: int) -> Inputs:
        """Draw unchanged texts of a subgroup."""
        texts = self._numbers(address, [self._source(subgroup)], count)[0]
        group = self.subgroups[subgroup].group
        return self.rows.values[texts] if not self.swapped or group is None else self.rows.shown_as(texts, group)

    def _draw_texts(self, address: Address, sources: Sequence[int], drawn: Ids) -> None:
        """Draw texts of subgroups into `drawn`, (sources, rounds, words), and replace some of their words."""
        count = drawn.shape[1]
        texts = self._numbers(address, sources, count)
        self._ids.take(texts, axis=0, out=drawn, mode="clip")
        if self.replacing is not None:
            random = address.halfwords(2 * count * self.replacing.most, SYNONYMS)
            self.replacing.apply(drawn, texts, random.reshape(self.replacing.most, 2, count))
