"""Files placed whole: whatever happens meanwhile, a reader finds the old one or the new one, and never half of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from fairchain.errors import OutputError

# How a file's name begins and ends before it is in its place; a process that is killed may leave one behind.
PART = (".fairchain-", ".part")


def place(contents: Mapping[Path, bytes], *, lasting: bool = False, part: tuple[str, str] = PART) -> None:
    """Put files in their places, in this order; `lasting` waits until each is on the disk.

    All are written beside their places first, so that a full disk leaves none of them.

    A device or a pipe is written to, not replaced.

    Raises
    ------
    OutputError
        If one cannot be written.
    """
    special = {path: content for path, content in contents.items() if _is_special(path)}
    made: list[tuple[str, Path]] = []
    path = Path()
    try:
        for path, content in contents.items():
            if path in special:
                continue
            with NamedTemporaryFile(dir=path.parent, prefix=part[0], suffix=part[1], delete=False) as file:
                made.append((file.name, path))
                file.write(content)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.chmod(file.name, 0o644)  # noqa: PTH101  # a temporary file is private by default
        while made:
            path = made[0][1]
            os.replace(*made[0])  # noqa: PTH105
            del made[0]
        for path, content in special.items():
            with path.open("wb") as special_file:
                special_file.write(content)
    except (OSError, ValueError) as error:
        raise _problem(path, error) from None
    finally:
        for name, _ in made:
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file by one write, so that of several writers at once none is lost or torn.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    try:
        with path.open("ab", buffering=0) as file:
            written = file.write(content)
            if written < len(content):
                # The disk takes a part of it; the rest tells why.
                file.write(content[written:])
    except (OSError, ValueError) as error:
        raise _problem(path, error) from None


def _is_special(path: Path) -> bool:
    """Whether a path names something that exists and is neither a file nor a folder."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, ValueError):
        return False


def _problem(path: Path, error: OSError | ValueError) -> OutputError:
    return OutputError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})")
