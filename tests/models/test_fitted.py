"""Promises of `fitted`: a model's own words about its columns, categories, classes and missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairchain.models.fitted import Fitted, fitted_of
from fairchain.models.frames import as_frames

pytest.importorskip("sklearn")
pd: Any = pytest.importorskip("pandas")

from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.compose import ColumnTransformer, make_column_transformer  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier  # noqa: E402
from sklearn.feature_selection import SelectKBest  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import (  # noqa: E402
    FunctionTransformer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)
from sklearn.svm import LinearSVC  # noqa: E402

WORK = ("Private", "Gov", "Self")
NUMBERS = ["age", "hours per week"]


def people(count: int = 200) -> tuple[Any, Any]:
    """A frame with numbers and words, and labels that depend on both."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 80, count),
            "hours per week": random.integers(1, 99, count).astype(float),
            "work": random.choice(WORK, count).astype(object),
        }
    )
    return frame, np.where(frame["age"] + 20 * (frame["work"] == "Gov") > 50, ">50K", "<=50K")


def pipeline(*numbers: Any, words: Any = None, model: Any = None) -> Any:
    encoder = words if words is not None else OneHotEncoder()
    parts = ((make_pipeline(*numbers, StandardScaler()), NUMBERS), (encoder, ["work"]))
    columns = make_column_transformer(*parts, sparse_threshold=0)
    return make_pipeline(columns, LogisticRegression(tol=1.0) if model is None else model).fit(*people())


def test_a_pipeline_says_its_columns_categories_and_classes() -> None:
    found = fitted_of(pipeline())
    assert found.columns == ("age", "hours per week", "work")
    assert found.frames is True
    assert found.width == 3
    assert found.categories == {"work": ("Gov", "Private", "Self")}
    assert found.category_columns == ()
    assert found.classes == ("<=50K", ">50K")
    assert found.answers == "probabilities"
    assert found.package == "scikit-learn"
    assert not found.native


def test_missing_values_are_taken_in_the_columns_that_an_imputer_fills() -> None:
    plain, imputed = fitted_of(pipeline()), fitted_of(pipeline(SimpleImputer()))
    assert plain.takes_missing is False
    assert imputed.takes_missing is False
    assert imputed.missing_in == {"age": True, "hours per week": True, "work": False}
    assert imputed.takes_missing_in("age") is True
    whole = pipeline(SimpleImputer(), words=OneHotEncoder(handle_unknown="ignore"))
    assert fitted_of(whole).takes_missing is True
    frame, _ = people(5)
    frame["age"] = frame["age"].astype(float)
    frame.loc[0, :] = np.nan
    assert len(whole.predict(frame)) == 5


def test_what_is_said_about_missing_values_is_true() -> None:
    """Each record is compared with what happens when one column has a missing value."""
    encoders = [
        OneHotEncoder(),
        OneHotEncoder(handle_unknown="ignore"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
    ]
    models = [LogisticRegression(tol=1.0), HistGradientBoostingClassifier(max_iter=2), RandomForestClassifier(2)]
    frame, _ = people(5)
    frame["age"] = frame["age"].astype(float)
    for encoder in encoders:
        for model in models:
            for numbers in ([], [SimpleImputer()]):
                fitted = pipeline(*numbers, words=encoder, model=model)
                found = fitted_of(fitted)
                for column in frame.columns:
                    broken = frame.copy()
                    broken.loc[0, column] = np.nan
                    try:
                        fitted.predict(broken)
                        works = True
                    except ValueError:
                        works = False
                    assert found.takes_missing_in(column) is works, (encoder, model, column)


def test_a_step_that_refuses_missing_values_is_seen_behind_one_that_passes_them() -> None:
    frame, labels = people()
    scaled = make_pipeline(StandardScaler(), SelectKBest(k=1), LogisticRegression()).fit(frame[NUMBERS], labels)
    assert fitted_of(scaled).takes_missing is False
    boosted = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(max_iter=2)).fit(frame[NUMBERS], labels)
    assert fitted_of(boosted).takes_missing is True


@pytest.mark.parametrize(("between", "taken"), [("passthrough", True), (FunctionTransformer(np.sqrt), None)])
def test_a_step_that_does_not_look_at_its_columns_refuses_no_missing_values(between: Any, taken: bool | None) -> None:
    frame, labels = people()
    columns = make_column_transformer((OneHotEncoder(sparse_output=False), ["work"]), (between, NUMBERS))
    boosted = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=2)).fit(frame, labels)
    assert fitted_of(boosted).takes_missing_in("age") is taken


def test_columns_are_found_by_name_number_slice_and_mask() -> None:
    frame, labels = people()
    for columns in (["work"], [2], slice(2, 3), slice("work", "work"), [False, False, True], [-1]):
        each = ColumnTransformer([("words", OneHotEncoder(), columns)], remainder="passthrough")
        fitted = make_pipeline(each, RandomForestClassifier(2)).fit(frame, labels)
        assert fitted_of(fitted).categories == {"work": ("Gov", "Private", "Self")}


def test_the_estimator_inside_a_search_or_a_calibration_is_read() -> None:
    inner = pipeline()
    search = GridSearchCV(inner, {"logisticregression__C": [1.0]}, cv=2).fit(*people())
    calibrated = CalibratedClassifierCV(inner, cv=2).fit(*people())
    for model in (search, calibrated):
        found = fitted_of(model)
        assert found.categories == {"work": ("Gov", "Private", "Self")}
        assert found.takes_missing is False


def test_categories_of_the_table_are_told_from_columns_that_steps_make() -> None:
    frame, labels = people()
    fitted = make_pipeline(StandardScaler(), OrdinalEncoder(), RandomForestClassifier(2)).fit(frame[NUMBERS], labels)
    assert fitted_of(fitted).categories == {}


