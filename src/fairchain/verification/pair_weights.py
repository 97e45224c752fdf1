"""What the same points get as two groups, added up for an enumeration: the evidence for a shift of all groups alike.

For each pair of parts and each outcome it is weighed by how much points get the outcome more often as the first part
than as the second. A point gets it once or not at all as a part of one combination of protected values, and a share of
the times as a part of several, or where labels are drawn (docs/mathematics.md, "Distribution shift").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.input_space import TILE, InputSpace
from fairchain.statistics.masses import PartMasses, WeightRange, outward
from fairchain.statistics.shift import SharedRates
from fairchain.verification.tile_weights import WeightVector


class BlockPairs:
    """The decisions about the points of a block, added up for each part, until all protected values were shown.

    Parameters
    ----------
    inputs
        The space, with the pairs.
    outcomes, rows
        How many outcomes are counted, and the points of the block.
    words
        In how many words a point gets a label at most: 1, or all of them where labels are drawn.
    """

    def __init__(self, inputs: InputSpace, outcomes: int, rows: int, words: int) -> None:
        self._inputs, (self._portions, self._parts) = inputs, inputs.portions
        self._scales: list[list[int]] = [[] for _ in inputs.parts]
        self._vectors: list[WeightVector] = []
        # A type that has room for all sums of a block.
        exact: Any = np.int64 if max(self._parts) ** 2 * words * TILE < 2**62 else object
        single = inputs.single and words == 1
        self._got: NDArray[Any] = np.zeros((outcomes, len(inputs.parts), rows), bool if single else exact)

    def add(self, number: int, found: Sequence[tuple[int, WeightVector]], got: Sequence[NDArray[Any]]) -> None:
        """Add what points get with one choice of protected values: for each outcome whether, or in how many words.

        `found` are their weights by each measure. All protected values have the same points in the same proportion, so
        that the vectors of one choice serve all.
        """
        portion = self._portions[number]
        self._vectors = [vector for _, vector in found]
        for part in self._inputs.shown[number].parts:
            self._scales[part] = [scale // portion for scale, _ in found]
            for outcome, times in enumerate(got):
                self._got[outcome, part] += times if portion == 1 else times * portion

    def add_to(self, only: list[list[int]]) -> None:
        """Add the weights of the block to those of all pairs, (measures, pairs)."""
        for place, (vector, sums) in enumerate(zip(self._vectors, only, strict=False)):
            both = [vector.together(got) for got in self._got] if self._got.dtype == bool else []
            for slot, (outcome, i, j) in enumerate(self._inputs.pairs):
                if both:
                    more = both[outcome][i][i] - both[outcome][i][j]
                else:
                    first, second = self._got[outcome, i] * self._parts[j], self._got[outcome, j] * self._parts[i]
                    more = vector.by_share(np.maximum(first - second, 0)[:, None])[0]
                sums[slot] += self._scales[i][place] * more


def shared_rates(
    inputs: InputSpace,
    shape: tuple[int, ...],
    sums: Sequence[Sequence[Sequence[int]]],
    only: Sequence[Sequence[int]],
    totals: Sequence[int],
) -> SharedRates | None:
    """Return bounds of what the points get as two groups, (outcomes, subgroups, subgroups); None without pairs.

    Parameters
    ----------
    inputs, shape
        The space, and the shape of the result.
    sums, only
        (measures, parts, 1 + outcomes) and (measures, pairs): the weights of all points that were evaluated.
    totals
        (parts,): at most the weight of all points.
    """
    if not inputs.pairs:
        return None
    subgroups = {mean[0]: subgroup for subgroup, mean in enumerate(inputs.means)}
    bounds = np.zeros((4, *shape))
    for slot, (outcome, i, j) in enumerate(inputs.pairs):
        times = inputs.portions[1][j]
        whole, got = ([of_parts[i][place] * times for of_parts in sums] for place in (0, 1 + outcome))
        alone = [weights[slot] for weights in only]
        for cell, weights in enumerate((alone, [one - other for one, other in zip(got, alone, strict=True)])):
            within = PartMasses(
                (WeightRange(weights[0], weights[-1]),),
                (WeightRange(whole[0] - weights[0], whole[-1] - weights[-1]),),
                totals[i] * times - whole[-1],
            )
            bounds[2 * cell : 2 * cell + 2, outcome, subgroups[i], subgroups[j]] = outward(*within.rate(0))[1:]
    return SharedRates((bounds[0], bounds[1]), (bounds[2], bounds[3]))
