"""The files of a repair: network, certificate and changes hold together, and nothing else is overwritten."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from msgspec.structs import replace as changed

from fairchain import recheck
from fairchain.errors import FairchainError
from fairchain.repairing import diff_report, repair, write_repair
from fairchain.repairing.files import OVERWRITES_SOURCE, STALE_CERTIFICATE
from tests.messages import says
from tests.repairing.builders import QUICK, asked, labelled

pytestmark = pytest.mark.usefixtures("few_inputs")


def test_the_new_file_has_the_old_interface_and_other_initialisers_only(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    result = repair(None, spec, **QUICK)
    assert result.content is not None
    old, new = onnx.load(spec.model.path or ""), onnx.load_from_string(result.content)
    onnx.checker.check_model(new)
    del old.graph.initializer[:], new.graph.initializer[:]
    assert old == new


def test_the_files_hold_together(tmp_path: Path) -> None:
    result = repair(None, asked(tmp_path), labelled=labelled(), **QUICK)
    files = write_repair(result, tmp_path / "fixed.onnx")
    assert [file.name for file in files] == ["fixed.onnx", "fixed.json", "fixed.txt"]
    assert recheck(tmp_path / "fixed.json", tmp_path / "fixed.onnx", seed=0).holds
    certificate = json.loads((tmp_path / "fixed.json").read_text())
    assert certificate["spec"]["model"]["path"] == "fixed.onnx"
    assert certificate["claims"]["delta"] == result.attempts[-1].delta
    text = (tmp_path / "fixed.txt").read_text()
    assert text == diff_report(result)
    assert "w1 (Gemm, 3 x 4)" in text
    assert "->" in text
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_network_that_was_repaired_is_never_overwritten(tmp_path: Path) -> None:
    spec = asked(tmp_path)
    result = repair(None, spec, **QUICK)
    file = Path(spec.model.path or "")
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(file.read_bytes())
    for path in (file, copy):
        with pytest.raises(FairchainError, match=says(OVERWRITES_SOURCE)):
            write_repair(result, path)
    assert {each.name for each in tmp_path.iterdir()} == {"network.onnx", "copy.onnx"}


def test_an_old_certificate_is_not_left_beside_a_network_that_has_none(tmp_path: Path) -> None:
    result = repair(None, asked(tmp_path), **QUICK)
    write_repair(result, tmp_path / "fixed.onnx")
    assert result.after is not None
    without = changed(result, after=replace(result.after, certifiable=False))
    with pytest.raises(FairchainError, match=says(STALE_CERTIFICATE)):
        write_repair(without, tmp_path / "fixed.onnx")


def test_a_disk_that_fills_up_leaves_no_file(tmp_path: Path) -> None:
    result = changed(repair(None, asked(tmp_path), **QUICK), content="no bytes")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        write_repair(result, tmp_path / "fixed.onnx")
    assert [each.name for each in tmp_path.iterdir()] == ["network.onnx"]
