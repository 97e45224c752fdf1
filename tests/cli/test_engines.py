"""`--engine` on the command line: the engine is chosen, named, and what it cannot do is one message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import Cli
from tests.networks import linear, save

SPEC = """
[model]
path = "network.onnx"
labels = ["no", "yes"]
decision = "logit"
[[feature]]
name = "income"
kind = "integer"
low = 0
high = 77
[[feature]]
name = "sex"
kind = "category"
values = ["F", "M"]
[property]
kind = "difference"
protected = ["sex"]
threshold = 0.1
"""


@pytest.fixture(name="spec")
def _spec(tmp_path: Path) -> Path:
    save(linear([[1.0], [-8.0]], [-40.5], end="Identity"), tmp_path / "network.onnx")
    path = tmp_path / "audit.toml"
    path.write_text(SPEC)
    return path


def test_a_small_space_is_enumerated_and_the_output_says_so(cli: Cli, spec: Path) -> None:
    code, output, _ = cli("verify", spec)
    assert code == 1
    assert "Exact: all 156 inputs were evaluated." in output
    assert "delta 0" in output
    _, output, _ = cli("verify", spec, "--json")
    found = json.loads(output)
    assert (found["engine"], found["delta"], found["evaluations"]) == ("enumeration", 0.0, 156)


def test_sampling_can_be_chosen(cli: Cli, spec: Path) -> None:
    _, output, _ = cli("verify", spec, "--engine", "sampling", "--rounds", 100, "--json")
    assert json.loads(output)["engine"] == "sampling"


def test_an_enumeration_that_ends_early_says_what_to_do(cli: Cli, spec: Path) -> None:
    spec.write_text(SPEC.replace("high = 77", "high = 1000000"))
    code, output, _ = cli("verify", spec, "--engine", "enumeration", "--seconds", 1e-9, "--threshold", 0.000004)
    assert code == 3
    assert "give it more time (--seconds), or use --engine sampling" in " ".join(output.split())


@pytest.mark.parametrize(("engine", "words"), [("counting", "rows of a table"), ("guess", "is not one of")])
def test_an_engine_that_cannot_answer_is_one_message(cli: Cli, engine: str, words: str, spec: Path) -> None:
    code, _, error = cli("verify", spec, "--engine", engine)
    assert code == 2
    assert words in error
    assert error.count("\n") == 1
