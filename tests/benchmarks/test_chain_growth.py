"""Time against states: what `make bench` counts is among what a full run keeps."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Chains are made up: their rounds follow from their kind, their features and the accuracy."""
    found = module("parts.chain_growth")

    def measure(_: Any, kind: str, features: tuple[str, ...], epsilon: float) -> Any:
        states = 10 * len(features) + len(kind)
        return found.Row(kind, states, round(states / epsilon), 0.1 * states)

    monkeypatch.setattr(found, "measure", measure)
    monkeypatch.setattr(module("__main__"), "COUNTS", tmp_path / "counts.json")
    return found


def keep(result: Any, folder: Path) -> None:
    module("results").keep_counts({"chain_growth": result.counts}, folder / "counts.json")


def test_a_small_run_finds_every_count_in_what_a_full_run_keeps(growth: Any, tmp_path: Path) -> None:
    sizes = module("sizes")
    full, small = growth.run(sizes.PAPER, None), growth.run(sizes.QUICK, None)
    assert len(small.counts) == 2 * sizes.QUICK.steps
    assert small.counts.items() <= full.counts.items()
    keep(full, tmp_path)
    assert module("__main__").run_part("chain_growth", sizes.QUICK, None).result.checks[-1].holds


def test_other_rounds_than_those_that_were_kept_are_seen(
    growth: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, measure = module("sizes").QUICK, growth.measure
    keep(growth.run(quick, None), tmp_path)
    monkeypatch.setattr(growth, "measure", lambda *given: growth.Row(given[1], measure(*given).states, 7, 1.0))
    check = module("__main__").run_part("chain_growth", quick, None).result.checks[-1]
    assert (check.holds, check.enforced) == (False, True)
