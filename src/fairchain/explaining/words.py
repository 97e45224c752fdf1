"""Words of texts: how much less often a text gets the outcome when one word is left out of it.

Words to look at are the most frequent ones in the texts on which the two groups differ, on the pilot; the texts they
are left out of are fresh.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.context import PEOPLE, PILOT, ComparedPair, EffectContext
from fairchain.explaining.effect_bounds import SIGNS, mean_bounds
from fairchain.explaining.result import WordEffect
from fairchain.statistics import Interval
from fairchain.text import lexicon_of

Ids = NDArray[np.int32]
MOST_WORDS, ROUNDS = 30, 4096


def word_effects(case: EffectContext, question: ComparedPair, rounds: int) -> tuple[WordEffect, ...]:
    """The words of texts of the group that gets the outcome more often, in order of their effect."""
    if case.spec.text is None:
        return ()
    words = _frequent(case, question)
    if not len(words):
        return ()
    cells = np.zeros((len(words), 3), np.int64)
    wanted = min(rounds, ROUNDS)
    for chunk, start in enumerate(range(0, wanted, case.chunk)):
        cells += _counted(case, question, words, PEOPLE + chunk, min(case.chunk, wanted - start))
    level = case.spec.guarantee.delta / (2 * len(words))
    low, high = mean_bounds(cells, SIGNS, level, level)
    estimate = cells @ SIGNS / np.maximum(cells.sum(axis=1), 1)
    lexicon = lexicon_of(case.spec.text)
    found = [
        WordEffect(lexicon.word(int(word)), int(seen.sum()), Interval(float(e), float(a), float(b)))
        for word, seen, e, a, b in zip(words, cells, estimate, low, high, strict=True)
        if seen.sum()
    ]
    return tuple(sorted(found, key=lambda each: -each.effect.estimate))


def _frequent(case: EffectContext, question: ComparedPair) -> Ids:
    """The words that stand in most of the texts that get the outcome as one group and not as the other."""
    shown = {group: texts.copy() for group, texts in enumerate(case.people(PILOT, case.chunk))}
    texts = shown[question.more]
    labels = np.stack([case.model.predict(shown[group]) for group in (question.more, question.less)])
    differ = texts[question.values(labels) > 0]
    # Each text counts a word once: sorted, it is new where it differs from its neighbour.
    ordered = np.sort(differ, axis=1)
    new = np.ones(ordered.shape, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    words, counts = np.unique(ordered[new & (ordered > 0)], return_counts=True)
    chosen: Ids = words[np.lexsort((words, -counts))[:MOST_WORDS]]
    return chosen


def _counted(case: EffectContext, question: ComparedPair, words: Ids, chunk: int, count: int) -> NDArray[np.int64]:
    """(words, 3): among texts with the word, how many get the outcome only without it, the same, and only with it."""
    texts: NDArray[Any] = next(
        people.copy() for group, people in enumerate(case.people(chunk, count)) if group == question.more
    )
    got = (case.model.predict(texts) == question.label).astype(np.int8)
    cells = np.zeros((len(words), 3), np.int64)
    for place, word in enumerate(words.tolist()):
        rows = np.flatnonzero((texts == word).any(axis=1))
        if len(rows):
            others: NDArray[Any] = left_out(texts[rows], word)
            without = (case.model.predict(others) == question.label).astype(np.int8)
            cells[place] = np.bincount(got[rows] - without + 1, minlength=3)
    return cells


def left_out(texts: Ids, word: int) -> Ids:
    """The texts without a word; those behind it move up.

    >>> left_out(np.array([[5, 7, 5, 2, 0]], np.int32), 5)
    array([[7, 2, 0, 0, 0]], dtype=int32)
    """
    gone = texts == word
    order = np.argsort(gone, axis=1, kind="stable")
    return np.take_along_axis(np.where(gone, 0, texts), order, axis=1)
