"""Where inputs come from. A population draws rounds by chunk number; nothing here knows the network."""

from fairchain.population.average import AveragePopulation
from fairchain.population.build import build_population
from fairchain.population.function import FunctionPopulation
from fairchain.population.marginals import MarginalPopulation, marginal_shares
from fairchain.population.rejection import RejectionPopulation
from fairchain.population.uniform import Desk, Rounds, UniformPopulation

__all__ = [
    "AveragePopulation",
    "Desk",
    "FunctionPopulation",
    "MarginalPopulation",
    "RejectionPopulation",
    "Rounds",
    "UniformPopulation",
    "build_population",
    "marginal_shares",
]
