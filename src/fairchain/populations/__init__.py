"""Populations: the distributions from which inputs are drawn, in rounds, by chunk number, without the network.

Each kind has its own module, which is imported only for a spec that uses it.
"""

from fairchain.populations.base import Population, Rounds, Scratch
from fairchain.populations.build import build_population
from fairchain.populations.uniform import UniformPopulation

__all__ = ["Population", "Rounds", "Scratch", "UniformPopulation", "build_population"]
