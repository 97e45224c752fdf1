"""Promises about people: the same whatever they come in, and what cannot be meant is one message with a remedy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairchain.errors import DataError, InputError, SpecError
from fairchain.spec import parse_spec
from fairchain.tables import TableRows, encode_rows, read_table
from fairchain.tables.rows import CODES_NEEDED, LABEL_IS_ANOTHER_CODE, NOT_A_LABEL, POPULATION_IS_NOT_A_TABLE
from tests.messages import says
from tests.questions import category, integer, question, real
from tests.tables.builders import AGE, people, table_spec, write_csv

COLUMNS: dict[str, list[Any]] = {
    "age": [39, 50, 38, 17],
    "capital": [0.1, 2174.0, 1e-7, 12.5],
    "work": ["Private", "State-gov", None, "Private"],
    "grade": [1, 2, 3, 1],
    "sex": ["Male", "Male", "Female", "Female"],
    "income": ["<=50K", ">50K", ">50K", "<=50K"],
    "decision": [0, 1, 0, 0],
}
SPEC = table_spec(
    AGE,
    real("capital gain", 0, 5000, column="capital"),
    category("work", "Private", "State-gov", missing="Private"),
    category("grade", 1, 2, "3"),
    category("sex", "F", "M", aliases=["Female", "Male"]),
    model={"labels": ["<=50K", ">50K"], "codes": [0, 1]},
    label="income",
    prediction="decision",
)
VALUES = [[39, 0.1, 0, 0, 1], [50, 2174, 1, 1, 1], [38, 1e-7, 0, 2, 0], [17, 12.5, 0, 0, 0]]


def every_form(columns: dict[str, list[Any]], folder: Path) -> dict[str, Any]:
    frame = pl.DataFrame(columns)
    frame.write_parquet(folder / "people.parquet")
    frame.write_csv(folder / "polars.csv")
    pd.DataFrame(columns).to_csv(folder / "pandas.csv", index=False)
    categories = frame.with_columns(pl.col(pl.String).cast(pl.Categorical))
    return {
        "csv": write_csv(folder / "people.csv", columns),
        "semicolons": write_csv(folder / "semicolons.csv", columns, ";"),
        "tsv": write_csv(folder / "people.tsv", columns, "\t"),
        "gz": write_csv(folder / "people.csv.gz", columns),
        "parquet": folder / "people.parquet",
        "csv by polars": folder / "polars.csv",
        "csv by pandas": folder / "pandas.csv",
        "polars": frame,
        "polars categories": categories,
        "pandas": pd.DataFrame(columns),
        "pandas objects": pd.DataFrame(columns, dtype=object),
        "pandas nullable": pd.DataFrame(columns).convert_dtypes(),
        "pandas categories": pd.DataFrame({name: pd.Categorical(cells) for name, cells in columns.items()}),
        "mapping": columns,
        "arrays": {name: np.array(cells) for name, cells in columns.items()},
    }


def test_every_form_of_a_table_gives_the_same_people(tmp_path: Path) -> None:
    hashes = set()
    for form, source in every_form(COLUMNS, tmp_path).items():
        found = encode_rows(read_table(source), SPEC)
        assert found.values.tolist() == VALUES, form
        assert found.values.dtype == np.float64
        assert found.truth is not None
        assert found.recorded is not None
        assert (found.truth.dtype, found.recorded.dtype) == (np.int16, np.int16)
        assert (found.truth.tolist(), found.recorded.tolist()) == ([0, 1, 1, 0], [0, 1, 0, 0]), form
        assert (found.numbers.tolist(), found.dropped) == ([1, 2, 3, 4], 0)
        hashes.add(found.sha256)
    assert len(hashes) == 1


def test_the_hash_is_the_documented_one_and_stays() -> None:
    """Certificates name it: it must not depend on the machine or on the version."""
    found = people({"age": [17, 18]}, AGE)
    assert found.sha256 == "aa2d8aec35c5e24f61823a28fe4851b0325f9b8d23bf36331494ae85badd7b92"


def test_the_hash_tells_people_apart() -> None:
    columns = {"age": [17, 18], "y": ["no", "yes"]}
    ways: list[dict[str, Any]] = [{}, {"label": "y"}, {"prediction": "y"}, {"label": "y", "prediction": "y"}]
    hashes = [people(columns, AGE, **way).sha256 for way in ways]
    hashes.append(people({"age": [18, 17]}, AGE).sha256)
    assert len(set(hashes)) == len(hashes)


def test_zeros_with_and_without_a_sign_are_two_values() -> None:
    # A model may tell them apart, so they are two values.
    assert people({"x": [-0.0]}, real("x")).sha256 != people({"x": ["0"]}, real("x")).sha256
    assert people({"x": [-0.0]}, real("x")).sha256 == people({"x": ["-0.0"]}, real("x")).sha256


def test_people_cannot_be_changed_by_accident() -> None:
    found = people({"age": [17]}, AGE)
    with pytest.raises(ValueError, match="read-only"):
        found.values[0, 0] = 1


def test_without_label_columns_there_are_no_labels() -> None:
    found = people({"age": [17]}, AGE)
    assert found.truth is None
    assert found.recorded is None


# ---- round trip ----

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6).map(str.strip)


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_what_is_written_to_a_csv_file_is_what_is_read(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = data.draw(st.lists(NAMES.filter(bool), min_size=1, max_size=4, unique=True))
    rows = data.draw(st.integers(1, 30))
    column = lambda cells: data.draw(st.lists(cells, min_size=rows, max_size=rows))  # noqa: E731
    reals, wholes = column(st.floats(-1e300, 1e300)), column(st.integers(-(2**31), 2**31))
    places = column(st.integers(0, len(names) - 1))
    path = write_csv(
        tmp_path_factory.mktemp("round") / "people.csv",
        {"x": reals, "n": wholes, "c": [names[i] for i in places], "sex": ["Female"] * rows},
    )
    spec = table_spec(
        real("x", -1e301, 1e301),
        integer("n", -(2**31), 2**31 - 1, clip=True),
        category("c", *names),
        category("sex", "Female", "Male"),
    )
    found = encode_rows(read_table(path), spec)
    expected = np.array([reals, np.minimum(wholes, 2**31 - 1), places, [0] * rows], np.float64).T
    assert (found.values == expected).all()


# ---- categories ----


def test_whole_numbers_are_the_same_category_with_and_without_a_fraction() -> None:
    for cells in ([1, 2], [1.0, 2.0], ["1", "2"], ["1.0", "2.00"], np.array([1, 2], np.float32)):
        for values in ((1, 2), ("1", "2"), ("1.0", "2.0")):
            assert people({"grade": cells}, category("grade", *values)).values[:, 0].tolist() == [0, 1]


def test_other_texts_are_taken_as_they_are() -> None:
    assert people({"zip": ["007", "7", "1e3"]}, category("zip", "7", "007", "1e3")).values[:, 0].tolist() == [1, 0, 2]
    fails({"zip": ["1000"]}, category("zip", "1e3"), '"1000"')


def test_true_and_false_are_categories() -> None:
    assert people({"own": [True, False]}, category("own", "False", "True")).values[:, 0].tolist() == [1, 0]
    fails({"own": [True]}, integer("own", 0, 1), '"True", which is not a number', 'kind = "category"')


def fails(columns: dict[str, Any], feature: dict[str, Any], *words: str, **population: Any) -> None:
    """The feature ends in one message with these words."""
    with pytest.raises(InputError) as caught:
        people(columns, feature, **population)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_an_unseen_category_is_named_with_its_row_how_often_and_what_to_do() -> None:
    races = ["White", "Blck", "Black", "Blck", "Martian"]
    fails(
        {"race": races},
        category("race", "White", "Black"),
        'the table: column "race": row 2 holds "Blck" (3 such rows with 2 different cells)',
        'not one of the values of feature "race" (did you mean "Black"?)',
        "add it to values",
        "cells",
        "na_values in [population]",
    )
    fails(
        {"r": ["x"]},
        category("race", "White", column="r", aliases=["W"]),
        'column "r"',
        'the aliases of feature "race"',
    )


def test_an_unseen_category_far_down_is_found() -> None:
    fails({"race": ["White"] * 5000 + ["x"]}, category("race", "White", "Black"), 'row 5,001 holds "x", which')


def test_cells_take_the_place_of_values() -> None:
    feature = category("sex2", "Female", "Male", aliases=[2, 1])
    assert people({"sex2": [1, 2, 1]}, feature).values[:, 0].tolist() == [1, 0, 1]
    fails({"sex2": ["Male"]}, feature, '"Male"')


def test_cells_that_differ_in_blanks_only_are_a_mistake_of_the_spec() -> None:
    fails({"x": ["a"]}, category("x", "a", "b", aliases=["a", "a "]), 'feature "x"', '"a" means two values')


# ---- numbers ----


def test_what_is_no_number_is_named_with_its_row() -> None:
    fails({"age": ["17", "?", "old"]}, AGE, 'column "age": row 3 holds "old", which is not a number', "na_values")
    fails({"age": ["1,5", "2,5"]}, AGE, 'row 1 holds "1,5" (2 such rows)', "write numbers like 1234.5")
    fails({"age": [str(n) for n in range(20, 60)] * 100 + ["x"]}, AGE, 'row 4,001 holds "x"')


def test_a_fraction_is_no_whole_number() -> None:
    fails(
        {"age": [17, 17.5, 18.5]}, AGE, 'row 2 holds 17.5 (2 such rows), but feature "age" has whole', 'kind = "real"'
    )
    assert people({"age": ["17.0"]}, AGE).values[0, 0] == 17


def test_numbers_out_of_range_are_told_with_how_many_and_how_far() -> None:
    fails(
        {"age": [17, 100, 5, 91]},
        AGE,
        'row 2 holds 100 (3 such rows), outside of low = 17 and high = 90 of feature "age"',
        "the column goes from 5 to 100",
        "widen low and high",
        "clip = true",
    )
    assert people({"age": [17, 100, 5]}, {**AGE, "clip": True}).values[:, 0].tolist() == [17, 90, 17]


@pytest.mark.parametrize("cell", [math.inf, "-inf", "1e999", "Infinity"])
def test_infinite_numbers_are_refused_even_where_others_are_clipped(cell: Any) -> None:
    fails({"x": [0.5, cell]}, real("x", clip=True), 'column "x": row 2 holds', "infinite")


# ---- missing cells ----

ABSENT = [None, "", "  ", "?", "NA", "nan"]


@pytest.mark.parametrize("cell", [*ABSENT, math.nan, pd.NA])
def test_a_missing_cell_is_an_error_unless_the_spec_says_what_to_do(cell: Any) -> None:
    columns = {"age": [17, cell, 18]}
    fails(
        columns,
        AGE,
        'column "age": no value in 1 row, the first of them row 2',
        'missing = ... in the [[feature]] "age"',
        "drop_missing = true in [population]",
    )
    assert people(columns, {**AGE, "missing": 40}).values[:, 0].tolist() == [17, 40, 18]
    left = people(columns, AGE, drop_missing=True)
    assert left.values[:, 0].tolist() == [17, 18]
    assert (left.numbers.tolist(), left.dropped) == ([1, 3], 1)


@pytest.mark.parametrize("cell", ABSENT)
def test_a_category_that_is_missing_counts_as_what_the_feature_says(cell: Any) -> None:
    columns = {"work": ["Private", cell]}
    fails(columns, category("work", "Other", "Private"), "no value in 1 row, the first of them row 2")
    assert people(columns, category("work", "Other", "Private", missing="Other")).values[:, 0].tolist() == [1, 0]


def test_a_value_of_the_feature_is_never_missing() -> None:
    assert people({"work": ["?", "NA"]}, category("work", "NA", "?")).values[:, 0].tolist() == [1, 0]
    feature = category("work", "none", "some", aliases=["None", "x"])
    assert people({"work": ["None", "x"]}, feature).values[:, 0].tolist() == [0, 1]


def test_the_spec_says_what_is_not_known() -> None:
    assert people({"age": [17, -1]}, {**AGE, "missing": 40}, na_values=["-1"]).values[:, 0].tolist() == [17, 40]
    assert people({"age": ["17", "-1.0"]}, {**AGE, "missing": 40}, na_values=["-1"]).values[:, 0].tolist() == [17, 40]
    assert people({"grade": [1, 9.0]}, category("grade", 1, missing=1), na_values=["9"]).values[:, 0].tolist() == [0, 0]
    fails({"age": ["17", "?"]}, AGE, '"?", which is not a number', na_values=[])
    fails({"age": ["17", "nan"]}, AGE, '"nan", which is not a number', na_values=[])
    fails({"work": ["x", "?"]}, category("work", "x"), '"?", which is not one of', na_values=[])


def test_what_missing_stands_for_must_be_a_value_of_the_feature() -> None:
    fails({"age": [17]}, {**AGE, "missing": 5}, 'feature "age".missing: found 5', "a whole number from 17 to 90")
    fails({"age": [17]}, {**AGE, "missing": 17.5}, 'feature "age".missing: found 17.5')
    fails({"age": [17]}, {**AGE, "missing": "x"}, 'feature "age".missing: found x')
    fails({"x": [0.5]}, real("x", missing=math.nan), 'feature "x".missing: found nan', "a number from 0 to 1")
    fails({"w": ["a"]}, category("w", "abc", missing="abd"), 'feature "w".missing: "abd"', 'did you mean "abc"?')


def test_a_table_that_loses_every_row_is_refused() -> None:
    columns = {"age": [None, None]}
    fails(columns, AGE, "all of 2 rows lack a value that is used", "missing = ...", drop_missing=True)


def test_rows_are_dropped_for_any_column_that_is_used_and_no_other() -> None:
    columns = {"age": [17, None, 18, 19], "y": ["no", "no", None, "yes"], "other": [None, None, None, None]}
    found = people(columns, AGE, label="y", drop_missing=True)
    assert found.numbers.tolist() == [1, 4]
    assert found.truth is not None
    assert found.truth.tolist() == [0, 1]
    fails(columns, {**AGE, "missing": 17}, 'column "y": no value in 1 row, the first of them row 3', label="y")


# ---- columns ----


def test_an_unknown_column_is_named_with_a_near_one_and_the_remedy() -> None:
    fails({"Age": [17]}, AGE, 'unknown column "age"; did you mean "Age"?', 'column = "..." in the [[feature]] "age"')
    fails({"age": [17]}, {**AGE, "column": "years"}, 'unknown column "years"')
    fails({"age": [17]}, AGE, 'unknown column "incme"', 'label = "..." in [population]', label="incme")
    fails({"age": [17]}, AGE, 'unknown column "y"', 'prediction = "..." in [population]', prediction="y")


# ---- labels ----


def labels(cells: list[Any], names: list[str], codes: list[Any] | None = None) -> TableRows:
    model = {"labels": names} | ({} if codes is None else {"codes": codes})
    spec = table_spec(category("sex", "Female", "Male"), model=model, label="y")
    return encode_rows(read_table({"y": cells, "sex": ["Male"] * len(cells)}), spec)


@pytest.mark.parametrize(
    ("cells", "names", "codes"),
    [
        (["no", " yes "], ["no", "yes"], None),
        ([0, 1], ["no", "yes"], [0, 1]),
        ([0.0, 1.0], ["no", "yes"], [0, 1]),
        (["no", 1], ["no", "yes"], [0, 1]),
        (["2", "1"], ["bad", "good"], [2, 1]),
        ([0, 1], ["0", "1"], None),
        ([0, 1], ["0", "1"], [0, 1]),
        ([False, True], ["no", "yes"], ["False", "True"]),
        (["NA", "?"], ["NA", "?"], None),
    ],
)
def test_a_label_is_its_name_or_its_code(cells: list[Any], names: list[str], codes: list[Any] | None) -> None:
    truth = labels(cells, names, codes).truth
    assert truth is not None
    assert truth.tolist() == [0, 1]


def test_a_number_is_not_taken_for_the_place_of_a_label() -> None:
    with pytest.raises(DataError, match=says(CODES_NEEDED)):
        labels([0, 1], ["no", "yes"])
    with pytest.raises(DataError, match=says(NOT_A_LABEL)):
        labels([0, 2], ["no", "yes"], [0, 1])


def test_a_cell_that_is_one_label_and_the_code_of_another_is_refused() -> None:
    with pytest.raises(DataError, match=says(LABEL_IS_ANOTHER_CODE)):
        labels(["0", "1"], ["0", "1"], [1, 0])


# ---- populations ----


def test_marginals_read_only_the_features_whose_frequencies_are_not_stated() -> None:
    asked = question(AGE, category("sex", "Female", "Male"))
    population = {"kind": "marginals", "frequencies": {"sex": {"Female": 0.5, "Male": 0.5}}}
    spec = parse_spec({**asked, "population": population})
    found = encode_rows(read_table({"age": [17, 18]}), spec)
    assert found.values[:, 0].tolist() == [17, 18]
    assert np.isnan(found.values[:, 1]).all()
    assert found.truth is None


def test_other_populations_have_no_rows() -> None:
    with pytest.raises(SpecError, match=says(POPULATION_IS_NOT_A_TABLE)):
        encode_rows(read_table({"age": [17]}), parse_spec(question(AGE, category("sex", "F", "M"))))
