"""What the tests of several commands need."""

from __future__ import annotations

import io
import sys

import pytest

from fairchain.cli.app import run
from tests.cli.command import Cli
from tests.cli.decisions import Command, Ended


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(monkeypatch, capsys)


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`fairchain monitor` within this process."""

    def call(*arguments: object, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["fairchain", "monitor", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        monkeypatch.delenv("FAIRCHAIN_TRACEBACK", raising=False)
        with pytest.raises(SystemExit) as caught:
            run()
        captured = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Ended(caught.value.code, captured.out, captured.err)

    return call
