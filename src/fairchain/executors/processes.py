"""Processes of this machine as an executor: a new interpreter for each worker, replaced when it dies.

Unlike in the pool of the standard library, a worker does not import the caller's main module again, which may train a
model or write files, and a killed worker loses only its own unit.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from fairchain.errors import ExecutorError
from fairchain.system.isolation import LENGTH_BYTES, describe_end, die_with, new_interpreter

# One thread for each worker: workers provide the parallelism.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class LostWorkerError(ExecutorError):
    """A worker that ended before it answered."""


class Processes(Executor):
    """An executor with this many processes, which start when they are first needed.

    A worker finds the packages of this process, and after them modules of the working directory if this process does.
    It ends with this process.
    """

    def __init__(self, count: int) -> None:
        self._max_workers = count
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="fairchain-process")
        self._own = threading.local()
        self._children: list[subprocess.Popen[bytes]] = []
        # Our ends of the pipes; closing them ends the processes.
        self._ends: list[int] = []
        self._closed = False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function that Python can import by its name in one of the processes."""
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes immediately, whatever they are doing."""
        self._threads.shutdown(wait=False, cancel_futures=cancel_futures)
        with self._lock:
            self._closed = True
            for child in self._children:
                child.kill()
        self._threads.shutdown(wait=wait, cancel_futures=True)
        for child in self._children:
            child.wait()
            for stream in filter(None, (child.stdin, child.stdout)):
                with suppress(OSError):
                    stream.close()
        while self._ends:
            os.close(self._ends.pop())

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the running processes."""
        with self._lock:
            return tuple(child.pid for child in self._children if child.poll() is None)

    def _call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        child: subprocess.Popen[bytes] | None = getattr(self._own, "child", None)
        if child is None or child.poll() is not None:
            child = self._own.child = self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        answer = None
        with suppress(BrokenPipeError):
            _send(child.stdin, (function, args, kwargs))
            answer = _receive(child.stdout)
        if answer is None:
            self._own.child = None
            with suppress(ProcessLookupError):
                child.kill()
            raise LostWorkerError(describe_end(child.wait(), ""))
        done, value = answer
        if done:
            return value
        raise value

    def _start(self) -> subprocess.Popen[bytes]:
        # In a separate group, so that Ctrl-C reaches only this process; nothing is ever written into `ours`.
        alive, ours = os.pipe()
        group: dict[str, Any] = {} if sys.platform == "win32" else {"process_group": 0, "pass_fds": (alive,)}
        here = str(Path.cwd()) if {"", str(Path.cwd())} & set(sys.path) else ""
        child = subprocess.Popen(
            new_interpreter("from fairchain.executors.processes import serve; serve()", here, str(alive)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=dict.fromkeys(THREAD_VARIABLES, "1") | os.environ,
            **group,
        )
        os.close(alive)
        with self._lock:
            self._children.append(child)
            self._ends.append(ours)
            if self._closed:
                child.kill()
        return child


def _send(stream: IO[bytes], value: Any) -> None:
    content = pickle.dumps(value, protocol=5)
    stream.write(len(content).to_bytes(LENGTH_BYTES, "little"))
    stream.write(content)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    """Return the next message; None if the other side has ended."""
    head = stream.read(LENGTH_BYTES)
    if len(head) < LENGTH_BYTES:
        return None
    size = int.from_bytes(head, "little")
    content = stream.read(size)
    # The other side is this code in another process of the same user.
    return pickle.loads(content) if len(content) == size else None


def serve() -> None:
    """Answer calls until standard input ends; runs in the new process."""
    here, alive = sys.argv[1:]
    if here:
        # After all packages, so that nothing there can replace one.
        sys.path.append(here)
    if sys.platform != "win32":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with(int(alive))
    # Native code may print; its output must not mix with the messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := _receive(sys.stdin.buffer)) is not None:
        function, args, kwargs = request
        try:
            answer = (True, function(*args, **kwargs))
        except Exception as error:  # the caller must get it
            answer = (False, error)
        try:
            _send(out, answer)
        except Exception:  # objects that pickle cannot copy
            _send(out, (False, ExecutorError(f"{type(answer[1]).__name__}: cannot be returned from a process")))
    os._exit(0)
