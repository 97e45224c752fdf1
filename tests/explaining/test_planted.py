"""A planted cause is found: in 50 random networks, by its effect in all of them, by the paper's measure not always."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Ten of each of five families: neurons that only say how much, hidden among decoys, deep; features.
FAMILIES = ("always on", "decoys", "deep", "interplay", "proxy")


@pytest.fixture(scope="module")
def planted() -> Iterator[Any]:
    sys.path.insert(0, str(ROOT))
    yield importlib.import_module("benchmarks.parts.planted")
    sys.path.remove(str(ROOT))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_planted_unit_comes_first_and_removing_it_removes_the_gap(planted: Any, family: str) -> None:
    found = [planted.look_for(family, number, 1000) for number in range(10)]
    assert [each.by_effect for each in found] == [1] * 10
    assert all(each.gap > 0.05 for each in found)
    assert all(each.left == 0 for each in found)
    if family in ("always on", "decoys", "interplay"):
        assert any(each.by_sensitivity > 1 for each in found)
