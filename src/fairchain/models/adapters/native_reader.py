"""Child process that reads a model file whose format only native code understands.

h5py and XGBoost trust their input: a damaged file can crash them or run for ever. In a separate process this is an
error message and does not end the caller. A .h5 file is converted there, so h5py never runs in the caller; UBJSON of
XGBoost becomes JSON there, which can be checked. CatBoost has `catboost_process`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from fairchain.errors import ModelError
from fairchain.system.isolation import new_interpreter
from fairchain.system.user_code import first_line

# The module of each format; its function `read_in_child(content, options)` returns bytes or raises a ModelError.
READERS = {".h5": "fairchain.models.adapters.from_h5", ".ubj": "fairchain.models.adapters.model_files"}
# Limits of processor time, and of wall time if the machine is busy or has no such limit, in seconds.
MOST_SECONDS, MOST_WAITED = 60, 600
# Memory of the process: for the packages, and for each byte of the file.
PROCESS_BYTES, MOST_PER_BYTE = 2**30, 64
# The signal of a process that exceeded its processor time.
XCPU = 24
TOO_SLOW, CRASHES = "reading it takes longer than {seconds} seconds", "the package that reads it crashes"
_CODE = "from fairchain.models.adapters.native_reader import main; main()"
# The first byte of an answer: the result, or the message of a ModelError.
_DONE, _REFUSED = b"+", b"-"


@contextmanager
def reading(damaged: Callable[[str], ModelError]) -> Iterator[None]:
    """Raise `damaged(reason)` for any exception but a ModelError: a damaged file can raise any in another package."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:
        raise damaged(first_line(error)) from None


def read_in_new_process(
    suffix: str, content: bytes, options: Mapping[str, Any], damaged: Callable[[str], ModelError]
) -> bytes:
    """Return the result of the reader of this format for the content of a file, or raise its ModelError.

    If the process dies or takes too long, the result of `damaged` for the reason is raised.
    """
    command = new_interpreter(_CODE, suffix, json.dumps(options))  # our own code
    try:
        ended = subprocess.run(
            command, input=content, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=MOST_WAITED, check=False
        )
    except subprocess.TimeoutExpired:
        raise damaged(TOO_SLOW.format(seconds=MOST_WAITED)) from None
    if ended.returncode == -XCPU:
        raise damaged(TOO_SLOW.format(seconds=MOST_SECONDS))
    if ended.returncode or not ended.stdout:
        raise damaged(CRASHES)
    return unpack(ended.stdout)


def answer(suffix: str, content: bytes, options: dict[str, Any]) -> bytes:
    """Read a file in this process; return a message for `unpack`."""
    try:
        read: bytes = import_module(READERS[suffix]).read_in_child(content, options)
        return _DONE + read
    except ModelError as error:
        return _REFUSED + str(error).encode(errors="surrogatepass")


def unpack(answered: bytes) -> bytes:
    """Return the result, or raise the ModelError of the reader."""
    if answered.startswith(_REFUSED):
        raise ModelError(answered[1:].decode(errors="surrogatepass"))
    return answered[1:]


def main() -> None:
    """Read the file on standard input; runs in the new process."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of native code must not mix with the answer
    suffix, options = sys.argv[1:]
    content = sys.stdin.buffer.read()
    limit_this_process(len(content), MOST_SECONDS)
    out.write(answer(suffix, content, json.loads(options)))
    out.flush()


def limit_this_process(size: int, seconds: int, *, lasting: bool = True) -> Callable[[], None]:
    """Bound memory and processor time for a file of this size in bytes, if the system supports it.

    Return a function that lifts the limits; it has an effect only if they are not `lasting`.
    """
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        most = PROCESS_BYTES + MOST_PER_BYTE * size
        limits = {resource.RLIMIT_CPU: (seconds, seconds + 1), resource.RLIMIT_DATA: (most, most)}
        before = {which: resource.getrlimit(which) for which in limits}
        for which, (soft, hard) in limits.items():
            resource.setrlimit(which, (soft, hard if lasting else before[which][1]))

        def lift() -> None:
            for which, both in before.items():
                with suppress(ValueError, OSError):
                    resource.setrlimit(which, both)

        return lift
    return lambda: None
