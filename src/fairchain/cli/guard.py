"""The command line in a child process, so that a crash of native code ends in one message and exit code 2.

The process forks before anything heavy is imported, and the first process only waits: it passes signals on, ends as
the child ended, and says what happened if a signal ended it. Where a process cannot fork, or cannot tell a signal of
the terminal from one that was sent to it alone (Windows, macOS), the command runs without a child.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from fairchain.interrupts import Interrupts, install, is_interruption
from fairchain.isolation import describe_death, die_with, requested, tell_by

BAD_INPUT, INTERRUPTED = 2, 130
# How siginfo marks a signal that the kernel sent, for a terminal to every process of its group.
_BY_KERNEL = 0x80
# Sent to the first process, these are meant for the child.
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2")


def guarded(work: Callable[[], None]) -> None:
    """Run the command line in a child process where that is possible, and end with its exit code."""
    mask = _fork() if _can_fork() else None
    handler = Interrupts()
    try:
        install(handler)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        work()
    except SystemExit:
        handler.close()
        raise
    except BaseException as error:
        handler.close()
        if not is_interruption(error):
            raise
        fail("interrupted", INTERRUPTED)


def fail(message: str, code: int) -> None:
    """Print one message, as a JSON object too where that is the output, and end with this exit code."""
    message = "".join(letter if letter.isprintable() else " " for letter in message)
    if "--json" in sys.argv:
        import json

        print(json.dumps({"error": message, "exit_code": code}))
    print(f"fairchain: {message}", file=sys.stderr)
    sys.exit(code)


def _can_fork() -> bool:
    return (
        sys.platform not in ("win32", "darwin", "emscripten", "wasi")
        and hasattr(signal, "sigwaitinfo")
        and threading.current_thread() is threading.main_thread()
        # In a process that did other things before, a fork could copy locks that are held.
        and threading.active_count() == 1
        and not {"numpy", "onnxruntime"} & sys.modules.keys()
    )


def _fork() -> Iterable[int]:
    """Fork; return in the child only, with the signals that it has to block once it is ready for them."""
    passed_on = {getattr(signal, name) for name in _PASSED_ON}
    # A process that ignores SIGCHLD never learns how its child ended.
    former = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD})
    (alive, held), (told, tell) = os.pipe(), os.pipe()
    first = os.getpid()
    child = os.fork()
    if child:
        os.close(alive)
        os.close(tell)
        # `held` stays open: the system closes it when this process ends, however that comes.
        _end_as(_wait(child, passed_on), told)
    os.close(held)
    os.close(told)
    with suppress(OSError):
        die_with(alive)
    if os.getppid() != first:
        os._exit(INTERRUPTED)
    signal.signal(signal.SIGCHLD, former)
    os.set_blocking(tell, False)
    tell_by(_Teller(tell))
    return mask


class _Teller:
    """Writes the name of each model to a pipe, once."""

    def __init__(self, pipe: int) -> None:
        self._pipe, self._last = pipe, ""

    def __call__(self, name: str) -> None:
        if name != self._last:
            self._last = name
            with suppress(OSError):
                os.write(self._pipe, b"\0" + os.fsencode(name))


def _wait(child: int, passed_on: set[signal.Signals]) -> int:
    """Return the exit code of the child, or minus the signal that ended it."""
    while True:
        found = signal.sigwaitinfo({*passed_on, signal.SIGCHLD})
        if found.si_signo != signal.SIGCHLD:
            if found.si_code != _BY_KERNEL:
                os.kill(child, found.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


def _end_as(code: int, told: int) -> None:
    """End this process as the child ended; if that was a crash, with a message."""
    if code >= 0:
        os._exit(code)
    number = -code
    if requested(number):
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.set_blocking(told, False)
    name = b""
    with suppress(OSError):
        name = os.read(told, 1 << 20).rpartition(b"\0")[2]
    with suppress(BaseException):
        fail(describe_death(number, os.fsdecode(name)), BAD_INPUT)
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(BAD_INPUT)
