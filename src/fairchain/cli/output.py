"""Where results go: standard output that notices when it fails, and files that are written after the verdict is shown.

Exit codes 0, 1 and 3 are verdicts. A result that could not be written anywhere it was wanted ends with 2, and is shown
on standard error if standard output itself fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from fairchain.errors import FairchainError, OutputError

# Characters of output that are kept to be shown elsewhere; a verdict comes first.
MOST_KEPT = 100_000


class ClosedPipeError(Exception):
    """The reader of standard output went away. Not an OSError: click would turn that into exit code 1."""


class Output:
    """A text stream in place of standard output.

    Text that the stream below did not take is kept, and `flush` raises an OutputError. Writing goes on, so that all
    of a result is kept, not only its first part.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._pending: list[str] = []
        self.used = False
        self.problem: str | None = "it is closed" if stream is None else None

    def write(self, text: str) -> int:
        """Write text, or keep it if that is not possible."""
        if not isinstance(text, str):
            raise TypeError(f"text was expected, not {type(text).__name__}")  # by which click knows a text stream
        self.used = self.used or bool(text)
        self._pending.append(text)
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write everything so far.

        Raises
        ------
        OutputError
            If some of it could not be written, now or before.
        """
        self._try(lambda stream: stream.flush())
        if self.problem is not None and self._pending:
            raise OutputError(f"standard output: cannot be written ({self.problem})")
        self._pending.clear()

    @property
    def kept(self) -> str:
        """What was to be written and was not."""
        text = "".join(self._pending)
        return text if len(text) <= MOST_KEPT else f"{text[:MOST_KEPT]}\n..."

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
        return self.problem is None and self._stream is not None and self._stream.isatty()

    def _try(self, step: Callable[[TextIO], object]) -> None:
        if self.problem is not None or self._stream is None:
            return
        try:
            step(self._stream)
        except BrokenPipeError:
            self.problem = "its reader closed it"
            raise ClosedPipeError from None
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self.problem = getattr(error, "strerror", None) or str(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Messages:
    """A text stream in place of standard error: what it cannot show is lost, and ends nothing."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.problem = stream is None

    def write(self, text: str) -> int:
        """Write text if that is possible."""
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Write everything so far, if that is possible."""
        self._try(lambda stream: stream.flush())

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
        return not self.problem and self._stream is not None and self._stream.isatty()

    def _try(self, step: Callable[[TextIO], object]) -> None:
        if self.problem or self._stream is None:
            return
        try:
            step(self._stream)
        except (OSError, ValueError):
            self.problem = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class StandardStreams:
    """Context in which standard output and error are an `Output` and `Messages`."""

    def __init__(self) -> None:
        _open_missing_streams()
        self._before = sys.stdout, sys.stderr
        if hasattr(sys.stdout, "reconfigure"):
            # A terminal that cannot show a bar or a name should still get the verdict.
            sys.stdout.reconfigure(errors="replace")
        self.output, self.messages = Output(sys.stdout), Messages(sys.stderr)

    def __enter__(self) -> Output:
        sys.stdout, sys.stderr = self.output, self.messages
        return self.output

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.stdout, sys.stderr = self._before
        for stream, failed in zip(self._before, (self.output.problem, self.messages.problem), strict=True):
            if failed and stream is not None:
                _discard(stream)


def _open_missing_streams() -> None:
    """Open the null device in place of closed streams: the next file would get their number, and their text."""
    while (number := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(number, True)
    os.close(number)


def _discard(stream: TextIO) -> None:
    """Let Python, which flushes at its end, write to the null device what could not be written."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
        stream.flush()


def show_then_write(*steps: Callable[[], object]) -> None:
    """Flush what was shown, then take every step, also if one of them fails.

    Raises
    ------
    OutputError
        With the messages of all that failed.
    """
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
