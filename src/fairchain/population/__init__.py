"""Where inputs come from. A population draws rounds by chunk number; nothing here knows the network."""

from fairchain.population.uniform import Rounds, UniformPopulation

__all__ = ["Rounds", "UniformPopulation"]
