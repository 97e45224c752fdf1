"""A chain of traces says of every end exactly how often traces ended there, whatever loops they took."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.chain.chain import chain_of_traces
from fairchain.errors import ChainError
from fairchain.pctl import check_chain

inner = st.lists(st.sampled_from("abcd"), min_size=0, max_size=12)
cyclic = st.lists(
    st.tuples(st.sampled_from(["f", "g"]), inner, st.sampled_from(["yes", "no"])), min_size=1, max_size=60
)


@settings(deadline=None, max_examples=60)
@given(cyclic)
def test_reaching_an_end_from_a_group_has_the_frequency_that_was_counted(
    traces: list[tuple[str, list[str], str]],
) -> None:
    """The product chain: states carry the group. Also with cycles, to 1e-12."""
    named = [["Start", group, *(f"{group}&{state}" for state in states), end] for group, states, end in traces]
    chain = chain_of_traces(named)
    ends = Counter((group, end) for group, _, end in traces)
    for group in {group for group, _, _ in traces}:
        total = sum(count for (each, _), count in ends.items() if each == group)
        for end in {end for _, _, end in traces}:
            reached = check_chain(chain, f'P=? [ F "{end}" ]', start=group).value
            assert reached == pytest.approx(ends[group, end] / total, abs=1e-12)


def test_a_shared_chain_need_not_agree() -> None:
    """Two groups that take the same states to different ends: without the group, the chain cannot know."""
    chain = chain_of_traces([["Start", "f", "h", "yes"], ["Start", "g", "h", "no"]])
    assert check_chain(chain, 'P=? [ F "yes" ]', start="f").value == pytest.approx(0.5)


def test_what_is_no_set_of_traces_is_an_error() -> None:
    for traces, message in [
        ([], "no traces"),
        ([["Start"]], "at least two"),
        ([["a", "b"], ["c", "b"]], "different states"),
        ([["s", "a", "b"], ["s", "b", "a", "c"]], 'end in "b" and others continue'),
    ]:
        with pytest.raises(ChainError, match=message):
            chain_of_traces(traces)


def test_counts_are_kept() -> None:
    chain = chain_of_traces([["s", "a", "a", "e"], ["s", "e"]])
    assert np.array_equal(chain.counts, [1, 1, 1, 1, 0])
