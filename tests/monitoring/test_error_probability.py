"""The promise of a monitor: at a gap of exactly the threshold any decision, after any row, is wrong, and rare.

Each test is 600 seeded streams, so its result is the same every time. A rule whose error is delta exceeds LIMIT with
probability 1e-6 only; one that is not sound must exceed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from fairchain.monitoring.bounds import MonitoredProperty, existing, gap_between, next_decisions
from fairchain.statistics.intervals import clopper_pearson
from fairchain.statistics.rate_counts import any_time

STREAMS, ROWS, DELTA = 600, 300, 0.1
LIMIT = int(binom.ppf(1 - 1e-6, STREAMS, DELTA))
AT_THE_BOUNDARY = [
    ("difference", 0.1, (0.0, 0.1)),
    ("difference", 0.5, (0.0, 0.5)),
    ("difference", 0.1, (0.45, 0.55)),
    ("difference", 0.3, (0.2, 0.5, 0.2, 0.5)),
    ("ratio", 0.8, (0.4, 0.5)),
    ("ratio", 0.5, (0.5, 1.0, 0.75)),
]


class Streams:
    """Many streams at once: counts (streams, rows, groups) after every row, groups numbered as they come."""

    def __init__(self, rates: tuple[float, ...], seed: int = 3, shares: tuple[float, ...] | None = None) -> None:
        rng = np.random.default_rng(seed)
        groups = rng.choice(len(rates), (STREAMS, ROWS), p=shares)
        hits = rng.random((STREAMS, ROWS)) < np.array(rates)[groups]
        first = np.stack([(groups == group).argmax(axis=1) for group in range(len(rates))], axis=1)
        order = first.argsort(axis=1)
        self.rates = np.array(rates)[order]
        mine = np.take_along_axis(order.argsort(axis=1), groups, axis=1)[..., None] == np.arange(len(rates))
        self.trials = mine.cumsum(axis=1)
        self.successes = (mine & hits[..., None]).cumsum(axis=1)

    def bounds(self, rule: Callable[..., Any], question: MonitoredProperty) -> tuple[Any, Any]:
        """(streams, rows, groups) each: bounds of the rates, every count that occurs computed once."""
        low, high = np.empty((2, *self.trials.shape))
        for group, level in enumerate(question.levels(self.trials.shape[2])):
            place = self.trials[..., group], self.successes[..., group]
            occurs = np.zeros((ROWS + 1, ROWS + 1), bool)
            occurs[place] = True
            trials, successes = np.nonzero(occurs)
            table = np.empty((2, ROWS + 1, ROWS + 1))
            table[:, trials, successes] = rule(successes, trials, level)
            low[..., group], high[..., group] = table[0][place], table[1][place]
        return low, high


def decided(low: Any, high: Any, trials: Any, question: MonitoredProperty) -> Any:
    """1 where bounds of the rates say fair, 2 where they say unfair."""
    here = existing(trials, question)
    below, above = (gap_between(*sides, here, question.kind) for sides in ((low, high), (high, low)))
    fair = (above <= question.limit) & (here.sum(axis=-1) > 1)
    return np.where(below > question.limit, 2, fair.astype(int))


def ever_decided(rule: Callable[..., Any], question: MonitoredProperty, streams: Streams) -> int:
    """In how many streams some row brings a decision."""
    return int((decided(*streams.bounds(rule, question), streams.trials, question) > 0).any(axis=1).sum())


def ever_outside(rule: Callable[..., Any], question: MonitoredProperty, streams: Streams) -> int:
    """In how many streams some group's rate is once outside its interval: the event that all promises rest on."""
    low, high = streams.bounds(rule, question)
    rates = streams.rates[:, None, :]
    return int(((rates < low) | (rates > high)).any(axis=(1, 2)).sum())


def question_of(kind: Any, threshold: float, groups: int, *, named: bool) -> MonitoredProperty:
    return MonitoredProperty(
        threshold=threshold, kind=kind, delta=DELTA, groups=tuple("abcd"[:groups]) if named else ()
    )


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("kind", "threshold", "rates"), AT_THE_BOUNDARY)
def test_decisions_at_the_boundary_are_rarer_than_delta(
    kind: str, threshold: float, rates: tuple[float, ...], named: bool
) -> None:
    question = question_of(kind, threshold, len(rates), named=named)
    streams = Streams(rates)
    assert ever_decided(any_time, question, streams) <= DELTA * STREAMS
    assert ever_outside(any_time, question, streams) <= DELTA * STREAMS


def test_what_is_tested_is_what_the_program_decides_by() -> None:
    question = question_of("difference", 0.3, 3, named=False)
    streams = Streams((0.1, 0.1, 0.9), shares=(0.2, 0.5, 0.3))
    expected = decided(*streams.bounds(any_time, question), streams.trials, question)
    for row in (0, 5, 60, 150, ROWS - 1):
        found = next_decisions(0, 0, streams.trials[:, row], streams.successes[:, row], question)
        assert (found == expected[:, row]).all()


def test_looking_again_and_again_at_intervals_for_fixed_samples_fails_these_very_tests() -> None:
    """Only looking is to blame: with a rate of 0 in one group, one interval at delta is enough for a fixed sample."""
    question = question_of("difference", 0.5, 2, named=True)
    streams = Streams((0.0, 0.5), shares=(0.05, 0.95))
    last = streams.trials[:, -1], streams.successes[:, -1]
    for rule in (clopper_pearson, any_time):
        assert (decided(*rule(last[1], last[0], DELTA), last[0], question) > 0).sum() <= DELTA * STREAMS

    def peeking(successes: Any, trials: Any, _: float) -> Any:
        return clopper_pearson(successes, trials, DELTA)

    def sound(successes: Any, trials: Any, _: float) -> Any:
        return any_time(successes, trials, DELTA)

    assert ever_decided(sound, question, streams) <= DELTA * STREAMS
    assert ever_decided(peeking, question, streams) > LIMIT
    assert ever_outside(clopper_pearson, question, Streams((0.45, 0.55))) > LIMIT


def test_decisions_away_from_the_boundary_are_right() -> None:
    """Power: gaps of 0 and 0.95 against 0.55."""
    for rates, place in (((0.5, 0.5), 1), ((0.0, 0.95), 2)):
        streams = Streams(rates)
        found = next_decisions(
            0, 0, streams.trials[:, -1], streams.successes[:, -1], MonitoredProperty(threshold=0.55, delta=0.001)
        )
        assert (found == place).mean() > 0.95
        assert (found == 3 - place).sum() == 0
