"""Files line by line within limits, so that a line of any length costs no more memory than it may."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Protocol

from fairchain.errors import DataError


class Digest(Protocol):
    """What takes the bytes of a file as they are read."""

    def update(self, data: bytes, /) -> object:
        """Take some more."""


@contextmanager
def opened(path: Path, most_bytes: int) -> Iterator[BufferedReader]:
    """A file to read, if it is one and not too large; what goes wrong while it is read is a DataError."""
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


def limited_lines(path: Path, longest: int, most_bytes: int, digest: Digest) -> Iterator[bytes]:
    """The lines of a file without their ends. A longer line than allowed is an error that says which."""
    with opened(path, most_bytes) as file:
        number = 0
        while line := file.readline(longest + 2):
            number += 1
            if len(line) > longest and not line.endswith(b"\n"):
                raise DataError(f"{path}, line {number:,}: longer than {longest:,} bytes; split it, or leave it out")
            digest.update(line)
            # A mark of the byte order may stand before the first line.
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            yield line.removesuffix(b"\n").removesuffix(b"\r")


def digest_of(path: Path) -> str:
    """The sha256 of a file."""
    with opened(path, 2**63) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
