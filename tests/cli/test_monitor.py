"""Promises of `fairchain monitor`: the moment to the row, exit codes, and a state that survives being stopped."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.cli.app import run
from fairchain.monitoring import Monitor, lines

ASK = ("--protected", "sex", "--prediction", "decision", "--outcome", "yes", "--threshold", "0.1")
FAIR, UNFAIR, EQUAL = (0.4, 0.41), (0.2, 0.6), (0.4, 0.5)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def reports(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Ended]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line within this process."""

    def call(*arguments: object, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["fairchain", "monitor", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.delenv("FAIRCHAIN_TRACEBACK", raising=False)
        with pytest.raises(SystemExit) as caught:
            run()
        captured = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Ended(caught.value.code, captured.out, captured.err)

    return call


def people(size: int, rates: tuple[float, float] = UNFAIR, seed: int = 0) -> list[tuple[str, str, str]]:
    """(sex, race, decision) of each row; the first rate is that of women."""
    rng = np.random.default_rng(seed)
    man, race = rng.integers(0, 2, size), rng.integers(0, 2, size)
    yes = rng.random(size) < np.array(rates)[man]
    return [
        (["Female", "Male"][m], ["White", "Black"][r], ["no", "yes"][int(y)])
        for m, r, y in zip(man, race, yes, strict=True)
    ]


def as_csv(rows: list[tuple[str, str, str]], header: bool = True) -> bytes:
    text = "id,sex,race,decision\n" * header + "".join(f"{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(rows))
    return text.encode()


def as_jsonl(rows: list[tuple[str, str, str]]) -> bytes:
    return "".join(json.dumps({"sex": a, "race": b, "decision": c}) + "\n" for a, b, c in rows).encode()


def moment(rows: list[tuple[str, str, str]], threshold: float = 0.1) -> int:
    """After how many rows looking at every row decides."""
    watcher = Monitor(threshold)
    found = watcher.update_many([sex for sex, _, _ in rows], [decision == "yes" for _, _, decision in rows])
    assert found is not None
    return found + 1


@pytest.mark.parametrize(("rates", "word", "code"), [(FAIR, "FAIR", 0), (UNFAIR, "UNFAIR", 1), (EQUAL, "UNDECIDED", 3)])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("stream", [True, False])
def test_the_word_the_moment_and_the_exit_code(
    rates: tuple[float, float], word: str, code: int, form: str, stream: bool, tmp_path: Path, command: Command
) -> None:
    rows = people(6000, rates)
    data = as_csv(rows) if form == "csv" else as_jsonl(rows)
    path = tmp_path / f"decisions.{form}"
    path.write_bytes(data)
    ended = command("-", *ASK, "--json", stdin=data) if stream else command(path, *ASK, "--json")
    (report,) = ended.reports
    assert (ended.code, report["verdict"]) == (code, word)
    rows_needed = 6000 if word == "UNDECIDED" else moment(rows)
    assert report["rows"] == rows_needed
    assert report["line"] == rows_needed + (form == "csv")
    assert report["gap"]["low"] <= report["gap"]["estimate"] <= report["gap"]["high"]


@pytest.mark.parametrize("size", [1, 60, 1000, 10**6])
def test_nothing_depends_on_the_size_of_a_block(
    size: int, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fair until a third group comes, then fair again, then unfair: each change at its row, and the same state."""
    rows = [*people(350, EQUAL), *[("Other", "White", "yes"), ("Other", "Black", "no")] * 60]
    rows += people(800, (0.0, 1.0), seed=1)
    path, state = tmp_path / "d.csv", tmp_path / "state.json"
    path.write_bytes(as_csv(rows))
    arguments = (path, *ASK, "--threshold", "0.5", "--keep-going", "--json", "--every", "25", "--state", state)
    whole = command(*arguments)
    changes = [(report["verdict"], report["rows"]) for report in whole.reports if report["event"] == "change"]
    assert [verdict for verdict, _ in changes] == ["FAIR", "UNDECIDED", "FAIR", "UNDECIDED", "UNFAIR"]
    assert changes[1] == ("UNDECIDED", 351)
    kept = state.read_bytes()
    state.unlink()
    monkeypatch.setattr(lines, "BLOCK", size)
    assert command(*arguments) == whole
    assert state.read_bytes() == kept


def test_combinations_of_protected_columns(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(people(400)))
    ended = command(path, *ASK, "--protected", "race", "--json")
    assert {group["name"] for group in ended.reports[-1]["groups"]} == {
        f"sex={sex} & race={race}" for sex in ("Female", "Male") for race in ("White", "Black")
    }


def test_named_groups_are_compared_and_others_left_out(tmp_path: Path, command: Command) -> None:
    rows = [*people(3000, FAIR), ("Unknown", "White", "yes"), *people(100, FAIR, seed=1)]
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(rows))
    named = command(path, *ASK, "--group", "Male", "--group", "sex=Female", "--json", "--keep-going").reports[-1]
    assert [group["name"] for group in named["groups"]] == ["sex=Male", "sex=Female"]
    assert (named["rows"], named["left_out"]) == (3100, 1)
    ended = command(path, *ASK, "--group", "Male", "--group", "Femal")
    assert ended.code == 3
    assert "Group sex=Femal has no rows yet: is it spelled so?" in ended.out
    assert "forecast" not in ended.out
    both = "sex=Male & race=White"
    ended = command(path, *ASK, "--protected", "race", "--group", both, "--group", "sex=Female & race=White", "--json")
    assert ended.reports[-1]["groups"][0]["name"] == both


def test_a_ratio(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(people(2000, (0.3, 0.6))))
    ended = command(path, *ASK, "--kind", "ratio", "--threshold", "0.8")
    assert ended.code == 1
    assert "the smallest ratio is 0." in ended.out
    assert "the threshold 0.8" in ended.out


def test_what_a_person_sees(tmp_path: Path, command: Command) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(people(900)))
    ended = command(path, *ASK, "--every", "100")
    first, *_, statement = ended.out.splitlines()
    assert first.startswith("UNDECIDED after 100 rows (line 101): the largest gap is 0.")
    assert "\nUNFAIR after " in ended.out
    assert "sex=Female" in ended.out
    assert statement.startswith("If decisions within each group are independent")
    assert command(path, *ASK, "-q").out.count("\n") == 1


def test_numbers_and_truth_values_in_json_lines(command: Command) -> None:
    data = b"".join(
        b'{"sex": %d, "decision": %s, "more": [1]}\n' % (i % 2, [b"true", b"false"][i % 2]) for i in range(99)
    )
    ended = command(*ASK, "--outcome", "true", "--json", stdin=data)
    assert ended.code == 1
    assert [group["name"] for group in ended.reports[-1]["groups"]] == ["sex=0", "sex=1"]


def test_keeping_on_reports_every_change(command: Command) -> None:
    """Alike at first, then far apart: fair, undecided again, unfair."""
    rows = people(6000, FAIR) + people(6000, (0.1, 0.9), seed=1)
    ended = command(*ASK, "--keep-going", "--json", stdin=as_csv(rows))
    assert [(report["event"], report["verdict"]) for report in ended.reports] == [
        ("change", "FAIR"),
        ("change", "UNDECIDED"),
        ("change", "UNFAIR"),
        ("end", "UNFAIR"),
    ]
    assert ended.code == 1


class TestState:
    def test_a_file_that_grows_leaves_the_same_bytes_as_one_run(self, tmp_path: Path, command: Command) -> None:
        data = as_csv(people(3000, EQUAL))
        path, one, many = tmp_path / "d.csv", tmp_path / "one.json", tmp_path / "many.json"
        path.write_bytes(data)
        assert command(path, *ASK, "--state", one).code == 3
        for end in (0, 9, 300, 301, 302, 20_000, len(data)):
            path.write_bytes(data[:end])
            ended = command(path, *ASK, "--state", many)
            assert ended.code == (3 if end > 30 else 2), ended
        assert many.read_bytes() == one.read_bytes()
        assert command(path, *ASK, "--state", many).code == 3
        assert many.read_bytes() == one.read_bytes()

    @pytest.mark.parametrize("seed", range(4))
    def test_stops_anywhere_leave_the_same_bytes_as_one_run(
        self, seed: int, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ctrl-C after a block, again and again."""
        from fairchain.monitoring.watch import Watch

        path, one, many = tmp_path / "d.jsonl", tmp_path / "one.json", tmp_path / "many.json"
        path.write_bytes(as_jsonl(people(1500, [FAIR, UNFAIR, EQUAL, (0.6, 0.2)][seed], seed)))
        arguments = (path, *ASK, "--keep-going")
        whole = command(*arguments, "--state", one)
        rng = np.random.default_rng(seed)
        reports = Watch.reports

        def stopped(self: Watch, **options: Any) -> Any:
            left = int(rng.integers(1, 20))

            def stop() -> None:
                nonlocal left
                left -= 1
                if not left:
                    raise KeyboardInterrupt

            return reports(self, **{**options, "after_block": stop})

        monkeypatch.setattr(lines, "BLOCK", 4000)
        monkeypatch.setattr(Watch, "reports", stopped)
        codes = []
        while not codes or codes[-1] == 130:
            codes.append(command(*arguments, "--state", many).code)
        assert len(codes) > 1
        assert codes[-1] == whole.code
        assert many.read_bytes() == one.read_bytes()

    def test_a_stream_adds(self, tmp_path: Path, command: Command) -> None:
        rows, state = people(900, EQUAL), tmp_path / "s.json"
        for part in (rows[:400], rows[400:401], rows[401:]):
            assert command("-", *ASK, "--state", state, stdin=as_csv(part)).code == 3
        kept = state.read_bytes()
        state.unlink()
        command(*ASK, "--state", state, stdin=as_csv(rows))
        assert state.read_bytes() == kept

    def test_a_decision_stands_until_one_keeps_going(self, tmp_path: Path, command: Command) -> None:
        rows = people(2000)
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        path.write_bytes(as_csv(rows))
        command(path, *ASK, "--state", state)
        kept = json.loads(state.read_bytes())
        assert kept["first"] == kept["now"] == {"verdict": "UNFAIR", "rows": moment(rows)}
        again = command(path, *ASK, "--state", state)
        assert again.code == 1
        assert "before this run" in again.out
        assert json.loads(state.read_bytes()) == kept
        assert command(path, *ASK, "--state", state, "--keep-going", "--json").reports[-1]["rows"] == 2000

    def test_the_last_line_counts_when_it_has_an_end(self, tmp_path: Path, command: Command) -> None:
        data = as_csv(people(50, EQUAL))
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        path.write_bytes(data[:-1])
        ended = command(path, *ASK, "--state", state, "--json")
        assert ended.reports[-1]["rows"] == 49
        assert "left for the next time" in ended.err
        assert command(path, *ASK, "--json").reports[-1]["rows"] == 50
        path.write_bytes(data)
        assert command(path, *ASK, "--state", state, "--json").reports[-1]["rows"] == 50

    @pytest.mark.parametrize(
        ("option", "value", "words"),
        [
            ("--threshold", "0.2", ["threshold 0.1, not 0.2"]),
            ("--delta", "0.01", ["delta 0.05, not 0.01"]),
            ("--outcome", "no", ["outcome yes, not no"]),
            ("--protected", "race", ["protected sex, not sex, race"]),
            ("--kind", "ratio", ["kind difference, not ratio"]),
        ],
    )
    def test_another_question_is_refused(
        self, option: str, value: str, words: list[str], tmp_path: Path, command: Command
    ) -> None:
        state = tmp_path / "s.json"
        data = as_csv(people(50, EQUAL))
        command(*ASK, "--state", state, stdin=data)
        says(command(*ASK, "--state", state, option, value, stdin=data), str(state), "new --state", *words)

    def test_another_beginning_is_refused(self, tmp_path: Path, command: Command) -> None:
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        data = as_csv(people(50, EQUAL))
        path.write_bytes(data)
        command(path, *ASK, "--state", state)
        path.write_bytes(data.replace(b"1,", b"7,", 1))
        says(command(path, *ASK, "--state", state), str(path), "have changed", "new --state")
        path.write_bytes(data[:-20])
        says(command(path, *ASK, "--state", state), str(path), "were counted already", "new --state")
        says(command(*ASK, "--state", state, stdin=data), "standard input", "made from a file")

    @pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"hello", b"\xff", b'{"format": "other"}'])
    def test_a_state_that_is_none(self, damage: bytes, tmp_path: Path, command: Command) -> None:
        state = tmp_path / "s.json"
        state.write_bytes(damage)
        says(command(*ASK, "--state", state, stdin=as_csv(people(9))), str(state), "not a state", "new --state")
        assert state.read_bytes() == damage

    def test_a_state_that_was_changed_by_hand(self, tmp_path: Path, command: Command) -> None:
        state = tmp_path / "s.json"
        command(*ASK, "--state", state, stdin=as_csv(people(9)))
        content = json.loads(state.read_bytes())
        content["groups"][0]["got"] += 1
        state.write_text(json.dumps(content))
        says(command(*ASK, "--state", state, stdin=b""), str(state), "damaged or changed by hand")

    def test_a_state_that_cannot_be_written_is_said_before_the_work(self, tmp_path: Path, command: Command) -> None:
        says(command(*ASK, "--state", tmp_path / "no" / "s.json", stdin=b"x"), "cannot be written", "--state")

    def test_what_was_counted_before_a_bad_line_is_kept(self, tmp_path: Path, command: Command) -> None:
        path, state = tmp_path / "d.csv", tmp_path / "s.json"
        good = as_csv(people(60, EQUAL))
        path.write_bytes(good + b"61,Female\n")
        says(command(path, *ASK, "--state", state), "line 62")
        path.write_bytes(good + b"61,Female,White,yes\n")
        assert command(path, *ASK, "--state", state, "--json").reports[-1]["rows"] == 61


PROGRAM = "from fairchain.cli import main; main()"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_and_sigterm_keep_the_state(number: int, code: int, tmp_path: Path) -> None:
    rows, state = people(500, EQUAL), tmp_path / "s.json"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "monitor", *ASK, "--state", str(state), "--every", "500", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(as_csv(rows))
    program.stdin.flush()
    # The report says that all rows were counted; the program now waits for more.
    assert json.loads(program.stdout.readline())["rows"] == 500
    program.send_signal(number)
    _, err = program.communicate(timeout=30)
    assert program.returncode == code
    assert b"Stopped after 500 rows" in err
    assert sum(group["rows"] for group in json.loads(state.read_bytes())["groups"]) == 500
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]


def says(ended: Ended, *words: str) -> None:
    """Exit code 2 and one line with these words."""
    assert ended.code == 2, ended
    assert ended.err.startswith("fairchain: ")
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


GOOD = as_csv(people(20, EQUAL))
LINES: dict[str, tuple[bytes, list[str]]] = {
    "too few cells": (b"1,Female\n", ["2 cells, but the header has 4"]),
    "too many cells": (b"1,Female,White,yes,no\n", ["5 cells"]),
    "an empty group": (b"1,,White,yes\n", ['no value for "sex"']),
    "an empty decision": (b"1,Female,White,\n", ['no value for "decision"']),
    "open quotes": (b'1,"Female,White,yes\n', ["not CSV"]),
    "not UTF-8": (b"1,Fem\xff,White,yes\n", ["not UTF-8"]),
}


@pytest.mark.parametrize("case", LINES)
def test_a_malformed_line_is_named(case: str, command: Command) -> None:
    line, words = LINES[case]
    data = GOOD + line + as_csv(people(20, EQUAL), header=False)
    says(command(*ASK, stdin=data), "standard input, line 22:", "--skip-bad", *words)
    ended = command(*ASK, "--skip-bad", "--json", stdin=data)
    assert ended.code == 3
    assert (ended.reports[-1]["rows"], ended.reports[-1]["skipped"], ended.reports[-1]["line"]) == (40, 1, 42)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"sex": "F"}\n', 'no value for "decision"'),
        (b'{"sex": null, "decision": "yes"}\n', '"sex" is no text'),
        (b'{"sex": "F", "decision": ["yes"]}\n', '"decision" is no text'),
        (b'{"sex": "F", "decision": "yes"}{"sex": "F", "decision": "yes"}\n\n', "trailing"),
        (b"[]\n", "not a JSON object"),
        (b"sex,decision\n", "not a JSON object"),
        (b'{"sex": "", "decision": "yes"}\n', 'no value for "sex"'),
    ],
)
def test_a_malformed_json_line_is_named(line: bytes, words: str, command: Command) -> None:
    data = as_jsonl(people(5)) + line + as_jsonl(people(5))
    says(command(*ASK, stdin=data), "standard input, line 6:", words)
    assert command(*ASK, "--skip-bad", "--json", stdin=data).reports[-1]["skipped"] == 1


