"""Promises of a draft: what can be seen is read, what cannot is guessed aloud, and what is impossible is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.drafting import DraftOptions, NoProtectedFeatureError, draft_spec, infer_spec, write_spec
from fairchain.drafting.columns import (
    EMPTY_COLUMN,
    ONLY_A_LABEL,
    TOO_MANY_CATEGORIES,
)
from fairchain.drafting.draft import LATER_RANGES, MODEL_AND_PREDICTION, SAME_ROWS
from fairchain.drafting.groups import NO_PROTECTED_NAME, SINGLE_VALUE
from fairchain.errors import DataError, InputError, ModelError, SpecError
from fairchain.messages import FILE_NOT_FOUND
from fairchain.spec import IntegerFeature, RealFeature, Table, Uniform
from fairchain.spec.groups import TOO_MANY_VALUES
from tests.child import run_child
from tests.drafting.builders import applicants, by_hours, draft, features, numbers
from tests.messages import says
from tests.tables.builders import write_csv


def test_a_flat_network_gets_the_columns_with_the_ranges_of_the_table() -> None:
    made = draft(numbers(), by_hours())
    assert list(features(made)) == ["age", "hours", "sex"]
    age, hours, sex = made.spec.features
    assert isinstance(age, IntegerFeature)
    assert (age.low, age.high) == (18, 70)
    assert isinstance(hours, RealFeature)
    assert (hours.low, hours.high) == (0.25, 59.5)
    assert isinstance(sex, IntegerFeature)
    assert sex.groups == {"0": 0, "1": 1}
    assert made.warnings == ()


def test_the_rest_of_the_question_is_guessed_and_said() -> None:
    made = draft(numbers(), by_hours())
    spec = made.spec
    assert spec.model.labels == ("no", "yes")
    assert isinstance(spec.population, Table)
    assert (spec.population.label, spec.population.reading) == ("hired", "sample")
    assert (spec.property.protected, spec.property.outcome, spec.property.threshold) == (("sex",), "yes", 0.1)
    told = {guess.key for guess in made.guesses}
    assert told >= {"", "model.labels", "feature", "population.label", "property.protected", "property.outcome"}
    assert 'Also likely: "age"' in made.about("property.protected")[0]
    assert "rows; always answering" in made.about("")[0]


def test_a_draft_is_verified_as_it_is() -> None:
    people, network = numbers(), by_hours()
    verdict = fairchain.verify(network, infer_spec(people, network, reading="population"), data=people)
    assert verdict.decision.name == "FAIR"


def test_what_is_given_is_not_guessed() -> None:
    made = draft(
        numbers(), by_hours(), label="hired", protected=("age",), outcome="no", threshold=0.2, reading="population"
    )
    spec = made.spec
    assert isinstance(spec.population, Table)
    assert spec.population.reading == "population"
    assert (spec.property.protected, spec.property.outcome, spec.property.threshold) == (("age",), "no", 0.2)
    assert not any(guess.text.startswith("Guess") for guess in made.guesses if guess.key[:7] in ("populat", "propert"))


def test_ranges_instead_of_rows_if_asked_for() -> None:
    made = draft(numbers(), by_hours(), reading="uniform")
    assert made.spec.population == Uniform()
    assert made.spec.property.min_size is None
    assert fairchain.verify(by_hours(), made.spec).decision.name == "FAIR"


def test_without_a_model_the_table_still_gives_a_spec() -> None:
    made = draft(applicants())
    assert list(features(made)) == ["age", "hours", "sex", "job"]
    assert made.spec.model.labels == ("no", "yes")
    assert made.about("model.path") == ("No model was given; name its file here.",)


def test_a_warning_about_recorded_decisions_that_disagree_with_the_labels_names_no_model() -> None:
    table = {"sex": ["F", "M"] * 100, "truth": ["no"] * 180 + ["yes"] * 20, "decision": ["no", "no", "yes", "yes"] * 50}
    options = DraftOptions(label="truth", prediction="decision", protected=("sex",), reading="population")
    (told,) = (warning for warning in draft_spec(table, options=options).warnings if "agree" in warning)
    assert told.startswith("The decisions agree")
    assert "model" not in told
    assert "scale" not in told


def test_recorded_decisions_take_the_place_of_a_model() -> None:
    people = {**applicants(2000), "decision": applicants(2000, seed=6)["hired"]}
    made = draft(people, prediction="decision", label="hired", reading="population")
    assert "decision" not in features(made)
    assert fairchain.verify(None, made.spec, data=people).decision.name == "FAIR"
    with pytest.raises(SpecError, match=says(MODEL_AND_PREDICTION)):
        draft(people, by_hours(), prediction="decision")


# Who is compared


def test_a_protected_column_that_the_model_does_not_take_is_unseen() -> None:
    people = applicants(2000)
    del people["job"]
    network = by_hours(2)
    made = draft(people, network, reading="population")
    assert [(feature.name, not feature.model_input) for feature in made.spec.features] == [
        ("age", False),
        ("hours", False),
        ("sex", True),
    ]
    assert made.spec.property.protected == ("sex",)
    assert "does not take this column" in made.about("feature.sex")[0]
    assert fairchain.verify(network, made.spec, data=people).decision.name == "FAIR"


def test_a_guess_that_leaves_nobody_to_compare_is_not_made() -> None:
    made = draft({**applicants(), "sex": ["F"] * 400, "empty": [None] * 400})
    assert made.spec.property.protected == ("age",)
    assert "empty" not in features(made)


def test_small_groups_are_left_out() -> None:
    people = applicants()
    people["sex"][:3] = ["X"] * 3
    made = draft(people)
    assert made.spec.property.min_size == 30
    assert made.about("property.min_size") == ("Groups with fewer rows are left out: 1 of 3.",)


def test_combinations_that_nobody_has_are_left_out() -> None:
    people = {"sex": ["F", "F", "M"] * 4, "age": [1, 2, 1] * 4, "hired": ["no", "yes", "yes"] * 4}
    made = draft(people, protected=("sex", "age"))
    assert made.spec.property.min_size == 1


def test_if_no_name_tells_who_is_protected_the_candidates_are_listed() -> None:
    people = applicants()
    people["kind"] = people.pop("sex")
    people["years"] = people.pop("age")
    with pytest.raises(
        NoProtectedFeatureError, match=says(NO_PROTECTED_NAME, names='"hours", "job", "kind", "years"')
    ) as caught:
        draft(people)
    assert caught.value.candidates == ("hours", "job", "kind", "years")
    assert draft(people, protected=("kind",)).spec.property.protected == ("kind",)


@pytest.mark.parametrize(
    ("wishes", "error", "words"),
    [
        ({"label": "hird"}, DataError, 'label: unknown column "hird"; did you mean "hired"?'),
        ({"ignore": ("jib",)}, DataError, 'ignore: unknown column "jib"'),
        ({"prediction": "jib"}, DataError, 'prediction: unknown column "jib"'),
        ({"label": "hours"}, DataError, "different labels, and there must be 2 to 100"),
        ({"protected": ("sx",)}, SpecError, 'unknown column "sx"; did you mean "sex"?'),
        ({"outcome": "Yes"}, DataError, 'unknown label "Yes"; did you mean "yes"?'),
        ({"threshold": 2.0}, SpecError, "property.threshold: found 2.0; write a number strictly between 0 and 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(wishes: dict[str, Any], error: type[InputError], words: str) -> None:
    with pytest.raises(error) as caught:
        draft(applicants(), **wishes)
    assert words in str(caught.value)


def test_a_table_with_nothing_to_compare_is_refused() -> None:
    with pytest.raises(SpecError, match=says(SINGLE_VALUE, name='"sex"', source="the table")):
        draft({**applicants(), "sex": ["F"] * 400}, protected=("sex",))
    with pytest.raises(SpecError, match=says(SINGLE_VALUE, name='"sex"', source="the table")):
        draft({**applicants(), "sex": ["F"] * 400, "age": [30] * 400})
    with pytest.raises(DataError, match=says(EMPTY_COLUMN, name='"sex"')):
        draft({**applicants(), "sex": [None] * 400}, protected=("sex",))
    with pytest.raises(ModelError, match=says(ONLY_A_LABEL)):
        draft({"hired": ["no", "yes"] * 40}, label="hired")
    with pytest.raises(DataError, match=says(TOO_MANY_CATEGORIES, name='"name"', values_count="6,000")):
        draft({**applicants(6000), "name": [f"p{row}" for row in range(6000)]})


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=says(FILE_NOT_FOUND)):
        draft(numbers(), tmp_path / "nowhere.onnx")


# Every kind of table, and of file


def test_every_kind_of_table_gives_the_same_spec(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    pandas = pytest.importorskip("pandas")
    people = numbers()
    polars.DataFrame(people).write_parquet(tmp_path / "people.parquet")
    write_csv(tmp_path / "people.csv", people)
    tables = [polars.DataFrame(people), pandas.DataFrame(people), str(tmp_path / "people.parquet"), people]
    expected = infer_spec(tmp_path / "people.csv", by_hours())
    for table in tables:
        spec = infer_spec(table, by_hours())
        assert (spec.features, spec.property, spec.model) == (expected.features, expected.property, expected.model)


def test_a_network_in_the_socrates_format(tmp_path: Path) -> None:
    layer = {"type": "linear", "weights": "[[0, 0, 0], [0, 1, 0]]", "bias": "[0, -30]"}
    path = tmp_path / "network.json"
    path.write_text(json.dumps({"model": {"shape": "(1,3)", "bounds": "[(0, 1)]", "layers": [layer]}}))
    made = draft(numbers(), path)
    assert list(features(made)) == ["age", "hours", "sex"]
    assert made.warnings == ()


def test_uniform_people_cannot_be_asked_about_what_the_model_does_not_see() -> None:
    people = applicants()
    del people["job"]
    made = draft(people, by_hours(2), reading="uniform")
    assert "there can be no gap" in made.warnings[0]


def test_too_many_groups_are_refused_before_they_are_counted() -> None:
    many = [f"c{row % 600}" for row in range(1200)]
    with pytest.raises(SpecError, match=says(TOO_MANY_VALUES, name="race", size="600", most_groups="500")):
        draft({**applicants(1200), "race": many, "religion": many}, protected=("race", "religion", "sex"))


def test_a_network_and_a_csv_file_need_no_optional_package(tmp_path: Path) -> None:
    """Also true where these are installed, as here: they are made impossible to import."""
    (tmp_path / "network.onnx").write_bytes(by_hours())
    write_csv(tmp_path / "people.csv", numbers())
    code = """
