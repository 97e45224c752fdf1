"""Tables of people with decisions, and questions about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.networks import linear, save
from tests.questions import category, integer, question

LABELS = ["no", "yes"]
SEXES = ["Female", "Male", "Other"]
Table = dict[str, list[Any]]


def audit(
    kind: str = "difference", threshold: float = 0.1, reading: str = "population", **asked: Any
) -> dict[str, Any]:
    """A question about decisions that a table records."""
    data = question(integer("age", 0, 99), category("sex", *SEXES))
    data["model"] = {"labels": LABELS}
    data["property"] |= {"kind": kind, "threshold": threshold, **asked}
    return data | {"population": {"kind": "table", "as": reading, "label": "truth", "prediction": "decision"}}


def people(seed: int, count: int = 211) -> Table:
    """Random people; the sizes of the groups, and what they get, have nothing round about them."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(3, count, p=[0.5, 0.37, 0.13])
    truth = rng.random(count) < np.array([0.3, 0.6, 0.5])[sex]
    decision = rng.random(count) < np.where(truth, 0.8, 0.15)
    return {
        "age": rng.integers(17, 90, count).tolist(),
        "sex": [SEXES[each] for each in sex],
        "truth": [LABELS[each] for each in truth.astype(int)],
        "decision": [LABELS[each] for each in decision.astype(int)],
    }


def counted(groups: dict[str, tuple[int, int]]) -> Table:
    """So many of so many get it in each group."""
    sex = [name for name, (_, rows) in groups.items() for _ in range(rows)]
    decision = [LABELS[place < got] for got, rows in groups.values() for place in range(rows)]
    return {"age": [30] * len(sex), "sex": sex, "decision": decision, "truth": decision}


def everybody() -> Table:
    """A population whose sizes and rates are known, with a gap of exactly 0.2 between two of three groups."""
    return counted({"Female": (600, 1000), "Male": (400, 1000), "Other": (250, 500)})


def network(folder: Path) -> Path:
    """yes from an age of 40 on for women, of 50 on for all others."""
    weights = np.zeros((2, 2))
    weights[:, 1] = [1, -5]
    return save(linear(weights, [39.5, 0]), folder / "network.onnx")
