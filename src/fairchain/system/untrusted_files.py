"""Untrusted files: only regular files are read, because a pipe may never open; JSON without duplicate keys."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

TOO_LARGE = "larger than the limit of {most:,} bytes"
NOT_PLAIN_FILE = "not a plain file"
NO_FILE_HERE = "file not found"
UNREADABLE = "cannot be read ({error})"


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file for reading bytes, without waiting; raise an OSError for a folder, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(descriptor, "rb") if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    if file is None:
        os.close(descriptor)
        raise OSError(errno.EINVAL, NOT_PLAIN_FILE, str(path))
    return file


class UnreadableError(Exception):
    """The reason why a file cannot be read, in a few words; `missing` if it does not exist."""

    def __init__(self, why: str, *, missing: bool = False) -> None:
        super().__init__(why)
        self.missing = missing


def read_plain(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes, or raise an UnreadableError."""
    try:
        with open_plain(path) as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise UnreadableError(NO_FILE_HERE, missing=True) from None
    except (OSError, ValueError) as error:
        raise UnreadableError(UNREADABLE.format(error=getattr(error, "strerror", None) or error)) from None
    if len(content) > most:
        raise UnreadableError(TOO_LARGE.format(most=most))
    return content


def object_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, as `object_pairs_hook` of json.loads; raise a ValueError for a duplicate key.

    Some programs use the first value of such a key, and some the last.

    >>> json.loads('{"a": 1, "a": 2}', object_pairs_hook=object_once)
    Traceback (most recent call last):
    ValueError: the key "a" occurs twice in one object
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {json.dumps(twice[:60])} occurs twice in one object")
    return found
