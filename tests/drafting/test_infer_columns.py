"""Promises of a draft about columns: which input takes each of them, in which form, and which take none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fairchain.drafting import infer_spec
from fairchain.drafting.columns import CODES_GUESSED, NO_COLUMN_FOR_INPUT
from fairchain.errors import ModelError
from fairchain.spec import CategoryFeature, RealFeature
from tests.drafting.builders import JOBS, applicants, by_hours, draft, features, named, numbers, with_jobs
from tests.messages import says

# Categories


@pytest.mark.parametrize("label", [True, False])
def test_texts_get_codes_in_sorted_order_which_is_a_guess_and_a_warning(label: bool) -> None:
    people = applicants(1000)
    if not label:
        del people["hired"]
    network = with_jobs(4, 1, {3: -8}, cut=18)
    made = draft(people, network)
    job = features(made)["job"]
    assert isinstance(job, CategoryFeature)
    assert (job.values, job.codes, job.one_hot) == (JOBS, None, False)
    assert "0, 1, ..., in sorted order of the 4 values in this table" in made.about("feature.job")[0]
    guessed = CODES_GUESSED.format('"sex", "job"')
    assert guessed in made.warnings
    with pytest.warns(UserWarning, match=re.escape(guessed)):
        infer_spec(people, network)


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
    assert made.warnings == (CODES_GUESSED.format('"sex", "job"'),)


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


def test_a_column_that_cannot_be_read_does_not_matter_to_a_network_that_names_others(tmp_path: Path) -> None:
    made = draft({**applicants(), "odd": [object()] * 400}, named(tmp_path / "network.onnx"))
    assert made.about("feature") == ('Columns that the model does not take: "job", "odd".',)


def test_an_input_without_a_column_is_named(tmp_path: Path) -> None:
    people = applicants()
    del people["sex"]
    with pytest.raises(ModelError, match=says(NO_COLUMN_FOR_INPUT, lost='"sex"')):
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
    assert any('not inputs, since the network takes fewer values: "id"' in text for text in made.about("feature"))


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


def test_one_name_need_not_be_a_list() -> None:
    spec = infer_spec(numbers(), by_hours(2), ignore="sex", protected="age", reading="population")
    assert [feature.name for feature in spec.features] == ["age", "hours"]
    assert spec.property.protected == ("age",)


# Several inputs that share the columns


def shared(*inputs: tuple[str, int, int]) -> bytes:
    """A network of several inputs, (name, type, width), that hires by the sum of the values of the last one."""
    from tests.networks import FLOAT, constant, graph, node, value

    last, (_, kind, width) = inputs[-1][0], inputs[-1]
    nodes = [
        node("Cast", [last], ["real"], to=FLOAT),
        node("MatMul", ["real", "w"], ["sum"]),
        node("Add", ["sum", "b"], ["y"]),
    ]
    table = [[0.0, 1.0 if place == width - 1 else 0.0] for place in range(width)]
    given = [value(name, each, ("N", size)) for name, each, size in inputs]
    made = graph(nodes, given, [value("y", shape=("N", 2))], [constant("w", table), constant("b", [0, -30])])
    assert kind
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("names", [("words", "numbers"), ("first", "second")])
def test_columns_share_inputs_by_kind_and_number(names: tuple[str, str]) -> None:
    made = draft(applicants(1000), shared((names[0], 7, 2), (names[1], 1, 2)))
    filled = {name: feature.input for name, feature in features(made).items()}
    assert filled == {"age": names[1], "hours": names[1], "sex": names[0], "job": names[0]}
    (guess, *_) = [text for text in made.about("feature") if "share inputs" in text]
    assert f'"sex", "job" fill "{names[0]}"; "age", "hours" fill "{names[1]}"' in guess


def test_the_number_of_columns_decides_over_the_names() -> None:
    people = applicants(1000)
    people["more"] = people["age"]
    made = draft(people, shared(("numbers", 1, 2), ("words", 1, 3)))
    assert {name: feature.input for name, feature in features(made).items()} == {
        "age": "words", "hours": "words", "more": "words", "sex": "numbers", "job": "numbers",
    }  # fmt: skip


def test_a_protected_column_may_be_outside_all_inputs() -> None:
    made = draft(applicants(1000), shared(("words", 7, 1), ("numbers", 1, 2)))
    assert {name: feature.input for name, feature in features(made).items() if feature.model_input} == {
        "age": "numbers", "hours": "numbers", "job": "words",
    }  # fmt: skip
    assert not features(made)["sex"].model_input


def test_an_input_with_the_name_of_a_column_gets_that_column() -> None:
    made = draft(applicants(1000), shared(("job", 7, 1), ("rest", 1, 3)))
    filled = {name: feature.input for name, feature in features(made).items()}
    assert filled == {"age": "rest", "hours": "rest", "sex": "rest", "job": None}


def test_codes_are_a_warning_beside_an_input_of_text_too() -> None:
    made = draft(applicants(1000), shared(("job", 8, 1), ("rest", 1, 3)))
    assert features(made)["sex"].input == "rest"
    assert made.about("feature.job") == ()
    assert CODES_GUESSED.format('"sex"') in made.warnings


def test_inputs_that_no_columns_fit_are_refused() -> None:
    with pytest.raises(ModelError, match=says(NO_COLUMN_FOR_INPUT, lost='"words", "numbers"')):
        draft(applicants(1000), shared(("words", 7, 5), ("numbers", 1, 2)))
    with pytest.raises(ModelError, match=says(NO_COLUMN_FOR_INPUT, lost='"one", "two", "three"')):
        draft(applicants(1000), shared(("one", 7, 1), ("two", 7, 1), ("three", 1, 2)))
