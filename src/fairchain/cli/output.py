"""Standard output with reported failures, and files that are written after the verdict is shown.

Exit codes 0, 1 and 3 are verdicts. If a result could not be written to a requested destination, the exit code is 2; if
standard output itself fails, the result is shown on standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from fairchain.errors import FairchainError, OutputError

# Characters of lost output that are kept for standard error; the verdict comes first.
MOST_KEPT_OUTPUT = 100_000


class ClosedPipeError(Exception):
    """A closed standard output. This is not an OSError, because click would turn that into exit code 1."""


class Messages:
    """A text stream that replaces standard error and drops text that cannot be written."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.problem: str | None = "it is closed" if stream is None else None

    def write(self, text: str) -> int:
        """Write text if possible."""
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush if possible."""
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self.problem is None and self._stream is not None and self._stream.isatty()

    def _try(self, step: Callable[[TextIO], object]) -> None:
        if self.problem is not None or self._stream is None:
            return
        try:
            step(self._stream)
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.problem = getattr(error, "strerror", None) or str(error)
            self._failed(error)

    def _failed(self, error: OSError | ValueError) -> None:
        """Ignore the error."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Output(Messages):
    """A text stream that replaces standard output.

    Text that the underlying stream rejected is kept, and `flush` raises an OutputError. Writing continues, so that the
    complete result is kept, not only its first part.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream)
        self._pending: list[str] = []
        self.used = False

    def write(self, text: str) -> int:
        """Write text, or keep it if that fails."""
        if not isinstance(text, str):
            # click recognises a text stream by this attribute
            raise TypeError(f"text was expected, not {type(text).__name__}")
        self.used = self.used or bool(text)
        self._pending.append(text)
        return super().write(text)

    def flush(self) -> None:
        """Flush; raise an OutputError if some text could not be written, now or earlier."""
        super().flush()
        if self.problem is not None and self._pending:
            raise OutputError(f"standard output: cannot be written ({self.problem})")
        self._pending.clear()

    @property
    def kept(self) -> str:
        """Text that was not written."""
        text = "".join(self._pending)
        return text if len(text) <= MOST_KEPT_OUTPUT else f"{text[:MOST_KEPT_OUTPUT]}\n..."

    def _failed(self, error: OSError | ValueError) -> None:
        if isinstance(error, BrokenPipeError):
            raise ClosedPipeError from None


@contextmanager
def standard_streams() -> Iterator[Output]:
    """Replace standard output and error by an `Output` and `Messages`."""
    # The next opened file would get the number of a closed stream, and its text.
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)
    before = sys.stdout, sys.stderr
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot encode a bar or a name should still show the verdict.
        sys.stdout.reconfigure(errors="replace")
    output, messages = Output(sys.stdout), Messages(sys.stderr)
    sys.stdout, sys.stderr = output, messages
    try:
        yield output
    finally:
        sys.stdout, sys.stderr = before
        for stream, failed in zip(before, (output.problem, messages.problem), strict=True):
            if failed and stream is not None:
                # Python flushes at exit, so text that could not be written goes to the null device.
                with suppress(OSError, ValueError):
                    null = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(null, stream.fileno())
                    os.close(null)
                    stream.flush()


def show_then_write(*steps: Callable[[], object]) -> None:
    """Flush standard output, then run every step; raise one OutputError with the messages of all failed steps."""
    problems: list[str] = []
    closed: ClosedPipeError | None = None
    for step in (sys.stdout.flush, *steps):
        try:
            step()
        except OutputError as error:
            problems.append(str(error))
        except ClosedPipeError as error:
            closed = error
    if problems:
        raise OutputError("; ".join(problems))
    if closed is not None:
        raise closed


def must_be_writable(path: Path, option: str) -> None:
    """Raise an error before the work starts if a result could not be written to this file."""
    ours = os.access(path if path.exists() else path.parent, os.W_OK)
    if not path.parent.is_dir() or path.is_dir() or not ours:
        raise FairchainError(f"{path}: cannot be written; {option} must name a file in a folder that exists")
