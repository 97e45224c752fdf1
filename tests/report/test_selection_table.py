"""Promises of the table of selection rates: counts, rates and impact ratios of an official audit, with intervals."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as changed

import fairchain
from fairchain.report.page import page
from fairchain.report.selection_table import GroupFacts, RowFacts, SelectionTable, selection_csv, selection_table
from fairchain.spec import parse_spec
from fairchain.spec.load import UNKNOWN_KEY
from fairchain.spec.schema import About
from fairchain.spec.seeds import meaning_of
from fairchain.verification.record import EvaluatedGroup, SmallGroup
from tests.messages import says
from tests.questions import question
from tests.report import builders
from tests.report.builders import OUTCOME, findings, verdict


def rate(name: str, estimate: float, low: float, high: float, evaluations: int = 100) -> EvaluatedGroup:
    return EvaluatedGroup(name, OUTCOME, estimate, low, high, evaluations)


def table(*groups: EvaluatedGroup, **changes: Any) -> SelectionTable:
    made = selection_table(changed(verdict(2), groups=groups, **changes))
    assert made is not None
    return made


def test_rates_of_recorded_decisions_are_those_counted_by_hand() -> None:
    """Three groups with 10, 20 and 40 rows of which 5, 8 and 4 are hired."""
    counts = {"a": (10, 5), "b": (20, 8), "c": (40, 4)}
    rows = [(g, "yes" if i < hired else "no") for g, (n, hired) in counts.items() for i in range(n)]
    frame = {"sex": [g for g, _ in rows], "hired": [h for _, h in rows]}
    found = fairchain.check(None, frame, protected=["sex"], prediction="hired", outcome="yes", reading="population")
    made = selection_table(found.record, outcome="yes")
    assert made is not None
    assert [(row.group, row.assessed, row.selected) for row in made.rows] == [
        ("sex=a", 10, 5), ("sex=b", 20, 8), ("sex=c", 40, 4),
    ]  # fmt: skip
    assert [row.ratio.estimate for row in made.rows if row.ratio] == pytest.approx([1.0, 0.8, 0.2])
    assert all(row.ratio is not None and row.ratio.low == row.ratio.high for row in made.rows)
    assert made.four_fifths == "The smallest impact ratio is 0.2000, below four fifths (0.8)."


def test_the_interval_of_an_impact_ratio_has_every_ratio_that_the_rates_allow() -> None:
    """A ratio to the group that seems to be selected most would miss rates at which another one is."""
    random = np.random.default_rng(1)
    for _ in range(300):
        low = random.uniform(0, 0.9, 4)
        high = low + random.uniform(0, 1, 4) * (1 - low)
        middle = (low + high) / 2
        made = table(*(rate(f"g={i}", *map(float, each)) for i, each in enumerate(zip(middle, low, high, strict=True))))
        for truth in random.uniform(low, high, (20, 4)):
            for row, ratio in zip(made.rows, truth / truth.max(), strict=True):
                assert row.ratio is not None
                assert row.ratio.low - 1e-12 <= ratio <= row.ratio.high + 1e-12


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [(0.4, 0.45, "below four fifths"), (0.55, 0.6, "not below four fifths"), (0.4, 0.6, "do not yet show")],
)
def test_four_fifths_is_stated_only_where_the_intervals_show_it(low: float, high: float, told: str) -> None:
    made = table(rate("g=a", 0.6, 0.59, 0.61), rate("g=b", (low + high) / 2, low, high))
    assert told in made.four_fifths
    assert ("not below" in made.four_fifths) == ("not below" in told)


def test_weighted_inputs_have_no_counts_and_different_true_labels_no_common_ratio() -> None:
    made = table(rate("g=a", 0.5, 0.5, 0.5), rate("g=b", 0.25, 0.25, 0.25), engine="enumeration")
    assert [(row.assessed, row.selected) for row in made.rows] == [(None, None)] * 2
    by_truth = table(rate("g=a", 0.5, 0.4, 0.6), rate("g=b", 0.25, 0.2, 0.3), question="P(Y=1 | g=i, truth=1)")
    assert [row.ratio for row in by_truth.rows] == [None, None]
    assert by_truth.four_fifths == ""
    assert selection_table(changed(verdict(2), groups=())) is None
    assert selection_table(changed(verdict(2), kind="individual")) is None


def test_csv_has_every_group_and_those_left_out_and_no_cell_is_a_formula() -> None:
    groups = (rate("=1+1", 0.5, 0.4, 0.6), rate('@sum, "x"\nnext', 0.25, 0.2, 0.3))
    text = selection_csv([table(*groups, left_out=(SmallGroup("-small", 3.0), SmallGroup("few", 0.01)))])
    head, first, second, small, few = list(csv.reader(io.StringIO(text)))
    assert len({len(row) for row in (head, first, second, small, few)}) == 1
    assert (first[1], first[3:6]) == ("'=1+1", ["100", "50", "0.500000"])
    assert second[1].startswith("'@sum")
    assert "\n" not in second[1]
    assert (small[1], small[-1]) == ("'-small", "left out, smaller than min_size: 3 rows")
    assert few[-1] == "left out, smaller than min_size: a share of 0.01"


def test_the_page_has_the_table_the_rows_that_support_it_and_what_is_stated_about_the_audit() -> None:
    facts = RowFacts((GroupFacts("land=group 0", 12, 9),))
    found = replace(findings(3), about=About(auditor="<b>Ada</b>"), facts={verdict(3).question: facts})
    html = page(found)
    for words in (
        "impact ratio",
        "labelled rows",
        "&lt;b&gt;Ada&lt;/b&gt;",
        "not stated",
        "fewer than 30 labelled rows are of land=group 0 (12)",
        "0.750",
    ):
        assert words in html
    assert "<b>Ada</b>" not in html
    bare = page(replace(builders.with_individual(), about=None))
    assert "<bdi>impact ratio</bdi>" not in bare
    assert "Nothing is stated" in bare


def test_what_is_stated_about_an_audit_changes_no_question() -> None:
    told = parse_spec(question() | {"about": {"auditor": "Ada", "audit_date": "2026-11-17"}})
    assert told.about == About(auditor="Ada", audit_date="2026-11-17")
    assert meaning_of(told) == meaning_of(parse_spec(question()))
    with pytest.raises(fairchain.SpecError, match=says(UNKNOWN_KEY, key="about.auditer")):
        parse_spec(question() | {"about": {"auditer": "Ada"}})
