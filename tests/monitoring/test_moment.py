"""Promise of the search: it finds the very row that looking at every row would find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.monitoring.bounds import DECISIONS, GroupCounts, MonitoredProperty, existing, largest_gap, next_decisions
from fairchain.monitoring.moment import first_change, rows_unchanged
from fairchain.statistics.rate_counts import any_time, gaps_of
from fairchain.statistics.rules import Decision


def rows_of(seed: int, groups: int, size: int) -> tuple[Any, Any]:
    """Groups numbered as they come and outcomes, whose rates are exchanged half way."""
    rng = np.random.default_rng(seed)
    rates = rng.random(groups) if seed % 3 else np.full(groups, rng.random())
    drawn = rng.choice(groups, size, p=rng.dirichlet(np.full(groups, 0.7)))
    hits = rng.random(size) < np.where(np.arange(size) < size // 2, rates[drawn], rates[::-1][drawn])
    order = {group: place for place, group in enumerate(dict.fromkeys(drawn.tolist()))}
    return np.array([order[group] for group in drawn.tolist()]), hits


def counts_of(codes: Any, hits: Any, groups: int) -> GroupCounts:
    empty = GroupCounts(tuple("abcdef"[:groups]), np.zeros(groups, np.int64), np.zeros(groups, np.int64))
    return empty.after(codes, hits)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(2, 5),
    size=st.integers(1, 400),
    before=st.floats(0, 1),
    threshold=st.floats(0.05, 0.95),
    kind=st.sampled_from(["difference", "ratio"]),
    delta=st.sampled_from([0.01, 0.3, 0.9]),
    named=st.booleans(),
)
def test_the_first_change_is_that_of_looking_at_every_row(
    seed: int, groups: int, size: int, before: float, threshold: float, kind: Any, delta: float, named: bool
) -> None:
    question = MonitoredProperty(
        threshold=threshold, kind=kind, delta=delta, groups=tuple("abcdef"[:groups]) if named else ()
    )
    codes, hits = rows_of(seed, groups, size)
    start = int(before * (size - 1))
    counts = counts_of(codes[:start], hits[:start], groups)
    mine = codes[start:, None] == np.arange(groups)
    asked = counts.asked + mine.cumsum(axis=0)
    got = counts.got + (mine & hits[start:, None]).cumsum(axis=0)
    came = int(existing(counts.asked, question).sum())
    for place, now in enumerate(DECISIONS):
        each = next_decisions(place, came, asked, got, question)
        changed = np.flatnonzero(each != place)
        expected = (int(changed[0]), DECISIONS[each[changed[0]]]) if len(changed) else None
        assert first_change(now, counts, codes[start:], hits[start:], question) == expected
        # Rows that are said to change nothing do not, if no group comes with them.
        no_new = existing(asked, question).sum(axis=1) == came
        safe = min(rows_unchanged(now, counts, question), int(no_new.sum()))
        assert (each[:safe] == place).all()


@given(
    got=st.integers(0, 10**5),
    failed=st.integers(0, 10**5),
    level=st.floats(1e-9, 0.99),
)
def test_bounds_rise_with_an_outcome_and_fall_with_any_other_row(got: int, failed: int, level: float) -> None:
    """What the search rests on (docs/monitor.md, "The moment"), up to the search's own slack."""
    now, more, less = ((got, got + failed), (got + 1, got + failed + 1), (got, got + failed + 1))
    low, high = any_time(*zip(now, more, less, strict=True), level)  # type: ignore[arg-type]  # pairs of tuples
    for side in (low, high):
        assert side[2] - 1e-10 <= side[0] <= side[1] + 1e-10


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=6),
    st.sampled_from(["difference", "ratio"]),
)
def test_the_largest_gap_is_that_of_all_pairs(bounds: list[tuple[int, int]], kind: Any) -> None:
    more, less = np.array(bounds).T / 1000
    pairs = gaps_of(more[None], less[None], kind)[0][~np.eye(len(bounds), dtype=bool)]
    assert largest_gap(more, less, kind) == pytest.approx(pairs.max(), abs=1e-12)


def test_a_long_block_is_searched_quickly_and_to_the_row() -> None:
    """A hundred thousand rows in one block: a few dozen evaluations, not a hundred thousand."""
    rng = np.random.default_rng(1)
    codes, question = rng.integers(0, 2, 100_000), MonitoredProperty(threshold=0.1)
    hits = rng.random(len(codes)) < np.array([0.5, 0.64])[codes]
    empty = counts_of(codes[:0], hits[:0], 2)
    found = first_change(Decision.UNDECIDED, empty, codes, hits, question)
    assert found is not None
    assert found[1] is Decision.UNFAIR
    lows = [counts_of(codes[:end], hits[:end], 2).gap(question).low for end in (found[0], found[0] + 1)]
    assert lows[0] <= 0.1 < lows[1]


def test_nothing_can_be_said_of_fewer_than_two_groups() -> None:
    codes, hits = np.zeros(5000, np.intp), np.ones(5000, bool)
    for question in (MonitoredProperty(threshold=0.9), MonitoredProperty(threshold=0.9, groups=("a", "b"))):
        counts = counts_of(codes[:0], hits[:0], max(1, len(question.groups)))
        assert first_change(Decision.UNDECIDED, counts, codes, hits, question) is None
        gap = counts.after(codes, hits).gap(question)
        assert (gap.low, gap.high) == (0, 1)
