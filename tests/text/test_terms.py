"""Promises of `text.terms`: lists that ship are sound, and a list that cannot be meant gives one message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairchain.errors import SpecError
from fairchain.spec import CategoryFeature
from fairchain.text.files import NO_FILE
from fairchain.text.terms import (
    LISTS_NOT_PARALLEL,
    NEUTRAL,
    NEUTRAL_WORDS_NEEDED,
    SHIPPED,
    UNKNOWN_TERM_LIST_SUFFIX,
    kept_words,
    shipped,
    terms_of,
)
from tests.messages import says

VALUES = {
    "religion": ("christian", "muslim", "jewish", "hindu", "buddhist", "atheist", "none"),
    "race": ("white", "black", "asian", "none"),
    "gender": ("male", "female", "none"),
}


def feature(terms: Any, *values: str) -> CategoryFeature:
    return CategoryFeature(name="who", values=values or ("sun", "moon", "none"), terms=terms)


@pytest.mark.parametrize("name", SHIPPED)
def test_lists_that_ship_can_be_exchanged_form_by_form(name: str) -> None:
    terms = terms_of(feature(name, *VALUES[name]))
    assert terms.none_value == "none"
    for value in VALUES[name]:
        exchange = terms.exchange(value)
        assert set(exchange) == terms.all_words
        own = terms.words[value] or terms.neutral
        assert own is not None
        assert set(exchange.values()) <= set(own)
        # A term of the value itself stays as it is.
        assert all(exchange[word] == word for word in terms.words[value])


@pytest.mark.parametrize("name", SHIPPED)
def test_all_values_of_a_list_have_as_many_forms(name: str) -> None:
    assert len({len(words) for words in shipped(name).values()}) == 1


def test_an_exchange_keeps_the_form() -> None:
    terms = terms_of(feature("religion", *VALUES["religion"]))
    assert terms.exchange("jewish")["muslims"] == "jews"
    assert terms.exchange("jewish")["muslim"] == "jewish"
    assert terms.exchange("muslim")["jew"] == "muslim"
    assert terms.exchange("none")["islam"] == "religion"


def test_terms_of_all_lists_are_kept() -> None:
    for name in SHIPPED:
        for value, words in shipped(name).items():
            assert value == NEUTRAL or set(words) <= kept_words()


def test_a_file_is_read_as_a_table_is(tmp_path: Path) -> None:
    table = {"sun": ["sunny"], "moon": ["moony"], "neutral": ["cloudy"]}
    (tmp_path / "t.json").write_text(json.dumps(table))
    (tmp_path / "t.toml").write_text('sun = ["sunny"]\nmoon = ["moony"]\nneutral = ["cloudy"]\n')
    expected = terms_of(feature(table))
    for name in ("t.json", "t.toml"):
        found = terms_of(feature(str(tmp_path / name)))
        assert found == expected
        assert found.sha256 == expected.sha256


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ("faith", 'unknown list "faith"; expected one of "religion", "race", "gender"'),
        ({"sun": ["sunny", "light"], "moon": ["light"]}, '"light" is a word of "sun" and of "moon"'),
        ({"sun": ["sunny"], "mon": ["moony"]}, r'no words for "moon" \(did you mean "mon"\?\)'),
        ({"sun": ["sunny"], "moon": []}, '"moon" and "none" both have no words'),
        ({"sun": ["sunny"], "moon": ["full moon"]}, r'"full moon" of "moon" is 2 words \(full, moon\)'),
        ({"sun": ["s\nnies"], "moon": ["moony"]}, r'"s\\nnies" of "sun" is 2 words'),
        ({"sun": ["sunny"], "moon": ["!"]}, r"is 0 words \(none\)"),
        ({"sun": [], "moon": []}, "both have no words"),
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(terms: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        terms_of(feature(terms))


@pytest.mark.parametrize(
    ("content", "message"),
    [("sun = ", "not valid TOML"), ('sun = "sunny"', "a list of words"), ("sun = [1]", "a list of words")],
)
def test_a_bad_file_is_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(content)
    with pytest.raises(SpecError, match=message):
        terms_of(feature(str(path)))
    with pytest.raises(SpecError, match=says(NO_FILE)):
        terms_of(feature(str(tmp_path / "none.toml")))
    with pytest.raises(SpecError, match=says(UNKNOWN_TERM_LIST_SUFFIX)):
        terms_of(feature(str(tmp_path / "t.yaml")))


def test_lists_that_are_not_parallel_cannot_be_exchanged() -> None:
    uneven = terms_of(feature({"sun": ["sunny", "sunnies"], "moon": ["moony"], "neutral": ["cloudy"]}))
    with pytest.raises(
        SpecError,
        match=says(LISTS_NOT_PARALLEL, other="moon", words_count="1", value="sun", target_count="2"),
    ):
        uneven.exchange("sun")
    nobody = terms_of(feature({"sun": ["sunny"], "moon": ["moony"]}))
    with pytest.raises(SpecError, match=says(NEUTRAL_WORDS_NEEDED)):
        nobody.exchange("none")
