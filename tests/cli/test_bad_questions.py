"""Promise of the command line: a question that people or models cannot answer ends with exit code 2 and one line.

The line names the file or the key, says what was found, and what to write instead.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairchain.cli.app import run
from tests.cli.test_bad_inputs import Ended, says
from tests.networks import linear, save
from tests.questions import category, changed, integer, question

GOOD = question(integer("age"), category("sex", "Female", "Male"))
NODES = [{"name": "age", "probabilities": [0.1] * 10}, {"name": "sex", "probabilities": [0.5, 0.5]}]
HEADER = "age,sex,truth,decision\n"
MODULE = """
import numpy as np
import fairchain
def decide(values): return (values[:, 0] > 4).astype(int)
def draw(rng, count): return np.stack([rng.integers(0, 10, count), rng.integers(0, 2, count)], axis=1)
def rows(u, group): return np.stack([np.floor(10 * u[:, 0]), np.full(len(u), group == "sex=Male")], axis=1)
def neighbours(u, group): return rows(np.roll(u, group == "sex=Male", axis=0), group)
coupled, mixed = fairchain.Coupled(rows, uniforms=1), fairchain.Coupled(neighbours, uniforms=1)
"""


Command = Callable[..., Ended]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`fairchain verify` in a folder with a spec, a network, forty people and a module, within this process."""
    save(linear([[0, 1], [0, -1]], [4.5, 0]), tmp_path / "network.onnx")
    rows = [
        f"{i % 10},{'Male' if i % 3 else 'Female'},{('no', 'yes')[i % 2]},{('no', 'yes')[i % 10 > 4]}"
        for i in range(40)
    ]
    (tmp_path / "people.csv").write_text(HEADER + "\n".join(rows) + "\n")
    (tmp_path / "their_code.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("FAIRCHAIN_TRACEBACK", raising=False)

    def call(data: dict[str, Any], *options: object) -> Ended:
        (tmp_path / "audit.json").write_text(json.dumps(data))
        monkeypatch.setattr(sys, "argv", ["fairchain", "verify", "audit.json", *map(str, options)])
        with pytest.raises(SystemExit) as caught:
            run()
        captured = capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return Ended(code, captured.out, captured.err)

    yield call
    sys.modules.pop("their_code", None)


def ask(*changes: tuple[str, Any]) -> dict[str, Any]:
    data = GOOD
    for key, value in changes:
        data = changed(data, key, value)
    return data


def rows(reading: str = "population", **more: Any) -> tuple[str, Any]:
    return "population", {"kind": "table", "path": "people.csv", "as": reading, **more}


def marginals(**more: Any) -> tuple[str, Any]:
    return "population", {"kind": "marginals", **more}


def nodes(*stated: dict[str, Any]) -> tuple[str, Any]:
    return "population", {"kind": "network", "nodes": list(stated)}


def test_the_good_question_has_an_answer(command: Command) -> None:
    for data in (GOOD, ask(rows()), ask(marginals(path="people.csv")), ask(nodes(*NODES))):
        assert command(data, "-q").code in (0, 1, 3)


CYCLE = [
    {"name": "age", "parents": ["sex"], "probabilities": {"Female": [0.1] * 10, "Male": [0.1] * 10}},
    {"name": "sex", "parents": ["age"], "probabilities": {str(age): [0.5, 0.5] for age in range(10)}},
]
# What is wrong -> the spec, options of the command line, and words that the message must have.
QUESTIONS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "a column that is not there": (
        ask(rows(), ("feature.0.column", "Age")),
        [],
        ["people.csv", '"Age"', 'did you mean "age"', "column ="],
    ),
    "a label column that is not there": (ask(rows(label="truht")), [], ["people.csv", "truht", "label ="]),
    "a prediction column that is not there": (ask(rows(prediction="made")), [], ["people.csv", "made", "prediction ="]),
    "labels needed": (
        ask(rows(), ("property.criterion", "equalized_odds")),
        [],
        ["audit.json", "property.criterion", "true labels", "label ="],
    ),
    "labels needed of people who are drawn": (
        ask(("property.criterion", "equal_opportunity")),
        [],
        ["property.criterion", "true label", 'kind = "table"'],
    ),
    "a condition that never holds for rows": (
        ask(rows(), ("property.given", "age > 8 and age < 2")),
        [],
        ["people.csv", "property.given", "none of the 40 rows", "widen"],
    ),
    "a condition that never holds for a group": (
        ask(rows(), ("property.given", "sex == 'Male'")),
        [],
        ["people.csv", "sex=Female", "given", "0 of"],
    ),
    "a condition that never holds for people who are drawn": (
        ask(("property.given", "age > 8 and age < 2")),
        [],
        ["audit.json", "property.given", "holds for 0 of", "weaken"],
    ),
    "a condition that is no condition": (
        ask(("property.given", "age >")),
        [],
        ["audit.json", "property.given", "column 6"],
    ),
    "a condition about nothing": (
        ask(("property.given", "agee > 3")),
        [],
        ["property.given", '"agee"', 'did you mean "age"'],
    ),
    "other inputs": (
        ask(("feature", [*GOOD["feature"], integer("more")])),
        [],
        ["network.onnx", "takes 2 values", "3 [[feature]]", "audit.json"],
    ),
    "rows that are not said to be anybody": (GOOD, ["--data", "people.csv"], ["--as population", "--as sample"]),
    "--as without data": (GOOD, ["--as", "population"], ["audit.json", "path", "data.csv"]),
    "--label without data": (GOOD, ["--label", "truth"], ["audit.json", "--data"]),
    "--prediction without data": (GOOD, ["--prediction", "decision"], ["audit.json", "--data"]),
    "--data for a Bayesian network": (ask(nodes(*NODES)), ["--data", "people.csv"], ["audit.json", "--as"]),
    "a model and recorded decisions": (
        GOOD,
        ["--data", "people.csv", "--prediction", "decision", "--model", "network.onnx"],
        ["population.prediction", "no model", "remove the key or the model"],
    ),
    "individual with recorded decisions": (
        ask(rows(prediction="decision")),
        ["--kind", "individual"],
        ["audit.json", "property.kind", "recorded decisions do not contain"],
    ),
    "ratio with epsilon": (
        ask(("guarantee.epsilon", 0.1)),
        ["--kind", "ratio", "--threshold", 0.8],
        ["guarantee.epsilon", "leave it out"],
    ),
    "a table with epsilon": (ask(rows(), ("guarantee.epsilon", 0.1)), [], ["guarantee.epsilon", "leave it out"]),
    "a table with the paper's rule": (ask(rows(), ("guarantee.rule", "paper")), [], ["guarantee.rule", "betting"]),
    "individual against everybody": (
        ask(("property.compare", "overall")),
        ["--kind", "individual"],
        ["audit.json", "property.compare"],
    ),
    "no group large enough": (
        ask(rows(), ("property.min_size", 1000)),
        [],
        ["people.csv", "property.min_size", "0 of 2 groups", "26 rows", "lower"],
    ),
    "one group large enough": (ask(rows(), ("property.min_size", 20)), [], ["people.csv", "min_size", "1 of 2 groups"]),
    "no share large enough": (ask(("property.min_size", 0.9)), [], ["audit.json", "min_size", "0 of 2 groups", "0.5"]),
    "rows where there are none": (ask(("property.min_size", 10)), [], ["property.min_size", "no table", "below 1"]),
    "half a row": (ask(rows(), ("property.min_size", 10.5)), [], ["property.min_size", "whole number"]),
    "a population of no kind": (
        ask(("population", {"kind": "people"})),
        [],
        ["population.kind", '"people"', '"table"'],
    ),
    "a function that nobody gave": (
        ask(("population", {"kind": "callable"})),
        [],
        ["audit.json", "population.kind", "--population"],
    ),
    "a function in a spec": (
        ask(("population", {"kind": "callable", "function": "os:system"})),
        [],
        ["audit.json", "population.function", "unknown key"],
    ),
    "Python code in a spec": (
        ask(("model.path", "python:their_code:decide")),
        [],
        ["audit.json", "cannot name Python code", "--model", "execute that code"],
    ),
    "a function that is not there": (GOOD, ["--population", "python:their_code:nothing"], ["their_code", "nothing"]),
    "a module that is not there": (GOOD, ["--population", "python:no_such_code:draw"], ["no_such_code"]),
    "a certificate for a Python function": (
        GOOD,
        ["--model", "python:their_code:decide", "--certificate", "c.json"],
        ["no certificate", "Python code", "ONNX"],
    ),
    "a certificate for people whom a function draws": (
        GOOD,
        ["--population", "python:their_code:draw", "--certificate", "c.json"],
        ["no certificate", "Python code"],
    ),
    "marginals of nothing": (ask(marginals()), [], ["audit.json", "population", "path =", "frequencies ="]),
    "frequencies that are too many": (
        ask(marginals(frequencies={"sex": {"Female": 0.5, "Male": 0.6}})),
        [],
        ["audit.json", "population.frequencies.sex", "sum to 1.1"],
    ),
    "frequencies that leave a group out": (
        ask(marginals(frequencies={"sex": {"Female": 1.0}})),
        [],
        ["audit.json", "population.frequencies.sex", "sex=Male", "share 0"],
    ),
    "frequencies of nothing": (
        ask(marginals(frequencies={"sx": {"Female": 1.0}})),
        [],
        ["population.frequencies", '"sx"', 'did you mean "sex"'],
    ),
    "nodes that depend on themselves": (
        ask(nodes(*CYCLE)),
        [],
        ["audit.json", "population.nodes", "depends on itself", "age <- sex <- age"],
    ),
    "a feature without a node": (ask(nodes(NODES[0])), [], ["audit.json", "population.nodes", '"sex"']),
    "nodes in which a group is impossible": (
        ask(nodes(NODES[0], {"name": "sex", "probabilities": [1, 0]})),
        [],
        ["audit.json", "population.nodes", "sex=Male", "has probability 0", "min_size"],
    ),
    "a network of nothing": (ask(("population", {"kind": "network"})), [], ["audit.json", "neither path nor nodes"]),
    "rows that are not said to be a sample": (
        ask(("population", {"kind": "table", "path": "people.csv"})),
        [],
        ["audit.json", "population.as", '"population"', '"sample"'],
    ),
    "a table that is not there": (ask(rows(path="nobody.csv")), [], ["nobody.csv", "file not found"]),
    "a Bayesian network that is not there": (
        ask(("population", {"kind": "network", "path": "nobody.bif"})),
        [],
        ["nobody.bif", "file not found", "audit.json"],
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_that_cannot_be_answered(name: str, command: Command) -> None:
    data, options, words = QUESTIONS[name]
    says(command(data, *options), *words)


# What is wrong -> the rows, the population, and words that the message must have.
TABLES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "a missing value": ("1,Male,no,no\n,Female,no,no\n", {}, ['"age"', "row 2", "missing =", "drop_missing = true"]),
    "a missing label": (
        "1,Male,no,no\n2,Female,,no\n",
        {"label": "truth"},
        ['"truth"', "row 2", "drop_missing = true"],
    ),
    "an unseen category": ("1,Male,no,no\n2,Femal,no,no\n", {}, ['"sex"', "row 2", '"Femal"', 'did you mean "Female"']),
    "an unseen label": (
        "1,Male,no,no\n2,Female,never,no\n",
        {"label": "truth"},
        ['"truth"', "row 2", '"never"', "codes"],
    ),
    "a number out of range": (
        "1,Male,no,no\n99,Female,no,no\n",
        {},
        ['"age"', "row 2", "99", "high = 9", "clip = true"],
    ),
    "half a year": ("1,Male,no,no\n2.5,Female,no,no\n", {}, ['"age"', "row 2", "2.5", "whole numbers"]),
    "a group without rows": ("1,Male,no,no\n2,Male,no,no\n", {}, ['"sex=Female"', "0 of the 2 rows", "min_size"]),
    "a group without a true label": (
        "1,Male,yes,no\n1,Male,no,no\n2,Female,no,no\n",
        {"label": "truth"},
        ['"sex=Female, truth=yes"', "0 of the 3 rows", "min_size"],
    ),
    "no rows at all": ("", {}, ["no rows"]),
}


@pytest.mark.parametrize("reading", ["population", "sample"])
@pytest.mark.parametrize("name", TABLES)
def test_rows_that_cannot_be_meant(name: str, reading: str, tmp_path: Path, command: Command) -> None:
    text, more, words = TABLES[name]
    (tmp_path / "few.csv").write_text(HEADER + text)
    criterion = ("property.criterion", "equalized_odds" if more else "demographic_parity")
    says(command(ask(rows(reading, **more), criterion, ("population.path", "few.csv"))), "few.csv", *words)


def test_a_group_without_rows_has_no_frequency_either(tmp_path: Path, command: Command) -> None:
    (tmp_path / "few.csv").write_text(HEADER + "1,Male,no,no\n2,Male,no,no\n")
    says(command(ask(marginals(path="few.csv"))), "few.csv", "sex=Female", "0 of 2 rows")


def test_a_network_file_with_a_cycle_is_named(tmp_path: Path, command: Command) -> None:
    (tmp_path / "people.json").write_text(json.dumps({"nodes": CYCLE}))
    says(command(ask(("population", {"kind": "network", "path": "people.json"}))), "people.json", "depends on itself")


def test_a_function_may_draw_the_people(command: Command) -> None:
    """The other side of the refusals above: this is how it is meant."""
    ended = command(GOOD, "--population", "python:their_code:draw", "--json")
    assert ended.code in (0, 1, 3), ended
    assert "the Python function draw" in json.loads(ended.out)["population"]


def test_a_coupled_function_is_named_on_the_command_line_as_its_declaration(command: Command) -> None:
    ended = command(GOOD, "--population", "python:their_code:coupled", "--json")
    assert ended.code in (0, 1, 3), ended
    assert "the Python function rows" in json.loads(ended.out)["population"]
    undeclared = command(GOOD, "--population", "python:their_code:rows")
    says(undeclared, "rows", "fairchain.Coupled(f, uniforms=m)")
    says(command(GOOD, "--population", "python:their_code:mixed"), "neighbours", "other rows of u")


@pytest.mark.parametrize("kind", ["ratio"])
def test_a_threshold_that_was_meant_for_another_kind_is_not_used(kind: str, command: Command) -> None:
    """0.1 is a small difference and a terrible ratio: a gate must not pass by accident."""
    ended = command(ask(), "--kind", kind)
    says(ended, "property.threshold", "--threshold 0.8")
