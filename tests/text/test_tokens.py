"""Promises of `text.tokens` and `text.lexicon`: one simple rule for words, and numbers from 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairchain.datasets.fetch import NOT_FETCHED
from fairchain.errors import DataError
from fairchain.spec import TextFeature
from fairchain.text import Lexicon, lexicon_of, tokenise
from fairchain.text.lexicon import NO_UNKNOWN_WORD, UNKNOWN_VECTORS, UNKNOWN_WORD_NUMBER
from tests.messages import says


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  ...!? ", []),
        ("Hello, WORLD", ["hello", "world"]),
        ("don't can't it's I'd've", ["do", "n't", "ca", "n't", "it", "'s", "i", "'d", "'ve"]),
        ("'quoted' dogs' O'Brien rock'n'roll", ["quoted", "dogs", "o", "brien", "rock", "n", "roll"]),
        ("aren’t the moon’s", ["are", "n't", "the", "moon", "'s"]),
        ("snake_case well-known 3rd", ["snake", "case", "well", "known", "3rd"]),
        ("Über naïve мир 世界", ["über", "naïve", "мир", "世界"]),
        ("a\0b\ufffdc", ["a", "b", "c"]),
    ],
)
def test_what_is_a_word(text: str, words: list[str]) -> None:
    assert tokenise(text) == words


@given(st.text(), st.text())
def test_blanks_separate_words_whatever_stands_around_them(one: str, other: str) -> None:
    assert tokenise(f"{one} {other}") == tokenise(one) + tokenise(other)


@given(st.text())
def test_words_are_never_empty_and_hold_no_blank(text: str) -> None:
    assert all(word and not any(sign.isspace() for sign in word) for word in tokenise(text))


def test_numbers_begin_at_1_and_unknown_words_are_left_out_or_stand_for_themselves() -> None:
    lexicon = Lexicon(("a", "b", "", "b", "<unk>"), None, "", "list")
    assert lexicon.ids(["b", "x", "a"]).tolist() == [2, 1]
    assert Lexicon(lexicon.words, None, "", "list", unknown=5).ids(["b", "x"]).tolist() == [2, 5]
    assert lexicon.text([2, 1, 0, 0]) == "b a"
    assert lexicon.ids([]).dtype == np.int32
    with pytest.raises(ValueError, match=says(UNKNOWN_WORD_NUMBER, number="9")):
        lexicon.word(9)


def test_a_lexicon_is_read_once_and_again_when_its_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("<pad>\na\nb\n")
    feature = TextFeature(name="t", length=3, vocabulary=str(path))
    first = lexicon_of(feature)
    assert lexicon_of(feature) is first
    assert first.words == ("<pad>", "a", "b")
    assert (first.table, first.width) == (None, 0)
    path.write_text("<pad>\na\nb\nc\n")
    again = lexicon_of(feature)
    assert len(again) == 4
    assert again.sha256 != first.sha256


def test_the_word_for_unknown_ones_must_exist(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("a\n<unk>\n")
    assert lexicon_of(TextFeature(name="t", length=3, vocabulary=str(path), unknown="<unk>")).unknown == 2
    with pytest.raises(DataError, match=says(NO_UNKNOWN_WORD, name="t", unknown="other")):
        lexicon_of(TextFeature(name="t", length=3, vocabulary=str(path), unknown="other"))


def test_vectors_that_nobody_knows_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(UNKNOWN_VECTORS, source="glov", hint='did you mean "glove"?')):
        lexicon_of(TextFeature(name="t", length=3, vectors="glov"))


def test_a_data_set_that_was_not_fetched_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=says(NOT_FETCHED, name="glove")):
        lexicon_of(TextFeature(name="not read yet", length=3, vectors="glove"))
