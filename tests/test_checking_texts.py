"""Promises of `check` about texts: one call from a pipeline and a frame to a verdict about terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import check
from fairchain.errors import DataError, SpecError
from fairchain.verification.verdict import Verdict

pandas = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

WHO = ("Muslims", "Christians", "Jewish people", "nobody")
SAYS = ("are AWFUL!", "sing; well", "are bad, bad!", "read books")


@pytest.fixture(name="frame")
def _frame() -> Any:
    rows = [
        (f"{who} {says}", who, "toxic" if "!" in says else "fine", place)
        for who in WHO
        for place, says in enumerate(SAYS)
    ]
    return pandas.DataFrame(rows, columns=["comment", "who", "label", "template"])


def pipeline(frame: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    made = make_pipeline(TfidfVectorizer(token_pattern=r"\w+|!", lowercase=False), LogisticRegression(C=100))
    return made.fit(frame["comment"], frame["label"])


def rates(verdict: Verdict) -> dict[str, float]:
    return {group.name: group.probability.estimate for group in verdict.groups if group.outcome == "toxic"}


def test_one_call_counts_the_pipelines_own_decisions(frame: Any) -> None:
    model = pipeline(frame)
    verdict = check(model, frame, text="comment", terms="religion")
    said = model.predict(frame["comment"]) == "toxic"
    for group, who in (("muslim", "Muslims"), ("christian", "Christians"), ("jewish", "Jewish"), ("none", "nobody")):
        own = frame["comment"].str.startswith(who).to_numpy()
        assert rates(verdict)[f"religion={group}"] == float(np.mean(said[own]))
    assert (verdict.engine, verdict.exact) == ("counting", True)
    # Values that no text mentions are left out, and named.
    assert {name for name, _ in verdict.left_out} == {"religion=hindu", "religion=buddhist", "religion=atheist"}
    assert any(text.startswith("population.as") for text in verdict.assumptions)


def test_exchanged_terms_and_terms_of_ones_own(frame: Any) -> None:
    model = pipeline(frame)
    terms = {"a": ["Muslims"], "b": ["Jewish people"], "neutral": ["people"]}
    verdict = check(model, frame, text="comment", terms=terms, rows="swapped")
    texts = [text for text in frame["comment"] if text.startswith(("Muslims", "Jewish"))]
    for group, term in (("a", "Muslims"), ("b", "Jewish people"), ("none", "People")):
        shown = [text.replace("Muslims", "@").replace("Jewish people", "@").replace("@", term) for text in texts]
        assert rates(verdict)[f"mentioned={group}"] == float(np.mean(model.predict(shown) == "toxic"))


def test_error_rates_conditions_and_groups_from_columns(frame: Any) -> None:
    model = pipeline(frame)
    verdict = check(
        model,
        frame,
        text="comment",
        protected="who",
        label="label",
        criterion="equal_opportunity",
        given="template < 2",
    )
    assert len(rates(verdict)) == 4
    assert all("truth=toxic" in name for name in rates(verdict))
    assert {group.evaluations for group in verdict.groups} == {1}


def test_a_function_of_scores_gets_its_labels_from_the_column(frame: Any) -> None:
    def score(texts: list[str]) -> Any:
        return np.array([0.0 if "!" in text else 1.0 for text in texts])[:, None]

    verdict = check(score, frame, text="comment", terms="religion", label="label", decision="probability")
    assert verdict.spec.model.labels == ("toxic", "fine")
    assert any("agrees with the true labels of 100%" in text for text in verdict.assumptions)


def test_files_of_lines_and_of_json(frame: Any, tmp_path: Path) -> None:
    model = pipeline(frame)
    expected = rates(check(model, frame, text="comment", terms="religion"))
    (tmp_path / "a.txt").write_text("\n".join(frame["comment"]))
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_csv(tmp_path / "a.csv", index=False)
    for name in ("a.txt", "a.jsonl", "a.csv"):
        assert rates(check(model, tmp_path / name, text="comment", terms="religion")) == expected


def test_mistakes_are_named(frame: Any) -> None:
    model = pipeline(frame)
    with pytest.raises(SpecError, match="name the column of the texts: text="):
        check(model, frame, terms="religion")
    with pytest.raises(SpecError, match='terms="religion"'):
        check(model, frame, text="comment")
    with pytest.raises(DataError, match=r'column "coment".*did you mean "comment"'):
        check(model, frame, text="coment", terms="religion")
    with pytest.raises(SpecError, match="is about texts"):
        check(model, frame, protected="who", rows="swapped")
    with pytest.raises(SpecError, match="is for tables"):
        check(model, frame, text="comment", terms="religion", rows="sample")
