"""What the tests of several commands need."""

from __future__ import annotations

import pytest

from tests.cli.command import Cli


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)
