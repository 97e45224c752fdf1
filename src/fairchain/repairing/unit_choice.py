"""Which units may change: the protected features themselves, then those that `explain` ranks first."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fairchain.errors import SpecError
from fairchain.explaining import Explanation
from fairchain.explaining.context import context_from
from fairchain.explaining.explainer import explain_context
from fairchain.models.edit.weights import Weights, WeightUnit
from fairchain.prepare import Case, case_of
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
    case: Case,
    weights: Weights,
    count: int,
    *,
    measure: Any,
    seed: int,
    workers: int | None = None,
    explanation: Explanation | None = None,
) -> list[NamedUnit]:
    """Return the most important features and neurons that are not protected and whose weights can be changed.

    Parameters
    ----------
    case, weights, count, measure
        What is repaired, its weights, how many units, and "effect" or "sensitivity".
    seed, workers
        Of the explanation that ranks the units.
    explanation
        One that is known already; then none is computed.
    """
    if not count:
        return []
    found: list[NamedUnit] = []
    spec = case.spec
    if explanation is None:
        seeded = replace(spec, guarantee=replace(spec.guarantee, seed=seed))
        try:
            drawn = case_of(seeded, case.model, case.rows, function=case.function, draw="groups")
            explanation = explain_context(context_from(drawn), rounds=ROUNDS, workers=workers)
        except SpecError as error:
            raise SpecError(f"units cannot be ranked: {error}; do without: units = 0 (--max-units 0)") from None
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
