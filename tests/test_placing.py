"""Promises of `placing`: a file is the old one or the new one, and of several that cannot all be written none is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fairchain.errors import OutputError
from fairchain.placing import append, place


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


def test_a_file_that_cannot_be_written_is_named_and_none_is_placed(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"two: cannot be written \(No such file or directory\)"):
        place({tmp_path / "one": b"1", tmp_path / "none" / "two": b"2"})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    """`--certificate /dev/null`, written by root, must not replace the device by a file."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    place({path: b"whole"})
    assert os.read(reader, 100) == b"whole"
    os.close(reader)
    assert path.is_fifo()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("write", [lambda path: place({path: b"x"}), lambda path: append(path, b"x")])
def test_a_full_device_is_one_error_that_names_it(write: Callable[[Path], None]) -> None:
    with pytest.raises(OutputError, match=r"^/dev/full: cannot be written \(No space left on device\)$"):
        write(Path("/dev/full"))
