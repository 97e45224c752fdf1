"""Promises of `adapters.from_sklearn`: a fitted estimator decides here as it does in Python, row by row."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.errors import ModelError
from fairchain.models import OnnxModel, load_model, to_onnx
from fairchain.models.adapters.converting import NOT_CONVERTED
from fairchain.models.base import random_inputs
from fairchain.models.onnx.feature_encoding import words
from fairchain.spec import CategoryFeature, Spec
from tests.child import ROOT
from tests.messages import says
from tests.questions import category, integer, real, spec

pytest.importorskip("sklearn")
pytest.importorskip("skl2onnx")
pd: Any = pytest.importorskip("pandas")

from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler  # noqa: E402
from sklearn.svm import SVC, LinearSVC  # noqa: E402

NUMBERS = [integer("age", 17, 90), integer("hours", 1, 99), real("rate", 0, 1), category("sex", "Female", "Male")]
TABLE = [
    integer("age", 17, 90),
    integer("hours", 1, 99, column="hours-per-week"),
    real("rate", 0, 1),
    category("education", "school", "college", "doctor", column="highest degree"),
    category("children", 0, 2, 5),
    category("sex", "Female", "Male", aliases=["F", "M"]),
]
COUNT = 1000


def people(question: Spec) -> Any:
    return random_inputs(question.features, COUNT, seed=5).astype(np.float32).astype(np.float64)


def table(question: Spec, rows: Any) -> Any:
    """The rows as somebody's table has them, written without the code that is tested."""
    columns = {}
    for place, feature in enumerate(question.features):
        column = rows[:, place]
        if isinstance(feature, CategoryFeature):
            columns[feature.column or feature.name] = [words(feature)[int(index)] for index in column]
        else:
            columns[feature.column or feature.name] = column
    return pd.DataFrame(columns)


def richer(rows: Any) -> Any:
    """Who earns more, with some noise, so that no simple rule is perfect."""
    noise = np.random.default_rng(0).normal(0, 15, len(rows))
    return (rows[:, 0] + rows[:, 1] + 20 * rows[:, -1] + noise > 115).astype(int)


def fit(estimator: Any, x: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few steps of training are enough here
        return estimator.fit(x, y)


def agree(estimator: Any, question: Spec, shown: Any, codes: list[Any]) -> Any:
    """Load it, and compare with its own labels on every row."""
    rows = people(question)
    model = load_model(estimator, question)
    expected = [codes.index(label) for label in estimator.predict(shown(rows)).tolist()]
    assert len(set(expected)) == len(codes)
    assert model.predict(rows.astype(model.dtype)).tolist() == expected
    return model


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(max_iter=50),
        MLPClassifier((8,), max_iter=40, random_state=0),
        make_pipeline(StandardScaler(), SVC()),
        RandomForestClassifier(5, max_depth=5, random_state=0),
        HistGradientBoostingClassifier(max_iter=8, random_state=0),
    ],
    ids=["logistic", "network", "svm", "forest", "boosting"],
)
def test_an_estimator_that_was_fitted_on_an_array(estimator: Any) -> None:
    question = spec(*NUMBERS)
    rows = people(question)
    model = agree(fit(estimator, rows, richer(rows)), question, lambda x: x, [0, 1])
    assert model.certifiable
    assert model.note == ""
    assert model.name == f"scikit-learn {type(estimator).__name__}"


def test_the_spec_s_preprocessing_comes_before_the_estimator() -> None:
    features = [integer("age", 17, 90, scale={"mean": 50, "std": 20}), category("sex", "F", "M", one_hot=True)]
    question = spec(*features)
    rows = people(question)

    def shown(x: Any) -> Any:
        return np.column_stack([(x[:, 0] - 50) / 20, x[:, 1] == 0, x[:, 1] == 1])

    estimator = fit(LogisticRegression(), shown(rows), (rows[:, 0] + 20 * rows[:, 1] > 60).astype(int))
    assert agree(estimator, question, shown, [0, 1]).certifiable


