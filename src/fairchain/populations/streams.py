"""Random numbers by address: the words of (seed, chunk, substream) are the same on every machine, in every version.

Philox is a counter-based generator: a chunk's words are computed from its number, so chunks can be drawn in any order,
by any number of workers. Only raw words are taken from numpy (their stream is guaranteed not to change); integers and
reals are derived from them here.
"""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

HalfWords = NDArray[np.uint32]
RealArrays = tuple[NDArray[np.float64], HalfWords, NDArray[np.float64]]
# A word and its halves, the low one first.
WORD, HALF = np.dtype("<u8"), np.dtype("<u4")
# Raw words in a piece. Memory of this size is used again at once; larger arrays can be new memory of the system each
# time, which takes as long as drawing (Dask sets this for its workers).
RAW_PIECE = 2**13
# The substream of the words for drawn labels; no population uses it.
DECISION_SUBSTREAM = 2**63


class _ThreadGenerator(threading.local):
    """A random generator for each thread."""

    def __init__(self) -> None:
        # Lists: numpy reads the state number by number, and takes longer for those of an array.
        self.counter, self.key = [0, 0, 0, 0], [0, 0]
        # The state of a generator before its first draw.
        self.state: Any = {
            "bit_generator": "Philox",
            "state": {"counter": self.counter, "key": self.key},
            "buffer": [0, 0, 0, 0],
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }

    @cached_property
    def generator(self) -> np.random.Philox:
        """A generator whose state is set for each draw: a new one would first take a seed from the system."""
        return np.random.Philox(key=0)


_thread = _ThreadGenerator()


class Address(Struct, frozen=True):
    """The address of random words: a seed, a chunk, and a `copy` for independent draws of the same chunk."""

    seed: int
    chunk: int
    copy: int = 0

    def halfwords(self, count: int, substream: int = 0, out: NDArray[np.uint64] | None = None) -> HalfWords:
        """Return `count` 32-bit words, the low half of each raw word first. Substreams are independent streams.

        `out` receives the raw words, piece by piece.
        """
        own = _thread
        own.counter[1], own.counter[2], own.counter[3] = substream, self.chunk, self.copy
        own.key[0], own.key[1] = self.seed % 2**64, self.seed >> 64
        own.generator.state = own.state
        raw, needed = own.generator.random_raw, (count + 1) // 2
        if out is None:
            out = raw(needed)
        else:
            for start in range(0, needed, RAW_PIECE):
                out[start : min(start + RAW_PIECE, needed)] = raw(min(RAW_PIECE, needed - start))
        return out.astype(WORD, copy=False).view(HALF)[:count]

    def integers(self, size: int, count: int, substream: int) -> NDArray[np.uint32]:
        """Draw `count` exactly uniform integers in [0, size), by rejection on one substream."""
        kept = np.empty(0, np.uint32)
        wanted = count
        while kept.size < count:
            # Each word is kept with probability above 1/2. Requesting a longer prefix of the same stream, not its
            # continuation, keeps this a pure function of the address.
            wanted *= 2
            values, low = scaled(self.halfwords(wanted, substream), np.uint64(size))
            kept = values[low >= surplus(size)]
        return kept[:count]

    def below(self, words: HalfWords, size: int, substream: int) -> NDArray[np.uint32]:
        """Return an exactly uniform integer in [0, size) for each word; rejected ones are drawn again on `substream`.

        The integer at a position depends on no other position's word, so two sizes may share their words if they do not
        share the substream: positions remain independent.
        """
        index, low = scaled(words, np.uint64(size))
        again = low < surplus(size)
        if again.any():
            index[again] = self.integers(size, int(again.sum()), substream)
        return index


def decision_words(seed: int, chunk: int, count: int, copy: int = 0) -> HalfWords:
    """Return the word of each round of a chunk that determines all its drawn decisions, (count,)."""
    return Address(seed, chunk, copy).halfwords(count, DECISION_SUBSTREAM)


def surplus(size: int) -> int:
    """Return the number of the 2**32 words that must be rejected so that `size` values are equally likely."""
    return int(2**32 % size)


def scaled(
    halfwords: HalfWords, size: NDArray[np.uint64] | np.uint64, out: NDArray[np.uint64] | None = None
) -> tuple[NDArray[np.uint32], HalfWords]:
    """Return the high half of word * size, an integer in [0, size), and its low half (multiply-shift).

    Words with a low half below `surplus(size)` must be rejected. `out` receives the products.
    """
    parts = np.multiply(halfwords, size, dtype=np.uint64, out=out).astype(WORD, copy=False).view(HALF)
    return parts[..., 1::2], parts[..., ::2]


def unit_reals(high: HalfWords, low: HalfWords, out: RealArrays | None = None) -> NDArray[np.float64]:
    """Return reals in [0, 1) with 53 random bits, from two words each.

    Of the arrays in `out`, the first one receives them, and the others the low bits as integers and as reals.
    """
    reals, bits, fine = out or (None, None, None)
    reals = np.multiply(high, 2.0**-32, out=reals)
    fine = np.multiply(np.right_shift(low, np.uint32(11), out=bits), 2.0**-53, out=fine)
    return np.add(reals, fine, out=reals)
