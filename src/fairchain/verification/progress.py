"""Progress of a verification: the state of a run as text, and a line on the terminal of a Python program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from fairchain.errors import SpecError
from fairchain.statistics import Interval

# Seconds before the first line.
FIRST_LINE_AFTER = 1.0
NOT_PROGRESS = "progress: found {found!r}; give True for a line on standard error, or a function of a Progress"


class Progress(Struct, frozen=True):
    """The progress of a run: the rounds, evaluations and seconds so far, the gap, and the evaluations of the whole run
    (`total`).

    `gap` is None if the rows of a table are evaluated. `total` is None if rounds are drawn, because the number of
    evaluations is not known beforehand.
    """

    rounds: int
    evaluations: int
    seconds: float
    gap: Interval | None
    total: int | None = None

    @property
    def text(self) -> str:
        """The progress as one line; an empty text in the first second."""
        if self.seconds <= FIRST_LINE_AFTER:
            return ""
        if self.gap is None and self.total is None:
            done = f"{self.evaluations:,} inputs answered by the model"
        elif self.gap is None:
            done = f"{self.evaluations:,} of {self.total:,} rows evaluated"
        elif self.total is not None:
            done = f"{self.evaluations:,} of {self.total:,} inputs evaluated, {self.gap} so far"
        else:
            done = f"{self.rounds:,} rounds, {self.evaluations:,} evaluations, {self.gap} so far"
        return f"{done} (Ctrl-C: stop with the evidence so far)"


Report = Callable[[Progress], None]


def has_terminal() -> bool:
    """Return whether standard error is a terminal that can show progress."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def reporting(progress: Report | bool | None) -> Iterator[Report | None]:
    """Yield the callback for each `Progress`: the caller's function, or for True a line on standard error.

    Without a terminal, True shows nothing.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise SpecError(NOT_PROGRESS.format(found=progress))
    if not isinstance(progress, bool):
        yield progress
        return
    if not progress or not has_terminal():
        yield None
        return
    width = 0

    def show(step: Progress) -> None:
        nonlocal width
        if step.text:
            sys.stderr.write(f"\r{step.text:{width}}")
            sys.stderr.flush()
            width = len(step.text)

    try:
        yield show
    finally:
        if width:
            sys.stderr.write(f"\r{'':{width}}\r")
            sys.stderr.flush()
