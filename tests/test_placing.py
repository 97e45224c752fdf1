"""Promises of `placing`: a file is the old one or the new one, and of several that cannot all be written none is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairchain.placing import place


@pytest.mark.parametrize("lasting", [False, True])
def test_files_are_placed_whole_and_can_be_read_by_others(lasting: bool, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"old and longer")
    place({one: b"new", two: b""}, lasting=lasting)
    assert (one.read_bytes(), two.read_bytes()) == (b"new", b"")
    assert one.stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


@pytest.mark.parametrize("operation", ["chmod", "replace"])
def test_what_fails_leaves_what_was_there(operation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle too: the second file's chmod, the first file's replace."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"old")
    calls = []

    def fail(*arguments: object) -> None:
        calls.append(arguments)
        if operation == "replace" or len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, operation, fail)
    with pytest.raises(KeyboardInterrupt):
        place({one: b"new", two: b"new"})
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("one", b"old")]


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        place({tmp_path / "one": b"1", tmp_path / "none" / "two": b"2"})
    assert not list(tmp_path.iterdir())
