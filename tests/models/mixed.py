"""A frame with numbers and words, models that are fitted on it, and the question that one asks about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairchain.spec import Spec, parse_spec

WORK = ("Private", "Gov", "Self", "Farm")
LABELS = ("<=50K", ">50K")


def people(count: int = 600, seed: int = 0, *, categories: bool = True) -> tuple[Any, Any]:
    """Return a frame with a protected column, and labels; one category is in the column's type and in no row."""
    import pandas as pd

    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 80, count),
            "hours-per-week": random.uniform(1, 99, count).round(1),
            "work": random.choice(WORK, count, p=[0.5, 0.3, 0.15, 0.05]),
            "sex": random.choice(["Female", "Male"], count),
        }
    )
    score = frame["age"] + 25 * (frame["work"] == "Gov") + 15 * (frame["sex"] == "Male") + random.normal(0, 8, count)
    if categories:
        frame["work"] = pd.Categorical(frame["work"], categories=[*reversed(WORK), "Never"])
        frame["sex"] = pd.Categorical(frame["sex"])
    return frame, np.where(score > 65, LABELS[1], LABELS[0])


def about(frame: Any, inputs: Any = None, *, protected: str = "sex", **model: Any) -> Spec:
    """Return the question about a frame's rows as the population; columns that are no inputs define groups alone."""
    features = []
    for column in frame.columns:
        series, given = frame[column], {"name": str(column).replace("-", "_"), "column": str(column)}
        if inputs is not None and column not in inputs:
            given["model_input"] = False
        if series.dtype.kind in "iuf":
            kind = "integer" if series.dtype.kind in "iu" else "real"
            features.append({"kind": kind, "low": series.min().item(), "high": series.max().item(), **given})
        else:
            values = getattr(series.dtype, "categories", None)
            values = list(values) if values is not None else sorted(set(series.dropna()))
            features.append({"kind": "category", "values": [str(value) for value in values], **given})
    return parse_spec(
        {
            "model": {"labels": list(LABELS), **model},
            "feature": features,
            "property": {"kind": "difference", "protected": [protected], "outcome": LABELS[1], "threshold": 0.1},
            "population": {"kind": "table", "as": "population"},
        }
    )


def gap(chosen: Any, protected: Any) -> float:
    """Return the difference between the groups' shares of chosen rows, counted without the code that is tested."""
    chosen, protected = np.asarray(chosen), np.asarray(protected)
    rates = [chosen[protected == group].mean() for group in sorted(set(protected))]
    return float(max(rates) - min(rates))
