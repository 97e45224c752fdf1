"""Files at the edge: read with a limit and line by line, written as a whole or not at all.

What is read comes from anybody. Every complaint about it is one ChainError that names the file, the line and what to
write there instead.
"""

from __future__ import annotations

import io
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from fairchain.errors import ChainError
from fairchain.system.atomic_write import place

# Larger files are refused before they are read; a chain of 100,000 states and a million transitions takes 40 MB.
MOST_BYTES = 2**27
MOST_STATES = 2_000_000
MOST_TRANSITIONS = 5_000_000


class Lines:
    """The lines of a file, one after the other; knows its place for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        # Split at line feeds only: other separators of Unicode may stand in names.
        self._text = io.StringIO(read_text(path), newline="\n")

    def __iter__(self) -> Iterator[str]:
        for line in self._text:
            self.number += 1
            yield line.rstrip("\r\n")

    def following(self) -> str:
        """The next line, or nothing at the end."""
        return next(iter(self), "")

    def error(self, problem: str, line: int | None = None) -> ChainError:
        """The error to raise for a line, or for the one reached."""
        return ChainError(f"{self.path}: line {line or max(self.number, 1)}: {problem}")


def read_text(path: Path) -> str:
    """The text of a file of bounded size."""
    content = read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ChainError(f"{path}: line {line}: this is no text in UTF-8; is it the right file?") from None


def read_bytes(path: Path) -> bytes:
    """The content of a file of bounded size."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ChainError(f"{path}: is no plain file; name a file that holds a chain")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ChainError(f"{path}: cannot be read: {reason}; name a file that holds a chain") from None
    if len(content) > MOST_BYTES:
        raise ChainError(f"{path}: is larger than {MOST_BYTES // 2**20} MiB, the most that is read of a chain")
    return content


def write_texts(texts: Mapping[Path, str]) -> None:
    """Write whole files, all of them or none."""
    contents = {}
    for path, text in texts.items():
        try:
            contents[path] = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ChainError(f"{path}: cannot be written: {error.object[error.start]!r} is no character") from None
    place(contents)


def found(text: str, most: int = 40) -> str:
    """What stands in a file, in a form that cannot break a message into lines."""
    short = text if len(text) <= most else text[: most - 3] + "..."
    return f'"{short}"' if short.isprintable() else ascii(short)
