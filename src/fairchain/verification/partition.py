"""Branch and bound: a partition of all inputs into boxes, and the labels that a network can give in each.

A box is *settled* once the question needs to know no more about it: every member has one decision there. Open boxes
are halved where the bounds gain most; a box with few inputs is evaluated point by point instead. The sums of settled
probabilities give lower and upper bounds that only get narrower (docs/mathematics-exact.md, "Bounds by branch and
bound").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.inspect.linear_bounds import FunctionBounds, InputBoxes, LinearBounds
from fairchain.models.inspect.relu_layers import ReluNetwork, relu_network
from fairchain.models.onnx.decision import DecisionRule
from fairchain.spec import Comparison
from fairchain.verification.boxes import BoxSpace, Floats, WeightedChoice

Masks = NDArray[np.uint32]
# Labels that a network may have here: a bit for each fits into a mask, and each pair of labels is a function.
MOST_BOUNDED_LABELS = 16
# Weights of a layer, at most: a box takes twice as many numbers.
MOST_LAYER_WEIGHTS = 2**22
# A finite box with at most so many inputs is evaluated point by point: that costs no more than its bounds.
FEW_POINTS = 64
# Open boxes that are kept; with more, memory rather than time would end the run.
MOST_BOXES = 2**19
# Boxes without discrimination that are kept to be listed, the most probable ones.
MOST_FREE = 100
# How far a sigmoid of the runtime may be from the exact one, and the lead of scores that settles a softmax.
END_ERROR, END_LEAD = 1e-6, 1e-5


class LabelBounds:
    """The labels that are possible in each box, from the layers and how their output becomes a label.

    `rounding` is as for `LinearBounds`.
    """

    def __init__(self, network: ReluNetwork, decision: DecisionRule, *, rounding: bool = True) -> None:
        self._network, self._decision = network, decision
        labels = self.classes = decision.classes
        if decision.kind == "threshold":
            functions = np.ones((1, 1))
            self._pairs: list[tuple[int, int]] = [(0, 1)]
        else:
            self._pairs = [(i, j) for i in range(labels) for j in range(i + 1, labels)]
            functions = np.zeros((len(self._pairs), labels))
            for row, (i, j) in zip(functions, self._pairs, strict=True):
                row[i], row[j] = -1.0, 1.0
        self.linear = LinearBounds(network, functions, rounding=rounding)

    def __call__(self, boxes: InputBoxes) -> tuple[Masks, Floats]:
        """Return the possible labels of each box as bits, and (rows, inputs): what the bounds depend on most."""
        bounds = self.linear(boxes)
        second, first = self._settled(bounds)
        possible = np.full(len(boxes), (1 << self._decision.classes) - 1, np.uint32)
        for column, (i, j) in enumerate(self._pairs):
            possible[second[:, column]] &= ~np.uint32(1 << i)
            possible[first[:, column]] &= ~np.uint32(1 << j)
        # A function that is already decided needs no smaller box.
        open_functions = ~(first | second)
        weights = (bounds.weights * open_functions[:, :, None]).sum(axis=1)
        return possible, weights

    def _settled(self, bounds: FunctionBounds) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return (rows, functions): where the second label beats the first for sure, and where it does not for sure."""
        end, rule = self._network.end, self._decision
        if rule.kind == "threshold":
            # The comparison may be done in the precision of the scores.
            cuts = (rule.cut, float(np.float32(rule.cut)))
            low, high = bounds.low, bounds.high
            if end == "sigmoid":
                low, high = _sigmoid(low) - END_ERROR, _sigmoid(high) + END_ERROR
            return low > max(cuts), high <= min(cuts)
        lead = END_LEAD if end == "softmax" else 0.0
        return bounds.low > lead, (bounds.high < -lead) if lead else (bounds.high <= 0)


def _sigmoid(values: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)))


def label_bounds(model: Any, *, rounding: bool = True) -> LabelBounds:
    """Return the label bounds of a loaded network.

    It raises a ModelError if it is not a feed-forward ReLU network, or its output is not a score.
    """
    network = relu_network(model)
    decision = model.decision
    if decision.kind not in ("threshold", "argmax") or (decision.kind, network.end) in (
        ("argmax", "sigmoid"),
        ("threshold", "softmax"),
    ):
        raise ModelError(
            f'{model.name}: bounds need the scores behind a decision; choose them: output = "..." in [model]'
        )
    if max(layer.weights.size for layer in network.layers) > MOST_LAYER_WEIGHTS:
        raise ModelError(
            f"{model.name}: has a layer of more than {MOST_LAYER_WEIGHTS:,} weights, too large for bounds; "
            "use another engine"
        )
    if decision.classes > MOST_BOUNDED_LABELS:
        raise ModelError(
            f"{model.name}: has {decision.classes} labels, and bounds are computed for {MOST_BOUNDED_LABELS} at most"
        )
    return LabelBounds(network, decision, rounding=rounding)


