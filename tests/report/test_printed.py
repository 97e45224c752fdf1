"""Promises of a verdict in Python: `print` and notebooks show all of it, and `to_frame` has the groups."""

from __future__ import annotations

from html import unescape

import pytest

import fairchain
from fairchain.monitoring.monitor import LARGEST_GAP
from fairchain.verification.verifier import UNEXPECTED_KEYWORD
from tests.messages import says
from tests.report.test_sentence import verdict_of

PEOPLE = {"sex": ["F", "M"] * 200, "hired": ["no", "yes", "no", "yes", "yes"] * 80}


def test_print_and_notebooks_show_groups_widest_pair_notes_assumptions_and_witnesses() -> None:
    verdict = fairchain.verify(None, fairchain.example("credit"))
    page = unescape(verdict._repr_html_())
    for shown in (str(verdict), page):
        assert "Widest pair seen: " in shown
        assert "two decisions: " in shown
        assert verdict.statement in shown
        assert verdict.scope in shown
    checked = fairchain.check(None, PEOPLE, protected="sex", prediction="hired")
    for shown in (str(checked), unescape(checked._repr_html_())):
        assert all(text in shown for text in checked.assumptions)
        assert "sex=F" in shown


def test_a_name_cannot_act_in_a_notebook() -> None:
    rows = PEOPLE | {"sex": ["<b>", "M"] * 200}
    assert "<td>sex=<b>" not in fairchain.check(None, rows, protected="sex", prediction="hired")._repr_html_()


def test_the_groups_are_a_frame() -> None:
    pytest.importorskip("pandas")
    verdict = fairchain.check(None, PEOPLE, protected="sex", prediction="hired", reading="population")
    frame = verdict.to_frame()
    assert list(frame.columns) == ["group", "outcome", "rate", "low", "high", "evaluations"]
    assert len(frame) == len(verdict.groups)
    assert frame["rate"].tolist() == [group.probability.estimate for group in verdict.groups]


def test_keywords_of_verify_replace_keys_of_the_spec() -> None:
    spec = fairchain.example("census")
    verdict = fairchain.verify(None, spec, threshold=0.01, delta=1e-3, protected="race")
    assert (verdict.spec.property.threshold, verdict.delta) == (0.01, 1e-3)
    assert verdict.spec.property.protected == ("race",)
    with pytest.raises(TypeError, match=says(UNEXPECTED_KEYWORD, unknown="'treshold'")):
        fairchain.verify(None, spec, treshold=0.01)


def test_progress_true_is_a_line_on_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    from fairchain.verification.progress import Progress, reporting

    with reporting(True) as report:
        assert report is None
    assert Progress(0, 500, 2.0, None, 2000).text.startswith("500 of 2,000 rows evaluated")
    assert Progress(0, 500, 0.5, None, 2000).text == ""
    assert capsys.readouterr().err == ""


def test_assert_fair_hides_its_own_lines_from_pytest() -> None:
    with pytest.raises(AssertionError, match=says(LARGEST_GAP)) as caught:
        fairchain.assert_fair(None, fairchain.example("credit"))
    hidden = [entry for entry in caught.traceback if entry.ishidden(caught)]
    assert any(entry.name == "assert_fair" for entry in hidden)


def test_unseen_rows_and_assumptions_are_in_the_json_form() -> None:
    record = verdict_of("FAIR", "difference").to_dict()
    assert {"engine", "assumptions", "notes", "unseen"} <= set(record)
