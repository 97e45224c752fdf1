"""Texts of a corpus: of each group those that mention it, or one text with the terms of each group in it.

observed
    A round draws for each subgroup one of the texts that mention its group, all equally likely. A text that mentions
    two groups belongs to both: a subgroup's rate is P(Y | the text mentions the group). Each group's texts are in
    order, by a recorded label if there is one and by length, and all subgroups draw at the same place of it: rates stay
    what they are, and the texts of a round differ less than any two texts.
swapped
    A round draws one of the texts that mention any group, and shows it in every subgroup with each term exchanged for
    that subgroup's. Nothing else differs between subgroups.

Then up to `replace` words of the text are replaced by synonyms; in a swapped round by the same in all subgroups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.populations.base import Inputs, Population, Rounds, Scratch
from fairchain.populations.streams import Address
from fairchain.spec import CategoryFeature, Group, Spec
from fairchain.spec.schema import Texts
from fairchain.spec.subgroups import Subgroup
from fairchain.text.corpus import Corpus, read_corpus
from fairchain.text.lexicon import Ids, Lexicon, lexicon_of
from fairchain.text.substitution import Replacing, replacing_of
from fairchain.text.terms import Mentions, Terms, terms_of

# Substreams of random words, the same for all subgroups: for the text and for its synonyms. From AGAIN on each subgroup
# has its own.
TEXT, SYNONYMS, AGAIN = range(3)
# Groups whose number of texts is told.
MOST_NAMED = 8
GROUP_OF_SEVERAL_TERMS = (
    'feature "{feature}".groups: "{name}" has several values, and a text is shown with the terms of one; with as = '
    '"swapped" give every group a single value'
)
NONE_TEXTS_MENTIONS = (
    "{name}: none of its {ids_count:,} texts mentions {what}; take a larger corpus, add words to the terms, or leave "
    "the value out"
)
TERM_TWICE = 'feature "{feature}".terms: "{word}" is a term of "{seen}" too; give it to one of them'


class TextPopulation(Population):
    """The distribution from which texts are drawn.

    Raises a SpecError or DataError if the corpus, the terms or the synonyms cannot be read or are invalid, or no text
    mentions a subgroup's group.

    Parameters
    ----------
    spec
        Must have a text, features with terms, and a corpus.
    subgroups
        Groups, or the overall population.
    """

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup]) -> None:
        question = TextGroups.of(spec)
        super().__init__(subgroups, int(question.corpus.ids.shape[1]), np.int32)
        self.question = question
        self.lexicon, self.corpus = question.lexicon, question.corpus
        self.swapped = question.population.reading == "swapped"
        self.pools: tuple[NDArray[np.intp], ...] = tuple(question.pool(subgroup.group) for subgroup in self.subgroups)
        self.exchanges: tuple[Exchange | None, ...] = tuple(
            question.exchange(subgroup.group) if self.swapped and subgroup.group is not None else None
            for subgroup in self.subgroups
        )
        drawn = np.zeros(len(self.corpus.ids), bool)
        for pool in self.pools:
            drawn[pool] = True
        self.replacing: Replacing | None = replacing_of(
            question.population, self.lexicon, self.corpus, question.terms, np.flatnonzero(drawn)
        )

    def __str__(self) -> str:
        population = self.question.population
        name = f"the data set {population.dataset}" if population.dataset else Path(str(population.path)).name
        if self.swapped:
            who = " and ".join(feature.name for feature in self.question.features)
            what = f"the {len(self.pools[0]):,} texts of {name} that mention a {who}, as those of every group"
        else:
            sizes = [
                f"{subgroup.name} {len(pool):,}" for subgroup, pool in zip(self.subgroups, self.pools, strict=True)
            ]
            more = [f"and {len(sizes) - MOST_NAMED} more"] if len(sizes) > MOST_NAMED else []
            listed = ", ".join(sizes[:MOST_NAMED] + more)
            what = f"the texts of {name} that mention each group ({listed}; {len(self.corpus.ids):,} in all)"
        if not population.replace:
            return what
        source = "WordNet" if population.synonyms == "wordnet" else f"{population.neighbours} nearest words"
        return f"{what}, up to {population.replace} words of each replaced by synonyms ({source})"

    @property
    def sha256(self) -> str:
        """Of everything that decides which texts may be drawn: corpus, words and how many are read, terms, synonyms."""
        parts = [self.corpus.sha256, self.lexicon.sha256, *(terms.sha256 for terms in self.question.terms)]
        parts += [] if self.replacing is None else [self.replacing.sha256]
        assert self.question.spec.text is not None
        parts += [str(self.question.spec.text.length), self.question.spec.text.unknown]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the corpus."""
        left = self.corpus.total - len(self.corpus.ids)
        if not left:
            return ()
        return (f"{left:,} of {self.corpus.total:,} texts hold no known word and are never drawn.",)

    def shares(self) -> tuple[float, ...] | None:
        """Return the share of the texts that mention each subgroup's group; None for an exchange, the same for all.

        A text that mentions two groups counts in both, so these may add up to more than 1.
        """
        if self.swapped:
            return None
        return tuple(len(pool) / len(self.corpus.ids) for pool in self.pools)

    def draw(self, address: Address, count: int, scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address; the texts of a subgroup, (rounds, words), are drawn when it is shown."""
        drawn, exchanged = (
            scratch.rows(name, count, lambda rows: np.empty((rows, self.width), np.int32))
            for name in ("drawn", "exchanged")
        )
        current: int | None = None

        def show(subgroup: int) -> Inputs:
            nonlocal current
            source = 0 if self.swapped else subgroup
            if current != source:
                self._draw_texts(address, source, drawn)
                current = source
            exchange = self.exchanges[subgroup]
            if exchange is None:
                return drawn
            # Every word is looked up, which is quicker than to look for the terms; almost all map to themselves.
            # Every exchange has the same terms, so the table can be used again.
            words = scratch.rows("words", len(self.lexicon) + 1, lambda rows: np.arange(rows, dtype=np.int32))
            words[exchange.terms] = exchange.instead
            return np.take(words, drawn, out=exchanged, mode="clip")

        return Rounds(show)

    def _draw_texts(self, address: Address, subgroup: int, drawn: Ids) -> None:
        """Draw texts of a subgroup into `drawn`, and replace some of their words."""
        pool, count = self.pools[subgroup], len(drawn)
        texts = pool[address.below(address.halfwords(count, TEXT), len(pool), AGAIN + subgroup)]
        np.take(self.corpus.ids, texts, axis=0, out=drawn, mode="clip")
        if self.replacing is not None:
            random = address.halfwords(2 * count * self.replacing.most, SYNONYMS)
            self.replacing.apply(texts, drawn, random.reshape(self.replacing.most, 2, count))


class Exchange(NamedTuple):
    """The numbers of all terms, the same for every subgroup, and their replacements in one."""

    terms: Ids
    instead: Ids


@dataclass(frozen=True, eq=False)
class TextGroups:
    """What a spec says about texts: the words, the corpus, the terms of each protected feature."""

    spec: Spec
    population: Texts
    lexicon: Lexicon
    corpus: Corpus
    features: tuple[CategoryFeature, ...]
    terms: tuple[Terms, ...]

    @classmethod
    def of(cls, spec: Spec) -> TextGroups:
        """Read everything that the spec names."""
        population, text = spec.population, spec.text
        if not isinstance(population, Texts) or text is None:
            raise SpecError('population.kind: is not a corpus; write kind = "text" with path or dataset')
        by_name = {feature.name: feature for feature in spec.features}
        features = tuple(by_name[name] for name in spec.protected)
        described = tuple(feature for feature in features if isinstance(feature, CategoryFeature))
        # Before the corpus, since what is wrong with them is found at once.
        terms = tuple(terms_of(feature) for feature in described)
        seen: dict[str, str] = {}
        for each in terms:
            for word in sorted(each.all_words):
                # One exchange would undo the other.
                if seen.setdefault(word, each.feature) != each.feature:
                    raise SpecError(TERM_TWICE.format(feature=each.feature, word=word, seen=seen[word]))
        lexicon = lexicon_of(text)
        return cls(spec, population, lexicon, read_corpus(population, lexicon, text.length), described, terms)

    @cached_property
    def mentions(self) -> tuple[Mentions, ...]:
        """For each protected feature which text mentions which value."""
        return tuple(Mentions.of(self.corpus, self.lexicon, terms) for terms in self.terms)

    def members(self, group: Group | None) -> NDArray[np.bool_]:
        """Return the texts that mention a group; all of them where there is none."""
        inside = np.ones(len(self.corpus.ids), bool)
        for place, mentions in enumerate(self.mentions):
            if group is not None:
                inside &= mentions.any_of(self._values(group, place))
        return inside

    def pool(self, group: Group | None) -> NDArray[np.intp]:
        """Return the texts that a subgroup draws from, in order: all that mention its group, or all that there are.

        In an exchange all subgroups draw from the texts that mention any group.
        """
        swapped = self.population.reading == "swapped"
        if swapped:
            pool = np.flatnonzero(np.all([mentions.any_value for mentions in self.mentions], axis=0))
        else:
            pool = self.corpus.order[self.members(group)[self.corpus.order]]
        if not len(pool):
            anything = "a term of any value of " + " and ".join(feature.name for feature in self.features)
            what = anything if swapped or group is None else f'"{group.name}"'
            raise DataError(
                NONE_TEXTS_MENTIONS.format(name=self.corpus.name, ids_count=len(self.corpus.ids), what=what)
            )
        return pool

    def exchange(self, group: Group) -> Exchange:
        """Return the replacement of each term where the text is to mention this group."""
        found: dict[int, int] = {}
        numbers = self.lexicon.numbers
        for place, terms in enumerate(self.terms):
            values = self._values(group, place)
            if len(values) > 1:
                raise SpecError(GROUP_OF_SEVERAL_TERMS.format(feature=terms.feature, name=group.name))
            for word, instead in terms.exchange(values[0]).items():
                if word not in numbers:
                    continue
                if instead not in numbers:
                    raise SpecError(
                        f'feature "{terms.feature}".terms: "{instead}" is not a word of {self.lexicon.name}, so the '
                        "network cannot read it; write another word in its place"
                    )
                found[numbers[word]] = numbers[instead]
        return Exchange(np.array(list(found), np.int32), np.array(list(found.values()), np.int32))

    def _values(self, group: Group, place: int) -> list[str]:
        feature = self.features[place]
        return [str(value) for number, value in enumerate(feature.values) if group.domains[place].contains(number)]


def text_shares(spec: Spec, groups: Sequence[Group]) -> list[float] | None:
    """Return the share of the texts that mention each group, also of one that none mentions; None for an exchange."""
    question = TextGroups.of(spec)
    if question.population.reading == "swapped":
        return None
    return [float(question.members(group).mean()) for group in groups]
