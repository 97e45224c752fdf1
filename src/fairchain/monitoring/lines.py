"""Bytes of an input in whole lines, block by block, and the position in the input.

A regular file can be read again from the position of a state, if its beginning is unchanged; anything else is a stream,
which only continues.
"""

from __future__ import annotations

import hashlib
import select
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fairchain.errors import DataError
from fairchain.messages import FILE_NOT_FOUND

if TYPE_CHECKING:
    from hashlib import _Hash

BYTES_AT_ONCE = 2**20
MOST_LINE_BYTES = 2**20
# Seconds between two checks for signals while a stream has nothing to read.
PAUSE = 0.5


@dataclass(frozen=True, eq=False)
class Place:
    """A position in an input: bytes, lines, and a hash of them."""

    size: int = 0
    lines: int = 0
    hash: _Hash = field(default_factory=hashlib.sha256)

    def after(self, raw: bytes) -> Place:
        """Return the position after these bytes, which end with a line."""
        running = self.hash.copy()
        running.update(raw)
        lines = raw.count(b"\n") + (not raw.endswith(b"\n") if raw else 0)
        return Place(self.size + len(raw), self.lines + lines, running)

    @property
    def sha256(self) -> str:
        """The hash of everything so far."""
        return self.hash.hexdigest()


class LineSource:
    """An open input: a regular file, or a stream such as standard input (None or `-`)."""

    def __init__(self, path: Path | None) -> None:
        path = None if str(path) == "-" else path
        self.name = "standard input" if path is None else str(path)
        # Whether a last line without an end was left for the next run.
        self.unfinished = False
        try:
            self._file: BinaryIO = sys.stdin.buffer if path is None else path.open("rb", buffering=0)
            self.regular = path is not None and stat.S_ISREG(path.stat().st_mode)
        except FileNotFoundError:
            raise DataError(
                FILE_NOT_FOUND.format(path=self.name, remedy="give a CSV or JSON Lines file, or - for stdin")
            ) from None
        except OSError as error:
            raise DataError(f"{self.name}: cannot be read ({error.strerror})") from None

    def __enter__(self) -> LineSource:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdin.buffer:
            self._file.close()

    def _read(self, size: int | None = None) -> bytes:
        """Return the available bytes, at most this many, without waiting for a full block."""
        try:
            self._wait()
            read1: Callable[[int], bytes] = getattr(self._file, "read1", self._file.read)
            return read1(BYTES_AT_ONCE if size is None else size)
        except OSError as error:
            raise DataError(f"{self.name}: cannot be read ({error.strerror})") from None

    def _wait(self) -> None:
        """Wait until a stream has something to read or has ended.

        Python checks for signals between its instructions, and a waiting system call ends early only for a signal
        during it. A signal just before it would be noticed after the wait, so every wait is short.
        """
        if self.regular or sys.platform == "win32":
            return
        try:
            if self._file.fileno() < 0:
                return
        except OSError:
            return  # an object without a file descriptor, on which no process can wait
        while not select.select([self._file], [], [], PAUSE)[0]:
            pass

    def skip(self, size: int, sha256: str) -> tuple[Place, bytes]:
        """Skip the part that was counted before; return the position after it, and its first block.

        Raises a DataError if the file does not begin with the same bytes.
        """
        place, start = Place(), b""
        while place.size < size and (raw := self._read(min(BYTES_AT_ONCE, size - place.size))):
            start = start or raw
            running = place.after(raw)
            # A block can end within a line here; only whole lines are counted.
            place = Place(running.size, place.lines + raw.count(b"\n"), running.hash)
        problem = f"the {size:,} bytes that were counted already have changed" if place.sha256 != sha256 else ""
        if place.size < size:
            problem = f"has {place.size:,} bytes, but {size:,} were counted already"
        if problem:
            raise DataError(
                f"{self.name}: {problem}; give the same file, which may only grow, or start with a new --state"
            )
        return place, start

    def blocks(self, number: int, *, keep_unfinished: bool) -> Iterator[bytes]:
        """Yield whole lines, as many as are available; `number` is that of the first line, for messages.

        A last line of a regular file without an end is left out if `keep_unfinished`: it may be incomplete.
        """
        keep_unfinished = keep_unfinished and self.regular
        rest = b""
        while raw := self._read():
            rest += raw
            end = rest.rfind(b"\n") + 1
            if len(rest) - end > MOST_LINE_BYTES:
                line = number + rest.count(b"\n")
                raise DataError(f"{self.name}, line {line}: longer than {MOST_LINE_BYTES:,} bytes; is this a CSV file?")
            if end:
                yield rest[:end]
                number += rest.count(b"\n", 0, end)
                rest = rest[end:]
        self.unfinished = bool(rest) and keep_unfinished
        if rest and not keep_unfinished:
            yield rest
