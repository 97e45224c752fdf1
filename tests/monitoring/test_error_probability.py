"""The promise of a monitor: at a gap of exactly the threshold any decision is wrong, at any row, and rare.

Each test is 2000 seeded streams, looked at after every row, so its result is the same every time. A rule whose error
is delta exceeds `limit` with probability 1e-6 only; one that is not sound must exceed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fairchain.evidence.counts import any_time
from fairchain.evidence.interval import clopper_pearson
from fairchain.monitoring.bounds import Question, decisions, existing, ranged_gap

STREAMS, ROWS, DELTA = 2000, 500, 0.1
LIMIT = int(binom.ppf(1 - 1e-6, STREAMS, DELTA))
AT_THE_BOUNDARY = [
    ("difference", 0.1, (0.0, 0.1)),
    ("difference", 0.1, (0.45, 0.55)),
    ("difference", 0.3, (0.2, 0.5, 0.2, 0.5)),
    ("ratio", 0.8, (0.4, 0.5)),
    ("ratio", 0.5, (0.5, 1.0, 0.75)),
]


def streams(rates: tuple[float, ...], seed: int) -> tuple[Any, Any]:
    """(streams, rows) each: groups numbered as they come, in a different order each time, and who gets the outcome."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, len(rates), (STREAMS, ROWS))
    hits = rng.random((STREAMS, ROWS)) < np.array(rates)[groups]
    first = np.stack([(groups == group).argmax(axis=1) for group in range(len(rates))], axis=1)
    return np.take_along_axis(first.argsort(axis=1).argsort(axis=1), groups, axis=1), hits


def ever_decided(bounds: Callable[..., Any], question: Question, rates: tuple[float, ...]) -> int:
    """In how many streams some row brings a decision."""
    groups, hits = streams(rates, seed=3)
    size = len(rates)
    # Every possible count once, instead of every stream's own.
    asked, got = np.meshgrid(np.arange(ROWS + 1), np.arange(ROWS + 1), indexing="ij")
    got = np.minimum(got, asked)
    tables = [bounds(got, asked, level) for level in question.levels(size)]
    low, high = (np.stack([table[side] for table in tables]) for side in (0, 1))
    counts, own = np.zeros((2, STREAMS, size), np.int64)
    decided = np.zeros(STREAMS, bool)
    each = np.arange(STREAMS)
    for row in range(ROWS):
        counts[each, groups[:, row]] += 1
        own[each, groups[:, row]] += hits[:, row]
        place = np.arange(size), counts, own
        below, above = ranged_gap(low[place], high[place], existing(counts, question), question.kind)
        decided |= (below > question.limit) | (above <= question.limit)
    # The tables say what the program itself would say.
    assert ((decisions(counts, own, question) > 0) <= decided).all() or bounds is not any_time
    return int(decided.sum())


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("kind", "threshold", "rates"), AT_THE_BOUNDARY)
def test_decisions_at_the_boundary_are_rarer_than_delta(
    kind: Any, threshold: float, rates: tuple[float, ...], named: bool
) -> None:
    groups = tuple("abcd"[: len(rates)]) if named else ()
    question = Question(threshold=threshold, kind=kind, delta=DELTA, groups=groups)
    assert ever_decided(any_time, question, rates) <= DELTA * STREAMS


@pytest.mark.parametrize("rates", [(0.45, 0.55), (0.1, 0.2)])
def test_looking_again_and_again_at_an_interval_for_fixed_samples_fails_this_very_test(
    rates: tuple[float, ...],
) -> None:
    question = Question(threshold=0.1, delta=DELTA, groups=("a", "b"))
    assert ever_decided(clopper_pearson, question, rates) > LIMIT


def test_decisions_away_from_the_boundary_are_right() -> None:
    """Power: with gaps of 0 and 0.7 against 0.4, all streams are decided, and each rightly but for delta."""
    for rates, place in (((0.5, 0.5), 1), ((0.1, 0.8), 2)):
        groups, hits = streams(rates, seed=4)
        asked = np.stack([(groups == group).sum(axis=1) for group in (0, 1)], axis=1)
        got = np.stack([((groups == group) & hits).sum(axis=1) for group in (0, 1)], axis=1)
        found = decisions(asked, got, Question(threshold=0.4, delta=0.001))
        assert (found == place).mean() > 0.95
        assert (found == 3 - place).sum() == 0
