"""Promises of `populations.distributions`: draws have the probabilities that are stated.

Probabilities are compared as fractions; nothing here is random except the words that are tried.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fairchain.populations.distributions import Counted, Range, Ranges, uniform_over
from fairchain.populations.streams import Address
from fairchain.spec import Domain

HERE = Address(5, 6)
DOMAINS = [Domain(2, 5), Domain(3, 3), Domain(0, 9), Domain(1, 8, points=(1, 4, 8))]


def chances(distribution: Counted | Ranges) -> dict[float, Fraction]:
    """The probability of each value of a distribution over whole numbers."""
    found: Counter[float] = Counter()
    if isinstance(distribution, Counted):
        found.update(dict(zip(distribution.values.tolist(), distribution.counts.tolist(), strict=True)))
    else:
        for low, high, weight in distribution.parts:
            for value in np.arange(low, high + 1).tolist():
                found[value] += weight / Fraction(high - low + 1)  # type: ignore[assignment]  # fractions
    return shares_of(found)


def shares_of(found: Counter[float]) -> dict[float, Fraction]:
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
    assert shares_of(Counter(Counted.of(column).entries.tolist())) == expected


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
        assert shares_of(Counter(part.entries.tolist())) == given_that(chances(distribution), domain)


@given(weights, st.sampled_from(DOMAINS))
def test_restricted_pieces_are_the_pieces_given_the_domain(counts: list[int], domain: Domain) -> None:
    distribution = three_pieces(counts)
    part = distribution.within(domain)
    expected = given_that(chances(distribution), domain)
    assert part.mass / distribution.mass == sum(
        share for value, share in chances(distribution).items() if domain.contains(value)
    )
    if expected:
        assert chances(part) == expected


def test_real_pieces_are_cut_exactly() -> None:
    distribution = Ranges((Range(0.0, 1.0, Fraction(1)), Range(1.0, 3.0, Fraction(3))), real=True)
    part = distribution.within(Domain(0.25, 2.0, real=True))
    assert part.parts == ((0.25, 1.0, Fraction(3, 4)), (1.0, 2.0, Fraction(3, 2)))
    assert not distribution.within(Domain(3.0, 4.0, real=True)).parts


def test_counts_with_a_common_divisor_have_a_short_list() -> None:
    assert Counted(np.arange(3.0), np.array([2_000_000, 0, 3_000_000])).entries.tolist() == [0, 0, 2, 2, 2]
    assert uniform_over(Domain(2, 9)).parts == ((2, 9, Fraction(1)),)


def test_every_entry_of_a_list_is_drawn_for_as_many_words() -> None:
    """Of 2**32 words and 3 entries one word is surplus: it is drawn again, every other one goes to its third."""
    drawn = Counted(np.array([5.0, 7.0]), np.array([1, 2]))
    edge = -(-(2**32) // 3)
    words = np.array([0, edge - 1, edge, 2**32 - 1], np.uint32)
    fresh = drawn.entries[HERE.integers(3, 1, 9)[0]]
    assert np.asarray(drawn.draw([words], HERE, 9)).tolist() == [fresh, 5.0, 7.0, 7.0]
    assert Counted(np.array([4.0]), np.array([6])).draw([words], HERE, 9) == 4.0


# ------------------------------------------------------------------------------------------------ inverse CDF
def words_of(place: Fraction) -> NDArray[np.uint32]:
    """The two words whose number of 53 bits is the largest up to a place in [0, 1)."""
    bits = int(place * 2**53)
    return np.array([[bits >> 21], [(bits & 0x1FFFFF) << 11]], np.uint32)


@given(weights, st.integers(0, 2**53 - 1))
def test_a_value_of_whole_ranges_is_where_the_cdf_reaches_the_random_number(counts: list[int], bits: int) -> None:
    distribution, place = three_pieces(counts), Fraction(bits, 2**53)
    (value,) = np.asarray(distribution.draw(words_of(place), HERE, 9)).tolist()
    chance = chances(distribution)
    before = sum((share for other, share in chance.items() if other < value), Fraction(0))
    assert before - Fraction(1, 2**50) <= place <= before + chance[value] + Fraction(1, 2**50)


@given(weights)
def test_around_its_edges_a_range_is_chosen_to_the_fiftieth_bit(counts: list[int]) -> None:
    distribution = Ranges(tuple(Range(i, i, Fraction(count)) for i, count in enumerate(counts) if count), real=False)
    edge = Fraction(0)
    for part, following in zip(distribution.parts[:-1], distribution.parts[1:], strict=True):
        edge += part.weight / distribution.mass
        near = [edge - Fraction(1, 2**50), edge + Fraction(1, 2**50)]
        drawn = [np.asarray(distribution.draw(words_of(place), HERE, 9)).item() for place in near]
        assert drawn == [part.low, following.low]


def test_reals_are_linear_in_their_ranges_and_stay_in_them() -> None:
    distribution = Ranges((Range(0.1, 0.3, Fraction(1)), Range(0.7, 0.7000000000000001, Fraction(1))), real=True)
    for place, expected in [(Fraction(0), 0.1), (Fraction(1, 4), 0.2), (Fraction(1, 2), 0.7)]:
        assert np.asarray(distribution.draw(words_of(place), HERE, 9)) == pytest.approx(expected, abs=1e-15)
    for bits in (0, 2**52 - 1, 2**52, 2**53 - 1):
        (drawn,) = np.asarray(distribution.draw(words_of(Fraction(bits, 2**53)), HERE, 9)).tolist()
        low, high, _ = distribution.parts[bits >= 2**52]
        assert low <= drawn <= high
