"""Identity terms: the words by which a text mentions a group, their places in texts, and their exchange.

A list gives each value of a feature its terms, and may have a row `neutral` for texts that should mention no value. For
an exchange the lists are parallel: words at the same position have the same form. Lists for religion, race and gender
ship with the package.

A term is one word or several. It is found in any letter case, as a whole word: the characters before and after it are
not letters, digits or combining marks. Only the span of a term is ever changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fairchain.errors import SpecError
from fairchain.messages import near, shown, unknown
from fairchain.spec import CategoryFeature
from fairchain.spec.documents import is_file, parse_document, read_bytes
from fairchain.spec.keys import Text
from fairchain.spec.validate import NONE_VALUES
from fairchain.text.corpus import Corpus
from fairchain.text.lexicon import Lexicon, tokenise

SHIPPED = ("religion", "race", "gender")
NEUTRAL = "neutral"
MOST_TERMS_BYTES = 4_000_000
MOST_TERMS = 20_000
# Number of texts that are processed together, so that memory use is constant.
TEXTS_AT_ONCE = 2**16

Lists = dict[str, tuple[str, ...]]
Mask = NDArray[np.bool_]
UNKNOWN_TERM_LIST = 'feature "{feature}".terms: {problem} (a file of your own ends in .toml or .json)'
UNKNOWN_TERM_LIST_SUFFIX = (
    "a list of terms is a .toml or .json file; write one with the words of each group, for example "
    'muslim = ["muslim", "muslims"]'
)
LISTS_NOT_PARALLEL = (
    '{where}: "{other}" has {words_count} words and "{value}" {target_count}; as = "swapped" exchanges words at the '
    "same position, so all lists must have the same length"
)
NEUTRAL_WORDS_NEEDED = (
    '{where}: as = "swapped" needs replacement words for texts that mention "{value}"; add neutral = [...] to the '
    "list, or leave the value out"
)

TERM_NOT_A_WORD = '{where}: {term} of "{value}" does not begin with a letter or digit; write a word'
# Letters and digits of every script, without the underscore.
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = "['\u2019\u02bc]"
# A blank in a term matches any white space, or a hyphen.
_BLANK = r"(?:\s+|[-\u2010\u2011])"
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True)
class Terms:
    """The words of each value of a feature, in the order of its values.

    `none_value` is the value of texts that mention none of the others; it has no words. `neutral` are its replacement
    words in an exchange, if the list has some.
    """

    feature: str
    words: Mapping[str, tuple[str, ...]]
    none_value: str | None
    neutral: tuple[str, ...] | None

    @property
    def all_words(self) -> frozenset[str]:
        """Every term of every value, in lower case."""
        return frozenset(word.lower() for words in self.words.values() for word in words)

    @property
    def sha256(self) -> str:
        """Hash of the terms."""
        content = [self.feature, list(self.words.items()), self.none_value, self.neutral]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def exchange(self, value: str) -> dict[str, str]:
        """Return for each term of any value, in lower case, the term of this value in the same form.

        Raises a SpecError if the lists are not parallel, or there are no words for a text that mentions no value.
        """
        target = self.neutral if value == self.none_value else self.words[value]
        where = f'feature "{self.feature}".terms'
        if target is None:
            raise SpecError(NEUTRAL_WORDS_NEEDED.format(where=where, value=value))
        found: dict[str, str] = {}
        for other, words in self.words.items():
            if other != self.none_value and len(words) != len(target):
                raise SpecError(
                    LISTS_NOT_PARALLEL.format(
                        where=where, other=other, words_count=len(words), value=value, target_count=len(target)
                    )
                )
            for word, instead in zip(words, target, strict=False):
                found.setdefault(word.lower(), instead)
        return found


def terms_of(feature: CategoryFeature, *, raw: bool = False) -> Terms:
    """Return the terms of a feature, checked.

    `raw` is whether they are searched in raw texts: then a term may have several words.

    Raises a SpecError or DataError if a list cannot be read or is invalid: a value without words, a word of two values,
    a word that the tokeniser cuts.
    """
    checked = checked_term if raw else _one_word
    where = f'feature "{feature.name}".terms'
    lists = lists_of(feature)
    values = [str(value) for value in feature.values]
    without = [value for value in values if not lists.get(value)]
    for value in without:
        if value not in NONE_VALUES and value not in lists:
            known = [name for name in lists if name != NEUTRAL]
            raise SpecError(
                f'{where}: no words for "{value}" ({near(value, known)}); the value of texts that mention none of '
                'the others is called "none", or has an empty list'
            )
    if len(without) > 1:
        raise SpecError(
            f'{where}: "{without[0]}" and "{without[1]}" both have no words; only one value can be that of texts that '
            "mention none of the others"
        )
    if len(without) == len(values):
        raise SpecError(f"{where}: no value has words; list some")
    words = {value: tuple(checked(where, value, word) for word in lists.get(value, ())) for value in values}
    if sum(map(len, words.values())) > MOST_TERMS:
        raise SpecError(f"{where}: more than {MOST_TERMS:,} words; keep those that texts use")
    for (one, first), (other, second) in combinations(words.items(), 2):
        shared = {word.lower() for word in first} & {word.lower() for word in second}
        if shared:
            raise SpecError(
                f'{where}: {shown(min(shared))} is a word of "{one}" and of "{other}"; a text would mention both; give '
                "every word to one value"
            )
    neutral = lists.get(NEUTRAL)
    return Terms(
        feature.name,
        words,
        without[0] if without else None,
        None if neutral is None else tuple(checked(where, NEUTRAL, word) for word in neutral),
    )


def lists_of(feature: CategoryFeature) -> Lists:
    """Return the lists that a feature names or states, unchanged."""
    stated = feature.terms
    assert stated is not None
    if not isinstance(stated, str):
        return {str(value): tuple(words) for value, words in stated.items()}
    if is_file(stated):
        return _read(Path(stated))
    if stated not in SHIPPED:
        raise SpecError(UNKNOWN_TERM_LIST.format(feature=feature.name, problem=unknown("list", stated, SHIPPED)))
    return shipped(stated)


@cache
def shipped(name: str) -> Lists:
    """Return a list that comes with the package."""
    content = files("fairchain.text").joinpath("lists", f"{name}.toml").read_text(encoding="utf-8")
    return {value: tuple(words) for value, words in tomllib.loads(content).items()}


@cache
def kept_words() -> frozenset[str]:
    """Return the words of all lists that come with the package: never replaced, and never offered as a synonym."""
    lists = [shipped(name) for name in SHIPPED]
    terms = {word for each in lists for value, words in each.items() if value != NEUTRAL for word in words}
    return frozenset(terms.union(*shipped("kept").values()))


def _read(path: Path) -> Lists:
    suffix = path.suffix.lower()
    try:
        if suffix not in (".toml", ".json"):
            raise SpecError(UNKNOWN_TERM_LIST_SUFFIX)
        found = parse_document(read_bytes(path, MOST_TERMS_BYTES, "check terms in the [[feature]]"), suffix)
        return msgspec.convert(found, dict[str, tuple[Text, ...]])
    except msgspec.ValidationError:
        example = 'for example muslim = ["muslim", "muslims"]'
        raise SpecError(f"{path}: must give each value a list of words, {example}") from None
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _one_word(where: str, value: str, word: str) -> str:
    tokens = tokenise(word)
    if len(tokens) != 1:
        raise SpecError(
            f"{where}: {shown(word)} of {shown(value)} is {len(tokens)} words ({', '.join(tokens) or 'none'}); for a "
            "network of word vectors or numbers, a term must be one word of the tokeniser"
        )
    return tokens[0]


class Span(NamedTuple):
    """A term in a text: its first character and the one after its last, and the term in its list, in lower case."""

    start: int
    end: int
    term: str


class TermFinder:
    """Search for terms; of two that overlap the one that starts first counts, of two at one position the longer."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._by_first: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
        for term in sorted({term.lower() for term in terms}, key=len, reverse=True):
            first = _WORD.match(term)
            assert first is not None
            pattern = re.escape(term).replace(r"\ ", _BLANK).replace("'", _APOSTROPHES)
            self._by_first.setdefault(first[0], []).append((term, re.compile(pattern, re.IGNORECASE)))
        self._firsts = self._by_first.keys()

    def spans(self, text: str) -> tuple[Span, ...]:
        """Return the terms of a text, in their order."""
        # Most texts have no term: their words are compared with all terms at once.
        if self._firsts.isdisjoint(_WORD.findall(text.lower())):
            return ()
        found: list[Span] = []
        end = 0
        for word in _WORD.finditer(text):
            if word.start() < end or (word.start() and _continues(text[word.start() - 1])):
                continue
            for term, pattern in self._by_first.get(word[0].lower(), ()):
                match = pattern.match(text, word.start())
                if match and not (match.end() < len(text) and _continues(text[match.end()], term[-1])):
                    end = match.end()
                    found.append(Span(word.start(), end, term))
                    break
        return tuple(found)


