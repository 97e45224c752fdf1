"""Specs whose truth is known by construction, and which statements of a verdict on them are wrong.

The model says yes where a whole number from 0 to 999, drawn evenly, is below the cutoff of the input's group, so that
rates are exact thousandths. With cutoffs 0 and 100 and a threshold of 0.1 the gap is the threshold: FAIR and UNFAIR are
both wrong there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from benchmarks.calibration.measure import GAP, RATES, TOGETHER, VERDICT, Wrong
from fairchain import Decision, Verdict, parse_spec
from fairchain.spec import Spec

DELTA = 0.05
STEPS = 1000
# Bounds are found by bisection and rates are decimal fractions: nearer than this is equal.
ROUNDING = 1e-9
Plain = dict[str, Any]
Values = NDArray[Any]
Labels = NDArray[np.int64]
# From inputs (rows, features) to labels by number.
Model = Callable[[Values], Labels]
NO_YES = ("no", "yes")


def category(name: str, count: int) -> Plain:
    """Describe a feature with the values g0, g1, ... (of a feature "g")."""
    return {"name": name, "kind": "category", "values": [f"{name}{i}" for i in range(count)]}


def number(name: str = "x", most: int = STEPS - 1) -> Plain:
    """Describe a whole number from 0 to `most`."""
    return {"name": name, "kind": "integer", "low": 0, "high": most}


def formula(text: str) -> Plain:
    """Return the property of a formula."""
    return {"kind": "formula", "formula": text}


def spec_of(
    features: Sequence[Plain],
    about: Plain,
    population: Plain | None = None,
    *,
    delta: float = DELTA,
    labels: Sequence[str] = NO_YES,
    model: Plain | None = None,
    **guarantee: Any,
) -> Spec:
    """Return a spec about these features; the first one is protected unless `about` says otherwise or is a formula."""
    # A finite space would be enumerated, and here the rules for rounds are measured.
    sampling = {} if population is not None and population["kind"] == "table" else {"engine": "sampling"}
    plain = {} if "formula" in about else {"kind": "difference", "protected": [features[0]["name"]]}
    return parse_spec(
        {
            "model": model or {"labels": list(labels), "decision": "label", "codes": list(range(len(labels)))},
            "feature": list(features),
            "property": {**plain, **about},
            "population": population or {"kind": "uniform"},
            "guarantee": {**sampling, "delta": delta, "budget": {"rounds": 400, "seconds": 600}, **guarantee},
        }
    )


def with_rounds(spec: Spec, rounds: int) -> Spec:
    """Return the spec with another budget."""
    budget = replace(spec.guarantee.budget, rounds=float(rounds))
    return replace(spec, guarantee=replace(spec.guarantee, budget=budget))


def with_delta(spec: Spec, delta: float) -> Spec:
    """Return the spec with another delta."""
    return replace(spec, guarantee=replace(spec.guarantee, delta=delta))


def as_labels(values: Values) -> Labels:
    """Return whole numbers."""
    labels: Labels = values.astype(np.int64)
    return labels


def below(cutoffs: Sequence[int]) -> Model:
    """Return the model that says yes (1) where the second column is below the cutoff of the group in the first."""
    table = np.array(cutoffs)

    def decide(values: Values) -> Labels:
        return as_labels(values[:, 1] < table[values[:, 0].astype(int)])

    return decide


def rates_of(cutoffs: Sequence[int], feature: str = "g") -> dict[tuple[str, str], float]:
    """Return P(outcome | group) for the model `below`."""
    rates = {}
    for group, cutoff in enumerate(cutoffs):
        name = f"{feature}={feature}{group}"
        rates[name, "yes"], rates[name, "no"] = cutoff / STEPS, 1 - cutoff / STEPS
    return rates


@dataclass(frozen=True)
class Truth:
    """What is true: the gap in the property's own unit, rates of groups, and the decisions that are wrong."""

    gap: float
    rates: Mapping[tuple[str, str], float] = field(default_factory=dict)
    wrong: frozenset[Decision] = frozenset((Decision.FAIR, Decision.UNFAIR))


def outside(truth: float, low: float, high: float) -> bool:
    """Return whether bounds miss the truth by more than rounding."""
    return truth < low - ROUNDING or truth > high + ROUNDING


def mistakes(verdict: Verdict, truth: Truth) -> Wrong:
    """Return which statements of a verdict are wrong."""
    gap = outside(truth.gap, verdict.gap.low, verdict.gap.high)
    rates = any(
        outside(truth.rates[group.name, group.outcome], group.probability.low, group.probability.high)
        for group in verdict.groups
        if (group.name, group.outcome) in truth.rates
    )
    return {VERDICT: verdict.decision in truth.wrong, GAP: gap, RATES: rates, TOGETHER: gap or rates}
