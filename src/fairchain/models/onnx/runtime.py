"""Runtime of a checked network: onnxruntime within limits of memory and time.

Each call uses one thread: workers provide the parallelism, and results do not depend on their number. Memory is one
pool of bounded size, and one thread checks all running calls at intervals and ends those that take too long.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from numpy.typing import NDArray

from fairchain.errors import ModelError
from fairchain.models.onnx.file_checks import Limits, Network
from fairchain.system.user_code import first_line

if TYPE_CHECKING:
    from onnxruntime import RunOptions

_memory_cap = threading.Lock()
# The networks that were last copied into this process and opened here: the stages of a run share a network.
MOST_KEPT_NETWORKS = 16
_opened: OrderedDict[tuple[str, Limits], Runtime] = OrderedDict()
_opening = threading.Lock()
CALL_TOO_SLOW = "{path}: one call of the network took more than {seconds:g} seconds"


class TensorInfo(Struct, frozen=True):
    """An input or output as onnxruntime describes it: `tensor(float)`, a number or a name for each axis."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]


class Runtime:
    """A network that onnxruntime has opened, with its inputs and outputs."""

    def __init__(self, network: Network, limits: Limits) -> None:
        import onnxruntime as ort

        self._network, self._limits = network, limits
        self._path = network.path
        self._new_options, self._watchdog = ort.RunOptions, Watchdog(limits.seconds)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        # A file of 150 bytes can request gigabytes. A process has one such pool, so the first limit stays.
        with _memory_cap, suppress(RuntimeError):
            info = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
            pool = ort.OrtArenaCfg({"max_mem": limits.memory_bytes, "arena_extend_strategy": 1})
            ort.create_and_register_allocator(info, pool)
        options.add_session_config_entry("session.use_env_allocators", "1")
        try:
            self._session = ort.InferenceSession(
                network.content,
                options,
                ["CPUExecutionProvider"],
                disabled_optimizers=["ConstantFolding"],
                enable_fallback=0,
            )
        except Exception as error:  # onnxruntime raises a dozen types of its own, all derived from Exception
            raise ModelError(f"{self._path}: onnxruntime refuses this network: {first_line(error)}") from None
        try:
            self.inputs, self.outputs = (
                [TensorInfo(node.name, node.type, tuple(node.shape)) for node in nodes]
                for nodes in (self._session.get_inputs(), self._session.get_outputs())
            )
        except UnicodeDecodeError:
            raise ModelError(
                f"{self._path}: a name of an input, output or dimension is not valid text; export the network again"
            ) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy the bytes into another process, which opens each network once."""
        return open_once, (self._network, self._limits)

    def run(self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str]) -> list[NDArray[Any]]:
        """Return these outputs, or raise a ModelError if the network fails or takes too long."""
        options = self._new_options()
        options.log_severity_level = 4
        call = self._watchdog.begin(options)
        try:
            return self._session.run(outputs, inputs, options)  # type: ignore[no-any-return]
        except Exception as error:  # see above
            if options.terminate:
                raise ModelError(CALL_TOO_SLOW.format(path=self._path, seconds=self._limits.seconds)) from None
            raise ModelError(f"{self._path}: the network cannot be run: {first_line(error)}") from None
        finally:
            self._watchdog.end(call)


def open_once(network: Network, limits: Limits) -> Runtime:
    """Return the runtime of a network, the open one if the bytes are the same."""
    key = (hashlib.sha256(network.content).hexdigest(), limits)
    with _opening:
        if key not in _opened:
            _opened[key] = Runtime(network, limits)
            if len(_opened) > MOST_KEPT_NETWORKS:
                _opened.popitem(last=False)
        _opened.move_to_end(key)
        return _opened[key]


class Watchdog:
    """Time limit of calls: a call is aborted after this many seconds, when its current operator ends.

    A call costs two entries in a dictionary and no lock.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._pause = min(0.5, seconds / 4)
        self._calls: dict[int, tuple[float, RunOptions]] = {}
        self._awake = False
        self._lock = threading.Lock()

    def begin(self, options: RunOptions) -> int:
        """Start watching a call; the returned number is for `end`."""
        call = id(options)
        self._calls[call] = (time.monotonic() + self._seconds, options)
        if not self._awake:
            self._wake()
        return call

    def end(self, call: int) -> None:
        """Stop watching a call."""
        del self._calls[call]

    def _wake(self) -> None:
        with self._lock:
            if not self._awake:
                self._awake = True
                threading.Thread(target=self._watch, daemon=True, name="fairchain-watchdog").start()

    def _watch(self) -> None:
        """Check all calls until none has run for a while, so that an idle network needs no thread."""
        idle = 0
        while idle <= 4:
            time.sleep(self._pause)
            now = time.monotonic()
            # A copy, because calls start and end meanwhile.
            running = list(self._calls.values())
            idle = 0 if running else idle + 1
            for deadline, options in running:
                if now > deadline:
                    options.terminate = True
        self._awake = False
        # A call that started between the last check and this line would not be watched.
        if self._calls:
            self._wake()
