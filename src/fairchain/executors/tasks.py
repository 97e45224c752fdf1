"""Tasks in another process of a run: load the work once, compute units of it, and describe the process.

A job is a pickled function, named by its SHA-256. The coordinator sends the bytes only to processes that do not have
them: a process that gets an unknown name without bytes reports this. Pickles pass between processes of one user, over
connections that the user opened; none is ever read from a file.

Clusters read messages in a thread of their own. If that thread and another one import modules of the same package, they
can wait for each other; Python then raises an error, and the worker loses its connection. So what a message contains
is read by the thread that needs it (`Sealed`).
"""

from __future__ import annotations

import hashlib
import os
import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairchain._version import __version__
from fairchain.errors import ExecutorError
from fairchain.system.isolation import out_of_memory

# Number of jobs that a process keeps: the stages of an audit, and a few simultaneous runs.
MOST_JOBS = 8
# Extensions of the processor that change the rounding order of sums.
CPU_FEATURES = ("fma", "avx", "avx2", "avx512f", "avx512_bf16", "amx_tile", "neon", "asimd", "sve")
NOT_COPIED = (
    "the work cannot be copied into other processes ({error}: {message}); give the model as a file or as "
    "python:package.module:name, or leave the executor out to use threads"
)

_jobs: OrderedDict[str, Callable[[Any], Any]] = OrderedDict()
# One thread of a worker imports modules at a time.
_importing = threading.Lock()


class WorkerFacts(Struct, frozen=True):
    """Facts that may make the arithmetic of workers differ: versions of packages, and the processor."""

    fairchain: str
    python: str
    numpy: str
    onnxruntime: str
    machine: str
    features: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"fairchain {self.fairchain}, Python {self.python}, numpy {self.numpy}, onnxruntime {self.onnxruntime}, "
            f"{' '.join((self.machine, *self.features))}"
        )


@cache
def own_facts() -> WorkerFacts:
    """Return the facts of this process."""
    import platform
    from importlib.metadata import version

    flags: set[str] = set()
    if (info := Path("/proc/cpuinfo")).exists():
        lines = (line.partition(":") for line in info.read_text(errors="replace").splitlines())
        flags = next((set(value.split()) for name, _, value in lines if name.strip() in ("flags", "Features")), flags)
    return WorkerFacts(
        __version__,
        platform.python_version(),
        version("numpy"),
        version("onnxruntime"),
        platform.machine(),
        tuple(each for each in CPU_FEATURES if each in flags),
    )


def own_name() -> str:
    """Return the host and id of this process."""
    import platform

    return f"{platform.node()}:{os.getpid()}"


class Job(Struct, frozen=True):
    """A function of one unit, pickled, with the SHA-256 that identifies it and the version that created it."""

    content: bytes
    sha256: str
    fairchain: str = __version__

    @classmethod
    def of(cls, function: Callable[[Any], Any]) -> Job:
        """Pickle a function, or raise an ExecutorError that states why it cannot be copied."""
        try:
            content = pickle.dumps(function, protocol=5)
        except ExecutorError:
            raise
        except Exception as error:  # pickle raises the exceptions of the objects
            raise ExecutorError(NOT_COPIED.format(error=type(error).__name__, message=error)) from None
        return cls(content, hashlib.sha256(content).hexdigest())


class Sealed:
    """A value in a message between processes, which is unpickled only where it is needed.

    >>> pickle.loads(pickle.dumps(Sealed([1, 2]))).value
    [1, 2]
    """

    def __init__(self, value: Any) -> None:
        self._value, self._content = value, b""

    @classmethod
    def _arrived(cls, content: bytes) -> Sealed:
        sealed = cls(None)
        sealed._content = content
        return sealed

    @property
    def value(self) -> Any:
        """The value; unpickling it may import modules."""
        with _importing:
            if self._content:
                # This code in another process of the same user wrote it.
                self._value, self._content = pickle.loads(self._content), b""
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        return Sealed._arrived, (self._content or pickle.dumps(self._value, protocol=5),)


class Remade:
    """A function that another function makes: it is copied into other processes as its maker and the arguments.

    >>> Remade(int.__add__.__get__, 2)(3)
    5
    """

    def __init__(self, maker: Callable[..., Callable[..., Any]], *arguments: Any) -> None:
        self._made_by, self._call = (maker, *arguments), maker(*arguments)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self._call(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return Remade, self._made_by


class Reply(Struct, frozen=True):
    """The answer of a worker: results in the order of the units with their seconds, or the problem.

    `missing`: the job is unknown here, and its bytes were not sent. `memory`: there was not enough. `error`: the work
    itself raised it, and would raise it anywhere.
    """

    facts: WorkerFacts
    process: str
    results: Sequence[Any] = ()
    seconds: float = 0.0
    missing: bool = False
    memory: bool = False
    error: Exception | None = None


def run_units(sha256: str, job: Job | None, units: Sealed) -> Sealed:
    """Return the reply about some units of a job; runs in a worker."""
    return Sealed(_reply(sha256, job, units))


def _reply(sha256: str, job: Job | None, units: Sealed) -> Reply:
    facts, process = own_facts(), own_name()
    try:
        function = _loaded(sha256, job, facts, process)
        if function is None:
            return Reply(facts, process, missing=True)
        found = units.value
        start = time.perf_counter()
        results = [function(unit) for unit in found]
        return Reply(facts, process, results, time.perf_counter() - start)
    except Exception as error:  # the coordinator raises it
        if out_of_memory(error):
            return Reply(facts, process, memory=True)
        raised = error
        try:
            pickle.loads(pickle.dumps(raised))
        except Exception:  # any behaviour of its class
            # One with the same message, which can be copied.
            raised = ExecutorError(f"{type(error).__name__}: {error}")
        return Reply(facts, process, error=raised)


def _loaded(sha256: str, job: Job | None, facts: WorkerFacts, process: str) -> Callable[[Any], Any] | None:
    """Return the function of a job, loaded now if needed; None if it is unknown."""
    with _importing:
        if sha256 not in _jobs:
            if job is None:
                return None
            if job.fairchain != facts.fairchain:
                raise ExecutorError(
                    f"worker {process} has fairchain {facts.fairchain} and the coordinator {job.fairchain}; install "
                    "the same version on both"
                )
            try:
                # The coordinator wrote it, with no more rights than this process has.
                _jobs[sha256] = pickle.loads(job.content)
            except ImportError as error:
                raise ExecutorError(
                    f"worker {process} lacks a package of the model ({error}); install the same packages there, and "
                    "give Python code as an installed module"
                ) from None
            except AttributeError as error:
                raise ExecutorError(
                    f"worker {process} cannot find the model's own code ({error}); put it into a module that workers "
                    "can import"
                ) from None
            if len(_jobs) > MOST_JOBS:
                _jobs.popitem(last=False)
        _jobs.move_to_end(sha256)
        return _jobs[sha256]
