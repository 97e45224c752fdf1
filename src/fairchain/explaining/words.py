"""Effects of words in texts: how much less often a text has the outcome when one word is removed from it.

The words are the most frequent ones in the texts on which the two groups differ, on the pilot; the texts from which
they are removed are fresh.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.context import INPUTS, PILOT, ComparedPair, EffectContext
from fairchain.explaining.effect_bounds import SIGNS, mean_bounds
from fairchain.explaining.result import WordEffect
from fairchain.statistics import Interval
from fairchain.text import lexicon_of
from fairchain.verification.witnesses import quote

Ids = NDArray[np.int32]
MOST_WORDS, ROUNDS = 30, 4096


def word_effects(context: EffectContext, pair: ComparedPair, rounds: int) -> tuple[WordEffect, ...]:
    """Return words in texts of the group that has the outcome more often, by falling effect; none without texts."""
    feature = context.spec.text
    if feature is None:
        return ()
    words = _frequent(context, pair)
    if not len(words):
        return ()
    cells = np.zeros((len(words), 3), np.int64)
    wanted = min(rounds, ROUNDS)
    for chunk, start in enumerate(range(0, wanted, context.chunk)):
        shown = context.inputs(INPUTS + chunk, min(context.chunk, wanted - start))
        texts: NDArray[Any] = next(inputs.copy() for group, inputs in enumerate(shown) if group == pair.more)
        positive = (context.model.predict(texts) == pair.label).astype(np.int8)
        for place, word in enumerate(words.tolist()):
            rows = np.flatnonzero((texts == word).any(axis=1))
            if len(rows):
                others: NDArray[Any] = without_word(texts[rows], word)
                after = (context.model.predict(others) == pair.label).astype(np.int8)
                # Texts with the outcome only without the word, with and without it alike, and only with it.
                cells[place] += np.bincount(positive[rows] - after + 1, minlength=3)
    level = context.spec.guarantee.delta / (2 * len(words))
    low, high = mean_bounds(cells, SIGNS, level, level)
    estimate = cells @ SIGNS / np.maximum(cells.sum(axis=1), 1)
    lexicon = lexicon_of(feature)
    found = [
        WordEffect(
            quote(context.spec, lexicon.word(int(word))), int(texts.sum()), Interval(float(e), float(a), float(b))
        )
        for word, texts, e, a, b in zip(words, cells, estimate, low, high, strict=True)
        if texts.sum()
    ]
    return tuple(sorted(found, key=lambda each: -each.effect.estimate))


def _frequent(context: EffectContext, pair: ComparedPair) -> Ids:
    """Return the words of most of the texts that have the outcome as one group and not as the other."""
    shown = {group: texts.copy() for group, texts in enumerate(context.inputs(PILOT, context.chunk))}
    labels = np.stack([context.model.predict(shown[group]) for group in (pair.more, pair.less)])
    differ = shown[pair.more][pair.values(labels) > 0]
    # Each text counts a word once: sorted, it is new where it differs from its neighbour.
    ordered = np.sort(differ, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    words, counts = np.unique(ordered[new & (ordered > 0)], return_counts=True)
    chosen: Ids = words[np.lexsort((words, -counts))[:MOST_WORDS]]
    return chosen


def without_word(texts: Ids, word: int) -> Ids:
    """Return the texts without a word; the words behind it move up.

    >>> without_word(np.array([[5, 7, 5, 2, 0]], np.int32), 5)
    array([[7, 2, 0, 0, 0]], dtype=int32)
    """
    removed = texts == word
    order = np.argsort(removed, axis=1, kind="stable")
    return np.take_along_axis(np.where(removed, 0, texts), order, axis=1)
