"""The benchmark suite in small: parts run, what they find is kept and rendered, and a broken limit is seen.

Nothing here looks at a clock. Statistical tests have fixed seeds, so that they fail always or never.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.suite.{name}")


@pytest.fixture
def _tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of almost nothing, two cases, few rivals, and no bare network."""
    sizes = replace(
        module("sizes").QUICK,
        seeds=1,
        truth=8192,
        repetitions=2,
        explained=500,
    )
    comparison = module("comparison")
    monkeypatch.setitem(module("__main__").SIZES, "quick", sizes)
    cases = [case for case in module("cases").embedded() if case.name in ("census sex", "credit age")]
    monkeypatch.setattr(module("cases"), "embedded", lambda: cases)
    # Committed counts are compared by the suite itself; here there are none.
    monkeypatch.setattr(module("kept"), "RESULTS", Path("nowhere"))
    monkeypatch.setattr(module("limits").bench, "timed", lambda _: iter([]))
    monkeypatch.setattr(comparison, "_fairlearn_table", lambda *_: (module("outcome").Table("", [], []), 1.0))
    monkeypatch.delitem(comparison.METHODS, "fixed sample 1e-6")
    # Without rows there is one repair all the same.
    monkeypatch.setattr(module("repair").repairs, "embedded_cases", lambda: iter([]))


# The others are run by `make bench`.
PARTS = ["verification", "repair", "growth", "sensitivity", "comparison", "limits"]


@pytest.mark.usefixtures("_tiny")
def test_the_parts_run_and_everything_counted_holds(tmp_path: Path) -> None:
    main = module("__main__").main
    # Without counts to compare with a run is not a success, and nothing else fails.
    assert main(["--only", *PARTS, "--out", str(tmp_path)]) == 1
    page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
    failing = [line for line in page.splitlines() if "**FAILS**" in line]
    assert failing
    assert all("NOTHING TO COMPARE" in line for line in failing)
    for name in PARTS:
        assert f"## {module('__main__').PARTS[name]}\n" in page
        part = module("outcome").kept(name, tmp_path / "results")
        assert any("seed" in key for key in part.used), name
        # What a stranger can read: few columns, each with a head of its own.
        for heads in ([column.name for column in table.columns] for table in part.tables):
            assert len(heads) <= 10, (name, heads)
            assert len(set(heads)) == len(heads), (name, heads)
    for file in ("growth.svg", "sensitivity-census.svg", "sensitivity-features.svg", "sensitivity-neurons.svg"):
        assert f"results/{file}" in page
        assert ElementTree.parse(tmp_path / "results" / file).getroot().tag.endswith("svg")
    # The page is made from what was kept, and from nothing else.
    (tmp_path / "RESULTS.md").unlink()
    assert main(["--render", "--out", str(tmp_path)]) == 1
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == page


def test_something_that_does_not_hold_sets_the_exit_code_unless_it_rests_on_the_clock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, main = module("outcome"), module("__main__").main
    for enforced, code in ((True, 1), (False, 0)):
        check = outcome.Check("a promise", False, "2", "1", enforced)
        found = outcome.Found("Text.", [], [], [check], {}, ["slower somewhere"])
        monkeypatch.setattr(module("growth"), "run", lambda *_, found=found: found)
        assert main(["--only", "growth", "--out", str(tmp_path)]) == code
        assert ("does not hold: growth: a promise" in capsys.readouterr().out) == enforced
        page = (tmp_path / "RESULTS.md").read_text(encoding="utf-8")
        assert ("**FAILS**" in page) == enforced
        assert "- slower somewhere" in page


def test_a_part_is_read_as_it_was_kept(tmp_path: Path) -> None:
    outcome = module("outcome")
    table = outcome.Table("T", [outcome.Column("a"), outcome.Column("b", ",.1f")], [["x|y", 1234.56], ["z", None]], "n")
    plot = outcome.Plot("p.svg", "P", "x", "y", [outcome.Series("s", [(1.0, 2.0)])])
    machine = module("machine").this_machine()
    part = outcome.Part("growth", "G", "quick", {"n": 3}, "d", 1.0, machine, "text", [table], [plot], [], [])
    outcome.keep(part, tmp_path)
    assert outcome.kept("growth", tmp_path) == part
    assert outcome.kept("scaling", tmp_path) is None
    page = module("render").render([part])
    assert "| x\\|y | 1,234.6 |\n| z | - |" in page
