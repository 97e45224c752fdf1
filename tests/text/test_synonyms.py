"""Promises of `text.synonyms` and `text.wordnet`: nearest words as a plain search finds them, kept safely."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fairchain.errors import DataError
from fairchain.text import Lexicon, synonyms
from fairchain.text.files import NO_FILE
from fairchain.text.synonyms import BAD_LINE, NO_WORDNET_FOLDER, Synonyms, listed_words, nearest_words, read_wordnet
from tests.messages import says


def lexicon(count: int = 300, width: int = 6, seed: int = 0) -> Lexicon:
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = tuple(letters[i // 26 % 26] + letters[i % 26] + "x" * (i // 676) for i in range(count))
    table = np.zeros((count + 1, width), np.float32)
    table[1:] = np.random.default_rng(seed).normal(size=(count, width))
    return Lexicon(words, table, f"seed {seed}", "made")


def offered(synonyms: Synonyms, number: int) -> list[int]:
    row = synonyms.places[number]
    found: list[int] = synonyms.offered[row, : synonyms.counts[row]].tolist()
    return found


def plain_search(words: Lexicon, number: int, most: int, allowed: NDArray[np.intp]) -> list[int]:
    assert words.table is not None
    unit = words.table.astype(float)[1:]
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    order = [int(i) + 1 for i in np.argsort(-(unit @ unit[number - 1]), kind="stable")]
    return [i for i in order if i != number and i in allowed][:most]


def test_nearest_words_are_those_of_a_plain_search() -> None:
    words = lexicon()
    kept = {words.words[i] for i in range(0, 300, 7)}
    found = nearest_words(words, 5, kept)
    allowed = np.array([i for i in range(1, 301) if words.word(i) not in kept])
    for number in range(1, 301):
        expected = [] if words.word(number) in kept else plain_search(words, number, 5, allowed)
        assert offered(found, number) == expected


def test_of_words_that_are_equally_near_the_first_are_offered() -> None:
    words = lexicon(600)
    assert words.table is not None
    # 4 directions, each of 150 words: many more are equally near than are looked at together.
    words.table[1:] = np.tile(words.table[1:5], (150, 1))
    found = nearest_words(words, 5, ())
    for number in (1, 77, 600):
        first = [other for other in range((number - 1) % 4 + 1, 601, 4) if other != number]
        assert offered(found, number) == first[:5]


def test_wide_vectors_are_looked_at_for_fewer_words_together(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = nearest_words(lexicon(), 5, ()).sha256
    sizes: list[int] = []
    likely = synonyms._likely
    monkeypatch.setattr(synonyms, "MOST_HELD_NUMBERS", 10 * 6 * (5 + synonyms.SPARE_NEIGHBOURS))
    monkeypatch.setattr(synonyms, "_likely", lambda v, rows, most: (sizes.append(len(rows)), likely(v, rows, most))[1])
    assert nearest_words(lexicon(), 5, ()).sha256 == whole
    assert set(sizes) == {10}


def test_kept_words_are_neither_replaced_nor_offered() -> None:
    words = lexicon()
    kept = set(words.words[:50])
    found = nearest_words(words, 8, kept)
    assert not found.places[1:51].any()
    assert found.offered[found.offered > 0].min() > 50


def test_fewer_words_than_are_asked_for_offer_all_others() -> None:
    found = nearest_words(lexicon(4), 8, ())
    assert [sorted(offered(found, number)) for number in (1, 2)] == [[2, 3, 4], [1, 3, 4]]
    assert not nearest_words(lexicon(1), 8, ()).counts.any()


def test_memory_does_not_grow_with_the_square_of_the_number_of_words() -> None:
    words, square = lexicon(4000), 8 * 4000**2
    tracemalloc.start()
    try:
        nearest_words(words, 5, ())
        assert tracemalloc.get_traced_memory()[1] < square / 4
    finally:
        tracemalloc.stop()


def test_what_was_found_is_kept_and_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = lexicon()
    first = nearest_words(words, 5, (), tmp_path)
    monkeypatch.setattr("fairchain.text.synonyms._nearest", None)
    assert nearest_words(words, 5, (), tmp_path).sha256 == first.sha256
    # Another number of neighbours, or other vectors, are not what was kept.
    for other, most in ((words, 6), (lexicon(seed=1), 5)):
        with pytest.raises(TypeError):
            nearest_words(other, most, (), tmp_path)


@pytest.mark.parametrize("damage", [b"", b"junk", b"\0" * 500])
def test_a_damaged_cache_is_computed_again(damage: bytes, tmp_path: Path) -> None:
    words = lexicon()
    first = nearest_words(words, 5, (), tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[: 40 if damage else 0] + damage)
    assert nearest_words(words, 5, (), tmp_path).sha256 == first.sha256
    assert len(list(tmp_path.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert nearest_words(lexicon(), 5, (), blocked / "folder").counts.any()


NOUNS_DATA = """  1 This line stands for the licence.
00000010 03 n 02 dog 0 domestic_dog 0 001 @ 00000020 n 0000 | a friend
00000020 03 n 03 hound 0 dog 1 Cat 0 000 | another meaning
"""
NOUNS_INDEX = """  1 This line stands for the licence.
cat n 1 0 1 0 00000020
dog n 2 1 @ 2 1 00000010 00000020
domestic_dog n 1 0 1 0 00000010
hound n 1 0 1 0 00000020
"""


def wordnet(folder: Path, data: str = NOUNS_DATA, index: str = NOUNS_INDEX) -> Path:
    for part in ("noun", "verb", "adj", "adv"):
        (folder / f"data.{part}").write_text(data if part == "noun" else "")
        (folder / f"index.{part}").write_text(index if part == "noun" else "")
    return folder


def test_wordnet_gives_words_of_the_same_synset(tmp_path: Path) -> None:
    found = read_wordnet(wordnet(tmp_path))
    assert found == {"cat": ["hound", "dog"], "dog": ["hound", "cat"], "hound": ["dog", "cat"]}


def test_wordnet_and_vectors_have_the_same_shape(tmp_path: Path) -> None:
    words = Lexicon(("dog", "cat", "moon", "hound"), np.eye(5, 4, dtype=np.float32), "", "made")
    listed = listed_words(words, read_wordnet(wordnet(tmp_path)), 3, {"cat"})
    nearest = nearest_words(words, 3, {"cat"})
    assert listed.places.shape == nearest.places.shape
    assert listed.offered.dtype == nearest.offered.dtype == np.int32
    assert offered(listed, 1) == [4]
    assert offered(listed, 2) == offered(listed, 3) == []


@pytest.mark.parametrize(
    ("data", "index"),
    [("00000010 03 n zz dog 0\n", NOUNS_INDEX), ("00000010 03 n 09 dog 0\n", ""), (NOUNS_DATA, "dog n 5 0 1 0 7\n")],
)
def test_a_damaged_wordnet_gives_one_message(data: str, index: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(BAD_LINE)):
        read_wordnet(wordnet(tmp_path, data, index))


def test_a_folder_without_wordnet_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says(NO_FILE)):
        read_wordnet(tmp_path)
    with pytest.raises(DataError, match=says(NO_WORDNET_FOLDER)):
        read_wordnet(tmp_path / "none")
