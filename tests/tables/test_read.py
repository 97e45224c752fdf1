"""Promises about reading: every form of a table gives the same cells, and what is no table is refused with a remedy."""

from __future__ import annotations

import gzip
import os
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairchain.errors import DataError
from fairchain.messages import unknown
from fairchain.tables import TableLimits, read_table
from fairchain.tables.columns import MORE_THAN_BYTES
from fairchain.tables.frames import CELL_TOO_LONG, NESTED
from fairchain.tables.read import HEADER_ADVICE, NO_COLUMN
from tests.messages import says
from tests.tables.builders import write_csv

COLUMNS = {"age": [39, 50, None], "sex": ["Male", None, "Female"]}


def written(tmp_path: Path, content: str | bytes, name: str = "people.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refused(source: Any, *words: str, limits: TableLimits | None = None) -> None:
    """The table ends in one message that has these words, and that names its source first."""
    with pytest.raises(DataError) as caught:
        read_table(source, limits)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert "\n" not in message
    if isinstance(source, Path):
        assert message.startswith(f"{source}: ")


# ---- what is read ----


def test_cells_of_a_csv_file_are_texts_without_the_blanks_around_them(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, 'age, sex ,code\n39,  Male ,007\n 50, "Fe, male",1e3\n,  ,\n'))
    assert table.names == ("age", "sex", "code")
    assert table.count == 3
    assert table.texts("age").tolist() == ["39", "50", None]
    assert table.texts("sex").tolist() == ["Male", "Fe, male", None]
    assert table.texts("code").tolist() == ["007", "1e3", None]


def test_a_byte_order_mark_blank_lines_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, b"\xef\xbb\xbf\r\nage,sex\r\n39,Male\r\n\r\n50,Female\r\n\r\n"))
    assert table.names == ("age", "sex")
    assert table.texts("age").tolist() == ["39", "50"]


def test_a_cell_in_quotes_may_hold_separators_quotes_and_line_breaks(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, 'a,b\n"x, ""y""\nz",2\n'))
    assert table.texts("a").tolist() == ['x, "y"\nz']


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_the_header_of_a_csv_file_tells_its_separator(tmp_path: Path, separator: str) -> None:
    table = read_table(written(tmp_path, separator.join(["age", "sex"]) + "\n" + separator.join(["39", "Male"]) + "\n"))
    assert table.names == ("age", "sex")


def test_a_table_longer_than_one_part_keeps_its_order(tmp_path: Path) -> None:
    numbers = [str(n) for n in range(5000)]
    table = read_table(write_csv(tmp_path / "people.csv", {"n": numbers, "parity": [str(n % 2) for n in range(5000)]}))
    assert table.texts("n").tolist() == numbers
    assert table.counts("parity") == {"0": 2500, "1": 2500}
    numeric = table.numeric("n")
    assert numeric is not None
    assert (numeric == np.arange(5000)).all()


def test_names_of_frames_may_be_numbers_and_have_blanks_around_them() -> None:
    table = read_table(pd.DataFrame([[1, 2]], columns=[0, " sex "]))
    assert table.names == ("0", "sex")


def test_a_table_that_was_read_is_taken_as_it_is() -> None:
    table = read_table(COLUMNS)
    assert read_table(table) is table


def test_the_source_is_named_as_the_user_knows_it(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "people.csv", COLUMNS)
    assert read_table(str(path)).source == str(path)
    assert read_table(pd.DataFrame(COLUMNS)).source == "the pandas frame"
    assert read_table(pl.DataFrame(COLUMNS)).source == "the polars frame"
    assert read_table(COLUMNS).source == "the table"


# ---- cells of frames ----

