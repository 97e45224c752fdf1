"""Reads files of native formats in forks of one process, in place of a new process for each file.

The product starts an interpreter for every file (`native_reader`), whose imports take a second. Here a process imports
the packages once, reads nothing itself, and forks for each file: a fork that dies, hangs or takes too much memory ends
alone, and the next one starts in milliseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from signal import SIGKILL
from threading import Timer
from typing import IO, Any

from fairchain.models.adapters.native_reader import READERS, answer, limit_this_process, unpack

PACKAGES = {".h5": "h5py", ".ubj": "xgboost", ".txt": "lightgbm", ".cbm": "catboost"}
# Of processor time and of the clock: the product allows a minute, with the start of the process.
MOST_SECONDS, MOST_CLOCK = 10, 25
MOST_MEGABYTES = 1500
HEAD = 8
DIED, FLOOD = b"died", b"memory"


class ForkingReader:
    """Takes the place of `read_in_new_process` for one format."""

    def __init__(self, suffix: str) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzzing.forked", suffix],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __call__(
        self, suffix: str, content: bytes, options: dict[str, Any], damaged: Callable[[str], Exception]
    ) -> bytes:
        """Return what the reader of the format makes of the content, or raise what the product raises."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        for part in (suffix.encode(), json.dumps(options).encode(), content):
            _send(self._child.stdin, part)
        answered = _receive(self._child.stdout)
        if answered == FLOOD:
            raise MemoryError(f"reading it takes more than {MOST_MEGABYTES:,} MB")
        if answered == DIED:
            raise damaged("the package that reads it crashes, or takes too long")
        return unpack(answered)


def _send(stream: IO[bytes], part: bytes) -> None:
    stream.write(len(part).to_bytes(HEAD, "little") + part)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(HEAD)
    if len(head) < HEAD:
        raise EOFError
    return stream.read(int.from_bytes(head, "little"))


def _fork(suffix: str, content: bytes, options: dict[str, Any]) -> bytes:
    """Read a file in a fork of this process; return its answer, or how it ended."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        with suppress(BaseException):
            limit_this_process(len(content), MOST_SECONDS)
            with os.fdopen(theirs, "wb") as stream:
                stream.write(answer(suffix, content, options))
            os._exit(0)
        os._exit(1)
    os.close(theirs)
    watchdog = Timer(MOST_CLOCK, os.kill, (child, SIGKILL))
    watchdog.start()
    try:
        with os.fdopen(ours, "rb") as stream:
            answered = stream.read()
    finally:
        watchdog.cancel()
        # Only now: a process that nobody waited for keeps its number.
        _, status, usage = os.wait4(child, 0)
    if usage.ru_maxrss > MOST_MEGABYTES * 1024:
        return FLOOD
    return DIED if status or not answered else answered


def main() -> None:
    """Answer until standard input ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import_module(READERS[sys.argv[1]])
    import_module(PACKAGES[sys.argv[1]])
    with suppress(EOFError):
        while True:
            suffix, options, content = (_receive(sys.stdin.buffer) for _ in range(3))
            _send(out, _fork(suffix.decode(), content, json.loads(options)))


if __name__ == "__main__":
    main()
