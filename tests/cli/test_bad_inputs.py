"""Promise of the command line: bad input ends with exit code 2 and one line with the file, the key and a remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.cli.app import run
from fairchain.examples import example
from fairchain.spec.load import ADVICE
from tests.networks import graph, linear, node, save, value
from tests.questions import category, changed, integer, question

GOOD = question(integer("age"), category("sex", "Female", "Male"))


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """The command line within this process, which is much faster than a new one."""

    def call(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["fairchain", *map(str, arguments)])
        monkeypatch.delenv("FAIRCHAIN_TRACEBACK", raising=False)
        with pytest.raises(SystemExit) as caught:
            run()
        captured = capsys.readouterr()
        code = caught.value.code
        assert isinstance(code, int)
        return Ended(code, captured.out, captured.err)

    return call


def new_process(*arguments: object) -> Ended:
    code = "from fairchain.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )
    return Ended(result.returncode, result.stdout, result.stderr)


def audit(folder: Path, data: dict[str, Any] = GOOD, network: Any = None) -> Path:
    """A spec file with its network beside it."""
    if network is None:
        network = linear([[0, 1], [0, -1]], [4.5, 0])
    if isinstance(network, bytes):
        (folder / "network.onnx").write_bytes(network)
    else:
        save(network, folder / "network.onnx")
    path = folder / "audit.json"
    path.write_text(json.dumps(data))
    return path


def says(ended: Ended, *words: str) -> None:
    """Exit code 2, nothing on standard output, and one line with these words."""
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("fairchain: ")
    assert ended.err.count("\n") == 1
    assert ended.err.endswith("\n")
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


SPECS: dict[str, tuple[str, Any, list[str]]] = {
    "unknown key": ("guarantee.detla", 0.1, ["guarantee.detla", 'did you mean "delta"']),
    "low above high": ("feature.0.low", 10, ['feature "age"', "low 10", "high 9", "exchange"]),
    "threshold 0": ("property.threshold", 0, ["property.threshold", "found 0", ADVICE["property.threshold"]]),
    "threshold 1": ("property.threshold", 1, ["property.threshold", "found 1", ADVICE["property.threshold"]]),
    "threshold below 0": ("property.threshold", -0.1, ["property.threshold", "-0.1", ADVICE["property.threshold"]]),
    "delta 0": ("guarantee.delta", 0, ["guarantee.delta", "found 0", "for example delta = 1e-6"]),
    "no such feature": ("property.protected", ["sx"], ["property.protected", '"sx"', 'did you mean "sex"']),
    "group with no values": (
        "feature.1.groups",
        {"f": [], "m": "Male"},
        ['"sex".groups.f', "no values", "list at least"],
    ),
    "one group only": ("feature.1.groups", {"f": "Female"}, ["property.protected", "one group only", "at least two"]),
    "labels too many": (
        "model.labels",
        ["a", "b", "c"],
        ["model.labels", "2 columns", "3 labels", "one label for each"],
    ),
    "features too few": ("feature", GOOD["feature"][1:], ["takes 2 values", "1 [[feature]]", "one [[feature]] each"]),
}


@pytest.mark.parametrize("name", SPECS)
def test_a_spec_that_cannot_be_meant(name: str, tmp_path: Path, command: Callable[..., Ended]) -> None:
    key, value_, words = SPECS[name]
    path = audit(tmp_path, changed(GOOD, key, value_))
    says(command("verify", path), str(tmp_path), *words)


def whole() -> bytes:
    return example("census").with_suffix(".onnx").read_bytes()


NETWORKS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "text": (lambda: b"this is no network", ["not an ONNX file", "model.path"]),
    "empty": (lambda: b"", ["empty", "export"]),
    "truncated": (lambda: whole()[:9000], ["truncated", "model.path"]),
    "too wide": (lambda: linear(np.zeros((3, 2))), ["takes 3 values", "2 [[feature]]", "one [[feature]] each"]),
    "NaN": (
        lambda: graph([node("Acosh", ["x"], ["y"])], [value("x")], [value("y")]),
        ["nan", "the input was age=", "narrow low and high"],
    ),
    "one column": (lambda: linear([[1], [1]]), ["single column", 'decision = "logit"']),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_that_cannot_be_used(name: str, tmp_path: Path, command: Callable[..., Ended]) -> None:
    network, words = NETWORKS[name]
    path = audit(tmp_path, GOOD, network())
    says(command("verify", path), str(tmp_path / "network.onnx"), f"(spec: {path})", *words)


def test_a_missing_spec(tmp_path: Path, command: Callable[..., Ended]) -> None:
    says(command("verify", tmp_path / "nothing.toml"), str(tmp_path / "nothing.toml"), "file not found", "spec")


def test_a_missing_network(tmp_path: Path, command: Callable[..., Ended]) -> None:
    path = audit(tmp_path)
    (tmp_path / "network.onnx").unlink()
    says(command("verify", path), str(tmp_path / "network.onnx"), "file not found", "model.path")
    says(command("verify", path, "--model", tmp_path / "other.onnx"), str(tmp_path / "other.onnx"), "file not found")


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("--threshold", "1.5", ["property.threshold", "1.5"]),
        ("--threshold", "nan", ["property.threshold", "nan"]),
        ("--delta", "0", ["guarantee.delta", "found 0"]),
        ("--epsilon", "1e-300", ["guarantee.epsilon", "1e-300"]),
        ("--epsilon", "0.5", ["guarantee.epsilon", "0.5"]),
        ("--protected", "sx", ["property.protected", 'did you mean "sex"']),
        ("--outcome", "yess", ["property.outcome", 'did you mean "yes"']),
        ("--rounds", "0", ["guarantee.budget.rounds", "from 1 up"]),
        ("--rounds", "1.5", ["guarantee.budget.rounds", "whole number"]),
        ("--rounds", "inf", ["guarantee.budget.rounds"]),
        ("--seconds", "-1", ["guarantee.budget.seconds", "positive"]),
        ("--seed", "-1", ["guarantee.seed", "2**63"]),
    ],
)
def test_an_option_is_checked_like_its_key(
    option: str, text: str, words: list[str], tmp_path: Path, command: Callable[..., Ended]
) -> None:
    says(command("verify", audit(tmp_path), option, text), *words)


@pytest.mark.parametrize("where", ["missing/certificate.json", "."])
def test_a_certificate_that_cannot_be_written_is_said_before_the_work(
    where: str, tmp_path: Path, command: Callable[..., Ended]
) -> None:
    path = audit(tmp_path)
    (tmp_path / "network.onnx").write_bytes(b"never looked at")
    says(
        command("verify", path, "--certificate", tmp_path / where), str(tmp_path), "cannot be written", "--certificate"
    )


def test_names_in_a_message_cannot_break_its_line(tmp_path: Path, command: Callable[..., Ended]) -> None:
    data = changed(changed(GOOD, "feature.0.name", "a\nfairchain: all is well\x1b[2J"), "feature.0.low", 99)
    says(command("verify", audit(tmp_path, data)), "low 99")


def test_names_with_markup_are_printed_as_they_are(tmp_path: Path, command: Callable[..., Ended]) -> None:
    data = changed(GOOD, "feature.1", category("[bold]sex[/]", "[red]F{0}", "M[/nothing]"))
    ended = command("verify", audit(tmp_path, changed(data, "property.protected", ["[bold]sex[/]"])), "--rounds", 300)
    assert ended.code in (0, 1, 3), ended
    assert ended.err == ""
    assert "[bold]sex[/]=[red]F{0}" in ended.out
    assert "[bold]sex[/]=M[/nothing]" in ended.out


def test_with_json_the_error_is_one_object(tmp_path: Path, command: Callable[..., Ended]) -> None:
    ended = command("verify", audit(tmp_path, changed(GOOD, "property.threshold", 2)), "--json")
    assert ended.code == 2
    assert json.loads(ended.out)["exit_code"] == 2
    assert "property.threshold" in json.loads(ended.out)["error"]
    assert ended.err.count("\n") == 1


def test_a_damaged_name_in_a_network_leaves_standard_output_clean(tmp_path: Path) -> None:
    """The runtime's own notes about a file must not end up in front of our JSON."""
    network = linear([[0, 1], [0, -1]])
    network.graph.node[1].input[1] = "QQQQ"
    garbled = network.SerializeToString().replace(b"QQQQ", b"Q\xff\xfeQ")
    ended = new_process("verify", audit(tmp_path, GOOD, garbled), "--json")
    assert ended.code == 2
    assert json.loads(ended.out)["exit_code"] == 2


