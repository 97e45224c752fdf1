"""Reads files of native formats in forks of one process, in place of a new process for each file.

The product starts an interpreter for every file (`native_reader`), whose imports take a second. Here a process imports
the packages once, reads nothing itself, and forks: a fork reads one file after another, and one that dies, hangs or
takes too much memory ends alone.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from signal import SIGKILL
from threading import Timer
from typing import IO, Any

from fairchain.models.adapters.catboost_process import serve
from fairchain.models.adapters.native_reader import READERS, answer, limit_this_process, unpack

PACKAGES = {".h5": "h5py", ".ubj": "xgboost"}
# Of processor time and of the clock; whole files take milliseconds. The product allows a minute, with the start of the
# process: a file that keeps a reader busy is refused here as there, only sooner.
MOST_SECONDS, MOST_CLOCK = 2, 25
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


def _forked(work: Callable[[IO[bytes], IO[bytes]], None]) -> tuple[int, IO[bytes], IO[bytes]]:
    """Fork this process to answer requests; return the number of the fork, and the streams to it and from it."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os.close(ours_out)
            os.close(ours_in)
            work(os.fdopen(theirs_in, "rb"), os.fdopen(theirs_out, "wb"))
        os._exit(0)
    os.close(theirs_in)
    os.close(theirs_out)
    return child, os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")


def _serve_quietly(requests: IO[bytes], answers: IO[bytes]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    serve(requests, answers)


class ForkedServer:
    """Takes the place of the process that serves a CatBoost file: a fork of this one, which has imported CatBoost."""

    def __init__(self) -> None:
        import_module("catboost")
        self._child, self.stdin, self.stdout = _forked(_serve_quietly)
        self._ended: int | None = None

    def kill(self) -> None:
        """End the fork; once it was waited for, its number may be another's."""
        if self._ended is None:
            os.kill(self._child, SIGKILL)

    def wait(self) -> int:
        """Wait for its end."""
        if self._ended is None:
            _, self._ended = os.waitpid(self._child, 0)
        return self._ended


def _send(stream: IO[bytes], part: bytes) -> None:
    stream.write(len(part).to_bytes(HEAD, "little") + part)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    head = stream.read(HEAD)
    if len(head) < HEAD:
        raise EOFError
    return stream.read(int.from_bytes(head, "little"))


class _Fork:
    """A fork of this process that reads one file after another, until one of them ends it.

    A file that ends it is refused, as it is where it has a process of its own; the next one gets a new fork.
    """

    def __init__(self) -> None:
        self._child, self._to, self._from = _forked(_read_all)

    def read(self, *parts: bytes) -> bytes | None:
        """Return the answer about a file; None if it ended the fork."""
        watchdog = Timer(MOST_CLOCK, os.kill, (self._child, SIGKILL))
        watchdog.start()
        try:
            for part in parts:
                _send(self._to, part)
            return _receive(self._from)
        except (EOFError, OSError):
            return None
        finally:
            watchdog.cancel()

    def end(self) -> int:
        """End it, and return the megabytes that it used."""
        os.kill(self._child, SIGKILL)
        with suppress(OSError):
            self._to.close()
        self._from.close()
        # Only now: a process that nobody waited for keeps its number.
        _, _, usage = os.wait4(self._child, 0)
        return usage.ru_maxrss // 1024


def _read_all(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Read files in a fork, each within limits of memory and of further processor time."""
    while True:
        suffix, options, content = (_receive(requests) for _ in range(3))
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = int(used.ru_utime + used.ru_stime) + MOST_SECONDS
        lift = limit_this_process(len(content), seconds, lasting=False)
        answered = answer(suffix.decode(), content, json.loads(options))
        lift()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        _send(answers, FLOOD if peak > MOST_MEGABYTES * 1024 else answered)


def main() -> None:
    """Answer until standard input ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Also what readers import only for a file that they accept: otherwise each fork would import it.
    for name in (READERS[sys.argv[1]], PACKAGES[sys.argv[1]], "onnx.checker", "onnx.helper", "onnx.numpy_helper"):
        import_module(name)
    fork: _Fork | None = None
    with suppress(EOFError):
        while True:
            parts = [_receive(sys.stdin.buffer) for _ in range(3)]
            fork = fork or _Fork()
            answered = fork.read(*parts)
            if answered is None or answered == FLOOD:
                flooded = fork.end() > MOST_MEGABYTES or answered == FLOOD
                fork, answered = None, FLOOD if flooded else DIED
            _send(out, answered)
    if fork is not None:
        fork.end()


if __name__ == "__main__":
    main()