@pytest.mark.parametrize(
    ("classes", "model"),
    [
        (["no", "yes"], {}),
        (["yes", "no"], {}),
        (["N", "Y"], {"codes": ["N", "Y"]}),
        ([7, 3], {"codes": [7, 3]}),
        ([0.0, 1.0], {}),
        ([False, True], {}),
        ([0, 1], {"decision": "argmax"}),
        ([0, 1], {"decision": "probability"}),
    ],
)
def test_classes_of_every_kind(classes: list[Any], model: dict[str, Any]) -> None:
    question = spec(*NUMBERS, **model)
    rows = people(question)
    estimator = fit(make_pipeline(StandardScaler(), LogisticRegression()), rows, np.array(classes)[richer(rows)])
    codes = [str(label) for label in question.model.labels] if not model and isinstance(classes[0], str) else classes
    assert agree(estimator, question, lambda x: x, codes).certifiable


def test_a_probability_has_a_cut() -> None:
    question = spec(*NUMBERS, decision="probability", decision_threshold=0.2)
    rows = people(question)
    estimator = fit(make_pipeline(StandardScaler(), LogisticRegression()), rows, richer(rows))
    model = load_model(estimator, question)
    assert model.certifiable
    expected = estimator.predict_proba(rows)[:, 1] > 0.2
    assert model.predict(rows.astype(model.dtype)).tolist() == expected.tolist()
    assert expected.tolist() != estimator.predict(rows).tolist()


def pipelines() -> dict[str, Any]:
    words_, numbers = ["highest degree", "children", "sex"], ["age", "hours-per-week", "rate"]
    known = OneHotEncoder(handle_unknown="ignore")
    return {
        "one-hot": make_pipeline(
            make_column_transformer((known, words_), (StandardScaler(), numbers)), LogisticRegression()
        ),
        "by place": make_pipeline(
            make_column_transformer((OneHotEncoder(sparse_output=False), [3, 5]), (StandardScaler(), [0, 1])),
            MLPClassifier((6,), max_iter=30, random_state=0),
        ),
        "ordinal": make_pipeline(
            make_column_transformer((OrdinalEncoder(), ["highest degree", "sex"]), remainder="passthrough"),
            RandomForestClassifier(5, max_depth=5, random_state=0),
        ),
        "without probabilities": make_pipeline(
            make_column_transformer((known, words_), (StandardScaler(), numbers)), LinearSVC()
        ),
    }


@pytest.mark.parametrize("name", ["one-hot", "by place", "ordinal", "without probabilities"])
def test_a_pipeline_that_was_fitted_on_a_frame_with_words(name: str, tmp_path: Path) -> None:
    question = spec(*TABLE)
    rows = people(question)
    estimator = fit(pipelines()[name], table(question, rows), np.array(["no", "yes"])[richer(rows)])
    model = agree(estimator, question, lambda x: table(question, x), ["no", "yes"])
    assert model.certifiable, model.note
    saved = tmp_path / "pipeline.onnx"
    saved.write_bytes(to_onnx(estimator, question))
    again = OnnxModel(saved, question)
    assert again.sha256 == model.sha256
    assert np.array_equal(again.predict(rows), model.predict(rows))


def test_columns_that_the_estimator_does_not_use_are_allowed() -> None:
    """The protected feature may be kept from the model, as law often has it."""
    question = spec(*TABLE)
    rows = people(question)
    used = ["hours-per-week", "age"]
    estimator = fit(make_pipeline(StandardScaler(), LogisticRegression()), table(question, rows)[used], richer(rows))
    model = agree(estimator, question, lambda x: table(question, x)[used], [0, 1])
    assert model.certifiable, model.note


def test_an_input_name_of_the_spec_s_own_is_kept() -> None:
    """Here the names of two inputs are exchanged, to see that none is taken for the other."""
    question = spec(integer("age", 0, 50, input="hours"), integer("hours", 0, 9, input="age"), TABLE[5])
    rows = people(question)
    estimator = fit(
        make_pipeline(make_column_transformer((StandardScaler(), ["age", "hours"])), LogisticRegression()),
        table(question, rows),
        (rows[:, 0] > 25).astype(int),
    )
    assert agree(estimator, question, lambda x: table(question, x), [0, 1]).certifiable


