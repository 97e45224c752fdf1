"""Counts are compared one by one, both ways, and a comparison of nothing fails."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def results() -> Any:
    return import_module("benchmarks.results")


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
    results: Any, different: int, now: int, holds: bool
) -> None:
    check = results.compare_counts({"a": [1000] * 20}, {"a": [now] * different + [1000] * (20 - different)})
    assert (check.holds, check.enforced) == (holds, True)
    assert check.found.startswith(f"{20 - different} of 20 equal")
    assert (f"a / seed 0: 1,000 kept, {now:,} now" in check.found) == (different > 0)


def test_nothing_to_compare_fails(results: Any) -> None:
    for kept, counts in (({}, {"a": [1]}), ({"b": [1]}, {"a": [1]}), ({"a": [None]}, {"a": [1]}), ({"a": [1]}, {})):
        check = results.compare_counts(kept, counts)
        assert (check.holds, "NOTHING TO COMPARE" in check.found) == (False, True)


def test_a_short_run_is_compared_with_the_first_seeds_and_new_counts_are_reported(results: Any) -> None:
    assert results.compare_counts({"a": [1, 2, 3]}, {"a": [1, 2]}).found == "2 of 2 equal"
    check = results.compare_counts({"a": [1, None, 3]}, {"a": [1, 2, None], "new": [2]})
    assert (check.holds, check.found) == (True, "1 of 1 equal; 2 new")


def test_counts_of_a_part_are_kept_and_those_of_other_parts_stay(results: Any, tmp_path: Path) -> None:
    path = tmp_path / "counts.json"
    results.keep_counts({"growth": {"x / y": [1, None]}, "other": {"z": [3]}}, path)
    results.keep_counts({"growth": {"x / y": [2]}}, path)
    assert results.kept_counts(path) == {"growth": {"x / y": [2]}, "other": {"z": [3]}}
    assert len(path.read_text(encoding="utf-8").splitlines()) == 8
    assert results.kept_counts(tmp_path / "missing.json") == {}


def test_the_kept_counts_are_of_parts_that_exist(results: Any) -> None:
    parts = import_module("benchmarks.__main__").PARTS
    kept = results.kept_counts()
    assert set(kept) <= set(parts)
    assert {"verification", "comparison", "near_threshold", "chain_growth"} <= set(kept)
