"""Promises about models of other packages: asked as they are about a table, converted only for a certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.errors import CertificateError, ModelError
from fairchain.models import OnnxModel, load_model
from fairchain.models.adapters import from_sklearn as adapter
from fairchain.models.adapters.converting import CONVERSION_DIFFERS
from fairchain.models.adapters.from_function import FunctionModel
from fairchain.models.frames import as_frames
from fairchain.models.load import NOT_A_MODEL, NOT_FITTED_ON_COLUMNS
from fairchain.prepare import prepare
from fairchain.statements import NO_CERTIFICATE
from tests.messages import says
from tests.models.mixed import LABELS, about, gap, people

pytest.importorskip("sklearn")
pytest.importorskip("skl2onnx")
pd: Any = pytest.importorskip("pandas")

from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # noqa: E402

NUMBERS = ["age", "hours-per-week"]


def pipeline(words: list[str], model: Any = None, *first: Any) -> Any:
    columns = make_column_transformer(
        (make_pipeline(*first, StandardScaler()), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), words)
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000) if model is None else model)


@pytest.fixture(scope="module")
def unaware() -> tuple[Any, Any, Any]:
    """A pipeline that does not get the protected column, its frame, and its own decisions."""
    frame, labels = people(categories=False)
    inputs = frame.drop(columns="sex")
    model = pipeline(["work"]).fit(inputs, labels)
    return model, frame, model.predict(inputs) == LABELS[1]


def test_a_model_without_the_protected_column_is_converted_and_certified(unaware: Any, tmp_path: Path) -> None:
    model, frame, chosen = unaware
    question = about(frame, [*NUMBERS, "work"])
    verdict = fairchain.verify(model, question, data=frame, certify=True)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)
    fairchain.write_certificate(verdict, tmp_path / "certificate.json")
    (tmp_path / "model.onnx").write_bytes(fairchain.to_onnx(model, question))
    assert fairchain.recheck(tmp_path / "certificate.json", tmp_path / "model.onnx", data=frame).holds


def test_a_table_is_decided_by_the_model_itself_and_nothing_is_converted(
    unaware: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> bytes:
        raise AssertionError("converted")

    monkeypatch.setattr(adapter, "to_network", refuse)
    model, frame, chosen = unaware
    verdict = fairchain.verify(model, about(frame, [*NUMBERS, "work"]), data=frame)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)
    assert not verdict.certifiable
    assert verdict.model_sha256 == ""


def test_certifiable_says_whether_a_model_can_be_converted(unaware: Any) -> None:
    model, frame, _ = unaware
    question = about(frame, [*NUMBERS, "work"])
    case = prepare(model, question, data=frame)
    assert isinstance(case.model, FunctionModel)
    assert case.model.certifiable
    assert not case.certifiable  # what was loaded is Python code
    assert isinstance(case.model.to_network(), OnnxModel)
    own = make_pipeline(FunctionTransformer(lambda x: x), model).fit(frame.drop(columns="sex"), people()[1])
    other = prepare(own, question, data=frame).model
    assert other is not None
    assert not other.certifiable


def test_a_direct_verdict_cannot_be_written_as_a_certificate_and_the_advice_works(unaware: Any, tmp_path: Path) -> None:
    model, frame, _ = unaware
    question = about(frame, [*NUMBERS, "work"])
    verdict = fairchain.verify(model, question, data=frame)
    with pytest.raises(CertificateError, match=says(NO_CERTIFICATE)):
        fairchain.write_certificate(verdict, tmp_path / "certificate.json")
    fairchain.write_certificate(
        fairchain.verify(model, question, data=frame, certify=True), tmp_path / "certificate.json"
    )


def test_a_network_that_decides_otherwise_about_a_row_is_not_certified() -> None:
    """The model treats one value otherwise that the random inputs do not have, and the rows do."""
    frame, labels = people(categories=False)
    rare = float(frame["hours-per-week"].iloc[0])
    odd = LogisticRegression(max_iter=1000).fit(frame[NUMBERS], labels)
    plain = odd.predict

    def predict(inputs: Any) -> Any:
        found = plain(inputs)
        return np.where(
            np.asarray(inputs["hours-per-week"]) == rare, np.where(found == LABELS[0], *LABELS[::-1]), found
        )

    odd.predict = predict
    with pytest.raises(CertificateError, match=says(CONVERSION_DIFFERS, other="1", values_count="600")):
        fairchain.verify(odd, about(frame, NUMBERS), data=frame, certify=True)


def test_missing_values_reach_a_pipeline_with_an_imputer_and_its_network() -> None:
    frame, labels = people(categories=False)
    frame["age"] = frame["age"].astype(float)
    frame.loc[::9, "age"] = np.nan
    inputs = frame.drop(columns="sex")
    model = pipeline(["work"], None, SimpleImputer()).fit(inputs, labels)
    question = fairchain.spec.revise(about(frame, [*NUMBERS, "work"]), population__keep_missing=True)
    expected = gap(model.predict(inputs) == LABELS[1], frame["sex"])
    for certify in (False, True):
        verdict = fairchain.verify(model, question, data=frame, certify=certify)
        assert verdict.gap.estimate == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("categories", [False, True])
def test_histogram_boosting_with_category_columns_and_missing_values(categories: bool) -> None:
    frame, labels = people(categories=True)
    frame["age"] = frame["age"].astype(float)
    frame.loc[::9, "age"] = np.nan
    inputs = frame.drop(columns="sex") if categories else frame[NUMBERS]
    model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(inputs, labels)
    question = fairchain.spec.revise(about(frame, list(inputs)), population__keep_missing=True)
    verdict = fairchain.verify(model, question, data=frame)
    assert verdict.gap.estimate == pytest.approx(gap(model.predict(inputs) == LABELS[1], frame["sex"]), abs=1e-12)


def test_labels_in_another_order_than_the_classes_are_matched_by_name(unaware: Any) -> None:
    model, frame, _ = unaware
    chosen = model.predict_proba(frame.drop(columns="sex"))[:, 0] > 0.7
    question = about(frame, [*NUMBERS, "work"], decision="probability", decision_threshold=0.7)
    turned = fairchain.spec.revise(question, model__labels=tuple(reversed(LABELS)), property__outcome=LABELS[0])
    for certify in (False, True):
        verdict = fairchain.verify(model, turned, data=frame, certify=certify)
        assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


class Wrapper:
    """A model of one's own around an estimator, as a company might have it; it takes frames alone."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def predict(self, frame: Any) -> Any:
        return self.inner.predict(frame[[*NUMBERS, "work"]])


