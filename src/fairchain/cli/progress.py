"""Progress on standard error: only on a terminal, only after a second, and never mixed with the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def wanted(quiet: bool) -> bool:
    """Return whether standard error is a terminal that can show progress."""
    from fairchain.verification.progress import has_terminal

    return not quiet and has_terminal()


def _repaired(progress: Any) -> str:
    return (
        f"generation {progress.iteration}, {progress.candidates:,} candidates; best so far: gap {progress.gap:.4f}, "
        f"accuracy {progress.accuracy:.4f}  (Ctrl-C: verify the best)"
    )


# The text of a progress step, for each kind of work.
PROGRESS_TEXTS: dict[str, Callable[..., str]] = {
    "verify": lambda progress: str(progress.text),
    "learn": lambda done, _: f"{done:,} rounds",
    "explain": lambda done, total: f"{done:,} of {total:,} rounds",
    "repair": _repaired,
    "recheck": lambda done, total: (
        f"re-run: {done:,} of {total:,} evaluations" if total else f"fresh run: {done:,} evaluations"
    ),
}


@contextmanager
def progress_of(work: str, quiet: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function that shows each step of a task; None without a terminal."""
    if not wanted(quiet):
        yield None
        return
    status: Any = None

    def show(*step: Any) -> None:
        nonlocal status
        text = PROGRESS_TEXTS[work](*step)
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