class Odd(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of somebody's own, which no converter knows."""

    def fit(self, _: Any, y: Any) -> Odd:
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: Any) -> Any:
        return self.classes_[(np.asarray(x)[:, 0].astype(int) % 2)]


def test_what_cannot_be_converted_is_asked_in_python() -> None:
    question = spec(*NUMBERS)
    rows = people(question)
    estimator = Odd().fit(rows, richer(rows))
    model = agree(estimator, question, lambda x: x, [0, 1])
    assert not model.certifiable
    assert model.sha256 == ""
    assert "scikit-learn Odd is evaluated in Python, without a certificate" in model.note
    with pytest.raises(ModelError, match=says(NOT_CONVERTED)):
        to_onnx(estimator, question)


def test_a_network_with_operators_that_are_not_allowed_is_not_used() -> None:
    question = spec(*NUMBERS)
    rows = people(question)
    model = agree(fit(KNeighborsClassifier(3), rows, richer(rows)), question, lambda x: x, [0, 1])
    assert not model.certifiable
    assert "operator" in model.note


def test_a_network_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import fairchain.models.adapters.from_sklearn as adapter

    question = spec(*NUMBERS)
    rows = people(question)
    estimator = fit(LogisticRegression(max_iter=50), rows, richer(rows))
    other = fit(LogisticRegression(max_iter=50), rows, 1 - richer(rows))
    convert = adapter.to_network
    monkeypatch.setattr(adapter, "to_network", lambda package, _, *more: convert(package, other, *more))
    model = agree(estimator, question, lambda x: x, [0, 1])
    assert not model.certifiable
    assert "answers differently" in model.note


def test_without_skl2onnx_the_estimator_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairchain.models.adapters.from_sklearn.find_spec", lambda _: None)
    question = spec(*NUMBERS)
    rows = people(question)
    model = agree(fit(LogisticRegression(max_iter=50), rows, richer(rows)), question, lambda x: x, [0, 1])
    assert not model.certifiable
    assert "needs the package skl2onnx" in model.note


def test_a_frame_of_codes_is_spoken_to_in_codes() -> None:
    question = spec(integer("age", 17, 90), category("sex", "Female", "Male", codes=[1, 2]))
    rows = people(question)
    frame = pd.DataFrame({"age": rows[:, 0], "sex": rows[:, 1] + 1})
    for estimator in (LogisticRegression(), RandomForestClassifier(4, random_state=0)):
        fit(estimator, frame, (rows[:, 0] + 9 * rows[:, 1] > 60).astype(int))
        model = agree(estimator, question, lambda x: pd.DataFrame({"age": x[:, 0], "sex": x[:, 1] + 1}), [0, 1])
        assert model.certifiable, model.note


def refused(estimator: Any, question: Spec) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(estimator, question)
    assert str(caught.value).startswith(f"scikit-learn {type(estimator).__name__}: ")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_encoder_that_knows_none_of_the_words_is_refused() -> None:
    """It was told to ignore what it does not know, so it would answer, and the answer would mean nothing."""
    question = spec(*TABLE)
    rows = people(question)
    frame = table(question, rows)
    frame["sex"] = frame["sex"].map({"F": "female", "M": "male"})
    message = refused(fit(pipelines()["one-hot"], frame, richer(rows)), question)
    assert 'column "sex" was fitted on female, male, and feature "sex" shows F, M' in message
    assert "aliases = [...]" in message


def test_estimators_that_do_not_fit_the_spec_are_refused() -> None:
    question = spec(*NUMBERS)
    rows = people(question)
    frame = table(spec(*TABLE), people(spec(*TABLE)))
    assert "hours-per-week" in refused(fit(pipelines()["one-hot"], frame, richer(rows)), question)
    assert "NotFittedError" in refused(LogisticRegression(), question)
    assert "features" in refused(fit(LogisticRegression(max_iter=50), rows[:, :2], richer(rows)), question)
    estimator = fit(make_pipeline(StandardScaler(), LinearSVC()), rows, richer(rows))
    assert "has no predict_proba" in refused(estimator, spec(*NUMBERS, decision="probability"))
    labels = ["low", "middle", "high"]
    assert "none of 0, 1" in refused(fit(LogisticRegression(max_iter=50), rows, richer(rows) + 3), question)
    three = fit(LogisticRegression(max_iter=50), rows, richer(rows))
    assert "2 columns" in refused(three, spec(*NUMBERS, labels=labels, decision="argmax"))


