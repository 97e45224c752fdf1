"""Parameters of a repair: a few numbers in [-1, 1], 0 for no change, and the weights computed from them.

`scales` multiplies the outgoing weights of a unit, as the paper does, by a factor from 0 to 2. `biases` changes the
biases of units and of the last layer, `last-layer` each weight there, `low-rank` each weight of the protected features.
`thresholds` moves decision thresholds. Units are the protected features, then those that `explain` ranks first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fairchain.explaining.result import EffectMeasure, Explanation
from fairchain.models.edit.weights import GATES, WeightArray, WeightBlock, Weights, WeightUnit
from fairchain.repairing.result import Adjustment
from fairchain.spec import Spec

Point = NDArray[np.float64]
CHANGEABLE = ("auto", "scales", "biases", "last-layer", "low-rank", "threshold", "group-thresholds")
# Reductions of the influence of the protected features at the starting points.
REDUCTIONS = np.arange(1, 17) / 16
# Largest number of scores of a last layer whose biases are changed one by one at the starting points.
MOST_MOVED = 4
# Largest change of a weight of a linear model, in multiples of its value.
FAR = 4.0
# The key of the thresholds among the arrays of a candidate.
THRESHOLDS = "thresholds"
# Selection rates that all groups share at the starting points, and fractions of the way to them.
TARGETS, STEPS = 41, (1.0, 0.75, 0.5)


@dataclass(frozen=True)
class NamedUnit:
    """A unit with its name in reports; `protected` if it is a protected feature."""

    unit: WeightUnit
    name: str
    protected: bool = False


def protected_units(spec: Spec, weights: Weights) -> list[NamedUnit]:
    """Return the protected features that the network reads and whose weights can be changed."""
    names = [feature.name for feature in spec.features]
    units = [NamedUnit(WeightUnit("", names.index(name)), f"feature {name}", True) for name in spec.protected]
    return [each for each in units if weights.outgoing(each.unit)]


def ranked_units(
    explanation: Explanation, spec: Spec, weights: Weights, count: int, measure: EffectMeasure
) -> list[NamedUnit]:
    """Return the first unprotected features and neurons of an explanation whose weights can be changed."""
    found: list[NamedUnit] = []
    for influence in explanation.ranked(measure):
        if influence.tensor is None:
            name = spec.features[influence.place].name if influence.kind == "feature" else ""
            unit = WeightUnit("", influence.place) if name and name not in spec.protected else None
            named = f"feature {name}"
        else:
            unit, named = weights.unit(influence.tensor, influence.place), influence.name
        if unit is not None and weights.outgoing(unit):
            found.append(NamedUnit(unit, named))
        if len(found) == count:
            break
    return found


class Scales:
    """Factors for the outgoing weights of units.

    `means` has for each tensor that is multiplied with weights the mean of its entries. A unit's signal h then becomes
    f h + (1 - f) mean(h): it varies less and keeps its mean, through the bias of the next layer. With None, as in the
    paper's method, it becomes f h.
    """

    def __init__(self, weights: Weights, units: Sequence[NamedUnit], means: Mapping[str, WeightArray] | None) -> None:
        self._base = weights.values
        self._units = [each for each in units if weights.outgoing(each.unit)]
        self._columns = [
            [(block, entries, constant_part(block, entries, self._base, means)) for block, entries in outgoing]
            for outgoing in (weights.outgoing(each.unit) for each in self._units)
        ]
        blocks = [block for columns in self._columns for block, _, _ in columns]
        biases = [block.bias for block in blocks if block.bias and means is not None]
        self.tensors = tuple(dict.fromkeys([*(block.tensor for block in blocks), *biases]))
        self.names = tuple(f"factor of {each.name}" for each in self._units)

    def weights(self, point: Point) -> dict[str, WeightArray]:
        """Return the tensors with these factors."""
        changed = {name: self._base[name].copy() for name in self.tensors}
        for value, columns in zip(point, self._columns, strict=True):
            for block, entries, constant in columns:
                np.moveaxis(changed[block.tensor], block.axis, 0)[entries] *= 1 + value
                if constant is not None:
                    bias, amount = changed[block.bias or ""], -value * constant
                    part = (
                        bias[:, block.shift : block.shift + amount.shape[1]] if amount.ndim == 2 else bias.reshape(-1)
                    )
                    part += amount
        return changed

    def starts(self) -> list[Point]:
        """Return points that reduce the factors of all protected features together from 1 to 0."""
        protected = np.array([float(each.protected) for each in self._units])
        return [-share * protected for share in REDUCTIONS] if protected.any() else []

    def adjustments(self, point: Point) -> tuple[Adjustment, ...]:
        """Return the factors."""
        return tuple(Adjustment(name, 1.0, 1 + float(v)) for name, v in zip(self.names, point, strict=True))


def constant_part(
    block: WeightBlock, entries: Sequence[int], base: Mapping[str, WeightArray], means: Mapping[str, WeightArray] | None
) -> WeightArray | None:
    """Return the mean contribution of these entries to the layer's bias; None if it is not kept."""
    if means is None or block.bias is None or block.source not in means:
        return None
    mean = means[block.source]
    # A flattened channel has many entries; either the mean of each entry is known, or none.
    if len(mean) != base[block.tensor].shape[block.axis]:
        return None
    share = np.tensordot(mean[list(entries)], block.columns(base[block.tensor], entries), axes=1)
    # A convolution also sums over its window.
    return block.gain * (share.reshape(len(share), -1).sum(axis=1) if block.operator == "Conv" else share)


