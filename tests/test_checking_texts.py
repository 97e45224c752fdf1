"""Promises of `check` about texts: one call from a pipeline and a frame to a verdict about terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain import audit, check, recheck, repair
from fairchain.certificates import write_certificate
from fairchain.checking import OR_TERMS, PROTECTED_MISSING, TERMS_WITHOUT_TEXT
from fairchain.drafting.draft import TEXT_READING
from fairchain.drafting.texts import NAME_LABELS, TABLE_READING
from fairchain.drafting.trials import DECISION_THRESHOLD_NEEDED
from fairchain.errors import CertificateError, DataError, ModelError, SpecError
from fairchain.messages import unknown
from fairchain.models.adapters.from_sklearn import READS_TEXTS, TEXTS_NOT_CONVERTED
from fairchain.populations.build import TOO_FEW_GROUPS
from fairchain.statements import NO_TEXTS_CERTIFICATE
from fairchain.text.terms import UNKNOWN_TERM_LIST
from fairchain.verification.verdict import Verdict
from tests.messages import says

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


def test_terms_of_ones_own_are_exchanged_without_neutral_words(frame: Any) -> None:
    """Nobody stated a group `none`, so that nothing has to be written in place of its terms."""
    terms = {"a": ["Muslims"], "b": ["Jewish people"]}
    verdict = check(pipeline(frame), frame, text="comment", terms=terms, reading="swapped")
    assert list(rates(verdict)) == ["mentioned=a", "mentioned=b"]


def test_a_pipeline_of_texts_asks_for_the_column_of_texts(frame: Any) -> None:
    with pytest.raises(ModelError, match=says(READS_TEXTS)):
        check(pipeline(frame), frame, label="label", protected="who")


def test_terms_that_no_text_has_are_told_with_the_number_of_texts(frame: Any) -> None:
    sizes = "mentioned=a 0, mentioned=b 0, mentioned=none 16"
    with pytest.raises(SpecError, match=says(TOO_FEW_GROUPS, sizes=sizes)):
        check(pipeline(frame), frame, text="comment", terms={"a": ["zebra"], "b": ["lion"]})


def test_a_misspelt_list_of_terms_is_told_with_the_right_one(frame: Any) -> None:
    problem = 'unknown list "religon"; did you mean "religion"?'
    with pytest.raises(SpecError, match=says(UNKNOWN_TERM_LIST, problem=problem)):
        check(pipeline(frame), frame, text="comment", terms="religon")


def test_the_advice_for_a_certificate_of_a_pipeline_of_texts_works(frame: Any, tmp_path: Path) -> None:
    model, path = pipeline(frame), tmp_path / "comments.csv"
    frame.to_csv(path, index=False)
    with pytest.raises(CertificateError, match=says(TEXTS_NOT_CONVERTED)):
        check(model, path, text="comment", terms="religion", certify=True)
    frame.assign(decision=model.predict(frame["comment"])).to_csv(path, index=False)
    verdict = check(None, path, protected="who", prediction="decision", reading="population", certify=True)
    write_certificate(verdict, tmp_path / "c.json")
    assert recheck(tmp_path / "c.json", data=path).conclusion == "CONFIRMED"


def test_a_certificate_about_texts_in_memory_is_refused_with_advice(frame: Any, tmp_path: Path) -> None:
    verdict = check(pipeline(frame), frame, text="comment", terms="religion")
    with pytest.raises(CertificateError, match=says(NO_TEXTS_CERTIFICATE)):
        write_certificate(verdict, tmp_path / "c.json")


def test_exchanged_terms_and_terms_of_ones_own(frame: Any) -> None:
    model = pipeline(frame)
    terms = {"a": ["Muslims"], "b": ["Jewish people"], "neutral": ["people"]}
    verdict = check(model, frame, text="comment", terms=terms, reading="swapped")
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


def test_a_group_without_a_text_of_the_compared_label_is_left_out(frame: Any) -> None:
    model = pipeline(frame)
    fewer = frame[~(frame["comment"].str.startswith("Jewish") & (frame["label"] == "toxic"))]
    verdict = check(model, fewer, text="comment", terms="religion", label="label", criterion="equal_opportunity")
    assert "religion=jewish" in {name for name, _ in verdict.left_out}
    assert {name.partition(",")[0] for name in rates(verdict)} == {
        f"religion={x}" for x in ("muslim", "christian", "none")
    }


def test_a_function_that_answers_in_words_is_asked_for_its_labels(frame: Any) -> None:
    def flags(texts: list[str]) -> list[str]:
        return ["toxic" if "!" in text else "fine" for text in texts]

    with pytest.raises(ModelError, match=says(NAME_LABELS)):
        check(flags, frame, text="comment", terms="religion")
    verdict = check(flags, frame, text="comment", terms="religion", labels=["fine", "toxic"])
    assert set(rates(verdict).values()) == {0.5}


def test_what_a_failing_function_quotes_from_a_text_is_masked() -> None:
    def fails(texts: list[str]) -> list[str]:
        raise ValueError(f"cannot read {texts[0]}")

    data = {"comment": ["Muslims, write to me@example.org!", "Jews, call 0171 234567!"]}
    with pytest.raises(ModelError, match=r"cannot read Muslims, write to \[mail\]"):
        check(fails, data, text="comment", terms="religion", labels=["fine", "toxic"])


def test_an_audit_of_a_counted_corpus_shows_the_counted_rates(frame: Any, tmp_path: Path) -> None:
    model = pipeline(frame)
    verdict = check(model, frame, text="comment", terms="religion")
    found = audit(verdict.spec, tmp_path / "out", model=model, data=frame, repair=False)
    shown = {rate.name: (rate.low, rate.high) for rate in found.findings.groups if rate.outcome == "toxic"}
    assert shown == {name: (rate, rate) for name, rate in rates(verdict).items()}


def test_a_function_of_scores_gets_its_labels_from_the_column(frame: Any) -> None:
    def score(texts: list[str]) -> Any:
        return np.array([0.0 if "!" in text else 1.0 for text in texts])[:, None]

    verdict = check(score, frame, text="comment", terms="religion", label="label", decision="probability")
    assert verdict.spec.model.labels == ("toxic", "fine")
    assert any("in this order the model agrees with the rows" in text for text in verdict.assumptions)
    assert any('agrees with column "label" in 100.0% of 16 rows' in note for note in verdict.notes)


def test_one_score_for_each_text_is_a_probability_or_needs_a_decision_threshold(frame: Any) -> None:
    """A score that nobody explained was taken for a logit: of probabilities, every text was toxic."""

    def score(texts: list[str]) -> Any:
        return np.array([0.9 if "!" in text else 0.1 for text in texts])

    options = {"text": "comment", "terms": "religion", "labels": ["fine", "toxic"]}
    verdict = check(score, frame, **options)
    assert set(rates(verdict).values()) == {0.5}
    assert any("probabilities, cut at 0.5" in text for text in verdict.assumptions)
    with pytest.raises(ModelError, match=says(DECISION_THRESHOLD_NEEDED)):
        check(lambda texts: 10 * score(texts), frame, **options)


def test_no_more_texts_are_evaluated_than_a_budget_allows() -> None:
    """The order of the labels was found with 512 texts, whatever the budget was."""
    seen = []

    def score(texts: list[str]) -> Any:
        seen.append(len(texts))
        return np.array([0.0 if "!" in text else 1.0 for text in texts])

    texts = [f"{WHO[row % 2]} {row}{'!' * (row % 3)}" for row in range(3000)]
    data = {"comment": texts, "label": ["toxic" if "!" in text else "fine" for text in texts]}
    options = {"text": "comment", "terms": "religion", "label": "label", "decision": "probability"}
    verdict = check(score, data, max_evaluations=400, **options)
    assert verdict.spec.model.labels == ("toxic", "fine")
    assert sum(seen) <= 400


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
    with pytest.raises(SpecError, match=says(TERMS_WITHOUT_TEXT)):
        check(model, frame, terms="religion")
    with pytest.raises(SpecError, match=says(PROTECTED_MISSING, remedy=OR_TERMS)):
        check(model, frame, text="comment")
    with pytest.raises(DataError, match=says(unknown("column", "coment", ["comment"]))):
        check(model, frame, text="coment", terms="religion")
    with pytest.raises(SpecError, match=says(TEXT_READING)):
        check(model, frame, protected="who", reading="swapped")
    with pytest.raises(SpecError, match=says(TABLE_READING)):
        check(model, frame, text="comment", terms="religion", reading="sample")


def test_the_threshold_of_a_pipeline_of_texts_can_be_moved(frame: Any) -> None:
    biased = frame.assign(label=np.where(frame["who"] == "Muslims", "toxic", frame["label"]))
    model = pipeline(biased)
    verdict = check(model, biased, text="comment", terms="religion")
    repaired = repair(model, verdict.spec, data=biased, change="threshold", iterations=1)
    assert repaired.needed
    assert repaired.after is not None
