"""Progress on standard error: only on a terminal, only after a second, and never in the way of the output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

PATIENCE = 1.0
Shown = AbstractContextManager[Callable[..., None] | None]


def wanted(quiet: bool) -> bool:
    """Whether anybody is there to look."""
    return not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def verify_progress(quiet: bool) -> Shown:
    """Shows rounds, evaluations and the running interval of the gap."""

    def told(progress: Any) -> str:
        if progress.seconds <= PATIENCE:
            return ""
        if progress.gap is None:
            return f"{progress.evaluations:,} of {progress.total:,} rows asked"
        return (
            f"{progress.rounds:,} rounds, {progress.evaluations:,} evaluations, "
            f"{progress.gap} so far  (Ctrl-C: stop with what is known)"
        )

    return _shown(quiet, told)


def learn_progress(quiet: bool) -> Shown:
    """Shows how many rounds a chain was learned from so far."""
    return _shown(quiet, lambda done, _: f"{done:,} rounds")


def explain_progress(quiet: bool) -> Shown:
    """Shows how many of the rounds are done."""
    return _shown(quiet, lambda done, total: f"{done:,} of {total:,} rounds")


def repair_progress(quiet: bool) -> Shown:
    """Shows how far a search is, and the best candidate so far."""
    return _shown(
        quiet,
        lambda progress: (
            f"generation {progress.iteration}, {progress.candidates:,} candidates; "
            f"best so far: gap {progress.gap:.4f}, accuracy {progress.accuracy:.4f}  (Ctrl-C: judge the best)"
        ),
    )


def recheck_progress(quiet: bool) -> Shown:
    """Shows how much of the re-run is done."""
    return _shown(
        quiet,
        lambda done, total: (
            f"re-run: {done:,} of {total:,} evaluations" if total else f"fresh run: {done:,} evaluations"
        ),
    )


@contextmanager
def _shown(quiet: bool, told: Callable[..., str]) -> Iterator[Callable[..., None] | None]:
    """What to call with each step, which is shown in these words; None if nobody looks."""
    if not wanted(quiet):
        yield None
        return
    status = _Status()

    def show(*step: Any) -> None:
        if text := told(*step):
            status.show(text)

    try:
        yield show
    finally:
        status.stop()


class _Status:
    """A spinner with a line of text, imported and started when there is something to show."""

    def __init__(self) -> None:
        self._status: Any = None

    def show(self, text: str) -> None:
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()
