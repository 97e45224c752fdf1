"""Exact weights of the points of a tile, for an enumeration: products of factors as sums of digits without rounding."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.populations.finite import Factor

# Number of cached vectors of weights; a vector has a number for each point of a tile.
MOST_KEPT_VECTORS = 128
# Sums of integers below this are exact in double precision, in any order of addition.
MOST_EXACT = 2**53
# Bits of a weight that are multiplied with other integers at once.
PIECE = 20
# OpenBLAS computes matrix products of at most this many terms in one thread. Those of a tile are too small for several
# threads, which would mostly wait for each other.
MOST_OPENBLAS_TERMS = 2**18
# A factor as an array with its outer columns first, and their positions among all outer columns.
Arranged = tuple[NDArray[Any], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class WeightVector:
    """The weights of the points of a tile, without a common factor.

    `digits` are the weights in some base, the lowest digit first, in double precision, such that every sum of them is
    exact; None if all weights are 1. `possible` marks the weights that are not 0; None if all are.
    """

    digits: tuple[NDArray[np.float64], ...] | None
    base: int
    total: int
    count: int
    possible: NDArray[np.bool_] | None

    @classmethod
    def of(cls, weights: NDArray[Any]) -> WeightVector:
        """Return the vector of an array of integers."""
        size = max(weights.size, 1)
        count = int(np.count_nonzero(weights))
        possible = None if count == weights.size else np.asarray(weights > 0)
        if bool((weights == 1).all()):
            return cls(None, 1, weights.size, count, None)
        base = 1 << (MOST_EXACT // size).bit_length() - 1
        digits = []
        left = weights.astype(object)
        while left.any():
            digits.append((left % base).astype(np.float64))
            left //= base
        total = sum(int(digit.sum()) * base**place for place, digit in enumerate(digits))
        return cls(tuple(digits), base, total, count, possible)

    def by_label(self, labels: NDArray[np.integer], classes: int) -> list[int]:
        """Return the weight of the points with each label."""
        if self.digits is None:
            if classes == 2:
                ones = int(np.count_nonzero(labels))
                return [self.total - ones, ones]
            found: list[int] = np.bincount(labels, minlength=classes).tolist()
            return found
        sums = [0] * classes
        for place, digit in enumerate(self.digits):
            unit = self.base**place
            if classes == 2:
                sums[1] += int(np.dot(labels.astype(np.float64), digit)) * unit
            else:
                for label, each in enumerate(np.bincount(labels, weights=digit, minlength=classes).tolist()):
                    sums[label] += int(each) * unit
        if classes == 2:
            sums[0] = self.total - sums[1]
        return sums

    def together(self, got: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the weight of the points that have both of two properties, for all pairs of rows of `got`."""
        if self.digits is None:
            # Single precision counts the points of a tile exactly.
            shown = got.astype(np.float32)
            return _products(shown, shown)
        shown = got.astype(np.float64)
        weights = [_products(shown * digit, shown) for digit in self.digits]
        if len(weights) == 1:
            return weights[0]
        units = [self.base**place for place in range(len(weights))]
        return np.asarray(sum(each.astype(object) * unit for each, unit in zip(weights, units, strict=True)))

    @cached_property
    def _pieces(self) -> list[tuple[NDArray[np.float64], int]]:
        """The weights in pieces of at most `PIECE` bits, each with its unit."""
        if self.digits is None:
            return [(np.ones(self.total), 1)]
        found = []
        for place, digit in enumerate(self.digits):
            left, unit = digit.astype(np.int64), self.base**place
            while left.any():
                found.append(((left & 2**PIECE - 1).astype(np.float64), unit))
                left, unit = left >> PIECE, unit << PIECE
        return found

    def by_share(self, shares: NDArray[Any]) -> list[int]:
        """Return the weighted sums of non-negative integers of each point, (points, numbers), exactly."""
        most, sums = int(shares.max(initial=0)), [0] * shares.shape[1]
        for piece, unit in self._pieces:
            # The number of bits at once for which sums of products are exact.
            bits = MOST_EXACT.bit_length() - 1 - len(piece).bit_length() - int(piece.max()).bit_length()
            for low in range(0, most.bit_length(), bits):
                part = shares if most < 2**bits else shares >> low & 2**bits - 1
                weighted = np.einsum("x,xi->i", piece, part.astype(np.float64)).tolist()
                sums = [one + int(other) * (unit << low) for one, other in zip(sums, weighted, strict=True)]
        return sums


