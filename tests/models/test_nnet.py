"""Promises of `adapters.from_nnet`: a text file of dense layers is evaluated as its format says."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import Limits, load_model
from fairchain.models.adapters.from_nnet import WIDTH_DOES_NOT_FIT, read_nnet
from fairchain.system.untrusted_files import TOO_LARGE
from tests.messages import says
from tests.questions import category, integer, real, spec

FEATURES = [integer("age", 0, 9), real("score", -1, 1), category("sex", "F", "M")]


def written(
    sizes: tuple[int, ...] = (3, 4, 2), *, low: float = -100, high: float = 100, mean: float = 0, spread: float = 1
) -> tuple[str, list[tuple[Any, Any]]]:
    """Return the text of a random network, and its weights and biases."""
    random = np.random.default_rng(0)
    layers = [(random.normal(size=(after, before)), random.normal(size=after)) for before, after in pairwise(sizes)]

    def line(*numbers: Any) -> str:
        return ",".join(f"{number:.9g}" for number in numbers) + ",\n"

    inputs = sizes[0]
    text = "// made for a test\n" + line(len(layers), inputs, sizes[-1], max(sizes)) + line(*sizes) + "0,\n"
    text += (
        line(*[low] * inputs) + line(*[high] * inputs) + line(*[mean] * (inputs + 1)) + line(*[spread] * (inputs + 1))
    )
    for weights, bias in layers:
        text += "".join(line(*row) for row in weights) + "".join(line(each) for each in bias)
    return text, layers


def scores(layers: list[tuple[Any, Any]], rows: Any, low: float, high: float, mean: float, spread: float) -> Any:
    """Evaluate it by the description of the format."""
    values = (np.clip(rows, low, high) - mean) / spread
    for place, (weights, bias) in enumerate(layers):
        values = values @ weights.T + bias
        if place < len(layers) - 1:
            values = np.maximum(values, 0)
    return values * spread + mean


@pytest.mark.parametrize("bounds", [(-100.0, 100.0), (2.0, 6.0)])
@pytest.mark.parametrize("scaling", [(0.0, 1.0), (1.5, 3.0)])
def test_it_is_clipped_scaled_and_scaled_back(
    bounds: tuple[float, float], scaling: tuple[float, float], tmp_path: Path
) -> None:
    text, layers = written((3, 8, 8, 2), low=bounds[0], high=bounds[1], mean=scaling[0], spread=scaling[1])
    (tmp_path / "network.nnet").write_text(text)
    model: Any = load_model(tmp_path / "network.nnet", spec(*FEATURES))
    rows = np.random.default_rng(1).uniform([0, -1, 0], [9, 1, 1], (500, 3)).round(0).astype(np.float32)
    expected = scores(layers, rows.astype(float), *bounds, *scaling)
    assert np.allclose(model.scores(rows), expected, atol=1e-4)
    assert model.certifiable


def test_one_output_is_a_logit(tmp_path: Path) -> None:
    text, layers = written((3, 4, 1))
    (tmp_path / "network.nnet").write_text(text)
    rows = np.array([[age, 0.5, sex] for age in range(10) for sex in (0, 1)], np.float32)
    model = load_model(tmp_path / "network.nnet", spec(*FEATURES, decision="logit"))
    assert model.predict(rows).tolist() == (scores(layers, rows, -100, 100, 0, 1)[:, 0] > 0).astype(int).tolist()


GOOD, _ = written()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("2,3,2,4,\n", "2,3,2,\n"), "3 numbers where 4 belong"),
        (GOOD.replace("2,3,2,4,\n", "99999999999,3,2,4,\n"), "99999999999 layers"),
        (GOOD.replace("3,4,2,\n", "3,4,5,\n"), "contradict the first line"),
        (GOOD.replace("1,1,1,1,\n", "1,0,1,1,\n"), "a range of 0"),
        ("\n".join(GOOD.splitlines()[:-1]), "ends before the last layer"),
        (GOOD.replace("100,100,100,\n", "100,1e300,100,\n"), "too large for single precision"),
        (GOOD.replace("100,100,100,\n", "100,__import__('os'),100,\n"), "line 6 contains more than numbers"),
        (GOOD.replace("100,100,100,\n", "100,nan,100,\n"), "line 6 contains more than numbers"),
    ],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "network.nnet").write_text(text)
    with pytest.raises(ModelError, match=problem):
        read_nnet(tmp_path / "network.nnet", Limits())


def test_a_file_above_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "network.nnet").write_text(GOOD)
    with pytest.raises(ModelError, match=says(TOO_LARGE, most="10")):
        load_model(tmp_path / "network.nnet", spec(*FEATURES), Limits(file_bytes=10))


def test_another_number_of_features_is_told(tmp_path: Path) -> None:
    (tmp_path / "network.nnet").write_text(GOOD)
    with pytest.raises(ModelError, match=says(WIDTH_DOES_NOT_FIT, low_count="3", width="2")):
        load_model(
            tmp_path / "network.nnet",
            spec(integer("age", 0, 9, groups={"young": [0, 4], "old": [5, 9]}), FEATURES[1], protected=["age"]),
        )
