"""`fairchain init` as a person and a program meet it: a file that verifies, and what was guessed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fairchain.cli.app import app, run
from fairchain.cli.init import init
from fairchain.spec import Uniform, load_spec
from tests.drafting.builders import applicants, by_hours, numbers, with_jobs
from tests.tables.builders import write_csv


class Cli:
    """Runs the command line in this process, in a folder of its own, and keeps what it printed."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._patch, self._capsys = patch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._patch.setattr(sys, "argv", ["fairchain", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            run()
        printed = self._capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    monkeypatch.setitem(app.commands, "init", init)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "network.onnx").write_bytes(by_hours())
    write_csv(tmp_path / "people.csv", numbers())
    return Cli(monkeypatch, capsys)


def test_a_spec_is_written_that_verifies_without_an_edit(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("init", "network.onnx", "people.csv", "--as", "population")
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == [
        "Written: spec.toml. Its comments state the guesses; check them, then:",
        "fairchain verify spec.toml",
    ]
    assert 'property.protected: Guess: "sex", by its name.' in out
    assert load_spec("spec.toml").property.protected == ("sex",)
    assert cli("verify", "spec.toml", "--quiet")[0] == 0
    assert cli("verify", "spec.toml", "--quiet", "--protected", "age")[0] in (0, 1)


def test_options_take_the_place_of_guesses(cli: Cli) -> None:
    options = ["--label", "hired", "--protected", "sex", "--protected", "age", "--outcome", "no", "--threshold", 0.2]
    code, _, _ = cli("init", "network.onnx", "people.csv", "-o", "mine.toml", *options, "--quiet")
    spec = load_spec("mine.toml")
    assert code == 0
    assert (spec.property.protected, spec.property.outcome, spec.property.threshold) == (("sex", "age"), "no", 0.2)


def test_quiet_prints_the_next_command_only(cli: Cli) -> None:
    assert cli("init", "network.onnx", "people.csv", "-o", "a b.toml", "-q") == (0, "fairchain verify 'a b.toml'\n", "")


def test_uniform_takes_ranges_only(cli: Cli) -> None:
    assert cli("init", "network.onnx", "people.csv", "--as", "uniform", "-q")[0] == 0
    assert load_spec("spec.toml").population == Uniform()


def test_json_is_one_object(cli: Cli) -> None:
    code, out, _ = cli("init", "network.onnx", "people.csv", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["spec"] == "spec.toml"
    assert answer["protected"] == ["sex"]
    assert answer["likely"] == ["sex", "age"]
    assert answer["next"] == "fairchain verify spec.toml"
    assert all(set(guess) == {"key", "text", "warning"} for guess in answer["guesses"])


def test_what_is_probably_wrong_is_said_on_standard_error_and_in_the_file(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "network.onnx").write_bytes(with_jobs(4, 1, {3: 0.01}))
    write_csv(tmp_path / "people.csv", applicants(1000))
    code, out, err = cli("init", "network.onnx", "people.csv", "--json")
    assert code == 0
    assert err.startswith("fairchain: warning: ")
    assert "is a guess, and no row shows whether" in err
    assert any(guess["warning"] for guess in json.loads(out)["guesses"])
    assert "# WARNING: " in (tmp_path / "spec.toml").read_text()


def test_a_file_that_is_there_stays_unless_forced(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text("mine")
    code, out, err = cli("init", "network.onnx", "people.csv")
    assert (code, out) == (2, "")
    assert "spec.toml: exists already" in err
    assert (tmp_path / "spec.toml").read_text() == "mine"
    assert cli("init", "network.onnx", "people.csv", "--force", "-q")[0] == 0
    assert load_spec("spec.toml").model.labels == ("no", "yes")


def nobody_protected(folder: Path) -> None:
    people = numbers()
    write_csv(folder / "people.csv", {"years": people["age"], "hours": people["hours"], "kind": people["sex"]})


def test_without_a_terminal_nobody_is_asked_who_is_protected(cli: Cli, tmp_path: Path) -> None:
    nobody_protected(tmp_path)
    code, out, err = cli("init", "network.onnx", "people.csv")
    assert (code, out) == (2, "")
    assert '--protected (protected=[...]): "years", "hours", "kind"' in err
    assert err.count("\n") == 1
    assert not (tmp_path / "spec.toml").exists()


def test_at_a_terminal_only_what_cannot_be_guessed_is_asked(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody_protected(tmp_path)
    asked: list[Any] = []

    def prompt(text: str, *, type: Any, err: bool) -> str:
        asked.append((text, list(type.choices), err))
        return "kind"

    monkeypatch.setattr("click.prompt", prompt)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert cli("init", "network.onnx", "people.csv", "-q")[0] == 0
    assert asked == [("Protected feature", ["years", "hours", "kind"], True)]
    assert load_spec("spec.toml").property.protected == ("kind",)
    asked.clear()
    write_csv(tmp_path / "people.csv", numbers())
    assert cli("init", "network.onnx", "people.csv", "-q", "--force")[0] == 0
    assert asked == []


def test_a_name_that_would_act_on_the_terminal_is_never_prompted(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody_protected(tmp_path)
    table = tmp_path / "people.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("kind", "ki\x1b[2Jnd"), encoding="utf-8")
    monkeypatch.setattr("click.prompt", lambda *_, **__: pytest.fail("a prompt shows names as they are"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    code, _, err = cli("init", "network.onnx", "people.csv")
    assert code == 2
    assert "\x1b" not in err


def test_a_model_in_python_is_named_again_in_the_next_command(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "hiring_rule.py").write_text("def hired(rows):\n    return rows[:, 1] > 30\n")
    code, out, _ = cli("init", "python:hiring_rule:hired", "people.csv", "-q", "--as", "population")
    assert (code, out) == (0, "fairchain verify spec.toml --model python:hiring_rule:hired\n")
    assert cli("verify", "spec.toml", "--model", "python:hiring_rule:hired", "-q")[0] == 0


PIPELINE = """
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
import pandas

people = pandas.read_csv("people.csv")
coded = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
hired = make_pipeline(coded, LogisticRegression(max_iter=1000)).fit(people[["job", "hours"]], people["hired"])
"""


def test_a_fitted_pipeline_is_seen_from_the_command_line_as_in_python(cli: Cli, tmp_path: Path) -> None:
    for package in ("sklearn", "pandas"):
        pytest.importorskip(package)
    from fairchain.drafting import DraftOptions, draft_spec, write_spec
    from fairchain.models.load import import_named

    write_csv(tmp_path / "people.csv", applicants())
    (tmp_path / "hiring_pipeline.py").write_text(PIPELINE)
    assert cli("init", "python:hiring_pipeline:hired", "people.csv", "-q")[0] == 0
    in_python = draft_spec("people.csv", import_named("python:hiring_pipeline:hired"), DraftOptions())
    assert (tmp_path / "spec.toml").read_text() == write_spec(in_python, tmp_path)
    features = {feature.name: feature for feature in load_spec("spec.toml").features}
    assert list(features) == ["job", "hours", "sex"]
    assert [feature.model_input for feature in features.values()] == [True, True, False]


def test_a_sample_says_which_rows_the_guarantee_needs(cli: Cli, tmp_path: Path) -> None:
    sentence = "# The guarantee needs rows that the model was not fitted on.\nas ="
    for reading, there in (("sample", True), ("population", False)):
        assert cli("init", "network.onnx", "people.csv", "-q", "--force", "--as", reading)[0] == 0
        assert (sentence in (tmp_path / "spec.toml").read_text()) is there


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.onnx", "people.csv"], "nowhere.onnx: file not found"),
        (["people.csv", "people.csv"], 'people.csv: a file that ends in ".csv" is not read'),
        (["network.onnx", "nobody.csv"], "nobody.csv: file not found"),
        (["network.onnx", "network.onnx"], 'files that end in ".onnx" are not read'),
        (["network.onnx", "people.csv", "--label", "hird"], 'unknown column "hird"; did you mean "hired"?'),
        (["network.onnx", "people.csv", "--protected", "sx"], 'unknown column "sx"; did you mean "sex"?'),
        (["network.onnx", "people.csv", "--outcome", "perhaps"], 'unknown label "perhaps"'),
        (["network.onnx", "people.csv", "--threshold", "7"], "property.threshold: found 7.0"),
        (
            ["network.onnx", "people.csv", "--ignore", "hours", "--label", "hired"],
            "takes 3 values and the table has 2 columns",
        ),
        (["network.onnx", "people.csv", "-o", "no/spec.toml"], "name a file in a folder that exists"),
        (["network.onnx", "people.csv", "-o", "spec.json"], 'give a name that ends in ".toml"'),
        (["network.onnx", "people.csv", "--decision", "label"], 'remove decision = "label"'),
        (["network.onnx", "people.csv", "--model-output", "z"], 'unknown output "z"'),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(cli: Cli, tmp_path: Path, arguments: list[str], words: str) -> None:
    code, out, err = cli("init", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.onnx", "people.csv"]
