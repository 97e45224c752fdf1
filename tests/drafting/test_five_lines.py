"""Promise: from a pandas frame and a scikit-learn pipeline to a verdict in at most five lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.drafting import infer_spec, save_spec
from fairchain.drafting.columns import COLUMNS_NOT_IN_TABLE
from fairchain.drafting.draft import LATER_RANGES
from fairchain.errors import ModelError
from tests.drafting.builders import applicants, draft, features
from tests.messages import says

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")
pytest.importorskip("skl2onnx")


def frame(count: int = 500) -> Any:
    return pd.DataFrame(applicants(count))


def fitted(people: Any, label: str = "hired", without: tuple[str, ...] = ()) -> Any:
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    prepared = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(), make_column_selector(dtype_exclude="number")),
    )
    return make_pipeline(prepared, LogisticRegression()).fit(people.drop(columns=[label, *without]), people[label])


def test_a_frame_and_a_pipeline_in_five_lines() -> None:
    people = frame()
    model = fitted(people)
    spec = infer_spec(people, model, label="hired", protected=["sex"], reading="population")
    verdict = fairchain.verify(model, spec, data=people)
    assert verdict.notes == ()
    for group in verdict.groups:
        assert group.outcome == "yes"
        members = people[people["sex"] == group.name.removeprefix("sex=")]
        expected = (model.predict(members.drop(columns="hired")) == "yes").mean()
        assert group.probability.estimate == pytest.approx(expected, abs=1e-12)


def test_everything_but_the_frame_and_the_model_may_be_guessed() -> None:
    people = frame()
    made = draft(people, fitted(people))
    assert made.spec.property.protected == ("sex",)
    assert made.spec.model.labels == ("no", "yes")
    assert made.warnings == ()
    about = [guess for guess in made.guesses if guess.key.startswith("feature.") and "groups" not in guess.key]
    assert {guess.text for guess in about} <= {LATER_RANGES}


def test_a_model_that_was_fitted_without_the_protected_column_can_be_asked_about_it() -> None:
    people = frame()
    model = fitted(people, without=("sex",))
    made = draft(people, model, reading="population")
    assert [name for name, feature in features(made).items() if not feature.model_input] == ["sex"]
    assert fairchain.verify(model, made.spec, data=people).decision.name in ("FAIR", "UNFAIR")


def test_flags_and_numbers_written_as_texts_stay_what_they_are_in_the_frame() -> None:
    people = frame()
    people["licence"] = np.arange(len(people)) % 3 == 0
    people["code"] = [str(row % 4) for row in range(len(people))]
    model = fitted(people)
    made = draft(people, model, reading="population")
    licence, code = features(made)["licence"], features(made)["code"]
    assert (licence.values, licence.codes) == (("False", "True"), (0, 1))
    assert code.values == ("0", "1", "2", "3")
    verdict = fairchain.verify(model, made.spec, data=people)
    (female,) = (group for group in verdict.groups if group.name == "sex=F")
    members = people[people["sex"] == "F"].drop(columns="hired")
    assert female.probability.estimate == pytest.approx((model.predict(members) == "yes").mean(), abs=1e-12)


@pytest.mark.parametrize("cast", [bool, int, lambda hired: 1 + hired])
def test_labels_that_are_no_texts(cast: Any) -> None:
    people = frame()
    people["hired"] = [cast(each == "yes") for each in people["hired"]]
    model = fitted(people)
    made = draft(people, model)
    assert made.warnings == ()
    assert made.spec.model.labels == tuple(sorted(str(cast(each)) for each in (False, True)))
    hired = model.predict(people.drop(columns="hired")) == cast(True)
    female, male = (hired[people["sex"] == sex].mean() for sex in "FM")
    assert fairchain.verify(model, made.spec, data=people).gap.estimate == pytest.approx(abs(female - male))


def test_a_table_without_a_column_of_the_model_is_refused() -> None:
    people = frame()
    with pytest.raises(ModelError, match=says(COLUMNS_NOT_IN_TABLE, lost='"job"')):
        draft(people.drop(columns="job"), fitted(people))


def test_the_same_from_the_exported_network_and_a_csv_file(tmp_path: Path) -> None:
    people = frame()
    model = fitted(people)
    spec = infer_spec(people, model, reading="population")
    (tmp_path / "model.onnx").write_bytes(fairchain.models.to_onnx(model, spec))
    people.to_csv(tmp_path / "people.csv", index=False)
    made = draft(tmp_path / "people.csv", tmp_path / "model.onnx", reading="population")
    save_spec(made, tmp_path / "spec.toml")
    found = fairchain.verify(None, tmp_path / "spec.toml")
    assert made.warnings == ()
    assert found.gap.estimate == fairchain.verify(model, spec, data=people).gap.estimate
