"""Promises of `fairchain monitor`: the word, the moment to the row, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairchain.monitoring import lines
from tests.cli.decisions import ASK, EQUAL, FAIR, UNFAIR, Command, as_csv, as_jsonl, moment, people


@pytest.mark.parametrize(("rates", "word", "code"), [(FAIR, "FAIR", 0), (UNFAIR, "UNFAIR", 1), (EQUAL, "UNDECIDED", 3)])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("stream", [True, False])
def test_the_word_the_moment_and_the_exit_code(
    rates: tuple[float, float], word: str, code: int, form: str, stream: bool, tmp_path: Path, monitor: Command
) -> None:
    rows = people(6000, rates)
    data = as_csv(rows) if form == "csv" else as_jsonl(rows)
    path = tmp_path / f"decisions.{form}"
    path.write_bytes(data)
    ended = monitor("-", *ASK, "--json", stdin=data) if stream else monitor(path, *ASK, "--json")
    (report,) = ended.reports
    assert (ended.code, report["verdict"]) == (code, word)
    rows_needed = 6000 if word == "UNDECIDED" else moment(rows)
    assert report["rows"] == rows_needed
    assert report["line"] == rows_needed + (form == "csv")
    assert report["gap"]["low"] <= report["gap"]["estimate"] <= report["gap"]["high"]


@pytest.mark.parametrize("size", [1, 60, 1000, 10**6])
def test_nothing_depends_on_the_size_of_a_block(
    size: int, tmp_path: Path, monitor: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fair until a third group comes, then fair again, then unfair: each change at its row, and the same state."""
    rows = [*people(350, EQUAL), *[("Other", "White", "yes"), ("Other", "Black", "no")] * 60]
    rows += people(800, (0.0, 1.0), seed=1)
    path, state = tmp_path / "d.csv", tmp_path / "state.json"
    path.write_bytes(as_csv(rows))
    arguments = (path, *ASK, "--threshold", "0.5", "--keep-going", "--json", "--every", "25", "--state", state)
    whole = monitor(*arguments)
    changes = [(report["verdict"], report["rows"]) for report in whole.reports if report["event"] == "change"]
    assert [verdict for verdict, _ in changes] == ["FAIR", "UNDECIDED", "FAIR", "UNDECIDED", "UNFAIR"]
    assert changes[1] == ("UNDECIDED", 351)
    kept = state.read_bytes()
    state.unlink()
    monkeypatch.setattr(lines, "BYTES_AT_ONCE", size)
    assert monitor(*arguments) == whole
    assert state.read_bytes() == kept


def test_combinations_of_protected_columns(tmp_path: Path, monitor: Command) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(people(400)))
    ended = monitor(path, *ASK, "--protected", "race", "--json")
    assert {group["name"] for group in ended.reports[-1]["groups"]} == {
        f"sex={sex} & race={race}" for sex in ("Female", "Male") for race in ("White", "Black")
    }


def test_named_groups_are_compared_and_others_left_out(tmp_path: Path, monitor: Command) -> None:
    rows = [*people(3000, FAIR), ("Unknown", "White", "yes"), *people(100, FAIR, seed=1)]
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(rows))
    named = monitor(path, *ASK, "--group", "Male", "--group", "sex=Female", "--json", "--keep-going").reports[-1]
    assert [group["name"] for group in named["groups"]] == ["sex=Male", "sex=Female"]
    assert (named["rows"], named["left_out"]) == (3100, 1)
    ended = monitor(path, *ASK, "--group", "Male", "--group", "Femal")
    assert ended.code == 3
    assert "Group sex=Femal has no rows yet; check its spelling." in ended.out
    assert "forecast" not in ended.out
    both = "sex=Male & race=White"
    ended = monitor(path, *ASK, "--protected", "race", "--group", both, "--group", "sex=Female & race=White", "--json")
    assert ended.reports[-1]["groups"][0]["name"] == both


