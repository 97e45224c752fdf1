"""Texts of a corpus: of each group those that mention it, or one text with the terms of each group in it.

observed
    A round draws for each subgroup one of the texts that mention its group, all equally likely. A text that mentions
    two groups belongs to both: a subgroup's rate is P(Y | the text mentions the group). Each group's texts are in
    order, by a recorded label if there is one and by length, and all subgroups draw at the same place of it: rates stay
    what they are, and the texts of a round differ less than any two texts.
swapped
    A round draws one of the texts that mention any group, and shows it in every subgroup with each term exchanged for
    that subgroup's. Nothing else differs between subgroups.

Then up to `replace` words of the text are replaced by synonyms; in a swapped round by the same in all subgroups. A
corpus without such replacements is also a finite table, `TextRows`, which can be counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import many
from fairchain.populations.base import Inputs, Population, Rounds, Scratch
from fairchain.populations.streams import Address
from fairchain.spec import CategoryFeature, Feature, Group, Spec
from fairchain.spec.schema import Texts
from fairchain.spec.subgroups import Subgroup, comparison_of
from fairchain.tables import TableRows, read_table
from fairchain.tables.cell_values import feature_values, label_values, missing_cells
from fairchain.text.corpus import Beside, Corpus, read_corpus
from fairchain.text.lexicon import Ids, Lexicon, lexicon_of
from fairchain.text.spans import Span, swapped
from fairchain.text.substitution import Replacing, replacing_of
from fairchain.text.terms import Mentions, Terms, spans_in, terms_of

Mask = NDArray[np.bool_]
# Substreams of random words, the same for all subgroups: for the text and for its synonyms. From AGAIN on each subgroup
# has its own.
TEXT, SYNONYMS, AGAIN = range(3)
# Groups whose number of texts is told.
MOST_NAMED = 8
GROUP_OF_SEVERAL_TERMS = (
    'feature "{feature}".groups: "{name}" has several values, and a text is shown with the terms of one; with as = '
    '"swapped" give every group a single value'
)
NO_TEXT_MENTIONS = (
    "{name}: none of its {texts:,} texts mentions {what}{given}; take a larger corpus, add words to the terms, or "
    "leave the value out"
)
GIVEN_OF_NO_TEXT = '{name}: property.given "{given}" is true for none of the {count:,} texts; widen it'
TERM_TWICE = 'feature "{feature}".terms: "{word}" is a term of "{seen}" too; give it to one of them'


class TextPopulation(Population):
    """The distribution from which texts are drawn.

    Raises a DataError if no text mentions a subgroup's group, and a SpecError if terms cannot be exchanged.

    Parameters
    ----------
    spec
        Must have a text, groups, and a corpus.
    subgroups
        Groups, or the overall population.
    rows
        The texts of the corpus; read if they are not given.
    """

    def __init__(self, spec: Spec, subgroups: Sequence[Subgroup], rows: TextRows | None = None) -> None:
        rows = read_texts(spec) if rows is None else rows
        super().__init__(subgroups, int(rows.values.shape[1]), rows.values.dtype)
        self.rows, self.corpus, self.lexicon = rows, rows.corpus, rows.lexicon
        self.texts = rows.population
        self.swapped = rows.population.reading == "swapped"
        self.pools: tuple[NDArray[np.intp], ...] = tuple(rows.pool(subgroup) for subgroup in self.subgroups)
        self.exchanges: tuple[Exchange | None, ...] = (None,) * len(self.subgroups)
        if self.swapped:
            self.exchanges = tuple(
                None if subgroup.group is None else rows.exchange(subgroup.group) for subgroup in self.subgroups
            )
        self.replacing: Replacing | None = None
        if self.lexicon is not None:
            inside = np.zeros(len(self.corpus), bool)
            inside[np.concatenate(self.pools)] = True
            drawn = np.flatnonzero(inside)
            self.replacing = replacing_of(self.texts, self.lexicon, self.corpus, rows.terms, drawn)

    def __str__(self) -> str:
        population, rows = self.texts, self.rows
        name = f"the data set {population.dataset}" if population.dataset else Path(self.corpus.name).name
        given = f" for which {rows.spec.property.given}" if rows.spec.property.given else ""
        if self.swapped:
            who = " and ".join(feature.name for feature in rows.protected)
            what = f"the {len(rows.any_pool):,} texts of {name}{given} that mention a {who}, as those of every group"
        else:
            sizes = [
                f"{subgroup.name} {len(pool):,}" for subgroup, pool in zip(self.subgroups, self.pools, strict=True)
            ]
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
        """Of everything that decides which texts may be drawn: corpus, words and how many are read, terms, synonyms."""
        return self.rows.sha256 if self.replacing is None else _joined(self.rows.sha256, self.replacing.sha256)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the corpus."""
        return (*self.rows.remarks, *self._about_pairs())

    def _about_pairs(self) -> tuple[str, ...]:
        """Return the remark about groups that do not have equally many texts for each cell of `pair_by`."""
        pair_by = self.texts.pair_by
        if pair_by is None or self.swapped or len(self.pools) < 2:
            return ()
        classes = int(self.corpus.ranks.max()) + 1
        counts = [np.bincount(self.corpus.ranks[pool], minlength=classes) for pool in self.pools]
        uneven = np.any([each != counts[0] for each in counts[1:]], axis=0)
        if not uneven.any():
            return ()
        sizes = [len(pool) for pool in self.pools]
        return (
            f"Groups have {min(sizes):,} to {max(sizes):,} texts, and different numbers of them for "
            f'{int(uneven.sum()):,} of {classes:,} cells of pair_by "{pair_by}": every text of a group counts the '
            "same, so a cell with more texts has more weight in its group.",
        )

    def shares(self) -> tuple[float, ...] | None:
        """Return the share of the texts that mention each subgroup's group; None for an exchange, the same for all.

        A text that mentions two groups counts in both, so these may add up to more than 1.
        """
        if self.swapped:
            return None
        return tuple(len(pool) / len(self.corpus) for pool in self.pools)

    def draw(self, address: Address, count: int, scratch: Scratch, _subgroups: Sequence[int], /) -> Rounds:
        """Draw `count` rounds at an address; the texts of a subgroup, (rounds, words), are drawn when it is shown."""
        if self.lexicon is None:
            return Rounds(lambda subgroup: self._shown(address, subgroup, count))
        drawn, exchanged = (
            scratch.rows(name, count, lambda rows: np.empty((rows, self.width), np.int32))
            for name in ("drawn", "exchanged")
        )
        current: int | None = None
        lexicon = self.lexicon

        def show(subgroup: int) -> Inputs:
            nonlocal current
            # Exchanged texts are the same in all subgroups, unless these have a true label each.
            source = self._source(subgroup)
            if current != source:
                self._draw_texts(address, source, drawn)
                current = source
            exchange = self.exchanges[subgroup]
            if exchange is None:
                return drawn
            # Every word is looked up, which is quicker than to look for the terms; almost all map to themselves.
            # Every exchange has the same terms, so the table can be used again.
            words = scratch.rows("words", len(lexicon) + 1, lambda rows: np.arange(rows, dtype=np.int32))
            words[exchange.terms] = exchange.instead
            return np.take(words, drawn, out=exchanged, mode="clip")

        return Rounds(show)

    def _source(self, subgroup: int) -> int:
        """Return the first subgroup that draws from the same texts."""
        if not self.swapped:
            return subgroup
        truth = self.subgroups[subgroup].truth
        return next(place for place, other in enumerate(self.subgroups) if other.truth == truth)

    def _numbers(self, address: Address, source: int, count: int) -> NDArray[np.intp]:
        pool = self.pools[source]
        return pool[address.below(address.halfwords(count, TEXT), len(pool), AGAIN + source)]

    def _shown(self, address: Address, subgroup: int, count: int) -> Inputs:
        """Draw texts of a subgroup as they are."""
        texts = self._numbers(address, self._source(subgroup), count)
        group = self.subgroups[subgroup].group
        return self.rows.values[texts] if not self.swapped or group is None else self.rows.shown_as(texts, group)

    def _draw_texts(self, address: Address, subgroup: int, drawn: Ids) -> None:
        """Draw texts of a subgroup into `drawn`, and replace some of their words."""
        count = len(drawn)
        texts = self._numbers(address, subgroup, count)
        np.take(self.corpus.ids, texts, axis=0, out=drawn, mode="clip")
        if self.replacing is not None:
            random = address.halfwords(2 * count * self.replacing.most, SYNONYMS)
            self.replacing.apply(texts, drawn, random.reshape(self.replacing.most, 2, count))