CELLS: dict[str, tuple[Any, list[str | None]]] = {
    "numbers": ([1, 2.5, None], ["1", "2.5", None]),
    "large numbers": ([2**53 + 1, None], ["9007199254740993", None]),
    "numbers beyond all": ([10**400, 1], ["1" + "0" * 400, "1"]),
    "booleans": ([True, False, None], ["True", "False", None]),
    "booleans and numbers": ([True, 1, 1.0, "1"], ["True", "1", "1", "1"]),
    "dates": ([date(2020, 1, 2), None], ["2020-01-02", None]),
    "decimals": ([Decimal("1.50"), Decimal(2)], ["1.5", "2"]),
    "decimals and texts": ([Decimal("1.50"), "x"], ["1.5", "x"]),
    "values of pandas for missing": ([pd.NA, pd.NaT, float("nan"), 1], [None, None, None, "1"]),
    "integers": (np.array([1, 2**62 + 1]), ["1", "4611686018427387905"]),
    "single precision": (np.array([0.1, np.nan], np.float32), ["0.1", None]),
    "array of booleans": (np.array([True, False]), ["True", "False"]),
    "array of texts": (np.array(["x ", ""]), ["x", None]),
    "array of times": (np.array(["2020-01-02", "NaT"], "M8[D]"), ["2020-01-02", None]),
    "array of objects": (np.array(["x", None, 1.0], object), ["x", None, "1"]),
    "range": (range(2), ["0", "1"]),
    "pandas texts": (pd.Series(["x", None]), ["x", None]),
    "pandas booleans": (pd.Series([True, None], dtype="boolean"), ["True", None]),
    "pandas integers": (pd.Series([1, None], dtype="Int64"), ["1", None]),
    "pandas large integers": (pd.Series([2**53 + 1, None], dtype="Int64"), ["9007199254740993", None]),
    "pandas single precision": (pd.Series([0.1, None], dtype="Float32"), ["0.1", None]),
    "pandas sparse": (pd.Series(pd.arrays.SparseArray([0, 1.5, np.nan])), ["0", "1.5", None]),
    "pandas categories": (pd.Series(["x", None, "y"], dtype="category"), ["x", None, "y"]),
    "pandas number categories": (pd.Series([1.0, None, 0.5], dtype="category"), ["1", None, "0.5"]),
    "pandas boolean categories": (pd.Series([True, False], dtype="category"), ["True", "False"]),
    "pandas intervals": (pd.cut(pd.Series([1.0]), [0, 2]), ["(0, 2]"]),
    "pandas times": (pd.Series([pd.Timestamp("2020-01-02"), pd.NaT]).dt.date, ["2020-01-02", None]),
    "polars texts": (pl.Series(["x", None]), ["x", None]),
    "polars booleans": (pl.Series([True, None, False]), ["True", None, "False"]),
    "polars integers": (pl.Series([1, None], dtype=pl.Int8), ["1", None]),
    "polars large integers": (pl.Series([2**53 + 1, None]), ["9007199254740993", None]),
    "polars single precision": (pl.Series([0.1, None], dtype=pl.Float32), ["0.1", None]),
    "polars categories": (pl.Series(["x", None], dtype=pl.Categorical), ["x", None]),
    "polars decimals": (pl.Series([Decimal("1.50"), None]), ["1.5", None]),
    "polars dates": (pl.Series([date(2020, 1, 2), None]), ["2020-01-02", None]),
    "polars nothing": (pl.Series([None, None]), [None, None]),
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_has_one_text_whatever_it_comes_in(name: str) -> None:
    values, expected = CELLS[name]
    assert read_table({"x": values}).texts("x").tolist() == expected


def test_numbers_of_a_frame_come_as_float64_with_nan_for_missing() -> None:
    column = read_table({"x": [1, None, 2]}).numeric("x")
    assert column is not None
    assert column.dtype == np.float64
    assert np.array_equal(column, [1, np.nan, 2], equal_nan=True)


def test_a_column_is_numeric_if_every_cell_that_is_known_is_a_number() -> None:
    table = read_table({"a": ["1", "?", ""], "b": ["1", "x", "2"], "c": [1.5, None, 2], "d": [True, False, True]})
    assert np.array_equal(table.numeric("a"), [1, np.nan, np.nan], equal_nan=True)  # type: ignore[arg-type]
    assert table.numeric("a", na_values=()) is None
    assert table.numeric("b") is None
    assert np.array_equal(table.numeric("c"), [1.5, np.nan, 2], equal_nan=True)  # type: ignore[arg-type]
    assert table.numeric("d") is None


@pytest.mark.parametrize("text", ["1_000", "1,5", "0x1F", "١", "nan", "1 000", "--1", "1e", "e5", ".", "1.2.3", "True"])
def test_what_only_looks_like_a_number_is_none(text: str) -> None:
    assert read_table({"x": [text]}).numeric("x", na_values=()) is None
    # In a long column, which is parsed in another way.
    assert read_table({"x": [*map(str, range(3000)), text]}).numeric("x", na_values=()) is None


@pytest.mark.parametrize("text", ["1", "+1", "-1.5", ".5", "5.", "1e3", "1E-3", " 2 ", "007", "9" * 30])
def test_numbers_are_read_as_python_reads_them(text: str) -> None:
    for padding in ([], [str(n) for n in range(3000)], ["1.5"], ["x" * 0] * 3):
        numeric = read_table({"x": [*padding, text]}).numeric("x")
        assert numeric is not None
        assert numeric[-1] == float(text)


def test_not_known_may_be_a_number() -> None:
    for column in (["1", "-999", "-999.0"], [1, -999, -999.0]):
        numeric = read_table({"x": column}).numeric("x", na_values=("-999",))
        assert np.array_equal(numeric, [1, np.nan, np.nan], equal_nan=True)  # type: ignore[arg-type]


# ---- what is refused ----


def test_an_unknown_column_is_an_error_with_a_near_one() -> None:
    table = read_table({"Education": [1], "sex": [2]})
    with pytest.raises(DataError, match=says(NO_COLUMN, problem=unknown("column", "education_", ["Education", "sex"]))):
        table.texts("education_")
    with pytest.raises(DataError, match=says(NO_COLUMN, problem=unknown("column", "zzz", ["Education", "sex"]))):
        table.texts("zzz")


def test_a_list_of_many_columns_is_cut() -> None:
    names = [f"c{i}" for i in range(100)]
    with pytest.raises(DataError, match=says(NO_COLUMN, problem=unknown("column", "zzz", names))) as caught:
        read_table({name: [1] for name in names}).texts("zzz")
    assert str(caught.value).endswith('"c11" and 88 more')


HEADERLESS = "39, State-gov, Male\n50, Private, Female\n"


def test_a_file_whose_first_row_is_data_is_told_by_its_columns(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, HEADERLESS))
    with pytest.raises(DataError, match=says(HEADER_ADVICE)):
        table.texts("age")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("1,2,3\n4,5,6\n", ["first row has only numbers", "must name the columns"]),
        ("age,age\n1,2\n", ['two columns are called "age"', "different names"]),
        (",age\n0,39\n", ["column 1 has no name", "index=False"]),
        ("age,sex,\n39,Male,\n", ["column 3 has no name"]),
        ("age,sex\n39,Male\n50\n", ["row 2 has 1 cell and the header 2", "quotes"]),
        ("age,sex\n39,Male\n\n50,Male,x\n", ["row 2 has 3 cells"]),
        ("", ["empty"]),
        ("\n  \n", ["blank"]),
        ("age,sex\n", ["no rows"]),
        ("age,sex\n39,M\0ale\n", ["line 2 holds a NUL byte", "UTF-8"]),
        ("age,sex\n39,Málaga\n".encode("latin-1"), ["line 2 is not UTF-8 text", "save the table as UTF-8"]),
        ("age,sex\n39,Male\n".encode("utf-16"), ["line 1 is not UTF-8 text"]),
        (b"age,sex\n39,\xc3", ["line 2 is not UTF-8 text"]),
        ('age,sex\n39,"Male\n50,Female\n', ["a quote is opened and never closed"]),
        ('age,sex\n39,"Ma"le\n', ["line 2", "text follows a closing quote"]),
        ("age,sex\r39,Male\r", ["carriage return"]),
        ("age\n" + "x" * 200_000 + "\n", ["longer than any value"]),
        (b"\x1f\x8b\x08\x00", ["compressed", "people.csv.gz"]),
        (b"PAR1....PAR1", ["Parquet", "name it .parquet"]),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_the_remedy(
    tmp_path: Path, content: str | bytes, words: list[str]
) -> None:
    refused(written(tmp_path, content), *words)


