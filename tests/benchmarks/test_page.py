"""The page that a stranger reads: what comes first, how numbers look, and how busy the machine was."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def part(load: float | None = None, **changes: Any) -> Any:
    results = module("results")
    table = results.Table("T", [results.Column("delta", "g"), results.Column("n", ",.0f")], [[1e-6, 1234.4]], "a note")
    plain = results.PartResult("Text.", [table], settings={"seeds": "0 to 4"})
    machine = module("measuring").this_machine(load)
    return module("page").PartRun("growth", "Time: states", "paper", "day", 1.0, machine, replace(plain, **changes))


def test_what_must_hold_comes_first_and_failures_are_counted() -> None:
    check = module("results").Check
    checks = [check("a", True, "1", "1"), check("b", False, "2", "1"), check("c", False, "2", "1", False)]
    page = module("page").render([part(checks=checks, behind=["slower somewhere"])])
    assert "1 of 3 hold; 1 fail." in page
    assert "[Time: states](#time-states)" in page
    heads = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert heads[:2] == ["What must hold", "Where fairchain is not ahead"]
    assert heads[-1] == "Time: states"
    assert "**Time: states**\n\n- slower somewhere" in page
    assert "Nowhere in this run." in module("page").render([part()])


def test_seeds_stand_with_their_part_and_numbers_are_readable() -> None:
    page = module("page").render([part()])
    assert "seeds 0 to 4" in page
    assert "| 1e-6 | 1,234 |" in page


def test_a_part_that_is_kept_is_shown_as_it_was(tmp_path: Path) -> None:
    results, page = module("results"), module("page")
    table = results.Table("T", [results.Column("n", ",.0f")], [[np.float64(1234.4)]], "")
    run = part(tables=[table])
    page.keep_run(run, tmp_path)
    assert page.render(page.kept_runs(["growth"], tmp_path)) == page.render([run])


@pytest.mark.parametrize(("others", "shown"), [(None, "-"), (0.3, "0.3"), (1.4, "1.4, busy")])
def test_a_part_that_was_run_on_a_busy_machine_is_marked(others: float | None, shown: str) -> None:
    run = part(others)
    page = module("page").render([run])
    assert f"| Time: states | paper | day | {run.machine.revision} | {shown} | 1 |" in page


def test_only_what_others_did_counts_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = module("measuring")
    now = {"clock": 0.0, "busy": 100.0, "own": 7.0}
    monkeypatch.setattr(machine.time, "perf_counter", lambda: now["clock"])
    monkeypatch.setattr(machine, "_busy_seconds", lambda: now["busy"])
    monkeypatch.setattr(machine, "_own_seconds", lambda: now["own"])
    watch = machine.LoadWatch()
    now.update(clock=10.0, busy=119.0, own=15.0)
    assert watch.others() == pytest.approx(1.1)
    now.update(busy=None)
    assert watch.others() is None


@pytest.mark.parametrize("page", ["RESULTS.md", "CALIBRATION.md"])
def test_a_page_says_which_revision_was_measured_and_how_it_is_written(page: str) -> None:
    text = module("page").render([part()], page)
    assert f"| day | {module('measuring').this_machine().revision} |" in text
    assert "Written by python -m benchmarks;" in text


def test_the_kept_page_has_the_exact_tools_of_the_docs() -> None:
    page = module("page")
    kept = (page.EXACT.parents[1] / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    assert "| FairSquare (2017) |" in page.exact_tools()
    assert page.exact_tools() in kept
    assert page.exact_tools() in page.render([part()])


def test_cells_are_escaped_and_missing_ones_are_marked() -> None:
    results = module("results")
    table = results.Table("T", [results.Column("a"), results.Column("b", ",.1f")], [["x|y", 1234.56], ["z", None]])
    assert "| x\\|y | 1,234.6 |\n| z | - |" in module("page").render([part(tables=[table])])
