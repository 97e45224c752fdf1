"""Time against states: what `make bench` counts is among what a full run keeps."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.suite.{name}")


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Chains are made up: their rounds follow from their kind, their features and the accuracy."""
    found = module("growth")

    def measure(_: Any, kind: str, features: tuple[str, ...], epsilon: float) -> Any:
        states = 10 * len(features) + len(kind)
        return found.Row(kind, states, round(states / epsilon), 0.1 * states)

    monkeypatch.setattr(found, "measure", measure)
    monkeypatch.setattr(module("kept"), "RESULTS", tmp_path)
    return found


def kept(found: Any, folder: Path) -> None:
    outcome, machine = module("outcome"), module("machine").this_machine()
    part = outcome.Part("growth", "G", "paper", {}, "d", 1.0, machine, "", [], [], [], [], found.counts)
    outcome.keep(part, folder)


def test_a_small_run_finds_every_count_in_what_a_full_run_keeps(growth: Any, tmp_path: Path) -> None:
    sizes = module("sizes")
    full, small = growth.run(sizes.PAPER, None), growth.run(sizes.QUICK, None)
    assert len(small.counts) == 2 * sizes.QUICK.steps
    assert small.counts.items() <= full.counts.items()
    kept(full, tmp_path)
    assert module("__main__").run_part("growth", sizes.QUICK, None).checks[-1].holds


def test_other_rounds_than_those_that_were_kept_are_seen(
    growth: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, measure = module("sizes").QUICK, growth.measure
    kept(growth.run(quick, None), tmp_path)
    monkeypatch.setattr(growth, "measure", lambda *asked: growth.Row(asked[1], measure(*asked).states, 7, 1.0))
    check = module("__main__").run_part("growth", quick, None).checks[-1]
    assert (check.holds, check.enforced) == (False, True)
