"""Populations: the distributions from which inputs are drawn, in rounds, by chunk number. None knows the network.

Kinds that a spec does not use are not imported.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairchain.populations.base import Population, Rounds, Scratch
from fairchain.populations.build import build_population
from fairchain.populations.uniform import UniformPopulation

if TYPE_CHECKING:
    from fairchain.populations.functions import Coupled, FunctionPopulation
    from fairchain.populations.intervention import IntervenedPopulation
    from fairchain.populations.marginals import MarginalPopulation, marginal_shares
    from fairchain.populations.mixture import AveragePopulation
    from fairchain.populations.rejection import RejectionPopulation

_HOMES = {
    "AveragePopulation": "mixture",
    "Coupled": "functions",
    "FunctionPopulation": "functions",
    "IntervenedPopulation": "intervention",
    "MarginalPopulation": "marginals",
    "RejectionPopulation": "rejection",
    "marginal_shares": "marginals",
}

__all__ = [
    "AveragePopulation",
    "Coupled",
    "FunctionPopulation",
    "IntervenedPopulation",
    "MarginalPopulation",
    "Population",
    "RejectionPopulation",
    "Rounds",
    "Scratch",
    "UniformPopulation",
    "build_population",
    "marginal_shares",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
