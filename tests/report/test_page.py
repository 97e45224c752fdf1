"""The page: every number stands in it, nothing in a name can act, and nothing is loaded from anywhere."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from html import escape as html_escape
from html import unescape as html_unescape
from html.parser import HTMLParser
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from fairchain.messages import plain
from fairchain.number_format import share, with_interval
from fairchain.report.explanation_section import NO_WORD_EFFECT
from fairchain.report.findings import Findings
from fairchain.report.markdown import code, escape, markdown
from fairchain.report.markup import el
from fairchain.report.page import HOW_TO_READ, page
from fairchain.report.plots.frame import fit, round_numbers, text_width
from fairchain.report.plots.matrix import matrix
from fairchain.report.selection_table import GroupFacts, RowFacts, selection_table
from fairchain.report.verdict_section import NO_SUPPORT
from fairchain.verification.all_pairs import AllPairs
from fairchain.verification.record import EvaluatedGroup, Pair, VerdictRecord
from tests.report import builders
from tests.report.builders import KINDS, chain, findings, names, verdict


class Reader(HTMLParser):
    """Collects tags with their attributes, and checks that they close in order."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "hr", "link", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


def test_the_page_has_every_part_and_is_small() -> None:
    html = page(findings(20, 500))
    assert len(html.encode()) < 500_000
    parts = {attrs["id"] for tag, attrs in read(html).tags if tag == "h2"}
    assert parts == {"groups", "pairs", "why", "witnesses", "repair", "population", "about", "recheck", "annex"}
    folded = {attrs.get("id") for tag, attrs in read(html).tags if tag == "details"}
    assert folded >= {"errors", "chain", "sensitivities", "changes", "details", "files"}


def test_the_page_of_many_groups_is_small_and_tells_which_are_in_the_matrix() -> None:
    html = page(findings(150, 2000))
    assert len(html.encode()) < 1_000_000
    assert "The table has 20 of 150 groups" in html
    # All groups have their probability, and the pair with the largest gap is in the matrix.
    assert all(f"land=group {i}<" in html for i in range(140))
    assert f'data-row="{names(150)[-1]}" data-column="{html_escape(names(150)[0])}"' in html


def test_the_largest_gap_is_looked_for_a_few_times_and_not_once_for_every_pair() -> None:
    found, looked = findings(40), []
    size = Findings.size
    with patch.object(Findings, "size", lambda self, pair: (looked.append(pair), size(self, pair))[1]):
        page(found)
    assert len(found.pairs) == 40 * 39 // 2
    assert len(looked) <= 5 * len(found.pairs)


def test_names_with_markup_are_text() -> None:
    """Names that would run a script, break out of an attribute or turn a line around."""
    reader = read(page(findings(6)))
    tags = {tag for tag, _ in reader.tags}
    assert tags.isdisjoint({"img", "u"})
    assert sum(tag == "script" for tag, _ in reader.tags) == 1
    assert not any(key.startswith("on") for _, attrs in reader.tags for key in attrs)
    assert any("<script>alert(1)</script>" in text for text in reader.text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", page(findings(6)))


def test_nothing_is_loaded_from_elsewhere() -> None:
    reader = read(page(findings()))
    for tag, attrs in reader.tags:
        assert tag not in ("link", "iframe", "object", "base", "form")
        assert "src" not in attrs
        assert (attrs.get("href") or "#").startswith("#")
    policy = next(attrs["content"] for tag, attrs in reader.tags if "http-equiv" in attrs)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_every_picture_can_be_read_without_seeing_it() -> None:
    pictures = [attrs for tag, attrs in read(page(findings())).tags if tag == "svg"]
    # Five of the seven are drawn twice, for wide and for narrow pages.
    assert len(pictures) == 12
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in pictures)