@dataclass(frozen=True)
class Shifts:
    """Single weights or biases, each changed by up to `reach`.

    `places` are (tensor, flat index); `partners` gives for each the biases that change in the opposite direction, so
    that the mean of the layer's sums is kept.
    """

    base: Mapping[str, WeightArray]
    places: tuple[tuple[str, int], ...]
    reach: tuple[float, ...]
    names: tuple[str, ...]
    partners: tuple[tuple[str, int, float] | None, ...] = ()
    first: tuple[Point, ...] = field(default=(), repr=False)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The tensors that contain them."""
        partners = [each[0] for each in self.partners if each is not None]
        return tuple(dict.fromkeys([*(tensor for tensor, _ in self.places), *partners]))

    def weights(self, point: Point) -> dict[str, WeightArray]:
        """Return the tensors with these shifts."""
        changed = {name: self.base[name].copy() for name in self.tensors}
        for number, ((tensor, index), amount) in enumerate(zip(self.places, point * self.reach, strict=True)):
            changed[tensor].reshape(-1)[index] += amount
            partner = self.partners[number] if self.partners else None
            if partner is not None:
                changed[partner[0]].reshape(-1)[partner[1]] -= amount * partner[2]
        return changed

    def starts(self) -> list[Point]:
        """Return the given points."""
        return list(self.first)

    def adjustments(self, point: Point) -> tuple[Adjustment, ...]:
        """Return the numbers themselves."""
        olds = [float(self.base[tensor].reshape(-1)[index]) for tensor, index in self.places]
        moves = point * self.reach
        return tuple(
            Adjustment(name, old, old + float(move)) for name, old, move in zip(self.names, olds, moves, strict=True)
        )


class ThresholdParameters:
    """One threshold, or one for each group: numbers in [-1, 1], 0 for the original threshold.

    A positive number v rejects the share v of the selected rows, those with the lowest scores first; a negative one
    selects the share -v of the others, those with the highest scores first. Thresholds lie between two scores that
    occur. `cut` is the original threshold; `scores` has the scores of each group on the search data or, for one
    threshold, those of all rows.
    """

    tensors = (THRESHOLDS,)

    def __init__(self, cut: float, scores: Sequence[Point], names: Sequence[str]) -> None:
        self._cut = cut
        self._values = [np.unique(each) for each in scores]
        self._sorted = [np.sort(each) for each in scores]
        self._rates = [float(np.mean(each > cut)) if len(each) else 0.0 for each in scores]
        self.names = tuple(f"threshold of {name}" if name else "threshold" for name in names)

    def weights(self, point: Point) -> dict[str, WeightArray]:
        """Return the thresholds."""
        return {THRESHOLDS: np.array([self._threshold(place, float(v)) for place, v in enumerate(point)])}

    def _threshold(self, place: int, moved: float) -> float:
        scores, values, rate = self._sorted[place], self._values[place], self._rates[place]
        if moved == 0 or not len(scores):
            return self._cut
        wanted = rate * (1 - moved) if moved > 0 else rate + (1 - rate) * -moved
        # The largest share of rows above a threshold that is at most the requested one.
        left_out = min(len(scores), round((1 - wanted) * len(scores)))
        if left_out == 0:
            return float(np.nextafter(values[0], -np.inf)) if len(values) < 2 else float(values[0] - _step(values))
        largest = scores[left_out - 1]
        above = int(np.searchsorted(values, largest, side="right"))
        if above == len(values):
            return float(largest + _step(values))
        return float((largest + values[above]) / 2)

    def point_of(self, rates: Sequence[float]) -> Point:
        """Return the point at which the groups have these selection rates."""
        found = []
        for rate, now in zip(rates, self._rates, strict=True):
            moved = (now - rate) / now if rate < now else (now - rate) / (1 - now) if now < 1 else 0.0
            found.append(float(np.clip(moved, -1.0, 1.0)))
        return np.array(found)

    def starts(self) -> list[Point]:
        """Return points at which all groups have the same selection rate, and intermediate points."""
        targets = np.linspace(0.0, 1.0, TARGETS + 2)[1:-1]
        now = np.array(self._rates)
        return [self.point_of(((1 - step) * now + step * target).tolist()) for step in STEPS for target in targets]

    def adjustments(self, point: Point) -> tuple[Adjustment, ...]:
        """Return the thresholds before and after."""
        after = self.weights(point)[THRESHOLDS]
        return tuple(Adjustment(name, self._cut, float(t)) for name, t in zip(self.names, after, strict=True))


def _step(values: Point) -> float:
    """Return half of the smallest distance between two scores."""
    return float(np.diff(values).min() / 2) if len(values) > 1 else 1.0


# A number in [-1, 1] for each of `names`, 0 for no change; `tensors` are the arrays that depend on them.
Parameters = Scales | Shifts | ThresholdParameters


def last_layer(weights: Weights) -> Shifts:
    """Return each weight and bias of the last layer; the first points change only a bias, which shifts every decision
    alike.

    The range of a bias is that of the sum of all inputs of its unit.
    """
    block = weights.blocks[-1]
    values = weights.values[block.tensor]
    typical, together = typical_size(values), values.shape[block.axis]
    size = weights.values[block.bias].size if block.bias else 0
    places = [(block.tensor, index) for index in range(values.size)]
    places += [(block.bias, index) for index in range(size)] if block.bias else []
    reach = (typical,) * values.size + (typical * together,) * size
    unit = np.eye(len(places))
    # With two scores it is enough to change one.
    moved = range(values.size + (size > 1), len(places)) if size <= MOST_MOVED else ()
    first = tuple(sign * share * unit[place] for place in moved for share in REDUCTIONS for sign in (1.0, -1.0))
    return Shifts(weights.values, tuple(places), reach, _names(weights, places), first=first)


def linear_layer(
    weights: Weights, protected: Sequence[NamedUnit], means: Mapping[str, WeightArray], *, protected_too: bool
) -> Shifts:
    """Return each weight of a linear model, changed by up to `FAR` times its value, and its biases.

    To remove the influence of features that are correlated with the group, a weight may have to change its sign. The
    mean contribution of a weight is kept through the bias, so its range does not depend on the unit of its feature.
    `protected_too`: whether weights of the protected features may change.
    """
    block = weights.blocks[-1]
    base, mean = weights.values[block.tensor], means.get(block.source)
    own = {entry for each in protected for entry in block.entries(each.unit)}
    kept = mean is not None and block.bias is not None and base.ndim == 2 and len(mean) == base.shape[block.axis]
    places: list[tuple[str, int]] = []
    partners: list[tuple[str, int, float] | None] = []
    of_protected: list[bool] = []
    for flat, index in enumerate(np.ndindex(base.shape)):
        entry, output = index[block.axis], index[1 - block.axis]
        if entry in own and not protected_too:
            continue
        places.append((block.tensor, flat))
        of_protected.append(entry in own)
        average = block.gain * float(mean[entry]) if kept and mean is not None else 0.0
        partners.append((block.bias or "", output, average) if kept else None)
    old = np.array([float(base.reshape(-1)[flat]) for _, flat in places])
    # The range of a bias is that of a typical weight with a typical input.
    typical = typical_size(base) * (1 + (float(np.abs(mean).mean()) if mean is not None else 0.0))
    biases = [(block.bias, place) for place in range(weights.values[block.bias].size)] if block.bias else []
    starts = tuple(
        np.append(-share * np.sign(old) * of_protected, np.zeros(len(biases)))
        for share in REDUCTIONS
        if any(of_protected)
    )
    reach = (*(FAR * np.abs(old)).tolist(), *(typical for _ in biases))
    every = (*places, *biases)
    return Shifts(weights.values, every, reach, _names(weights, every), (*partners, *(None for _ in biases)), starts)


def unit_biases(weights: Weights, units: Sequence[NamedUnit]) -> Shifts:
    """Return the biases of these units, and those of the last layer."""
    makers = {block.output: block for block in weights.blocks}
    wanted = [(makers[u.unit.layer], u.unit.place) for u in units if u.unit.layer in makers]
    last = weights.blocks[-1]
    wanted += [(last, j) for j in range(weights.values[last.bias].size if last.bias else 0)]
    places: list[tuple[str, int]] = []
    reach: list[float] = []
    for block, index in wanted:
        # A recurrent operator has a bias for each of its gates; none of them alone is the cell's.
        if block.bias is None or (block.bias, index) in places or block.operator in GATES:
            continue
        places.append((block.bias, index))
        reach.append(typical_size(weights.values[block.bias]))
    return Shifts(weights.values, tuple(places), tuple(reach), _names(weights, places))


def low_rank(weights: Weights, protected: Sequence[NamedUnit], means: Mapping[str, WeightArray]) -> Shifts:
    """Return each weight of the protected features; their mean contribution is kept through the bias."""
    places: list[tuple[str, int]] = []
    owners: list[str] = []
    partners: list[tuple[str, int, float] | None] = []
    found = [(each.name, *outgoing) for each in protected for outgoing in weights.outgoing(each.unit)]
    for owner, block, entries in found:
        base = weights.values[block.tensor]
        numbers = np.moveaxis(np.arange(base.size).reshape(base.shape), block.axis, 0)[entries]
        mean = means.get(block.source)
        kept = mean is not None and block.bias is not None and base.ndim == 2 and len(mean) == base.shape[block.axis]
        for entry, row in zip(entries, numbers.reshape(len(entries), -1).tolist(), strict=True):
            places += [(block.tensor, flat) for flat in row]
            owners += [owner] * len(row)
            average = block.gain * float(mean[entry]) if kept and mean is not None else 0.0
            partners += [(block.bias or "", place, average) if kept else None for place in range(len(row))]
    old = np.array([float(weights.values[tensor].reshape(-1)[index]) for tensor, index in places])
    starts = tuple(-share * np.sign(old) for share in REDUCTIONS)
    reach = tuple(np.abs(old).tolist())
    names = tuple(f"{name} of {owner}" for name, owner in zip(_names(weights, places), owners, strict=True))
    return Shifts(weights.values, tuple(places), reach, names, tuple(partners), starts)


def typical_size(values: WeightArray) -> float:
    """Return the root mean square; 1 if all are zero."""
    return float(np.sqrt(np.mean(np.square(values, dtype=np.float64)))) or 1.0


def _names(weights: Weights, places: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(
        f"{tensor}[{', '.join(str(int(i)) for i in np.unravel_index(index, weights.values[tensor].shape))}]"
        for tensor, index in places
    )
