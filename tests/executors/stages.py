"""Every stage of the program on small questions, with results that can be compared; and work that meets accidents."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fairchain import audit, example, explain, load_spec, parse_spec, repair, verify
from fairchain.certificates import make_certificate
from fairchain.chain import learn_chain
from fairchain.chain.formats import chain_text
from fairchain.spec import revise
from tests.networks import linear
from tests.questions import category, integer, question

Chosen = Executor | str | None
# As long as a worker hangs.
HANGING_SECONDS = 20


def sampled(executor: Chosen) -> Any:
    """A certificate about some ten thousand rounds: several batches of several chunks."""
    found = verify(None, example("credit"), epsilon=0.02, executor=executor)
    assert found.engine == "sampling"
    return make_certificate(found, timed=False)


def conditioned(executor: Chosen) -> Any:
    """Inputs under a condition, whose parsed form cannot be copied as it is."""
    spec = revise(load_spec(example("census")), property__given="age >= 3 and hours-per-week > 1")
    return make_certificate(verify(None, spec, epsilon=0.015, executor=executor), timed=False)


def enumerated(executor: Chosen) -> Any:
    """A million inputs in four segments."""
    network = linear([[1, 0], [0.7, 1], [0.2, 0.9], [3, 0]], [0, 2]).SerializeToString()
    asked = question(integer("a", 0, 99), integer("b", 0, 99), integer("c", 0, 49), category("sex", "F", "M"))
    asked["guarantee"] = {"engine": "enumeration"}
    return make_certificate(verify(network, parse_spec(asked), executor=executor), timed=False)


def counted(executor: Chosen, rows: int = 20_000) -> Any:
    """A table of many rows, counted as a whole population and with each row shown as every group."""
    spec = load_spec(example("bank"))
    random = np.random.default_rng(5)
    table: dict[str, Any] = {}
    for feature in spec.features:
        values = getattr(feature, "values", None)
        low, high = getattr(feature, "low", 0), getattr(feature, "high", 0)
        table[feature.name] = (
            random.choice(np.array([str(each) for each in values]), rows)
            if values is not None
            else random.integers(int(low), int(high) + 1, rows)
        )
    found = []
    for kind in ("difference", "individual"):
        changed = revise(spec, population={"kind": "table", "as": "population"}, property__kind=kind)
        found.append(make_certificate(verify(None, changed, data=table, executor=executor), timed=False))
    return found


def explained(executor: Chosen) -> Any:
    found = explain(None, example("credit"), units=["layer5", "features"], rounds=20_000, executor=executor).to_dict()
    return {key: value for key, value in found.items() if key != "seconds"}


def learned(executor: Chosen) -> Any:
    return chain_text(learn_chain(None, example("credit"), units=["layer3"], rounds=20_000, executor=executor), "json")


def repaired(executor: Chosen) -> Any:
    found = repair(None, example("credit"), change="scales", max_units=0, iterations=1, executor=executor)
    assert found.accepted
    return found.content, found.candidates


def audited(executor: Chosen) -> Any:
    """What a whole audit writes, but for times and pages."""
    with TemporaryDirectory() as folder:
        audit(example("credit"), folder, repair=False, executor=executor)
        files = {name: (Path(folder) / name).read_text(encoding="utf-8") for name in AUDITED}
    certificate = json.loads(files["certificate.json"])
    del certificate["times"]
    return files | {"certificate.json": certificate}


AUDITED = ("all-pairs.json", "certificate.json", "chain.json", "explanation.json", "selection-rates.csv")
STAGES: dict[str, Callable[[Chosen], Any]] = {
    each.__name__: each for each in (sampled, conditioned, enumerated, counted, explained, learned, repaired)
}


# -- Work that meets accidents, in a process of its own ----------------------------------------------------------------


def square(unit: int) -> int:
    return unit * unit


class Once:
    """Squares numbers; the first worker that gets a number of its own meets with an accident."""

    def __init__(self, folder: Path, accident: str, at: int) -> None:
        self.folder, self.accident, self.at = folder, accident, at

    def __call__(self, unit: int) -> int:
        time.sleep(0.002)
        if unit == self.at and self._first():
            {"kill": _killed, "memory": _memory, "stop": _stopped, "error": _error}[self.accident]()
        return unit * unit

    def _first(self) -> bool:
        try:
            (self.folder / f"{self.accident}-{self.at}").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Always(Once):
    """Meets with the accident in every worker."""

    def _first(self) -> bool:
        return True


def _killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _memory() -> None:
    raise MemoryError


def _stopped() -> None:
    time.sleep(HANGING_SECONDS)


def _error() -> None:
    raise ValueError("the work itself is wrong")


def _killed_afterwards(marker: Path, function: Callable[..., Any], *arguments: Any) -> Any:
    found = function(*arguments)
    if not marker.exists():
        marker.touch()
        _killed()
    return found


class Killing(Executor):
    """Hands calls to a cluster; two of them are lost together with their workers, once they are computed."""

    def __init__(self, pool: Executor, count: int, folder: Path) -> None:
        self._pool, self._max_workers, self._folder, self._sent = pool, count, folder, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._sent += 1
        if self._sent in (1, 5):
            return self._pool.submit(_killed_afterwards, self._folder / f"killed-{self._sent}", fn, *args, **kwargs)
        return self._pool.submit(fn, *args, **kwargs)


def decides_by_process(values: Any) -> Any:
    """A model that is another one in every process."""
    return ((values[:, 0] > 1.5) ^ (os.environ.get("OMP_NUM_THREADS") == "1")).astype(np.int64)
