"""Promises of `population.streams`: words by address, the same for ever, and exactly uniform numbers made of them.

Each statistical test would fail for one seed in a million if what it promises held; the seeds are fixed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from fairchain.populations.streams import Address, scaled, surplus, unit_reals

RARE = 1e-6
# A quarter of all words must be rejected for this size; without rejection every third value comes twice as often.
AWKWARD = 3 * 2**30

GOLDEN_ORIGIN = [149215387, 49592932, 2628306354, 1037445899, 1569730169, 478570405]
GOLDEN_FAR = [1938078873, 4227158243, 1271897102, 3071488237, 93365095]
GOLDEN_DIGITS = [2, 9, 8, 3, 9, 7, 4, 5]
GOLDEN_AWKWARD = [657587297, 3007801220, 2622716859]


def test_the_words_of_an_address_are_pinned() -> None:
    """Certificates name their draws by address: a change here would make every one of them uncheckable."""
    assert Address(0, 0).halfwords(6).tolist() == GOLDEN_ORIGIN
    assert Address(2**63 - 1, 12345, copy=6).halfwords(5, substream=3).tolist() == GOLDEN_FAR


def test_the_integers_of_an_address_are_pinned() -> None:
    assert Address(1, 2).integers(10, 8, substream=3).tolist() == GOLDEN_DIGITS
    assert Address(1, 2).integers(AWKWARD, 3, substream=3).tolist() == GOLDEN_AWKWARD


def test_a_word_decides_its_own_place_alone() -> None:
    """A rejected word is drawn again elsewhere; were the others moved up, two sizes would mix places."""
    address = Address(1, 2)
    words = address.halfwords(4000)
    for size in (10, AWKWARD):
        found = address.below(words, size, substream=3)
        values, low = scaled(words, np.uint64(size))
        kept = low >= surplus(size)
        assert np.array_equal(found[kept], values[kept])
        assert np.array_equal(found[~kept], address.integers(size, int((~kept).sum()), substream=3))
    assert 800 < (~kept).sum() < 1200
    assert chisquare(np.bincount(address.below(words, AWKWARD, substream=3) % 3)).pvalue > RARE


def test_threads_that_draw_at_the_same_time_get_the_words_of_their_addresses() -> None:
    addresses = [Address(4, chunk) for chunk in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda address: address.halfwords(20_000).tobytes(), addresses))
    assert found == [address.halfwords(20_000).tobytes() for address in addresses]
    assert len(set(found)) == len(found)


def test_a_seed_beyond_64_bits_has_words_of_its_own() -> None:
    fresh = np.random.Philox(key=2**100 + 7, counter=[0, 3, 2, 1]).random_raw(4)
    assert Address(2**100 + 7, 2, copy=1).halfwords(8, substream=3).tolist() == fresh.view(np.uint32).tolist()


def test_words_are_32_bits_and_a_shorter_request_is_a_prefix() -> None:
    words = Address(5, 6).halfwords(1001)
    assert words.dtype.itemsize == 4
    assert words.shape == (1001,)
    for count in (0, 1, 2, 7, 1000):
        assert np.array_equal(Address(5, 6).halfwords(count), words[:count])


def test_the_same_address_gives_the_same_bytes_whatever_was_drawn_before() -> None:
    first = Address(3, 9).halfwords(64).tobytes()
    Address(3, 8).halfwords(1000)
    Address(3, 9).integers(AWKWARD, 50, substream=1)
    assert Address(3, 9).halfwords(64).tobytes() == first


def test_seeds_chunks_copies_and_lanes_are_different_streams() -> None:
    streams = [
        Address(seed, chunk, copy).halfwords(4, substream).tobytes()
        for seed in (0, 1, 2**62)
        for chunk in (0, 1, 2**40)
        for copy in (0, 1, 500)
        for substream in (0, 1, 700)
    ]
    assert len(set(streams)) == 81


@pytest.mark.parametrize("size", [1, 2, 3, 10, 2**16 + 1, AWKWARD, 2**32 - 1, 2**32])
def test_the_surplus_leaves_a_multiple_of_the_size(size: int) -> None:
    assert (2**32 - surplus(size)) % size == 0
    assert 0 <= surplus(size) < size


@pytest.mark.parametrize("size", [3, 5, 7, 48, 250])
def test_multiply_shift_with_rejection_is_exactly_uniform(size: int) -> None:
    """The same arithmetic on 8-bit words, where every word can be tried."""
    kept = [word * size >> 8 for word in range(256) if (word * size) % 256 >= 256 % size]
    assert {value: kept.count(value) for value in range(size)} == dict.fromkeys(range(size), 256 // size)


def test_multiply_shift_is_the_exact_product() -> None:
    words = Address(4, 4).halfwords(500)
    high, low = scaled(words, np.uint64(AWKWARD))
    assert [(int(h) << 32) + int(lo) for h, lo in zip(high, low, strict=True)] == [int(w) * AWKWARD for w in words]


@pytest.mark.parametrize("size", [2, 3, 7, 10, 61])
def test_integers_are_uniform_and_reach_both_ends(size: int) -> None:
    draws = Address(11, size).integers(size, 40_000, substream=1)
    counts = np.bincount(draws, minlength=size)
    assert len(counts) == size
    assert chisquare(counts).pvalue > RARE


def test_integers_are_uniform_where_rejection_is_frequent() -> None:
    draws = Address(11, 0).integers(AWKWARD, 30_000, substream=1)
    assert draws.max() < AWKWARD
    assert chisquare(np.bincount(draws % 3)).pvalue > RARE
    assert chisquare(np.histogram(draws, bins=20, range=(0, AWKWARD))[0]).pvalue > RARE


def test_without_rejection_the_same_test_would_fail() -> None:
    biased, _ = scaled(Address(11, 0).halfwords(30_000, substream=1), np.uint64(AWKWARD))
    assert chisquare(np.bincount(biased % 3)).pvalue < RARE


def test_asking_for_fewer_integers_gives_a_prefix() -> None:
    many = Address(8, 8).integers(AWKWARD, 1000, substream=2)
    for count in (1, 2, 333):
        assert np.array_equal(Address(8, 8).integers(AWKWARD, count, substream=2), many[:count])


def test_reals_lie_in_the_unit_interval_and_use_53_bits() -> None:
    top = np.array([2**32 - 1], np.uint32)
    zero = np.zeros(1, np.uint32)
    assert unit_reals(zero, zero)[0] == 0
    assert unit_reals(top, top)[0] == 1 - 2.0**-53
    assert unit_reals(zero, np.array([2**11], np.uint32))[0] == 2.0**-53


def test_reals_are_uniform() -> None:
    reals = unit_reals(Address(2, 2).halfwords(20_000), Address(2, 2).halfwords(20_000, substream=1))
    assert kstest(reals, "uniform").pvalue > RARE


def test_lanes_and_copies_are_not_correlated() -> None:
    """The correlation of 20,000 independent pairs exceeds 5 standard deviations once in 1.7 million."""
    streams = [Address(1, 1, copy).halfwords(20_000, substream) for copy in (0, 1) for substream in (0, 1)]
    table = np.corrcoef(np.array(streams, np.float64))
    assert np.abs(table - np.eye(4)).max() < 5 / np.sqrt(20_000)