def test_an_object_that_was_fitted_on_a_frame_gets_frames_by_itself(unaware: Any) -> None:
    model, frame, chosen = unaware
    wrapped = Wrapper(model)
    wrapped.feature_names_in_ = np.array([*NUMBERS, "work"])  # type: ignore[attr-defined]
    wrapped.classes_ = model.classes_  # type: ignore[attr-defined]
    verdict = fairchain.verify(wrapped, about(frame, [*NUMBERS, "work"]), data=frame)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)


def test_an_object_that_does_not_say_its_columns_is_refused_and_the_advice_works(unaware: Any) -> None:
    model, frame, chosen = unaware
    question = about(frame, [*NUMBERS, "work"])
    with pytest.raises(ModelError, match=says(NOT_FITTED_ON_COLUMNS)):
        fairchain.verify(Wrapper(model), question, data=frame)
    verdict = fairchain.verify(as_frames(Wrapper(model).predict), question, data=frame)
    assert verdict.gap.estimate == pytest.approx(gap(chosen, frame["sex"]), abs=1e-12)
    with pytest.raises(ModelError, match=says(NOT_A_MODEL)):
        load_model(object(), question)


def test_words_that_an_encoder_does_not_know_are_said(unaware: Any) -> None:
    model, frame, _ = unaware
    other = frame.assign(work=frame["work"].replace("Farm", "Sea"))
    verdict = fairchain.verify(model, about(other, [*NUMBERS, "work"]), data=other)
    assert any('was not fitted on "Sea" of "work"' in note for note in verdict.notes)


@pytest.mark.boosting
@pytest.mark.parametrize("package", ["xgboost", "lightgbm"])
def test_a_pipeline_that_ends_in_boosted_trees_is_converted(package: str) -> None:
    if package == "xgboost":
        import xgboost

        model: Any = xgboost.XGBClassifier(n_estimators=8, max_depth=3)
    else:
        import lightgbm

        model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1)
    frame, labels = people(categories=False)
    fitted = pipeline(["work"], model).fit(frame.drop(columns="sex"), (labels == LABELS[1]).astype(int))
    expected = gap(fitted.predict(frame.drop(columns="sex")) == 1, frame["sex"])
    question = about(frame, [*NUMBERS, "work"], codes=[0, 1])
    for certify in (False, True):
        verdict = fairchain.verify(fitted, question, data=frame, certify=certify)
        assert verdict.gap.estimate == pytest.approx(expected, abs=1e-12)
