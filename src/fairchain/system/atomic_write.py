"""Atomic writing of files: a reader always finds the complete old or the complete new file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fairchain.errors import OutputError

# Prefix and suffix of temporary files; a killed process may leave one behind.
UNFINISHED_FILE = (".fairchain-", ".part")
CANNOT_BE_WRITTEN = "{path}: cannot be written ({value})"


def place(contents: Mapping[Path, bytes], *, lasting: bool = False, part: tuple[str, str] = UNFINISHED_FILE) -> None:
    """Write files, all of them or none; `lasting` waits until each is on the disk.

    All are first written to temporary files in the same folder, so that a full disk changes nothing, and then renamed
    in this order. If one cannot be renamed, the earlier ones are restored. Only the end of the process or of the
    machine between two renames leaves the first files new and the others old.

    A new file has the permissions of the umask, a replaced one keeps its own. A link is replaced, not followed; to a
    device or a pipe the content is written directly. Raises an OutputError if one cannot be written.
    """
    modes = {path: found.st_mode for path in contents if (found := _status(path, follow=True))}
    # Devices and pipes, such as /dev/null, cannot be replaced.
    streams = [path for path, mode in modes.items() if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)]
    made: list[tuple[str, Path]] = []
    path = Path()
    try:
        for path, content in contents.items():
            if path not in streams:
                made.append((_beside(path, part), path))
                former = _status(path, follow=False)
                kept = former if former is not None and stat.S_ISREG(former.st_mode) else None
                _write(made[-1][0], content, kept, lasting=lasting)
        path = made[-1][1] if made else path
        _swap(made, part)
        for path in streams:
            with path.open("wb") as stream:
                stream.write(contents[path])
    except (OSError, ValueError) as error:
        raise _problem(path, error) from None
    finally:
        for name, _ in made:
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108


def append(path: Path, content: bytes) -> None:
    """Append to a file with a single write, so that no data of simultaneous writers are lost or mixed.

    Raises an OutputError if it cannot be written.
    """
    try:
        with path.open("ab", buffering=0) as file:
            written = file.write(content)
            if written < len(content):
                # The disk accepts only a part; writing the rest gives the reason.
                file.write(content[written:])
    except (OSError, ValueError) as error:
        raise _problem(path, error) from None


def _swap(made: list[tuple[str, Path]], part: tuple[str, str]) -> None:
    """Rename files to their targets; if one fails, restore the others."""
    kept: dict[Path, str | None] = {}
    try:
        for name, path in made:
            # A single rename, or the last one, needs no way back.
            if path != made[-1][1]:
                kept[path] = _keep(path, part)
            os.replace(name, path)  # noqa: PTH105
    except BaseException:
        if os.path.lexists(made[-1][0]):
            for name, path in made:
                if path in kept and not os.path.lexists(name):
                    with suppress(OSError):
                        former = kept[path]
                        path.unlink() if former is None else os.replace(former, path)  # noqa: PTH105
        raise
    finally:
        for name in filter(None, kept.values()):
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108


def _keep(path: Path, part: tuple[str, str]) -> str | None:
    """Return a second name of the existing file; None if there is no file."""
    if not os.path.lexists(path):
        return None
    name = _beside(path, part)
    try:
        os.link(path, name, follow_symlinks=False)
    except OSError:
        # Some file systems have no hard links.
        import shutil

        shutil.copy2(path, name, follow_symlinks=False)
    return name


def _write(name: str, content: bytes, former: os.stat_result | None, *, lasting: bool) -> None:
    """Write a new file, with the permissions of the one that it will replace."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(name, flags, 0o666 if former is None else 0o600)
    with os.fdopen(handle, "wb") as file:
        if former is not None:
            # Root may write into the file of a user, who must be able to read it afterwards.
            with suppress(OSError, AttributeError):
                os.chown(name, former.st_uid, former.st_gid)
            os.chmod(name, former.st_mode & 0o777)  # noqa: PTH101
        file.write(content)
        if lasting:
            file.flush()
            os.fsync(file.fileno())


def _status(path: Path, *, follow: bool) -> os.stat_result | None:
    """Return the status of a file, or of a link itself; None if there is none."""
    try:
        return path.stat(follow_symlinks=follow)
    except (OSError, ValueError):
        return None


def _beside(path: Path, part: tuple[str, str]) -> str:
    return str(path.parent / f"{part[0]}{os.urandom(8).hex()}{part[1]}")


def _problem(path: Path, error: OSError | ValueError) -> OutputError:
    return OutputError(CANNOT_BE_WRITTEN.format(path=path, value=getattr(error, "strerror", None) or error))
