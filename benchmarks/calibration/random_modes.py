"""Modes about models that are random by themselves: rates include the model's own randomness."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.calibration.known_truth import DELTA, Labels, Values, category, spec_of, with_rounds
from benchmarks.calibration.measure import VERDICT, Effort, Mode, Wrong
from fairchain import Decision, verify
from fairchain.spec import Spec

# P(yes) of each group, whatever else the input is: the gap is the threshold.
RATES = np.array([0.5, 0.6])
# Values of the other feature: few, so that inputs come again and again. Rows of a table.
VALUES, ROWS = 3, 400
VARIANT = "the first answer to an input is used whenever the input comes again"


@cache
def question(rows: bool) -> Spec:
    """Return the question about drawn inputs, or about rows as a sample."""
    features = [category("g", 2), {"name": "x", "kind": "integer", "low": 0, "high": VALUES - 1}]
    model = {"labels": ["no", "yes"], "decision": "label", "codes": [0, 1], "deterministic": False}
    population = {"kind": "table", "as": "sample"} if rows else None
    return spec_of(features, {"threshold": 0.1}, population, model=model)


def coin(random: np.random.Generator) -> Callable[[Values], Labels]:
    """Return a model that throws a coin for every input anew."""
    return lambda values: (random.random(len(values)) < RATES[values[:, 0].astype(int)]).astype(np.int64)


def remembered(model: Callable[[Values], Labels]) -> Callable[[Values], Labels]:
    """Return a model with its first answer to every input."""
    kept: dict[bytes, int] = {}

    def answer(values: Values) -> Labels:
        fresh = model(values)
        return np.array([kept.setdefault(row.tobytes(), int(new)) for row, new in zip(values, fresh, strict=True)])

    return answer


def play(seed: int, effort: Effort, *, rows: bool, keep: bool = False) -> Wrong:
    """Answer the question once; any verdict is wrong."""
    random = np.random.default_rng([seed, 17])
    model = remembered(coin(random)) if keep else coin(random)
    data: Any = None
    spec = question(rows)
    if rows:
        cells = random.integers(0, 2, ROWS)
        data = {"g": [f"g{each}" for each in cells], "x": random.integers(0, VALUES, ROWS).tolist()}
    else:
        spec = with_rounds(spec, effort.rounds)
    verdict = verify(model, spec, data=data, seed=seed, workers=1)
    return {VERDICT: verdict.decision is not Decision.UNDECIDED}


def random_modes() -> list[Mode]:
    """Return all modes about random models."""
    truth = "gap equal to the threshold"
    return [
        Mode(
            name,
            "a non-deterministic model",
            engine,
            truth,
            DELTA,
            partial(play, rows=rows),
            VARIANT,
            partial(play, rows=rows, keep=True),
        )
        for name, engine, rows in (("uniform", "sampling", False), ("table as sample", "counting", True))
    ]
