"""The texts of a corpus as rows: which of them mention each group, what they show as another, their columns and labels.

A corpus whose words are not replaced by synonyms is a finite table, which can be counted; `texts` draws from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.datasets import SOURCES, cache_dir
from fairchain.datasets.fetch import choice_file
from fairchain.errors import DataError, SpecError
from fairchain.messages import many
from fairchain.spec import CategoryFeature, Feature, Group, Spec, TextFeature, Texts
from fairchain.spec.conditions import predicate_of
from fairchain.spec.documents import is_file
from fairchain.spec.groups import Domain
from fairchain.spec.subgroups import Subgroup, comparison_of
from fairchain.tables import TableRows, read_table
from fairchain.tables.rows import feature_values, label_values, leave_out
from fairchain.text.corpus import Beside, Corpus, corpus_files, read_corpus
from fairchain.text.files import Stamp, stamps_of
from fairchain.text.lexicon import Ids, Lexicon, lexicon_files, lexicon_of
from fairchain.text.synonyms import wordnet_files
from fairchain.text.terms import Span, Terms, mentions_in, mentions_of, spans_in, swapped, terms_of

if TYPE_CHECKING:
    from fairchain.populations.texts import TextPopulation

Mask = NDArray[np.bool_]
# Largest number of questions about a corpus whose texts are kept, and of results that are kept for each.
MOST_KEPT, MOST_KNOWN = 4, 12
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


class Exchange(NamedTuple):
    """The numbers of all terms, the same for every subgroup, and their replacements in one; empty for raw texts.

    `words` has the replacement of each term as a text.
    """

    terms: Ids
    instead: Ids
    words: dict[str, str]


@dataclass(frozen=True, eq=False, kw_only=True)
class TextRows(TableRows):
    """The texts of a corpus as rows of a table, with the features that the spec assigns to them.

    `spec` is the question, or an equivalent one (see `for_spec`). `lexicon` has the words that a network reads; None if
    it gets raw texts. `terms` are those of each protected feature that texts mention. `columns`, (texts, features), has
    the features that are columns of the corpus, NaN if the text mentions them; `concerned`, (texts,), is whether
    `property.given` holds.
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
        """The spans of all terms in raw texts."""
        return spans_in(self.values, self.terms)

    @cached_property
    def mentions(self) -> dict[str, dict[str, Mask]]:
        """For each protected feature with terms, the texts that mention each value with terms."""
        if self.lexicon is not None:
            return {terms.feature: mentions_of(self.corpus, self.lexicon, terms) for terms in self.terms}
        return {terms.feature: mentions_in(self.spans, len(self.corpus), terms) for terms in self.terms}

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes for the user about the corpus."""
        notes = []
        if empty := self.corpus.total - len(self.corpus) - self.dropped:
            what = "are empty" if self.corpus.raw else "hold no known word"
            notes.append(f"{empty:,} of {self.corpus.total:,} texts {what} and are never drawn.")
        if self.corpus.replaced:
            notes.append(
                f"{many(self.corpus.replaced, 'text')} of {self.corpus.total:,} contain the replacement character "
                "U+FFFD, instead of bytes that are not UTF-8."
            )
        return tuple(notes)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The preprocessing of a text before the model gets it."""
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
        """Return the texts that belong to a group, without the condition `given`; all of them without a group."""
        inside = np.ones(len(self.corpus), bool)
        for place, feature in enumerate(self.protected):
            if group is None:
                break
            if feature.name in self.mentions:
                found = self.mentions[feature.name]
                # Texts without a mention have the value that has no terms.
                masks = [found[value] if value in found else ~_any_of(found) for value in self._values(group, place)]
                inside &= np.any(masks, axis=0)
            else:
                inside &= group.domains[place].holds(self.columns[:, self.spec.features.index(feature)])
        return inside

    @cached_property
    def any_pool(self) -> NDArray[np.intp]:
        """The indices of the texts of an exchange: they mention a group of every protected feature."""
        inside = np.all([_any_of(found) for found in self.mentions.values()], axis=0) & self.concerned
        return np.flatnonzero(inside)

    def pool(self, subgroup: Subgroup) -> NDArray[np.intp]:
        """Return the texts from which a subgroup draws, in order: all that mention its group, or all texts.

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
        """Return the replacement of each term for texts that should mention this group."""
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
                    "network cannot read it; write another word instead"
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

    def known(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return what depends only on these rows and a key, computed once; a few results are kept."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = compute()
        return found

    def members_of(self, groups: Sequence[Group]) -> Mask:
        """Return (groups, texts): which of the texts in the scope of the question belong to each group."""
        key = ("members", *(group.domains for group in groups))
        found: Mask = self.known(key, lambda: np.array([self.members(group) & self.concerned for group in groups]))
        found.flags.writeable = False
        return found

    def population_of(self, subgroups: Sequence[Subgroup]) -> TextPopulation:
        """Return the distribution of the texts of these subgroups."""
        from fairchain.populations.texts import TextPopulation

        key = tuple((each.name, each.group and each.group.domains, each.truth) for each in subgroups)
        found: TextPopulation = self.known(key, lambda: TextPopulation(self, subgroups))
        return found

    def for_spec(self, spec: Spec) -> TextRows:
        """Return the same texts for another question about them: other groups, another condition or other labels.

        For an equivalent question, in which only the guarantee or the comparison differs, return this object.
        """
        if spec is self.spec or _content(spec) == _content(self.spec):
            return self
        return _rows_of(spec, self.lexicon, self.corpus, self.columns, self.truth, self.dropped)

    def _values(self, group: Group, place: int) -> list[str]:
        feature = self.protected[place]
        assert isinstance(feature, CategoryFeature)
        return [str(value) for number, value in enumerate(feature.values) if group.domains[place].contains(number)]


def _any_of(mentions: dict[str, Mask]) -> Mask:
    """Return the texts that mention some value."""
    found: Mask = np.any(list(mentions.values()), axis=0)
    return found


def read_texts(spec: Spec, frame: Any = None) -> TextRows:
    """Read everything that a question about texts names; `frame` has the texts, instead of a file.

    Raises a SpecError or DataError if the corpus, its columns or the terms cannot be read or are invalid.
    """
    population, text = spec.population, spec.text
    if not isinstance(population, Texts) or text is None:
        raise SpecError('population.kind: is not a corpus; write kind = "text" with path or dataset')
    key = _content(spec), str(cache_dir())
    known = _last_rows.get(key) if frame is None else None
    if known is not None and stamps_of(*(path for path, *_ in known.stamps)) == known.stamps:
        return known.rows
    # Before the corpus, because their errors are found immediately.
    _terms(spec)
    beside: Beside = {}
    if population.label is not None:
        beside[population.label] = "label in [population]"
    columns = [feature for feature in spec.features if getattr(feature, "terms", None) is None]
    for feature in columns:
        beside[feature.column or feature.name] = f'the [[feature]] "{feature.name}", or state its column'
    # Before they are read: a file that changes meanwhile is read again.
    stamps = stamps_of(*_files(spec, population, text)) if frame is None else ()
    lexicon = None if text.raw else lexicon_of(text)
    corpus = read_corpus(population, lexicon, text.length or 0, beside=beside, frame=frame)
    rows = _rows_of(spec, lexicon, *_beside(spec, population, corpus, columns))
    if frame is None:
        if len(_last_rows) >= MOST_KEPT or any(each.corpus is not corpus for each in _last_rows.values()):
            _last_rows.clear()
        _last_rows[key] = _ReadRows(rows, corpus, stamps)
    return rows


class _ReadRows(NamedTuple):
    """Rows that were read, the whole corpus that they belong to, and the files on which they depend."""

    rows: TextRows
    corpus: Corpus
    stamps: tuple[Stamp, ...]


# The rows of the last questions, all about the last corpus: texts fill much memory.
_last_rows: dict[tuple[bytes, str], _ReadRows] = {}


def _files(spec: Spec, population: Texts, text: TextFeature) -> list[Path]:
    """Return the files on which the rows of a question depend: corpus, lexicon, terms and synonyms."""
    files = [*corpus_files(population), *lexicon_files(text)]
    files += [choice_file(name) for name in (population.dataset, text.vectors) if name in SOURCES]
    files += [Path(terms) for each in spec.features if is_file(terms := str(getattr(each, "terms", None)))]
    if population.synonyms == "wordnet" and population.wordnet is not None:
        files += wordnet_files(population.wordnet)
    return files


def _content(spec: Spec) -> bytes:
    """Return everything in a question on which the rows of its corpus depend."""
    return msgspec.json.encode((spec.model, spec.described, spec.population, spec.protected, spec.property.given))


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
    lexicon: Lexicon | None,
    corpus: Corpus,
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
    predicate = predicate_of(spec)
    concerned = np.ones(len(corpus), bool) if predicate is None else predicate.holds(values)
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
        sha256=joined_hash(*parts),
        spec=spec,
        population=spec.population,
        corpus=corpus,
        lexicon=lexicon,
        terms=terms,
        columns=values,
        concerned=concerned,
    )


def joined_hash(*parts: str) -> str:
    """Return the SHA-256 of some texts, joined by blanks."""
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _beside(
    spec: Spec, population: Texts, corpus: Corpus, columns: Sequence[Feature]
) -> tuple[Corpus, NDArray[np.float64], NDArray[np.int16] | None, int]:
    """Return the texts with complete columns, with their features, true labels, and the number of the others."""
    values = np.full((len(corpus), len(spec.features)), np.nan)
    if not corpus.columns:
        return corpus, values, None, 0
    table = replace(read_table(dict(corpus.columns)), source=corpus.name)
    gone = np.zeros(len(corpus), bool)
    truth = None
    for feature in columns:
        found = values[:, spec.features.index(feature)] = feature_values(table, feature, population.na_values)
        leave_out(table, feature.column or feature.name, np.isnan(found), population, gone, feature)
    if population.label is not None:
        truth = label_values(table, "label", population.label, spec.model, population.na_values)
        leave_out(table, population.label, truth < 0, population, gone)
    if not gone.any():
        return corpus, values, truth, 0
    if gone.all():
        raise DataError(f"{corpus.name}: every one of its {len(corpus):,} texts lacks a value that is used")
    kept = ~gone
    numbers = None if corpus.numbers is None else corpus.numbers[kept]
    cells = {name: column[kept] for name, column in corpus.columns.items()}
    smaller = replace(corpus, values=corpus.values[kept], ranks=corpus.ranks[kept], numbers=numbers, columns=cells)
    return smaller, values[kept], None if truth is None else truth[kept], int(gone.sum())


def text_sizes(spec: Spec, rows: TextRows, groups: Sequence[Group]) -> list[int] | None:
    """Return the number of texts of each group, including empty groups; None for an exchange.

    If true labels are compared, the size of a group is its number of texts with its rarest label.
    """
    if rows.population.reading == "swapped":
        return None
    truths = {subgroup.truth for subgroup in comparison_of(spec, groups).subgroups if subgroup.truth is not None}
    labelled = [rows.truth == truth for truth in truths] if rows.truth is not None and truths else [rows.concerned]
    return [min(int((each & truth).sum()) for truth in labelled) for each in rows.members_of(groups)]