def test_histogram_boosting_says_its_category_columns() -> None:
    frame, labels = people()
    frame["work"] = pd.Categorical(frame["work"], categories=[*WORK, "Never"])
    fitted = HistGradientBoostingClassifier(max_iter=2, categorical_features="from_dtype").fit(frame, labels)
    found = fitted_of(fitted)
    assert found.category_columns == ("work",)
    assert found.takes_missing is True
    assert set(found.categories["work"]) >= set(WORK)


def test_an_estimator_of_arrays_has_no_names() -> None:
    frame, labels = people()
    found = fitted_of(LinearSVC().fit(frame[NUMBERS].to_numpy(), labels))
    assert (found.columns, found.frames, found.width) == (None, False, 2)
    assert found.answers == "labels"


def test_a_regressor_gives_scores() -> None:
    frame, _ = people()
    found = fitted_of(LinearRegression().fit(frame[["age"]], frame["hours per week"]))
    assert (found.classes, found.answers, found.columns) == (None, "scores", ("age",))


def test_an_estimator_that_was_not_fitted_says_only_its_name() -> None:
    assert fitted_of(LogisticRegression()).columns is None
    assert fitted_of(LogisticRegression()).frames is None
    assert fitted_of(LogisticRegression()).classes is None


def test_a_function_says_only_its_name_and_a_method_what_its_model_says() -> None:
    def plain(rows: Any) -> Any:
        return rows

    assert fitted_of(plain) == Fitted(plain.__qualname__)
    model = pipeline()
    assert fitted_of(model.predict).columns == fitted_of(model).columns
    assert fitted_of(model.predict).answers == "labels"
    assert fitted_of(as_frames(model.predict_proba)).answers == "probabilities"
    assert fitted_of(as_frames(plain)).frames is True
    assert fitted_of(object()).columns is None


def test_whole_numbers_and_truth_values_are_classes_as_answers_hold_them() -> None:
    frame, _ = people()
    for labels, expected in ((frame["age"] > 40, (0, 1)), ((frame["age"] > 40).astype(float), (0, 1))):
        assert fitted_of(LogisticRegression(max_iter=1000).fit(frame[["age"]], labels)).classes == expected


# ---- XGBoost, LightGBM, CatBoost ------------------------------------------------------------------------------------


def with_categories() -> tuple[Any, Any]:
    frame, labels = people()
    frame["work"] = pd.Categorical(frame["work"], categories=[*WORK, "Never"])
    return frame, labels


@pytest.mark.boosting
def test_xgboost_says_its_columns_and_categories_as_estimator_and_as_booster() -> None:
    import xgboost

    frame, labels = with_categories()
    fitted = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True).fit(frame, labels == ">50K")
    for model in (fitted, fitted.get_booster()):
        found = fitted_of(model)
        assert found.columns == ("age", "hours per week", "work")
        assert found.category_columns == ("work",)
        assert found.categories == {"work": (*WORK, "Never")}
        assert found.takes_missing is True
        assert found.answers == "probabilities"
    assert fitted_of(fitted).classes == (0, 1)
    assert fitted_of(fitted.get_booster()).native
    assert fitted_of(xgboost.XGBRegressor(n_estimators=2).fit(frame[["age"]], frame["age"])).answers == "scores"
    assert fitted_of(xgboost.XGBClassifier()).columns is None


@pytest.mark.boosting
def test_whole_number_categories_of_xgboost_stay_whole_numbers() -> None:
    import xgboost

    frame = pd.DataFrame({"children": pd.Categorical([5, 2, 0, 2] * 20, categories=[5, 2, 0])})
    fitted = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True).fit(frame, [0, 1, 0, 1] * 20)
    assert fitted_of(fitted).categories == {"children": (5, 2, 0)}


@pytest.mark.boosting
def test_lightgbm_says_its_columns_and_categories_as_estimator_and_as_booster(tmp_path: Any) -> None:
    import lightgbm

    frame, labels = with_categories()
    fitted = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(frame, labels)
    fitted.booster_.save_model(tmp_path / "model.txt")
    read = lightgbm.Booster(model_file=tmp_path / "model.txt")
    for model in (fitted, fitted.booster_, read):
        found = fitted_of(model)
        assert found.columns == ("age", "hours_per_week", "work")
        assert found.column("hours per week") == "hours_per_week"
        assert found.category_columns == ("work",)
        assert found.categories == {"work": (*WORK, "Never")}
        assert found.answers == "probabilities"
    assert fitted_of(fitted).classes == ("<=50K", ">50K")
    assert fitted_of(fitted.booster_).classes is None
    plain = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(frame[NUMBERS].to_numpy(), labels)
    assert fitted_of(plain).columns is None
    assert fitted_of(lightgbm.LGBMClassifier()).columns is None


@pytest.mark.boosting
def test_catboost_says_its_columns_and_that_categories_cannot_be_missing() -> None:
    import catboost

    frame, labels = with_categories()
    fitted = catboost.CatBoostClassifier(iterations=2, verbose=0, allow_writing_files=False, cat_features=["work"]).fit(
        frame, labels
    )
    found = fitted_of(fitted)
    assert found.columns == ("age", "hours per week", "work")
    assert found.category_columns == ("work",)
    assert found.classes == ("<=50K", ">50K")
    assert found.missing_in == {"age": True, "hours per week": True, "work": False}
    assert found.takes_missing is False
    assert fitted_of(catboost.CatBoostClassifier()).columns is None
    assert (
        fitted_of(
            catboost.CatBoostRegressor(iterations=2, verbose=0, allow_writing_files=False).fit(
                frame[["age"]], frame["age"]
            )
        ).classes
        is None
    )