def test_a_regressor_gives_a_score() -> None:
    rows = people(spec(*NUMBERS))
    estimator = fit(LinearRegression(), rows, rows[:, 0] + rows[:, 1])
    model = load_model(estimator, spec(*NUMBERS, decision="logit", decision_threshold=100.25))
    assert model.certifiable, model.note
    assert model.predict(rows).tolist() == (estimator.predict(rows) > 100.25).tolist()
    assert 'decision = "logit"' in refused(estimator, spec(*NUMBERS))


def test_boosted_trees_of_a_regressor_are_converted_too() -> None:
    question = spec(*NUMBERS, decision="score", decision_threshold=115.0)
    rows = people(question)
    estimator = HistGradientBoostingRegressor(max_iter=8, random_state=0).fit(rows, rows[:, 0] + rows[:, 1])
    model = load_model(estimator, question)
    assert model.certifiable
    assert model.predict(rows.astype(model.dtype)).tolist() == (estimator.predict(rows) > 115).astype(int).tolist()


def test_the_logit_is_the_decision_function() -> None:
    rows = people(spec(*NUMBERS))
    estimator = fit(make_pipeline(StandardScaler(), LogisticRegression()), rows, richer(rows))
    model = load_model(estimator, spec(*NUMBERS, decision="logit", decision_threshold=1.5))
    assert model.predict(rows).tolist() == (estimator.decision_function(rows) > 1.5).tolist()
    assert "not the decision function" in model.note


def test_a_search_stands_for_the_best_it_found() -> None:
    question = spec(*TABLE)
    rows = people(question)
    search = GridSearchCV(pipelines()["one-hot"], {"logisticregression__C": [0.01, 1]}, cv=2)
    model = agree(fit(search, table(question, rows), richer(rows)), question, lambda x: table(question, x), [0, 1])
    assert model.certifiable, model.note


def test_code_inside_a_pipeline_is_asked_in_python() -> None:
    question = spec(*TABLE)
    rows = people(question)
    frame = table(question, rows)
    estimator = make_pipeline(
        FunctionTransformer(lambda f: f[["age"]].assign(sex=f["sex"] == "F")), LogisticRegression()
    )
    model = agree(fit(estimator, frame, richer(rows)), question, lambda x: table(question, x), [0, 1])
    assert not model.certifiable


def test_an_estimator_is_recognised_without_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    from fairchain.models.adapters.from_sklearn import is_estimator

    assert is_estimator(LogisticRegression())
    monkeypatch.delitem(sys.modules, "sklearn.base")
    assert not is_estimator(LogisticRegression())


# Prints a certificate of the pipeline and the question in the file sys.argv[1], without its times.
CERTIFIED = """
import pickle, sys
from fairchain import make_certificate, verify
from fairchain.certificates import dump
with open(sys.argv[1], "rb") as file:
    fitted, spec = pickle.load(file)
print(dump(make_certificate(verify(fitted, spec, workers=1, certify=True), timed=False)))
"""


def test_a_pickled_pipeline_has_the_same_certificate_in_every_process(tmp_path: Path) -> None:
    """The converter keeps operator versions in a set, whose order follows the hash seed of the process."""
    question = spec(*TABLE)
    rows = people(question)
    columns = make_column_transformer(
        (OneHotEncoder(), ["highest degree", "children", "sex"]), (StandardScaler(), ["age", "rate"])
    )
    fitted = fit(
        make_pipeline(columns, SVC()), table(question, rows)[:200], np.array(["no", "yes"])[richer(rows)][:200]
    )
    (tmp_path / "pipeline.pickle").write_bytes(pickle.dumps((fitted, question)))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CERTIFIED, tmp_path / "pipeline.pickle"],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (0, 1)
    ]
    found = [process.communicate()[0].strip() for process in processes]
    assert found[0] == found[1] != ""
