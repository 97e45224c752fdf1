"""Promises of `fairchain monitor` about its input: what is well formed is read, what is not is named with a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.decisions import ASK, EQUAL, Command, as_csv, as_jsonl, people, says


def test_numbers_and_truth_values_in_json_lines(monitor: Command) -> None:
    data = b"".join(
        b'{"sex": %d, "decision": %s, "more": [1]}\n' % (i % 2, [b"true", b"false"][i % 2]) for i in range(99)
    )
    ended = monitor(*ASK, "--outcome", "true", "--json", stdin=data)
    assert ended.code == 1
    assert [group["name"] for group in ended.reports[-1]["groups"]] == ["sex=0", "sex=1"]


GOOD = as_csv(people(20, EQUAL))
LINES: dict[str, tuple[bytes, list[str]]] = {
    "too few cells": (b"1,Female\n", ["2 cells, but the header has 4"]),
    "too many cells": (b"1,Female,White,yes,no\n", ["5 cells"]),
    "an empty group": (b"1,,White,yes\n", ['no value for "sex"']),
    "an empty decision": (b"1,Female,White,\n", ['no value for "decision"']),
    "open quotes": (b'1,"Female,White,yes\n', ["not CSV"]),
    "a NUL character in a group": (b"1,Fem\0ale,White,yes\n", ['a NUL character in "sex"']),
    "a NUL character in a decision": (b"1,Female,White,y\0es\n", ['a NUL character in "decision"']),
    "not UTF-8": (b"1,Fem\xff,White,yes\n", ["not UTF-8"]),
}


@pytest.mark.parametrize("case", LINES)
def test_a_malformed_line_is_named(case: str, monitor: Command) -> None:
    line, words = LINES[case]
    data = GOOD + line + as_csv(people(20, EQUAL), header=False)
    says(monitor(*ASK, stdin=data), "standard input, line 22:", "--skip-bad", *words)
    ended = monitor(*ASK, "--skip-bad", "--json", stdin=data)
    assert ended.code == 3
    assert (ended.reports[-1]["rows"], ended.reports[-1]["skipped"], ended.reports[-1]["line"]) == (40, 1, 42)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"sex": "F"}\n', 'no value for "decision"'),
        (b'{"sex": null, "decision": "yes"}\n', '"sex" is not a text'),
        (b'{"sex": "F", "decision": ["yes"]}\n', '"decision" is not a text'),
        (b'{"sex": "F", "decision": "yes"}{"sex": "F", "decision": "yes"}\n\n', "trailing"),
        (b"[]\n", "not a JSON object"),
        (b"sex,decision\n", "not a JSON object"),
        (b'{"sex": "", "decision": "yes"}\n', 'no value for "sex"'),
        (b'{"sex": "F\\u0000", "decision": "yes"}\n', 'a NUL character in "sex"'),
    ],
)
def test_a_malformed_json_line_is_named(line: bytes, words: str, monitor: Command) -> None:
    data = as_jsonl(people(5)) + line + as_jsonl(people(5))
    says(monitor(*ASK, stdin=data), "standard input, line 6:", words)
    assert monitor(*ASK, "--skip-bad", "--json", stdin=data).reports[-1]["skipped"] == 1


def test_a_decision_before_a_malformed_line_stands(monitor: Command) -> None:
    assert monitor(*ASK, stdin=as_csv(people(900)) + b"no line\n").code == 1


def test_blank_lines_line_ends_marks_and_spaces_do_no_harm(monitor: Command) -> None:
    data = b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n").replace(b"\r\n5,", b"\r\n\r\n  \r\n5,").replace(b",F", b", F")
    report = monitor(*ASK, "--json", stdin=data).reports[-1]
    assert (report["rows"], report["line"]) == (20, 23)
    assert {group["name"] for group in report["groups"]} == {"sex=Female", "sex=Male"}
    marked = b"\xef\xbb\xbf" + as_jsonl(people(7))
    assert monitor(*ASK, "--json", stdin=marked).reports[-1]["rows"] == 7


def test_other_delimiters(monitor: Command) -> None:
    data = GOOD.replace(b",", b";")
    says(monitor(*ASK, stdin=data), 'unknown column "sex"', "--delimiter ';'")
    assert monitor(*ASK, "--delimiter", ";", "--json", stdin=data).reports[-1]["rows"] == 20
    tabs = GOOD.replace(b",", b"\t")
    assert monitor(*ASK, "--delimiter", "\\t", "--json", stdin=tabs).reports[-1]["rows"] == 20


MISTAKES: dict[str, tuple[list[object], bytes, list[str]]] = {
    "unknown column": (["--protected", "rase"], GOOD, ['unknown column "rase"', 'did you mean "race"?']),
    "nothing near": (
        ["--protected", "wealth"],
        GOOD,
        ['unknown column "wealth"', 'expected one of "id", "sex", "race"'],
    ),
    "two columns of a name": ([], b"sex,sex,decision\n", ['two columns are called "sex"']),
    "a column twice": (["--prediction", "sex"], GOOD, ['"sex" is named twice']),
    "threshold": (["--threshold", "1.5"], GOOD, ["threshold: found 1.5"]),
    "delta": (["--delta", "0"], GOOD, ["delta: found 0.0"]),
    "one group": (["--group", "Male"], GOOD, ["name at least two"]),
    "group of combinations": (["--protected", "race", "--group", "Male"], GOOD, ["--group", "sex=... & race=..."]),
    "delimiter": (["--delimiter", "ab"], GOOD, ["--delimiter", "one character"]),
    "empty": ([], b"", ["is empty"]),
    "binary": ([], b"\x89PNG\r\n\x1a\n\xff\xff", ["header"]),
    "one long line": ([], b"x" * (3 * 2**20), ["longer than 1,048,576 bytes"]),
    "scores": (
        ["--prediction", "id", "--kind", "ratio"],
        as_csv(people(1500)),
        ["line 1002", "more than 1000 different values", "not scores"],
    ),
    "a column of names": (
        ["--protected", "id"],
        as_csv(people(900, EQUAL)),
        ["line 502", "sex=", "one more than 500 groups", "--group"],
    ),
    "an outcome misspelled": (
        ["--outcome", "yess"],
        as_csv(people(4000, EQUAL)),
        ['has the outcome "yess"', 'some have "yes"', "check --outcome"],
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_message_with_a_remedy(case: str, monitor: Command) -> None:
    options, data, words = MISTAKES[case]
    says(monitor(*ASK, *options, stdin=data), *words)


def test_a_missing_file_and_a_folder(tmp_path: Path, monitor: Command) -> None:
    says(monitor(tmp_path / "no.csv", *ASK), str(tmp_path / "no.csv"), "file not found")
    says(monitor(tmp_path, *ASK), str(tmp_path), "cannot be read")
