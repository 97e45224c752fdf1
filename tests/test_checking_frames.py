"""Promise of `fairchain.check` on frames: the model sees the caller's own cells, or the table is refused.

Every verdict on all rows is compared with a count of the model's own predictions on the caller's frame.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.drafting.draft import LABELS_NEEDED
from fairchain.errors import DataError, FairchainError, SpecError
from fairchain.models.base import describe_input
from fairchain.models.file_frames import READ_OTHERWISE
from fairchain.models.frames import CELLS_ALIKE, NOT_OF_TYPE, OwnFrame, as_frames, column_name
from fairchain.prepare import prepare
from fairchain.spec import revise
from fairchain.spec.validate import NUL_IN_LABEL
from fairchain.verification.witnesses import unprotected
from tests.messages import says

pd = pytest.importorskip("pandas")
COUNT = 40
NAN, NA = float("nan"), pd.NA
# Cells of a column, and the types in which it is given; None: as pandas reads a list.
POOLS: list[tuple[list[Any], tuple[Any, ...]]] = [
    (["True", "False"], (None, object, "string", "category")),
    ([True, False], (None, object, "boolean", "category")),
    ([True, False, None], (object, "boolean", "category")),
    (["a", "b", ""], (None, object, "category")),
    (["a", "", None, "b"], (None, object, "string", "category")),
    (["a", None, NAN, NA], (object,)),
    (["a", "a ", "b"], (None, object, "string", "category")),
    (["1", "1.0", "2"], (None, object, "category")),
    ([1, 2, 3], (None, object, "Int64", "float32", "category", "int8")),
    ([1, 2.0, 1.0], (object,)),
    ([1, True, "1"], (object,)),
    ([1, None, NAN, 2], (object,)),
    ([Decimal("0.1"), Decimal("0.10"), Decimal(2)], (object,)),
    ([Decimal("0.1"), Decimal(2)], (object, "category")),
    ([0.1, 0.05, 0.7], (None, object, "float32", "Float64")),
    ([0.1], (None, object, "float32", "Float64")),
    ([0.0, -0.0, 1.5], (None, object)),
    ([0.5, NAN, 2.0], (None, object, "Float64")),
    (["2020-01-01", "2021-05-05"], ("datetime64[ns]", "datetime64[ns, UTC]")),
    ([datetime.date(2020, 1, 1), datetime.date(2021, 5, 5)], (object, "category")),
    ([2**60, 2**60 + 1], (None, object, "Int64")),
]


def described(cell: Any) -> str:
    """All that a model can see of a cell."""
    return f"{type(cell).__name__} {cell!r}"


def picked(frame: Any, chosen: set[tuple[Any, str]]) -> Any:
    """Decide by the type and the text of each cell, and by the type of its column."""
    decided = np.zeros(len(frame), bool)
    for name in frame.columns:
        kind = str(frame[name].dtype)
        decided |= np.array([(name, f"{kind} {described(cell)}") in chosen for cell in frame[name]])
    return np.where(decided, "yes", "no")


def counted(model: Callable[[Any], Any], frame: Any) -> float:
    """The gap between the two groups, by hand."""
    decided = np.asarray(model(frame)) == "yes"
    return abs(float(decided[frame["sex"] == "F"].mean()) - float(decided[frame["sex"] == "M"].mean()))


def asked(model: Any, data: Any, **options: Any) -> Any:
    options = {"reading": "population", "labels": ("no", "yes"), "outcome": "yes", "allow_constant": True, **options}
    return fairchain.check(model, data, protected="sex", **options)


def gap(model: Any, data: Any, **options: Any) -> float:
    return asked(model, data, **options).gap.estimate


def random_frame(random: np.random.Generator) -> Any:
    columns: dict[str, Any] = {"sex": ["F", "M"] * (COUNT // 2)}
    for name in "pqr"[: random.integers(1, 4)]:
        pool, types = POOLS[random.integers(len(POOLS))]
        cells = [pool[place] for place in random.integers(0, len(pool), COUNT)]
        columns[name] = pd.Series(cells, dtype=types[random.integers(len(types))])
    return pd.DataFrame(columns)


@pytest.mark.parametrize("start", range(0, 240, 60))
def test_a_verdict_on_all_rows_is_the_count_of_the_models_own_predictions(start: int) -> None:
    answered = 0
    for seed in range(start, start + 60):
        random = np.random.default_rng(seed)
        frame = random_frame(random)
        data = {name: list(frame[name]) for name in frame.columns} if seed % 3 == 0 else frame
        frame = pd.DataFrame(data)
        seen = {(name, f"{frame[name].dtype} {described(cell)}") for name in frame.columns for cell in frame[name]}
        chosen = {each for each in sorted(seen) if each[0] != "sex" and random.random() < 0.4}
        model = partial(picked, chosen=chosen)
        try:
            found = gap(as_frames(model), data)
        except FairchainError:
            continue
        answered += 1
        assert found == pytest.approx(counted(model, frame), abs=1e-12), (seed, frame.dtypes.to_dict())
    assert answered >= 15


# 400 rows, F and M by turns.
ROW = np.arange(400)
SEX = ["F", "M"] * 200
TRUE_OR_FALSE = np.where(ROW % 4 == 0, "True", "False")


def says_true(rows: Any) -> Any:
    return np.where((rows["s"] == "True") | (rows["x"] == 3), "yes", "no")


@pytest.mark.parametrize("kind", [None, "object", "string", "category", "mapping", "polars"])
@pytest.mark.parametrize("rows", ["population", "sample"])
def test_the_texts_true_and_false_stay_texts(kind: str | None, rows: str) -> None:
    frame = pd.DataFrame({"sex": SEX, "s": TRUE_OR_FALSE.tolist(), "x": ROW % 7})
    data = frame if kind in (None, "mapping", "polars") else frame.astype({"s": kind})
    if kind == "mapping":
        data = frame.to_dict("list")
    elif kind == "polars":
        data = pytest.importorskip("polars").DataFrame(frame.to_dict("list"))
    assert gap(as_frames(says_true), data, reading=rows) == pytest.approx(0.425, abs=1e-12)


@pytest.mark.parametrize("kind", ["frame", "mapping", "polars"])
def test_booleans_stay_booleans(kind: str) -> None:
    """Of a whole number 1 the complement is -2, which counts as true."""
    frame = pd.DataFrame({"sex": SEX, "b": (ROW % 4 == 0).tolist()})
    data = frame if kind == "frame" else frame.to_dict("list")
    if kind == "polars":
        data = pytest.importorskip("polars").DataFrame(data)
    assert gap(as_frames(lambda rows: np.where(~rows["b"], "yes", "no")), data) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("certify", [False, True])
def test_an_estimator_gets_texts_as_texts(certify: bool) -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    if certify:
        pytest.importorskip("skl2onnx")
    frame = pd.DataFrame({"sex": SEX, "s": TRUE_OR_FALSE})
    encoder = OneHotEncoder() if certify else FunctionTransformer(lambda rows: (rows[["s"]] == "True").astype(float))
    fitted = make_pipeline(encoder, LogisticRegression()).fit(frame, np.where(TRUE_OR_FALSE == "True", "yes", "no"))
    assert gap(fitted, frame, labels=(), certify=certify) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("kind", ["frame", "mapping", "polars"])
@pytest.mark.parametrize("rows", ["population", "sample"])
def test_an_empty_text_and_a_missing_value_are_not_one(kind: str, rows: str) -> None:
    columns = {"sex": SEX, "c": ["a", "", None, "b"] * 100}
    data = pd.DataFrame(columns) if kind == "frame" else columns
    if kind == "polars":
        data = pytest.importorskip("polars").DataFrame(columns)
    with pytest.raises(DataError, match=says(CELLS_ALIKE, column="c")):
        gap(as_frames(lambda shown: np.where(shown["c"] == "", "yes", "no")), data, reading=rows)


def test_a_text_that_the_spec_calls_missing_and_a_missing_value_are_not_one() -> None:
    frame = pd.DataFrame({"sex": SEX, "c": ["a", "?", None, "b"] * 100})
    model = as_frames(lambda rows: np.where(rows["c"] == "?", "yes", "no"))
    spec = fairchain.check(
        model, frame.replace("?", "a"), protected="sex", labels=("no", "yes"), outcome="yes", reading="population"
    ).spec
    assert spec.population.keep_missing
    with pytest.raises(DataError, match=says(CELLS_ALIKE, column="c")):
        fairchain.verify(model, spec, data=frame)


def test_one_column_of_objects_does_not_change_how_others_are_shown() -> None:
    others = pd.Series(ROW % 7, dtype=object)

    def found(column: Any, decide: Callable[[Any], Any]) -> float:
        return gap(as_frames(decide), pd.DataFrame({"sex": SEX, "c": column, "o": others}))

    dates = pd.to_datetime(["2020-01-01", "2021-01-01"] * 200)
    early = pd.Timestamp("2020-01-01")

    def is_early(rows: Any) -> Any:
        return np.where(
            [cell == early or other == 3 for cell, other in zip(rows["c"], rows["o"], strict=True)], "yes", "no"
        )

    assert found(dates, is_early) == pytest.approx(0.855, abs=1e-12)
    single = np.array([0.1, 0.05] * 200, np.float32)
    assert found(single, lambda rows: np.where(rows["c"] > 0.1, "yes", "no")) == 0
    with pytest.raises(DataError, match=says(CELLS_ALIKE, column="c", one="'a '", two="'a'")):
        found(["a ", "a"] * 199 + ["b", "b"], lambda rows: np.where(rows["c"] == "a ", "yes", "no"))


def test_a_column_of_one_number_keeps_its_type() -> None:
    frame = pd.DataFrame({"sex": SEX, "x": np.full(400, 0.1, np.float32)})
    model = as_frames(lambda rows: np.where((rows["x"] > 0.1) | (rows["sex"] == "F"), "yes", "no"))
    assert gap(model, frame) == 1


def test_individuals_get_cells_of_the_column_as_the_other_group() -> None:
    """Also values that no row of the column has."""
    frame = pd.DataFrame({"sex": SEX, "d": pd.Series([Decimal(each) for each in (ROW % 5).tolist()], dtype=object)})
    seen = set()

    def decide(rows: Any) -> Any:
        seen.update(map(type, rows["d"]))
        return np.where((rows["d"] > 2) & (rows["sex"] == "M"), "yes", "no")

    assert gap(as_frames(decide), frame, kind="individual") == pytest.approx(0.4, abs=1e-12)
    assert seen == {Decimal}


def test_a_character_that_arrays_of_texts_lose_is_refused_in_labels_and_codes() -> None:
    frame = pd.DataFrame({"sex": SEX, "x": ROW % 7, "decided": ROW % 2})
    model = as_frames(lambda rows: np.where(rows["x"] > 3, "yes\0", "no"))
    with pytest.raises(SpecError, match=says(NUL_IN_LABEL, key="labels")):
        gap(model, frame, labels=("no", "yes\0"), outcome="yes\0")
    spec = fairchain.check(None, frame, protected="sex", prediction="decided").spec
    with pytest.raises(SpecError, match=says(NUL_IN_LABEL, key="codes")):
        revise(spec, model__codes=["no", "yes\0"])


# Cells of a CSV file, as they are written in it.
FILE_POOLS = [
    ["True", "False"],
    ["true", "FALSE", "True"],
    ["True", "False", ""],
    ["True", "False", "maybe"],
    ["a ", "b"],
    ["a ", "a", "b"],
    [" a", "b"],
    ["1 ", "2"],
    ["007", "8"],
    ["1.0", "2"],
    ["1e3", "2"],
    ["1", "2", ""],
    ["1", "2", "?"],
    ["NA", "a", "b"],
    ["null", "None", "a", "b"],
    ["n/a", "nan", "1", "2"],
    ["?", "a", "b"],
    ["inf", "1"],
    ["-0", "1"],
    ["0.0", "-0.0", "1.5"],
    ["0.1", "0.30000000000000004", "0.7"],
    ["2020-01-01", "2021-05-05"],
    ["9007199254740993", "9007199254740992"],
    ["1,5", "2"],
    ["1", "x", "2"],
]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet"])
def test_a_model_of_frames_gets_a_file_as_its_package_reads_it(suffix: str, tmp_path: Any) -> None:
    polars = pytest.importorskip("polars") if suffix == "parquet" else None
    path, answered, refused, compared = tmp_path / f"rows.{suffix}", 0, 0, 0
    # A Parquet file is read in a process of its own, which takes half a second.
    for seed in range(60 if polars is None else 24):
        random = np.random.default_rng(seed)
        columns: dict[str, Any] = {"sex": ["F", "M"] * (COUNT // 2)}
        for name in "pqr"[: random.integers(1, 4)]:
            pools = POOLS if polars is not None else FILE_POOLS
            pool: Any = pools[random.integers(len(pools))]
            pool = pool[0] if polars is not None else pool
            columns[name] = [pool[place] for place in random.integers(0, len(pool), COUNT)]
        if polars is None:
            pd.DataFrame(columns).to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",;"[seed % 2])
            frame = pd.read_csv(path, sep="\t" if suffix == "tsv" else ",;"[seed % 2])
        else:
            try:
                polars.DataFrame(columns).write_parquet(path)
            except (TypeError, OverflowError, polars.exceptions.PolarsError):
                continue  # of cells that polars does not have in one column
            read = polars.read_parquet(path)
            frame = pd.DataFrame({name: read[name].to_list() for name in read.columns})
        seen = {(name, f"{frame[name].dtype} {described(cell)}") for name in frame.columns for cell in frame[name]}
        chosen = {each for each in sorted(seen) if each[0] != "sex" and random.random() < 0.4}
        model = partial(picked, chosen=chosen)
        try:
            verdict = asked(as_frames(model), path)
        except FairchainError:
            refused += 1
            continue
        answered += 1
        by_hand = pytest.approx(counted(model, frame), abs=1e-12)
        assert verdict.gap.estimate == by_hand, (seed, frame.dtypes.to_dict())
        if seed % (2 if polars is None else 6) == 1:
            # The spec alone says the same, or does not fit the file.
            with suppress(DataError):
                again = fairchain.verify(as_frames(model), verdict.spec).gap.estimate
                compared += 1
                assert again == by_hand, (seed, frame.dtypes.to_dict())
    assert answered >= (20 if polars is None else 8)
    assert compared >= (2 if polars is not None else 10)
    assert refused < answered


@pytest.mark.parametrize("spelling", [("True", "False"), ("true", "false"), ("TRUE", "FALSE")])
def test_true_and_false_in_a_file_are_booleans_and_said_to_be(spelling: tuple[str, str], tmp_path: Any) -> None:
    path = tmp_path / "d.csv"
    cells = np.where(ROW % 4 == 0, *spelling)
    pd.DataFrame({"sex": SEX, "b": cells, "x": ROW % 7}).to_csv(path, index=False)
    model = as_frames(lambda rows: np.where((rows["b"].astype(str) == "True") | (rows["x"] == 3), "yes", "no"))
    verdict = fairchain.check(model, path, protected="sex", labels=("no", "yes"), outcome="yes", reading="population")
    assert verdict.gap.estimate == pytest.approx(0.425, abs=1e-12)
    assert any("pandas.read_csv" in each and "bool: b" in each for each in verdict.assumptions)
    # The spec alone says the same, and a file or drawn rows show the model the same cells.
    if spelling == ("True", "False"):
        again = fairchain.verify(model, verdict.spec)
        assert again.gap.estimate == pytest.approx(0.425, abs=1e-12)


def test_an_encoder_of_texts_gets_texts_from_a_file_that_look_like_numbers_or_missing_values(tmp_path: Any) -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    path = tmp_path / "d.csv"
    frame = pd.DataFrame({"sex": SEX, "code": np.where(ROW % 4 == 0, "007", "NA"), "n": np.where(ROW % 3, "1", "2")})
    frame.to_csv(path, index=False)
    encoder = OneHotEncoder(handle_unknown="ignore")
    fitted = make_pipeline(encoder, LogisticRegression(C=1e3)).fit(frame, np.where(ROW % 4 == 0, "yes", "no"))
    assert gap(fitted, path, labels=()) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("fitted_on", ["blanks", "bare"])
@pytest.mark.parametrize("certify", [False, True])
def test_an_encoder_gets_the_blanks_around_texts_that_it_was_fitted_on(
    fitted_on: str, certify: bool, tmp_path: Any
) -> None:
    """A file with a blank behind each separator is fitted on with these blanks, or read without them."""
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    if certify:
        pytest.importorskip("skl2onnx")
    written = pd.DataFrame({"sex": SEX, "c": np.where(ROW % 4 == 0, " a", "b "), "d": [" x", " y", " z", " w"] * 100})
    written.to_csv(tmp_path / "d.csv", index=False)
    frame = written if fitted_on == "blanks" else written.apply(lambda column: column.str.strip())
    encoder = OneHotEncoder(handle_unknown="ignore")
    fitted = make_pipeline(encoder, LogisticRegression(C=1e3)).fit(frame, np.where(ROW % 4 == 0, "yes", "no"))
    for data in (frame, tmp_path / "d.csv"):
        verdict = asked(fitted, data, labels=(), certify=certify)
        assert verdict.gap.estimate == pytest.approx(0.5, abs=1e-12)
    assert any("Cells of " in each and "as the model was fitted on them" in each for each in verdict.assumptions)


def test_a_network_of_texts_gets_the_blanks_around_them() -> None:
    """Those of a frame; the names of groups and values have none."""
    pytest.importorskip("skl2onnx")
    pytest.importorskip("sklearn")
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"sex": SEX, "c": np.where(ROW % 4 == 0, " a", "b ")})
    encoder = OneHotEncoder(handle_unknown="ignore")
    fitted = make_pipeline(encoder, LogisticRegression(C=1e3)).fit(frame, np.where(ROW % 4 == 0, "yes", "no"))
    network = to_onnx(fitted, frame[:1], options={"zipmap": False}).SerializeToString()
    verdict = asked(network, frame, labels=())
    assert verdict.gap.estimate == pytest.approx(0.5, abs=1e-12)
    assert [feature.values for feature in verdict.spec.features] == [("F", "M"), ("a", "b")]
    merged = frame.assign(c=np.where(ROW % 4 == 0, "a ", "a"))
    with pytest.raises(DataError, match=says(CELLS_ALIKE, column="c", one="'a '", two="'a'")):
        asked(network, merged, labels=())


@pytest.mark.parametrize("row", ['F,"x, y"', 'F, "x, y"', 'F, "x y"'])
def test_a_file_that_the_package_reads_in_another_way_is_refused(row: str, tmp_path: Any) -> None:
    """pandas takes no quote behind a blank for the begin of a quoted cell."""
    path = tmp_path / "d.csv"
    path.write_text("sex,c\n" + f"{row}\nM,z\n" * 20)
    model = as_frames(lambda rows: np.where(rows["c"] == "x, y", "yes", "no"))
    if ", " not in row.partition('"')[0]:
        assert gap(model, path) == 1
        return
    with pytest.raises(DataError, match=says(READ_OTHERWISE, source=str(path), package="pandas")):
        gap(model, path)


def test_a_warning_that_is_not_about_the_file_does_not_refuse_it(tmp_path: Any, monkeypatch: Any) -> None:
    path = tmp_path / "d.csv"
    path.write_text("sex,c\n" + "F,x\nM,z\n" * 20)
    read = pd.read_csv

    def read_with_warning(*given: Any, **options: Any) -> Any:
        warnings.warn("a default will change", FutureWarning, stacklevel=2)
        return read(*given, **options)

    monkeypatch.setattr(pd, "read_csv", read_with_warning)
    with pytest.warns(FutureWarning, match="a default will change"):
        assert gap(as_frames(lambda rows: np.where(rows["c"] == "x", "yes", "no")), path) == 1


def test_a_column_that_may_have_the_true_labels_does_not_name_the_answers_of_a_model_that_disagrees() -> None:
    """The status of an earlier application: by its favourable value the ratio was 0.89, and is 0.33 by hand."""
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression

    hired = np.where(ROW % 2 == 0, ROW % 20 == 0, ROW % 20 < 6).astype(int)
    frame = pd.DataFrame({"x": hired.astype(float)})
    status = np.where(ROW // 20 % 2, "approved", "rejected")
    table = frame.assign(sex=SEX, status=status)
    model, asked = (
        LogisticRegression().fit(frame, hired),
        {"protected": "sex", "kind": "ratio", "reading": "population"},
    )
    with pytest.raises(SpecError, match=says(LABELS_NEEDED, name='"status"')):
        fairchain.check(model, table, **asked)
    for stated in ({"ignore": ["status"]}, {"labels": ("no", "yes"), "outcome": "yes"}):
        assert fairchain.check(model, table, **asked, **stated).decision is fairchain.Decision.UNFAIR


def test_a_part_of_a_table_is_shown_with_its_own_cells() -> None:
    """A repair divides the rows of a sample: the model must get the cells of its part, and not of the first rows."""
    pandas = pytest.importorskip("pandas")
    count = 40
    frame = pandas.DataFrame(
        {
            "sex": ["F", "M"] * (count // 2),
            "job": [f"job {place // 10}" for place in range(count)],
            "age": [np.nan if place % 7 == 3 else 20.0 + place for place in range(count)],
        }
    )
    seen: list[Any] = []

    def decide(shown: Any) -> list[str]:
        seen.append(shown)
        return ["yes" if age > 30 else "no" for age in shown["age"]]

    spec = fairchain.check(as_frames(decide), frame, protected="sex", labels=["no", "yes"], reading="population").spec
    rows = prepare(as_frames(decide), spec, data=frame).rows
    assert rows is not None
    half = np.arange(1, count, 2)
    part = replace(rows, values=rows.values[half], numbers=rows.numbers[half])
    shown = OwnFrame(spec.features, [column_name(feature) for feature in spec.features], part)
    for values in (part.values, part.values.copy()):
        found = shown(values).reset_index(drop=True)
        pandas.testing.assert_frame_equal(
            found[list(frame)], frame.iloc[half].reset_index(drop=True), check_dtype=False
        )


def test_a_missing_value_of_an_example_is_called_missing() -> None:
    """In an audit of rows with gaps the examples of an explanation, and the model's own errors, may name them."""
    features = [
        {"name": "sex", "kind": "category", "values": ["F", "M"]},
        {"name": "job", "kind": "category", "values": ["clerk", "cook"]},
        {"name": "age", "kind": "real", "low": 0, "high": 99},
    ]
    spec = fairchain.parse_spec(
        {
            "model": {"labels": ["no", "yes"]},
            "feature": features,
            "property": {"kind": "difference", "protected": ["sex"], "threshold": 0.1},
        }
    )
    row = np.array([1.0, np.nan, np.nan])
    assert unprotected(spec, row) == {"job": "missing", "age": "missing"}
    assert unprotected(spec, np.array([1.0, 1.0, 40.0])) == {"job": "cook", "age": 40.0}
    assert describe_input(spec.described, row) == "sex=M, job=missing, age=missing"


