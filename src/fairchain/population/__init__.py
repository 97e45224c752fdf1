"""Where inputs come from. A population draws rounds by chunk number; nothing here knows the network."""

from fairchain.population.uniform import Desk, Rounds, UniformPopulation

__all__ = ["Desk", "Rounds", "UniformPopulation"]
