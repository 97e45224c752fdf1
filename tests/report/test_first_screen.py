"""Promises of the first screen: question and answer in plain words, what was tested, by whom, and what is open."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from fairchain.report import first_screen
from fairchain.report.first_screen import (
    GAP_MOVED,
    MORE_EVALUATIONS,
    MORE_ROWS,
    answer_text,
    features_drawn_apart,
    question_text,
)
from fairchain.report.page import DATA_APART, UNIFORM, page
from fairchain.spec import Difference, Individual, Ratio
from fairchain.spec.schema import About
from fairchain.statements import dropped_note, tipping_statement
from fairchain.verification.record import SmallGroup, Tipping
from tests.report import builders
from tests.report.builders import findings, verdict

LAND = ("land",)


@pytest.mark.parametrize(
    ("prop", "question", "answer"),
    [
        (
            Difference(protected=LAND, threshold=0.1, outcome="hire"),
            "do the 2 groups by land get “hire” equally often? The shares of two groups may differ by at most "
            "10 percentage points.",
            "Two groups differ by more than 10 percentage points.",
        ),
        (
            Difference(protected=LAND, threshold=0.01, outcome="hire", given="age >= 30 (or more)"),
            "do the 2 groups by land get “hire”, among those with age >= 30 (or more), equally often? The shares of "
            "two groups may differ by at most 1 percentage point.",
            "Two groups differ by more than 1 percentage point.",
        ),
        (
            Difference(protected=LAND, threshold=0.125, outcome="hire", criterion="equal_opportunity"),
            "do the 2 groups by land get “hire”, among those whose true label is hire, equally often? The shares of "
            "two groups may differ by at most 12.5 percentage points.",
            "Two groups differ by more than 12.5 percentage points.",
        ),
        (
            Ratio(protected=LAND, threshold=0.8),
            "do the 2 groups by land get each decision equally often? The smaller share of two groups must be at least "
            "80% of the larger.",
            "One group gets it less than 80% as often as another.",
        ),
        (
            Individual(protected=("sex", "race"), threshold=0.05),
            "does a decision stay the same if nothing but sex & race changes? It may change for at most 5% of "
            "individuals.",
            "",
        ),
        # One-sided, against the overall rate, of populations within a factor: the formula says it better.
        (Difference(protected=LAND, threshold=0.1, outcome="hire", reference="group 0"), "", ""),
        (Difference(protected=LAND, threshold=0.1, outcome="hire", compare="overall"), "", ""),
        (Difference(protected=LAND, threshold=0.1, outcome="hire", shift=2.0), "", ""),
    ],
)  # fmt: skip
def test_question_and_answer_are_in_plain_words_or_left_to_the_formula(
    prop: Difference | Ratio | Individual, question: str, answer: str
) -> None:
    kind = type(prop).__struct_config__.tag
    made = changed(verdict(2), kind=kind, question=str(prop), threshold=prop.threshold)
    assert question_text(made) == question
    assert answer_text(made) == answer
    shown = page(replace(findings(2), verdict=made, repair=None))
    assert "The question: " in shown
    if not question:
        assert str(prop).replace("<", "&lt;") in shown.partition('id="groups"')[0]


def test_only_a_verdict_is_an_answer() -> None:
    told = "groups differ by more than 10 percentage points."
    assert answer_text(verdict(3, "FAIR")) == f"No two {told}"
    assert answer_text(verdict(3, "UNDECIDED")) == ""
    assert answer_text(verdict(3, "FAIR", "no")) == ""


def test_an_undecided_page_says_what_would_decide() -> None:
    drawn = verdict(3, "UNDECIDED")
    assert MORE_EVALUATIONS in page(replace(findings(3), verdict=drawn, repair=None))
    rows = changed(drawn, rows=400, stopped="rows")
    assert MORE_ROWS in page(replace(findings(3), verdict=rows, repair=None))
    forecast = changed(rows, forecast=3)
    assert "about 3 times as many" in page(replace(findings(3), verdict=forecast, repair=None))
    assert MORE_EVALUATIONS not in page(findings(3))


def test_the_badge_says_what_was_tested_and_how_much() -> None:
    assert (
        first_screen.tested_on(findings(3))
        == "Tested on synthetic profiles (20,000 evaluations), not on real individuals."
    )
    rows = builders.with_rows()
    assert first_screen.tested_on(rows) == "Tested on 400 rows of a table, all of them counted."
    texts = replace(rows, verdict=changed(rows.verdict, inputs="texts", rows=9000))
    # Two groups of 1,000 texts each: the others of the corpus were not evaluated.
    assert (
        first_screen.tested_on(texts)
        == "Tested on a corpus of 9,000 texts; those of the compared groups were all counted."
    )


def test_who_answers_for_the_audit_is_stated_or_called_not_stated() -> None:
    top = page(findings(3)).partition('id="groups"')[0]
    assert top.count("<bdi>not stated</bdi>") == 3
    top = page(replace(findings(3), model="python:<ranking>:model")).partition('id="groups"')[0]
    assert "<bdi>python:&lt;ranking&gt;:model</bdi>" in top
    assert top.count("<bdi>not stated</bdi>") == 2
    about = About(model_name="Ranker", model_version="3.2", auditor="<Ada>", audit_date="2026-11-17")
    top = page(replace(findings(3), about=about)).partition('id="groups"')[0]
    assert "not stated" not in top
    for told in ("<bdi>Ranker 3.2</bdi>", "<bdi>&lt;Ada&gt;</bdi>", "<bdi>2026-11-17</bdi>", "Ranker (hiring"):
        assert told in top


def test_rows_that_were_left_out_are_on_the_first_screen() -> None:
    rows = builders.with_rows()
    note = dropped_note(3, 403)
    made = changed(rows.verdict, notes=(note, "Another remark."))
    top, _, _ = page(replace(rows, verdict=made)).partition('id="groups"')
    assert note in top
    assert "Another remark." not in top


def test_groups_that_were_too_small_are_on_the_first_screen() -> None:
    rows = builders.with_rows()
    for sizes, told in (
        (
            (14.0, 12.0),
            "2 groups (26 rows) were too small to be compared: <bdi>g=0</bdi>, <bdi>g=1</bdi>. The verdict does not "
            "apply to them.",
        ),
        ((1.0,), "1 group (1 row) was too small to be compared: <bdi>g=0</bdi>. The verdict does not apply to it."),
        ((2.0,) * 9, "9 groups (18 rows) were too small to be compared. The verdict does not apply to them."),
        ((0.01,), "1 group was too small to be compared: <bdi>g=0</bdi>. The verdict does not apply to it."),
    ):
        left = tuple(SmallGroup(f"g={place}", size) for place, size in enumerate(sizes))
        top, _, _ = page(replace(rows, verdict=changed(rows.verdict, left_out=left))).partition('id="groups"')
        assert told in top


def test_an_exact_page_speaks_of_shares_and_not_of_estimates() -> None:
    assert "Dot: the share." in page(builders.with_rows())
    assert "no two estimates" not in page(builders.with_rows())
    assert "Dot: the estimate" in page(findings(3))


def test_a_factor_of_one_is_not_called_a_factor() -> None:
    told = tipping_statement("FAIR", 1.0, 1.86, 1e-6)
    assert "1 times" not in told
    assert told.endswith("as in the assumed population, provided that all groups change in the same way.")


def test_both_factors_of_a_shift_are_on_the_first_screen() -> None:
    made = changed(verdict(3), tipping=Tipping(1.4, 1.8))
    top, _, _ = page(replace(findings(3), verdict=made)).partition('id="groups"')
    assert "up to 1.4 times as frequent" in top
    assert "or up to 1.8 times, if all groups change in the same way" in top


def test_an_estimate_that_was_moved_into_its_interval_is_said_to_be() -> None:
    """The rates are 0.3 and 0.6; the estimate of the gap is 0.3 if it is inside, and else the nearest end."""
    made = verdict(3)
    for gap, moved in (
        (changed(made.gap, estimate=0.3, low=0.28, high=0.32), False),
        (changed(made.gap, estimate=0.3, low=0.28, high=0.3), False),
        (changed(made.gap, estimate=0.31, low=0.31, high=0.32), True),
        (changed(made.gap, estimate=0.1, low=0.08, high=0.1), True),
    ):
        top, _, _ = page(replace(findings(3), verdict=changed(made, gap=gap))).partition('id="groups"')
        assert (GAP_MOVED in top) == moved


def test_a_factor_that_is_the_same_for_all_groups_alike_is_told_once() -> None:
    made = changed(verdict(3), tipping=Tipping(1.4, 1.4))
    top, _, rest = page(replace(findings(3), verdict=made)).partition('id="groups"')
    told = "up to 1.4 times as frequent, or as rare, as in the assumed population."
    assert told in top
    assert "times as frequent" not in rest


def test_other_thresholds_are_told_where_an_interval_decides_them() -> None:
    told = "For a threshold below the interval at the top, the same data give {}; for a threshold above it, {}."
    assert told.format("UNFAIR", "FAIR") in page(findings(3))
    assert told.format("FAIR", "UNFAIR") in page(builders.with_ratio())
    start = told.partition(" the same")[0]
    for exact in (builders.with_rows(), replace(findings(3), verdict=verdict(3, "UNDECIDED"), repair=None)):
        assert start not in page(exact)


def test_a_population_that_no_one_lives_in_is_described_in_plain_words() -> None:
    assert UNIFORM in page(findings(3))
    told = changed(verdict(3), population="the 400 rows of a.csv")
    assert UNIFORM not in page(replace(findings(3), verdict=told))


def test_data_that_a_check_needs_and_the_folder_lacks_are_named() -> None:
    assert DATA_APART not in page(findings(3))
    command = "fairchain recheck certificate.json --data rows.csv"
    assert DATA_APART in page(replace(findings(3), recheck=(command,)))


def test_a_gap_of_independent_features_comes_from_the_protected_ones() -> None:
    uniform = "independent uniform inputs over the declared ranges of 3 features"
    plain = "for all i, j: |P(Y=yes | age=i) - P(Y=yes | age=j)| <= 0.1"
    under = "for all i, j: |P(Y=yes | age=i, hours >= 40) - P(Y=yes | age=j, hours >= 40)| <= 0.1"
    for population, question, expected in (
        (uniform, plain, "age"),
        (f"{uniform}, among inputs with hours >= 40", under, ""),
        ("the 400 rows of data.csv", plain, ""),
    ):
        assert features_drawn_apart(changed(findings(3).verdict, population=population, question=question)) == expected
