"""Standard output that reports its failures, and files that are written after the verdict is shown.

Exit codes 0, 1 and 3 are verdicts. A result that could not be written anywhere it was wanted ends with 2, and is shown
on standard error if standard output itself fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from fairchain.errors import FairchainError, OutputError

# Characters of output that are kept to be shown elsewhere; a verdict comes first.
MOST_KEPT_OUTPUT = 100_000


class ClosedPipeError(Exception):
    """The reader of standard output went away. Not an OSError: click would turn that into exit code 1."""


class Messages:
    """A text stream in place of standard error: text that cannot be written is dropped."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.problem: str | None = "it is closed" if stream is None else None

    def write(self, text: str) -> int:
        """Write text if that is possible."""
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write everything so far, if that is possible."""
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Return whether a terminal shows it."""
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
    """A text stream in place of standard output.

    Text that the stream below did not take is kept, and `flush` raises an OutputError. Writing continues, so that all
    of a result is kept, not only its first part.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream)
        self._pending: list[str] = []
        self.used = False

    def write(self, text: str) -> int:
        """Write text, or keep it if that is not possible."""
        if not isinstance(text, str):
            raise TypeError(f"text was expected, not {type(text).__name__}")  # by which click knows a text stream
        self.used = self.used or bool(text)
        self._pending.append(text)
        return super().write(text)

    def flush(self) -> None:
        """Write everything so far; raise an OutputError if some of it could not be written, now or before."""
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
    """Use an `Output` and `Messages` as standard output and error."""
    # The next file would get the number of a closed stream, and its text.
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)
    before = sys.stdout, sys.stderr
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot show a bar or a name should still get the verdict.
        sys.stdout.reconfigure(errors="replace")
    output, messages = Output(sys.stdout), Messages(sys.stderr)
    sys.stdout, sys.stderr = output, messages
    try:
        yield output
    finally:
        sys.stdout, sys.stderr = before
        for stream, failed in zip(before, (output.problem, messages.problem), strict=True):
            if failed and stream is not None:
                _discard(stream)


def _discard(stream: TextIO) -> None:
    """Let Python, which flushes at its end, write to the null device what could not be written."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()


def show_then_write(*steps: Callable[[], object]) -> None:
    """Flush standard output, then take every step; raise one OutputError with the messages of all that failed."""
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
    """Raise an error before the work if a result could not be written to a file after it."""
    ours = os.access(path if path.exists() else path.parent, os.W_OK)
    if not path.parent.is_dir() or path.is_dir() or not ours:
        raise FairchainError(f"{path}: cannot be written; {option} must name a file in a folder that exists")
