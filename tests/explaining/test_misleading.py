"""Where the paper's measure misleads, and the effect does not."""

from __future__ import annotations

import numpy as np
import pytest

from fairchain.explaining import Explanation, explain
from tests.explaining.builders import loaded, random_layers, small_spec, true_rate, true_sensitivity

RELEVANT, DEAD = 0, 1


def explained(**changes: float) -> Explanation:
    """One neuron hears of the group and is heard; another hears of it loudly, and nothing is connected to it."""
    layers = random_layers(18, (4, 3, 2))
    (first, bias), (last, _) = layers
    first[:, 3] = 0
    first[RELEVANT] = [0.3, 0.2, 0.1, -1.0]
    bias[RELEVANT] = changes.get("bias", 1.0)
    first[DEAD], bias[DEAD] = [0.1, 0.1, 0.1, 2.0], -2.0
    last[:, DEAD] = 0
    last[:, RELEVANT] = [-1.0, 1.0]
    layers[1][1][:] = changes.get("border", 0.5), 0
    spec = small_spec()
    return explain(loaded(layers, spec), spec, units=["layer1"], rounds=4000)


def test_a_neuron_that_nothing_is_connected_to_has_no_effect_but_the_largest_sensitivity() -> None:
    found = explained()
    units = {unit.place: unit for unit in found.units}
    assert units[DEAD].effect.estimate == 0
    assert units[DEAD].changed == 0
    assert units[DEAD].sensitivity.low > max(units[place].sensitivity.high for place in units if place != DEAD)
    assert units[DEAD].share == 1
    assert found.units[0].place == RELEVANT
    assert units[RELEVANT].effect.low > 0.05
    assert units[RELEVANT].remaining == 0


def test_a_neuron_that_is_on_for_everybody_carries_the_gap_with_no_sensitivity() -> None:
    found = explained(bias=3.0, border=4.5)
    first = found.units[0]
    assert first.place == RELEVANT
    assert first.effect.low > 0.1
    assert first.sensitivity.estimate == 0


def test_with_two_states_the_sensitivity_knows_nothing_of_what_the_unit_does() -> None:
    """It is P(label) times the difference of P(on) between the groups, whatever the unit's weights."""
    layers = random_layers(18)
    for unit in range(5):
        louder = [(weights.copy(), bias) for weights, bias in layers]
        spread = true_sensitivity(layers, 1, unit) / np.mean([true_rate(layers, group) for group in range(3)])
        louder[1][0][:, unit] *= -3
        rate = np.mean([true_rate(louder, group) for group in range(3)])
        assert true_sensitivity(louder, 1, unit) == pytest.approx(rate * spread)


def test_of_features_that_are_independent_of_the_group_the_paper_s_measure_is_nothing_but_chance() -> None:
    """Coupled rounds show every group the same people, so that it is exactly 0; counted apart it would be noise."""
    layers = random_layers(18)
    spec = small_spec()
    found = explain(loaded(layers, spec), spec, units=["features"], rounds=2000)
    assert all(unit.sensitivity.estimate == 0 == unit.share for unit in found.units)
    assert any(unit.effect.low > 0 or unit.effect.high < 0 for unit in found.units)
    assert found.agreement.kendall is None
