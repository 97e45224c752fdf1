"""The command `explain`: tables for people, JSON for programs, one line for the impatient, clear messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairchain import example
from fairchain.cli.app import app, run
from fairchain.cli.explain import effect_bar
from fairchain.statistics import Interval

CREDIT, CENSUS = str(example("credit")), str(example("census"))


def ended(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["fairchain", *arguments])
    with pytest.raises(SystemExit) as code:
        run()
    shown = capsys.readouterr()
    return int(code.value.code or 0), shown.out, shown.err


def test_people_see_tables_with_bars_a_statement_and_a_witness(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown, _ = ended(
        ["explain", CREDIT, "--units", "features", "--units", "layer5", "--rounds", "4000", "--top", "3"],
        monkeypatch,
        capsys,
    )
    assert code == 0
    lines = shown.splitlines()
    assert "gets good more often than" in lines[0]
    heads = [line.split()[0] for line in lines if "paper's sensitivity" in line]
    assert heads == ["feature", "neuron"]
    assert sum("●" in line for line in lines) == 6
    assert "... and 16 more: --top 19, or --json" in lines
    assert any(line.startswith("layer5 ") for line in lines)
    assert "Kendall's tau" in shown
    assert "One individual, two decisions: good as age=" in shown
    assert "together with probability at least 1 - 1e-06" in shown


def test_nothing_to_explain_is_said_and_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown, _ = ended(["explain", CENSUS, "--units", "layer5", "--rounds", "8000"], monkeypatch, capsys)
    assert code == 0
    assert "Nothing to explain: every gap is at most 0.0" in shown
    assert "layer5[0]" in shown


def test_json_is_one_object_and_the_command_line_wins_over_the_spec(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--units",
        "layer5[2]",
        "--rounds",
        "500",
        "--seed",
        "7",
        "--delta",
        "0.01",
        "--method",
        "mean",
        "--json",
    ]
    code, shown, _ = ended(["explain", CREDIT, "--protected", "sex", "--outcome", "bad", *options], monkeypatch, capsys)
    found = json.loads(shown)
    assert code == 0
    assert (found["seed"], found["delta"], found["rounds"], found["method"]) == (7, 0.01, 500, "mean")
    assert found["pair"]["outcome"] == "bad"
    assert found["pair"]["more"].startswith("sex=")
    assert [unit["name"] for unit in found["units"]] == ["layer5[2]"]
    assert found["units"][0]["held_at"] is not None


def test_quiet_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, _ = ended(["explain", CREDIT, "--units", "layer5", "--rounds", "500", "-q"], monkeypatch, capsys)
    assert code == 0
    assert len(shown.splitlines()) == 1


def test_rows_of_a_table_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, shown, _ = ended(["explain", CENSUS, "--units", "layer5", "--rounds", "500", "--json"], monkeypatch, capsys)
    person = json.loads(shown)["witnesses"][0]
    columns = {**person["input"], "race": person["groups"][0].removeprefix("race=")}
    table = tmp_path / "people.csv"
    cells = (f"{value:g}" if isinstance(value, float) else str(value) for value in columns.values())
    table.write_text(",".join(columns) + "\n" + ",".join(cells) + "\n", encoding="utf-8")
    code, shown, _ = ended(
        ["explain", CENSUS, "--units", "layer5", "--rounds", "500", "--rows", str(table)], monkeypatch, capsys
    )
    assert code == 0
    assert "Row 1: " in shown
    assert "Near row 1 (" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain", "nowhere.toml"], "nowhere.toml"),
        (["explain", CREDIT, "--units", "layer77"], "expected features, layer1, layer2, layer3, layer4, layer5 (spec:"),
        (["explain", CREDIT, "--delta", "2"], "delta"),
        (["explain", CREDIT, "--rows", "nobody.csv"], "nobody.csv"),
        (["explain", CREDIT, "--data", "rows.csv"], "for witnesses give --rows"),
        (["explain", CREDIT, "--rounds", "0"], "--rounds"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown, told = ended(arguments, monkeypatch, capsys)
    assert code == 2
    assert shown == ""
    assert message in told
    assert len(told.splitlines()) == 1


def test_bars_mark_zero_and_stay_within_their_ends() -> None:
    assert effect_bar(Interval(0.0, -1.0, 1.0), -1.0, 1.0) == "━" * 12 + "●" + "━" * 12
    assert effect_bar(Interval(-0.5, -0.5, -0.5), -1.0, 1.0) == "·" * 6 + "●" + "·" * 5 + "│" + "·" * 12
    assert len(effect_bar(Interval(0.0, 0.0, 0.0), 0.0, 0.0)) == 25


def test_the_command_is_listed() -> None:
    assert "explain" in app.commands
