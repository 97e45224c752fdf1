"""People who apply for a job, and networks that decide about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairchain.drafting import Draft, DraftOptions, draft_spec
from tests.networks import graph, linear, node, save, value

JOBS = ("clerk", "driver", "nurse", "smith")


def applicants(count: int = 400, seed: int = 5) -> dict[str, list[Any]]:
    """A table as a mapping of columns; the label follows from hours and the job, with few exceptions."""
    random = np.random.default_rng(seed)
    age, hours = random.integers(18, 71, count), random.uniform(1, 59, count).round(2)
    sex, job = random.integers(0, 2, count), random.integers(0, 4, count)
    # The ends are there whatever the seed.
    age[:2], hours[:2] = (18, 70), (0.25, 59.5)
    score = hours - 30 + 15 * np.isin(job, (1, 2)) - 7
    hired = (score > 0) ^ (random.random(count) < 0.05)
    return {
        "age": age.tolist(),
        "hours": hours.tolist(),
        "sex": ["FM"[each] for each in sex],
        "job": [JOBS[each] for each in job],
        "hired": ["no" if not each else "yes" for each in hired],
    }


def numbers(count: int = 400) -> dict[str, list[Any]]:
    """The same people with numbers only: sex 0 or 1, no job."""
    table = applicants(count)
    del table["job"]
    return {**table, "sex": ["FM".index(each) for each in table["sex"]]}


def by_hours(width: int = 3, place: int = 1, end: str | None = None, sign: float = 1.0) -> bytes:
    """A flat network with two scores that hires whoever works more than 30 hours; `sign` -1 swaps the scores."""
    weights = np.zeros((width, 2))
    weights[place] = (-sign, sign)
    return bytes(linear(weights, [30 * sign, -30 * sign], end=end).SerializeToString())


def one_score(end: str | None = None, factor: float = 1.0) -> bytes:
    """A flat network of three inputs with a single score, positive above 30 hours."""
    return bytes(linear([[0], [factor], [0]], [-30 * factor], end=end).SerializeToString())


def with_jobs(width: int, hours: int, jobs: dict[int, float], cut: float = 37) -> bytes:
    """A flat network that hires above a cut of hours at one place, with points for what stands at others."""
    weights = np.zeros((width, 2))
    weights[hours] = (0, 1)
    for place, points in jobs.items():
        weights[place] = (0, points)
    return bytes(linear(weights, [0, -cut]).SerializeToString())


def named(path: Path, text: tuple[str, ...] = ("sex", "job"), order: tuple[str, ...] = ("hours", "age", "sex")) -> Path:
    """A network with one input for each column; it decides by hours, and answers with whole numbers."""
    from onnx import TensorProto

    inputs = [value(name, TensorProto.STRING if name in text else TensorProto.FLOAT, ("N", 1)) for name in order]
    cut = node("Constant", [], ["cut"], value_float=30.0)
    nodes = [cut, node("Greater", ["hours", "cut"], ["more"]), node("Cast", ["more"], ["label"], to=TensorProto.INT64)]
    return save(graph(nodes, inputs, [value("label", TensorProto.INT64, ("N", 1))]), path)


def draft(table: Any, model: Any = None, **wishes: Any) -> Draft:
    return draft_spec(table, model, DraftOptions(**wishes))


def features(made: Draft) -> dict[str, Any]:
    return {feature.name: feature for feature in made.spec.features}
