"""Work in a separate process, so that a crash of native code is a message and does not end the caller.

There are two forms: `cli/guard.py` forks the command line before heavy imports; `isolated` runs one call in a new
interpreter. The second process has the same rights: this contains crashes and is not a sandbox.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

# typing and subprocess take milliseconds to import, before the command line's own work.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

LENGTH_BYTES = 8
# The search path of this process without the working directory, after the standard library and installed packages.
_PREPARE = (
    "import sys; end = 2 + int(sys.argv[1]); sys.path += [each for each in sys.argv[2:end] if each not in sys.path]; "
    "del sys.argv[1:end]; "
)
NO_MEMORY = "out of memory; allow more (ulimit -v), or use a smaller network or table"
_NO_MEMORY = ("failed to map segment", "annot allocate memory", "can't start new thread", "std::bad_alloc")
# Signals by which a user or a program requests the end of the process; the others are accidents.
_REQUESTS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGVTALRM")

# The function that notifies the watching process; it belongs to the process, like its parent.
_tell: Callable[[str], None] | None = None
NATIVE_CODE_CRASHED = "{subject}native code crashed ({sign}, {what}); {remedy}"
NOT_PICKLABLE = (
    "the call cannot be copied into a separate process ({type}: {error}); give the model as a file, or call without "
    "isolation"
)


def at_work_on(model: str) -> None:
    """Notify the watching process, if any, which model a crash would be about."""
    if _tell is not None:
        _tell(model)


def tell_by(tell: Callable[[str], None]) -> None:
    """Set how `at_work_on` notifies the watching process: once, at the start of a watched process."""
    global _tell  # noqa: PLW0603
    _tell = tell


def requested(number: int) -> bool:
    """Return whether a signal is a request to end, not a sign of a crash or of a limit."""
    return number in {getattr(signal, name, None) for name in _REQUESTS}


def describe_end(code: int, model: str) -> str:
    """Return the message for a process that ended too early while it worked with this model ("" for none).

    `code` is its exit code, or the negative number of the signal that ended it.
    """
    subject = f"{model}: " if model else ""
    if code >= 0:
        return (
            f"{subject}a library or the model's own code ended the process (exit code {code}) before there was a "
            "result; see the output above"
        )
    sign = signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"
    if sign == "SIGKILL":
        return (
            f"{subject}the process was killed ({sign}), probably because it ran out of memory; use a smaller "
            "network or table, or allow more memory"
        )
    if sign == "SIGXCPU":
        return f"{subject}the limit of processor time ended the process ({sign}); raise it (ulimit -t)"
    what = (signal.strsignal(-code) or "crash").lower().partition(" (")[0]
    remedy = (
        "the file is damaged, or the installed runtime cannot run it: export it again, or update onnxruntime"
        if model
        else "please report it with the command that led to it"
    )
    return NATIVE_CODE_CRASHED.format(subject=subject, sign=sign, what=what, remedy=remedy)


def out_of_memory(error: BaseException | None) -> bool:
    """Return whether an exception means that the memory ran out, or was caused by one that does."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        # Python's messages if a library cannot be loaded or a thread cannot be started within a limit.
        if any(sign in str(error) for sign in _NO_MEMORY):
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def die_with(pipe: int) -> None:
    """Let the system kill this process when the other end of a pipe closes: a killed parent leaves no work behind."""
    if sys.platform == "linux":
        from fcntl import F_GETFL, F_SETFL, F_SETOWN, F_SETSIG, fcntl

        fcntl(pipe, F_SETOWN, os.getpid())
        fcntl(pipe, F_SETSIG, signal.SIGKILL)
        fcntl(pipe, F_SETFL, fcntl(pipe, F_GETFL) | os.O_ASYNC)


def new_interpreter(code: str, *arguments: str) -> list[str]:
    """Return the command that runs Python code in a new interpreter with the packages of this one.

    Nothing in the working directory or in PYTHON* variables can replace a module: `-I` leaves both out, and further
    folders of this process's search path come last.
    """
    here = {"", os.curdir, os.getcwd()}  # noqa: PTH109
    own = str(Path(__file__).resolve().parent.parent)
    folders = [each for each in sys.path if isinstance(each, str) and each not in here and Path(each).is_absolute()]
    folders.append(own)
    return [sys.executable, "-I", "-c", _PREPARE + code, str(len(folders)), *folders, *arguments]


