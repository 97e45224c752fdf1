"""Promises of `placing`: a file is the old one or the new one, and of several that cannot all be written none is."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairchain.errors import OutputError
from fairchain.system.atomic_write import CANNOT_BE_WRITTEN, append, place
from tests.messages import says


@pytest.mark.parametrize("lasting", [False, True])
def test_files_are_placed_whole_and_nothing_else_is_left(lasting: bool, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"old and longer")
    place({one: b"new", two: b""}, lasting=lasting)
    assert (one.read_bytes(), two.read_bytes()) == (b"new", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        place({tmp_path / "one": b"1"})
    finally:
        os.umask(before)
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.skipif(os.name == "nt", reason="permissions are others there")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_file_that_is_replaced_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"old")
    (tmp_path / "one").chmod(mode)
    place({tmp_path / "one": b"new"})
    assert ((tmp_path / "one").read_bytes(), (tmp_path / "one").stat().st_mode & 0o777) == (b"new", mode)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_is_replaced_and_what_it_names_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"old")
    (tmp_path / "one").symlink_to(tmp_path / "elsewhere")
    place({tmp_path / "one": b"new"})
    assert ((tmp_path / "elsewhere").read_bytes(), (tmp_path / "one").is_symlink()) == (b"old", False)


@pytest.mark.skipif(os.name == "nt", reason="no named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    place({tmp_path / "pipe": b"new"})
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@pytest.mark.parametrize("failing", [1, 2, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("links", [True, False])
def test_of_several_files_all_are_placed_or_none(
    failing: int, error: type[BaseException], links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever rename fails; on disks that have no second names for files too."""
    old, also, new = tmp_path / "old", tmp_path / "also", tmp_path / "new"
    old.write_bytes(b"old")
    also.write_bytes(b"also")
    calls, replace = [], os.replace

    def fail(*names: Any) -> None:
        calls.append(names)
        if len(calls) == failing:
            raise error
        replace(*names)

    def unsupported(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", fail)
    if not links:
        monkeypatch.setattr(os, "link", unsupported)
    with pytest.raises(OutputError if error is OSError else error):
        place({new: b"1", old: b"2", also: b"3"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"old": b"old", "also": b"also"}


def test_a_place_that_is_a_folder_leaves_the_other_files_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"old")
    (tmp_path / "two").mkdir()
    with pytest.raises(OutputError, match=says(CANNOT_BE_WRITTEN, path=str(tmp_path / "two"))):
        place({tmp_path / "one": b"new", tmp_path / "two": b"new"})
    assert (tmp_path / "one").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_a_file_that_cannot_be_written_is_named_and_none_is_placed(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=says(CANNOT_BE_WRITTEN, value="No such file or directory")):
        place({tmp_path / "one": b"1", tmp_path / "none" / "two": b"2"})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")  # noqa: PTH110
@pytest.mark.parametrize("write", [lambda path: place({path: b"x"}), lambda path: append(path, b"x")])
def test_a_full_device_is_one_error_that_names_it(write: Callable[[Path], None]) -> None:
    with pytest.raises(OutputError, match=says(CANNOT_BE_WRITTEN, path="/dev/full", value="No space left on device")):
        write(Path("/dev/full"))
