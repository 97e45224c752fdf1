"""JUnit XML: what build servers accept, whatever the names are."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from fairchain.report.junit import junit
from fairchain.verification.record import VerdictRecord

from .builders import HOSTILE, OUTCOME, verdict

# What the widely used schema allows inside each element, in this order, and which attributes it demands.
CHILDREN = {
    "testsuites": ["testsuite"],
    "testsuite": ["testcase"],
    "testcase": ["error", "failure", "system-out"],
    "failure": [],
    "error": [],
    "system-out": [],
}
DEMANDED = {
    "testsuites": {"tests", "failures", "errors", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testcase": {"name", "classname", "time"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
}


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode())


def check(element: ElementTree.Element) -> None:
    allowed = CHILDREN[element.tag]
    places = [allowed.index(child.tag) for child in element]
    assert places == sorted(places)
    assert set(element.attrib) == DEMANDED.get(element.tag, set())
    for child in element:
        check(child)


def made(**decisions: str) -> dict[str, VerdictRecord]:
    return {name: changed(verdict(6, decision), seconds=0.25) for name, decision in decisions.items()}


@pytest.mark.parametrize(
    ("decision", "problem"), [("FAIR", None), ("UNFAIR", "failure"), ("UNDECIDED", "error")]
)  # fmt: skip
def test_each_verdict_has_its_own_kind_of_result(decision: str, problem: str | None) -> None:
    case = read(junit(made(one=decision))).find("./testsuite/testcase")
    assert case is not None
    assert [child.tag for child in case] == ([problem] if problem else []) + ["system-out"]


def test_the_counts_add_up() -> None:
    root = read(junit(made(a="FAIR", b="UNFAIR", c="UNDECIDED", d="UNFAIR")))
    check(root)
    for element in (root, root[0]):
        assert [element.get(key) for key in ("tests", "failures", "errors", "time")] == ["4", "2", "1", "1.000"]
    assert [case.get("name") for case in root[0]] == ["a", "b", "c", "d"]


def test_names_with_markup_and_characters_that_xml_forbids_are_text() -> None:
    lone = "\ud800\ufffe\x1b[31m]]>"
    found = changed(verdict(6), notes=(lone,))
    root = read(junit({f"{HOSTILE[0]}{HOSTILE[3]}{lone}": found}, suite="<suite>"))
    check(root)
    out = root.findtext("./testsuite/testcase/system-out")
    assert out is not None
    assert f"P({OUTCOME} | {HOSTILE[0]})" in out
    assert HOSTILE[1] in out
    name = root[0][0].get("name")
    assert name is not None
    assert name.startswith(HOSTILE[0])
    assert not any(letter in name for letter in "\x00\x07\x1b")


@given(name=st.text(max_size=20), group=st.text(max_size=20), note=st.text(max_size=20))
@settings(max_examples=100)
def test_any_text_at_all_gives_xml_that_can_be_read(name: str, group: str, note: str) -> None:
    made_up = verdict(2)
    first, *others = made_up.groups
    made_up = changed(made_up, groups=(changed(first, name=group), *others), notes=(note,), scope=note)
    check(read(junit({name: made_up}, suite=group)))


def test_the_message_says_what_was_measured_and_the_text_what_it_means() -> None:
    failure = read(junit(made(one="UNFAIR"))).find(".//failure")
    assert failure is not None
    assert failure.get("message") == "UNFAIR: the largest gap is 0.3000 [0.2800, 0.3200], above the threshold 0.1"
    assert "would have said UNFAIR" in str(failure.text)


def test_a_verdict_that_is_not_sound_says_so() -> None:
    unsound = changed(verdict(3, "FAIR"), sound=False)
    assert "FAIR (NOT SOUND)" in str(read(junit({"one": unsound})).findtext(".//system-out"))


def test_no_verdicts_are_an_empty_suite() -> None:
    root = read(junit({}))
    check(root)
    assert root.get("tests") == "0"
