"""Populations: the distributions from which inputs are drawn, in rounds, by chunk number. None knows the network.

Each kind has a module of its own, which is imported only for a spec that uses it.
"""

from fairchain.populations.base import Population, Rounds, Scratch
from fairchain.populations.build import build_population
from fairchain.populations.uniform import UniformPopulation

__all__ = ["Population", "Rounds", "Scratch", "UniformPopulation", "build_population"]
