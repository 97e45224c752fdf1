"""Small specs for tests, as nested mappings, and changes to them."""

from __future__ import annotations

import copy
from typing import Any

from fairchain.spec import Spec, parse_spec


def integer(name: str, low: int = 0, high: int = 9, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "integer", "low": low, "high": high, **more}


def real(name: str, low: float = 0.0, high: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "real", "low": low, "high": high, **more}


def category(name: str, *values: str | int, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "category", "values": list(values), **more}


def question(*features: dict[str, Any], protected: list[str] | None = None, **model: Any) -> dict[str, Any]:
    """A spec about these features; the last one is protected unless said otherwise. Inputs are sampled."""
    asked = list(features) or [integer("age"), category("sex", "Female", "Male")]
    return {
        "model": {"path": "network.onnx", "labels": ["no", "yes"], **model},
        "feature": asked,
        "property": {
            "kind": "difference",
            "protected": protected if protected is not None else [asked[-1]["name"]],
            "threshold": 0.1,
        },
        "guarantee": {"delta": 0.001, "engine": "sampling", "budget": {"rounds": 20000, "seconds": 30}},
    }


def spec(*features: dict[str, Any], protected: list[str] | None = None, **model: Any) -> Spec:
    return parse_spec(question(*features, protected=protected, **model))


def changed(data: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy with the entry at `feature.0.low` (numbers count in lists) set; `...` removes it."""
    data = copy.deepcopy(data)
    *steps, last = [int(step) if step.isdigit() else step for step in key.split(".")]
    place: Any = data
    for step in steps:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return data
