"""What is asked: features, groups, population, property and guarantee, read from a file and checked.

Nothing here draws, runs or decides anything.
"""

from fairchain.spec.groups import Domain, Group, domain_of, groups_of
from fairchain.spec.load import load_spec, parse_spec, revise
from fairchain.spec.schema import (
    Budget,
    CategoryFeature,
    Difference,
    Feature,
    Guarantee,
    IntegerFeature,
    ModelSpec,
    RealFeature,
    Spec,
    Uniform,
    json_schema,
)

__all__ = [
    "Budget",
    "CategoryFeature",
    "Difference",
    "Domain",
    "Feature",
    "Group",
    "Guarantee",
    "IntegerFeature",
    "ModelSpec",
    "RealFeature",
    "Spec",
    "Uniform",
    "domain_of",
    "groups_of",
    "json_schema",
    "load_spec",
    "parse_spec",
    "revise",
]
