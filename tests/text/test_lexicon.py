"""Promises of `lexicon_of`: the words are those of the file that is meant now."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairchain import datasets
from fairchain.datasets.fetch import NOT_FETCHED
from fairchain.errors import DataError
from fairchain.spec import TextFeature
from fairchain.text import lexicon_of
from tests.messages import says

GLOVE = TextFeature(name="comment", length=3, vectors="glove")


def make(cache: Path, *words: str) -> None:
    vectors, listed = cache.parent / "v.npy", cache.parent / "w.txt"
    np.save(vectors, np.ones((len(words), 50), np.float32))
    listed.write_text("".join(f"{word}\n" for word in words))
    datasets.get("glove", cache=cache, file=[vectors, listed])


def test_another_cache_has_other_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, words in (("one", ("the", "of")), ("two", ("a", "b", "c")), ("one", ("the", "of"))):
        monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / name))
        make(tmp_path / name, *words)
        assert lexicon_of(GLOVE).words == words
        assert lexicon_of(GLOVE) is lexicon_of(GLOVE)


def test_vectors_that_are_not_here_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path))
    with pytest.raises(DataError, match=says(NOT_FETCHED, name="glove")):
        lexicon_of(GLOVE)


def test_words_beside_a_matrix_are_read_again_when_they_change(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.eye(2, dtype=np.float32))
    (tmp_path / "m.txt").write_text("a\nb\n")
    feature = TextFeature(name="t", length=3, vectors=str(tmp_path / "m.npy"))
    assert lexicon_of(feature).words == ("a", "b")
    (tmp_path / "m.txt").write_text("a\nlong\n")
    assert lexicon_of(feature).words == ("a", "long")
