"""Promises of `populations.distributions`: draws have exactly the probabilities that are stated.

Probabilities are compared as fractions; nothing here is a matter of chance except the words that are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairchain.populations.distributions import MOST_LISTED, MOST_SEARCHED, Counted, Listed, Range, Ranges, uniform_over
from fairchain.populations.streams import Address
from fairchain.spec import Domain

HERE = Address(5, 6)
DOMAINS = [Domain(2, 5), Domain(3, 3), Domain(0, 9), Domain(1, 8, points=(1, 4, 8))]


def chances(distribution: Counted | Listed | Ranges) -> dict[float, Fraction]:
    """The probability of each value of a distribution over whole numbers."""
    found: Counter[float] = Counter()
    if isinstance(distribution, Counted):
        found.update(dict(zip(distribution.values.tolist(), distribution.counts.tolist(), strict=True)))
    elif isinstance(distribution, Listed):
        found.update(distribution.values.tolist())
    else:
        for low, high, weight in distribution.parts:
            for value in np.arange(low, high + 1).tolist():
                found[value] += weight / Fraction(high - low + 1)  # type: ignore[assignment]  # fractions
    total = sum((Fraction(count) for count in found.values()), Fraction(0))
    return {value: Fraction(count) / total for value, count in found.items() if count}


def given_that(chance: dict[float, Fraction], domain: Domain) -> dict[float, Fraction]:
    inner = {value: share for value, share in chance.items() if domain.contains(value)}
    return {value: share / sum(inner.values()) for value, share in inner.items()}


columns = st.lists(st.integers(0, 9), min_size=1, max_size=60).map(lambda values: np.array(values, np.float64))
weights = st.lists(st.integers(0, 10**6), min_size=3, max_size=3).filter(any)


def three_pieces(counts: list[int]) -> Ranges:
    """Whole numbers 0..1, 3..6 and 7..9 with these weights."""
    pieces = zip([(0, 1), (3, 6), (7, 9)], counts, strict=True)
    return Ranges(tuple(Range(low, high, Fraction(count)) for (low, high), count in pieces if count), real=False)


@given(columns)
def test_a_column_is_drawn_as_often_as_its_values_stand_there(column: NDArray[np.float64]) -> None:
    rows = Counter(column.tolist())
    expected = {value: Fraction(count, len(column)) for value, count in rows.items()}
    assert chances(Counted.of(column)) == expected
    assert chances(Counted.of(column).ready()) == expected


@pytest.mark.parametrize("shift", [0.5, 2.0**40])
def test_columns_of_any_numbers_are_counted(shift: float) -> None:
    column = np.array([3, 1, 3, 2, 3, 2**31]) + shift
    assert Counted.of(column).values.tolist() == [1 + shift, 2 + shift, 3 + shift, 2**31 + shift]
    assert Counted.of(column).counts.tolist() == [1, 1, 3, 1]


@given(columns, st.sampled_from(DOMAINS))
def test_a_restricted_column_is_the_column_given_the_domain(column: NDArray[np.float64], domain: Domain) -> None:
    distribution = Counted.of(column)
    part = distribution.within(domain)
    inside = [value for value in column.tolist() if domain.contains(value)]
    assert part.mass / distribution.mass == Fraction(len(inside), len(column))
    if inside:
        assert chances(part.ready()) == given_that(chances(distribution), domain)


@given(weights, st.sampled_from(DOMAINS))
def test_restricted_pieces_are_the_pieces_given_the_domain(counts: list[int], domain: Domain) -> None:
    distribution = three_pieces(counts)
    part = distribution.within(domain)
    expected = given_that(chances(distribution), domain)
    assert part.mass / distribution.mass == sum(
        share for value, share in chances(distribution).items() if domain.contains(value)
    )
    if expected:
        assert chances(part) == chances(part.ready()) == expected


def test_real_pieces_are_cut_exactly() -> None:
    distribution = Ranges((Range(0.0, 1.0, Fraction(1)), Range(1.0, 3.0, Fraction(3))), real=True)
    part = distribution.within(Domain(0.25, 2.0, real=True))
    assert part.parts == ((0.25, 1.0, Fraction(3, 4)), (1.0, 2.0, Fraction(3, 2)))
    assert not distribution.within(Domain(3.0, 4.0, real=True)).parts


def test_large_lists_with_few_values_are_searched_and_others_stay_lists() -> None:
    few = Counted(np.arange(3.0), np.array([MOST_LISTED, 7, 11]))
    many = Counted(np.arange(MOST_LISTED + 1.0), np.ones(MOST_LISTED + 1, np.int64))
    assert isinstance(few.ready(), Ranges)
    assert chances(few.ready()) == chances(few)
    assert isinstance(many.ready(), Listed)
    assert len(few.values) < MOST_SEARCHED < len(many.values)
    assert isinstance(uniform_over(Domain(0, MOST_LISTED)).ready(), Ranges)
    assert isinstance(uniform_over(Domain(0, 9)).ready(), Listed)


# ------------------------------------------------------------------------------------------------ choosing a range
def chosen_by_hand(distribution: Ranges, bits: Iterator[int]) -> int:
    """Inverse CDF of the real number with these words as digits, to 320 binary digits."""
    real = sum(Fraction(next(bits), 2 ** (32 * (place + 1))) for place in range(10))
    edge = Fraction(0)
    for number, part in enumerate(distribution.parts):
        edge += part.weight / distribution.mass
        if real < edge:
            return number
    raise AssertionError


def words_around(distribution: Ranges) -> NDArray[np.uint32]:
    """Words at which the choice changes, their neighbours, and both ends."""
    edges = np.cumsum([0, *(int(part.weight / distribution.mass * 2**32) for part in distribution.parts)])
    near = (edges[:, None] + np.arange(-2, 3)).ravel()
    return near[(near >= 0) & (near < 2**32)].astype(np.uint32)


@given(weights)
def test_a_range_is_chosen_by_inverse_cdf_to_the_last_digit(counts: list[int]) -> None:
    distribution = Ranges(tuple(Range(i, i, Fraction(count)) for i, count in enumerate(counts) if count), real=False)
    words = words_around(distribution)
    drawn = np.broadcast_to(distribution.draw([words], HERE, 9), words.shape)
    more = iter(HERE.halfwords(10_000, 9).tolist())
    marks = {int(sum(counts[:i]) * 2**32 // sum(counts)) for i in range(1, len(counts))}
    for word, value in zip(words.tolist(), drawn.tolist(), strict=True):
        low, high = (chosen_by_hand(distribution, iter([word, *[digit] * 9])) for digit in (0, 2**32 - 1))
        if low != high:
            assert word in marks
        if low == high:
            assert value == distribution.parts[low].low
        else:
            assert value == distribution.parts[chosen_by_hand(distribution, iter([word, *[next(more)] * 9]))].low


def test_an_open_word_is_settled_by_further_words_with_the_right_chance() -> None:
    """The edge 1/3 is 0x55555555.5555... in words: of all that begin with 0x55555555 a third lies below it."""
    distribution = Ranges((Range(0, 0, Fraction(1)), Range(1, 1, Fraction(2))), real=False)
    words = np.full(6000, 0x55555555, np.uint32)
    drawn = distribution.draw([words], HERE, 9)
    further = HERE.halfwords(6000, 9)
    assert np.array_equal(drawn, further > 0x55555555)
    assert (distribution.draw([words - np.uint32(1)], HERE, 9) == 0).all()
    assert (distribution.draw([words + np.uint32(1)], HERE, 9) == 1).all()


@given(weights)
def test_the_guide_says_what_the_law_draws_or_nothing(counts: list[int]) -> None:
    distribution = Ranges(tuple(Range(i, i, Fraction(count)) for i, count in enumerate(counts) if count), real=False)
    guide = distribution.guide(8)
    assert guide is not None
    words = np.concatenate([words_around(distribution), HERE.halfwords(500)])
    drawn = np.broadcast_to(distribution.draw([words], HERE, 9), words.shape)
    hint = guide[words >> np.uint32(24)]
    assert (np.isnan(hint) | (hint == drawn)).all()
    assert np.isnan(guide).sum() <= len(distribution.parts) - 1


def test_wide_ranges_have_no_guide() -> None:
    assert three_pieces([1, 1, 1]).guide(8) is None


def test_a_place_in_a_wide_range_is_drawn_again_for_surplus_words() -> None:
    """Of a range of 3 * 2**30 numbers a quarter of all words is surplus; both ranges here have their own substream."""
    size = 3 * 2**30
    distribution = Ranges((Range(0, size - 1, Fraction(1)), Range(size, 2 * size - 1, Fraction(1))), real=False)
    words: list[Any] = [HERE.halfwords(4000), HERE.halfwords(4000, 1)]
    drawn = np.asarray(distribution.draw(words, HERE, 9))
    upper = words[0] >= 2**31
    assert np.array_equal(drawn >= size, upper)
    place = words[1].astype(np.uint64) * np.uint64(size)
    again = (place & np.uint64(2**32 - 1)) < 2**30
    assert np.array_equal((drawn - size * upper)[~again], (place >> np.uint64(32))[~again])
    for number, rows in enumerate([again & ~upper, again & upper]):
        fresh = HERE.integers(size, int(rows.sum()), 9 + ((1 + number) << 32))
        assert np.array_equal(drawn[rows] - number * size, fresh)


def test_reals_stay_in_their_ranges() -> None:
    distribution = Ranges((Range(0.1, 0.3, Fraction(1)), Range(0.7, 0.7000000000000001, Fraction(1))), real=True)
    top = np.full(2, 2**32 - 1, np.uint32)
    for word in (0, 2**31 - 1, 2**31, 2**32 - 1):
        drawn = np.asarray(distribution.draw([np.full(2, word, np.uint32), top, top], HERE, 9))
        low, high, _ = distribution.parts[word >= 2**31]
        assert ((drawn >= low) & (drawn <= high)).all()
