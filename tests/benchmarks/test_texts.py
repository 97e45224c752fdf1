"""The benchmark of texts in small: it runs, and it compares equal numbers of evaluations. Nothing looks at a clock."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.comments import fill_cache

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    fill_cache(tmp_path / "cache")
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(ROOT))
    yield importlib.import_module("benchmarks.parts.texts")
    sys.modules.pop("benchmarks.parts.texts", None)


@pytest.mark.parametrize("reading", ["observed", "swapped"])
def test_both_sides_make_as_many_evaluations(bench: Any, reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "BATCHES", (64,))
    monkeypatch.setattr(bench, "RESIDENT", 256)
    counts: list[int] = []
    run = bench.BareReader.run
    monkeypatch.setattr(bench.BareReader, "run", lambda self, count: counts.append(count) or run(self, count))
    sizes = replace(importlib.import_module("benchmarks.sizes").QUICK, text_bare=400, few_turns=1)
    lines = list(bench.against_bare_network("race", reading, sizes))
    assert [line.section for line in lines] == ["network", "drawing", "synonyms"]
    assert counts[-1] == 400
    assert "400 evaluations" in lines[0].note
    assert lines[0].limit is None
