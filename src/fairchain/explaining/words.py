"""Effects of words in texts: the decrease of a text's frequency of the outcome when one word is removed.

The words are the most frequent ones in the pilot texts on which the two groups differ; the texts from which they are
removed are fresh.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.context import INPUTS, PILOT_ADDRESS, ComparedPair, EffectContext
from fairchain.explaining.effect_bounds import SIGNS, mean_bounds
from fairchain.explaining.result import WordEffect
from fairchain.statistics import Interval
from fairchain.text import lexicon_of
from fairchain.verification.witnesses import quote

Ids = NDArray[np.int32]
MOST_RANKED_WORDS, WORD_ROUNDS = 30, 4096
_WORD = re.compile(r"[^\W_]+")


def word_effects(context: EffectContext, pair: ComparedPair, rounds: int) -> tuple[WordEffect, ...]:
    """Return words in texts of the group that has the outcome more often, by decreasing effect; empty without texts."""
    feature = context.spec.text
    if feature is None:
        return ()
    # The most frequent words of pilot texts that have the outcome as one group and not as the other: a word is its
    # number, or its lower-case letters if texts are raw.
    pilot = {group: texts.copy() for group, texts in enumerate(context.inputs(PILOT_ADDRESS, context.chunk))}
    labels = np.stack([context.model.predict(pilot[group]) for group in (pair.more, pair.less)])
    counts: Counter[Any] = Counter()
    for row in pilot[pair.more][pair.values(labels) > 0].tolist():
        # Each text counts a word once.
        counts.update(_words_of(row[0]) if feature.raw else {word for word in row if word})
    words = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_RANKED_WORDS]]
    if not words:
        return ()
    cells = np.zeros((len(words), 3), np.int64)
    wanted = min(rounds, WORD_ROUNDS)
    for chunk, start in enumerate(range(0, wanted, context.chunk)):
        shown = context.inputs(INPUTS + chunk, min(context.chunk, wanted - start))
        texts: NDArray[Any] = next(inputs.copy() for group, inputs in enumerate(shown) if group == pair.more)
        positive = (context.model.predict(texts) == pair.label).astype(np.int8)
        for place, word in enumerate(words):
            has = [word in _words_of(text) for text in texts[:, 0]] if feature.raw else (texts == word).any(axis=1)
            rows = np.flatnonzero(has)
            if len(rows):
                others: NDArray[Any] = (without_text if feature.raw else without_word)(texts[rows], word)
                after = (context.model.predict(others) == pair.label).astype(np.int8)
                # Texts with the outcome only without the word, the same with and without it, and only with it.
                cells[place] += np.bincount(positive[rows] - after + 1, minlength=3)
    level = context.spec.guarantee.delta / (2 * len(words))
    low, high = mean_bounds(cells, SIGNS, level, level)
    estimate = cells @ SIGNS / np.maximum(cells.sum(axis=1), 1)
    named = words if feature.raw else [lexicon_of(feature).word(int(word)) for word in words]
    found = [
        WordEffect(quote(context.spec, str(word)), int(texts.sum()), Interval(float(e), float(a), float(b)))
        for word, texts, e, a, b in zip(named, cells, estimate, low, high, strict=True)
        if texts.sum()
    ]
    return tuple(sorted(found, key=lambda each: -each.effect.estimate))


def _words_of(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}


def without_text(texts: NDArray[Any], word: str) -> NDArray[Any]:
    """Return raw texts without a word, in any letter case, and without the blanks after it.

    >>> without_text(np.array([["The dog, the cat."]], object), "the")[0, 0]
    'dog, cat.'
    """
    pattern = re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])\s*", re.IGNORECASE)
    shorter = texts.copy()
    shorter[:, 0] = [pattern.sub("", text) for text in texts[:, 0].tolist()]
    return shorter


def without_word(texts: Ids, word: int) -> Ids:
    """Return the texts without a word; the words after it move forward.

    >>> without_word(np.array([[5, 7, 5, 2, 0]], np.int32), 5)
    array([[7, 2, 0, 0, 0]], dtype=int32)
    """
    removed = texts == word
    order = np.argsort(removed, axis=1, kind="stable")
    return np.take_along_axis(np.where(removed, 0, texts), order, axis=1)
