"""Why two groups are treated differently: how much of the gap goes through each feature and each neuron."""

from fairchain.explaining.explainer import explain
from fairchain.explaining.result import Explanation, Influence

__all__ = ["Explanation", "Influence", "explain"]