def _continues(character: str, last: str = "") -> bool:
    """Return whether a character next to a term belongs to the same word; `last` is the last one of the term."""
    if unicodedata.category(character).startswith("M") or character in _JOINERS:
        return True
    of_a_word = bool(last) and (last.isalnum() or unicodedata.category(last).startswith("M"))
    return of_a_word and character.isalnum()


def checked_term(where: str, value: str, term: str) -> str:
    """Return a term with single blanks between its words; raise a SpecError unless it begins with a letter or digit."""
    term = " ".join(term.split())
    if not _WORD.match(term):
        raise SpecError(TERM_NOT_A_WORD.format(where=where, term=shown(term), value=value))
    return term


def swapped(text: str, spans: Sequence[Span], instead: Mapping[str, str]) -> str:
    """Return a text with the term of each span replaced, in the letter case of the original term.

    >>> swapped("MUSLIMS! (Muslims, muslims)", TermFinder(["muslims"]).spans("MUSLIMS! (Muslims, muslims)"),
    ...         {"muslims": "old catholics"})
    'OLD CATHOLICS! (Old catholics, old catholics)'
    """
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.start], _in_case_of(text[span.start : span.end], instead[span.term])]
        end = span.end
    return "".join([*parts, text[end:]])


def _in_case_of(before: str, term: str) -> str:
    """Return a term in capitals, or with a first capital, if the replaced term is; otherwise as in its list."""
    letters = [letter for letter in before if letter.isalpha()]
    if len(letters) > 1 and all(letter.isupper() for letter in letters):
        return term.upper()
    words = _WORD.findall(before)
    if words and words[0][0].isupper():
        every = len(words) > 1 and all(word[0].isupper() for word in words)
        return _WORD.sub(lambda word: word[0][0].upper() + word[0][1:], term, count=0 if every else 1)
    return term


