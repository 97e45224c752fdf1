"""Effects and sensitivities against the truth, in a network that can be asked about everybody."""

from __future__ import annotations

import numpy as np
import pytest

from fairchain.explaining import Explanation, Influence, explain
from fairchain.statistics import Interval
from tests.explaining.builders import (
    GROUPS,
    everybody,
    hidden,
    loaded,
    random_layers,
    small_spec,
    true_rate,
    true_rate_after,
    true_sensitivity,
)

LAYERS = random_layers(18)
NUMBERS = {"a": 0, "b": 1, "c": 2}


def true_effect(found: Explanation, unit: Influence) -> float:
    pair = [NUMBERS[name.removeprefix("group=")] for name in (found.pair.more, found.pair.less)]
    depth = 0 if unit.kind == "feature" else int(unit.layer.removeprefix("layer"))
    if unit.held_at is not None:
        given = [unit.held_at]
    else:
        given = np.concatenate([hidden(LAYERS, everybody(group), depth)[:, unit.place] for group in range(GROUPS)])
    now, then = ([rate(group) for group in pair] for rate in (
        lambda group: true_rate(LAYERS, group),
        lambda group: true_rate_after(LAYERS, group, depth, unit.place, given),
    ))  # fmt: skip
    return (now[0] - now[1]) - abs(then[0] - then[1])


def narrowed(interval: Interval, width: float) -> Interval:
    estimate, low, high = interval.estimate, interval.low, interval.high
    return Interval(estimate, estimate - width * (estimate - low), estimate + width * (high - estimate))


@pytest.mark.parametrize("method", ["default", "mean", "resample"])
def test_every_effect_and_sensitivity_is_what_asking_everybody_says(method: str) -> None:
    spec = small_spec()
    found = explain(loaded(LAYERS, spec), spec, method=method, rounds=20_000)
    assert len(found.units) == 3 + 5 + 4
    gaps = [abs(true_rate(LAYERS, i) - true_rate(LAYERS, j)) for i in range(GROUPS) for j in range(i)]
    assert max(gaps) in found.largest
    assert max(gaps) > 0.1
    for unit in found.units:
        truth = true_effect(found, unit)
        assert truth in unit.effect
        assert unit.effect.high - unit.effect.low < 0.09
        assert abs(unit.effect.estimate - truth) < 0.03
        if unit.kind == "neuron":
            sensitivity = true_sensitivity(LAYERS, int(unit.layer[5:]), unit.place)
            assert sensitivity in unit.sensitivity
            assert abs(unit.sensitivity.estimate - sensitivity) < 0.02


def test_intervals_hold_together_over_many_seeds() -> None:
    """More than 6 of 12 runs miss with probability at most 0.004 at delta 0.2; intervals of 0.3 the width do miss."""
    spec = small_spec(guarantee={"delta": 0.2})
    model = loaded(LAYERS, spec)
    missed = {1.0: 0, 0.3: 0}
    for seed in range(12):
        found = explain(model, spec, units=["features", "layer2"], rounds=400, seed=seed, workers=1)
        truth = [true_effect(found, unit) for unit in found.units]
        for width in missed:
            missed[width] += any(
                true not in narrowed(unit.effect, width) for true, unit in zip(truth, found.units, strict=True)
            )
    assert missed[1.0] <= 6
    assert missed[0.3] > 6  # a negative control: intervals that are too narrow are found


def test_resampling_a_feature_that_is_independent_of_the_group_changes_no_gap() -> None:
    spec = small_spec()
    found = explain(loaded(LAYERS, spec), spec, units=["features"], method="resample", rounds=20_000)
    for unit in found.units:
        assert true_effect(found, unit) == pytest.approx(0, abs=1e-12)
        assert 0 in unit.effect
        assert unit.changed > 0.05