def test_a_row_that_is_too_short_far_down_is_named(tmp_path: Path) -> None:
    refused(written(tmp_path, "a,b\n" + "1,2\n" * 4999 + "1\n" + "1,2\n" * 10), "row 5,000 has 1 cell ")


def test_files_of_other_kinds_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    refused(written(tmp_path, "x", "people.xlsx"), '".xlsx" are not read', ".parquet")
    refused(written(tmp_path, "x", "people.gz"), '".gz" are not read')
    refused(tmp_path, "this is a folder")
    refused(tmp_path / "none.csv", "file not found")
    refused(tmp_path / "none.parquet", "file not found")
    refused("a\0b.csv", "cannot be read")
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    refused(pipe, "not a plain file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a\n1\n")
    path.chmod(0)
    refused(path, "cannot be read")


@pytest.mark.parametrize("source", [None, 5, [1, 2], np.ones((2, 2)), "people"])
def test_what_is_no_table_is_refused_with_what_is_read(source: Any) -> None:
    refused(source, "a .csv, .tsv, .csv.gz or .parquet file, a pandas or polars frame, or a mapping")


def test_a_lazy_frame_must_be_collected() -> None:
    refused(pl.LazyFrame({"a": [1]}), "lazy", "collect()")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, ["no columns"]),
        ({"a": []}, ["no rows"]),
        ({"a": [1, 2], "b": [1]}, ['"b" has 1 rows', '"a" 2', "equally long"]),
        ({"a": 5}, ['column "a" is not a list']),
        ({"a": [1], " a": [2]}, ["two columns are called"]),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ["the pandas frame", "two columns are called"]),
        (pd.DataFrame({"a": []}), ["the pandas frame", "no rows"]),
        (pl.DataFrame({"a": []}), ["the polars frame", "no rows"]),
    ],
)
def test_frames_and_mappings_that_are_no_tables_are_refused(source: Any, words: list[str]) -> None:
    refused(source, *words)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("text", "found a str"),
        (["x", [1]], "row 2 contains a list"),
        ([{"a": 1}], "row 1 contains a dict"),
        ([b"x"], "row 1 contains a bytes"),
        ([10**5000], "too long"),
        (np.ones((2, 2)), "shape"),
        (np.array([1j]), "complex128"),
        (["x", "a\0b"], "row 2 contains a NUL character"),
        (pd.Series([[1], [2]]), "row 1 contains a list"),
        (pl.Series([[1], [2]]), "List"),
        (pl.Series([{"a": 1}]), "Struct"),
        (pl.Series([b"x"]), "Binary"),
        (pl.Series([timedelta(1)]), "Duration"),
        (pd.Series([timedelta(1)]), "timedelta64"),
        ([timedelta(1)], "row 1 contains a timedelta"),
    ],
)
def test_cells_that_are_neither_text_nor_number_are_refused_when_they_are_used(cells: Any, words: str) -> None:
    table = read_table({"x": cells})
    with pytest.raises(DataError, match='the table: column "x": ') as caught:
        table.texts("x")
    assert words in str(caught.value)


