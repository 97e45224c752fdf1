"""Files line by line within limits, so that a line of any length costs no more memory than it may."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from fairchain.errors import DataError


@contextmanager
def opened(path: Path, most_bytes: int) -> Iterator[BufferedReader]:
    """Open a regular file that is not too large; what goes wrong while it is read is a DataError."""
    try:
        if not path.is_file():
            raise DataError(f"{path}: there is no such file")
        if path.stat().st_size > most_bytes:
            raise DataError(f"{path}: larger than {most_bytes:,} bytes; keep a part of it")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise DataError(f"{path!s}: cannot be read ({error})") from None


def limited_lines(path: Path, longest: int, most_bytes: int, update: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield the lines of a file without their ends, after `update` got their bytes; a longer line is an error."""
    with opened(path, most_bytes) as file:
        number = 0
        while line := file.readline(longest + 2):
            number += 1
            if len(line) > longest and not line.endswith(b"\n"):
                raise DataError(f"{path}, line {number:,}: longer than {longest:,} bytes; split it, or leave it out")
            update(line)
            # A byte order mark may come before the first line.
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def stamps_of(*paths: Path) -> tuple[tuple[Path, int, int], ...]:
    """Return time and size of files that exist: a file that was written again has another stamp."""
    found = []
    # What is wrong with a file is said when it is read.
    with suppress(OSError, ValueError):
        for path in paths:
            status = path.stat()
            found.append((path, status.st_mtime_ns, status.st_size))
    return tuple(found)


def digest_of(path: Path) -> str:
    """Return the sha256 of a file."""
    with opened(path, 2**63) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