class Exchange(NamedTuple):
    """The numbers of all terms, the same for every subgroup, and their replacements in one; none of texts as they are.

    `words` has the replacement of each term as it is written.
    """

    terms: Ids
    instead: Ids
    words: dict[str, str]


@dataclass(frozen=True, eq=False, kw_only=True)
class TextRows(TableRows):
    """The texts of a corpus as rows of a table, with what the spec says about them.

    Parameters
    ----------
    spec, population
        The question.
    corpus, lexicon
        The texts, and the words that a network reads; None for texts as they are.
    terms
        Of each protected feature that texts mention.
    columns
        (texts, features): the features that are columns beside the texts; NaN where a feature is mentioned.
    concerned
        (texts,): where `property.given` holds.
    """

    spec: Spec
    population: Texts
    corpus: Corpus
    lexicon: Lexicon | None
    terms: tuple[Terms, ...]
    columns: NDArray[np.float64]
    concerned: Mask

    @property
    def protected(self) -> tuple[Feature, ...]:
        """The features whose groups are compared."""
        by_name = {feature.name: feature for feature in self.spec.features}
        return tuple(by_name[name] for name in self.spec.protected)

    @cached_property
    def spans(self) -> dict[int, tuple[Span, ...]]:
        """The spans of all terms in texts as they are."""
        return spans_in(self.values, self.terms)

    @cached_property
    def mentions(self) -> dict[str, Mentions]:
        """For each protected feature with terms which text mentions which value."""
        if self.lexicon is not None:
            return {terms.feature: Mentions.of(self.corpus, self.lexicon, terms) for terms in self.terms}
        return {terms.feature: Mentions.in_spans(self.spans, len(self.corpus), terms) for terms in self.terms}

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know about the corpus."""
        told = []
        if empty := self.corpus.total - len(self.corpus) - self.dropped:
            what = "are empty" if self.corpus.raw else "hold no known word"
            told.append(f"{empty:,} of {self.corpus.total:,} texts {what} and are never drawn.")
        if self.corpus.replaced:
            told.append(
                f"{many(self.corpus.replaced, 'text')} of {self.corpus.total:,} contain the replacement character "
                "U+FFFD, in place of bytes that are not UTF-8."
            )
        return tuple(told)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What happens to a text before the model gets it."""
        text = self.spec.text
        assert text is not None
        if self.lexicon is None:
            return ()
        unknown = "left out" if text.unknown == "skip" else f'replaced by "{text.unknown}"'
        return (
            f'feature "{text.name}": The network gets the first {text.length} words of a text, in lower case and '
            f"without punctuation; words that are not in {Path(self.lexicon.name).name} are {unknown}.",
        )

    def members(self, group: Group | None) -> Mask:
        """Return the texts that belong to a group, whatever `given` says; all of them where there is none."""
        inside = np.ones(len(self.corpus), bool)
        for place, feature in enumerate(self.protected):
            if group is None:
                break
            if feature.name in self.mentions:
                inside &= self.mentions[feature.name].any_of(self._values(group, place))
            else:
                inside &= group.domains[place].holds(self.columns[:, self.spec.features.index(feature)])
        return inside

    @cached_property
    def any_pool(self) -> NDArray[np.intp]:
        """The numbers of the texts that an exchange is about: they mention a group of every protected feature."""
        inside = np.all([each.any_value for each in self.mentions.values()], axis=0) & self.concerned
        return np.flatnonzero(inside)

    def pool(self, subgroup: Subgroup) -> NDArray[np.intp]:
        """Return the texts that a subgroup draws from, in order: all that mention its group, or all that there are.

        In an exchange all subgroups draw from the texts that mention any group.
        """
        exchanged = self.population.reading == "swapped"
        if exchanged:
            pool = self.any_pool
        else:
            inside = self.members(subgroup.group) & self.concerned
            pool = self.corpus.order[inside[self.corpus.order]]
        found = len(pool)
        if subgroup.truth is not None:
            assert self.truth is not None
            pool = pool[self.truth[pool] == subgroup.truth]
        if not len(pool):
            anything = "a term of any value of " + " and ".join(feature.name for feature in self.protected)
            what = anything if exchanged or subgroup.group is None else f'"{subgroup.group.name}"'
            given = f' where property.given "{self.spec.property.given}" holds' if self.spec.property.given else ""
            if found and subgroup.truth is not None:
                given += f' and has the true label "{self.spec.model.labels[subgroup.truth]}"'
            raise DataError(
                NO_TEXT_MENTIONS.format(name=self.corpus.name, texts=len(self.corpus), what=what, given=given)
            )
        return pool

    def exchange(self, group: Group) -> Exchange:
        """Return the replacement of each term where the text is to mention this group."""
        words: dict[str, str] = {}
        for place, terms in enumerate(self.terms):
            values = self._values(group, place)
            if len(values) > 1:
                raise SpecError(GROUP_OF_SEVERAL_TERMS.format(feature=terms.feature, name=group.name))
            words |= terms.exchange(values[0])
        if self.lexicon is None:
            return Exchange(np.empty(0, np.int32), np.empty(0, np.int32), words)
        found: dict[int, int] = {}
        numbers = self.lexicon.numbers
        for word, instead in words.items():
            if word not in numbers:
                continue
            if instead not in numbers:
                owner = next(terms.feature for terms in self.terms if word in terms.all_words)
                raise SpecError(
                    f'feature "{owner}".terms: "{instead}" is not a word of {self.lexicon.name}, so the '
                    "network cannot read it; write another word in its place"
                )
            found[numbers[word]] = numbers[instead]
        return Exchange(np.array(list(found), np.int32), np.array(list(found.values()), np.int32), words)

    def shown_as(self, texts: NDArray[np.integer], group: Group) -> NDArray[Any]:
        """Return these texts with every term exchanged for that of a group."""
        exchange = self._exchanges.get(group.name)
        if exchange is None:
            exchange = self._exchanges[group.name] = self.exchange(group)
        values: NDArray[Any] = self.values[texts]
        if self.lexicon is not None:
            words = np.arange(len(self.lexicon) + 1, dtype=np.int32)
            words[exchange.terms] = exchange.instead
            exchanged: NDArray[Any] = words[values]
            return exchanged
        values[:, 0] = [
            swapped(text, self.spans.get(place, ()), exchange.words)
            for place, text in zip(texts.tolist(), values[:, 0].tolist(), strict=True)
        ]
        return values

    @cached_property
    def _exchanges(self) -> dict[str, Exchange]:
        return {}

    def for_spec(self, spec: Spec) -> TextRows:
        """Return the same texts for another question about them: other groups, another condition or other labels."""
        keys = ("protected", "given")
        same = all(getattr(spec.property, key, None) == getattr(self.spec.property, key, None) for key in keys)
        if same and spec.described == self.spec.described and spec.population == self.spec.population:
            return self if spec is self.spec else replace(self, spec=spec)
        return _rows_of(spec, self.corpus, self.lexicon, self.columns, self.truth, self.dropped)

    def _values(self, group: Group, place: int) -> list[str]:
        feature = self.protected[place]
        assert isinstance(feature, CategoryFeature)
        return [str(value) for number, value in enumerate(feature.values) if group.domains[place].contains(number)]


