"""Promises of `fairchain.check`: the verdict is about the model and the table as they are, and says what it assumes."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairchain
from fairchain.checking import COLUMN_NAME, MODEL_MISSING, RANGES_CUT_FROM_ROWS, SAMPLE_BY_DEFAULT
from fairchain.drafting.draft import PROTECTED_LABEL
from fairchain.drafting.trials import DECISION_THRESHOLD_NEEDED, DIRECTION_NEEDED
from fairchain.errors import DataError, ModelError, SpecError
from fairchain.models.adapters.answer_memo import ANSWERS_CHANGE
from fairchain.models.adapters.from_function import GIVE_FRAMES
from fairchain.models.adapters.from_sklearn import HAS_NO_PREDICT, IS_A_CLUSTERER
from fairchain.models.frames import CELLS_ALIKE, TOO_LARGE_TO_DIFFER, as_frames
from fairchain.prepare import MISSING_VALUES_NOT_TAKEN
from fairchain.tables.rows import TYPES_MERGED
from tests.messages import says
from tests.networks import linear
from tests.tables.builders import write_csv

pd = pytest.importorskip("pandas")
JOBS = ("clerk", "driver", "nurse", "smith")


def people(count: int = 600, seed: int = 0) -> Any:
    """A frame with numbers, texts, a category type, and a credit score that differs between the groups."""
    random = np.random.default_rng(seed)
    sex = np.array(["F", "M"])[random.integers(0, 2, count)]
    score = np.clip(random.normal(600 + 40 * (sex == "M"), 70, count), 437, 836)
    return pd.DataFrame(
        {
            "age": random.integers(18, 70, count),
            "hours": random.uniform(5, 60, count).round(2),
            "sex": sex,
            "job": pd.Categorical(np.array(JOBS[:3])[random.integers(0, 3, count)], categories=JOBS),
            "score": score.round(1),
            "loan": np.where(score + random.normal(0, 20, count) > 600, "approved", "refused"),
        }
    )


def gap(frame: Any, decided: Any, column: str = "sex") -> float:
    rates = [float(np.mean(np.asarray(decided)[frame[column] == value])) for value in sorted(frame[column].unique())]
    return max(rates) - min(rates)


def test_several_protected_columns_in_one_name_are_told_apart() -> None:
    with pytest.raises(SpecError) as caught:
        fairchain.check(None, people(100), protected="sex, job", prediction="loan")
    assert "--protected \"sex\" --protected \"job\" (protected=['sex', 'job'] in Python)" in str(caught.value)


def test_recorded_decisions_need_no_spec() -> None:
    frame = people()
    verdict = fairchain.check(None, frame, protected="sex", prediction="loan", reading="population")
    assert verdict.gap.estimate == pytest.approx(gap(frame, frame["loan"] == "approved"), abs=1e-12)
    assert (verdict.engine, verdict.evaluations, verdict.exact) == ("counting", 0, True)
    assert any('"approved", by its name' in text for text in verdict.assumptions)


def test_a_check_without_a_model_asks_for_one_or_for_recorded_decisions() -> None:
    with pytest.raises(SpecError, match=says(MODEL_MISSING)):
        fairchain.check(None, people(), label="loan", protected="sex")


def test_a_column_is_given_by_its_name_not_by_its_values() -> None:
    frame = people()
    for key in ("label", "prediction"):
        with pytest.raises(SpecError, match=says(COLUMN_NAME, key=key, type="Series")):
            fairchain.check(None, frame, protected="sex", **{key: frame["loan"]})


def test_an_estimator_that_decides_nothing_is_refused() -> None:
    """Numbers of clusters would pass for labels or probabilities, and the verdict would be about nothing."""
    pytest.importorskip("sklearn")
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame = people(60)
    numbers = frame[["age", "hours"]]
    for model in (KMeans(2, n_init=1), make_pipeline(StandardScaler(), KMeans(2, n_init=1))):
        with pytest.raises(ModelError, match=says(IS_A_CLUSTERER)):
            fairchain.check(model.fit(numbers), frame, label="loan", protected="sex")
    with pytest.raises(ModelError, match=says(HAS_NO_PREDICT)):
        fairchain.check(PCA(2).fit(numbers), frame, label="loan", protected="sex")


def test_a_printed_verdict_says_how_many_rows_would_decide() -> None:
    verdict = fairchain.check(None, people(100), protected="sex", prediction="loan", threshold=0.2)
    assert (verdict.decision.name, verdict.stopped) == ("UNDECIDED", "rows")
    assert f"a new table with about {verdict.forecast} times as many rows" in str(verdict)


def test_missing_values_of_other_columns_do_not_matter_to_recorded_decisions() -> None:
    frame = people()
    frame["hours"] = frame["hours"].where(frame.index % 2 == 0)
    verdict = fairchain.check(None, frame, protected="sex", prediction="loan", reading="population", label="loan")
    assert verdict.record.rows == 600
    assert verdict.gap.estimate == pytest.approx(gap(frame, frame["loan"] == "approved"), abs=1e-12)
    assert [feature.name for feature in verdict.spec.features] == ["sex"]
    some = fairchain.check(
        None, frame, protected="sex", prediction="loan", reading="population", given="age >= 40", min_size=5
    )
    older = frame[frame["age"] >= 40]
    assert some.gap.estimate == pytest.approx(gap(older, older["loan"] == "approved"), abs=1e-12)


def test_rows_are_a_sample_unless_it_is_stated_otherwise_and_that_is_said() -> None:
    verdict = fairchain.check(None, people(), protected="sex", prediction="loan")
    assert (verdict.rule, verdict.delta) == ("fixed sample", 1e-6)
    assert verdict.assumptions[0] == SAMPLE_BY_DEFAULT
    stated = fairchain.check(None, people(), protected="sex", prediction="loan", reading="sample")
    assert SAMPLE_BY_DEFAULT not in stated.assumptions


# The decision threshold of scores


class Scorer:
    """A regressor: `predict` returns credit scores from 437 to 836."""

    def __call__(self, frame: Any) -> Any:
        return frame["score"].to_numpy()


def test_a_regressor_without_a_decision_threshold_is_refused_with_what_to_state() -> None:
    frame = people()
    with pytest.raises(ModelError, match=says(DECISION_THRESHOLD_NEEDED, low="437")):
        fairchain.check(as_frames(Scorer()), frame, protected="sex", label="loan")


@pytest.mark.parametrize("kind", ["difference", "ratio"])
def test_the_label_above_a_decision_threshold_is_the_one_that_agrees_with_the_rows(kind: str) -> None:
    """The labels are approved and refused: in alphabetical order a high score would mean refused."""
    frame = people()
    approved = frame["score"] > 600
    verdict = fairchain.check(
        as_frames(Scorer()),
        frame,
        protected="sex",
        label="loan",
        decision_threshold=600,
        reading="population",
        kind=kind,  # type: ignore[arg-type]
    )
    assert verdict.spec.model.labels == ("refused", "approved")
    low, high = sorted(float(np.mean(approved[frame["sex"] == sex])) for sex in "FM")
    assert verdict.gap.estimate == pytest.approx(low / high if kind == "ratio" else high - low, abs=1e-12)
    assert verdict.widest.more == "sex=M"
    assert any("in this order the model agrees with the rows" in text for text in verdict.assumptions)


def test_true_labels_follow_the_order_that_was_found() -> None:
    """True labels are kept as numbers of the labels, so that another order must renumber them."""
    frame = people()
    options = {"protected": "sex", "label": "loan", "decision_threshold": 600, "reading": "population"}
    verdict = fairchain.check(as_frames(Scorer()), frame, criterion="equal_opportunity", **options)
    assert verdict.spec.model.labels == ("refused", "approved")
    creditworthy = frame[frame["loan"] == "approved"]
    assert verdict.gap.estimate == pytest.approx(gap(creditworthy, creditworthy["score"] > 600), abs=1e-12)


def test_a_decision_threshold_without_labels_names_the_decisions_itself() -> None:
    frame = people().drop(columns="loan")
    verdict = fairchain.check(
        as_frames(Scorer()), frame, protected="sex", decision_threshold=600, reading="population", outcome="above 600"
    )
    assert verdict.gap.estimate == pytest.approx(gap(frame, frame["score"] > 600), abs=1e-12)
    assert verdict.widest.outcome == "above 600"


def test_labels_that_are_stated_are_not_fitted() -> None:
    frame = people()
    verdict = fairchain.check(
        as_frames(Scorer()),
        frame,
        protected="sex",
        decision_threshold=600,
        labels=["approved", "refused"],
        label="loan",
        outcome="refused",
        reading="population",
    )
    assert verdict.widest.more == "sex=M"
    assert verdict.gap.estimate == pytest.approx(gap(frame, frame["score"] > 600), abs=1e-12)


def test_rows_that_do_not_show_the_direction_of_a_score_are_refused() -> None:
    frame = people().assign(loan=["approved", "refused"] * 300)
    with pytest.raises(ModelError, match=says(DIRECTION_NEEDED, decision_threshold="600")):
        fairchain.check(as_frames(Scorer()), frame, protected="sex", label="loan", decision_threshold=600)


def test_a_decision_threshold_on_two_columns_of_probabilities() -> None:
    frame = people()

    def both(rows: Any) -> Any:
        p = ((rows["score"] - 437) / 400).to_numpy()
        return np.stack([1 - p, p], axis=1)

    verdict = fairchain.check(
        as_frames(both),
        frame,
        protected="sex",
        label="loan",
        labels=["refused", "approved"],
        decision_threshold=0.7,
        reading="population",
    )
    assert verdict.spec.model.decision == "probability"
    expected = gap(frame, (frame["score"] - 437) / 400 > 0.7)
    assert verdict.gap.estimate == pytest.approx(expected, abs=1e-12)


def test_scores_between_0_and_1_are_probabilities_and_the_cut_off_is_said() -> None:
    frame = people()
    model = as_frames(lambda rows: ((rows["score"] - 437) / 400).to_numpy())
    verdict = fairchain.check(model, frame, protected="sex", label="loan", reading="population")
    assert any("probabilities, cut at 0.5" in text for text in verdict.assumptions)
    assert verdict.gap.estimate == pytest.approx(gap(frame, (frame["score"] - 437) / 400 > 0.5), abs=1e-12)


# Encodings


def coded(frame: Any) -> Any:
    """What a network that was trained on the codes of all jobs says: one number for each row."""
    return np.asarray(frame["job"].cat.codes) >= 2


def test_codes_follow_the_category_type_although_a_value_does_not_occur() -> None:
    """Codes of the values that occur would move every code behind the one that is missing."""
    frame = people()
    frame["job"] = pd.Categorical(frame["job"].astype(str).replace("clerk", "smith"), categories=JOBS)
    weights = np.zeros((3, 2))
    weights[2] = (0, 1)
    network = bytes(linear(weights, [0, -1.5]).SerializeToString())
    table = frame[["age", "sex", "job"]].assign(sex=(frame["sex"] == "M").astype(int))
    verdict = fairchain.check(network, table, protected="sex", reading="population", labels=["no", "yes"])
    (job,) = (feature for feature in verdict.spec.features if feature.name == "job")
    assert job.values == JOBS
    assert verdict.gap.estimate == pytest.approx(gap(frame, coded(frame)), abs=1e-12)
    assert not any(note.startswith("Warning") for note in verdict.notes)


def test_guessed_codes_are_an_assumption_and_a_warning_in_every_output() -> None:
    frame = people()
    weights = np.zeros((3, 2))
    weights[2] = (0, 1)
    network = bytes(linear(weights, [0, -1.5]).SerializeToString())
    table = frame[["age", "sex", "job"]].assign(sex=(frame["sex"] == "M").astype(int), job=frame["job"].astype(str))
    verdict = fairchain.check(network, table, protected="sex", reading="population", labels=["no", "yes"])
    assert any("sorted order of the 3 values in this table" in text for text in verdict.assumptions)
    warning = 'Warning: The order of the values of "job" is a guess'
    assert any(note.startswith(warning) for note in verdict.notes)
    assert warning in str(verdict)
    assert warning in verdict._repr_html_().replace("&quot;", '"')


def test_values_that_only_the_encoder_knows_are_values_of_the_spec() -> None:
    pytest.importorskip("sklearn")
    model, frame = pipeline()
    rows = frame[frame["job"] != "smith"]
    verdict = fairchain.check(model, rows, protected="sex", reading="population")
    (job,) = (feature for feature in verdict.spec.features if feature.name == "job")
    assert set(job.values) == set(JOBS)
    assert fairchain.verify(model, verdict.spec, data=frame).gap.estimate == pytest.approx(
        gap(frame, model.predict(frame) == "approved"), abs=1e-12
    )


def pipeline(count: int = 600) -> tuple[Any, Any]:
    """A pipeline with an imputer and an encoder, fitted on texts without the protected column."""
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = people(count)
    frame["job"] = np.array(JOBS)[np.random.default_rng(5).integers(0, 4, count)]
    encode = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = make_column_transformer((SimpleImputer(), ["age", "score"]), (encode, ["job"]))
    model = make_pipeline(columns, LogisticRegression(max_iter=300))
    return model.fit(frame[["age", "score", "job"]], frame["loan"]), frame


@pytest.mark.parametrize("blank", [np.nan, None, "NA"])
def test_missing_values_go_to_a_model_that_takes_them(blank: Any) -> None:
    pytest.importorskip("sklearn")
    model, frame = pipeline()
    frame["age"] = frame["age"].astype(float)
    frame.loc[::3, "age"] = np.nan
    frame["age"] = frame["age"].astype("Int64") if blank == "NA" else frame["age"]
    frame.loc[1::4, "job"] = np.nan if blank == "NA" else blank
    frame["job"] = frame["job"].astype(object).where(frame["job"].notna(), np.nan)
    expected = gap(frame, model.predict(frame[["age", "score", "job"]]) == "approved")
    verdict = fairchain.check(model, frame, protected="sex", reading="population")
    assert verdict.gap.estimate == pytest.approx(expected, abs=1e-12)
    assert verdict.spec.population.keep_missing  # type: ignore[union-attr]
    assert verdict.evaluations == len(frame)
    assert any("are given to the model as they are" in text for text in verdict.assumptions)


def test_rows_without_a_value_of_a_condition_are_left_out_though_the_model_takes_them() -> None:
    pytest.importorskip("sklearn")
    model, frame = pipeline()
    frame["age"] = frame["age"].astype(float)
    frame.loc[::3, "age"] = np.nan
    asked = {"protected": "sex", "label": "loan", "reading": "population", "given": "age >= 40"}
    verdict = fairchain.check(model, frame, **asked)
    part = frame[frame["age"] >= 40]
    chosen = model.predict(part[["age", "score", "job"]]) == "approved"
    assert verdict.gap.estimate == pytest.approx(gap(part, chosen), abs=1e-12)
    assert any('were left out, as a value is missing ("age")' in text for text in verdict.notes)


def test_an_audit_explains_a_model_that_takes_missing_values(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    model, frame = pipeline()
    frame["age"] = frame["age"].astype(float)
    frame.loc[::3, "age"] = np.nan
    frame.loc[1::4, "job"] = None
    verdict = fairchain.check(model, frame, protected="sex", reading="population", threshold=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explanation = fairchain.explain(model, verdict.spec, data=frame)
        held = fairchain.explain(model, verdict.spec, data=frame, method="mean")
        fairchain.audit(verdict.spec, tmp_path / "report", model=model, data=frame, repair=False)
    assert {unit.name for unit in explanation.units} == {"age", "score", "job"}
    assert not any(unit.held_at is None or np.isnan(unit.held_at) for unit in held.units)
    # Its network has no name for a missing category, but its own scores can be cut elsewhere.
    repaired = fairchain.repair(model, verdict.spec, data=frame, change="threshold", iterations=1)
    assert repaired.after is not None


def test_the_columns_whose_missing_values_leave_rows_out_are_named() -> None:
    pytest.importorskip("sklearn")
    model, frame = pipeline()
    frame.loc[1::4, "job"] = None
    frame.loc[:2, "sex"] = None
    verdict = fairchain.check(model, frame, protected="sex", reading="population")
    assert any('left out, as a value is missing ("sex")' in note for note in verdict.notes)
    assert any('Missing values ("job") are given to the model' in text for text in verdict.assumptions)


def test_rows_are_dropped_only_for_a_model_that_cannot_take_them_and_that_is_a_warning_everywhere() -> None:
    frame = people()
    frame["age"] = frame["age"].astype(float)
    frame.loc[::3, "age"] = np.nan

    def picky(rows: Any) -> Any:
        if rows["age"].isna().any():
            raise ValueError("age is missing")
        return np.where(rows["score"] > 600, "approved", "refused")

    verdict = fairchain.check(as_frames(picky), frame, protected="sex", reading="population", label="loan")
    warning = "Warning: 200 of 600 rows (33.3%) were left out, as a value is missing"
    assert any(note.startswith(warning) for note in verdict.notes)
    assert "200 were left out: a value is missing" in verdict.statement
    from fairchain.report.junit import junit
    from fairchain.report.markdown import for_pull_request

    outputs = [str(verdict), verdict._repr_html_(), junit({"x": verdict.record})]
    assert all(warning in text for text in outputs)
    assert "left out, as a value is missing" in for_pull_request(verdict.record, title="x")
    rest = frame[frame["age"].notna()]
    assert verdict.gap.estimate == pytest.approx(gap(rest, rest["score"] > 600), abs=1e-12)


def test_rows_without_a_protected_value_are_in_no_group() -> None:
    frame = people()
    frame.loc[:19, "sex"] = None
    model = as_frames(lambda rows: np.where(rows["score"] > 600, "approved", "refused"))
    verdict = fairchain.check(model, frame, protected="sex", reading="population", label="loan", ignore=["sex"])
    rest = frame[20:]
    assert verdict.gap.estimate == pytest.approx(gap(rest, rest["score"] > 600), abs=1e-12)
    assert any(note.startswith("20 of 600 rows") for note in verdict.notes)


# Models as they are


def test_the_model_gets_the_cells_and_types_of_the_frame() -> None:
    frame = people().assign(member=np.arange(600) % 2 == 0)
    frame["job"] = frame["job"].cat.reorder_categories(JOBS[::-1])
    seen = []

    def decide(rows: Any) -> Any:
        seen.append(rows.dtypes.to_dict())
        return np.where(rows["score"] > 600, "approved", "refused")

    fairchain.check(as_frames(decide), frame, protected="sex", label="loan", reading="population")
    inputs = frame.drop(columns="loan")
    assert all(types == inputs.dtypes.to_dict() for types in seen)


def test_rows_on_which_a_model_is_tried_are_shown_as_they_were_given() -> None:
    frame = pd.DataFrame({"sex": ["F", "M", "M", None] * 50, "x": np.arange(200)}, index=np.arange(1000, 1200))
    tried = []

    def decide(rows: Any) -> Any:
        tried.append(rows)
        return (rows["x"] > 100).astype(int)

    fairchain.check(as_frames(decide), frame, protected="sex", reading="population")
    pd.testing.assert_frame_equal(tried[0], frame.loc[tried[0].index])


def test_labels_may_be_texts_of_another_width_in_each_call() -> None:
    frame = pd.DataFrame({"sex": ["F", "M"] * 100, "x": np.arange(200)})
    model = as_frames(lambda rows: np.array(["approved" if x == 199 else "no" for x in rows["x"]]))
    found = fairchain.check(model, frame, protected="sex", labels=["no", "approved"], reading="population")
    assert found.gap.estimate == pytest.approx(0.01, abs=1e-12)


def even_and_odd(even: Any, odd: Any, count: int = 200) -> Any:
    """A frame in which x is one thing for F and another for M."""
    cells = np.empty(count, object)
    cells[0::2], cells[1::2] = [even] * (count // 2), [odd] * (count // 2)
    return pd.DataFrame({"sex": ["F", "M"] * (count // 2), "x": cells})


@pytest.mark.parametrize(("even", "odd"), [("a", "a "), (1, "1"), (True, "true"), (True, 1)])
def test_cells_that_a_model_can_tell_apart_are_never_shown_to_it_as_one(even: Any, odd: Any) -> None:
    """The gap is 1; with one cell for both the model would seem constant."""
    model = as_frames(lambda rows: np.array([repr(cell) == repr(odd) for cell in rows["x"]]).astype(int))
    try:
        found = fairchain.check(model, even_and_odd(even, odd), protected="sex", reading="population").gap.estimate
    except DataError as error:
        found = float(any(re.search(says(message), str(error)) for message in (CELLS_ALIKE, TYPES_MERGED)))
    assert found == 1


def test_a_number_and_a_text_in_one_column_are_not_merged() -> None:
    columns = even_and_odd(1, "1").to_dict("list")
    model = as_frames(lambda rows: np.array([isinstance(cell, str) for cell in rows["x"]]).astype(int))
    with pytest.raises(DataError, match=says(TYPES_MERGED, cells="1 and '1'")):
        fairchain.check(model, columns, protected="sex")


def test_whole_numbers_that_doubles_cannot_tell_apart_are_refused() -> None:
    frame = even_and_odd(2**53, 2**53 + 1).astype({"x": np.int64})
    model = as_frames(lambda rows: (rows["x"].to_numpy() % 2).astype(int))
    with pytest.raises(DataError, match=says(TOO_LARGE_TO_DIFFER, column="x")):
        fairchain.check(model, frame, protected="sex")


@pytest.mark.parametrize("kind", ["frame", "columns", "file"])
def test_zeros_keep_their_sign(kind: str, tmp_path: Path) -> None:
    """A model that divides by a number, or takes its angle, tells 0.0 and -0.0 apart."""
    frame = even_and_odd(-0.0, 0.0).astype({"x": float})
    write_csv(tmp_path / "rows.csv", frame.to_dict("list"))
    data = {"frame": frame, "columns": frame.to_dict("list"), "file": tmp_path / "rows.csv"}[kind]
    model = as_frames(lambda rows: np.signbit(rows["x"].to_numpy(float)).astype(int))
    verdict = fairchain.check(model, data, protected="sex", reading="population")
    assert (verdict.constant, verdict.gap.estimate) == (None, 1)


def test_no_more_inputs_are_asked_for_than_a_budget_of_evaluations_allows() -> None:
    """Fast functions are asked for 1 of 16 inputs twice, where no budget is stated."""
    seen = []

    def decide(rows: Any) -> Any:
        seen.append(len(rows))
        return np.where(rows["score"] > 600, "approved", "refused")

    fairchain.check(as_frames(decide), people(30_000), protected="sex", label="loan", max_evaluations=20_000)
    assert 15_000 < sum(seen) <= 20_000


def test_individuals_are_shown_as_the_other_group_with_their_own_cells() -> None:
    frame = people()
    model = as_frames(lambda rows: np.where(rows["score"] + 30 * (rows["sex"] == "M") > 600, "approved", "refused"))
    verdict = fairchain.check(model, frame, protected="sex", label="loan", kind="individual", reading="population")
    changed = (frame["score"] <= 600) & (frame["score"] + 30 > 600)
    assert verdict.gap.estimate == pytest.approx(float(changed.mean()), abs=1e-12)
    assert verdict.witnesses


def test_a_constant_model_is_not_a_pass() -> None:
    model = as_frames(lambda rows: np.full(len(rows), "refused"))
    verdict = fairchain.check(model, people(), protected="sex", label="loan")
    assert (verdict.conclusion, verdict.fair) == ("CONSTANT", False)
    assert any("Constant model" in note for note in verdict.notes)


def test_ranges_that_were_cut_from_the_rows_make_the_rows_the_population() -> None:
    verdict = fairchain.check(None, people(), protected="age", prediction="loan")
    assert verdict.exact
    assert any("were derived from these rows" in text for text in verdict.assumptions)
    groups = {"age": {"young": [18, 39], "old": [40, 70]}}
    sample = fairchain.check(None, people(), protected="age", prediction="loan", groups=groups)
    assert sample.rule == "fixed sample"
    with pytest.raises(SpecError, match=says(RANGES_CUT_FROM_ROWS)):
        fairchain.check(None, people(), protected="age", prediction="loan", reading="sample")
    assert {group.name for group in sample.groups} == {"age=young", "age=old"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"protected": []}, "protected: missing"),
        ({"protected": "gender"}, 'unknown column "gender"'),
        ({"prediction": "lone"}, 'unknown column "lone"'),
        ({"outcome": "granted"}, 'unknown label "granted"'),
        ({"threshold": 2}, "property.threshold: found 2"),
        ({"given": "hours >"}, "property.given"),
        ({"label": "score"}, "different labels"),
    ],
)
def test_a_mistake_is_one_message(wrong: dict[str, Any], words: str) -> None:
    options = {"protected": "sex", "prediction": "loan"} | wrong
    with pytest.raises((SpecError, DataError), match=words):
        fairchain.check(None, people(), **options)


def test_a_file_and_a_frame_give_the_same_gap(tmp_path: Path) -> None:
    frame = people()
    path = write_csv(tmp_path / "people.csv", {name: frame[name].tolist() for name in frame})
    model = as_frames(lambda rows: np.where(rows["score"] > 600, "approved", "refused"))
    options = {"protected": "sex", "label": "loan", "reading": "population"}
    one, other = (fairchain.check(model, table, **options) for table in (path, frame))
    assert one.gap == other.gap
    assert one.table_sha256 == other.table_sha256


def test_the_spec_of_a_check_verifies_the_same() -> None:
    frame = people()
    model = as_frames(lambda rows: np.where(rows["score"] > 600, "approved", "refused"))
    verdict = fairchain.check(model, frame, protected="sex", label="loan", given="hours >= 20", threshold=0.2)
    again = fairchain.verify(model, verdict.spec, data=frame)
    assert (again.gap, again.decision) == (verdict.gap, verdict.decision)


def test_a_certificate_contains_the_assumptions_as_notes() -> None:
    frame = people()
    verdict = fairchain.check(None, frame, protected="sex", prediction="loan")
    certificate = fairchain.make_certificate(verdict)
    assert set(verdict.assumptions) <= set(certificate["notes"])
    assert not {"assumptions", "notes"} & set(certificate["claims"])


def test_missing_values_are_given_to_a_network_as_numbers_only() -> None:
    """An input of whole numbers, and a category, would silently become something else."""
    frame = people().drop(columns=["hours", "score", "loan"]).assign(sex=lambda rows: (rows["sex"] == "M").astype(int))
    weights = np.zeros((3, 2))
    network = bytes(linear(weights, [0, -1.5]).SerializeToString())
    spec = fairchain.check(network, frame, protected="sex", reading="population", allow_constant=True).spec
    frame["job"] = frame["job"].astype(object)
    frame.loc[3, "job"] = None
    kept = fairchain.spec.revise(spec, population__keep_missing=True)
    with pytest.raises(ModelError, match=says(MISSING_VALUES_NOT_TAKEN, feature_name="job")):
        fairchain.verify(network, kept, data=frame)


def test_a_regressor_of_scikit_learn_is_cut_where_it_is_stated() -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LinearRegression

    frame = people()
    inputs = frame[["age", "hours"]].assign(points=frame["score"])
    model = LinearRegression().fit(inputs, frame["score"])
    table = inputs.assign(sex=frame["sex"], loan=frame["loan"])
    with pytest.raises(ModelError, match=says(DECISION_THRESHOLD_NEEDED)):
        fairchain.check(model, table, protected="sex", label="loan")
    verdict = fairchain.check(
        model, table, protected="sex", label="loan", decision_threshold=600, kind="ratio", reading="population"
    )
    approved = model.predict(inputs) > 600
    low, high = sorted(float(np.mean(approved[frame["sex"] == sex])) for sex in "FM")
    assert verdict.gap.estimate == pytest.approx(low / high, abs=1e-12)


@pytest.mark.parametrize("outcome", [None, "refused"])
def test_a_decision_threshold_of_a_classifier_is_on_the_probability_of_the_outcome(outcome: str | None) -> None:
    pytest.importorskip("sklearn")
    model, frame = pipeline()
    verdict = fairchain.check(
        model, frame, protected="sex", decision_threshold=0.7, outcome=outcome, reading="population"
    )
    wanted = outcome or "approved"
    probability = model.predict_proba(frame[["age", "score", "job"]])[:, list(model.classes_).index(wanted)]
    assert verdict.gap.estimate == pytest.approx(gap(frame, probability > 0.7), abs=1e-12)
    assert any(f'"{wanted}" is decided above a probability of 0.7' in text for text in verdict.assumptions)


# A whole table is shown to a fitted model as it was given


def fitted_pipeline(frame: Any, *steps: Any) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    truth = np.where(np.asarray(frame["hours"], float) + 20 * (np.asarray(frame["sex"]) == 1) > 45, "yes", "no")
    return make_pipeline(*steps, LogisticRegression()).fit(frame, truth)


def workers_frame(count: int = 3000) -> Any:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    random = np.random.default_rng(0)
    return pandas.DataFrame(
        {
            "sex": random.integers(0, 2, count),
            "hours": random.integers(1, 60, count),
            "years": random.integers(0, 9, count).astype(float),
        },
        index=np.arange(count)[::-1],
    )


def test_a_fitted_model_gets_the_frame_itself_and_few_calls() -> None:
    frame = workers_frame()
    model, shown = fitted_pipeline(frame), []
    own = model.predict
    model.predict = lambda rows: shown.append(rows) or own(rows)
    verdict = fairchain.check(model, frame, protected="sex", outcome="yes", reading="population")
    decided = own(frame) == "yes"
    rates = [decided[frame["sex"] == each].mean() for each in (0, 1)]
    assert verdict.gap.estimate == pytest.approx(abs(rates[1] - rates[0]), abs=1e-12)
    assert len(shown) == 2
    assert shown[-1].equals(frame)
    assert list(shown[-1].index) == list(frame.index)


def test_a_fitted_model_that_computes_across_rows_is_refused() -> None:
    from sklearn.preprocessing import FunctionTransformer

    frame = workers_frame().sort_values("hours")
    model = fitted_pipeline(
        frame, FunctionTransformer(lambda rows: rows - rows.mean(axis=0).round(-1) * (len(rows) > 600))
    )
    with pytest.raises(fairchain.ModelError, match=says(ANSWERS_CHANGE)):
        fairchain.check(model, frame, protected="sex", outcome="yes", reading="population")


def test_equal_rows_get_one_answer_and_all_are_counted() -> None:
    frame = workers_frame(40).loc[lambda each: each.index.repeat(50)]
    model = fitted_pipeline(frame)
    verdict = fairchain.check(model, frame, protected="sex", outcome="yes", reading="population")
    decided = model.predict(frame) == "yes"
    rates = [decided[frame["sex"] == each].mean() for each in (0, 1)]
    assert verdict.gap.estimate == pytest.approx(abs(rates[1] - rates[0]), abs=1e-12)


def test_numbers_and_texts_of_numpy_are_taken_for_pythons_own() -> None:
    """Thresholds are computed, and labels come from `classes_`."""
    frame = people()
    plain = fairchain.check(None, frame, protected="sex", prediction="loan", reading="population", threshold=0.25)
    found = fairchain.check(
        None,
        frame,
        protected=np.array(["sex"]),
        prediction=np.str_("loan"),
        labels=np.array(["approved", "refused"]),
        outcome=np.str_("approved"),
        reading="population",
        threshold=np.float32(0.25),
        delta=np.float64(1e-6),
        seed=np.int64(7),
    )
    assert found.gap == plain.gap
    assert (found.spec.property.threshold, found.spec.guarantee.seed) == (0.25, 7)


def fitted_on_words(frame: Any, kind: Any = str) -> Any:
    """A pipeline that was fitted on a frame without the protected column, with labels of some type."""
    compose = pytest.importorskip("sklearn.compose")
    linear_model, pipeline, preprocessing = (
        pytest.importorskip(f"sklearn.{name}") for name in ("linear_model", "pipeline", "preprocessing")
    )
    columns = compose.make_column_transformer(
        (preprocessing.OneHotEncoder(), ["job"]), (preprocessing.StandardScaler(), ["age", "hours", "score"])
    )
    model = pipeline.make_pipeline(columns, linear_model.LogisticRegression())
    labels = frame["loan"] if kind is str else (frame["loan"] == "approved").astype(kind)
    return model.fit(frame[["age", "hours", "job", "score"]], labels)


@pytest.mark.parametrize("outcome", [1, np.int64(1), "1"])
def test_an_outcome_may_be_the_number_that_the_model_answers(outcome: Any) -> None:
    frame = people()
    model = fitted_on_words(frame, int)
    found = fairchain.check(model, frame.drop(columns="loan"), protected="sex", outcome=outcome, reading="population")
    assert found.gap.estimate == pytest.approx(gap(frame, model.predict(frame) == 1), abs=1e-12)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_a_method_of_a_model_that_was_fitted_on_a_frame_gets_frames(method: str) -> None:
    frame = people()
    model = fitted_on_words(frame, int)
    cut = {"decision_threshold": 0.0, "labels": ["0", "1"]} if method == "decision_function" else {}
    data = frame.drop(columns="loan")
    found = fairchain.check(getattr(model, method), data, protected="sex", outcome=1, reading="population", **cut)
    assert found.gap.estimate == pytest.approx(gap(frame, model.predict(frame) == 1), abs=1e-12)


def test_stated_ranges_may_go_beyond_the_values_of_the_rows() -> None:
    frame = people()
    model = fitted_on_words(frame)
    ranges = {"young": [0, 39], "old": [40, 120]}
    found = fairchain.check(
        model, frame, protected="age", groups={"age": ranges}, label="loan", outcome="approved", reading="population"
    )
    young = frame.assign(young=np.where(frame["age"] < 40, "young", "old"))
    assert found.gap.estimate == pytest.approx(gap(young, model.predict(frame) == "approved", "young"), abs=1e-12)


def test_a_function_that_fails_on_an_array_is_told_how_it_gets_frames() -> None:
    def granted(frame: Any) -> Any:
        return frame["score"] > 600

    data = people().drop(columns="loan")
    with pytest.raises(ModelError, match=re.escape(GIVE_FRAMES)):
        fairchain.check(granted, data, protected="sex", reading="population")
    assert fairchain.check(as_frames(granted), data, protected="sex", reading="population").exact


def test_a_protected_column_that_holds_the_labels_is_told_as_such() -> None:
    frame = people()
    with pytest.raises(SpecError, match=says(PROTECTED_LABEL, name='"loan"', use="recorded decisions")):
        fairchain.check(None, frame, protected="loan", prediction="loan")


def test_a_part_of_a_column_name_is_enough_for_a_suggestion() -> None:
    frame = people().rename(columns={"sex": "Sex (self-reported)"})
    with pytest.raises(SpecError, match=re.escape('frame: protected: unknown column "sex"; did you mean "Sex (self')):
        fairchain.check(None, frame, protected="sex", prediction="loan")


def test_a_module_is_not_a_model_and_the_message_says_how_to_name_its_object(tmp_path: Path) -> None:
    path = tmp_path / "my_module.py"
    path.touch()
    with pytest.raises(ModelError, match="give python:my_module:model"):
        fairchain.check(path, people(), protected="sex")
