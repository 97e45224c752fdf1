"""Builds a WordPiece vocabulary that repeats exactly, without names, numbers and offensive words.

Whole words are those of the most comments; among equally frequent ones alphabetical order decides. Left out are the
words that fairchain masks in quotes, and words that are mostly written with a capital letter, as names of people are,
unless a list of identity terms that ships with fairchain has them. Such words are read in pieces: every letter, digit
and sign of ASCII is a piece, and so are the most frequent beginnings, middles and ends of words.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

from fairchain.text.quoting import quoted
from fairchain.text.terms import kept_words

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# A word or piece is used if so many different comments have it, and pieces are cut from words of so many.
LEAST_COMMENTS, LEAST_FOR_PIECES = 100, 5
# Letters of a piece of a word, and the share of capitals from which a word is taken for a name.
PIECE_LETTERS, NAME = (2, 3, 4), 0.6
WORD = re.compile(r"[A-Za-z]+")


def vocabulary_of(texts: Iterable[str], words: int, pieces: tuple[int, int]) -> list[str]:
    """Return the tokens: the special ones, characters, so many beginnings and other pieces of words, and words.

    >>> tokens = vocabulary_of(["Ann says: come in"] * 100 + ["come, says Ann"], words=2, pieces=(0, 1))
    >>> tokens[-3:], "ann" in tokens
    (['##nn', 'come', 'says'], False)
    """
    comments, written, capitals = Counter[str](), Counter[str](), Counter[str]()
    for text in texts:
        found = WORD.findall(text)
        comments.update({word.lower() for word in found})
        written.update(word.lower() for word in found)
        capitals.update(word.lower() for word in found if word[0].isupper())
    terms = kept_words()
    known = [
        word
        for word in _frequent(comments)
        if len(word) > 1 and (word in terms or capitals[word] < NAME * written[word]) and _may_be_shown(word)
    ]
    whole = known[:words]
    rest = Counter({word: comments[word] for word in comments.keys() - set(whole)})
    characters = [*string.ascii_lowercase, *string.digits, *string.punctuation]
    parts = [piece for piece in _frequent(_pieces(rest)) if piece not in whole and _may_be_shown(piece.strip("#"))]
    characters += [f"##{character}" for character in (*string.ascii_lowercase, *string.digits)]
    beginnings = [piece for piece in parts if not piece.startswith("##")][: pieces[0]]
    others = [piece for piece in parts if piece.startswith("##")][: pieces[1]]
    return [*SPECIAL, *characters, *sorted(beginnings), *sorted(others), *sorted(whole)]


def _frequent(counts: Counter[str]) -> Sequence[str]:
    return sorted((each for each in counts if counts[each] >= LEAST_COMMENTS), key=lambda each: (-counts[each], each))


def _may_be_shown(token: str) -> bool:
    return quoted(token) == token


def _pieces(words: Counter[str]) -> Counter[str]:
    """Return how many comments have each beginning, middle and end of these words; a longer piece saves more tokens."""
    counts = Counter[str]()
    for word, count in words.items():
        if count < LEAST_FOR_PIECES:
            continue
        places = ((start, size) for size in PIECE_LETTERS if size < len(word) for start in range(len(word) - size + 1))
        for piece in {"##" * (start > 0) + word[start : start + size] for start, size in places}:
            counts[piece] += count * (len(piece.strip("#")) - 1)
    return counts
