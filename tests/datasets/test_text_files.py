"""Promises of the prepared data sets: words and comments are those of the originals, in plain text files."""

from __future__ import annotations

import csv
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from fairchain import datasets
from fairchain.datasets.fetch import NOT_FETCHED
from fairchain.datasets.prepare import (
    COMMENT_NO_VOTES,
    LINE_TOO_SHORT,
    NOT_A_WORD_COLUMN,
    NOT_COMMENTS,
    comments_file,
    words_file,
)
from fairchain.datasets.tables import write_table
from fairchain.errors import DataError
from fairchain.messages import needs
from tests.messages import says

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


WORDS = ["the", "naïve", "n't", ","]


def parquet(path: Path, **columns: list[object]) -> Path:
    polars = pytest.importorskip("polars")
    polars.DataFrame(columns).write_parquet(path)
    return path


def test_words_of_a_parquet_file_become_lines(tmp_path: Path) -> None:
    words_file(parquet(tmp_path / "words.parquet", word=[*WORDS]), tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_bytes() == "the\nnaïve\nn't\n,\n".encode()


def test_words_that_are_text_already_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(b"the\nof\n")
    words_file(tmp_path / "mine.txt", tmp_path / "words.txt")
    assert (tmp_path / "words.txt").read_bytes() == b"the\nof\n"


@pytest.mark.parametrize("columns", [{"a": ["x"], "b": ["y"]}, {"a": [1, 2]}, {"a": ["x", None]}, {"a": []}])
def test_other_columns_than_one_of_words_are_refused(tmp_path: Path, columns: dict[str, list[object]]) -> None:
    with pytest.raises(DataError, match=says(NOT_A_WORD_COLUMN)):
        words_file(parquet(tmp_path / "words.parquet", **columns), tmp_path / "words.txt")


@pytest.mark.parametrize("kept", [20, 60])
def test_a_damaged_parquet_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = parquet(tmp_path / "words.parquet", word=[*WORDS])
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=says(NOT_A_WORD_COLUMN)):
        words_file(path, tmp_path / "words.txt")


def test_without_polars_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    (tmp_path / "words.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=says(needs("a Parquet file", "polars", "fairchain[parquet]"))):
        words_file(tmp_path / "words.parquet", tmp_path / "words.txt")


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
    with pytest.raises(DataError, match=says(COMMENT_NO_VOTES, rev_id="'2.0'")):
        comments_file(tmp_path / "c.tsv", tmp_path / "v.tsv", tmp_path / "out.csv")
    (tmp_path / "c.tsv").write_text(COMMENTS + "4.0\tcut\n")
    (tmp_path / "v.tsv").write_text(votes(VOTES))
    with pytest.raises(DataError, match=says(LINE_TOO_SHORT, number="5", cells_count="2")):
        comments_file(tmp_path / "c.tsv", tmp_path / "v.tsv", tmp_path / "out.csv")


@pytest.mark.parametrize(
    ("comments", "cast"), [(COMMENTS.encode(), votes(VOTES) + "3.0\t9\tyes\t0\n"), (b"\xff\xfe", votes(VOTES))]
)
def test_what_cannot_be_read_is_an_input_error(tmp_path: Path, comments: bytes, cast: str) -> None:
    (tmp_path / "c.tsv").write_bytes(comments)
    (tmp_path / "v.tsv").write_text(cast)
    with pytest.raises(DataError, match=says(NOT_COMMENTS)):
        comments_file(tmp_path / "c.tsv", tmp_path / "v.tsv", tmp_path / "out.csv")


def test_files_of_ones_own_are_prepared_too(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "c.tsv").write_text(COMMENTS)
    (tmp_path / "v.tsv").write_text(votes(VOTES))
    (table,) = datasets.get("toxicity", cache=cache, file=[tmp_path / "c.tsv", tmp_path / "v.tsv"])
    assert table.name == "0-comments.csv"
    assert datasets.here("toxicity", cache=cache) == [table]
    np.save(tmp_path / "v.npy", np.zeros((4, 50), dtype=np.float32))
    parquet(tmp_path / "w.parquet", word=[*WORDS])
    _, words = datasets.get("glove", cache=cache, file=[tmp_path / "v.npy", tmp_path / "w.parquet"])
    assert words.read_text(encoding="utf-8").split("\n") == ["the", "naïve", "n't", ",", ""]
    assert write_table("toxicity", tmp_path / "t.csv", cache=cache) == 3
    assert (tmp_path / "t.csv").read_bytes() == table.read_bytes()


def test_what_is_not_here_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=re.escape(NOT_FETCHED.format(name="glove", size=76))):
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
