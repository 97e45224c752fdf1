"""Promises of `datasets.encode`: rows become integers within the declared ranges, or errors with a place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairchain.datasets import get
from fairchain.datasets.schemas import BANK, CENSUS, CENSUS_HEADER, CREDIT, CREDIT_HEADER
from fairchain.datasets.tables import (
    CELL_OF_DATA_SET,
    NO_ENCODING,
    Encoded,
    encode,
    encode_cells,
    held_out,
    parse_bank,
    parse_plain,
)
from fairchain.errors import DataError
from tests.messages import says

CENSUS_ROW = "47, Private, 79999, HS-grad, 9, Divorced, Sales, Wife, Black, Female, 5178, 1902, 40, Cuba, >50K"
CREDIT_ROW = "A14 12 A34 A410 1299 A65 A75 4 A92 A103 3 A121 29 A143 A153 2 A174 1 A192 A202 2"
BANK_HEADER = (
    ",age,job,marital,education,default,balance,housing,loan,contact,day,month,duration,campaign,pdays,"
    "previous,poutcome,deposit"
)
BANK_ROW = "0,58,retired,single,unknown,no,-1,yes,no,cellular,5,may,261,1,-1,0,unknown,no"


def census(*lines: str) -> Encoded:
    rows = parse_plain(lines, CENSUS_HEADER, ",")
    return encode_cells("census", rows, np.zeros(len(rows), dtype=np.bool_))


def credit(*lines: str) -> Encoded:
    rows = parse_plain(lines, CREDIT_HEADER, None)
    return encode_cells("credit", rows, np.zeros(len(rows), dtype=np.bool_))


def bank(*lines: str) -> Encoded:
    rows = parse_bank([[BANK_HEADER, *lines]])
    return encode_cells("bank", rows, np.zeros(len(rows), dtype=np.bool_))


def named(data: Encoded, row: int = 0) -> dict[str, float]:
    return {feature.name: float(value) for feature, value in zip(data.features, data.x[row], strict=True)}


def meaning(data: Encoded, name: str, row: int = 0) -> str:
    feature = next(feature for feature in data.features if feature.name == name)
    assert feature.values is not None
    return feature.values[int(named(data, row)[name])]


def test_a_census_row_is_coarsened_as_declared() -> None:
    data = census(CENSUS_ROW)
    values = named(data)
    assert (values["age"], values["fnlwgt"], values["hours-per-week"]) == (4, 3, 40)
    assert (values["capital-gain"], values["capital-loss"]) == (5, 19)
    assert [meaning(data, name) for name in ("education", "race", "sex", "native-country")] == [
        *("HS-grad", "Black", "Female", "Cuba"),
    ]
    assert data.labels[data.y[0]] == ">50K"
    assert data.x.dtype == np.float32
    assert data.y.dtype == np.int64


def test_numbers_outside_the_declared_range_are_clipped() -> None:
    wild = CENSUS_ROW.replace("47", "120").replace("79999", "1484705").replace("1902", "4356")
    values = named(census(wild))
    assert (values["age"], values["fnlwgt"], values["capital-loss"]) == (9, 39, 39)


def test_missing_categories_get_a_value_of_their_own() -> None:
    data = census(CENSUS_ROW.replace("Private", "?").replace("Sales", "?").replace("Cuba", "?"))
    assert {meaning(data, name) for name in ("workclass", "occupation", "native-country")} == {"unknown"}


def test_the_dots_and_the_remark_of_the_test_file_do_not_matter() -> None:
    data = census("|1x3 Cross validator", CENSUS_ROW + ".", "", CENSUS_ROW.replace(">50K", "<=50K."))
    assert data.y.tolist() == [1, 0]


def test_a_credit_row_is_decoded_as_declared() -> None:
    data = credit(CREDIT_ROW)
    values = named(data)
    assert (values["age"], values["amount"], values["duration"]) == (2, 12, 12)
    names = ("checking", "purpose", "sex", "debtors", "foreign")
    assert [meaning(data, name) for name in names] == ["none", "other", "female", "guarantor", "no"]
    assert data.labels[data.y[0]] == "bad"


@pytest.mark.parametrize(
    ("status", "sex"),
    [("A91", "male"), ("A92", "female"), ("A93", "male"), ("A94", "male"), ("A95", "female")],
)
def test_sex_is_read_from_the_personal_status(status: str, sex: str) -> None:
    assert meaning(credit(CREDIT_ROW.replace("A92", status)), "sex") == sex


def test_a_bank_row_is_coarsened_as_declared() -> None:
    data = bank(BANK_ROW)
    values = named(data)
    assert (values["age"], values["duration"], values["previous"]) == (5, 26, 0)
    assert values["balance"] == -1, "a small debt lies in the step below zero"
    names = ("pdays", "month", "poutcome")
    assert [meaning(data, name) for name in names] == ["never contacted", "may", "unknown"]


def test_bank_numbers_are_clipped_at_both_ends() -> None:
    data = bank(BANK_ROW.replace(",-1,yes", ",-8019,yes"), BANK_ROW.replace(",-1,0,", ",92,7,"))
    assert named(data)["balance"] == -20
    assert named(data, 1)["previous"] == 1
    assert meaning(data, "pdays", 1) == "contacted before"


def test_parts_of_the_bank_data_are_put_in_the_order_of_their_index() -> None:
    parts = [[BANK_HEADER, "2" + BANK_ROW[1:]], [BANK_HEADER, "10" + BANK_ROW[1:], BANK_ROW]]
    assert [row[""] for row in parse_bank(parts)] == ["0", "2", "10"]


def test_the_original_bank_file_encodes_like_the_parts() -> None:
    header = BANK_HEADER[1:].replace("deposit", "y").replace(",", ";")
    original = parse_bank([[header, BANK_ROW[2:].replace(",", ";")]])
    split = np.zeros(1, dtype=np.bool_)
    assert np.array_equal(encode_cells("bank", original, split).x, bank(BANK_ROW).x)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (CENSUS_ROW.replace("Black", "Green"), "row 1, column 'race': found 'Green', expected one of Amer"),
        (CENSUS_ROW.replace("47", "old"), "row 1, column 'age': found 'old', expected a whole number"),
        (CENSUS_ROW.replace(">50K", "much"), "row 1: label 'much' is not one of"),
        ("1, 2", "row 1 has 2 columns instead of 15"),
        ("", "no rows"),
    ],
)
def test_what_cannot_be_encoded_is_named_with_its_place(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        census(line)


def test_a_bank_row_that_ends_early_is_named_with_its_place() -> None:
    with pytest.raises(DataError, match=says(CELL_OF_DATA_SET, number="1")):
        bank(",".join(BANK_ROW.split(",")[:-2]))


@pytest.mark.parametrize(("columns", "count"), [(CENSUS, 13), (CREDIT, 20), (BANK, 16)])
def test_the_schemas_declare_what_the_networks_take(columns: tuple[object, ...], count: int) -> None:
    assert len(columns) == count


def test_categories_are_numbered_from_zero_without_gaps() -> None:
    for column in (*CENSUS, *CREDIT, *BANK):
        feature = column.feature
        if feature.values is not None:
            assert (feature.low, feature.high) == (0, len(feature.values) - 1)
            assert len(set(feature.values)) == len(feature.values)


def test_the_held_out_rows_are_a_fixed_fifth() -> None:
    split = held_out(1000)
    assert split.sum() == 200
    assert np.flatnonzero(split)[:5].tolist() == [11, 21, 22, 29, 31]
    assert not np.array_equal(split, held_out(1000, seed=21))


def test_files_of_ones_own_are_encoded(tmp_path: Path) -> None:
    train, test = tmp_path / "adult.data", tmp_path / "adult.test"
    train.write_text(CENSUS_ROW + "\n" + CENSUS_ROW + "\n\n")
    test.write_text("|1x3 Cross validator\n" + CENSUS_ROW + ".\n")
    get("census", cache=tmp_path / "cache", file=[train, test])
    data = encode("census", tmp_path / "cache")
    assert data.split.tolist() == [False, False, True]
    assert data.x.shape == (3, 13)


def test_only_three_data_sets_have_an_encoding(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(NO_ENCODING, name="'glove'", tasks="census, credit, bank")):
        encode("glove", tmp_path)


@pytest.mark.network
@pytest.mark.parametrize(
    ("name", "shape", "held", "ones"),
    [
        ("census", (48_842, 13), 16_281, 11_687),
        ("credit", (1_000, 20), 200, 700),
        ("bank", (45_211, 16), 9_042, 5_289),
    ],
)
def test_the_real_data_have_the_shape_on_record(
    tmp_path: Path, name: str, shape: tuple[int, int], held: int, ones: int
) -> None:
    data = encode(name, tmp_path)
    assert (data.x.shape, int(data.split.sum()), int(data.y.sum())) == (shape, held, ones)
    for position, feature in enumerate(data.features):
        assert feature.low <= data.x[:, position].min() <= data.x[:, position].max() <= feature.high