def test_headings_go_down_one_level_at_a_time() -> None:
    levels = [int(tag[1]) for tag, _ in read(page(findings())).tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_numbers_in_the_pictures_are_those_of_the_findings() -> None:
    found = findings(4, 20)
    reader = read(page(found))
    rows = {attrs["data-name"]: attrs for _, attrs in reader.tags if "data-low" in attrs}
    for group in found.groups:
        attrs = rows[plain(group.name)]
        assert (attrs["data-estimate"], attrs["data-low"]) == (repr(group.estimate), repr(group.low))
    cells = {(attrs["data-row"], attrs["data-column"]): attrs for _, attrs in reader.tags if "data-row" in attrs}
    # One cell for each pair, below the diagonal: the later group minus the earlier one.
    assert len(cells) == 4 * 3 // 2
    first, second = found.pairs[0].first, found.pairs[0].second
    assert float(cells[plain(second), plain(first)]["data-estimate"] or 0) == -found.pairs[0].estimate
    shares = [float(attrs["data-share"] or 0) for _, attrs in reader.tags if "data-share" in attrs]
    # Three strands, each whole in each of the two columns.
    assert sum(shares) == pytest.approx(3 * 2)


def test_a_verdict_alone_makes_a_page_too() -> None:
    from fairchain.report.findings import Findings

    html = page(Findings("a.toml", verdict(2, "FAIR")))
    assert "FAIR" in html
    assert 'id="repair"' not in html


def test_a_repair_that_was_not_accepted_says_so() -> None:
    assert "none was accepted" in page(findings(accepted=False))
    assert "none was accepted" in markdown(findings(accepted=False))


def test_a_repair_all_of_whose_candidates_failed_has_no_number_that_was_not_found() -> None:
    made = findings(accepted=False)
    assert made.repair is not None
    (attempt,) = made.repair.attempts
    attempt = changed(attempt, decision="FAILED", gap=None, why="no decision for the input x=0")
    made = replace(made, repair=changed(made.repair, after=None, price=None, attempts=(attempt,)))
    for told in (page(made), markdown(made)):
        assert "none was accepted" in told
        assert "None" not in told
    assert "no decision for the input x=0" in page(made)


def test_the_picture_of_a_chain_adds_up() -> None:
    from fairchain.report.chain_flow import flow_of

    flow = flow_of(chain(5), names(5), names(5)[-1], names(5)[0])
    assert flow is not None
    assert [strand.tone for strand in flow.strands] == ["more", "others", "less"]
    for strand in flow.strands:
        for column in range(len(flow.columns)):
            assert sum(part for (place, _), part in strand.states.items() if place == column) == pytest.approx(1)
            assert sum(part for (place, *_), part in strand.steps.items() if place == column) == pytest.approx(1)


def test_every_ribbon_tells_the_share_that_is_drawn() -> None:
    """The width of a ribbon is a share of the group; the probability of the step is named as what it is."""
    from fairchain.report.chain_flow import flow_of
    from fairchain.report.plots.flow import flow_picture

    flow = flow_of(chain(5), names(5), names(5)[-1], names(5)[0])
    assert flow is not None
    picture = flow_picture("t", "a", flow, ["u"] * len(flow.columns), [strand.name for strand in flow.strands])
    drawn = html_unescape(str(picture))
    for strand in flow.strands:
        for (column, one, other), amount in strand.steps.items():
            source = f" from {one}" if column else ""
            assert f"{share(amount)} of {plain(strand.name)} go{source} to {other}" in drawn or amount < 0.002
            known = strand.bounds.get((column, one, other))
            if column and known and amount >= 0.002:
                assert f"; of those in {one}, a share of {with_interval(*known)} does" in drawn


def test_no_cell_of_the_matrix_looks_like_the_threshold_unless_it_is() -> None:
    gaps = {("b", "a"): (0.09995, 0.0891, 0.10004), ("a", "b"): (-0.09995, -0.10004, -0.0891)}
    drawn = str(matrix("c", ["a", "b"], gaps, 0.1))
    assert "+0.0999<" in drawn
    assert "+0.10004" in drawn
    assert not re.search(r"[+ \[-]0\.100[^0-9]", drawn)
    assert "+0.100<" in str(matrix("c", ["a", "b"], {("b", "a"): (0.1, 0.1, 0.1)}, 0.1))


def test_a_chain_that_comes_back_is_not_drawn_in_columns() -> None:
    import numpy as np

    from fairchain.chain import Chain
    from fairchain.report.chain_flow import flow_of

    loop = Chain(
        ("Start", "g", "h", "Y=a"),
        np.array([0, 1, 2, 2, 3]),
        np.array([1, 2, 1, 3, 3]),
        np.array([1, 1, 0.5, 0.5, 1.0]),
        {},
    )
    assert flow_of(loop, ["g"], "g", "g") is None


@given(st.text())
def test_any_text_is_text(text: str) -> None:
    reader = read(str(el("p", text, title=text)))
    assert [tag for tag, _ in reader.tags] == ["p"]
    assert "".join(reader.text).replace("\r", "") == plain(text).replace("\r", "")


@given(st.text(min_size=1, max_size=60), st.floats(40, 300))
def test_a_name_is_shortened_to_its_width_and_keeps_both_ends(text: str, width: float) -> None:
    shown, whole = fit(text, width), plain(text).replace("\n", " ")
    assert text_width(shown) <= width
    assert (shown[0], shown[-1]) == (whole[0], whole[-1])
    assert (shown == whole) == (text_width(whole) <= width)


@given(st.floats(-5, 5), st.floats(1e-6, 10))
def test_an_axis_has_round_numbers_inside(low: float, width: float) -> None:
    ticks = round_numbers(low, low + width)
    assert 1 <= len(ticks) <= 12
    slack = 1e-9 * width + 1e-12
    assert all(low - slack <= tick <= low + width + slack for tick in ticks)


def test_markdown_in_names_does_not_act() -> None:
    text = markdown(findings(6))
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert escape("a|b*c_d[e](f)<g>") == r"a\|b\*c\_d\[e\](f)\<g\>"
    assert code("a`b") == "`` a`b ``"
    assert all(len(line) < 2000 for line in text.splitlines())


def test_an_interval_has_as_many_digits_as_it_gives_meaning_to() -> None:
    assert with_interval(0.123456, 0.1234, 0.1235) == "0.12346 [0.12340, 0.12350]"
    assert with_interval(0.123456, 0.0, 0.5) == "0.123 [0.000, 0.500]"
    assert with_interval(0.123456, 0.0, 0.5, least=4) == "0.1235 [0.0000, 0.5000]"
    assert with_interval(0.25, 0.25, 0.25) == "0.2500"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_pages_of_all_kinds_of_audits_are_whole_and_escaped(kind: str) -> None:
    html = page(KINDS[kind]())
    reader = read(html)
    assert {attrs["id"] for tag, attrs in reader.tags if tag == "h2"} >= {"population", "recheck", "annex"}
    assert sum(tag == "script" for tag, _ in reader.tags) == 1
    assert not any(key.startswith("on") for _, attrs in reader.tags for key in attrs)
    assert "None" not in "".join(reader.text)
    assert "nan" not in re.findall(r"\w+", "".join(reader.text))
    assert markdown(KINDS[kind]())


def parts_of(html: str) -> dict[str, str]:
    """The text of each section and each folded part of the annex, by its name."""
    found = re.split(r'<(?:h2|details) id="(\w+)">', html)
    return dict(zip(found[1::2], (re.sub("<[^>]+>", " ", part) for part in found[2::2]), strict=True))


def test_a_ratio_has_a_matrix_of_ratios_and_every_outcome() -> None:
    parts = parts_of(page(builders.with_ratio()))
    assert "the smaller rate divided by the larger" in parts["pairs"]
    # 0.3 / 0.45, 0.3 / 0.6 and 0.45 / 0.6, two of them surely below 0.8, and 0.75 + 0.03 too.
    assert "Of 3 pairs, 3 are known to have a ratio below 0.8" in parts["pairs"]
    shown = " ".join(parts["pairs"].split())
    assert shown.count("0.500") == 1
    assert "0.750 [0.720, 0.780]" in shown
    # The smallest ratio is the verdict's, whose interval is at the top of the page, and has no second one.
    assert "0.5000 smallest" in shown
    assert "[0.470, 0.530]" not in shown
    assert "later" in parts["groups"]


def test_of_rows_nothing_is_said_about_rounds_or_fresh_people() -> None:
    parts = parts_of(page(builders.with_rows()))
    assert "All rows were counted: these numbers are exact" in parts["groups"]
    assert not any("rounds" in parts[key] for key in ("groups", "details"))
    assert "Not possible here: a sample &lt;is&gt; used up by one look." in parts["repair"]
    assert "chain" not in parts


def test_a_chain_that_comes_back_is_a_table_of_where_groups_part() -> None:
    part = parts_of(page(builders.with_texts()))["chain"]
    assert "Steps in which the groups differ most" in part
    assert "lstm1 calm" in part
    assert "0.300 [0.290, 0.310]" in part
    assert "One text, two decisions" in page(builders.with_texts())


def test_words_are_shown_where_a_model_of_texts_has_no_units() -> None:
    """The page of a text pipeline had no section at all about the words that were found."""
    found = builders.with_texts()
    assert found.explanation is not None
    bare = replace(found, explanation=changed(found.explanation, units=(), layers=()))
    assert html_escape(found.explanation.words[0].word) in parts_of(page(bare))["why"]


def test_words_without_a_shown_effect_are_said_to_have_none() -> None:
    found = builders.with_texts()
    assert found.explanation is not None
    (word,) = found.explanation.words
    none = changed(word, effect=builders.interval(0.0))
    without = replace(found, explanation=changed(found.explanation, words=(none,)))
    for shown, said in ((found, False), (without, True)):
        assert (NO_WORD_EFFECT in parts_of(page(shown))["why"]) == said


def test_the_picture_of_many_groups_has_the_extreme_ones_and_says_so() -> None:
    part = parts_of(page(findings(150, 10)))["groups"]
    assert "The 20 highest and the 20 lowest of 150 groups." in part
    assert "The 20 highest" not in parts_of(page(findings(40, 10)))["groups"]


def test_a_page_has_one_interval_for_the_largest_gap() -> None:
    """The separate measurement of the effects is in its own file, and a single pair has no second interval."""
    found = findings(4, 20)
    assert found.explanation is not None
    apart = replace(found, explanation=changed(found.explanation, gap=builders.interval(0.2777)))
    parts = parts_of(page(apart))
    assert [key for key, part in parts.items() if "0.278" in part] == []
    assert "pairs" not in parts_of(page(findings(2, 10)))


def test_the_smallest_ratio_has_the_number_and_the_interval_of_the_verdict_everywhere() -> None:
    """The rates alone allow a wider interval for the same ratio; the page had both."""
    found = builders.with_ratio()
    rated = tuple(g for g in found.verdict.groups if g.outcome == builders.OUTCOME)
    told = changed(found.verdict, question="for all i, j: P(Y=h | land=i) / P(Y=h | land=j) >= 0.8", groups=rated)
    other = changed(told, question="another", kind="individual")
    parts = parts_of(page(replace(found, verdict=told, questions=(told, other))))
    measured = told.measured
    assert measured == "0.5000 [0.4800, 0.5200]"
    assert f"{measured} (smallest)" in parts["groups"]
    assert f"The smallest impact ratio is {measured}, below four fifths" in parts["groups"]
    assert measured in parts["questions"]
    # 0.29 / 0.61 and 0.31 / 0.59 are the ends that the rates allow.
    assert not any("0.475, 0.525" in part for part in parts.values())
    # Where the verdict is about another question, the rates are what is known.
    one_sided = changed(told, question="for all i: P(Y=h | land=i) / P(Y=h) >= 0.8")
    assert "[0.475, 0.525]" in parts_of(page(replace(found, verdict=one_sided)))["groups"]


def test_the_cell_of_the_largest_gap_has_the_number_of_the_verdict() -> None:
    parts = parts_of(page(findings(4, 20)))
    shown = " ".join(parts["pairs"].split())
    assert "+0.3000 largest" in shown
    assert "[+0.280, +0.320]" not in shown
    assert "[+0.180, +0.220]" in shown


def test_pairs_that_the_verdict_knows_to_fail_are_counted_and_marked() -> None:
    """An UNFAIR page said that no pair is known to fail, since the intervals of all pairs together are wider."""
    found = findings(3, 12)
    first, second = names(3)[:2]
    wide = AllPairs(tuple(changed(p, low=-1.0, high=1.0) for p in found.pairs), "difference", 1e-6)
    known = changed(found.verdict, violators=(Pair(second, first, builders.OUTCOME),))
    before = parts_of(page(replace(found, all_pairs=wide)))["pairs"]
    assert "Of 3 pairs, 0 are known to have a gap above 0.1" in before
    after = parts_of(page(replace(found, all_pairs=wide, verdict=known)))["pairs"]
    assert "Of 3 pairs, 1 is known to have a gap above 0.1" in after
    assert page(replace(found, all_pairs=wide, verdict=known)).count(' fails"') == 1


def test_after_a_repair_a_question_has_one_number_and_the_others_are_named() -> None:
    """All questions are asked again about the repaired model; the number that accepted it is the one that is shown."""
    found = findings(2, 12)
    assert found.repair is not None
    assert found.repair.after is not None
    own = found.verdict
    other = changed(own, question="for all i, j: |P(Y=h | sex=i) - P(Y=h | sex=j)| <= 0.1")
    again = changed(found.repair.after, gap=builders.gap(0.0513, 0.02, own.gap.more, own.gap.less))
    worse = changed(other, gap=builders.gap(0.4321, 0.02, own.gap.more, own.gap.less))
    several = replace(found, questions=(own, other), questions_after=(again, worse))
    html = page(several)
    assert "0.0513" not in html
    assert "0.4321" in html
    parts = parts_of(html)
    assert f"{found.repair.after.word} {found.repair.after.measured}" in " ".join(parts["questions"].split())
    assert "All 2 questions after the repair: 1 FAIR, 1 UNFAIR. Not FAIR: the gap by land." in " ".join(
        parts["repair"].split()
    )
    assert "the other questions after the repair" in parts["errors"]
    assert several.all_selections_after[0].rows == selection_rows(found.repair.after)


def selection_rows(record: VerdictRecord) -> object:
    made = selection_table(record)
    assert made is not None
    return made.rows


def test_no_number_below_zero_looks_like_zero() -> None:
    assert with_interval(0.013, -0.0004, 0.026) == "0.0130 [-0.0004, 0.0260]"
    assert with_interval(0.0, -1e-9, 0.5) == "0.000000 [0.000000, 0.500000]"
    assert with_interval(0.1, 0.0, 0.2) == "0.100 [0.000, 0.200]"
    drawn = str(matrix("c", ["a", "b"], {("b", "a"): (-0.0001, -0.3, 0.3)}, 0.1))
    assert "-0.000<" not in drawn


def test_no_impact_ratio_looks_like_four_fifths_unless_it_is() -> None:
    groups = (EvaluatedGroup("g=a", "h", 0.5, 0.5, 0.5, 10000), EvaluatedGroup("g=b", "h", 0.39996, 0.39, 0.41, 10000))
    made = selection_table(changed(verdict(2), groups=groups), outcome="h")
    assert made is not None
    assert made.shown_ratio(made.rows[1]).startswith("0.7999")


def test_a_page_of_profiles_says_that_support_by_real_rows_is_unknown() -> None:
    found = findings(3)
    unknown = RowFacts(tuple(GroupFacts(name) for name in names(3)))
    assert NO_SUPPORT in html_unescape(page(replace(found, facts={found.verdict.question: unknown})))
    known = RowFacts(tuple(GroupFacts(name, 500) for name in names(3)))
    assert NO_SUPPORT not in html_unescape(page(replace(found, facts={found.verdict.question: known})))


def test_the_reading_guide_needs_no_word_of_statistics() -> None:
    """Words that a reader would have to look up; each term that the page uses is explained."""
    guide = " ".join([*HOW_TO_READ, *HOW_TO_READ.values()]).lower()
    for word in ("probability", "confidence", "estimate", "distribution", "ablat", "martingale", "hypothesis", "delta"):
        assert word not in guide
    for term in ("group", "threshold", "gap", "ratio", "brackets", "assessed", "selected", "selection rate", "effect"):
        assert term in guide
    assert all(len(sentence.split()) <= 32 for text in HOW_TO_READ.values() for sentence in text.split(". "))


def test_codes_are_decoded_where_the_spec_names_them() -> None:
    """A card had age 31, and an effect age = 31, where the spec says that 31 means 70-79."""
    found = findings(3, 12)
    assert found.explanation is not None
    first, *others = found.explanation.units
    held = changed(first, name="age", kind="feature", held_at=31.0, held_as="31")
    found = replace(found, explanation=changed(found.explanation, units=(held, *others)), repair=None)
    plain_page, decoded = page(found), page(replace(found, codes={"age": {31.0: "70-79"}}))
    assert ("age = 31" in plain_page, "<bdi>31</bdi>" in plain_page) == (True, True)
    assert ("age = 31" in decoded, "<bdi>31</bdi>" in decoded) == (False, False)
    assert ("age = 70-79" in decoded, "<bdi>70-79</bdi>" in decoded) == (True, True)


def test_a_fair_page_does_not_speak_of_units_that_carry_a_gap() -> None:
    part = parts_of(page(builders.fair()))["chain"]
    assert "No unit was found to carry a gap" in part
    assert "carry much of the gap" not in part


def test_an_individual_question_is_drawn_for_the_groups_that_are_explained() -> None:
    parts = parts_of(page(builders.with_individual()))
    assert "groups" not in parts
    assert "pairs" not in parts
    assert "land=group 1" in parts["chain"]
    assert parts["why"].split()[:5] == ["Why:", "the", "features", "behind", "the"]


def test_the_band_is_left_out_where_not_all_groups_are_compared() -> None:
    whole = findings(4, 10)
    assert whole.all_pairs is not None
    some = replace(whole, all_pairs=changed(whole.all_pairs, pairs=whole.all_pairs.pairs[:2]))
    assert 'class="band"' in page(replace(whole, repair=None))
    assert 'class="band"' not in page(replace(some, repair=None))
    first, *others = whole.verdict.groups
    everybody = changed(whole.verdict, groups=(changed(first, name="overall"), *others))
    overall = replace(whole, all_pairs=None, repair=None, verdict=everybody)
    assert "no estimate differs from the overall one by more than the threshold allows" in page(overall)


def test_a_layer_of_hundreds_of_units_is_drawn_in_several_rows_and_the_page_stays_small() -> None:
    html = page(findings(20, 5000))
    assert len(html.encode()) < 500_000
    assert "The 600 largest of 5,000 units" in html


@settings(max_examples=25)
@given(st.lists(st.text(min_size=1, max_size=20), min_size=3, max_size=3, unique=True))
def test_any_names_of_groups_are_text_in_every_picture(every: list[str]) -> None:
    with patch.object(builders, "names", lambda count: every[:count]):
        found = findings(3, 4)
    reader = read(page(found))
    assert {tag for tag, _ in reader.tags} == {tag for tag, _ in read(page(findings(3, 4))).tags}
    # As many lines and cells as with plain names: no name ends a line or a cell.
    lines, expected = (markdown(each).split("\n") for each in (found, findings(3, 4)))
    cells = [[len(re.findall(r"(?<!\\)\|", line)) for line in each] for each in (lines, expected)]
    assert cells[0] == cells[1]


def test_of_a_recurrent_layer_the_page_says_which_step_is_drawn() -> None:
    found, told = findings(3, 20), "shown after the last step"
    assert told not in page(found)
    assert found.explanation is not None
    assert found.chain is not None
    drawn = str(found.chain.metadata["states"][0])
    first, *others = found.explanation.units
    units = (changed(first, name=drawn, kind="cell"), *others)
    assert told in page(replace(found, explanation=changed(found.explanation, units=units)))


def test_no_interval_is_said_to_hold_that_carries_no_guarantee() -> None:
    """A tiny delta is not rounded away; of the paper's rule nothing is promised."""
    found = findings(3, 20)
    assert "probability at least 1 - 1e-12." in page(replace(found, verdict=changed(found.verdict, delta=1e-12)))
    shown = page(replace(found, all_pairs=None, verdict=changed(found.verdict, sound=False)))
    assert "carry no guarantee" in shown
    assert "hold together with probability" not in shown.partition('id="pairs"')[0].partition('id="chain"')[0]


def test_a_repair_that_lowers_the_rate_of_every_group_says_so() -> None:
    made = findings(3)
    assert made.repair is not None
    assert made.repair.after is not None

    def moved(by: float) -> str:
        groups = tuple(
            changed(each, estimate=each.estimate + by, low=each.low + by, high=each.high + by)
            for each in made.verdict.groups
        )
        after = changed(made.repair.after, groups=groups)
        return html_unescape(page(replace(made, repair=changed(made.repair, after=after))))

    outcome = made.outcome
    assert f"Every group gets “{outcome}” less often than before the repair." in moved(-0.2)
    assert f"Every group gets “{outcome}” more often than before the repair." in moved(0.2)
    assert "Every group gets" not in moved(0.001)