def read_texts(spec: Spec, frame: Any = None) -> TextRows:
    """Read everything that a question about texts names; `frame` has the texts, in place of a file.

    Raises a SpecError or DataError if the corpus, its columns or the terms cannot be read or are invalid.
    """
    population, text = spec.population, spec.text
    if not isinstance(population, Texts) or text is None:
        raise SpecError('population.kind: is not a corpus; write kind = "text" with path or dataset')
    # Before the corpus, since what is wrong with them is found at once.
    _terms(spec)
    beside: Beside = {}
    if population.label is not None:
        beside[population.label] = "label in [population]"
    columns = [feature for feature in spec.features if getattr(feature, "terms", None) is None]
    for feature in columns:
        beside[feature.column or feature.name] = f'the [[feature]] "{feature.name}", or state its column'
    lexicon = None if text.raw else lexicon_of(text)
    corpus = read_corpus(population, lexicon, text.length or 0, beside=beside, frame=frame)
    return _rows_of(spec, *_beside(spec, population, corpus, columns, lexicon))


def _terms(spec: Spec) -> tuple[Terms, ...]:
    """Return the terms of each protected feature that texts mention."""
    assert spec.text is not None
    by_name = {feature.name: feature for feature in spec.features}
    terms = tuple(
        terms_of(feature, raw=spec.text.raw)
        for feature in (by_name[name] for name in spec.protected)
        if isinstance(feature, CategoryFeature) and feature.terms is not None
    )
    seen: dict[str, str] = {}
    for each in terms:
        for word in sorted(each.all_words):
            # One exchange would undo the other.
            if seen.setdefault(word, each.feature) != each.feature:
                raise SpecError(TERM_TWICE.format(feature=each.feature, word=word, seen=seen[word]))
    return terms


