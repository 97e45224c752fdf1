"""Files placed whole: whatever happens meanwhile, a reader finds the old one or the new one, and never half of one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

# How a file's name begins and ends before it is in its place; a process that is killed may leave one behind.
PART = (".fairchain-", ".part")


def place(contents: Mapping[Path, bytes], *, lasting: bool = False, part: tuple[str, str] = PART) -> None:
    """Put files in their places, in this order; `lasting` waits until each is on the disk.

    All are written beside their places first, so that a full disk leaves none of them.

    Raises
    ------
    OSError
        If one cannot be written.
    """
    made: list[tuple[str, Path]] = []
    try:
        for path, content in contents.items():
            with NamedTemporaryFile(dir=path.parent, prefix=part[0], suffix=part[1], delete=False) as file:
                made.append((file.name, path))
                file.write(content)
                if lasting:
                    file.flush()
                    os.fsync(file.fileno())
            os.chmod(file.name, 0o644)  # noqa: PTH101  # a temporary file is private by default
        while made:
            os.replace(*made[0])  # noqa: PTH105
            del made[0]
    finally:
        for name, _ in made:
            with suppress(OSError):
                os.unlink(name)  # noqa: PTH108
