"""Promises of `adapters.from_boosting`: XGBoost, LightGBM and CatBoost decide here as they do by themselves."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.errors import CertificateError, ModelError
from fairchain.models import OnnxModel, load_model
from fairchain.models.adapters.estimator_inputs import COLUMNS_WITHOUT_FEATURE, VALUES_NOT_FITTED
from fairchain.models.adapters.from_boosting import NO_CATEGORY_SPLITS, NOT_FITTED
from fairchain.models.adapters.from_function import FunctionModel
from tests.messages import says
from tests.models.mixed import LABELS, about, gap, people

pytestmark = pytest.mark.boosting
pytest.importorskip("sklearn")
pd: Any = pytest.importorskip("pandas")


def fitted(kind: str, frame: Any, labels: Any) -> tuple[Any, dict[str, Any], Any]:
    """Return a model of this kind, what the spec must say of it, and its own decisions about the frame."""
    package, _, form = kind.partition(" ")
    above = (labels == LABELS[1]).astype(int)
    words = [column for column in frame if frame[column].dtype.kind not in "iuf"]
    if package == "xgboost":
        import xgboost

        if form == "booster":
            matrix = xgboost.DMatrix(frame, above, enable_categorical=True)
            booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3}, matrix, 12)
            return booster, {}, booster.predict(matrix) > 0.5
        model = xgboost.XGBClassifier(n_estimators=12, max_depth=3, enable_categorical=True).fit(frame, above)
        return model, {"codes": [0, 1]}, model.predict(frame) == 1
    if package == "lightgbm":
        import lightgbm

        if form == "booster":
            data = lightgbm.Dataset(frame, above)
            booster = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 12)
            return booster, {}, booster.predict(frame) > 0.5
        model = lightgbm.LGBMClassifier(n_estimators=12, verbose=-1, n_jobs=1).fit(frame, labels)
        return model, {}, model.predict(frame) == LABELS[1]
    import catboost

    settings = {
        "iterations": 12,
        "depth": 3,
        "verbose": 0,
        "cat_features": words,
        "thread_count": 1,
        "allow_writing_files": False,
    }
    if form == "booster":
        model = catboost.CatBoost({**settings, "loss_function": "Logloss"}).fit(frame, above)
        return model, {}, model.predict(frame, prediction_type="Probability")[:, 1] > 0.5
    model = catboost.CatBoostClassifier(**settings).fit(frame, labels)
    return model, {}, model.predict(frame) == LABELS[1]


KINDS = [f"{package} {form}" for package in ("xgboost", "lightgbm", "catboost") for form in ("estimator", "booster")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_is_that_of_the_models_own_decisions_with_category_columns(kind: str) -> None:
    frame, labels = people()
    model, said, chosen = fitted(kind, frame, labels)
    verdict = fairchain.verify(model, about(frame, **said), data=frame)
    assert 0.05 < gap(chosen, frame["sex"]) < 0.9
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_protected_column_need_not_be_an_input(kind: str) -> None:
    frame, labels = people()
    inputs = frame.drop(columns="sex")
    model, said, chosen = fitted(kind, inputs, labels)
    verdict = fairchain.verify(model, about(frame, list(inputs), **said), data=frame)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_words_gets_the_categories_that_the_model_was_fitted_on(kind: str, tmp_path: Path) -> None:
    frame, labels = people()
    model, said, chosen = fitted(kind, frame, labels)
    frame.to_csv(tmp_path / "people.csv", index=False)
    verdict = fairchain.verify(model, about(frame, **said), data=tmp_path / "people.csv")
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_converted_to_a_network_that_can_be_certified(kind: str) -> None:
    frame, labels = people()
    inputs = frame[["age", "hours-per-week"]]
    model, said, chosen = fitted(kind, inputs, labels)
    question = about(frame, list(inputs), **said)
    asked = fairchain.verify(model, question, data=frame)
    assert not asked.certifiable
    verdict = fairchain.verify(model, question, data=frame, certify=True)
    assert verdict.certifiable
    assert verdict.model_sha256
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)
    network = OnnxModel.from_bytes(fairchain.to_onnx(model, question), "network", question)
    assert network.sha256 == verdict.model_sha256


@pytest.mark.parametrize("form", ["estimator", "booster"])
def test_lightgbm_with_categories_is_converted(form: str) -> None:
    frame, labels = people()
    model, said, chosen = fitted(f"lightgbm {form}", frame, labels)
    verdict = fairchain.verify(model, about(frame, **said), data=frame, certify=True)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("lightgbm")])
def test_splits_by_category_without_a_converter_are_asked_and_never_certified(kind: str) -> None:
    frame, labels = people()
    model, said, _ = fitted(kind, frame, labels)
    question = about(frame, **said)
    loaded = load_model(model, question)
    assert isinstance(loaded, FunctionModel)
    assert "by category have no converter" in loaded.note
    with pytest.raises(CertificateError, match=says(NO_CATEGORY_SPLITS)):
        fairchain.verify(model, question, data=frame, certify=True)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_reach_a_model_that_takes_them(kind: str) -> None:
    frame, labels = people()
    frame["age"] = frame["age"].astype(float)
    frame.loc[::7, "age"] = np.nan
    if not kind.startswith("catboost"):
        frame.loc[::11, "work"] = np.nan
    model, said, chosen = fitted(kind, frame, labels)
    question = about(frame, **said)
    data = fairchain.spec.revise(question, population__keep_missing=True)
    verdict = fairchain.verify(model, data, data=frame)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.parametrize("package", ["xgboost", "lightgbm", "catboost"])
def test_a_stated_probability_is_that_of_the_second_label(package: str) -> None:
    frame, labels = people()
    inputs = frame[["age", "hours-per-week"]]
    model, said, _ = fitted(f"{package} estimator", inputs, labels)
    chosen = model.predict_proba(inputs)[:, 1] > 0.3
    question = about(frame, list(inputs), decision="probability", decision_threshold=0.3, **said)
    for certify in (False, True):
        verdict = fairchain.verify(model, question, data=frame, certify=certify)
        assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


def test_labels_in_another_order_than_the_models_classes_are_matched_by_name() -> None:
    frame, labels = people()
    model, _, _ = fitted("lightgbm estimator", frame, labels)
    chosen = model.predict_proba(frame)[:, 0] > 0.7
    question = about(frame, decision="probability", decision_threshold=0.7)
    turned = fairchain.spec.revise(question, model__labels=tuple(reversed(LABELS)), property__outcome=LABELS[0])
    for certify in (False, True):
        verdict = fairchain.verify(model, turned, data=frame, certify=certify)
        assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


@pytest.mark.parametrize("package", ["xgboost", "lightgbm", "catboost"])
def test_a_regressor_decides_by_a_stated_score(package: str) -> None:
    frame, _ = people()
    inputs = frame[["age", "hours-per-week"]]
    target = frame["age"] * 7.0 + frame["hours-per-week"]
    if package == "xgboost":
        import xgboost

        model: Any = xgboost.XGBRegressor(n_estimators=10)
    elif package == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMRegressor(n_estimators=10, verbose=-1)
    else:
        import catboost

        model = catboost.CatBoostRegressor(iterations=10, verbose=0, allow_writing_files=False)
    model.fit(inputs, target)
    question = about(frame, list(inputs), decision="score", decision_threshold=400.0)
    expected = gap(model.predict(inputs) > 400, frame["sex"])
    for certify in (False, True):
        verdict = fairchain.verify(model, question, data=frame, certify=certify)
        assert verdict.gap.estimate == pytest.approx(expected, abs=1e-12)


def test_categories_that_a_model_was_not_fitted_on_are_said_and_taken_for_missing() -> None:
    import lightgbm

    frame, labels = people(categories=False)
    frame["work"] = pd.Categorical(frame["work"])
    model = lightgbm.LGBMClassifier(n_estimators=12, verbose=-1).fit(frame[["age", "work"]], labels)
    other = frame.assign(work=frame["work"].astype(str))
    other.loc[:5, "work"] = "X"
    loaded = load_model(model, about(other, ["age", "work"]))
    assert 'was not fitted on "X" of "work"' in loaded.note
    cells = frame[["age", "work"]].copy()
    cells.loc[:5, "work"] = np.nan
    verdict = fairchain.verify(model, about(other, ["age", "work"]), data=other)
    assert verdict.gap.estimate == pytest.approx(gap(model.predict(cells) == LABELS[1], other["sex"]), abs=1e-12)
    assert any("not fitted on" in note for note in verdict.notes)


def test_words_that_no_category_of_the_model_is_are_refused() -> None:
    frame, labels = people()
    model, said, _ = fitted("lightgbm estimator", frame, labels)
    renamed = frame.assign(work=frame["work"].cat.rename_categories(lambda word: word.upper()))
    with pytest.raises(ModelError, match=says(VALUES_NOT_FITTED, feature="work", feature_name="work")):
        fairchain.verify(model, about(renamed, **said), data=renamed)


def test_drawn_inputs_are_decided_by_the_converted_network() -> None:
    frame, labels = people()
    model, said, _ = fitted("lightgbm estimator", frame, labels)
    question = about(frame, **said)
    drawn = fairchain.spec.parse_spec({**_plain(question), "population": {"kind": "uniform"}})
    verdict = fairchain.verify(model, drawn)
    assert verdict.certifiable


def _plain(question: Any) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(question)
    return plain


def test_a_model_that_was_not_fitted_is_refused() -> None:
    import xgboost

    frame, _ = people(20)
    with pytest.raises(ModelError, match=says(NOT_FITTED)):
        load_model(xgboost.XGBClassifier(), about(frame, codes=[0, 1]))


def test_columns_without_a_feature_are_named() -> None:
    frame, labels = people()
    model, said, _ = fitted("xgboost estimator", frame, labels)
    with pytest.raises(ModelError, match=says(COLUMNS_WITHOUT_FEATURE, missing="work")):
        load_model(model, about(frame.drop(columns="work"), **said))


def test_without_onnxmltools_the_note_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairchain.models.adapters import from_boosting

    monkeypatch.setattr(from_boosting, "find_spec", lambda _: None)
    frame, labels = people()
    model, said, _ = fitted("lightgbm estimator", frame[["age"]], labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_model(model, about(frame, ["age"], **said))
    assert "pip install 'fairchain[boosting]'" in loaded.note