def test_a_ratio(tmp_path: Path, monitor: Command) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(people(2000, (0.3, 0.6))))
    ended = monitor(path, *ASK, "--kind", "ratio", "--threshold", "0.8")
    assert ended.code == 1
    assert "the smallest ratio is 0." in ended.out
    assert "the threshold is 0.8" in ended.out


def test_what_a_person_sees(tmp_path: Path, monitor: Command) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(as_csv(people(900)))
    ended = monitor(path, *ASK, "--every", "100")
    first, *_, statement = ended.out.splitlines()
    assert first.startswith("UNDECIDED after 100 rows (line 101): the largest gap is 0.")
    assert "\nUNFAIR after " in ended.out
    assert "sex=Female" in ended.out
    assert statement.startswith("If decisions within each group are independent")
    assert monitor(path, *ASK, "-q").out.count("\n") == 1


def test_keeping_on_reports_every_change(monitor: Command) -> None:
    """Alike at first, then far apart: fair, undecided again, unfair."""
    rows = people(6000, FAIR) + people(6000, (0.1, 0.9), seed=1)
    ended = monitor(*ASK, "--keep-going", "--json", stdin=as_csv(rows))
    assert [(report["event"], report["verdict"]) for report in ended.reports] == [
        ("change", "FAIR"),
        ("change", "UNDECIDED"),
        ("change", "UNFAIR"),
        ("end", "UNFAIR"),
    ]
    assert ended.code == 1


def test_one_group_only_is_never_decided(monitor: Command) -> None:
    ended = monitor(*ASK, stdin=as_csv([("Male", "White", "yes")] * 3000))
    assert ended.code == 3
    assert "Fewer than two groups have rows, so nothing is compared." in ended.out


def constant_rows(count: int, decision: str) -> bytes:
    return "".join(f"{sex},{decision}\n" for sex in ("Female", "Male") for _ in range(count)).encode()


HEADER = b"sex,decision\n"
SAME = ["--protected", "sex", "--prediction", "decision", "--outcome", "yes", "--threshold", "0.2"]


def test_a_stream_with_one_decision_for_everybody_is_no_proof_of_fairness(monitor: Command) -> None:
    rows = HEADER + constant_rows(300, "yes")
    ended = monitor(*SAME, stdin=rows)
    assert ended.code == 3
    assert ended.out.startswith("CONSTANT after 600 rows")
    assert "Every row has the outcome, so groups cannot differ" in ended.out
    (found,) = monitor(*SAME, "--json", stdin=rows).reports
    assert (found["verdict"], found["decision"], found["constant"]) == ("CONSTANT", "FAIR", True)
    assert monitor(*SAME, "--allow-constant", stdin=rows).code == 0


@pytest.mark.parametrize("keep_going", [False, True])
def test_reading_goes_on_to_the_row_that_brings_a_second_decision(monitor: Command, keep_going: bool) -> None:
    """Line 602 is the first other decision; the groups are fair before and after it."""
    rows = HEADER + constant_rows(300, "yes") + b"Male,no\n" + constant_rows(5, "yes")
    options = ["--keep-going"] if keep_going else []
    reports = monitor(*SAME, "--json", *options, stdin=rows).reports
    told = [(report["event"], report["verdict"]) for report in reports]
    assert told == (
        [("change", "CONSTANT"), ("change", "FAIR"), ("end", "FAIR")] if keep_going else [("change", "FAIR")]
    )
    assert reports[int(keep_going)]["line"] == 602
    assert monitor(*SAME, stdin=rows).code == 0


def test_a_state_with_one_decision_goes_on_where_it_stopped(monitor: Command, tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_bytes(HEADER + constant_rows(300, "yes"))
    state = ["--state", tmp_path / "state.json"]
    assert monitor(path, *SAME, *state).code == 3
    path.write_bytes(path.read_bytes() + b"Male,no\n")
    ended = monitor(path, *SAME, *state)
    assert (ended.code, ended.out.split()[0]) == (0, "FAIR")