def isolated(function: Callable[..., Any], /, *arguments: Any, progress: Any = None, **options: Any) -> Any:
    """Call a function in a new Python process and return its result.

    If native code crashes in the new process, `isolated` raises a `ModelError`. For example, a damaged network can
    crash the runtime. Starting the new process takes about as long as importing fairchain. The new process has the same
    rights as the caller, so it does not protect against malicious code.

    Parameters
    ----------
    function
        A function that Python can import by its name, for example `fairchain.explain`.
    arguments, options
        Arguments of the function. They must be objects that `pickle` can copy, such as paths, specs and tables.
    progress
        A function that is called in the caller's process with the progress, if `function` has a parameter `progress`.

    Raises
    ------
    ModelError
        If the new process crashed, was killed or ran out of memory, or if an argument cannot be copied.
    KeyboardInterrupt
        If Ctrl-C ended the function without a result.

    Examples
    --------
    >>> import fairchain
    >>> fairchain.isolated(fairchain.verify, None, fairchain.example("census")).decision.name
    'FAIR'
    """
    import pickle
    import subprocess

    from fairchain.errors import ModelError
    from fairchain.system.interrupts import first_interrupt

    try:
        request = pickle.dumps((function, arguments, options, progress is not None))
    except Exception as error:  # pickle raises the exceptions of the objects
        raise ModelError(NOT_PICKLABLE.format(type=type(error).__name__, error=error)) from None
    # In a separate group, so that Ctrl-C reaches it once, from here.
    group: dict[str, Any] = {} if sys.platform == "win32" else {"process_group": 0}
    child = subprocess.Popen(
        new_interpreter("from fairchain.system.isolation import answer; answer()"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **group,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    # The child's last message of each kind.
    said: dict[str, Any] = {}
    interrupted = False

    def stop() -> None:
        nonlocal interrupted
        if "ready" in said and sys.platform != "win32":
            child.send_signal(signal.SIGINT)
        else:
            child.kill()
        interrupted = True

    try:
        with first_interrupt(stop):
            with suppress(BrokenPipeError):
                child.stdin.write(len(request).to_bytes(LENGTH_BYTES, "little") + request)
                child.stdin.flush()
            for kind, value in _messages(child.stdout):
                said[kind] = value
                if kind == "progress":
                    progress(*value)
                if kind in ("result", "error"):
                    break
    except BaseException:
        child.kill()
        raise
    finally:
        code = child.wait()
        with suppress(OSError):
            child.stdin.close()
        child.stdout.close()
    if "result" in said:
        return said["result"]
    if "error" in said:
        raise said["error"]
    if interrupted:
        raise KeyboardInterrupt
    raise ModelError(describe_end(code, said.get("model", "")))


def _messages(stream: IO[bytes]) -> Iterator[tuple[str, Any]]:
    """Yield the messages of the child, until it ends or a message is truncated."""
    import pickle

    while len(head := stream.read(LENGTH_BYTES)) == LENGTH_BYTES:
        size = int.from_bytes(head, "little")
        content = stream.read(size)
        if len(content) < size:
            return
        # Our own code wrote it, with no more rights than this process has.
        yield pickle.loads(content)


def answer() -> None:
    """Run the call that `isolated` writes to standard input, in the new process."""
    import pickle

    from fairchain.errors import ModelError
    from fairchain.system.interrupts import Interrupts, install, is_interruption

    handler = Interrupts()
    install(handler)
    # Native code may print; its output must not mix with the messages.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(kind: str, value: object) -> None:
        content = pickle.dumps((kind, value))
        out.write(len(content).to_bytes(LENGTH_BYTES, "little") + content)
        out.flush()

    try:
        send("ready", None)
        tell_by(lambda name: send("model", name))
        size = int.from_bytes(sys.stdin.buffer.read(LENGTH_BYTES), "little")
        request = sys.stdin.buffer.read(size)
        die_with(0)
        function, arguments, options, reports = pickle.loads(request)
        if reports:
            options["progress"] = lambda *value: send("progress", value)
        found = ("result", function(*arguments, **options))
    except BaseException as error:  # the caller must get every exception
        raised: BaseException = error
        if out_of_memory(error):
            raised = ModelError(NO_MEMORY)
        elif is_interruption(error):
            raised = KeyboardInterrupt()
        elif not isinstance(error, Exception):
            raised = ModelError(f"the model's own code raised {type(error).__name__}")
        found = ("error", raised)
    handler.close()
    try:
        send(*found)
    except Exception:  # objects that pickle cannot copy
        send("error", ModelError(f"{type(found[1]).__name__}: cannot be returned from a separate process"))
    sys.stderr.flush()
    os._exit(0)