def _products(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int64]:
    """Return the sums of the products of all rows of one array with all rows of another; all are integers."""
    step = max(64, MOST_OPENBLAS_TERMS // (len(first) * len(second)))
    found = np.zeros((len(first), len(second)), first.dtype)
    for start in range(0, first.shape[1], step):
        found += first[:, start : start + step] @ second[:, start : start + step].T
    return found.astype(np.int64)


class TileWeights:
    """The weights of a tile's points for each choice of the other columns, from the factors of one measure.

    `inner` are the columns of the tile, and `outer` those that are set for a block, including protected ones. `sizes`
    has the number of values of each column, and `strip` the points in a strip of a tile of one long column.
    """

    def __init__(
        self, factors: Sequence[Factor], inner: Sequence[int], outer: Sequence[int], sizes: Sequence[int], strip: int
    ) -> None:
        self._strip = strip
        self._shape = tuple(sizes[column] for column in inner) or (1,)
        self._kept: dict[tuple[int, ...], WeightVector] = {}
        self._lock = threading.Lock()
        # Factors without a column of the tile multiply a whole block.
        plain = [factor for factor in factors if not set(factor.columns) & set(inner)]
        self._scales = [self._arranged(factor, (), outer, object) for factor in plain]
        mixed = [factor for factor in factors if set(factor.columns) & set(inner)]
        self._depends = tuple(
            place for place, column in enumerate(outer) if any(column in factor.columns for factor in mixed)
        )
        most = prod(int(factor.weights.max()) for factor in mixed)
        self._dtype: Any = np.int64 if most < 2**62 else object
        self._mixed = [self._arranged(factor, inner, outer, self._dtype) for factor in mixed]

    @staticmethod
    def _arranged(factor: Factor, inner: Sequence[int], outer: Sequence[int], dtype: Any) -> Arranged:
        """Return a factor with outer columns first, then an axis for each column of the tile; and their positions."""
        first = [axis for axis, column in enumerate(factor.columns) if column in outer]
        last = [factor.columns.index(column) for column in inner if column in factor.columns]
        # A column that is neither has a single value.
        single = [axis for axis in range(len(factor.columns)) if axis not in first + last]
        weights = factor.weights.transpose(first + last + single)
        shape = [factor.weights.shape[axis] for axis in first]
        shape += [
            factor.weights.shape[factor.columns.index(column)] if column in factor.columns else 1 for column in inner
        ]
        places = tuple(outer.index(column) for column in factor.columns if column in outer)
        return weights.reshape(shape).astype(dtype), places

    def at(self, chosen: Sequence[int], strip: int) -> tuple[int, WeightVector]:
        """Return the common factor and the weights of a tile, given the values of outer columns.

        For a tile of one long column, those of a strip.
        """
        scale = 1
        for weights, places in self._scales:
            scale *= int(weights.item(*(chosen[place] for place in places)))
        key = (strip, *(chosen[place] for place in self._depends))
        vector = self._kept.get(key)
        if vector is None:
            rows = slice(strip * self._strip, (strip + 1) * self._strip)
            found = np.ones(self._shape, np.int64).astype(self._dtype)[..., rows]
            for factor, places in self._mixed:
                part = factor[tuple(chosen[place] for place in places)]
                found = found * (part[..., rows] if part.shape[-1] > 1 else part)
            vector = WeightVector.of(found.reshape(-1))
            with self._lock:
                if len(self._kept) >= MOST_KEPT_VECTORS:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[key] = vector
        return scale, vector