def _rows_of(
    spec: Spec,
    corpus: Corpus,
    lexicon: Lexicon | None,
    values: NDArray[np.float64],
    truth: NDArray[np.int16] | None,
    dropped: int,
) -> TextRows:
    """Return the texts of a corpus, whose columns are `values`, for the question of a spec."""
    text, terms = spec.text, _terms(spec)
    assert text is not None
    assert isinstance(spec.population, Texts)
    parts = [corpus.sha256, *([] if lexicon is None else [lexicon.sha256]), *(each.sha256 for each in terms)]
    parts += ["raw"] if lexicon is None else [str(text.length), text.unknown]
    numbers = corpus.numbers if corpus.numbers is not None else np.arange(1, len(corpus) + 1)
    concerned = np.ones(len(corpus), bool)
    if spec.property.given is not None:
        from fairchain.spec.conditions import predicate_of

        predicate = predicate_of(spec)
        assert predicate is not None
        concerned = predicate.holds(values)
        if not concerned.any():
            raise DataError(GIVEN_OF_NO_TEXT.format(name=corpus.name, given=spec.property.given, count=len(corpus)))
    return TextRows(
        values=corpus.values,
        truth=truth,
        recorded=None,
        numbers=numbers,
        dropped=dropped,
        source=corpus.name,
        sha256=_joined(*parts),
        spec=spec,
        population=spec.population,
        corpus=corpus,
        lexicon=lexicon,
        terms=terms,
        columns=values,
        concerned=concerned,
    )


