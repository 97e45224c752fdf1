"""Every stage of the program on small questions, with results that can be compared."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import Executor
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


def decides_by_process(values: Any) -> Any:
    """A model that is another one in every process."""
    return ((values[:, 0] > 1.5) ^ (os.environ.get("OMP_NUM_THREADS") == "1")).astype(np.int64)
