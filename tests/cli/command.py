"""The command line, run in the process of a test."""

from __future__ import annotations

import sys

import pytest

from fairchain.cli.app import run


class Cli:
    """Runs the command line in this process and keeps what it printed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["fairchain", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            run()
        printed = self._capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err
