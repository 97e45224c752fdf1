"""Promises of the prepared data sets: words and comments are those of the originals, in files anybody can read."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from fairchain import datasets
from fairchain.datasets.comments import comments_file
from fairchain.datasets.tables import write_table
from fairchain.datasets.words import _unpacked, words_file
from fairchain.errors import DataError

COMMENTS = (
    "rev_id\tcomment\tyear\tlogged_in\tns\tsample\tsplit\n"
    '1.0\tSay "hi"NEWLINE_TOKENNEWLINE_TOKENto, TAB_TOKENall\t2002\tTrue\tuser\trandom\ttrain\n'
    "2.0\tgo away\t2002\tTrue\tuser\trandom\ttest\n"
    "3.0\ttwo of four\t2002\tTrue\tuser\trandom\tdev\n"
)
VOTES = {"1.0": (0, 0, 1), "2.0": (1, 1, 0), "3.0": (1, 0, 1, 0)}


def votes(counted: dict[str, tuple[int, ...]]) -> str:
    lines = [f"{rev}\t{worker}\t{vote}\t0.0\n" for rev, each in counted.items() for worker, vote in enumerate(each)]
    return "rev_id\tworker_id\ttoxicity\ttoxicity_score\n" + "".join(lines)


def field(step: int, value: int) -> bytes:
    """A whole number in Thrift's compact protocol: zigzag, below 2**13."""
    value *= 2
    return bytes([step << 4 | 5, *([value] if value < 128 else [value & 127 | 128, value >> 7])])


def packed(content: bytes) -> bytes:
    """Snappy's form of fewer than 60 bytes: one piece that stands there."""
    return bytes([len(content), len(content) - 1 << 2]) + content


def page(kind: int, place: int, encoding: int, content: bytes) -> bytes:
    body = packed(content)
    inner = field(1, 2) + field(1, encoding) + b"\0"
    return (
        field(1, kind) + field(1, len(content)) + field(1, len(body)) + bytes([place << 4 | 12]) + inner + b"\0" + body
    )


def plain(*words: str) -> bytes:
    return b"".join(len(word.encode()).to_bytes(4, "little") + word.encode() for word in words)


def parquet(*pages: bytes) -> bytes:
    return b"PAR1" + b"".join(pages) + b"footer" + (6).to_bytes(4, "little") + b"PAR1"


LEVELS = b"\2\0\0\0\x04\x01"
WORDS = parquet(
    page(2, 4, 0, plain("the", "naïve")),
    page(0, 2, 8, b"\0\0\0\0\x01\x03"),
    page(0, 2, 0, LEVELS + plain("n't", ",")),
)


