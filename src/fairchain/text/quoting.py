"""Texts for quotation: offensive words and personal data masked, long texts shortened.

Witnesses, explanations and messages quote real texts. By default, slurs, mail addresses, numbers and user names in them
are masked; `show_texts = true` in [population] shows texts in full.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

# Number of characters that are quoted; for a longer text, a part around the relevant position.
MOST_QUOTED = 160
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_LINK = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_USER = re.compile(r"(?<!\w)@\w+")
_PAGE = re.compile(r"(?i:\b(user(?:[ _]talk)?:)\s*)[^\s|\]\[,;.!?()]+")
# Four digits or more, also with punctuation between them, as in telephone numbers and IP addresses.
_NUMBER = re.compile(r"\+?\d(?:[\d .:/()-]{2,}\d|\d{3,})")
_WORD = re.compile(r"[^\W_]+(?:['\u2019*@$!][^\W_]+)*")


def quoted(text: str, words: Sequence[str] = (), *, at: int = 0, most: int = MOST_QUOTED) -> str:
    """Return a text for display, in which `words` of the user are masked too.

    A text of more than `most` characters is shortened to a part in which position `at` is visible.

    >>> quoted("Mail me@example.org or call 0171 234567, @somebody!")
    'Mail [mail] or call [number], @[user]!'
    """
    start = max(0, min(at - most // 2, len(text) - most))
    # Whole words only: a part of a word, or of an address, would not be recognised.
    while start > 0 and not text[start - 1].isspace() and start > at - most:
        start -= 1
    end = min(len(text), start + most)
    while end < len(text) and not text[end].isspace() and end < start + 2 * most:
        end += 1
    shown = _MAIL.sub("[mail]", _LINK.sub("[link]", text[start:end]))
    shown = _PAGE.sub(r"\1[user]", _USER.sub("@[user]", shown))
    shown = _NUMBER.sub("[number]", shown)
    masked, parts = _masked_words(tuple(words))
    shown = _WORD.sub(lambda word: _mask(word[0], masked, parts), shown)
    return f"{'... ' if start else ''}{shown}{' ...' if end < len(text) else ''}"


def quoted_pair(one: str, other: str, words: Sequence[str] = ()) -> tuple[str, str]:
    """Return two texts that differ in their terms for display, with the first difference visible."""
    pairs = enumerate(zip(one, other, strict=False))
    at = next((place for place, (first, second) in pairs if first != second), min(len(one), len(other)))
    return quoted(one, words, at=at), quoted(other, words, at=at)


@lru_cache(maxsize=8)
def _masked_words(own: tuple[str, ...]) -> tuple[frozenset[str], re.Pattern[str]]:
    """Return the masked words, and a pattern for masked prefixes and parts of words."""
    # Encoded, so that readers of the source do not see them.
    content = files("fairchain.text").joinpath("lists", "offensive.rot13").read_text(encoding="ascii")
    entries = codecs.decode(content.partition("\n\n")[2], "rot13").split()
    entries += [word.casefold() for word in own]
    whole = frozenset(entry for entry in entries if "*" not in entry)
    parts = [("" if entry.startswith("*") else "^") + re.escape(entry.strip("*")) for entry in entries if "*" in entry]
    return whole, re.compile("|".join(parts))


def _mask(word: str, whole: frozenset[str], parts: re.Pattern[str]) -> str:
    # Characters that replace letters to evade a filter.
    plain = word.casefold().translate(str.maketrans("@$!013", "asioie"))
    if word.casefold() in whole or plain in whole or parts.search(word.casefold()) or parts.search(plain):
        return word[0] + "*" * (len(word) - 1)
    return word
