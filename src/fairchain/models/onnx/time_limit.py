"""Ends calls of a network that take too long.

One thread looks at all running calls now and then, so that a call costs two entries in a dictionary and no lock.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import RunOptions


class Watchdog:
    """Breaks off a call after so many seconds, as soon as the operator that is running then has ended."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pause = min(0.5, seconds / 4)
        self._calls: dict[int, tuple[float, RunOptions]] = {}
        self._awake = False
        self._lock = threading.Lock()

    def begin(self, options: RunOptions) -> int:
        """Watch a call from now on; the number returned is for `end`."""
        call = id(options)
        self._calls[call] = (time.monotonic() + self._seconds, options)
        if not self._awake:
            self._wake()
        return call

    def end(self, call: int) -> None:
        """The call has come back."""
        del self._calls[call]

    def _wake(self) -> None:
        with self._lock:
            if not self._awake:
                self._awake = True
                threading.Thread(target=self._watch, daemon=True, name="fairchain-watchdog").start()

    def _watch(self) -> None:
        """Go away when nothing has run for a while, so that an idle network holds no thread."""
        idle = 0
        while idle <= 4:
            time.sleep(self._pause)
            now = time.monotonic()
            # A copy: calls come and go meanwhile.
            running = list(self._calls.values())
            idle = 0 if running else idle + 1
            for deadline, options in running:
                if now > deadline:
                    options.terminate = True
        self._awake = False
        # A call that began between the last look and this line would go unwatched.
        if self._calls:
            self._wake()
