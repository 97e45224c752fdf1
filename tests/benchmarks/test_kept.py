"""Counts are compared one by one, both ways, and a comparison of nothing is no success."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.suite.{name}")


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Keeps counts as if an earlier run had made them."""
    outcome, machine = module("outcome"), module("machine").this_machine()
    monkeypatch.setattr(module("kept"), "RESULTS", tmp_path)

    def write(counts: dict[str, int]) -> None:
        part = outcome.Part("growth", "G", "paper", {}, "d", 1.0, machine, "", [], [], [], [], counts)
        outcome.keep(part, tmp_path)

    return write


@pytest.mark.parametrize(
    ("different", "now", "holds"),
    [
        (0, 0, True),
        (2, 1001, True),
        (2, 700, True),
        (2, 1300, True),
        (3, 1001, False),
        (1, 699, False),
        (1, 1301, False),
    ],
)
def test_of_twenty_counts_two_may_be_off_and_not_by_much_either_way(
    keep: Any, different: int, now: int, holds: bool
) -> None:
    then = {str(place): 1000 for place in range(20)}
    keep(then)
    check = module("kept").as_kept("growth", then | {str(place): now for place in range(different)})
    assert (check.holds, check.enforced) == (holds, True)
    assert check.found.startswith(f"{20 - different} of 20 equal")
    assert (f"0: 1,000 kept, {now:,} now" in check.found) == (different > 0)


def test_nothing_to_compare_fails_and_says_so(keep: Any) -> None:
    as_kept = module("kept").as_kept
    for counts in ({"a": 1}, {}):
        check = as_kept("growth", counts)
        assert (check.holds, "NOTHING TO COMPARE: nothing was kept" in check.found) == (False, True)
    keep({"b": 1})
    assert "NOTHING TO COMPARE: what was kept has none of these" in as_kept("growth", {"a": 1}).found
    check = as_kept("growth", {"b": 1, "new": 2})
    assert (check.holds, check.found) == (True, "1 of 1 equal; 1 more are new")
