"""Locks between processes; the operating system releases them when a process ends for any reason.

The lock of a file is a second file next to it, because the file itself is replaced at every write. The lock file
contains the id of the process that has the lock, for messages, and is removed when the lock is released.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

SUFFIX = ".lock"


class LockedError(Exception):
    """Another process has the lock; `holder` is its id, or empty if unknown."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder

    def __str__(self) -> str:
        return f"process {self.holder}" if self.holder else "another process"


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which need not exist, during a `with` block.

    Raises a LockedError if another process holds it, unless `wait`, and an OSError if the lock file cannot be written.
    """
    own = path.with_name(f".{path.name}{SUFFIX}")
    with _acquired(own, wait) as file:
        file.truncate()
        file.write(str(os.getpid()).encode())
        file.flush()
        try:
            yield
        finally:
            # Removed while the lock is held: a process that waits for this file finds that it is gone, and creates a
            # new one.
            with suppress(OSError):
                own.unlink()


@contextmanager
def locked_by_us(path: Path, error: type[Exception], in_use: str, unusable: str) -> Iterator[None]:
    """Hold the lock of a file; if that fails, raise an `error` with one of two messages, about the path and why."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except LockedError as holder:
            raise error(in_use.format(path, holder)) from None
        except (OSError, ValueError) as problem:
            raise error(unusable.format(path, getattr(problem, "strerror", None) or problem)) from None
        yield


def _acquired(path: Path, wait: bool) -> IO[bytes]:
    while True:
        # Not truncated when it is opened: if it is locked, the id in it is read.
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        try:
            _lock(file, wait)
            # Try again if the last holder has removed the file in the meantime.
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BlockingIOError:
            holder = file.read(20).decode("ascii", "replace")
            file.close()
            raise LockedError(holder if holder.isdigit() else "") from None
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: IO[bytes], wait: bool) -> None:
    """Lock an open file; raises BlockingIOError if another process has locked it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt
        import time

        # Far after the id in the file, so that the id stays readable.
        file.seek(2**20)
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
            except OSError:
                if not wait:
                    file.seek(0)
                    raise BlockingIOError from None
                time.sleep(0.1)
            else:
                file.seek(0)
                return
    else:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
