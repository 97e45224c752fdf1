"""Promises of `write_table`: one clean CSV file in the user's own units, with no names of persons in it."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fairchain.datasets import get
from fairchain.datasets.sources import SOURCES
from fairchain.datasets.tables import (
    COMPAS_HEADER,
    DATA_TABLES,
    NO_ENCODING,
    UNKNOWN_CODE_IN_COLUMN,
    write_table,
)
from fairchain.errors import DataError
from fairchain.examples import example
from fairchain.messages import EXISTS_ALREADY, NO_FOLDER, unknown
from fairchain.spec import load_spec
from tests.messages import says

CENSUS_ROW = "47, Private, 79999, HS-grad, 9, Divorced, ?, Wife, Black, Female, 5178, 1902, 40, Cuba, >50K"
CREDIT_ROW = "A14 12 A34 A410 1299 A65 A75 4 A92 A103 3 A121 29 A143 A153 2 A174 1 A192 A202 2"
BANK = (
    ",age,job,marital,education,default,balance,housing,loan,contact,day,month,duration,campaign,pdays,previous,"
    "poutcome,deposit\n"
    "1,33,services,married,primary,no,2,yes,no,unknown,5,may,76,1,-1,0,unknown,yes\n"
    "0,58,retired,single,unknown,no,-1,yes,no,cellular,5,may,261,1,-1,0,unknown,no\n"
)
COMPAS = (
    "id,name,sex,dob,age,race,juv_fel_count,decile_score,juv_misd_count,juv_other_count,priors_count,"
    "c_charge_degree,two_year_recid,priors_count\n"
    '1,"Doe, Jo",Male,1980-01-01,69,Other,0,1,0,0,3,F,0,99\n'
)


def own(cache: Path, name: str, *texts: str) -> Path:
    """A cache in which the data set's files are these."""
    files = []
    for number, text in enumerate(texts):
        files.append(cache.parent / f"{name}-{number}.csv")
        files[-1].write_text(text)
    get(name, cache=cache, file=files)
    return cache


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_census_has_both_files_and_labels_without_dots(tmp_path: Path) -> None:
    cache = own(tmp_path / "cache", "census", CENSUS_ROW + "\n", f"|remark\n{CENSUS_ROW.replace('47', '50')}.\n")
    assert write_table("census", tmp_path / "census.csv", cache=cache) == 2
    first, second = read(tmp_path / "census.csv")
    assert (first["age"], second["age"]) == ("47", "50")
    assert (first["income"], second["income"]) == (">50K", ">50K")
    assert (first["occupation"], first["education-num"], first["hours-per-week"]) == ("?", "9", "40")


def test_credit_is_written_in_words_and_whole_amounts(tmp_path: Path) -> None:
    write_table("credit", tmp_path / "credit.csv", cache=own(tmp_path / "cache", "credit", CREDIT_ROW + "\n"))
    (row,) = read(tmp_path / "credit.csv")
    assert (row["checking"], row["history"], row["sex"]) == ("none", "critical account", "female")
    assert (row["amount"], row["age"], row["risk"]) == ("1299", "29", "bad")


def test_an_unknown_code_of_credit_is_named(tmp_path: Path) -> None:
    cache = own(tmp_path / "cache", "credit", CREDIT_ROW.replace("A14 ", "A19 ") + "\n")
    with pytest.raises(DataError, match=says(UNKNOWN_CODE_IN_COLUMN, column="'checking'", row="'A19'")):
        write_table("credit", tmp_path / "credit.csv", cache=cache)
    assert not (tmp_path / "credit.csv").exists()


def test_bank_has_its_own_order_and_no_index(tmp_path: Path) -> None:
    write_table("bank", tmp_path / "bank.csv", cache=own(tmp_path / "cache", "bank", BANK))
    rows = read(tmp_path / "bank.csv")
    assert [row["age"] for row in rows] == ["58", "33"]
    assert (rows[0]["balance"], rows[0]["pdays"], rows[0]["deposit"]) == ("-1", "-1", "no")
    assert "" not in rows[0]


def test_compas_has_the_columns_of_the_field_and_nobody_s_name(tmp_path: Path) -> None:
    write_table("compas", tmp_path / "compas.csv", cache=own(tmp_path / "cache", "compas", COMPAS))
    (row,) = read(tmp_path / "compas.csv")
    assert tuple(row) == COMPAS_HEADER
    assert (row["priors_count"], row["two_year_recid"]) == ("3", "0")
    assert "Doe" not in (tmp_path / "compas.csv").read_text()


@pytest.mark.parametrize(
    ("name", "texts"),
    [("census", [CENSUS_ROW + "\n", CENSUS_ROW + ".\n"]), ("credit", [CREDIT_ROW + "\n"]), ("bank", [BANK])],
)
def test_encoded_tables_fit_the_example_specs(tmp_path: Path, name: str, texts: list[str]) -> None:
    cache = own(tmp_path / "cache", name, *texts)
    write_table(name, tmp_path / "encoded.csv", encoded=True, cache=cache)
    spec = load_spec(example(name))
    row = read(tmp_path / "encoded.csv")[0]
    assert list(row)[:-1] == [feature.name for feature in spec.features]
    label = row.popitem()[1]
    assert label in spec.model.labels
    assert all(cell.lstrip("-").isdigit() for cell in row.values())


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    cache = own(tmp_path / "cache", "credit", CREDIT_ROW + "\n")
    path = tmp_path / "credit.csv"
    path.write_text("mine")
    with pytest.raises(DataError, match=says(EXISTS_ALREADY)):
        write_table("credit", path, cache=cache)
    assert path.read_text() == "mine"
    write_table("credit", path, cache=cache, force=True)
    assert len(read(path)) == 1


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(unknown("table", "glove", tuple(DATA_TABLES)))):
        write_table("glove", tmp_path / "x.csv")
    with pytest.raises(DataError, match=says(unknown("table", "cencus", tuple(SOURCES)))):
        write_table("cencus", tmp_path / "x.csv")
    with pytest.raises(DataError, match=says(NO_ENCODING, name="'compas'", tasks="census, credit, bank")):
        write_table("compas", tmp_path / "x.csv", encoded=True)
    with pytest.raises(DataError, match=says(NO_FOLDER)):
        write_table("credit", tmp_path / "no" / "x.csv")
