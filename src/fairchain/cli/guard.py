"""The command line in a child process, so that a crash of native code ends in one message and exit code 2.

The process forks before heavy imports. The parent process only waits: it forwards signals, ends with the status of the
child, and prints a message if a signal ended the child. On systems that cannot fork, or cannot distinguish a signal of
the terminal from one that was sent to one process (Windows, macOS), the command runs without a child.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

from fairchain.cli.exit_codes import BAD_INPUT, INTERRUPTED, OUR_BUG
from fairchain.system.interrupts import Interrupts, install, is_interruption
from fairchain.system.isolation import NO_MEMORY, describe_end, die_with, out_of_memory, requested, tell_by

# The siginfo code of a signal from the kernel, which a terminal sends to every process of its group.
_BY_KERNEL = 0x80
# Objects that a command makes before the garbage collector looks for cycles.
COLLECTED = 100_000
# Signals that the parent forwards to the child.
_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGUSR1", "SIGUSR2")


def guarded(work: Callable[[], None]) -> None:
    """Run the command line in a child process, if the system supports it, and end with its exit code."""
    mask, watcher = _fork() if _can_fork() else (None, None)
    # Imported modules stay: looking for garbage meanwhile takes a twentieth of a short command and finds none.
    gc.set_threshold(COLLECTED)
    handler = Interrupts()
    try:
        try:
            install(handler)
            if mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            work()
            sys.exit(0)
        except Exception as error:
            handler.close()
            _report(error)
        except KeyboardInterrupt:
            handler.close()
            fail("interrupted", INTERRUPTED)
    except SystemExit as end:
        handler.close()
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if watcher is not None:
            watcher.end(code)
            if not any("python:" in argument for argument in sys.argv):
                _leave(code)
        raise


def _leave(code: int) -> None:
    """End the child without unloading every module, which would take a tenth of the time of a short command.

    Threads are joined and `atexit` functions are called, as Python does. User code may rely on more, for example on
    files that are closed when their module is unloaded, so this function is not used after user code ran.
    """
    import atexit

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _report(error: Exception) -> None:
    """Report why the command line could not start; it reports its own errors itself."""
    if is_interruption(error):
        fail("interrupted", INTERRUPTED)
    if out_of_memory(error):
        fail(NO_MEMORY, BAD_INPUT)
    if os.environ.get("FAIRCHAIN_TRACEBACK"):
        import traceback

        traceback.print_exc()
        sys.exit(OUR_BUG)
    fail(f"cannot start ({type(error).__name__}: {error}); install fairchain and its packages again", BAD_INPUT)


def fail(message: str, code: int) -> None:
    """Print one message, also as a JSON object if the output is JSON, and end with this exit code."""
    message = "".join(letter if letter.isprintable() else " " for letter in message)
    # Output that cannot be written must not change the exit code.
    with suppress(OSError):
        if "--json" in sys.argv:
            import json

            print(json.dumps({"error": message, "exit_code": code}), flush=True)
    with suppress(OSError):
        print(f"fairchain: {message}", file=sys.stderr, flush=True)
    sys.exit(code)


def _can_fork() -> bool:
    return (
        sys.platform not in ("win32", "darwin", "emscripten", "wasi")
        and hasattr(signal, "sigwaitinfo")
        and threading.current_thread() is threading.main_thread()
        # In a process that has already run other code, a fork could copy locks that are held.
        and threading.active_count() == 1
        and not {"numpy", "onnxruntime"} & sys.modules.keys()
    )


def _fork() -> tuple[Iterable[int], _Watcher]:
    """Fork; return only in the child: the signal mask to restore once it handles signals, and the watcher to notify."""
    passed_on = {getattr(signal, name) for name in _PASSED_ON}
    # A process that ignores SIGCHLD cannot read the exit status of its child.
    former = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD})
    (alive, held), (told, tell) = os.pipe(), os.pipe()
    first = os.getpid()
    child = os.fork()
    if child:
        os.close(alive)
        os.close(tell)
        # `held` stays open: the system closes it when this process ends in any way.
        _end_as(_wait(child, passed_on), told)
    os.close(held)
    os.close(told)
    with suppress(OSError):
        die_with(alive)
    if os.getppid() != first:
        os._exit(INTERRUPTED)
    signal.signal(signal.SIGCHLD, former)
    watcher = _Watcher(tell)
    tell_by(watcher)
    return mask, watcher


class _Watcher:
    """Notifications of the child to its parent process, through a pipe: the model in use, and the exit code at the end.

    An exit code without the final notification is not trusted, because native code and the code of models can end a
    process too.
    """

    def __init__(self, pipe: int) -> None:
        os.set_blocking(pipe, False)
        self._pipe, self._last = pipe, ""

    def __call__(self, model: str) -> None:
        """Notify the parent which model is in use, for the message after a crash."""
        if model != self._last:
            self._last = model
            with suppress(OSError):
                os.write(self._pipe, b"\0" + os.fsencode(model))

    def end(self, code: int) -> None:
        """Notify the parent of the exit code, which is kept even if unloading libraries fails."""
        with suppress(OSError):
            os.write(self._pipe, b"\0\0%d" % (code & 0xFF))


def _wait(child: int, passed_on: set[signal.Signals]) -> int:
    """Return the exit code of the child, or the negative number of the signal that ended it."""
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
    """End this process with the status of the child; print a message if the child ended without a result.

    `told` is the pipe with the notifications of the child: the models that it used, and its exit code at its end.
    """
    os.set_blocking(told, False)
    notes = b""
    with suppress(OSError):
        while part := os.read(told, 1 << 16):
            notes += part
    models, end, result = notes.rpartition(b"\0\0")
    if end and result:
        os._exit(int(result))
    model = os.fsdecode((models if end else notes).rpartition(b"\0")[2])
    if code < 0 and requested(-code):
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
    with suppress(SystemExit):
        fail(describe_end(code, model), BAD_INPUT)
    os._exit(BAD_INPUT)