def test_an_unknown_example_lists_the_known_ones(command: Callable[..., Ended]) -> None:
    ended = command("demo", "cencus")
    assert ended.code == 2
    assert "Traceback" not in ended.err
    for word in ("cencus", "census", "credit", "bank"):
        assert word in ended.err


@pytest.mark.parametrize("arguments", [["verify"], ["nothing"], ["verify", "a.toml", "--no-such-option"]])
def test_bad_usage_has_exit_code_2_too(arguments: list[str], command: Callable[..., Ended]) -> None:
    ended = command(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert "--help" in ended.err
    assert ended.err.count("\n") == 1


def test_a_certificate_that_is_none(tmp_path: Path, command: Callable[..., Ended]) -> None:
    network = save(linear([[0, 1], [0, -1]]), tmp_path / "network.onnx")
    says(command("recheck", tmp_path / "c.json", "--model", network), str(tmp_path / "c.json"))
    (tmp_path / "c.json").write_text("{")
    says(command("recheck", tmp_path / "c.json", "--model", network), str(tmp_path / "c.json"))


MONITOR = ("--protected", "sex", "--prediction", "d", "--outcome", "yes", "--threshold", 0.1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "pipe.toml"),
        ("recheck", "pipe.json"),
        ("card", "pipe.json"),
        ("monitor", "rows.csv", *MONITOR, "--state", "pipe.json"),
    ],
)
def test_a_pipe_without_a_writer_is_not_waited_for(
    arguments: tuple[str, ...], tmp_path: Path, command: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("pipe.toml", "pipe.json"):
        os.mkfifo(name)
    Path("rows.csv").write_text("sex,d\nf,yes\nm,no\n")
    ended = command(*arguments)
    assert ended.code == 2
    assert "plain file" in ended.err


@pytest.mark.parametrize("case", ["spec", "network", "threshold"])
def test_a_real_process_ends_in_the_same_way(case: str, tmp_path: Path) -> None:
    path = audit(tmp_path, changed(GOOD, "property.threshold", 2) if case == "threshold" else GOOD)
    if case == "network":
        (tmp_path / "network.onnx").write_bytes(whole()[:5000])
    missing = tmp_path / "nothing.toml"
    says(new_process("verify", missing if case == "spec" else path), str(tmp_path))
