"""Joint weights of decisions about the same points as two groups, for an enumeration: the evidence for a shift of all
groups alike.

For each pair of parts and each outcome, the weight is the excess with which points get the outcome more often as the
first part than as the second. As a part with one combination of protected values, a point gets the outcome or not; as a
part with several, or with drawn labels, it gets the outcome with a frequency (docs/mathematics-tables.md, "Distribution
shift").
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.input_space import InputSpace
from fairchain.statistics.masses import outward, rate_within
from fairchain.statistics.shift import SharedRates
from fairchain.verification.tile_weights import WeightVector

# With more possible frequencies of an outcome, points are compared number by number.
MOST_LEVELS = 16
# The same holds if fewer than one in this many combinations of two parts is a compared pair, as with a reference group.
SPARSE = 16
# Number of pairs that are compared number by number at once, so that their numbers fit in the processor's cache.
COMPARED_AT_ONCE = 16
# Integers below this fit in 64 bits, and so does the difference of two of them.
MOST_DIFFERENCE = 2**62


class PairWeights:
    """The pairs of a space, weighed block by block, for this number of outcomes.

    `words` is the largest number of words in which a point gets a label: 1, or all words if labels are drawn.
    """

    def __init__(self, inputs: InputSpace, outcomes: int, words: int) -> None:
        self.inputs, self.outcomes = inputs, outcomes
        self.portions, self.parts = inputs.portions
        of, self.first, self.second = np.array(inputs.pairs).T
        self.slots = [np.flatnonzero(of == outcome) for outcome in range(outcomes)]
        slots = {pair: slot for slot, pair in enumerate(inputs.pairs)}
        self.reverse = np.array([slots[outcome, j, i] for outcome, i, j in inputs.pairs])
        most = max(self.parts) ** 2
        self.exact: Any = np.int64 if most * words < MOST_DIFFERENCE else object
        # The smallest type that can hold the sums.
        small: Any = bool if inputs.single else np.int8 if max(self.parts) < 2**7 else self.exact
        self.dtype = small if words == 1 else self.exact
        sizes = np.array(self.parts, self.exact)
        # A matrix product compares all parts with each other, which is wasteful if few of them are pairs.
        dense = SPARSE * len(inputs.pairs) >= outcomes * len(self.parts) ** 2
        self.levels = self._levels() if words == 1 and dense else None
        # The factor of a number before it is compared with another, and the denominator of a frequency.
        self.times, self.product = sizes[self.second], sizes[self.first] * sizes[self.second]

    def _levels(self) -> list[tuple[NDArray[Any], Fraction]] | None:
        """Return all frequencies with which a point can get an outcome as a part; None if there are many.

        For each frequency in increasing order: the smallest count that reaches it, (parts, 1), and the step up to it.
        """
        found: set[Fraction] = set()
        for part, whole in enumerate(self.parts):
            sums = {0}
            for portion, shown in zip(self.portions, self.inputs.shown, strict=True):
                if part in shown.parts:
                    sums |= {each + portion for each in sums}
                if len(sums) > MOST_LEVELS + 1:
                    return None
            found |= {Fraction(each, whole) for each in sums if each}
            if len(found) > MOST_LEVELS:
                return None
        levels = sorted(found)
        steps = [level - before for before, level in zip([Fraction(0), *levels], levels, strict=False)]
        reached = [np.array([[ceil(level * part)] for part in self.parts], self.dtype) for level in levels]
        return list(zip(reached, steps, strict=True))


class BlockPairs:
    """The decisions about the points of a block, summed for each part, until all protected values were shown."""

    def __init__(self, pairs: PairWeights, rows: int) -> None:
        self._pairs = pairs
        self._scales: list[list[int]] = [[] for _ in pairs.parts]
        self._vectors: list[WeightVector] = []
        self._got: NDArray[Any] = np.zeros((pairs.outcomes, len(pairs.parts), rows), pairs.dtype)

    def add(self, number: int, found: Sequence[tuple[int, WeightVector]], got: Sequence[NDArray[Any]]) -> None:
        """Add the decisions about points with one choice of protected values: for each outcome a Boolean, or the number
        of words.

        `found` are their weights by each measure. All protected values have the same points in the same proportion, so
        the vectors of one choice apply to all.
        """
        portion = self._pairs.portions[number]
        self._vectors = [vector for _, vector in found]
        for part in self._pairs.inputs.shown[number].parts:
            self._scales[part] = [scale // portion for scale, _ in found]
            for outcome, times in enumerate(got):
                self._got[outcome, part] += times if portion == 1 else times.astype(self._got.dtype) * portion

    def add_to(self, only: NDArray[Any]) -> None:
        """Add the weights of the block to those of all pairs, (measures, pairs), which are Python integers."""
        pairs = self._pairs
        for place, vector in enumerate(self._vectors):
            scales = np.array([own[place] for own in self._scales], object)
            for outcome, slots in enumerate(pairs.slots):
                more = (
                    self._number_by_number(vector, outcome) if pairs.levels is None else self._by_level(vector, outcome)
                )
                only[place, slots] += scales[pairs.first[slots]] * more.astype(object)

    def _by_level(self, vector: WeightVector, outcome: int) -> NDArray[Any]:
        """Return for each pair the weighted excess with which points get an outcome as the first part over the second.

        The minimum of two numbers is the sum of the steps up to all levels that both reach.
        """
        pairs, slots, levels = self._pairs, self._pairs.slots[outcome], self._pairs.levels or []
        i, j, whole = pairs.first[slots], pairs.second[slots], lcm(*(step.denominator for _, step in levels))
        small = vector.total * whole * max(pairs.parts) ** 2 < MOST_DIFFERENCE
        more = np.zeros(len(slots), np.int64 if small else object)
        for least, step in levels:
            both = vector.together(self._got[outcome] >= least)
            more += (both[i, i] - both[i, j]).astype(more.dtype) * int(step * whole)
        return np.asarray(more * pairs.product[slots] // whole)

    def _number_by_number(self, vector: WeightVector, outcome: int) -> NDArray[Any]:
        """Return the same as `_by_level`, if numbers have too many levels, or few combinations of parts are pairs."""
        pairs, slots, got = self._pairs, self._pairs.slots[outcome], self._got[outcome]
        starts = range(0, len(got), COMPARED_AT_ONCE)
        weights = [vector.by_share(got[start : start + COMPARED_AT_ONCE].T) for start in starts]
        totals = np.array([weight for some in weights for weight in some], object)
        more = np.zeros(len(pairs.first), object)
        # Each two parts once: the excess of the second follows from the joint weight.
        once = slots[pairs.first[slots] < pairs.second[slots]]
        for start in range(0, len(once), COMPARED_AT_ONCE):
            some = once[start : start + COMPARED_AT_ONCE]
            i, j, back = pairs.first[some], pairs.second[some], pairs.reverse[some]
            own, other = pairs.times[some], pairs.times[back]
            above = np.maximum(got[i] * own[:, None] - got[j] * other[:, None], 0)
            more[some] = vector.by_share(above.T)
            more[back] = more[some] - totals[i] * own.astype(object) + totals[j] * other.astype(object)
        return more[slots]


def shared_rates(
    inputs: InputSpace,
    shape: tuple[int, ...],
    sums: Sequence[Sequence[Sequence[int]]],
    only: Sequence[Sequence[int]],
    totals: Sequence[int],
) -> SharedRates | None:
    """Return bounds of the joint rates of points as two groups, (outcomes, subgroups, subgroups); None without pairs.

    `sums` (measures, parts, 1 + outcomes) and `only` (measures, pairs) are the weights of all evaluated points, and
    `totals` (parts,) upper bounds of the weights of all points.
    """
    if not inputs.pairs:
        return None
    subgroups = {mean[0]: subgroup for subgroup, mean in enumerate(inputs.means)}
    places, found = [], []
    for slot, (outcome, i, j) in enumerate(inputs.pairs):
        times = inputs.portions[1][j]
        whole, got = ([of_parts[i][place] * times for of_parts in sums] for place in (0, 1 + outcome))
        alone = [weights[slot] for weights in only]
        both = [one - other for one, other in zip(got, alone, strict=True)]
        places.append((outcome, subgroups[i], subgroups[j]))
        found.append([*_share(alone, whole, totals[i] * times), *_share(both, whole, totals[i] * times)])
    bounds = np.zeros((4, *shape))
    bounds[:, *np.array(places).T] = np.array(found).T
    return SharedRates((bounds[0], bounds[1]), (bounds[2], bounds[3]))


def _share(weights: Sequence[int], whole: Sequence[int], total: int) -> tuple[float, float]:
    """Return bounds of a share, from its weight and that of all evaluated points, by each measure."""
    if weights[0] == weights[-1] and whole[0] == whole[-1] == total:
        # Division of integers rounds to the nearest.
        return (weights[0] / total,) * 2
    without = whole[0] - weights[0], whole[-1] - weights[-1]
    _, low, high = outward(*rate_within((weights[0], weights[-1]), without, total - whole[-1]))
    return low, high
