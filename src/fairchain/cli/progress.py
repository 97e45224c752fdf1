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
    """Return whether standard error is a terminal that can show progress."""
    return not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def verify_progress(quiet: bool) -> Shown:
    """Show rounds, evaluations and the running interval of the gap."""

    def told(progress: Any) -> str:
        if progress.seconds <= PATIENCE:
            return ""
        if progress.gap is None:
            return f"{progress.evaluations:,} of {progress.total:,} rows evaluated"
        return (
            f"{progress.rounds:,} rounds, {progress.evaluations:,} evaluations, "
            f"{progress.gap} so far  (Ctrl-C: stop with what is known)"
        )

    return _shown(quiet, told)


def learn_progress(quiet: bool) -> Shown:
    """Show how many rounds a chain was learned from so far."""
    return _shown(quiet, lambda done, _: f"{done:,} rounds")


def explain_progress(quiet: bool) -> Shown:
    """Show how many of the rounds are done."""
    return _shown(quiet, lambda done, total: f"{done:,} of {total:,} rounds")


def repair_progress(quiet: bool) -> Shown:
    """Show the generation of a search, and the best candidate so far."""
    return _shown(
        quiet,
        lambda progress: (
            f"generation {progress.iteration}, {progress.candidates:,} candidates; "
            f"best so far: gap {progress.gap:.4f}, accuracy {progress.accuracy:.4f}  (Ctrl-C: judge the best)"
        ),
    )


def recheck_progress(quiet: bool) -> Shown:
    """Show how much of the re-run is done."""
    return _shown(
        quiet,
        lambda done, total: (
            f"re-run: {done:,} of {total:,} evaluations" if total else f"fresh run: {done:,} evaluations"
        ),
    )


@contextmanager
def _shown(quiet: bool, told: Callable[..., str]) -> Iterator[Callable[..., None] | None]:
    """Yield a function that shows each step as a text; None without a terminal."""
    if not wanted(quiet):
        yield None
        return
    status: Any = None

    def show(*step: Any) -> None:
        nonlocal status
        text = told(*step)
        if text and status is None:
            from rich.console import Console

            status = Console(stderr=True).status(text)
            status.start()
        elif text:
            status.update(text)

    try:
        yield show
    finally:
        if status is not None:
            status.stop()