def about_k(values: list[Any]) -> fairchain.Spec:
    return fairchain.parse_spec(
        {
            "model": {"labels": ["no", "yes"]},
            "feature": [
                {"name": "k", "kind": "category", "values": values},
                {"name": "sex", "kind": "category", "values": ["F", "M"]},
            ],
            "population": {"kind": "table", "as": "population"},
            "property": {"kind": "difference", "protected": ["sex"], "outcome": "yes", "threshold": 0.1},
        }
    )


@pytest.mark.parametrize("values", [[0, 1], ["0", "1"], [0, 1, 2], ["0", "1", "2"]])
def test_names_of_categories_that_are_whole_numbers_are_shown_as_integers(values: list[Any]) -> None:
    frame = pd.DataFrame({"k": [1, 0, 0, 0] * 20, "sex": ["F", "F", "M", "M"] * 20})
    model = as_frames(lambda cells: np.where(cells["k"] == 1, "yes", "no"))
    verdict = fairchain.verify(model, about_k(values), data=frame)
    assert verdict.gap.estimate == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "float32", pd.CategoricalDtype([0.0, 1.0, 2.0])])
def test_names_of_whole_numbers_that_occur_in_no_row_become_cells_of_the_type(dtype: Any) -> None:
    frame = pd.DataFrame({"k": pd.Series([1, 0, 0, 0] * 20, dtype=dtype), "sex": ["F", "F", "M", "M"] * 20})
    model = as_frames(lambda cells: np.where(cells["k"] == 1, "yes", "no"))
    verdict = fairchain.verify(model, about_k(["0", "1", "2"]), data=frame)
    assert verdict.gap.estimate == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(
    ("cells", "dtype", "other"),
    [
        ([1, 0], "int64", "other"),
        ([1, 0], "uint8", "300"),
        ([1, 0], "int64", "9" * 22),
        ([1, 0], "float32", "1e39"),
        ([1, 0], "float64", "nan"),
        ([True, False], "bool", "other"),
        (["0", "1"], "category", "other"),
    ],
)
def test_a_value_that_the_type_of_a_column_cannot_contain_is_refused(cells: list[Any], dtype: str, other: str) -> None:
    column = pd.Series(cells * 40, dtype=dtype)
    frame = pd.DataFrame({"k": column, "sex": ["F", "F", "M", "M"] * 20})
    model = as_frames(lambda cells: np.where(cells["sex"] == "F", "yes", "no"))
    with pytest.raises(DataError, match=says(NOT_OF_TYPE)):
        fairchain.verify(model, about_k([*map(str, cells), other]), data=frame)
