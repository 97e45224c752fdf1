"""Promises of a draft: what can be seen is read, what cannot is guessed aloud, and what is impossible is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.drafting import NobodyProtectedError, infer_spec
from fairchain.errors import DataError, InputError, ModelError, SpecError
from fairchain.spec import CategoryFeature, IntegerFeature, RealFeature, Table, Uniform
from tests.child import run_child
from tests.drafting.builders import applicants, by_hours, draft, features, named, numbers, one_score, with_jobs
from tests.networks import INT64, constant, graph, node, value
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
    verdict = fairchain.verify(network, infer_spec(people, network, reading="population"), table=people)
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


def test_recorded_decisions_take_the_place_of_a_model() -> None:
    people = {**applicants(2000), "decision": applicants(2000, seed=6)["hired"]}
    made = draft(people, prediction="decision", label="hired", reading="population")
    assert "decision" not in features(made)
    assert fairchain.verify(None, made.spec, table=people).decision.name == "FAIR"
    with pytest.raises(SpecError, match="recorded decisions take the model's place"):
        draft(people, by_hours(), prediction="decision")


# Labels


def test_the_label_may_be_the_only_column_that_is_no_input(tmp_path: Path) -> None:
    people = applicants()
    people["what_came_of_it"] = people.pop("hired")
    del people["job"]
    made = draft(people, named(tmp_path / "network.onnx"))
    assert made.spec.population.label == "what_came_of_it"  # type: ignore[union-attr]
    assert "since it is no input" in made.about("population.label")[0]


def test_the_label_may_be_the_last_column_if_the_width_says_so() -> None:
    people = numbers()
    people["what_came_of_it"] = people.pop("hired")
    assert draft(people, by_hours()).spec.population.label == "what_came_of_it"  # type: ignore[union-attr]


def test_a_column_that_sounds_like_a_label_may_be_an_input() -> None:
    people = numbers()
    del people["hired"]
    people["status"] = [1, 2] * 200
    made = draft(people, by_hours(4))
    assert list(features(made)) == ["age", "hours", "sex", "status"]
    assert made.spec.population.label is None  # type: ignore[union-attr]
    assert made.spec.model.labels == ("0", "1")
    assert '"status" seems to hold the true labels' in made.warnings[0]


def test_labels_in_another_order_than_the_sorted_one_are_noticed() -> None:
    made = draft(numbers(), by_hours(sign=-1))
    assert made.spec.model.labels == ("yes", "no")
    assert "in this order the model agrees" in made.about("model.labels")[0]
    assert made.warnings == ()


def test_whole_numbers_are_labels_by_themselves(tmp_path: Path) -> None:
    people = numbers()
    people["hired"] = [int(each == "yes") for each in people["hired"]]
    made = draft(people, named(tmp_path / "network.onnx"))
    assert (made.spec.model.labels, made.spec.model.codes) == (("0", "1"), None)
    assert made.about("model.labels") == ()


def test_labels_that_the_network_returns_as_other_numbers_get_codes() -> None:
    people = numbers()
    people["hired"] = [1 + (each == "yes") for each in people["hired"]]
    nodes = [
        node("Gemm", ["x", "w", "b"], ["score"]),
        node("ArgMax", ["score"], ["place"], axis=1, keepdims=0),
        node("Add", ["place", "one"], ["label"]),
    ]
    weights = [constant("w", [[0, 0], [0, 1], [0, 0]]), constant("b", [0, -30]), constant("one", 1, np.int64)]
    network = graph(nodes, [value("x", shape=("N", 3))], [value("label", INT64, ("N",))], weights)
    made = draft(people, network)
    assert (made.spec.model.labels, made.spec.model.codes) == (("1", "2"), (1, 2))


def test_every_label_is_looked_at_if_no_name_tells_which_is_hoped_for() -> None:
    people = numbers()
    people["grade"] = ["red", "green", "blue", "green"] * 100
    made = draft(people, label="grade")
    assert made.spec.model.labels == ("blue", "green", "red")
    assert made.spec.property.outcome is None
    assert "Every label is looked at" in made.about("property.outcome")[0]


# What the answer means


@pytest.mark.parametrize(
    ("network", "decision", "why"),
    [
        (one_score(), "logit", "Some scores lie below 0 or above 1, so they are no probabilities."),
        (one_score("Sigmoid"), "probability", "The network ends in a Sigmoid."),
        (one_score("Clip", 0.01), "logit", "Some scores lie below 0"),
        (by_hours(end="Sigmoid"), "argmax", "Guess: the largest of the 2 outputs is the class."),
    ],
)
def test_the_decision_is_seen_in_the_network_or_its_scores(network: bytes, decision: str, why: str) -> None:
    made = draft(numbers(), network)
    assert made.spec.model.decision == decision
    assert why in made.about("model.decision")[0]
    assert made.warnings == ()


def test_scores_between_0_and_1_are_taken_for_probabilities() -> None:
    def score(rows: Any) -> Any:
        return 1 / (1 + np.exp(30 - rows[:, 1]))

    made = draft(numbers(), score)
    assert made.spec.model.decision == "probability"
    assert made.about("model.decision")[0].startswith("Guess")


def test_a_decision_that_is_given_stays() -> None:
    made = draft(numbers(), one_score(), decision="logit")
    assert (made.spec.model.decision, made.about("model.decision")) == ("logit", ())


def test_several_outputs_are_chosen_from_by_name() -> None:
    one, other = value("a", shape=("N", 2)), value("b", shape=("N", 2))
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("Neg", ["a"], ["b"])]
    network = graph(nodes, [value("x", shape=("N", 3))], [one, other], [constant("w", [[0, 0], [-1, 1], [0, 0]])])
    with pytest.raises(ModelError, match=r"outputs a, b; choose one with --model-output"):
        draft(numbers(), network)
    assert draft(numbers(), network, output="b").spec.model.output == "b"
    with pytest.raises(ModelError, match='there is no output "c"'):
        draft(numbers(), network, output="c")


# Categories


def test_texts_get_codes_in_sorted_order_and_the_rows_speak_for_them() -> None:
    people = applicants(1000)
    people["job"] = [{"driver": "a", "nurse": "b", "clerk": "c", "smith": "d"}[each] for each in people["job"]]
    # The fewer hours are enough, the smaller the code of the job.
    made = draft(people, with_jobs(4, 1, {3: -8}, cut=18))
    job = features(made)["job"]
    assert isinstance(job, CategoryFeature)
    assert (job.values, job.codes, job.one_hot) == (("a", "b", "c", "d"), None, False)
    assert "0, 1, ... in sorted order" in made.about("feature.job")[0]
    assert any("none of 19 other orders agrees clearly better" in text for text in made.about("feature"))
    assert made.warnings == ()


def test_codes_that_the_rows_do_not_speak_for_are_a_warning() -> None:
    people = applicants(1000)
    network = with_jobs(4, 1, {3: 0.01})
    made = draft(people, network)
    assert any('values of "sex", "job" is a guess, and probably a wrong one' in text for text in made.warnings)
    with pytest.warns(UserWarning, match="probably a wrong one"):
        infer_spec(people, network)


def test_codes_that_nothing_can_check_are_a_warning() -> None:
    people = applicants()
    del people["hired"]
    assert any("nothing here can check" in text for text in draft(people, with_jobs(4, 1, {3: 5})).warnings)


def test_a_model_that_is_worse_than_one_answer_is_a_warning() -> None:
    people = numbers()
    people["hired"] = [each if row % 10 else "no" for row, each in enumerate(people["hired"])]
    (warning,) = draft(people, by_hours(place=0)).warnings
    assert "which is more. Check the order of labels in [model]; the order of the features; scale = {...}" in warning


def test_one_input_for_each_value_of_a_text_column_is_one_hot() -> None:
    # age, hours, F, M, clerk, driver, nurse, smith
    made = draft(applicants(1000), with_jobs(8, 1, {5: 15, 6: 15}))
    assert list(features(made)) == ["age", "hours", "sex", "job"]
    assert features(made)["job"].one_hot
    assert features(made)["sex"].one_hot
    assert made.warnings == ()


def test_two_values_may_be_one_input_beside_one_hot_ones() -> None:
    made = draft(applicants(1000), with_jobs(7, 1, {4: 15, 5: 15}))
    assert features(made)["job"].one_hot
    assert not features(made)["sex"].one_hot


def test_numbers_may_come_before_all_categories() -> None:
    people = applicants(1000)
    people = {name: people[name] for name in ("job", "age", "sex", "hours", "hired")}
    # age, hours, clerk, driver, nurse, smith, F, M
    made = draft(people, with_jobs(8, 1, {3: 15, 4: 15}))
    assert list(features(made)) == ["age", "hours", "job", "sex"]
    assert "one kind of columns first" in made.about("feature")[0]


def test_a_question_mark_is_a_value_if_the_width_has_room_for_it() -> None:
    people = applicants(1000)
    people["job"] = ["?" if row % 20 == 0 else each for row, each in enumerate(people["job"])]
    with_mark = draft(people, with_jobs(9, 1, {6: 15, 7: 15}))
    assert features(with_mark)["job"].values == ("?", "clerk", "driver", "nurse", "smith")
    assert not with_mark.spec.population.drop_missing  # type: ignore[union-attr]
    without = draft(people, with_jobs(8, 1, {5: 15, 6: 15}))
    assert features(without)["job"].values == ("clerk", "driver", "nurse", "smith")
    assert without.spec.population.drop_missing  # type: ignore[union-attr]
    assert without.about("feature.job")[-1] == 'Guess: "?" is a missing value.'
    assert without.about("population.drop_missing")[0].startswith("50 rows of 1,000 lack a value")


def test_inputs_that_take_text_get_the_texts(tmp_path: Path) -> None:
    people = applicants()
    people["job"][0] = "?"
    made = draft(people, named(tmp_path / "network.onnx", order=("job", "hours", "sex")))
    job, _, sex = made.spec.features
    assert isinstance(job, CategoryFeature)
    assert job.values == ("?", "clerk", "driver", "nurse", "smith")
    assert isinstance(sex, CategoryFeature)
    assert (made.about("feature.job"), made.about("feature.sex")) == ((), ())
    assert made.about("feature") == ('Columns that the model does not take: "age".',)


def test_numbers_become_texts_for_an_input_of_text(tmp_path: Path) -> None:
    made = draft(numbers(), named(tmp_path / "network.onnx"))
    sex = features(made)["sex"]
    assert isinstance(sex, CategoryFeature)
    assert sex.values == ("0", "1")


def test_inputs_are_matched_although_an_exporter_changed_their_names(tmp_path: Path) -> None:
    people = applicants()
    people["Sex-of person"] = people.pop("sex")
    network = named(tmp_path / "network.onnx", text=("sex_of_person",), order=("hours", "age", "sex_of_person"))
    made = draft(people, network)
    feature = features(made)["Sex-of person"]
    assert feature.input == "sex_of_person"
    assert made.spec.property.protected == ("Sex-of person",)


def test_an_input_without_a_column_is_named(tmp_path: Path) -> None:
    people = applicants()
    del people["sex"]
    with pytest.raises(ModelError, match=r'no column of the table is called like "sex".*the columns are "age"'):
        draft(people, named(tmp_path / "network.onnx"))


# Numbers that need care


def test_a_column_with_one_fraction_is_exact() -> None:
    made = draft({**numbers(), "age": [0.1] * 400}, by_hours())
    constant = features(made)["age"]
    assert isinstance(constant, CategoryFeature)
    assert (constant.values, constant.codes) == (("0.1",), (0.1,))


def test_whole_numbers_too_far_apart_are_real() -> None:
    made = draft({**numbers(), "age": [0, 2**40] * 200}, by_hours())
    assert isinstance(features(made)["age"], RealFeature)


def test_missing_numbers_leave_rows_out_and_most_of_them_is_a_warning() -> None:
    people = numbers()
    people["age"][:5] = [None] * 5
    made = draft(people, by_hours())
    assert made.spec.population.drop_missing  # type: ignore[union-attr]
    assert made.about("population.drop_missing") == (
        '5 rows of 400 lack a value ("age") and are left out. To keep them, state missing = ... in the [[feature]].',
    )
    people["age"][:201] = [None] * 201
    assert "201 rows of 400 lack a value" in draft(people, by_hours()).warnings[-1]


def test_columns_that_number_people_are_no_inputs_of_a_narrower_network() -> None:
    made = draft({"id": list(range(400)), **numbers()}, by_hours())
    assert list(features(made)) == ["age", "hours", "sex"]
    assert any('no inputs, since the network takes fewer values: "id"' in text for text in made.about("feature"))


def test_a_network_that_wants_other_columns_is_refused_with_what_to_do() -> None:
    with pytest.raises(ModelError) as caught:
        draft(applicants(), by_hours(11))
    message = str(caught.value)
    assert "takes 11 values and the table has 4 columns besides the label" in message
    assert "(8 with one input for each value of a text column)" in message
    assert all(remedy in message for remedy in ("--ignore", "--label"))


def test_ignored_columns_are_no_inputs() -> None:
    made = draft(applicants(), by_hours(2), ignore=("job", "sex"), protected=("age",))
    assert list(features(made)) == ["age", "hours"]


# Who is compared


def test_a_protected_column_that_the_model_does_not_take_is_unseen() -> None:
    people = applicants(2000)
    del people["job"]
    network = by_hours(2)
    made = draft(people, network, reading="population")
    assert [(feature.name, feature.unseen) for feature in made.spec.features] == [
        ("age", False),
        ("hours", False),
        ("sex", True),
    ]
    assert made.spec.property.protected == ("sex",)
    assert "does not take this column" in made.about("feature.sex")[0]
    assert fairchain.verify(network, made.spec, table=people).decision.name == "FAIR"


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
        NobodyProtectedError, match=r'protected=\[\.\.\.\]\): "hours", "job", "kind", "years"'
    ) as caught:
        draft(people)
    assert caught.value.candidates == ("hours", "job", "kind", "years")
    assert draft(people, protected=("kind",)).spec.property.protected == ("kind",)


@pytest.mark.parametrize(
    ("wishes", "error", "words"),
    [
        ({"label": "hird"}, DataError, 'label: there is no column "hird" (did you mean "hired"?)'),
        ({"ignore": ("jib",)}, DataError, 'ignore: there is no column "jib"'),
        ({"prediction": "jib"}, DataError, 'prediction: there is no column "jib"'),
        ({"label": "hours"}, DataError, "different labels, and there must be 2 to 100"),
        ({"protected": ("sx",)}, SpecError, 'has no column "sx" (did you mean "sex"?)'),
        ({"outcome": "Yes"}, DataError, '"Yes" is none of the labels (did you mean "yes"?)'),
        ({"threshold": 2.0}, SpecError, "property.threshold: found 2.0; write a number strictly between 0 and 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(wishes: dict[str, Any], error: type[InputError], words: str) -> None:
    with pytest.raises(error) as caught:
        draft(applicants(), **wishes)
    assert words in str(caught.value)


def test_a_table_with_nothing_to_compare_is_refused() -> None:
    with pytest.raises(SpecError, match='"sex" has a single value in the table'):
        draft({**applicants(), "sex": ["F"] * 400}, protected=("sex",))
    with pytest.raises(SpecError, match='"sex" has a single value in the table'):
        draft({**applicants(), "sex": ["F"] * 400, "age": [30] * 400})
    with pytest.raises(DataError, match='column "sex" holds no value; fill it, or leave it out with --ignore'):
        draft({**applicants(), "sex": [None] * 400}, protected=("sex",))
    with pytest.raises(ModelError, match="no column to show it besides the label"):
        draft({"hired": ["no", "yes"] * 40}, label="hired")
    with pytest.raises(DataError, match='column "name" holds 6,000 different texts'):
        draft({**applicants(6000), "name": [f"p{row}" for row in range(6000)]})


def test_labels_that_do_not_fit_the_network_are_refused() -> None:
    people = {**numbers(), "hired": ["no", "yes", "perhaps", "never"] * 100}
    with pytest.raises(DataError, match=r"holds 4 labels .* and the network gives 2 scores"):
        draft(people, by_hours())


def test_a_model_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.onnx: no such file; give the model's file"):
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


def test_labels_with_a_needless_fraction_are_whole_numbers(tmp_path: Path) -> None:
    people = {**numbers(), "hired": [float(each == "yes") for each in numbers()["hired"]]}
    path = write_csv(tmp_path / "people.csv", people)
    made = draft(path, by_hours())
    assert made.spec.model.labels == ("0", "1")
    assert made.warnings == ()


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
    with pytest.raises(SpecError, match='"race" has 600 values, more than 500 groups'):
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
