"""The rule that cuts a text into words. It is simple on purpose: anybody can do the same for their own training."""

from __future__ import annotations

import re

_APOSTROPHES = str.maketrans("\u2019\u02bc`", "'''")
# Everything that separates words, of which apostrophes are looked at later.
_SEPARATORS = re.compile(r"[^\w']|_")
_ASCII = {code: " " for code in range(128) if not chr(code).isalnum()} | {ord("'"): "'", ord("`"): "'"}
# English contractions at the end of a word are words of their own, as lists of word vectors have them: do n't, he 's.
# The pattern begins with a plain sign and is asked for nothing else, so that most of a text is passed over quickly.
_APOSTROPHE = re.compile(r"'(?:((?<=n')t|s|m|d|re|ve|ll)(?!\w))?")


def tokenise(text: str) -> list[str]:
    """The words of a text in lower case; everything but letters and digits separates them and is left out.

    >>> tokenise("Don't shout: we're all Anglo-Saxon here, aren't we?")
    ['do', "n't", 'shout', 'we', "'re", 'all', 'anglo', 'saxon', 'here', 'are', "n't", 'we']
    """
    text = text.lower()
    # A string's own methods are several times as fast as a pattern, and most texts are plain ASCII.
    if text.isascii():
        text = text.translate(_ASCII)
    else:
        text = _SEPARATORS.sub(" ", text.translate(_APOSTROPHES))
    if "'" in text:
        text = _APOSTROPHE.sub(_apart, text.replace("n't", " n't"))
    return text.split()


def _apart(found: re.Match[str]) -> str:
    end = found[1]
    if end is None:
        return " "
    return "'t " if end == "t" else f" '{end} "
