"""What several keys of a spec must agree on. Each check raises a SpecError that names the key and the remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fairchain.errors import SpecError
from fairchain.spec.combinations import check_combinations
from fairchain.spec.given import predicate_of
from fairchain.spec.groups import check_groups, domain_of, groups_of
from fairchain.spec.near import suggest
from fairchain.spec.preprocessing import check_preprocessing
from fairchain.spec.schema import CategoryFeature, Feature, IntegerFeature, ModelSpec, Spec
from fairchain.spec.texts import check_texts

# One 32-bit word per integer draw: see population.streams.
MOST_VALUES = 2**32
# The largest whole number up to which doubles hold every one.
MOST_EXACT = 2**53


def check(spec: Spec) -> None:
    """Raise a SpecError for the first thing in the spec that cannot be meant."""
    _check_model(spec.model)
    _unique("feature.name", [feature.name for feature in spec.described])
    check_texts(spec)
    for feature in spec.features:
        _check_feature(feature)
    _check_property(spec)
    check_combinations(spec)
    rounds = spec.guarantee.budget.rounds
    if not math.isfinite(rounds) or rounds != int(rounds):
        raise SpecError(f"guarantee.budget.rounds: found {rounds:g}; write a whole number, for example rounds = 1e8")
    if not math.isfinite(spec.guarantee.budget.seconds):
        raise SpecError("guarantee.budget.seconds: write a finite number, for example seconds = 60")
    for feature in spec.features:
        check_groups(feature)
    groups_of(spec)


def _check_model(model: ModelSpec) -> None:
    _unique("model.labels", model.labels)
    if model.codes is not None and len(model.codes) != len(model.labels):
        raise SpecError(
            f"model.codes: {len(model.codes)} codes for {len(model.labels)} labels; give one code for each label"
        )
    if model.codes is not None:
        _unique("model.codes", model.codes)
        if any(isinstance(code, int) and not -(2**63) <= code < 2**63 for code in model.codes):
            raise SpecError("model.codes: a label lies between -2**63 and 2**63 - 1; write what the network returns")
    if model.cut is not None and model.decision not in ("logit", "probability"):
        raise SpecError('model.cut: only decision = "logit" or decision = "probability" has a cut; state one of them')
    if model.cut is not None and not math.isfinite(model.cut):
        raise SpecError(f"model.cut: found {model.cut}; write a finite number")


def _check_feature(feature: Feature) -> None:
    where = f'feature "{feature.name}"'
    if isinstance(feature, CategoryFeature):
        _unique(f"{where}.values", [str(value) for value in feature.values])
        if feature.codes is not None and feature.one_hot:
            raise SpecError(f"{where}: codes and one_hot exclude each other; keep one")
        if feature.codes is not None and len(feature.codes) != len(feature.values):
            raise SpecError(
                f"{where}.codes: {len(feature.codes)} codes for {len(feature.values)} values; give one each"
            )
        if feature.codes is not None and not all(abs(code) <= MOST_EXACT for code in feature.codes):
            raise SpecError(f"{where}.codes: every code must be a finite number, at most 2**53")
        if feature.cells is not None:
            _unique(f"{where}.cells", [str(cell) for cell in feature.cells])
            if len(feature.cells) != len(feature.values):
                raise SpecError(
                    f"{where}.cells: {len(feature.cells)} cells for {len(feature.values)} values; give one each"
                )
        return
    if isinstance(feature, IntegerFeature) and feature.high - feature.low >= MOST_VALUES:
        raise SpecError(f'{where}: more than 2**32 integers; narrow the range, or use kind = "real"')
    if isinstance(feature, IntegerFeature) and max(abs(feature.low), abs(feature.high)) > MOST_EXACT:
        raise SpecError(f"{where}: integers beyond 2**53 are not exact in any network's numbers; narrow the range")
    if not (math.isfinite(feature.low) and math.isfinite(feature.high)):
        raise SpecError(f"{where}: low and high must be finite, found {feature.low} and {feature.high}")
    if feature.low > feature.high:
        raise SpecError(f"{where}: low {feature.low:g} is above high {feature.high:g}; exchange them")
    domain = domain_of(feature)
    if domain.real and feature.low == feature.high:
        raise SpecError(f"{where}: low equals high; widen the range, or make it an integer")
    if not math.isfinite(feature.high - feature.low):
        raise SpecError(f"{where}: the range is wider than any number; narrow it")
    check_preprocessing(feature)


def _check_property(spec: Spec) -> None:
    names = [feature.name for feature in spec.features]
    _unique("property.protected", spec.property.protected)
    for name in spec.property.protected:
        if name not in names:
            raise SpecError(f'property.protected: there is no feature "{name}"; {suggest(name, names)}')
    outcome = spec.property.outcome
    if outcome is not None and outcome not in spec.model.labels:
        raise SpecError(
            f'property.outcome: "{outcome}" is not one of model.labels; {suggest(outcome, spec.model.labels)}'
        )
    predicate_of(spec)


def _unique(where: str, names: Sequence[object]) -> None:
    seen: set[object] = set()
    for name in names:
        if name in seen:
            raise SpecError(f'{where}: "{name}" stands twice; every name must be different')
        seen.add(name)
