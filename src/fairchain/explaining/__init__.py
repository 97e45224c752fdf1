"""Explaining: the effect of every feature and every neuron on the gap between two groups."""

from fairchain.explaining.explainer import explain
from fairchain.explaining.result import Explanation, Influence

__all__ = ["Explanation", "Influence", "explain"]
