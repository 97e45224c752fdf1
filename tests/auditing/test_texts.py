"""An audit of a recurrent network that reads texts goes the whole way."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fairchain import audit, recheck
from fairchain.spec import revise
from tests.auditing.builders import few_inputs
from tests.chain.recurrent import texts


def test_texts_are_verified_explained_repaired_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEXTS", "TEXTS_REFINED"):
        monkeypatch.setattr(f"fairchain.repairing.change_plan.{name}", 512)
    asked, spec = revise(texts(tmp_path), property__threshold=0.08), tmp_path / "texts.json"
    spec.write_bytes(msgspec.json.encode(asked))
    with few_inputs():
        found = audit(spec, tmp_path / "out", workers=1)
    assert found.decision == "UNFAIR"
    assert set(found.findings.left_out) == set()
    page = found.report.read_text(encoding="utf-8")
    for words in (
        "Why: words and units",
        "Words: the decrease of the share of texts",
        "those of the compared groups were all counted",
    ):
        assert words in page
    assert f"--data {tmp_path / 'texts.txt'}" in found.recheck[0]
    network = asked.model.path
    assert network is not None
    assert recheck(found.folder / "certificate.json", network, data=tmp_path / "texts.txt").holds
