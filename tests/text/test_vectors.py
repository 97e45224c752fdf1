"""Promises of `text.lexicon` about files: every layout gives the same words and vectors, and a bad file one message."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairchain.errors import DataError
from fairchain.spec import TextFeature
from fairchain.text import lexicon, lexicon_of
from fairchain.text.lexicon import TABLE_TOO_LARGE, TOO_MANY_WORDS, VECTORS_NOT_FINITE, read_vectors, read_vocabulary
from tests.messages import says

WORDS = ("the", "naïve", "moon")
NUMBERS = np.array([[1, 2.5], [-3, 0.125], [0, 1e-3]], np.float32)


def glove(folder: Path) -> Path:
    path = folder / "v.txt"
    path.write_text(
        "".join(f"{w} {a} {b}\n" for w, (a, b) in zip(WORDS, NUMBERS.tolist(), strict=True)), encoding="utf-8"
    )
    return path


def fasttext(folder: Path) -> Path:
    path = folder / "v.vec"
    path.write_text("3 2\n" + glove(folder).read_text(encoding="utf-8"), encoding="utf-8")
    return path


def word2vec(folder: Path) -> Path:
    path = folder / "v.bin"
    pairs = zip(WORDS, NUMBERS.tolist(), strict=True)
    rows = b"".join(word.encode() + b" " + struct.pack("<2f", *row) + b"\n" for word, row in pairs)
    path.write_bytes(b"3 2\n" + rows)
    return path


def npy(folder: Path) -> Path:
    np.save(folder / "m.npy", NUMBERS)
    (folder / "m.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder / "m.npy"


@pytest.mark.parametrize("layout", [glove, fasttext, word2vec, npy])
def test_every_layout_gives_the_same(layout: Callable[[Path], Path], tmp_path: Path) -> None:
    words, table, sha256 = read_vectors(layout(tmp_path))
    assert words == WORDS
    assert table is not None
    assert table.dtype == np.float32
    assert np.array_equal(table[1:], NUMBERS)
    assert not table[0].any()
    assert len(sha256) == 64


def test_a_vocabulary_keeps_blank_lines_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "w.txt"
    path.write_bytes(b"\r\nthe\r\n\r\nmoon\r\n")
    assert read_vocabulary(path)[0] == ("", "the", "", "moon")


def test_the_hash_is_of_words_and_vectors(tmp_path: Path) -> None:
    path = npy(tmp_path)
    first = read_vectors(path)[2]
    (tmp_path / "m.txt").write_text("the\nnaive\nmoon\n")
    assert read_vectors(path)[2] != first


def written(content: bytes, name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def wide_npy(folder: Path) -> Path:
    npy(folder)
    np.save(folder / "m.npy", np.zeros((2, 2), np.float32))
    return folder / "m.npy"


def pickled(folder: Path) -> Path:
    np.save(folder / "m.npy", np.array([{"a": 1}], object), allow_pickle=True)
    return folder / "m.npy"


def headed(header: bytes) -> Callable[[Path], Path]:
    """An .npy file that begins like this."""
    return written(b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + bytes(16), "v.npy")


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    "file not found": (lambda folder: folder / "none.txt", "file not found"),
    "other suffix": (written(b"", "v.pt"), "end in .txt or .vec"),
    "empty": (written(b"", "v.txt"), "contains no vectors"),
    "another width": (written(b"a 1 2\nb 1 2 3\n", "v.txt"), "line 2: found 3 numbers .* expected 2"),
    "no numbers": (written(b"a b c\n", "v.txt"), "line 1: something after the word is not a number"),
    "a word alone": (written(b"a\n", "v.txt"), "line 1: found 0 numbers"),
    "a long line": (written(b"a " + b"1 " * 500_000, "v.txt"), "line 1: longer than"),
    "a cut binary": (written(b"3 2\na 12345678", "v.bin"), "too short for 3 words"),
    "a binary of words only": (written(b"2 1\n" + b"x" * 5000, "v.bin"), "word 1 of 2 is truncated or damaged"),
    "a binary that promises too much": (written(b"999999999999 300\n", "v.bin"), "states 999,999,999,999 words"),
    "no head": (written(b"hello\n", "v.bin"), "first line must state"),
    "rows without words": (wide_npy, "has 2 rows and .* 3 words"),
    "a pickle": (pickled, "not a .npy file of numbers"),
    "no matrix": (written(b"\x93NUMPY", "v.npy"), "not a .npy file of numbers"),
    "an archive": (written(b"PK\x03\x04junk", "v.npy"), "not a .npy file of numbers"),
    "a header without end": (headed(b"{'descr':"), "not a .npy file of numbers"),
    "a deep header": (headed(b"-" * 9000 + b"1"), "not a .npy file of numbers"),
    "a shape that no machine has": (
        headed(b"{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,2)}"),
        "not a .npy file of numbers",
    ),
    "a shape that wraps round": (
        headed(b"{'descr':'<f4','fortran_order':False,'shape':(4611686018427387904,4)}"),
        "not a .npy file of numbers",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_gives_one_message(name: str, tmp_path: Path) -> None:
    make, message = BAD[name]
    with pytest.raises(DataError, match=message) as caught:
        read_vectors(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_list_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexicon, "MOST_VECTORS", 2)
    with pytest.raises(DataError, match=says(TOO_MANY_WORDS, most_words="2")):
        read_vocabulary(written(b"a\nb\nc\n", "w.txt")(tmp_path))
    with pytest.raises(DataError, match=says(TABLE_TOO_LARGE, most_words="2")):
        read_vectors(glove(tmp_path))


def test_numbers_beyond_single_precision_are_refused_quietly(tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.full((1, 2), 1e300))
    (tmp_path / "m.txt").write_text("a\n")
    with pytest.raises(DataError, match=says(VECTORS_NOT_FINITE)):
        lexicon_of(TextFeature(name="t", length=2, vectors=str(tmp_path / "m.npy")))


def test_words_that_are_no_text_keep_their_place_and_are_never_met(tmp_path: Path) -> None:
    words, table, _ = read_vectors(written(b"a 1\n\xff\xfe 2\nb 3\n", "v.txt")(tmp_path))
    assert (words[0], words[2]) == ("a", "b")
    assert table is not None
    assert len(table) == 4


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=200), suffix=st.sampled_from([".txt", ".bin", ".npy"]))
def test_any_bytes_are_vectors_or_one_message(content: bytes, suffix: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a\nb\n")
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    with suppress(DataError):
        words, table, _ = read_vectors(path)
        assert table is not None
        assert len(table) == len(words) + 1
