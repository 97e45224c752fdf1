"""Searching along slopes: decisions are replaced by smooth ones, whose derivatives say where a gap gets smaller.

What comes out are candidates like any others: they are tried with real decisions, and judged on fresh inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairchain.errors import SpecError
from fairchain.model.gradients import Differentiable
from fairchain.model.weights import Array
from fairchain.repairing.knobs import Knobs, Point
from fairchain.repairing.optimizers import Points
from fairchain.repairing.search import MARGIN
from fairchain.repairing.trial import DrawnInputs, Inputs, Rows

# How hard the gap presses against accuracy, one descent each; and the steps between two candidates of it.
PRESSURES = (0.1, 0.5, 2.0)
STEPS_BETWEEN, PACE = 6, 0.05
# How far a smooth decision reaches, as a share of the spread of the scores.
SMOOTH = 0.1
MOST_INPUTS = 2048


class Slope:
    """The derivative of smooth gap and smooth accuracy by the numbers that a search may choose.

    Parameters
    ----------
    network, knobs
        The network with derivatives, and what may change.
    inputs, rows
        What the gap is measured on, and labelled rows; without them the old decisions are to be kept.
    limit
        The largest fair gap.
    """

    def __init__(self, network: Differentiable, knobs: Knobs, inputs: Inputs, rows: Rows | None, limit: float) -> None:
        if not isinstance(inputs, DrawnInputs) or inputs.comparison.individual or inputs.comparison.outcomes != (1,):
            raise SpecError(
                'optimizer: "gradient" is for differences and ratios between drawn groups, looked at in the second '
                'of two labels; take "evolution"'
            )
        self._network, self._knobs, self._limit = network, knobs, limit
        self._comparison, arms = inputs.comparison, len(inputs.comparison.arms)
        rounds = max(1, min(MOST_INPUTS, len(inputs.values)) // arms)
        shown = inputs.values.reshape(arms, -1, inputs.values.shape[1])[:, :rounds]
        self._people = network.feed(shown.reshape(arms * rounds, -1))
        self._arms = arms
        self._labelled = network.feed(rows.values[:MOST_INPUTS].astype(shown.dtype)) if rows is not None else None
        unchanged = np.zeros(len(knobs.names))
        base = knobs.weights(unchanged)
        # Weights are linear in these numbers, so one difference for each of them is the whole derivative.
        self._moves = {name: np.empty((len(unchanged), array.size)) for name, array in base.items()}
        for place in range(len(unchanged)):
            moved = knobs.weights(np.eye(1, len(unchanged), place)[0])
            for name, array in base.items():
                self._moves[name][place] = (moved[name].astype(np.float64) - array).reshape(-1)
        margins = self._margins(network.scores(self._people, base)[0])
        self._reach = SMOOTH * float(margins.std()) or 1.0
        self._kept = (margins > 0) if rows is None else (rows.truth[:MOST_INPUTS] == 1)

    def __call__(self, point: Point, pressure: float) -> Point:
        """The derivative at a point."""
        weights = self._knobs.weights(point)
        scores, pull = self._network.scores(self._people, weights)
        soft, steep = self._soft(self._margins(scores))
        slope: Points = pressure * self._gap_slope(soft)
        if self._labelled is None:
            slope = slope + np.where(self._kept, -1, 1) / len(soft)
        total = self._by_point(pull(self._by_scores(slope * steep, scores)))
        if self._labelled is None:
            return total
        scores, pull = self._network.scores(self._labelled, weights)
        soft, steep = self._soft(self._margins(scores))
        wrong: Points = np.where(self._kept, -1.0, 1.0) / len(soft)
        both: Point = np.add(total, self._by_point(pull(self._by_scores(wrong * steep, scores))))
        return both

    def _soft(self, margins: Points) -> tuple[Points, Points]:
        """Smooth decisions and their derivative by the margin."""
        soft = 0.5 * (1 + np.tanh(0.5 * margins / self._reach))
        return soft, soft * (1 - soft) / self._reach

    def _gap_slope(self, soft: Points) -> Points:
        """The derivative of what the widest pair is above the limit, in parts of it, by each smooth decision."""
        rates = soft.reshape(self._arms, -1).mean(axis=1)
        compared = self._comparison.compared[0]
        relative = self._comparison.measure == "ratio"
        top = np.maximum(rates, 1e-6)
        gaps = 1 - rates[None, :] / top[:, None] if relative else rates[:, None] - rates[None, :]
        i, j = np.unravel_index(int(np.where(compared, gaps, -np.inf).argmax()), gaps.shape)
        slope = np.zeros((self._arms, len(soft) // self._arms))
        if gaps[i, j] > (1 - MARGIN) * self._limit:
            slope[i] += rates[j] / top[i] ** 2 if relative else 1.0
            slope[j] -= 1 / top[i] if relative else 1.0
        return slope.reshape(-1) / (slope.shape[1] * self._limit)

    def _margins(self, scores: Array) -> Points:
        """How far each row is from the other decision, positive for the second label."""
        flat = scores.reshape(len(scores), -1).astype(np.float64)
        cut = self._network.cut
        return flat[:, 1] - flat[:, 0] if flat.shape[1] == 2 else flat[:, 0] - cut

    @staticmethod
    def _by_scores(slope: Points, scores: Array) -> Array:
        columns = [-slope, slope] if scores.reshape(len(scores), -1).shape[1] == 2 else [slope]
        return np.stack(columns, axis=1).reshape(scores.shape).astype(scores.dtype)

    def _by_point(self, slopes: dict[str, Array]) -> Point:
        parts = [self._moves[name] @ slope.reshape(-1).astype(np.float64) for name, slope in slopes.items()]
        total: Point = np.sum(parts, axis=0)
        return total


class Descent:
    """Several descents side by side (Adam), each under another pressure; a candidate after every few steps."""

    def __init__(self, slope: Callable[[Point, float], Point], start: Point) -> None:
        self._slope = slope
        self._points = np.repeat(start[None], len(PRESSURES), axis=0).astype(float)
        self._mean, self._square = np.zeros_like(self._points), np.zeros_like(self._points)
        self._count = 0

    def ask(self) -> Points:
        """Go on with every descent."""
        for _ in range(STEPS_BETWEEN):
            self._count += 1
            with np.errstate(over="ignore", invalid="ignore"):
                slopes = np.array([self._slope(p, each) for p, each in zip(self._points, PRESSURES, strict=True)])
            # Where scores overflow there is no slope: what was learned before leads on, and away from there.
            slopes = np.where(np.isfinite(slopes), slopes, 0.0)
            self._mean = 0.9 * self._mean + 0.1 * slopes
            self._square = 0.99 * self._square + 0.01 * slopes**2
            pace = PACE * np.sqrt(1 - 0.99**self._count) / (1 - 0.9**self._count)
            self._points = np.clip(self._points - pace * self._mean / (np.sqrt(self._square) + 1e-9), -1, 1)
        return self._points.copy()

    def tell(self, points: Points, fitness: Points) -> None:
        """Slopes say where to go on."""