def test_nested_columns_of_a_parquet_file_are_refused_only_if_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pl.DataFrame({"age": [39], "tags": [["a", "b"]]}).write_parquet(path)
    table = read_table(path)
    assert table.texts("age").tolist() == ["39"]
    with pytest.raises(DataError, match=says(NESTED)):
        table.texts("tags")


# ---- limits ----


def test_more_bytes_columns_or_cells_than_the_limits_are_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "people.csv", {"a": range(100), "b": range(100)})
    refused(path, "more than 100 bytes", limits=TableLimits(file_bytes=100))
    refused(path, "2 columns are more than 1", limits=TableLimits(columns=1))
    refused(path, "more than 150 cells", limits=TableLimits(cells=150))
    frame = pl.DataFrame({"a": range(100), "b": range(100)})
    frame.write_parquet(tmp_path / "people.parquet")
    refused(tmp_path / "people.parquet", "2 columns are more than 1", limits=TableLimits(columns=1))
    for source in (frame, frame.to_dict()):
        refused(source, "2 columns are more than 1", limits=TableLimits(columns=1))
        refused(source, "more than 150 cells", limits=TableLimits(cells=150))
    refused(tmp_path / "people.parquet", "more than 100 bytes", limits=TableLimits(file_bytes=100))


@pytest.mark.parametrize(("start", "repeated"), [(b"", b"a"), (b"", b"\n"), (b"a,b\n", b"1,2\n"), (b'a\n"', b"x\n")])
def test_a_compressed_bomb_is_refused(tmp_path: Path, start: bytes, repeated: bytes) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(start + repeated * 2 * 10**7, compresslevel=1))
    refused(path, limits=TableLimits(file_bytes=10**6))


