"""The meaning of a property: its kind, the largest fair gap, the unit of a gap, the names of the counts."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from fairchain.spec.population_keys import Marginals, Texts, Uniform
from fairchain.spec.property_keys import Individual, ProbabilityFormula, Ratio
from fairchain.spec.schema import Spec
from fairchain.spec.subgroups import Comparison
from fairchain.statements import POPULATIONS, shifted_populations

# With more compared pairs, joint rates (an individual gets an outcome as one group and not as another) are neither
# counted nor bounded.
MOST_SHARED_PAIRS = 2**12


def kind_of(spec: Spec) -> str:
    """Return "difference", "ratio" or "individual"; a formula is one of the first two."""
    if isinstance(spec.property, ProbabilityFormula):
        return spec.property.measure
    return str(type(spec.property).__struct_config__.tag)


def limit_of(spec: Spec) -> Fraction:
    """Return the largest fair gap as an exact decimal: the threshold, or for a ratio 1 - threshold."""
    if isinstance(spec.property, ProbabilityFormula):
        from fairchain.spec.formulas import shape_of

        return shape_of(spec.property.formula).limit
    threshold = _decimal(spec.property.threshold)
    return 1 - threshold if isinstance(spec.property, Ratio) else threshold


@lru_cache(maxsize=32)
def _decimal(number: float) -> Fraction:
    """Return a number as it is written: reading it takes a while, and every question has one."""
    return Fraction(repr(number))


def shows_same_individual(spec: Spec) -> bool:
    """Return whether a round shows one individual, or one text, as every group: only the protected features change."""
    if isinstance(spec.property, Individual):
        return True
    if isinstance(spec.property, ProbabilityFormula) or spec.property.compare == "average":
        return False
    population, independent = spec.population, isinstance(spec.population, Uniform | Marginals)
    if spec.property.given is not None:
        from fairchain.spec.conditions import given_features

        # All groups see the same candidates, so without protected features they accept the same one.
        return independent and not set(given_features(spec)) & set(spec.protected)
    return independent or (isinstance(population, Texts) and population.reading == "swapped")


def shared_pairs(spec: Spec, comparison: Comparison) -> list[tuple[int, int, int]]:
    """Return the pairs (outcome, i, j) for which rounds with the outcome as i and not as j are counted.

    They are the compared pairs, in both directions, if one individual, or one text, is shown as every group; none if
    there are too many.
    """
    too_many = comparison.compared.sum() > MOST_SHARED_PAIRS
    if comparison.individual or too_many or not shows_same_individual(spec):
        return []
    pairs = np.argwhere(comparison.compared | comparison.compared.swapaxes(1, 2)).tolist()
    return [(outcome, i, j) for outcome, i, j in pairs]


def shifts_alike(spec: Spec) -> bool:
    """Return whether a verdict is about all populations in which the individuals shown as every group change."""
    prop = spec.property
    return prop.shift is not None and prop.shift_of == "all_groups_alike"


def populations_of(spec: Spec, assumed: str, decision: str | None = None) -> str:
    """Return the populations that a statement is about: the assumed one, or all within the factor of `shift`.

    With a decision, return them in the form for the sentence about contradictions of the decision.
    """
    prop = spec.property
    if prop.shift is None:
        return assumed
    which = "all populations" if decision is None else POPULATIONS[decision]
    return shifted_populations(which, prop.shift, prop.shift_of, assumed)


def factor_of(spec: Spec) -> Fraction | None:
    """Return the factor of `shift` as an exact decimal; None if a verdict is about the assumed population alone."""
    return None if spec.property.shift is None else _decimal(spec.property.shift)


def in_own_unit(spec: Spec, gap: tuple[float, float, float], ratio: float | None = None) -> tuple[float, float, float]:
    """Return estimate, lower and upper bound of the largest gap in the property's own unit.

    For a ratio, `gap` has these of 1 - ratio. `ratio` is the estimate of a ratio, if it is known without rounding: one
    counted rate over another.
    """
    estimate, low, high = gap
    if kind_of(spec) != "ratio":
        return gap
    ratio = 1 - estimate if ratio is None else ratio
    return (ratio, ratio, ratio) if low == high else (ratio, 1 - high, 1 - low)


def outcome_names(spec: Spec, comparison: Comparison) -> tuple[str, ...]:
    """Return the name of each table of the counts: a label, or that the decision changes."""
    if comparison.individual:
        return ("changes" if spec.property.outcome is None else f"{spec.property.outcome} changes",)
    return tuple(spec.model.labels[outcome] for outcome in comparison.outcomes)
