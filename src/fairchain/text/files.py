"""Files of texts and words: read line by line within limits, so that a line of any length needs limited memory.

Arrays that took long to compute are stored in the user's cache under the hash of their inputs. A file there is written
atomically and begins with the hash of the rest; a damaged one is ignored. Nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

from fairchain.errors import DataError, OutputError
from fairchain.system.atomic_write import place

DIGEST = 32
# A file with its number in the file system, its time and its size.
Stamp = tuple[Path, int, int, int]
CANNOT_BE_READ = "{path}: cannot be read ({strerror})"
NO_FILE = "{path}: file not found"


@contextmanager
def opened(path: Path, most_bytes: int) -> Iterator[BufferedReader]:
    """Open a regular file that is not too large; errors while reading become a DataError."""
    try:
        if not path.is_file():
            raise DataError(NO_FILE.format(path=path))
        if path.stat().st_size > most_bytes:
            raise DataError(f"{path}: larger than {most_bytes:,} bytes; keep a part of it")
        with path.open("rb") as file:
            yield file
    except (OSError, ValueError) as error:
        raise DataError(CANNOT_BE_READ.format(path=path, strerror=getattr(error, "strerror", error))) from None


def limited_lines(
    path: Path, longest: int, most_bytes: int, update: Callable[[bytes], object], *, ends: bool = False
) -> Iterator[bytes]:
    """Yield the lines of a file, without their `ends`, after `update` got their bytes; a longer line is an error."""
    with opened(path, most_bytes) as file:
        number = 0
        while line := file.readline(longest + 2):
            number += 1
            if len(line) > longest and not line.endswith(b"\n"):
                raise DataError(f"{path}, line {number:,}: longer than {longest:,} bytes; split it, or leave it out")
            update(line)
            # A byte order mark may come before the first line.
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            yield line if ends else line.removesuffix(b"\n").removesuffix(b"\r")


def stamps_of(*paths: Path) -> tuple[Stamp, ...]:
    """Return file number, time and size of files, -1 for a missing one: another or rewritten file has another stamp."""
    found = []
    for path in paths:
        # Errors in a file are reported when it is read.
        try:
            status = path.stat()
        except (OSError, ValueError):
            found.append((path, -1, -1, -1))
        else:
            found.append((path, status.st_ino, status.st_mtime_ns, status.st_size))
    return tuple(found)


def digest_of(path: Path) -> str:
    """Return the sha256 of a file."""
    with opened(path, 2**63) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def key_of(*parts: Any) -> str:
    """Return a name derived from everything that a result depends on."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def kept(folder: Path, key: str) -> dict[str, NDArray[Any]] | None:
    """Return the arrays under a key, if the file is complete."""
    try:
        content = memoryview((folder / f"{key}.npz").read_bytes())
        if hashlib.sha256(content[DIGEST:]).digest() != bytes(content[:DIGEST]):
            return None
        body = BytesIO(content[DIGEST:])
        with ZipFile(body) as whole:
            if any(member.compress_type != ZIP_STORED for member in whole.infolist()):
                return None  # `keep` does not compress, and compressed data may have any size
        with np.load(body, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
    except Exception:  # an invalid file can raise any exception
        return None
    return arrays if all(isinstance(array, np.ndarray) for array in arrays.values()) else None


def keep(folder: Path, key: str, **arrays: NDArray[Any]) -> None:
    """Store arrays for the next time; nothing is stored if the folder cannot be written."""
    body = BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]  # its other argument is not an array
    with suppress(OSError, OutputError):
        folder.mkdir(parents=True, exist_ok=True)
        place({folder / f"{key}.npz": hashlib.sha256(body.getbuffer()).digest() + body.getbuffer()})