def test_a_line_without_an_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    refused(written(tmp_path, b"a" * (2**24 + 2**20)), "line 1 is longer than")


def test_a_parquet_file_with_very_many_rows_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    pl.DataFrame({"a": pl.repeat(1, 5_000_000, eager=True)}).write_parquet(path)
    assert path.stat().st_size < 10**5
    refused(path, "more than 1,000 cells", limits=TableLimits(cells=1000))


def test_texts_that_share_their_memory_are_not_unpacked_beyond_the_limit() -> None:
    table = read_table(pl.DataFrame({"a": pl.repeat("x" * 1000, 10_000, eager=True)}), TableLimits(file_bytes=10**6))
    with pytest.raises(DataError, match=says(MORE_THAN_BYTES, file_bytes="1,000,000", unpacked=" unpacked")):
        table.texts("a")


def test_a_small_parquet_file_that_stands_for_four_gigabytes_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """In 32 bits the sum of these lengths is 0. The limit of memory would end the child with another message."""
    path = tmp_path / "bomb.parquet"
    one = pl.Series(["a" * 2**20], dtype=pl.Categorical)
    pl.DataFrame({"t": one.gather(pl.zeros(2**12, pl.UInt32, eager=True))}).write_parquet(path)
    assert path.stat().st_size < 10**7
    refused(path, "more than 2,000,000,000 bytes unpacked", limits=TableLimits(memory_bytes=3 * 2**30))


