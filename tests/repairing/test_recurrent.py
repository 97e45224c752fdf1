"""Recurrent networks are repaired too, those that read a series and those that read texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairchain.models import OnnxModel
from fairchain.repairing import repair
from fairchain.spec import revise
from fairchain.verification import verify
from tests.chain.recurrent import series, texts

QUICK: dict[str, Any] = {"iterations": 4, "workers": 1}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SEARCHED", "REFINED", "TEXTS", "TEXTS_REFINED"):
        monkeypatch.setattr(f"fairchain.repairing.change_plan.{name}", 2048)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_a_network_that_reads_a_series_is_repaired(tmp_path: Path, direction: str) -> None:
    spec = series(tmp_path, direction=direction, varied=False)
    spec = revise(spec, property__threshold=0.03, guarantee__budget__rounds=200_000)
    result = repair(None, spec, max_units=3, **QUICK)
    assert result.before.decision.name == "UNFAIR"
    assert result.change == "scales"
    assert result.accepted
    assert any(name.name.startswith("factor of lstm1") for name in result.adjustments)
    assert result.content is not None
    assert verify(OnnxModel.from_bytes(result.content, "saved.onnx", spec), spec, seed=7).fair


def test_a_network_that_reads_texts_keeps_its_accuracy_on_labelled_texts(tmp_path: Path) -> None:
    spec = revise(texts(tmp_path), property__threshold=0.08)
    lines = (tmp_path / "texts.txt").read_text(encoding="utf-8").splitlines()
    random = np.random.default_rng(0)
    rows = {
        "comment": [*lines, "", "unheard"],
        "label": [*random.choice(["fine", "toxic"], len(lines)), "fine", "fine"],
    }
    result = repair(None, spec, labelled=rows, **QUICK)
    assert result.change == "last-layer"
    assert result.price is not None
    # A text without a known word is nothing to be right about.
    assert result.price.inputs == len(lines) // 2
    assert result.accepted
    assert {change.tensor for change in result.changes} <= {"u", "bias_of_y"}
