"""Texts as numbers: tokens, words and their vectors, the terms of groups, corpora and synonyms.

A text is a row of word numbers: 0 is padding, i >= 1 the word i - 1 of a `Lexicon`. This package neither draws nor
evaluates networks. Everything read here is untrusted input: files are limited, and nothing in them is executed.
"""

from fairchain.text.lexicon import Lexicon, lexicon_of, tokenise

__all__ = ["Lexicon", "lexicon_of", "tokenise"]