def test_the_limit_of_unpacked_bytes_is_one_for_all_columns(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    rows = pl.int_range(1000, eager=True)
    columns = {f"text {i}": rows.cast(pl.String).str.pad_end(400) for i in range(3)} | {"number": rows}
    pl.DataFrame(columns).write_parquet(path)
    refused(path, "more than 1,000,000 bytes unpacked", limits=TableLimits(file_bytes=10**6))
    assert read_table(path, TableLimits(file_bytes=2 * 10**6)).count == 1000


def test_a_parquet_file_that_is_unpacked_for_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pl.DataFrame(COLUMNS).write_parquet(path)
    refused(path, "more than 0 seconds", "TableLimits.seconds", limits=TableLimits(seconds=0))


@pytest.mark.parametrize("cut", [5, 30, -5])
def test_a_damaged_compressed_file_is_refused(tmp_path: Path, cut: int) -> None:
    whole = gzip.compress(b"age,sex\n" + b"39,Male\n" * 1000)
    refused(written(tmp_path, whole[:cut], "people.csv.gz"), "damaged or truncated")
    refused(written(tmp_path, b"age\n1\n", "people.csv.gz"), "not a gzip file")


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    pl.DataFrame(COLUMNS).write_parquet(path)
    refused(written(tmp_path, path.read_bytes()[:-20], "people.parquet"), "damaged, or not a Parquet file")
    refused(written(tmp_path, "age\n1\n", "people.parquet"), "not a Parquet file")


def test_what_a_terminal_would_act_on_is_escaped_in_messages(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_table(written(tmp_path, "\x1b[31mred,x\n1,2\n")).texts("age")
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("before", ["", "\n", "\n \n\r\n"])
def test_blank_lines_before_the_header_are_counted_in_messages(tmp_path: Path, before: str) -> None:
    line = 3 + before.count("\n")
    refused(written(tmp_path, before + 'age,sex\n1,a\n2,"b" c\n'), f"line {line}: text follows a closing quote")


MASK = [False, True, False]


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 7, 3]),
        np.array([1, 7, 3], np.uint8),
        np.array([1.5, 7.0, 3.5]),
        np.array([1.5, 7.0, 3.5], np.float32),
        np.array([True, True, False]),
        np.array(["a", "b", "c"]),
        np.array(["2020-01-01", "2020-01-02", "2020-01-03"], "datetime64[D]"),
        np.array([1, "b", None], object),
        np.array([2**60, 7, 2**60 + 1]),
    ],
)
def test_a_masked_cell_of_a_numpy_array_is_a_missing_value(values: Any) -> None:
    whole, masked = (read_table({"a": array}) for array in (values, np.ma.array(values, mask=MASK)))
    kept = whole.texts("a").tolist()
    assert masked.texts("a").tolist() == [kept[0], None, kept[2]]
    numbers = masked.numeric("a")
    assert numbers is None or (not np.ma.isMaskedArray(numbers) and np.isnan(numbers).tolist()[:2] == [False, True])
    assert read_table({"a": np.ma.array(values)}).texts("a").tolist() == kept
    assert read_table({"a": [1, np.ma.masked, 3]}).texts("a").tolist() == ["1", None, "3"]


def test_two_names_that_are_one_text_are_refused() -> None:
    refused({1: [1, 2], "1": [3, 4]}, 'two columns are called "1"')
    refused({"a ": [1, 2], "a": [3, 4]}, 'two columns are called "a"')


def test_a_name_of_a_column_with_a_nul_character_is_refused() -> None:
    refused({"a": [1, 2], "b\0": [3, 4]}, "the name of column 2 contains a NUL character")


@pytest.mark.parametrize("value", [np.array(5), np.array("a"), np.ma.masked, 5, None, iter([1])])
def test_a_single_value_is_no_column(value: Any) -> None:
    refused({"a": value}, 'column "a" is not a list, array or series')


@pytest.mark.parametrize("cell", [Decimal("sNaN"), Fraction(10**400, 3), Fraction(-(10**400), 7)])
@pytest.mark.parametrize("others", [[], [1.5], ["text"]])
def test_a_number_that_cannot_be_written_is_refused_with_its_row(cell: Any, others: list[Any]) -> None:
    table = read_table({"a": [*others, cell]})
    with pytest.raises(DataError, match=says(CELL_TOO_LONG)):
        table.texts("a")


@pytest.mark.parametrize("different", [1, 255, 256, 257, 400])
def test_a_text_column_of_a_frame_may_have_any_number_of_different_cells(different: int) -> None:
    cells = [f"text {number % different}" for number in range(1000)]
    assert read_table(pd.DataFrame({"x": cells})).texts("x").tolist() == cells
