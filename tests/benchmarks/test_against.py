"""The benchmark against another revision: what it runs, in which order, and what it divides."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture
def against() -> Any:
    return import_module("benchmarks.against")


def test_both_sides_run_in_turns_and_each_goes_first_every_other_time(against: Any) -> None:
    order: list[str] = []

    def side(name: str, seconds: float) -> Any:
        order.append(name)
        return against.Seconds(seconds, seconds / 2)

    found = against.in_turns("case", lambda: side("ours", 3.0), lambda: side("theirs", 2.0), 4)
    assert order == ["ours", "theirs", *["theirs", "ours", "ours", "theirs"] * 2]
    assert found.ours == ((3.0, 1.5),) * 4
    assert found.theirs == ((2.0, 1.0),) * 4
    assert (found.ratio(), found.ratio("processor")) == (1.5, 1.5)


def test_a_command_and_a_server_answer_with_the_package_of_a_folder(
    against: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for stop in (False, True):
        assert against.cold(SOURCES, "credit", stop=stop).wall > 0
    with against.server(SOURCES) as answer:
        seconds, decision, evaluations = answer("credit")
    assert (seconds.wall > 0, decision, evaluations > 0) == (True, "UNFAIR", True)
    (tmp_path / "fairchain").mkdir()
    (tmp_path / "fairchain" / "__init__.py").write_text("")
    with pytest.raises(RuntimeError, match="exit code"):
        against.cold(tmp_path, "credit")
    assert "fairchain.cli" in capfd.readouterr().err
