"""Promises of `text.corpus`: every kind of file gives the same texts, and what cannot be read gives one message."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairchain.errors import DataError
from fairchain.spec import Texts
from fairchain.text import Lexicon, corpus, tokenise
from fairchain.text.corpus import SEVERAL_COLUMNS, read_corpus
from fairchain.text.files import NO_FILE
from tests.messages import says

LEXICON = Lexicon(("the", "dog", "runs", "n't", "does"), None, "", "words.txt")
THREE = ["The dog, runs!", 'the "dog" does\nn\'t', "dog"]


def read(path: Path, length: int = 4, **more: Any) -> corpus.Corpus:
    return read_corpus(Texts(path=str(path), reading="observed", **more), LEXICON, length)


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def test_every_kind_of_file_gives_the_same(tmp_path: Path) -> None:
    flat = [text.replace("\n", " ") for text in THREE]
    txt = written(tmp_path, "a.txt", "\n".join(flat).encode())
    tsv = written(tmp_path, "a.tsv", ("id\ttext\n" + "".join(f"1\t{text}\n" for text in flat)).encode())
    quoted = "".join('1,"{}"\r\n'.format(text.replace('"', '""')) for text in THREE)
    csv = written(tmp_path, "a.csv", b"\xef\xbb\xbf" + f"id,text\r\n{quoted}".encode())
    jsonl = written(tmp_path, "a.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in THREE).encode())
    plain = written(tmp_path, "b.jsonl", "".join(json.dumps(text) + "\n" for text in THREE).encode())
    found = [read(txt), *(read(path, column="text") for path in (tsv, csv, jsonl)), read(plain)]
    for each in found:
        assert each.ids.tolist() == [[1, 2, 3, 0], [1, 2, 5, 4], [2, 0, 0, 0]]
        assert each.total == 3


def test_a_text_is_cut_to_its_first_known_words(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a.txt", b"x the y y y y y y y y y y y y y dog runs the dog\n"), length=3)
    assert found.ids.tolist() == [[1, 2, 3]]
    assert found.lengths.tolist() == [3]


@given(st.lists(st.sampled_from(["the", "dog", "n't", "zz", "zzzzzzzzzzzz", "don't", "-", "x" * 40]), max_size=30))
def test_looking_at_the_beginning_first_changes_nothing(words: list[str]) -> None:
    text = " ".join(words)
    expected = [LEXICON.numbers[word] for word in tokenise(text) if word in LEXICON.numbers][:3]
    assert corpus._known(text, LEXICON.numbers, 0, 3) == expected


def test_a_text_without_a_known_word_is_left_out_and_counted(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a.txt", b"the dog\nquite unknown\n\n"))
    assert (len(found.ids), found.total) == (1, 2)


def test_a_line_of_a_megabyte_is_read(tmp_path: Path) -> None:
    long = b"zz " * 400_000 + b"dog"
    assert read(written(tmp_path, "a.txt", long + b"\nthe\n")).ids[:, 0].tolist() == [2, 1]
    quoted = written(tmp_path, "a.csv", b'text\n"' + long + b'"\n')
    assert read(quoted, column="text").ids[:, 0].tolist() == [2]


def test_bytes_that_are_no_utf8_separate_words(tmp_path: Path) -> None:
    assert read(written(tmp_path, "a.txt", b"the\xff\xfedog \xe9\n")).ids.tolist() == [[1, 2, 0, 0]]


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    import hashlib

    content = b"the dog\nruns\n"
    assert read(written(tmp_path, "a.txt", content)).sha256 == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("cells", [["b", "c", "a"], ["9", "1e2", "-10"], ["0.5", "Infinity", ""], ["2", "3x", "10"]])
def test_texts_are_ranked_by_their_cells(cells: list[str], tmp_path: Path) -> None:
    """As numbers if all are, nothing first, and otherwise as they are written; alike are alike."""
    texts = ["dog", "dog", "the dog runs", "dog", "the dog"]
    rows = list(zip([*cells, cells[1], cells[0]], texts, strict=True))
    table = written(tmp_path, "a.csv", ("id,text\n" + "".join(f"{cell},{text}\n" for cell, text in rows)).encode())
    lines = "".join(json.dumps({"id": cell or None, "text": text}) + "\n" for cell, text in rows)
    jsonl = written(tmp_path, "a.jsonl", lines.encode())
    for path in (table, jsonl):
        found = read(path, column="text", pair_by="id")
        assert found.ranks.tolist() == [1, 2, 0, 2, 1]
        assert found.order.tolist() == [2, 0, 4, 1, 3]
        assert read(path, column="text").ranks.tolist() == [0] * 5
    assert read(table, column="text").order.tolist() == [0, 1, 3, 4, 2]


BAD: dict[str, tuple[str, bytes, dict[str, str], str]] = {
    "empty": ("a.txt", b"", {}, "contains no texts"),
    "blank": ("a.txt", b"\n\n \n", {}, "contains no texts"),
    "empty table": ("a.csv", b"", {"column": "text"}, "contains no texts"),
    "no rows": ("a.csv", b"text\n", {"column": "text"}, "contains no texts"),
    "nothing known": ("a.txt", b"quite\nunknown\n", {}, "none of its 2 texts contains a word of words.txt"),
    "another column": ("a.csv", b"id,text\n1,dog\n", {"column": "txt"}, 'unknown column "txt"; did you mean "text"'),
    "which column": ("a.csv", b"id,text\n1,dog\n", {}, says(SEVERAL_COLUMNS, count="2")),
    "a column of lines": ("a.txt", b"dog\n", {"column": "text"}, "remove column"),
    "ragged": ("a.csv", b"id,text\n1,dog\n1,dog,dog\n", {"column": "text"}, "row 2: has 3 cells and the header 2"),
    "an open quote": ("a.csv", b'text\n"dog\n', {"column": "text"}, "double the quotes"),
    "no json": ("a.jsonl", b"{dog\n", {"column": "text"}, "line 1: not valid JSON"),
    "another key": (
        "a.jsonl",
        b'{"texts": ""}\n',
        {"column": "text"},
        'line 1: column in .population.: unknown key "text"',
    ),
    "a number": ("a.jsonl", b'{"text": 3}\n', {"column": "text"}, "line 1: the text is not a string"),
    "which key": ("a.jsonl", b'{"text": "dog"}\n', {}, "name the key"),
    "another cell": (
        "a.csv",
        b"id,text\n1,dog\n",
        {"column": "text", "pair_by": "ids"},
        'pair_by in .population.: unknown column "ids"',
    ),
    "cells that are texts": (
        "a.csv",
        b"text\ndog" + b" dog" * 50,
        {"column": "text", "pair_by": "text"},
        "of more than 200",
    ),
    "cells of lines": (
        "a.txt",
        b"dog\n",
        {"pair_by": "id"},
        'no column "id" beside its texts; change or remove pair_by',
    ),
    "cells of bare texts": ("a.jsonl", b'"dog"\n', {"pair_by": "id"}, "line 1: is a bare text"),
    "a cell's key": ("a.jsonl", b'{"text": "dog"}\n', {"column": "text", "pair_by": "id"}, 'unknown key "id"'),
    "a cell of cells": (
        "a.jsonl",
        b'{"text": "dog", "id": []}\n',
        {"column": "text", "pair_by": "id"},
        'line 1: "id" is neither a number nor a word',
    ),
    "another kind": ("a.docx", b"dog\n", {}, 'ends in ".docx" is not read'),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_read_gives_one_message(name: str, tmp_path: Path) -> None:
    file, content, more, message = BAD[name]
    with pytest.raises(DataError, match=message) as caught:
        read(written(tmp_path, file, content), **more)
    assert "\n" not in str(caught.value)


def test_files_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "a.txt", b"the dog\n" * 5)
    with pytest.raises(DataError, match=says(NO_FILE)):
        read(tmp_path / "none.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(DataError, match=says(NO_FILE)):
        read(tmp_path / "folder.txt")
    for name, most, message in (
        ("LONGEST_TEXT", 3, "line 1: longer than 3 bytes"),
        ("MOST_CORPUS_BYTES", 3, "larger than 3 bytes"),
        ("MOST_TEXTS", 3, "more than 3 texts"),
        ("MOST_CORPUS_WORDS", 8, "more than 2 texts of 4 words"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(corpus, name, most)
            with pytest.raises(DataError, match=message):
                read(path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=120), name=st.sampled_from(["a.txt", "a.csv", "a.tsv", "a.jsonl"]))
def test_any_bytes_are_a_corpus_or_one_message(content: bytes, name: str, tmp_path: Path) -> None:
    with suppress(DataError):
        assert read(written(tmp_path, name, content)).ids[:, 0].all()


def test_a_data_set_is_looked_up_once_and_a_damaged_copy_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path))
    (tmp_path / "toxicity").mkdir()
    (tmp_path / "toxicity" / "comments.csv").write_text(
        "comment,toxic,split\nthe dog,toxic,train\nunknown,fine,train\nthe,fine,test\n"
    )
    population = Texts(dataset="toxicity", reading="observed")

    def fresh() -> corpus.Corpus:
        corpus._loaded.cache_clear()
        return read_corpus(population, LEXICON, 4)

    first = fresh()
    (file,) = (tmp_path / "corpora").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "tokenise", None)
        again = fresh()
    assert again.ids.tolist() == first.ids.tolist() == [[1, 2, 0, 0], [1, 0, 0, 0]]
    assert again.ranks.tolist() == first.ranks.tolist() == [1, 0]
    assert (again.total, again.sha256) == (3, first.sha256)
    file.write_bytes(file.read_bytes()[:-3] + b"xxx")
    assert fresh().ids.tolist() == first.ids.tolist()


def test_texts_of_a_users_own_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    read(written(tmp_path, "a.txt", b"the dog\n"))
    assert not (tmp_path / "cache").exists()
