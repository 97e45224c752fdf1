"""Identity terms in raw texts: their positions, and the same text with other terms.

A term is one word or several. It is found in any letter case, as a whole word: the characters before and after it are
not letters, digits or combining marks. Only the span of a term is ever changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fairchain.errors import SpecError
from fairchain.messages import shown

TERM_NOT_A_WORD = '{where}: {term} of "{value}" does not begin with a letter or digit; write a word'
# Letters and digits of every script, without the underscore.
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHES = "['\u2019\u02bc]"
# A blank in a term matches any white space, or a hyphen.
_BLANK = r"(?:\s+|[-\u2010\u2011])"
_JOINERS = "\u200c\u200d"


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