def _joined(*parts: str) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _beside(
    spec: Spec, population: Texts, corpus: Corpus, columns: Sequence[Feature], lexicon: Lexicon | None
) -> tuple[Corpus, Lexicon | None, NDArray[np.float64], NDArray[np.int16] | None, int]:
    """Return the texts whose columns are whole, with their features, true labels, and how many others there are."""
    values = np.full((len(corpus), len(spec.features)), np.nan)
    if not corpus.columns:
        return corpus, lexicon, values, None, 0
    table = replace(read_table(dict(corpus.columns)), source=corpus.name)
    gone = np.zeros(len(corpus), bool)
    truth = None
    for feature in columns:
        found = values[:, spec.features.index(feature)] = feature_values(table, feature, population.na_values)
        missing = np.isnan(found)
        if missing.any() and not population.drop_missing:
            raise missing_cells(table, feature.column or feature.name, missing, feature)
        gone |= missing
    if population.label is not None:
        truth = label_values(table, "label", population.label, spec.model, population.na_values)
        if (truth < 0).any() and not population.drop_missing:
            raise missing_cells(table, population.label, truth < 0, None)
        gone |= truth < 0
    if not gone.any():
        return corpus, lexicon, values, truth, 0
    if gone.all():
        raise DataError(f"{corpus.name}: every one of its {len(corpus):,} texts lacks a value that is used")
    kept = ~gone
    numbers = None if corpus.numbers is None else corpus.numbers[kept]
    cells = {name: column[kept] for name, column in corpus.columns.items()}
    smaller = replace(corpus, values=corpus.values[kept], ranks=corpus.ranks[kept], numbers=numbers, columns=cells)
    return smaller, lexicon, values[kept], None if truth is None else truth[kept], int(gone.sum())


def text_sizes(rows: TextRows, groups: Sequence[Group]) -> list[int] | None:
    """Return how many texts belong to each group, also to one that none belongs to; None for an exchange.

    Where true labels are compared, a group has as many texts as it has of the rarest label.
    """
    if rows.population.reading == "swapped":
        return None
    truths = {subgroup.truth for subgroup in comparison_of(rows.spec, groups).subgroups if subgroup.truth is not None}
    labelled = [rows.truth == truth for truth in truths] if rows.truth is not None and truths else [rows.concerned]
    members = [rows.members(group) & rows.concerned for group in groups]
    return [min(int((each & truth).sum()) for truth in labelled) for each in members]
