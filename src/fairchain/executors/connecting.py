"""From a user's name to an executor: processes of this machine, a Dask or Ray cluster, or the caller's own.

Dask has an executor for `concurrent.futures`; for Ray there is a thin one here. Both packages are installed by the
user, and are imported only for their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from fairchain.errors import ExecutorError
from fairchain.executors.processes import Processes

EXECUTOR_FORMS = '"processes", "dask://HOST:PORT" or "ray://HOST:PORT"'
NOT_AN_EXECUTOR = (
    "executor: cannot use an object of type {type}; give {names}, or an executor of concurrent.futures (of a Dask "
    "client: client.get_executor())"
)
NO_SCHEDULER = "executor: no Dask scheduler answers at {address} ({error})"


@contextmanager
def connected(executor: Executor | str, workers: int | None) -> Iterator[tuple[Executor, int]]:
    """Open an executor by its name, or use the caller's own, with the number of units that it computes at once."""
    from fairchain.executors.workers import default_workers

    if isinstance(executor, Executor):
        yield executor, workers or _size(executor) or default_workers()
        return
    if not isinstance(executor, str):
        raise ExecutorError(NOT_AN_EXECUTOR.format(type=type(executor).__name__, names=EXECUTOR_FORMS))
    if executor == "processes":
        count = workers or default_workers()
        pool = Processes(count)
        try:
            yield pool, count
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return
    try:
        parts = urlsplit(executor)
        valid = parts.scheme in ("dask", "ray") and parts.hostname and parts.port and not parts.path.strip("/")
    except ValueError:  # a port that is not a number
        valid = False
    if not valid:
        raise ExecutorError(f"executor: unknown name {executor!r}; expected {EXECUTOR_FORMS}")
    with {"dask": _dask, "ray": _ray}[parts.scheme](parts.netloc) as (cluster, size):
        yield cluster, workers or size


def _size(executor: Executor) -> int | None:
    """Return the number of simultaneous calls of an executor, if it states it."""
    client = getattr(executor, "_client", None)
    if client is not None and hasattr(client, "nthreads"):
        return sum(client.nthreads().values()) or None
    count = getattr(executor, "_max_workers", None)
    return count if isinstance(count, int) and count > 0 else None


def _imported(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ExecutorError(f"executor: {name} is not installed: pip install 'fairchain[{extra}]'") from None


@contextmanager
def _dask(address: str) -> Iterator[tuple[Executor, int]]:
    distributed = _imported("distributed", "dask")
    try:
        client = distributed.Client(f"tcp://{address}", timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        raise ExecutorError(NO_SCHEDULER.format(address=address, error=_first(error))) from None
    try:
        count = sum(client.nthreads().values())
        if not count:
            raise ExecutorError(
                f"executor: the Dask scheduler at {address} has no workers; start workers with: dask worker"
            )
        # Units are pure, but a unit that is sent twice must be computed twice.
        executor: Executor = client.get_executor(pure=False)
        yield executor, count
    finally:
        client.close()


@contextmanager
def _ray(address: str) -> Iterator[tuple[Executor, int]]:
    ray = _imported("ray", "ray")
    try:
        ray.init(address=f"ray://{address}", logging_level="ERROR", log_to_driver=False)
    except (ConnectionError, OSError, TimeoutError, ValueError, RuntimeError) as error:
        raise ExecutorError(f"executor: no Ray cluster answers at {address} ({_first(error)})") from None
    try:
        executor = RayExecutor()
        yield executor, executor.count
    finally:
        ray.shutdown()


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


class RayExecutor(Executor):
    """An executor of `concurrent.futures` on the Ray cluster that this process is connected to.

    A call is a task of Ray with one core. Ray does not repeat it; the submitter does.

    Examples
    --------
    With your own cluster: `ray.init(...)`, then `fairchain.verify(..., executor=RayExecutor())`.
    """

    def __init__(self) -> None:
        self._ray = _imported("ray", "ray")
        if not self._ray.is_initialized():
            raise ExecutorError("executor: this process is not connected to Ray; call ray.init() first")
        self._task = self._ray.remote(num_cpus=1, max_retries=0)(_call)
        self._refs: dict[Future[Any], Any] = {}

    @property
    def count(self) -> int:
        """The cores of the cluster."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    # The attribute name in pools of the standard library.
    _max_workers = count

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function in a process of the cluster."""
        ref = self._task.remote(fn, args, kwargs)
        future: Future[Any] = ref.future()
        # Ray deletes a result without a reference.
        self._refs[future] = ref
        future.add_done_callback(lambda done: self._refs.pop(done, None))
        return future


def _call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)
