"""What may change: 0 is the old network, the mean stays where it should, and a feature that is turned off is off."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairchain.models import OnnxModel
from fairchain.models.edit.candidates import input_means
from fairchain.models.edit.weights import Weights, WeightUnit
from fairchain.repairing.parameters import NamedUnit, Parameters, Scales, last_layer, low_rank, unit_biases
from tests.repairing.builders import SEX, asked, biased

PROTECTED = NamedUnit(WeightUnit("", SEX), "feature sex", True)


@pytest.fixture
def model(tmp_path: Path) -> OnnxModel:
    spec = asked(tmp_path)
    return OnnxModel(spec.model.path or "", spec)


def people(count: int = 500) -> np.ndarray:
    random = np.random.default_rng(0)
    return np.column_stack([random.integers(0, 10, (count, 2)), random.integers(0, 2, count)]).astype(np.float32)


def all_parameters(model: OnnxModel) -> dict[str, Parameters]:
    weights = Weights(model)
    means = input_means(model, weights.blocks, people())
    neurons = [NamedUnit(WeightUnit("h", j), f"layer1[{j}]") for j in range(4)]
    return {
        "scales": Scales(weights, [PROTECTED, *neurons], means),
        "paper": Scales(weights, neurons, None),
        "biases": unit_biases(weights, neurons),
        "last-layer": last_layer(weights),
        "low-rank": low_rank(weights, [PROTECTED], means),
    }


def test_no_change_is_the_old_network_and_every_number_changes_something(model: OnnxModel) -> None:
    weights = Weights(model)
    for parameters in all_parameters(model).values():
        count = len(parameters.names)
        for name, array in parameters.weights(np.zeros(count)).items():
            np.testing.assert_array_equal(array, weights.values[name])
        for place in range(count):
            point = np.zeros(count)
            point[place] = 0.5
            # A weight of zero has no size to be changed by.
            if parameters.adjustments(point)[place].before:
                assert any(not np.array_equal(v, weights.values[n]) for n, v in parameters.weights(point).items())


@pytest.mark.parametrize("kind", ["scales", "low-rank"])
def test_a_protected_feature_that_is_turned_down_to_nothing_has_no_say(model: OnnxModel, kind: str) -> None:
    parameters = all_parameters(model)[kind]
    content = Weights(model).network(parameters.weights(parameters.starts()[-1]))
    silent = OnnxModel.from_bytes(content, "silent.onnx", asked(model.path.parent))
    men, women = people(), people()
    men[:, SEX], women[:, SEX] = 1, 0
    np.testing.assert_array_equal(silent.scores(men), silent.scores(women))
    assert (model.scores(men) != model.scores(women)).any()


@pytest.mark.parametrize("kind", ["scales", "low-rank"])
def test_what_a_feature_adds_on_average_stays(model: OnnxModel, kind: str) -> None:
    parameters = all_parameters(model)[kind]
    weights = Weights(model)
    changed = {**weights.values, **parameters.weights(parameters.starts()[7])}
    before, after = (people() @ w["w1"] + w["b1"] for w in (weights.values, changed))
    np.testing.assert_allclose(before.mean(axis=0), after.mean(axis=0), rtol=1e-4)
    assert after[:, 2].std() < 0.6 * before[:, 2].std()


def test_the_paper_leaves_biases_alone(model: OnnxModel) -> None:
    assert all_parameters(model)["paper"].tensors == ("w2",)
    assert set(all_parameters(model)["biases"].tensors) == {"b1", "b2"}
    assert set(all_parameters(model)["last-layer"].tensors) == {"w2", "b2"}


def test_adjustments_are_said_in_their_own_units(model: OnnxModel) -> None:
    first, *_ = all_parameters(model)["scales"].adjustments(np.array([-0.25, 0, 0, 0, 0]))
    assert (first.name, first.before, first.after) == ("factor of feature sex", 1.0, 0.75)
    moved = all_parameters(model)["low-rank"].adjustments(np.array([0, 0, -0.5, 0]))[2]
    assert (moved.name, moved.before, moved.after) == ("w1[2, 2] of feature sex", 2.0, 1.0)


def test_a_bias_of_one_row_can_be_moved_like_any_other(tmp_path: Path) -> None:
    """Biases as scikit-learn writes them: (1, units)."""
    network = biased()
    for tensor in network.graph.initializer:
        if tensor.name in ("b1", "b2"):
            tensor.dims.insert(0, 1)
    file = tmp_path / "rows.onnx"
    file.write_bytes(network.SerializeToString())
    weights = Weights(OnnxModel(str(file), asked(tmp_path)))
    shifts = unit_biases(weights, [NamedUnit(WeightUnit("h", 2), "layer1[2]")])
    assert shifts.names == ("b1[0, 2]", "b2[0, 0]", "b2[0, 1]")
    assert shifts.weights(np.array([1.0, 0, 0]))["b1"][0].tolist() == [0, 0, 1, 0]
