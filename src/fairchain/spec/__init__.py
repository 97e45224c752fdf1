"""What is asked: features, groups, population, property and guarantee, read from a file and checked.

Nothing here draws, runs or decides anything.
"""

from fairchain.spec.arms import Arm, Comparison, comparison_of
from fairchain.spec.groups import Domain, Group, domain_of, groups_of
from fairchain.spec.load import load_spec, parse_spec, revise
from fairchain.spec.schema import (
    Budget,
    CategoryFeature,
    Difference,
    Feature,
    Guarantee,
    Individual,
    IntegerFeature,
    Marginals,
    ModelSpec,
    Network,
    Node,
    Ratio,
    RealFeature,
    Spec,
    Table,
    TextFeature,
    Texts,
    Uniform,
    json_schema,
)

__all__ = [
    "Arm",
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
    "Network",
    "Node",
    "Ratio",
    "RealFeature",
    "Spec",
    "Table",
    "TextFeature",
    "Texts",
    "Uniform",
    "comparison_of",
    "domain_of",
    "groups_of",
    "json_schema",
    "load_spec",
    "parse_spec",
    "revise",
]
