"""The report in Markdown: nothing in a name acts, and every number has its interval."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace as changed

from fairchain.report.markdown import code, escape, for_pull_request, markdown, summary

from .builders import HOSTILE, findings, gap, interval, verdict

NAMES = [
    *HOSTILE,
    "a|b",
    "`tick` ``two``",
    "[link](x:y)",
    "![image](x)",
    "*bold* _it_ ~~s~~",
    "# title",
    "line\nend",
    "<!-- c -->",
    "&amp;",
    "\\",
]


def html(text: str) -> str:
    return MarkdownIt("gfm-like", {"linkify": False}).render(text)


def seen(text: str) -> str:
    """What a reader sees of a paragraph, and that there is nothing in it but text."""
    rendered = html(f"x {text} y")
    found = re.fullmatch(r"<p>x (.*) y</p>\n", rendered, flags=re.DOTALL)
    assert found is not None, rendered
    inner = found[1]
    assert "<" not in inner, inner
    from html import unescape

    return unescape(inner)


def test_an_escaped_name_is_seen_as_it_is_and_does_nothing() -> None:
    for name in NAMES:
        shown = seen(escape(name)).replace("\N{WORD JOINER}", "")
        expected = " ".join(name.split())
        visible = [letter for letter in expected if letter.isprintable() and letter != "\u202e"]
        assert [letter for letter in visible if letter not in shown] == []
        if expected.isprintable():
            assert shown == expected


def test_nobody_is_called_and_nothing_linked() -> None:
    text = escape("@everyone see https://example.org or www.example.org")
    assert "@everyone" not in text
    assert "://" not in text
    assert "www." not in text


def test_code_holds_any_number_of_backticks() -> None:
    for name in ("a", "`", "``a``", "a|b", "``` ` ```"):
        assert html(code(name)).startswith("<p><code>")
        assert html(code(name)).count("<code>") == 1


def test_a_whole_report_keeps_its_tables_whatever_the_names() -> None:
    page = html(markdown(findings(6, 20)))
    assert page.count("<table>") == 3
    assert "<script>" not in page
    assert "<img" not in page
    assert page.count("<h1>") == 1
    cells = re.findall(r"<tr>(.*?)</tr>", page, flags=re.DOTALL)
    assert {row.count("</td>") for row in cells if "<td" in row} == {2, 3}


def test_a_pull_request_gets_one_section_with_verdict_groups_and_certificate() -> None:
    text = for_pull_request(verdict(5), title="a|b.toml", certificate="certificate.json")
    page = html(text)
    assert page.count("<h3>") == 1
    assert "a|b.toml" in page
    assert page.count("<tr>") == 6
    assert "certificate.json" in page
    assert "A remark with &lt;i&gt;markup&lt;/i&gt;." in page


def test_many_groups_are_cut_and_counted() -> None:
    assert "... and 20 more groups." in for_pull_request(verdict(60), title="t")


def test_what_was_measured_is_said_in_the_words_of_its_kind() -> None:
    ratio = changed(verdict(3, "FAIR"), kind="ratio", threshold=0.8)
    assert ratio.headline == "the smallest ratio is 0.3000 [0.2800, 0.3200], above the threshold 0.8"
    exact = changed(verdict(3, "FAIR"), delta=0.0, gap=gap(0.1, 0.0, "a", "b"))
    assert exact.headline == "the largest gap is 0.1000, exactly the threshold 0.1"


@pytest.mark.parametrize(
    ("inputs", "alone"), [("individuals", "with the protected features alone"), ("texts", "with the terms alone")]
)
def test_what_changes_is_called_by_its_name(inputs: str, alone: str) -> None:
    share = changed(verdict(3), kind="individual", inputs=inputs)
    assert share.headline.startswith(f"the share of {inputs} whose decision changes {alone} is 0.3000")


def test_a_verdict_that_is_not_sound_says_so_first() -> None:
    assert summary(changed(verdict(3, "FAIR"), sound=False)).startswith("✅ **FAIR (NOT SOUND)**")


def test_rows_have_no_seed() -> None:
    made = findings(3, 12)
    assert "Seed 0 (chosen)" in markdown(made)
    rows = replace(made, verdict=changed(made.verdict, seed=None, seed_origin=None, evaluations=0))
    assert "Seed" not in markdown(rows)
    assert "None" not in markdown(rows)


def test_a_repair_tells_its_price_with_an_interval() -> None:
    text = markdown(findings(3, 12))
    assert "Price: accuracy 0.8500 before, 0.8450 after, change -0.0050 [-0.0090, -0.0010], on 3,000 held-out" in text
    made = findings(3, 12)
    assert made.repair is not None
    assert made.repair.price is not None
    price = changed(made.repair.price, measure="agreement", change=interval(-0.03, 0.01), delta=0.0, on="all 90 rows")
    told = markdown(replace(made, repair=changed(made.repair, price=price)))
    assert "Price: the share of unchanged decisions is 0.970 [0.960, 0.980], on all 90 rows." in told


def test_a_part_that_is_not_there_has_its_reason() -> None:
    made = replace(findings(3, 12, accepted=False), left_out={"chain": "too <many> states"})
    assert "- No chain: too \\<many\\> states" in markdown(made)
    assert "## The repair: none was accepted" in markdown(made)
