"""Whatever kills an audit, nothing is half written, nothing that was finished is lost, and the end is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked")


@pytest.fixture(scope="module")
def kills(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How often it was killed in which way; one process for both, since most of its time goes into imports."""
    program = [sys.executable, "-m", "tests.auditing.kills", str(tmp_path_factory.mktemp("kills"))]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, int] = json.loads(ended.stdout)
    return found


def test_an_audit_that_is_killed_before_any_of_its_file_operations_goes_on(kills: dict[str, int]) -> None:
    assert kills["operations"] > 20


def test_an_audit_that_is_killed_again_and_again_ends_with_the_same_bytes(kills: dict[str, int]) -> None:
    assert kills["moments"] == 25
