"""Progress on standard error: only on a terminal, only after a second, and never in the way of the output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 1.0


def wanted(quiet: bool) -> bool:
    """Whether anybody is there to look."""
    return not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def verify_progress(quiet: bool) -> Iterator[Callable[[Any], None] | None]:
    """Shows rounds, evaluations and the running interval of the gap."""
    if not wanted(quiet):
        yield None
        return
    status = _Status()
    try:

        def show(progress: Any) -> None:
            if progress.seconds > PATIENCE and progress.gap is None:
                status.show(f"{progress.evaluations:,} of {progress.total:,} rows asked")
            elif progress.seconds > PATIENCE:
                status.show(
                    f"{progress.rounds:,} rounds, {progress.evaluations:,} evaluations, "
                    f"{progress.gap} so far  (Ctrl-C: stop with what is known)"
                )

        yield show
    finally:
        status.stop()


@contextmanager
def learn_progress(quiet: bool) -> Iterator[Callable[[int, int | None], None] | None]:
    """Shows how many rounds a chain was learned from so far."""
    if not wanted(quiet):
        yield None
        return
    status = _Status()
    try:
        yield lambda done, _: status.show(f"{done:,} rounds")
    finally:
        status.stop()


@contextmanager
def explain_progress(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Shows how many of the rounds are done."""
    if not wanted(quiet):
        yield None
        return
    status = _Status()
    try:
        yield lambda done, total: status.show(f"{done:,} of {total:,} rounds")
    finally:
        status.stop()


@contextmanager
def repair_progress(quiet: bool) -> Iterator[Callable[[Any], None] | None]:
    """Shows how far a search is, and the best candidate so far."""
    if not wanted(quiet):
        yield None
        return
    status = _Status()
    try:

        def show(progress: Any) -> None:
            status.show(
                f"generation {progress.iteration}, {progress.candidates:,} candidates; "
                f"best so far: gap {progress.gap:.4f}, accuracy {progress.accuracy:.4f}  (Ctrl-C: judge the best)"
            )

        yield show
    finally:
        status.stop()


@contextmanager
def recheck_progress(quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Shows how much of the re-run is done."""
    if not wanted(quiet):
        yield None
        return
    status = _Status()
    try:
        yield lambda done, total: status.show(f"re-run: {done:,} of {total:,} evaluations")
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
