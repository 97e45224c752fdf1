"""Work that meets accidents in another process.

Workers of a cluster import this module while they compute, so it imports nothing of the package.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

# As long as a worker hangs.
HANGING_SECONDS = 20


def square(unit: int) -> int:
    return unit * unit


class Once:
    """Squares numbers; the first worker that gets a number of its own meets with an accident."""

    def __init__(self, folder: Path, accident: str, at: int) -> None:
        self.folder, self.accident, self.at = folder, accident, at

    def __call__(self, unit: int) -> int:
        time.sleep(0.002)
        if unit == self.at and self._first():
            {"kill": _killed, "memory": _memory, "stop": _stopped, "error": _error}[self.accident]()
        return unit * unit

    def _first(self) -> bool:
        try:
            (self.folder / f"{self.accident}-{self.at}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Always(Once):
    """Meets with the accident in every worker."""

    def _first(self) -> bool:
        return True


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _memory() -> None:
    raise MemoryError


def _stopped() -> None:
    time.sleep(HANGING_SECONDS)


def _error() -> None:
    raise ValueError("the work itself is wrong")


def _killed_afterwards(marker: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    found = function(*arguments)
    if not marker.exists():
        marker.touch()
        _killed()
    return found


class Killing(Executor):
    """Hands calls to a cluster; two of them are lost together with their workers, once they are computed."""

    def __init__(self, pool: Executor, count: int, folder: Path) -> None:
        self._pool, self._max_workers, self._folder, self._sent = pool, count, folder, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._sent += 1
        if self._sent in (1, 5):
            return self._pool.submit(_killed_afterwards, self._folder / f"killed-{self._sent}", fn, *args, **kwargs)
        return self._pool.submit(fn, *args, **kwargs)
