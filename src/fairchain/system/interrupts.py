"""Ctrl-C (SIGINT): an exception that never interrupts an import, and a first one that only asks a loop to end.

An exception inside an import leaves modules incomplete, and packages turn it into other errors (numpy into an
ImportError, a class body into a RuntimeError). `Interrupts` waits until the import has ended.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Two signals within this time are one request: a sender may signal a process and then its whole group.
ONE_REQUEST = 0.05
# Seconds between two checks whether an import has ended.
_PAUSE = 0.005
_IMPORT = "<frozen importlib._bootstrap>"


class Interrupts:
    """A signal handler that raises an exception in the main thread, after the current import, if any.

    A second signal during an import does not wait: the module may take long on purpose. `error` creates the exception.
    """

    def __init__(self, error: Callable[[], BaseException] = KeyboardInterrupt) -> None:
        self._error = error
        # The time of the last exception, and the time since when a signal waits for the end of an import.
        self._raised = float("-inf")
        self._since: float | None = None
        self._sent_again, self._closed = False, False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise the exception, now or as soon as it does not interrupt an import."""
        now, ours, self._sent_again = time.monotonic(), self._sent_again, False
        if self._closed or now - self._raised < ONE_REQUEST or (ours and self._since is None):
            return
        if _importing(frame):
            if self._since is not None and not ours and now - self._since < ONE_REQUEST:
                return
            if (self._since is None or ours) and self._later(number):
                self._since = now if self._since is None else self._since
                return
        self._raised, self._since = now, None
        raise self._error()

    def raise_waiting(self) -> None:
        """Raise the exception now if a signal came during an import and was not raised yet."""
        if self._since is not None and not self._closed:
            self._raised, self._since = time.monotonic(), None
            raise self._error()

    def close(self) -> None:
        """Ignore signals from now on: the result is known, and only the process has to end."""
        self._closed = True

    def _later(self, number: int) -> bool:
        """Send the signal again shortly; return False if no thread can be started."""
        try:
            _thread.start_new_thread(self._again, (number,))
        except RuntimeError:
            return False
        return True

    def _again(self, number: int) -> None:
        time.sleep(_PAUSE)
        self._sent_again = True
        if sys.platform == "win32":
            _thread.interrupt_main(number)
        else:
            # To the main thread itself, so that a system call in which it waits also ends.
            signal.pthread_kill(threading.main_thread().ident or 0, number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


def install(handler: Interrupts) -> None:
    """Install `handler` for Ctrl-C in this process, also where Python would print an exception and continue."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        # The process was started with interrupts ignored, as a shell does for background processes.
        return
    former = sys.unraisablehook

    def unraisable(found: sys.UnraisableHookArgs) -> None:
        if found.exc_type is not None and issubclass(found.exc_type, KeyboardInterrupt):
            # The exception was lost, whichever handler raised it.
            for each in (handler, signal.getsignal(signal.SIGINT)):
                if isinstance(each, Interrupts):
                    each._raised = float("-inf")
            handler._since = time.monotonic()
            handler._later(signal.SIGINT)
        else:
            former(found)

    sys.unraisablehook = unraisable
    signal.signal(signal.SIGINT, handler)


def is_interruption(error: BaseException | None) -> bool:
    """Return whether an exception is a KeyboardInterrupt, or was caused by one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def first_interrupt(call: Callable[[], None]) -> Iterator[None]:
    """Let the first Ctrl-C call a function instead of raising; a second one interrupts as usual.

    Nothing changes in threads other than the main one, or if a program has its own handler.
    """
    # The functions of `signal` look each handler up in an enum, which takes as long as a batch of a small network.
    before = _signal.getsignal(signal.SIGINT)
    usual = before is signal.default_int_handler or (
        isinstance(before, Interrupts) and before._error is KeyboardInterrupt
    )
    if threading.current_thread() is not threading.main_thread() or not usual:
        yield
        return
    if isinstance(before, Interrupts):
        before.raise_waiting()
    first = float("-inf")

    def once(number: int, frame: FrameType | None) -> None:
        nonlocal first
        if first < 0:
            first = time.monotonic()
            call()
        elif time.monotonic() - first > ONE_REQUEST:
            assert callable(before)
            before(number, frame)

    _signal.signal(signal.SIGINT, once)
    try:
        yield
    finally:
        _signal.signal(signal.SIGINT, before)


@contextmanager
def raising(error: Callable[[], BaseException], number: signal.Signals = signal.SIGINT) -> Iterator[Interrupts]:
    """Let a signal raise this exception, in the main thread and outside of imports; yield the handler.

    An ignored signal stays ignored, as a shell requires for background processes.
    """
    handler = Interrupts(error)
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(number) is signal.SIG_IGN:
        yield handler
        return
    before = signal.signal(number, handler)
    try:
        yield handler
    finally:
        signal.signal(number, before)