def test_words_come_from_the_dictionary_and_then_from_the_plain_pages(tmp_path: Path) -> None:
    (tmp_path / "words.parquet").write_bytes(WORDS)
    words_file(tmp_path / "words.parquet", tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_bytes() == "the\nnaïve\nn't\n,\n".encode()


def test_words_that_are_text_already_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(b"the\nof\n")
    words_file(tmp_path / "mine.txt", tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_bytes() == b"the\nof\n"


HOSTILE = {
    "cut off": WORDS[:20],
    "nothing known": b"PAR1....PAR1",
    "no pages": parquet(),
    "a piece from before the beginning": WORDS.replace(b"\x11@", b"\x10@"),
    "a page that goes backwards for ever": parquet(b"\x15\x06\x25\x09\0" + b"\0" * 4),
    "a header without end in itself": parquet(b"\x1c" * 5000),
    "a number without end": parquet(b"\x15" + b"\x80" * 100_000),
    "a header that is a number": parquet(field(1, 0) + field(2, 2) + field(2, 0) + b"\0" + b"ab"),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_another_layout_of_words_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "words.parquet").write_bytes(content)
    with pytest.raises(DataError, match="give a text file with a word on each line"):
        words_file(tmp_path / "words.parquet", tmp_path / "words.txt")


@pytest.mark.parametrize(
    ("stored", "meant"),
    [
        (b"\x02\x04ab", b"ab"),
        (b"\x0a\x04ab\x11\x02", b"abababab"[:2] + b"abababab"),
        (b"\x06\x08abc\x0a\x03\x00", b"abcabc"),
        (b"\x06\x08abc\x0b\x03\x00\x00\x00", b"abcabc"),
        (b"\x46\xf0\x45" + b"x" * 70, b"x" * 70),
    ],
)
def test_pieces_that_repeat_are_unpacked(stored: bytes, meant: bytes) -> None:
    assert _unpacked(stored) == meant


@pytest.mark.parametrize("stored", [b"\x03\x04ab", b"\x06\x04ab\x01\x09", b"\x06\x04ab\x01\x00"])
def test_damaged_pieces_are_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match=r"\d"):
        _unpacked(stored)


def test_a_comment_is_toxic_if_more_than_half_of_its_raters_said_so(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(COMMENTS)
    (tmp_path / "v.tsv").write_text(votes(VOTES))
    comments_file(tmp_path / "c.tsv", tmp_path / "v.tsv", tmp_path / "comments.csv")
    with (tmp_path / "comments.csv").open(newline="", encoding="utf-8") as file:
        assert [tuple(row.values()) for row in csv.DictReader(file)] == [
            ('Say "hi" to, all', "fine", "train"),
            ("go away", "toxic", "test"),
            ("two of four", "fine", "dev"),
        ]


def test_a_comment_without_votes_and_a_short_line_are_named(tmp_path: Path) -> None:
    (tmp_path / "c.tsv").write_text(COMMENTS)
    (tmp_path / "v.tsv").write_text(votes({"1.0": (1,)}))
    with pytest.raises(DataError, match=r"c.tsv: comment '2.0' has no votes"):
        comments_file(tmp_path / "c.tsv", tmp_path / "v.tsv", tmp_path / "out.csv")
    (tmp_path / "c.tsv").write_text(COMMENTS + "4.0\tcut\n")
    (tmp_path / "v.tsv").write_text(votes(VOTES))
    with pytest.raises(DataError, match=r"line 5 has 2 cells"):
        comments_file(tmp_path / "c.tsv", tmp_path / "v.tsv", tmp_path / "out.csv")


@pytest.mark.parametrize(
    ("comments", "cast"), [(COMMENTS.encode(), votes(VOTES) + "3.0\t9\tyes\t0\n"), (b"\xff\xfe", votes(VOTES))]
)
def test_what_cannot_be_read_is_an_input_error(tmp_path: Path, comments: bytes, cast: str) -> None:
    (tmp_path / "c.tsv").write_bytes(comments)
    (tmp_path / "v.tsv").write_text(cast)
    with pytest.raises(DataError, match=r"c.tsv, .*v.tsv: cannot be read as comments and votes"):
        comments_file(tmp_path / "c.tsv", tmp_path / "v.tsv", tmp_path / "out.csv")


def test_files_of_ones_own_are_prepared_too(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "c.tsv").write_text(COMMENTS)
    (tmp_path / "v.tsv").write_text(votes(VOTES))
    (table,) = datasets.get("toxicity", cache=cache, file=[tmp_path / "c.tsv", tmp_path / "v.tsv"])
    assert table.name == "0-comments.csv"
    assert datasets.here("toxicity", cache=cache) == [table]
    np.save(tmp_path / "v.npy", np.zeros((4, 50), dtype=np.float32))
    (tmp_path / "w.parquet").write_bytes(WORDS)
    _, words = datasets.get("glove", cache=cache, file=[tmp_path / "v.npy", tmp_path / "w.parquet"])
    assert words.read_text(encoding="utf-8").split("\n") == ["the", "naïve", "n't", ",", ""]
    assert write_table("toxicity", tmp_path / "t.csv", cache=cache) == 3
    assert (tmp_path / "t.csv").read_bytes() == table.read_bytes()


def test_what_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'glove' is not here yet \(76 MB to download\).*: fairchain data get glove"):
        datasets.here("glove", cache=tmp_path)
    assert [source.name for source in datasets.missing(["toxicity", "glove"], cache=tmp_path)] == ["toxicity", "glove"]


@pytest.mark.network
def test_the_real_comments_and_words_can_be_had(tmp_path: Path) -> None:
    # 132 MB: a cache that somebody keeps is used, checksums and all.
    cache = os.environ.get("FAIRCHAIN_CACHE", tmp_path)
    found = datasets.get_all(["toxicity", "glove"], cache=cache)
    (comments,), (vectors, words) = found["toxicity"], found["glove"]
    assert np.load(vectors, mmap_mode="r").shape == (400_000, 50)
    assert words.read_text(encoding="utf-8").split("\n")[:3] == ["the", ",", "."]
    with comments.open(newline="", encoding="utf-8") as file:
        labels = [row["toxic"] for row in csv.DictReader(file)]
    assert (len(labels), labels.count("toxic")) == (159_686, 15_362)
