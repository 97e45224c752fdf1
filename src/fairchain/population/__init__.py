"""Where inputs come from. A population draws rounds by chunk number; nothing here knows the network.

Kinds that a question does not ask for are not imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairchain.population.build import build_population
from fairchain.population.uniform import Desk, Rounds, UniformPopulation

if TYPE_CHECKING:
    from fairchain.population.average import AveragePopulation
    from fairchain.population.function import Coupled, FunctionPopulation
    from fairchain.population.intervened import IntervenedPopulation
    from fairchain.population.marginals import MarginalPopulation, marginal_shares
    from fairchain.population.rejection import RejectionPopulation

_HOMES = {
    "AveragePopulation": "average",
    "Coupled": "function",
    "FunctionPopulation": "function",
    "IntervenedPopulation": "intervened",
    "MarginalPopulation": "marginals",
    "RejectionPopulation": "rejection",
    "marginal_shares": "marginals",
}

__all__ = [
    "AveragePopulation",
    "Coupled",
    "Desk",
    "FunctionPopulation",
    "IntervenedPopulation",
    "MarginalPopulation",
    "RejectionPopulation",
    "Rounds",
    "UniformPopulation",
    "build_population",
    "marginal_shares",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
