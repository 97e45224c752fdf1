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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, SpecError
from fairchain.messages import many
from fairchain.populations.base import Inputs, Population, Rounds, Scratch
from fairchain.populations.streams import Address, scaled, surplus
from fairchain.spec import CategoryFeature, Feature, Group, Spec, Texts
from fairchain.spec.documents import is_file
from fairchain.spec.groups import Domain
from fairchain.spec.subgroups import Subgroup, comparison_of
from fairchain.tables import TableRows, read_table
from fairchain.tables.cell_values import feature_values, label_values, missing_cells
from fairchain.text.corpus import Beside, Corpus, read_corpus
from fairchain.text.files import stamps_of
from fairchain.text.lexicon import Ids, Lexicon, lexicon_of
from fairchain.text.spans import Span, swapped
from fairchain.text.substitution import Replacing, replacing_of
from fairchain.text.synonyms import wordnet_files
from fairchain.text.terms import Mentions, Terms, spans_in, terms_of

Mask = NDArray[np.bool_]
# Substreams of random words, the same for all subgroups: for the text and for its synonyms. From AGAIN on each subgroup
# has its own.
TEXT, SYNONYMS, AGAIN = range(3)
# Groups whose number of texts is told.
MOST_NAMED = 8
# Questions about a corpus for which texts are kept, and groups or subgroups of each.
MOST_KEPT = 4
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
    rows
        The texts of the corpus, with the question about them.
    subgroups
        Groups, or the overall population.
    """

    def __init__(self, rows: TextRows, subgroups: Sequence[Subgroup]) -> None:
        super().__init__(subgroups, int(rows.values.shape[1]), rows.values.dtype)
        self.rows, self.corpus, self.lexicon = rows, rows.corpus, rows.lexicon
        self.texts = rows.population
        self.swapped = rows.population.reading == "swapped"
        self.pools: tuple[NDArray[np.intp], ...] = tuple(rows.pool(subgroup) for subgroup in self.subgroups)
        # All pools in one array; for subgroups that were drawn together, their sizes and starts in it.
        self._pooled = np.concatenate(self.pools)
        self._known_ranges: dict[tuple[int, ...], tuple[NDArray[np.uint64], NDArray[np.intp]]] = {}
        self._most_surplus = max(surplus(len(pool)) for pool in self.pools)
        self.exchanges: tuple[Exchange | None, ...] = (None,) * len(self.subgroups)
        if self.swapped:
            self.exchanges = tuple(
                None if subgroup.group is None else rows.exchange(subgroup.group) for subgroup in self.subgroups
            )
        self.replacing: Replacing | None = None
        if self.lexicon is not None:
            self.replacing = replacing_of(self.texts, self.lexicon, self.corpus, rows.terms, self.pools)

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
        return (self._exchanged if self.swapped else self._observed)(address, count, scratch)

    def _observed(self, address: Address, count: int, scratch: Scratch) -> Rounds:
        """Draw the texts of each subgroup, of several ones at once."""

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
        """Draw texts once, and exchange their terms for those of each subgroup; by true label where these differ."""
        drawn, exchanged = self._rows(scratch, "drawn", count), self._rows(scratch, "exchanged", count)
        current: int | None = None
        # Where the terms are among all words that were drawn, and which ones.
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
        """(words + 1,): the place of each term in an exchange, the same in all of them, from 1; 0 for other words."""
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
        """Draw the numbers of texts, (sources, rounds): all sources at the same place of their texts in order."""
        words, (sizes, starts) = address.halfwords(count, TEXT), self._ranges(tuple(sources))
        index, low = scaled(words, sizes)
        if np.minimum.reduce(low, axis=None) < self._most_surplus:
            for place, source in enumerate(sources):
                index[place] = address.below(words, len(self.pools[source]), AGAIN + source)
        found: NDArray[np.intp] = self._pooled.take(starts + index)
        return found

    def _ranges(self, sources: tuple[int, ...]) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """Return the sizes of these subgroups' pools, and where they begin among all of them, (sources, 1) each."""
        if sources not in self._known_ranges:
            sizes = np.array([len(pool) for pool in self.pools], np.uint64)
            starts = (np.cumsum(sizes) - sizes).astype(np.intp)
            self._known_ranges[sources] = sizes[list(sources), None], starts[list(sources), None]
        return self._known_ranges[sources]

    def _shown(self, address: Address, subgroup: int, count: int) -> Inputs:
        """Draw texts of a subgroup as they are."""
        texts = self._numbers(address, [self._source(subgroup)], count)[0]
        group = self.subgroups[subgroup].group
        return self.rows.values[texts] if not self.swapped or group is None else self.rows.shown_as(texts, group)

    def _draw_texts(self, address: Address, sources: Sequence[int], drawn: Ids) -> None:
        """Draw texts of subgroups into `drawn`, (sources, rounds, words), and replace some of their words."""
        count = drawn.shape[1]
        texts = self._numbers(address, sources, count)
        self.corpus.ids.take(texts, axis=0, out=drawn, mode="clip")
        if self.replacing is not None:
            random = address.halfwords(2 * count * self.replacing.most, SYNONYMS)
            self.replacing.apply(drawn, texts, random.reshape(self.replacing.most, 2, count))


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
        The question, or one like it (see `for_spec`).
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
        exchange = self._exchanges.get(group.domains)
        if exchange is None:
            exchange = self._exchanges[group.domains] = self.exchange(group)
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
    def _exchanges(self) -> dict[tuple[Domain, ...], Exchange]:
        return {}

    @cached_property
    def _known(self) -> dict[Any, Any]:
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Copy the rows into another process without the populations that draw from them."""
        return {name: value for name, value in self.__dict__.items() if name != "_known"}

    def members_of(self, groups: Sequence[Group]) -> Mask:
        """Return (groups, texts): which of the texts that the question is about belong to each group."""
        key = ("members", *(group.domains for group in groups))
        found: Mask = _kept(
            self._known, key, lambda: np.array([self.members(group) & self.concerned for group in groups])
        )
        found.flags.writeable = False
        return found

    def population_of(self, subgroups: Sequence[Subgroup]) -> TextPopulation:
        """Return the distribution of the texts of these subgroups."""
        key = tuple((each.name, each.group and each.group.domains, each.truth) for each in subgroups)
        found: TextPopulation = _kept(self._known, key, lambda: TextPopulation(self, subgroups))
        return found

    def for_spec(self, spec: Spec) -> TextRows:
        """Return the same texts for another question about them: other groups, another condition or other labels.

        Themselves for a question like theirs, in which only the guarantee, or what is compared, may be another.
        """
        if spec is self.spec or _content(spec) == _content(self.spec):
            return self
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
    asked = _content(spec), stamps_of(*_further_files(spec, population))
    rows: TextRows = _kept(
        corpus.asked, asked, lambda: _rows_of(spec, *_beside(spec, population, corpus, columns, lexicon))
    )
    return rows


def _kept(known: dict[Any, Any], key: Any, compute: Callable[[], Any]) -> Any:
    """Return what is known under a key, computed if it is not; a few such answers are kept."""
    found = known.get(key)
    if found is None:
        if len(known) >= MOST_KEPT:
            known.clear()
        found = known[key] = compute()
    return found


def _content(spec: Spec) -> bytes:
    """Return everything in a question that the rows of its corpus depend on."""
    return msgspec.json.encode((spec.model, spec.described, spec.population, spec.protected, spec.property.given))


def _further_files(spec: Spec, population: Texts) -> list[Path]:
    """Return the files that rows are made from beside the corpus and the lexicon: of terms and of synonyms."""
    stated = [str(getattr(each, "terms", None)) for each in spec.features]
    files = [Path(terms) for terms in stated if is_file(terms)]
    if population.synonyms == "wordnet" and population.wordnet is not None:
        files += wordnet_files(population.wordnet)
    return files


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
    concerned.flags.writeable = False
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


def text_sizes(spec: Spec, rows: TextRows, groups: Sequence[Group]) -> list[int] | None:
    """Return how many texts belong to each group, also to one that none belongs to; None for an exchange.

    Where true labels are compared, a group has as many texts as it has of the rarest label.
    """
    if rows.population.reading == "swapped":
        return None
    truths = {subgroup.truth for subgroup in comparison_of(spec, groups).subgroups if subgroup.truth is not None}
    labelled = [rows.truth == truth for truth in truths] if rows.truth is not None and truths else [rows.concerned]
    return [min(int((each & truth).sum()) for truth in labelled) for each in rows.members_of(groups)]
