"""Code of the caller: model functions, functions that draw inputs, imported modules, models of other packages.

Every call of such code runs inside `user_code`. All its exceptions, including `SystemExit`, its own `KeyboardInterrupt`
or `GeneratorExit`, become one error that names the code, so that no exception can end a command with the exit code of a
verdict. Code that ends the process itself (`os._exit`) cannot be stopped by an exception handler.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self

from fairchain.errors import InputError, ModelError

FAILED_WITH = "failed with"


class user_code:  # noqa: N801  # a context manager that reads as a verb phrase: with user_code("function f")
    """Context in which code of the caller runs.

    `name` is the name of the code in messages (`function predict`), `failed` the failed operation (`failed on 3 texts
    with`), and `error` the type of the error that replaces the code's exception. With `exits_only` only exceptions that
    are not an `Exception` are converted, for blocks that handle exceptions themselves.

    Ctrl-C is not an error of the code: the exception of the SIGINT handler passes through unchanged. The handler runs
    only in the main thread, so in any other thread a `KeyboardInterrupt` comes from the code.

    Examples
    --------
    >>> with user_code("function f"):
    ...     raise SystemExit(0)
    Traceback (most recent call last):
    fairchain.errors.ModelError: function f: failed with SystemExit: 0
    """

    def __init__(
        self, name: str, failed: str = FAILED_WITH, error: type[InputError] = ModelError, *, exits_only: bool = False
    ) -> None:
        self._name, self._failed, self._error, self._exits_only = name, failed, error, exits_only
        self._interrupted = False
        self._before: object = None

    def __enter__(self) -> Self:
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True
        assert callable(self._before)
        self._before(number, frame)

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A handler that the interruption, or the code, has set meanwhile stays.
        if self._before is not None and signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]  # it came from getsignal
        if raised is None or (self._exits_only and isinstance(raised, Exception)):
            return
        if self._interrupted and not isinstance(raised, Exception | SystemExit | GeneratorExit):
            return
        raise self._error(f"{self._name}: {self._failed} {described(raised)}") from raised


def described(raised: BaseException) -> str:
    """Return the type of an exception and the first line of its message, short enough for one line."""
    name, line = type(raised).__name__, first_line(raised)
    return name if line == name else f"{name}: {line}"


def first_line(raised: BaseException) -> str:
    """Return the first line of an exception's message, or its type if it has none or cannot print it."""
    try:
        lines = str(raised).strip().splitlines()
    except BaseException:  # __str__ is also code of the caller
        lines = []
    return lines[0][:300] if lines else type(raised).__name__