import sys
for name in ("scipy", "torch", "sklearn", "pandas", "polars", "keras", "skl2onnx", "rich", "click"):
    sys.modules[name] = None
from fairchain.drafting import infer_spec
print(infer_spec(sys.argv[2], sys.argv[1]).property.protected)
"""
    assert run_child(code, tmp_path / "network.onnx", tmp_path / "people.csv") == "('sex',)\n"


def test_ranges_cut_from_the_rows_make_these_rows_the_population_and_say_so() -> None:
    """Where the ends of ranges follow the rows, bounds of a sample do not hold for the same rows."""
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(18, 90, 400).tolist(),
        "sex": ["F", "M"] * 200,
        "hired": ["no", "yes"] * 200,
    }
    draft = draft_spec(table, options=DraftOptions(label="hired", protected=("age",)))
    assert draft.spec.population.reading == "population"
    assert "were derived from these rows" in "".join(draft.about("population.as"))
    assert "were derived from these rows" in write_spec(draft).replace("\n# ", " ")
    # Groups of single values, whatever their sizes, may be read off a sample.
    assert (
        draft_spec(table, options=DraftOptions(label="hired", protected=("sex",))).spec.population.reading == "sample"
    )
    with pytest.warns(UserWarning, match=says(SAME_ROWS)):
        asked = infer_spec(table, label="hired", protected="age", reading="sample")
    assert asked.population.reading == "sample"
    # A later question about the ages is a question about the same rows.
    for reading in ("sample", "population"):
        draft = draft_spec(table, options=DraftOptions(label="hired", protected=("sex",), reading=reading))
        age = draft.spec.features[0]
        assert (age.name, bool(age.groups)) == ("age", reading == "population")
        assert (LATER_RANGES in draft.about("feature.age")) == (reading == "sample")
