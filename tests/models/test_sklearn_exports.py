"""Promise: a scikit-learn classifier exported with skl2onnx decides as it does in Python, on the same rows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import OnnxModel
from fairchain.models.onnx.decision import NOT_SCORES_OR_LABELS, OUTPUT_IS_NOT_A_LABEL
from tests.messages import says
from tests.questions import category, integer, spec

sklearn = pytest.importorskip("sklearn")
skl2onnx = pytest.importorskip("skl2onnx")

FEATURES = [integer("age", 0, 40), integer("hours", 0, 60), category("sex", "Female", "Male")]


def rows(count: int = 400) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(3)
    return random.integers(0, [41, 61, 2], size=(count, 3)).astype(np.float32)


def fitted(name: str, classes: list[Any]) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    made = {
        "logistic": lambda: LogisticRegression(max_iter=2000),
        "forest": lambda: RandomForestClassifier(5, max_depth=4, random_state=0),
        "boosting": lambda: GradientBoostingClassifier(n_estimators=5, random_state=0),
        "network": lambda: MLPClassifier((8,), max_iter=200, random_state=0),
    }
    x = rows()
    score = (x[:, 0] + x[:, 1] - 10 * x[:, 2]) / 100 * len(classes)
    y = np.array(classes)[np.clip(score.astype(int), 0, len(classes) - 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few steps of training are enough here
        return made[name]().fit(x, y)


def export(classifier: Any, path: Path, **options: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = skl2onnx.to_onnx(
            classifier, rows(1), options={id(classifier): options}, target_opset={"": 17, "ai.onnx.ml": 3}
        )
    network.ir_version = 8
    path.write_bytes(network.SerializeToString())
    return path


@pytest.mark.parametrize("name", ["logistic", "forest", "boosting", "network"])
@pytest.mark.parametrize("zipmap", [True, False])
def test_two_classes_agree(tmp_path: Path, name: str, zipmap: bool) -> None:
    classifier = fitted(name, [0, 1])
    path = export(classifier, tmp_path / "network.onnx", zipmap=zipmap)
    expected = classifier.predict(rows())
    assert set(expected) == {0, 1}
    assert np.array_equal(OnnxModel(path, spec(*FEATURES)).predict(rows()), expected)


@pytest.mark.parametrize("zipmap", [True, False])
def test_texts_as_classes_agree(tmp_path: Path, zipmap: bool) -> None:
    classifier = fitted("forest", ["granted", "denied"])
    path = export(classifier, tmp_path / "network.onnx", zipmap=zipmap)
    expected = classifier.predict(rows())
    for labels in (["granted", "denied"], ["denied", "granted"]):
        found = OnnxModel(path, spec(*FEATURES, labels=labels)).predict(rows())
        assert [labels[i] for i in found] == expected.tolist()


def test_codes_translate_texts_into_the_spec_s_own_labels(tmp_path: Path) -> None:
    classifier = fitted("forest", ["granted", "denied"])
    path = export(classifier, tmp_path / "network.onnx", zipmap=False)
    found = OnnxModel(path, spec(*FEATURES, codes=["denied", "granted"])).predict(rows())
    assert found.tolist() == (classifier.predict(rows()) == "granted").tolist()


@pytest.mark.parametrize("name", ["logistic", "forest"])
def test_three_classes_with_odd_numbers_agree(tmp_path: Path, name: str) -> None:
    classifier = fitted(name, [10, 20, 35])
    path = export(classifier, tmp_path / "network.onnx", zipmap=False)
    question = spec(*FEATURES, labels=["low", "middle", "high"], codes=[10, 20, 35])
    found = np.array([10, 20, 35])[OnnxModel(path, question).predict(rows())]
    assert np.array_equal(found, classifier.predict(rows()))


def test_the_scores_may_be_chosen_instead_of_the_label(tmp_path: Path) -> None:
    classifier = fitted("logistic", [0, 1])
    path = export(classifier, tmp_path / "network.onnx", zipmap=False)
    found = OnnxModel(path, spec(*FEATURES, output="probabilities")).predict(rows())
    assert np.array_equal(found, classifier.predict(rows()))


def test_a_list_of_mappings_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = export(fitted("logistic", [0, 1]), tmp_path / "network.onnx", zipmap=True)
    with pytest.raises(ModelError, match=says(NOT_SCORES_OR_LABELS)):
        OnnxModel(path, spec(*FEATURES, output="output_probability"))


def test_unknown_texts_are_refused_with_a_remedy(tmp_path: Path) -> None:
    path = export(fitted("forest", ["granted", "denied"]), tmp_path / "network.onnx", zipmap=False)
    with pytest.raises(ModelError, match=says(OUTPUT_IS_NOT_A_LABEL, repr="'no', 'yes'")):
        OnnxModel(path, spec(*FEATURES)).predict(rows(1) * 0)
