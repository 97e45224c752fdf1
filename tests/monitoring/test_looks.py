"""Promises about the looks: decisions depend on the rows alone, and come at most 1% of the rows late."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.monitoring.bounds import (
    DECISIONS,
    GRID,
    MOST_GROUP_ROWS,
    MOST_GROUPS,
    GroupCounts,
    MonitoredProperty,
    advance,
    existing,
    gap_between,
    next_decisions,
)
from fairchain.statistics.payoff import gaps_of
from fairchain.statistics.rules import Decision


def rows_of(seed: int, groups: int, size: int) -> tuple[Any, Any]:
    """Groups numbered as they come and outcomes, whose rates are exchanged half way."""
    rng = np.random.default_rng(seed)
    rates = rng.random(groups) if seed % 3 else np.full(groups, rng.random())
    drawn = rng.choice(groups, size, p=rng.dirichlet(np.full(groups, 0.7)))
    hits = rng.random(size) < np.where(np.arange(size) < size // 2, rates[drawn], rates[::-1][drawn])
    order = {group: place for place, group in enumerate(dict.fromkeys(drawn.tolist()))}
    return np.array([order[group] for group in drawn.tolist()]), hits


def counts_of(codes: Any, hits: Any, groups: int, question: MonitoredProperty) -> GroupCounts:
    zeros = np.zeros(groups, np.int64)
    return GroupCounts(question, tuple("abcdef"[:groups]), zeros, zeros).after(codes, hits)


def decisions(codes: Any, hits: Any, groups: int, question: MonitoredProperty, blocks: list[int]) -> list[Any]:
    """After how many rows the decision changes, and to what, if the rows come in these blocks."""
    counts, decision, found = counts_of(codes[:0], hits[:0], groups, question), Decision.UNDECIDED, []
    for start, stop in pairwise([0, *blocks, len(codes)]):
        done = start
        while done < stop:
            former = decision
            taken, counts, decision = advance(counts, decision, codes[done:stop], hits[done:stop])
            done += taken
            assert counts.rows == done
            if decision is not former:
                found.append((done, decision))
    return found


def at_every_look(codes: Any, hits: Any, groups: int, question: MonitoredProperty) -> list[Any]:
    """The same, from the definition: one look after the other."""
    size = len(codes)
    first = {int(np.flatnonzero(codes == group)[0]) + 1 for group in np.unique(codes)} if not question.groups else set()
    second = {int(each) + 1 for each in np.flatnonzero(hits != hits[0])[:1]}
    now, came, found = 0, len(question.groups), []
    for rows in sorted(first | second | {int(each) for each in GRID if each <= size}):
        counts = counts_of(codes[:rows], hits[:rows], groups, question)
        (new,) = next_decisions(now, came, counts.trials[None], counts.successes[None], question)
        came = int(existing(counts.trials, question).sum())
        if new != now:
            found.append((rows, DECISIONS[new]))
        now = int(new)
    return found


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(2, 5),
    size=st.integers(1, 900),
    cuts=st.lists(st.floats(0, 1), max_size=6),
    threshold=st.floats(0.05, 0.95),
    kind=st.sampled_from(["difference", "ratio"]),
    delta=st.sampled_from([0.01, 0.3, 0.9]),
    named=st.booleans(),
)
def test_decisions_are_those_of_the_looks_whatever_the_blocks(
    seed: int, groups: int, size: int, cuts: list[float], threshold: float, kind: Any, delta: float, named: bool
) -> None:
    names = tuple("abcdef"[:groups]) if named else ()
    question = MonitoredProperty(threshold=threshold, kind=kind, delta=delta, groups=names)
    codes, hits = rows_of(seed, groups, size)
    blocks = sorted(int(cut * size) for cut in cuts)
    assert decisions(codes, hits, groups, question, blocks) == at_every_look(codes, hits, groups, question)


def test_the_grid_has_every_row_at_first_and_then_steps_of_at_most_one_percent() -> None:
    assert GRID[:256].tolist() == list(range(1, 257))
    steps = np.diff(GRID[255:])
    assert (steps >= 1).all()
    assert (steps * 100 <= GRID[255:-1]).all()
    assert GRID[-1] >= MOST_GROUPS * MOST_GROUP_ROWS


def test_a_decision_is_at_most_one_percent_of_the_rows_late() -> None:
    rng = np.random.default_rng(1)
    codes, question = rng.integers(0, 2, 100_000), MonitoredProperty(threshold=0.1)
    hits = rng.random(len(codes)) < np.array([0.5, 0.64])[codes]
    rows, decision = decisions(codes, hits, 2, question, [])[0]
    assert decision is Decision.UNFAIR
    before = int(GRID[np.searchsorted(GRID, rows) - 1])
    lows = [counts_of(codes[:end], hits[:end], 2, question).gap.low for end in (before, rows)]
    assert lows[0] <= 0.1 < lows[1]
    assert rows - before <= before / 100


def test_fair_ends_with_the_first_row_of_a_new_group() -> None:
    question = MonitoredProperty(threshold=0.5)
    codes = np.append(np.tile([0, 1], 1000), 2)
    hits = np.append(np.tile([True, True, False, False], 500), True)
    found = decisions(codes, hits, 3, question, [])
    assert [decision for _, decision in found] == [Decision.FAIR, Decision.UNDECIDED]
    assert found[-1][0] == 2001
    assert 2001 not in GRID


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=2, max_size=6),
    st.sampled_from(["difference", "ratio"]),
)
def test_the_largest_gap_is_that_of_all_pairs(bounds: list[tuple[int, int]], kind: Any) -> None:
    more, less = np.array(bounds).T / 1000
    every = gaps_of(more[None], less[None], kind)[0]
    if kind == "ratio":
        # Groups are compared both ways here, and a rate that may be 0 is not above any other.
        every[more == 0] = 0.0
    pairs = every[~np.eye(len(bounds), dtype=bool)]
    assert gap_between(more, less, np.ones(len(more), bool), kind) == pytest.approx(pairs.max(), abs=1e-12)


def test_nothing_can_be_said_of_fewer_than_two_groups() -> None:
    codes, hits = np.zeros(5000, np.intp), np.ones(5000, bool)
    for question in (MonitoredProperty(threshold=0.9), MonitoredProperty(threshold=0.9, groups=("a", "b"))):
        counts = counts_of(codes[:0], hits[:0], max(1, len(question.groups)), question)
        assert advance(counts, Decision.UNDECIDED, codes, hits)[2] is Decision.UNDECIDED
        gap = counts.after(codes, hits).gap
        assert (gap.low, gap.high) == (0, 1)