@dataclass(frozen=True, eq=False)
class LabelledBoxes:
    """Boxes with their ends, probabilities, the possible labels of each member, and the axis to cut next."""

    low: Floats
    high: Floats
    mass: Floats
    possible: Masks
    axis: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.low)

    @cached_property
    def choice(self) -> WeightedChoice:
        """Draws boxes by their probability."""
        return WeightedChoice(self.mass)

    def take(self, rows: NDArray[Any] | slice) -> LabelledBoxes:
        """Return some of the boxes."""
        return LabelledBoxes(self.low[rows], self.high[rows], self.mass[rows], self.possible[rows], self.axis[rows])

    @staticmethod
    def joined(parts: Iterable[LabelledBoxes]) -> LabelledBoxes:
        """Return all boxes of several."""
        parts = list(parts)
        names = ("low", "high", "mass", "possible", "axis")
        return LabelledBoxes(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class Partition:
    """A partition of all inputs into settled and open boxes.

    `predict` returns the network's own labels of rows of feature values, `comparison` is what is counted, and `apply`
    is a `map` that may use several threads. `boxes` were bounded so far (one for each member) with so many
    `evaluations` of the network; `begun` is whether a step was made, before which nothing is known.
    """

    def __init__(
        self,
        space: BoxSpace,
        bounds: LabelBounds,
        predict: Callable[[NDArray[Any]], NDArray[Any]],
        comparison: Comparison,
        apply: Callable[..., Iterable[Any]] = map,
    ) -> None:
        self.space, self._bounds, self._predict, self._apply = space, bounds, predict, apply
        self._comparison = comparison
        # Sums that were added up, and the most numbers of one of them, for the rounding of both.
        self.boxes = self.evaluations = self._sums = self._longest = 0
        self.begun = False
        # What bits of the possible labels mean for the question: for each outcome its bit and those of all others.
        self._outcomes = [np.uint32(1 << outcome) for outcome in comparison.outcomes]
        members, tables = len(space.members), len(comparison.rows)
        # Of settled boxes, (tables, members or one): where the outcome is certain, impossible, or neither (put aside).
        self._yes, self._no, self._aside = (
            np.zeros((tables, 1 if comparison.individual else members)) for _ in range(3)
        )
        self.relevant = np.ones(members, bool)
        self.labels = np.uint32(0)
        low, high = space.whole
        whole = np.full((1, members), (1 << bounds.classes) - 1, np.uint32)
        # All inputs in one box, which the first step bounds.
        self.open = LabelledBoxes(low, high, np.ones(1), whole, np.zeros(1, np.intp))
        self._free = [self.open.take(slice(0))]

    # -- What is known -----------------------------------------------------------------------------------------------

    @property
    def open_mass(self) -> float:
        """The probability of all open boxes, rounded up."""
        return min(1.0, float(self.open.mass.sum()) * (1 + self.error))

    @property
    def error(self) -> float:
        """A bound on the relative error of every sum of probabilities: of the numbers, and of adding so many."""
        return self.space.relative_error + (self._sums + self._longest + len(self.open) + 64) * 2.0**-52

    def rate_bounds(self) -> tuple[Floats, Floats]:
        """Return bounds of what is counted, (tables, counted) each, rounded outward.

        Of individual discrimination that is the share of changes, and 0 for the second, which never changes.
        """
        yes, no, neither = self._sums_of(self.open.mass, self.open.possible)
        yes, no, neither = self._yes + yes, self._no + no, self._aside + neither
        more, less = 1 + self.error, 1 - self.error
        # Sums of what is missing are exact where nothing is missing; otherwise the difference from 1 is rounded too.
        missing = no + neither
        low = np.maximum(yes * less, 1 - missing * more - np.where(missing > 0, 2.0**-52, 0.0))
        high = np.minimum((yes + neither) * more, 1 - no * less + 2.0**-52)
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
        if self._comparison.individual:
            return np.pad(low, ((0, 0), (0, 1))), np.pad(high, ((0, 0), (0, 1)))
        weights = self.space.weights.T
        slack = 1 + (len(weights) + 8) * 2.0**-52
        return np.minimum(low @ weights / slack, 1.0), np.minimum(high @ weights * slack, 1.0)

    def settled(self) -> Floats:
        """Return (tables, counted): the probability of the outcome in the settled boxes alone."""
        if self._comparison.individual:
            return np.pad(self._yes, ((0, 0), (0, 1)))
        return self._yes @ self.space.weights.T

    def free(self) -> LabelledBoxes:
        """Return the most probable settled boxes in which all members get the same label."""
        boxes = LabelledBoxes.joined(self._free)
        return boxes.take(np.argsort(-boxes.mass, kind="stable")[:MOST_FREE])

    def _sums_of(self, mass: Floats, possible: Masks) -> tuple[Floats, Floats, Floats]:
        """Return (tables, members) of boxes: the probability where the outcome is certain, impossible, neither."""
        if self._comparison.individual:
            changes, stays = self._fates(possible)
            must, never = changes[None, :, None], stays[None, :, None]
        else:
            must = np.stack([possible == bit for bit in self._outcomes])
            never = np.stack([(possible & bit) == 0 for bit in self._outcomes])
        yes, no, neither = (np.einsum("b,obm->om", mass, each) for each in (must, never, ~(must | never)))
        return yes, no, neither

    # -- Refining ----------------------------------------------------------------------------------------------------

    def refine(self, most: int) -> int:
        """Halve the open boxes that matter most, at most so many; the first step bounds all inputs as one box.

        Return how many boxes were replaced; with 0 nothing has changed.
        """
        if not self.begun:
            whole, self.begun = self.open, True
            self.open = whole.take(slice(0))
            self._take_in(whole.low, whole.high, whole.mass, whole.possible)
            return 1
        weight = self.open.mass * self._unsettled(self.open.possible).sum(axis=1)
        weight[self.open.axis < 0] = 0.0
        if not (weight > 0).any() or len(self.open) > MOST_BOXES:
            return 0
        count = min(most, int((weight > 0).sum()))
        # Of equal weights, as most are, the first are taken: which ones a partial sort takes depends on the processor.
        least = np.partition(weight, len(weight) - count)[len(weight) - count]
        chosen = weight > least
        chosen[np.flatnonzero(weight == least)[: count - int(chosen.sum())]] = True
        kept = ~chosen
        split = self.open.take(chosen)
        self.open = self.open.take(kept)
        low, high = self.space.halves(split.low, split.high, split.axis)
        low, high = low.reshape(-1, low.shape[2]), high.reshape(-1, high.shape[2])
        mass = self.space.masses(low, high)
        possible = np.concatenate([split.possible, split.possible])
        there = mass > 0
        self._take_in(low[there], high[there], mass[there], possible[there])
        return count

    def restrict(self, relevant: NDArray[np.bool_]) -> None:
        """Go on with these members only, (members,): boxes that are open for others alone are put aside."""
        if (relevant == self.relevant).all():
            return
        self.relevant = self.relevant & relevant
        done = np.asarray(~self._unsettled(self.open.possible).any(axis=1))
        aside = self.open.take(done)
        self._close(aside.low, aside.high, aside.mass, aside.possible)
        self.open = self.open.take(~done)

    def _take_in(self, low: Floats, high: Floats, mass: Floats, possible: Masks) -> None:
        """Bound new boxes, settle what can be settled, and keep the others."""
        few = self.space.points(low, high) <= FEW_POINTS
        if few.any():
            self._evaluate(low[few], high[few], possible[few])
            low, high, mass, possible = low[~few], high[~few], mass[~few], possible[~few]
        if not len(low):
            return
        possible, axis = self._bounded(low, high, possible)
        done = ~self._unsettled(possible).any(axis=1)
        self._close(low[done], high[done], mass[done], possible[done])
        rest = ~done
        kept = LabelledBoxes(low[rest], high[rest], mass[rest], possible[rest], axis[rest])
        self.open = LabelledBoxes.joined([self.open, kept])

    def _bounded(self, low: Floats, high: Floats, possible: Masks) -> tuple[Masks, NDArray[np.intp]]:
        """Return the labels that are possible in each box, and the axis to cut it along next (-1: none)."""
        rows, members = np.nonzero(self._unsettled(possible))
        possible = possible.copy()
        moves = np.zeros((len(low), len(self.space.axes)))
        real = np.array([axis.real for axis in self.space.axes])
        middle = low + (high - low) / 2
        splittable = np.where(real, (middle > low) & (middle < high), high > low)
        size = self._bounds.linear.rows_at_once
        starts = range(0, len(rows), size)

        def work(start: int) -> tuple[Masks, Floats]:
            those, shown = rows[start : start + size], members[start : start + size]
            boxes = self.space.network_inputs(low[those], high[those], shown)
            labels, weights = self._bounds(boxes)
            return labels, self.space.widths_of(weights, boxes, splittable[those])

        for start, (labels, moved) in zip(starts, self._apply(work, starts), strict=True):
            those, shown = rows[start : start + size], members[start : start + size]
            possible[those, shown] &= labels
            # A member that is settled by now needs no further cut.
            wanted = self._unsettled_labels(possible[those, shown])
            np.add.at(moves, those[wanted], moved[wanted])
        self.boxes += len(rows)
        moves[~splittable] = -1.0
        axis = moves.argmax(axis=1)
        flat = moves[np.arange(len(low)), axis] <= 0
        # Bounds that depend on no axis can still be narrowed by cutting the widest.
        span = np.where(splittable, (high - low) / np.maximum(np.subtract(*self.space.whole[::-1]), 1e-300), -1.0)
        axis = np.where(flat, span.argmax(axis=1), axis)
        return possible, np.where(splittable.any(axis=1), axis, -1)

    def _evaluate(self, low: Floats, high: Floats, possible: Masks) -> None:
        """Evaluate every input of finite boxes, for the members that are open there."""
        places = [self.space.places_in(*ends) for ends in zip(low, high, strict=True)]
        owner = np.repeat(np.arange(len(low)), [len(each) for each in places])
        points = np.concatenate(places)
        found = possible[owner].copy()
        rows, members = np.nonzero(self._unsettled(found))
        if len(rows):
            labels = self._predict(self.space.inputs(points[rows], members)).astype(np.uint32)
            found[rows, members] = np.uint32(1) << labels
            self.evaluations += len(rows)
        self._close(points, points, self.space.masses(points, points), found)

    def _close(self, low: Floats, high: Floats, mass: Floats, possible: Masks) -> None:
        """Add settled boxes to the sums."""
        if not len(mass):
            return
        self._sums, self._longest = self._sums + 1, max(self._longest, len(mass))
        self.labels |= np.bitwise_or.reduce(possible[np.bitwise_count(possible) == 1], initial=np.uint32(0))
        yes, no, neither = self._sums_of(mass, possible)
        self._yes, self._no, self._aside = self._yes + yes, self._no + no, self._aside + neither
        stays = np.flatnonzero(
            (np.bitwise_count(possible) == 1).all(axis=1) & (possible == possible[:, :1]).all(axis=1)
        )
        self._free.append(LabelledBoxes(low[stays], high[stays], mass[stays], possible[stays], stays))
        if len(self._free) > MOST_FREE:
            self._free = [self.free()]

    # -- What possible labels mean -----------------------------------------------------------------------------------

    def _seen(self, possible: Masks) -> Masks:
        """Return the bits that count when individuals are compared: labels, or whether it is the outcome."""
        if not self._outcomes:
            return possible
        bit = self._outcomes[0]
        outcome, other = ((possible & each) != 0 for each in (bit, ~bit))
        return np.asarray(outcome + 2 * other.astype(np.uint32), np.uint32)

    def _fates(self, possible: Masks) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return (boxes,): where a decision changes for sure, and where it stays for sure."""
        seen = self._seen(possible)
        apart = np.zeros(len(seen), bool)
        for member in range(1, seen.shape[1]):
            apart |= ((seen[:, member, None] & seen[:, :member]) == 0).any(axis=1)
        same = (np.bitwise_count(seen) == 1).all(axis=1) & (seen == seen[:, :1]).all(axis=1)
        return apart, same

    def _unsettled_labels(self, possible: Masks) -> NDArray[np.bool_]:
        """Return, for possible labels of any shape, whether the question still leaves something open."""
        if self._comparison.individual:
            return np.asarray(np.bitwise_count(self._seen(possible)) > 1)
        several = np.bitwise_count(possible) > 1
        return np.asarray(np.logical_or.reduce([several & ((possible & bit) != 0) for bit in self._outcomes]))

    def _unsettled(self, possible: Masks) -> NDArray[np.bool_]:
        """Return (boxes, members): where a member's decision is open and matters."""
        found = self._unsettled_labels(possible) & self.relevant
        if self._comparison.individual:
            changes, _ = self._fates(possible)
            found &= ~changes[:, None]
        return found
