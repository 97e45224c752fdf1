"""Promises of `text.terms`: terms are found as whole words in any script, and nothing but a term is ever changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.errors import SpecError
from fairchain.text.terms import TERM_NOT_A_WORD, TermFinder, checked_term, swapped
from tests.messages import says

FOUND: dict[str, tuple[str, list[str], list[str]]] = {
    "any case": ("Muslim MUSLIM muslim", ["muslim"], ["Muslim", "MUSLIM", "muslim"]),
    "beside punctuation": ('"muslim!", (muslim)', ["muslim"], ["muslim", "muslim"]),
    "before an apostrophe": ("he's not here", ["he"], ["he"]),
    "inside a word": ("theme, muslimah", ["he", "muslim"], []),
    "several words": ("a Trans\n people", ["trans people"], ["Trans\n people"]),
    "a hyphen in place of a blank": ("African-American", ["african american"], ["African-American"]),
    "the longer of two": ("old catholic", ["old", "old catholic"], ["old catholic"]),
    "the first of two that overlap": ("black trans women", ["black trans", "trans women"], ["black trans"]),
    "a curly apostrophe": ("Jehovah\u2019s witness", ["jehovah's witness"], ["Jehovah\u2019s witness"]),
    "a combining accent after it": ("he\u0301 he", ["he"], ["he"]),
    "another script": ("\u0939\u093f\u0928\u094d\u0926\u0942, \u0939\u093f", ["\u0939\u093f"], ["\u0939\u093f"]),
    "letters of Greek": ("ΑΘΕΟΣ άθεος", ["άθεος"], ["άθεος"]),
    "a sign at its end": ("LGBTQ+!", ["lgbtq+"], ["LGBTQ+"]),
    "characters that grow in lower case": ("İİİ he", ["he"], ["he"]),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_term_is_found_as_a_whole_word(name: str) -> None:
    text, terms, expected = FOUND[name]
    assert [text[span.start : span.end] for span in TermFinder(terms).spans(text)] == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("the muslims, they", "the old catholics, they"),
        ("Muslims!", "Old catholics!"),
        ("MUSLIMS?!", "OLD CATHOLICS?!"),
        ("(Muslims' own)  \n\tMuslims", "(Old catholics' own)  \n\tOld catholics"),
    ],
)
def test_an_exchange_keeps_case_and_everything_else(before: str, after: str) -> None:
    spans = TermFinder(["muslims"]).spans(before)
    assert swapped(before, spans, {"muslims": "old catholics"}) == after


def test_every_word_of_a_title_gets_its_capital() -> None:
    text = "African Americans and african Americans"
    spans = TermFinder(["african americans"]).spans(text)
    assert swapped(text, spans, {"african americans": "old catholics"}) == "Old Catholics and old catholics"


def test_capitals_of_a_list_stay() -> None:
    assert swapped("the jews", TermFinder(["jews"]).spans("the jews"), {"jews": "Hindus"}) == "the Hindus"


@given(st.text(alphabet="he SHE-'_.\u0301\u00e9\n", max_size=30))
def test_what_is_put_back_gives_the_text_again(text: str) -> None:
    finder = TermFinder(["he", "she"])
    there = swapped(text, finder.spans(text), {"he": "zzq", "she": "zzw"})
    back = swapped(there, TermFinder(["zzq", "zzw"]).spans(there), {"zzq": "he", "zzw": "she"})
    assert back.lower() == text.lower()


def test_a_term_begins_with_a_letter_or_digit() -> None:
    assert checked_term("x", "y", " trans   people ") == "trans people"
    with pytest.raises(SpecError, match=says(TERM_NOT_A_WORD)):
        checked_term("x", "y", "@name")