def spans_in(texts: NDArray[np.object_], terms: Sequence[Terms]) -> dict[int, tuple[Span, ...]]:
    """Return the spans of all terms in raw texts, (texts, 1), for the texts that have some."""
    finder = TermFinder([word for each in terms for word in each.all_words])
    found = ((place, finder.spans(text)) for place, text in enumerate(texts[:, 0].tolist()))
    return {place: spans for place, spans in found if spans}


def mentions_of(corpus: Corpus, lexicon: Lexicon, terms: Terms) -> dict[str, Mask]:
    """Return for each value with terms the texts of a corpus of word numbers that contain one; kept with the corpus.

    A text may mention several values, or none. A term after the last word that the network reads does not count: the
    network does not see it.
    """
    key = f"{lexicon.sha256} {terms.sha256}"
    if (known := corpus.mentioned.get(key)) is not None:
        return known
    values = [value for value in terms.words if value != terms.none_value]
    owner = np.zeros(len(lexicon) + 1, np.int16)
    for place, value in enumerate(values, 1):
        owner[[lexicon.numbers[word] for word in terms.words[value] if word in lexicon.numbers]] = place
    found = np.zeros((len(values), len(corpus.values)), bool)
    for start in range(0, len(corpus.values), TEXTS_AT_ONCE):
        owners = owner[corpus.values[start : start + TEXTS_AT_ONCE]]
        for place in np.unique(owners[owners > 0]).tolist():
            found[place - 1, start : start + TEXTS_AT_ONCE] = (owners == place).any(axis=1)
    by_value = corpus.mentioned[key] = dict(zip(values, found, strict=True))
    return by_value


def mentions_in(spans: Mapping[int, tuple[Span, ...]], count: int, terms: Terms) -> dict[str, Mask]:
    """Return for each value with terms which of `count` raw texts contain one, from the spans of all terms."""
    owners = {word.lower(): value for value, words in terms.words.items() for word in words}
    found = {value: np.zeros(count, bool) for value in terms.words if value != terms.none_value}
    for text, each in spans.items():
        for span in each:
            if span.term in owners:
                found[owners[span.term]][text] = True
    return found
