"""Certificates that were issued before stay readable, and are confirmed: the format is a promise to their holders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairchain import recheck
from tests.rechecking.make_fixtures import ASKED, FILES, FIXTURES, TEXT, restored

# Of a seed that was chosen, or of a budget that could have been: it gave the last batch other inputs in version 7.
CHOSEN = {"uniform-chosen-seed", "network-cut-7"}
KEPT = sorted(path.stem for path in FIXTURES.glob("*.json") if path.name != FILES)


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return restored(tmp_path_factory.mktemp("kept"))


def test_every_kind_of_population_is_kept() -> None:
    assert set(KEPT) == {*ASKED, *TEXT}
    kinds = {json.loads((FIXTURES / f"{name}.json").read_text())["spec"]["population"]["kind"] for name in KEPT}
    assert kinds == {"uniform", "marginals", "network", "table", "text"}


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_certificate_is_confirmed(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCHAIN_CACHE", str(tmp_path / "cache"))
    path = FIXTURES / f"{name}.json"
    spec = json.loads(path.read_text())["spec"]
    model, data = spec["model"]["path"], spec["population"].get("path")
    found = recheck(path, files / model if model else None, data=files / data if data else None)
    assert [claim for claim in found.claims if not claim.holds] == []
    assert found.conclusion == ("CONSISTENT" if name in CHOSEN else "CONFIRMED")
    assert found.fraction == 1
