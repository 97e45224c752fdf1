"""Specs: features, groups, population, property and guarantee, read from a file and checked.

This package does not draw, evaluate or decide anything.
"""

from fairchain.spec.feature_keys import CategoryFeature, Feature, IntegerFeature, RealFeature, TextFeature
from fairchain.spec.groups import Domain, Group, domain_of, groups_of
from fairchain.spec.load import json_schema, load_spec, load_specs, parse_spec, parse_specs, revise
from fairchain.spec.population_keys import BayesNetwork, Marginals, Node, Table, Texts, Uniform
from fairchain.spec.property_keys import Difference, Individual, ProbabilityFormula, Ratio
from fairchain.spec.schema import Budget, Guarantee, ModelSpec, Spec
from fairchain.spec.subgroups import Comparison, Subgroup, comparison_of

__all__ = [
    "BayesNetwork",
    "Budget",
    "CategoryFeature",
    "Comparison",
    "Difference",
    "Domain",
    "Feature",
    "Group",
    "Guarantee",
    "Individual",
    "IntegerFeature",
    "Marginals",
    "ModelSpec",
    "Node",
    "ProbabilityFormula",
    "Ratio",
    "RealFeature",
    "Spec",
    "Subgroup",
    "Table",
    "TextFeature",
    "Texts",
    "Uniform",
    "comparison_of",
    "domain_of",
    "groups_of",
    "json_schema",
    "load_spec",
    "load_specs",
    "parse_spec",
    "parse_specs",
    "revise",
]
