"""Derivative-free optimisers: `ask` returns candidates, `tell` takes their fitness. They minimise; 0 means no change.

Every optimiser works on vectors in [-1, 1], returns a whole generation at once and uses one seed. `Swarm` is the
paper's; `Evolution` is a covariance matrix adaptation that needs no further package.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
OPTIMIZERS = ("evolution", "pso")
# Largest dimension for which the evolution learns the full covariance; above it, only the variances.
MOST_TOGETHER = 200


class Swarm:
    """Particle swarm with inertia (the paper's appendix A.7).

    Every particle starts at the unchanged network, as in the paper. With the paper's initial velocity of zero no
    particle would ever leave it, so all but the first start with a random velocity.
    """

    def __init__(self, start: Points, seed: int, particles: int = 20) -> None:
        self._random = np.random.Generator(np.random.Philox(seed))
        self._places = np.repeat(start[None], particles, axis=0)
        self._speeds = self._random.uniform(-1, 1, self._places.shape)
        self._speeds[0] = 0.0
        self._own, self._own_fitness = self._places.copy(), np.full(particles, np.inf)
        self._best = start.copy()
        self._moved = False

    def ask(self) -> Points:
        """Return the positions of the particles; the first time, all but the first have made one step."""
        if not self._moved:
            self._moved = True
            self._places = np.clip(self._places + self._speeds, -1, 1)
        return self._places.copy()

    def tell(self, points: Points, fitness: Points) -> None:
        """Keep the best positions, and move."""
        better = fitness < self._own_fitness
        self._own[better], self._own_fitness[better] = points[better], fitness[better]
        self._best = self._own[int(self._own_fitness.argmin())]
        shape = self._places.shape
        # Constants for which a swarm neither stalls nor diverges (Clerc and Kennedy's constriction).
        self._speeds = (
            0.729 * self._speeds
            + self._random.uniform(0, 1.494, shape) * (self._own - self._places)
            + self._random.uniform(0, 1.494, shape) * (self._best - self._places)
        )
        self._places = np.clip(self._places + self._speeds, -1, 1)


class Evolution:
    """Covariance matrix adaptation: a normal distribution that follows the better half of each generation."""

    def __init__(self, start: Points, step: float, seed: int) -> None:
        n = len(start)
        self._random = np.random.Generator(np.random.Philox(seed))
        self._mean, self._step = start.astype(float), step
        self.size = max(12, 4 + int(3 * np.log(n)))
        parents = self.size // 2
        weights = np.log(self.size / 2 + 0.5) - np.log(np.arange(1, parents + 1))
        self._weights = weights / weights.sum()
        # The standard constants of the method, from the dimension and the effective number of parents.
        self._parents = 1 / (self._weights**2).sum()
        m = self._parents
        self._path_rate = (4 + m / n) / (n + 4 + 2 * m / n)
        self._step_rate = (m + 2) / (n + m + 5)
        self._apart = n > MOST_TOGETHER
        faster = (n + 2) / 3 if self._apart else 1.0
        self._one = faster * 2 / ((n + 1.3) ** 2 + m)
        self._many = min(1 - self._one, faster * 2 * (m - 2 + 1 / m) / ((n + 2) ** 2 + m))
        self._damping = 1 + 2 * max(0.0, np.sqrt((m - 1) / (n + 1)) - 1) + self._step_rate
        self._length = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n))
        self._path, self._step_path = np.zeros(n), np.zeros(n)
        self._covariance: Points = np.ones(n) if self._apart else np.eye(n)
        self._axes, self._spread = np.eye(0 if self._apart else n), np.ones(n)

    def ask(self) -> Points:
        """Draw a generation, clipped to the bounds."""
        drawn = self._random.standard_normal((self.size, len(self._mean)))
        spread = drawn * self._spread
        return np.clip(self._mean + self._step * (spread if self._apart else spread @ self._axes.T), -1, 1)

    def tell(self, points: Points, fitness: Points) -> None:
        """Move mean, step and covariance towards the better half."""
        best = points[np.argsort(fitness, kind="stable")[: len(self._weights)]]
        moves = (best - self._mean) / self._step
        move = self._weights @ moves
        self._mean = self._mean + self._step * move
        whitened = move / self._spread if self._apart else self._axes @ ((self._axes.T @ move) / self._spread)
        rate, path_rate = self._step_rate, self._path_rate
        self._step_path = (1 - rate) * self._step_path + np.sqrt(rate * (2 - rate) * self._parents) * whitened
        length = float(np.linalg.norm(self._step_path))
        # A long step path is about to raise the step size; the covariance should not grow in addition.
        steady = length < (1.4 + 2 / (len(move) + 1)) * self._length * np.sqrt(1 - (1 - rate) ** 20)
        grown = np.sqrt(path_rate * (2 - path_rate) * self._parents) * move if steady else 0.0
        self._path = (1 - path_rate) * self._path + grown
        along: Points = self._path**2 if self._apart else np.outer(self._path, self._path)
        across: Points = self._weights @ moves**2 if self._apart else (moves.T * self._weights) @ moves
        kept = 1 - self._one - self._many
        self._covariance = kept * self._covariance + self._one * along + self._many * across
        self._step = float(np.clip(self._step * np.exp(rate / self._damping * (length / self._length - 1)), 1e-6, 1.0))
        values = self._covariance
        if not self._apart:
            values, self._axes = np.linalg.eigh((self._covariance + self._covariance.T) / 2)
        self._spread = np.sqrt(np.maximum(values, 1e-20))


def make_optimizer(name: str, start: Points, step: float, seed: int) -> Swarm | Evolution:
    """Return the optimiser with this name, one of `OPTIMIZERS`, which starts near `start`."""
    return Swarm(start, seed) if name == "pso" else Evolution(start, step, seed)
