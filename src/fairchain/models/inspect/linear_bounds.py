"""Bounds of a ReLU network's outputs over many boxes of inputs at once, by linear relaxation.

Each ReLU with an undetermined sign is bounded by two lines; substituting them backwards through the layers (as in CROWN
and DeepPoly) gives, for each output, a linear lower bound in the inputs, whose minimum over a box is immediate. The
bounds hold for the numbers that the runtime computes: every layer's rounding is an interval added to its bias, and the
rounding of this module's own double precision is also subtracted (docs/mathematics-exact.md, "Bounds by branch and
bound").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairchain.models.inspect.relu_layers import AffineLayer, Floats, ReluNetwork

# Numbers in the largest array for a part of the boxes: the system would allocate and clear larger ones again each time.
MOST_BOX_NUMBERS = 2**16
# Twice the unit roundoff of double precision, for this module's own sums.
ROUNDOFF = 2.0**-52
# Numbers beyond this might overflow in single precision; no bound is claimed there.
LARGEST_NUMBER = 1e37


@dataclass(frozen=True, eq=False)
class InputBoxes:
    """Sets of network inputs, one for each row.

    Parameters
    ----------
    low, high
        (rows, inputs): an interval for each input.
    first, last
        (rows, blocks): in each one-hot block, exactly one input from `first` to `last` is 1 and the others are 0.
    blocks
        The inputs of each one-hot block; `low` and `high` are not used there.
    """

    low: Floats
    high: Floats
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    blocks: tuple[slice, ...] = ()

    def __len__(self) -> int:
        return len(self.low)

    def part(self, rows: slice) -> InputBoxes:
        """Return some of the rows."""
        return InputBoxes(self.low[rows], self.high[rows], self.first[rows], self.last[rows], self.blocks)

    def sizes(self) -> Floats:
        """Return (rows, inputs): the largest absolute value of each input."""
        sizes = np.maximum(np.abs(self.low), np.abs(self.high))
        for block, allowed in zip(self.blocks, self._allowed(), strict=True):
            sizes[:, block] = allowed
        return sizes

    def least(self, weights: Floats) -> Floats:
        """Return (rows, functions): the minimum of linear functions, (rows, functions, inputs), over each box."""
        middle, radius = (self.low + self.high) / 2, (self.high - self.low) / 2
        for block in self.blocks:
            middle[:, block] = radius[:, block] = 0
        least: Floats = np.matmul(weights, middle[:, :, None])[..., 0]
        least -= np.matmul(np.abs(weights), radius[:, :, None])[..., 0]
        for block, allowed in zip(self.blocks, self._allowed(), strict=True):
            least += np.where(allowed[:, None], weights[:, :, block], np.inf).min(axis=2)
        return least

    def _allowed(self) -> list[NDArray[np.bool_]]:
        places = [np.arange(block.stop - block.start) for block in self.blocks]
        return [
            (place >= self.first[:, number, None]) & (place <= self.last[:, number, None])
            for number, place in enumerate(places)
        ]


@dataclass(frozen=True, eq=False)
class FunctionBounds:
    """Bounds of functions of the outputs over boxes.

    Parameters
    ----------
    low, high
        (rows, functions).
    weights
        (rows, functions, inputs): the larger absolute coefficient of the linear lower and upper bounds; it shows where
        a smaller box would improve the bounds most.
    """

    low: Floats
    high: Floats
    weights: Floats


class LinearBounds:
    """Bounds of linear functions of a network's outputs.

    Parameters
    ----------
    network
        The layers of the network.
    functions
        (functions, outputs): the rows are the functions, such as the difference of two scores.
    rounding
        Whether the runtime's rounding is part of the bounds; only a test of its necessity sets this to False.
    """

    def __init__(self, network: ReluNetwork, functions: Floats, *, rounding: bool = True) -> None:
        last = AffineLayer.of(functions, np.zeros(len(functions)), 2, 2.0**-53)
        self._layers = [*network.layers[:-1], network.layers[-1].then(last)]
        self._rounding = rounding
        widths = [layer.weights.shape[1] for layer in self._layers] + [len(functions)]
        largest = max(2 * after * before for before, after in pairwise(widths))
        # Number of boxes that are computed together.
        self.rows_at_once = max(1, MOST_BOX_NUMBERS // int(largest))

    @property
    def cost(self) -> float:
        """Multiplications for one box, relative to those for one input."""
        sizes = [layer.weights.size for layer in self._layers]
        passes = [2 * len(layer.bias) * sum(sizes[:place]) for place, layer in enumerate(self._layers)]
        return (sum(sizes) + sum(passes)) / sum(sizes)

    def __call__(self, boxes: InputBoxes) -> FunctionBounds:
        """Return the bounds over every box."""
        # Huge weights may overflow here too; such bounds decide nothing.
        size = self.rows_at_once
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [self._bounds(boxes.part(slice(start, start + size))) for start in range(0, len(boxes), size)]
        return FunctionBounds(*map(np.concatenate, zip(*parts, strict=True)))

    def _bounds(self, boxes: InputBoxes) -> tuple[Floats, Floats, Floats]:
        """Bound every layer in turn, with the relaxations of the earlier ones."""
        known: list[RelaxedLayer] = []
        sizes = boxes.sizes()
        overflow = np.zeros(len(boxes), bool)
        while True:
            layer = self._layers[len(known)]
            error = self._error(layer, sizes)
            low, high, weights = self._layer_bounds(boxes, known, layer, sizes, error)
            if known:
                # Plain interval arithmetic is sometimes tighter.
                plain_low, plain_high = known[-1].through(layer, error)
                low, high = np.maximum(low, plain_low), np.minimum(high, plain_high)
            largest = np.maximum(np.abs(low), np.abs(high)).max(axis=1, initial=0.0)
            # Products and partial sums may overflow although the sum itself is small.
            largest = np.maximum(largest, sizes @ layer.peak_weights + layer.peak_bias)
            overflow |= ~(largest < LARGEST_NUMBER)
            if len(known) == len(self._layers) - 1:
                low[overflow], high[overflow] = -np.inf, np.inf
                return low, high, weights
            # If numbers may overflow, no bound is claimed at the end; finite ends keep the arithmetic free of NaN.
            low, high = np.clip(low, -LARGEST_NUMBER, LARGEST_NUMBER), np.clip(high, -LARGEST_NUMBER, LARGEST_NUMBER)
            known.append(RelaxedLayer.of(layer, low, high, sizes, error))
            sizes = np.maximum(high, 0.0)

    def _error(self, layer: AffineLayer, sizes: Floats) -> Floats:
        """Return (rows, outputs): the largest error of the runtime's sums, for inputs of these sizes."""
        if not self._rounding:
            return np.zeros((len(sizes), len(layer.bias)))
        # The last factor accounts for the rounding of this line.
        return (layer.rounding * (sizes @ layer.weight_size.T + layer.bias_size) + layer.tiny) * (1 + 2.0**-20)

    def _layer_bounds(
        self, boxes: InputBoxes, known: Sequence[RelaxedLayer], layer: AffineLayer, sizes: Floats, error: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return bounds of a layer's sums: lower bounds of the sums and of their negatives, in one pass."""
        both = np.concatenate([layer.weights, -layer.weights])
        twice = np.concatenate([layer.bias, -layer.bias])
        weights = np.broadcast_to(both, (len(boxes), *both.shape))
        largest = np.abs(layer.weights).sum(axis=1)
        constant = twice - np.tile(
            error
            + ROUNDOFF
            * (len(layer.bias) + 8)
            * (np.abs(layer.bias) + largest * sizes.max(axis=1, initial=0.0)[:, None]),
            2,
        )
        for before in reversed(known):
            weights, constant = before.substitute(weights, constant)
        least = boxes.least(weights) + constant
        terms = weights.shape[2] + 8
        least -= ROUNDOFF * terms * (np.matmul(np.abs(weights), boxes.sizes()[:, :, None])[..., 0] + np.abs(constant))
        half = len(layer.bias)
        steepest = np.maximum(np.abs(weights[:, :half]), np.abs(weights[:, half:]))
        return least[:, :half], -least[:, half:], steepest


@dataclass(frozen=True, eq=False)
class RelaxedLayer:
    """A layer followed by a ReLU over many boxes: `below * z <= relu(z) <= above * z + lift`.

    `error` is the runtime's rounding of z, `own` the rounding of this module for each unit of weight.
    """

    layer: AffineLayer
    low: Floats
    high: Floats
    below: Floats
    above: Floats
    lift: Floats
    error: Floats
    own: Floats

    @classmethod
    def of(cls, layer: AffineLayer, low: Floats, high: Floats, sizes: Floats, error: Floats) -> RelaxedLayer:
        """Return the relaxation for sums between `low` and `high`, of inputs of these `sizes`."""
        span = np.maximum(high - low, 1e-300)
        above = np.clip(np.where(low >= 0, 1.0, np.where(high <= 0, 0.0, high / span)), 0.0, 1.0)
        # The line must not be below the ReLU at either end, although the slope is rounded.
        lift = np.maximum(np.maximum(-above * low, (1 - above) * high), 0.0) * (1 + 8 * ROUNDOFF)
        lift[low >= 0] = 0.0
        # Below: the line of slope 1 or 0 with the smaller area.
        below = np.where((low >= 0) | ((high > -low) & (high > 0)), 1.0, 0.0)
        terms = sum(layer.weights.shape) + 16
        steepest = np.abs(layer.weights).max(axis=1, initial=0.0)
        own = np.abs(layer.bias) + error + lift + np.maximum(np.abs(low), np.abs(high))
        own = ROUNDOFF * terms * (own + steepest * sizes.sum(axis=1)[:, None])
        return cls(layer, low, high, below, above, lift, error, own)

    def substitute(self, weights: Floats, constant: Floats) -> tuple[Floats, Floats]:
        """Return a lower bound, in terms of the layer's inputs, of functions of its outputs after the ReLU."""
        # Large arrays are used again: new ones would take a third of the time.
        part = np.minimum(weights, 0.0)
        constant = constant + np.matmul(part, self.lift[:, :, None])[..., 0]
        lines = weights - part
        lines *= self.below[:, None]
        part *= self.above[:, None]
        lines += part
        constant += lines @ self.layer.bias
        constant -= np.matmul(np.abs(lines, out=part), self.error[:, :, None])[..., 0]
        constant -= np.matmul(np.abs(weights, out=part), self.own[:, :, None])[..., 0]
        constant -= 4 * ROUNDOFF * np.abs(constant)
        # One small product for each box: BLAS would start its own threads for a large one.
        return np.matmul(lines, self.layer.weights), constant

    def through(self, layer: AffineLayer, error: Floats) -> tuple[Floats, Floats]:
        """Return bounds of the next layer's sums by interval arithmetic."""
        low, high = np.maximum(self.low, 0.0), np.maximum(self.high, 0.0)
        middle, radius = (low + high) / 2, (high - low) / 2
        centre, reach = middle @ layer.weights.T + layer.bias, radius @ np.abs(layer.weights).T
        slack = ROUNDOFF * (layer.weights.shape[1] + 8) * (high @ np.abs(layer.weights).T + np.abs(layer.bias)) + error
        return centre - reach - slack, centre + reach + slack
