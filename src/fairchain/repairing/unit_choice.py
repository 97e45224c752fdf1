"""Which units may change: the protected features themselves, then those that `explain` ranks first."""

from __future__ import annotations

from typing import Any

from fairchain.errors import SpecError
from fairchain.explaining import explain
from fairchain.models import OnnxModel
from fairchain.models.edit.weights import Weights, WeightUnit
from fairchain.repairing.parameters import NamedUnit
from fairchain.spec import Spec

# Rounds for ranking units: enough to tell the important ones, no verdict rests on it.
ROUNDS = 10_000


def protected_units(spec: Spec, weights: Weights) -> list[NamedUnit]:
    """The protected features that the network gets, and whose weights can be told."""
    names = [feature.name for feature in spec.features]
    units = [NamedUnit(WeightUnit("", names.index(name)), f"feature {name}", True) for name in spec.property.protected]
    return [each for each in units if weights.outgoing(each.unit)]


def ranked_units(
    model: OnnxModel, spec: Spec, weights: Weights, count: int, *, measure: Any, seed: int, **asked: Any
) -> list[NamedUnit]:
    """The most important features and neurons that are not protected and that something can be changed about."""
    if not count:
        return []
    found: list[NamedUnit] = []
    try:
        explanation = explain(model, spec, rounds=ROUNDS, seed=seed, **asked)
    except SpecError as error:
        raise SpecError(f"units cannot be ranked: {error}; do without: units = 0 (--units 0)") from None
    for influence in explanation.ranked(measure):
        if influence.tensor is None:
            name = spec.features[influence.place].name if influence.kind == "feature" else ""
            unit = WeightUnit("", influence.place) if name and name not in spec.property.protected else None
            named = f"feature {name}"
        else:
            unit, named = weights.unit(influence.tensor, influence.place), influence.name
        if unit is not None and weights.outgoing(unit):
            found.append(NamedUnit(unit, named))
        if len(found) == count:
            break
    return found
