"""What rows say beside a verdict: every count is one made by hand."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from fairchain import DataError
from fairchain.auditing import audit
from fairchain.auditing.row_facts import described_feature
from fairchain.spec import parse_spec
from fairchain.tables.rows import NO_RECORDED_SCORES
from tests.messages import says
from tests.questions import category, integer, question

# Sex, race, score, the true label: sex "" is unknown, and race c has 2 of 40 rows.
ROWS = [
    *(("F", "a", 10 + i, "yes" if i > 4 else "no") for i in range(10)),
    *(("M", "a", 20 + i, "yes" if i > 1 else "no") for i in range(14)),
    *(("F", "b", 30 + i, "yes") for i in range(4)),
    *(("M", "b", 5 + i, "no") for i in range(6)),
    *(("M", "c", 50 + i, "yes") for i in range(2)),
    *(("", "a", 40 + i, "yes") for i in range(4)),
]

# What makes a score a decision, as the page says it.
RULE = "A score above 24 is read as &#x27;yes&#x27;, any other as &#x27;no&#x27;."


def asked(folder: Path, rows: Any = ROWS, **model: Any) -> Path:
    """Recorded scores, selected above 24; those without a sex are in no group."""
    import json

    sex = category("sex", "F", "M", "unknown") | {"missing": "unknown", "groups": {"F": ["F"], "M": ["M"]}}
    data = question(sex, category("race", "a", "b", "c"))
    data["model"] = {"labels": ["no", "yes"], "decision": "score", "decision_threshold": 24} | model
    data["population"] = {
        "kind": "table",
        "path": "rows.csv",
        "as": "population",
        "prediction": "score",
        "label": "truth",
    }
    common = {"kind": "ratio", "outcome": "yes", "threshold": 0.8, "min_size": 0.06}
    data["property"] = [common | {"protected": ["sex"]}, common | {"protected": ["race"]}]
    folder.mkdir(exist_ok=True)
    (folder / "rows.csv").write_text(
        "sex,race,score,truth\n" + "\n".join(",".join(map(str, row)) for row in rows), encoding="utf-8"
    )
    (folder / "scores.json").write_text(json.dumps(data), encoding="utf-8")
    return folder / "scores.json"


def test_scores_unknown_categories_small_groups_and_accuracy_are_counted(tmp_path: Path) -> None:
    found = audit(asked(tmp_path), tmp_path / "out")
    by_sex, by_race = found.findings.all_selections
    # The median of all 40 scores, of those without a sex too.
    scores = sorted(row[2] for row in ROWS)
    median = (scores[19] + scores[20]) / 2
    for table, place in ((by_sex, 0), (by_race, 1)):
        assert table.facts.median == median
        for row in table.rows:
            own = [each for each in ROWS if f"{('sex', 'race')[place]}={each[place]}" == row.group]
            assert (row.assessed, row.selected) == (len(own), sum(each[2] > 24 for each in own))
            assert row.facts.above_median == sum(each[2] > median for each in own)
            assert row.scoring == pytest.approx(sum(each[2] > median for each in own) / len(own))
            assert row.facts.right == sum((each[2] > 24) == (each[3] == "yes") for each in own)
    assert max(row.scoring_ratio or 0.0 for row in by_sex.rows) == 1.0
    (unknown,) = by_sex.facts.left_out
    assert (unknown.group, unknown.size, unknown.selected, unknown.above_median) == ("unknown or other", 4, 4, 4)
    (small,) = by_race.facts.left_out
    assert (small.group, small.size, small.selected, small.reason) == ("race=c", 2, 2, "below 6.0% of all, as stated")


def test_the_page_for_bias_audits_has_a_table_for_each_question_and_so_does_the_csv(tmp_path: Path) -> None:
    found = audit(asked(tmp_path), tmp_path / "out")
    html = (found.folder / "selection-rates.html").read_text(encoding="utf-8")
    for words in (
        "Selection rates by sex",
        "Selection rates by race",
        "scoring rate",
        "unknown or other",
        "not stated",
        RULE,
    ):
        assert words in html
    report = found.report.read_text(encoding="utf-8")
    assert RULE in report
    assert "Everyone who has it and the table can check both" in report
    # Recorded decisions have no model: nothing to explain or to repair.
    assert 'id="why"' not in report
    assert 'id="repair"' not in report
    rows = list(csv.DictReader((found.folder / "selection-rates.csv").read_text(encoding="utf-8").splitlines()))
    assert [row["group"] for row in rows] == ["sex=F", "sex=M", "unknown or other", "race=a", "race=b", "race=c"]
    assert rows[2]["assessed"] == "4"
    assert rows[0]["scoring rate"]
    # What is left out has its number and its rates too: 4 of 4 without a sex are selected, and above the median.
    for left in (rows[2], rows[5]):
        assert (left["selection rate"], left["scoring rate"], left["impact ratio"]) == ("1.000000", "1.000000", "")


def test_scores_that_are_no_numbers_get_one_message(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(NO_RECORDED_SCORES)):
        audit(asked(tmp_path, [("F", "a", "high", "yes"), ("M", "b", "low", "no")] * 9), tmp_path / "out")


def test_features_are_described_with_their_ranges() -> None:
    coded = {**integer("age"), "groups": {"10-19": 1, "20-29": 2, "others": [3, 9]}}
    spec = parse_spec(question(integer("x"), category("land", "a", "b"), coded))
    assert [described_feature(each) for each in spec.described] == [
        ("x", "integer", "0 to 9"),
        ("land", "category", "a, b"),
        ("age", "integer", "0 to 9; 1 is 10-19; 2 is 20-29"),
    ]