def test_a_decision_before_a_malformed_line_stands(command: Command) -> None:
    assert command(*ASK, stdin=as_csv(people(900)) + b"no line\n").code == 1


def test_blank_lines_line_ends_marks_and_spaces_do_no_harm(command: Command) -> None:
    data = b"\xef\xbb\xbf" + GOOD.replace(b"\n", b"\r\n").replace(b"\r\n5,", b"\r\n\r\n  \r\n5,").replace(b",F", b", F")
    report = command(*ASK, "--json", stdin=data).reports[-1]
    assert (report["rows"], report["line"]) == (20, 23)
    assert {group["name"] for group in report["groups"]} == {"sex=Female", "sex=Male"}
    marked = b"\xef\xbb\xbf" + as_jsonl(people(7))
    assert command(*ASK, "--json", stdin=marked).reports[-1]["rows"] == 7


def test_other_delimiters(command: Command) -> None:
    data = GOOD.replace(b",", b";")
    says(command(*ASK, stdin=data), 'no column "sex"', "--delimiter ';'")
    assert command(*ASK, "--delimiter", ";", "--json", stdin=data).reports[-1]["rows"] == 20
    tabs = GOOD.replace(b",", b"\t")
    assert command(*ASK, "--delimiter", "\\t", "--json", stdin=tabs).reports[-1]["rows"] == 20


MISTAKES: dict[str, tuple[list[object], bytes, list[str]]] = {
    "unknown column": (["--protected", "rase"], GOOD, ['no column "rase"', 'did you mean "race"?']),
    "nothing near": (["--protected", "wealth"], GOOD, ['no column "wealth"', "there is id, sex, race"]),
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
    "nobody has the outcome": (
        ["--outcome", "yess"],
        as_csv(people(4000, EQUAL)),
        ['has the outcome "yess"', 'there is "no", "yes"', "check --outcome"],
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_message_with_a_remedy(case: str, command: Command) -> None:
    options, data, words = MISTAKES[case]
    says(command(*ASK, *options, stdin=data), *words)


def test_a_missing_file_and_a_folder(tmp_path: Path, command: Command) -> None:
    says(command(tmp_path / "no.csv", *ASK), str(tmp_path / "no.csv"), "no such file")
    says(command(tmp_path, *ASK), str(tmp_path), "cannot be read")


def test_one_group_only_is_never_decided(command: Command) -> None:
    ended = command(*ASK, stdin=as_csv([("Male", "White", "yes")] * 3000))
    assert ended.code == 3
    assert "There are not two groups to compare." in ended.out
