"""One call of `check` against the model's own `predict` on the same frame: what a verdict costs beside the answers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes

ROWS, TRAINED = 15_000, 5_000
MOST = 2.0
# Values of each text column, as many as in the census data.
TEXTS = {"workclass": 8, "education": 16, "marital": 7, "occupation": 15, "relationship": 6, "race": 5, "sex": 2}
NUMBERS = {"age": (17, 90), "education_years": (1, 17), "gain": (0, 9999), "loss": (0, 4000), "hours": (1, 99)}
TEXT = """This section compares the time of one call of `check` with the time of the model's own `predict` on the same
frame. `check` reads the frame, calls the model, and counts the decisions. Three pipelines are measured. Each has an
encoder for seven text columns and a scaler for five numbers. Each is fitted on simulated rows with columns like those
of the census data, and is not converted to ONNX. `check` and `predict` run alternately in one process.

The table shows the medians of the processor times and their ratio. The last column shows the ratio of wall times, which
other processes affect. While threads of a linear algebra library wait for the next product, they use processor time on
both sides (OMP_NUM_THREADS=1 prevents this). `check` calls the pipeline twice. The first call has 512 rows, and shows
the type of the answers, and whether the answer for a row depends on the other rows. The second call has all rows. The
first call matters, because a call of the encoder with few rows still takes a quarter of the time for all rows."""


def frame_and_labels() -> tuple[Any, Any]:
    """Return simulated people with columns like those of the census data, and their labels."""
    pandas = import_module("pandas")
    random = np.random.default_rng(0)
    columns: dict[str, Any] = {name: random.integers(*ends, ROWS) for name, ends in NUMBERS.items()}
    for name, count in TEXTS.items():
        columns[name] = np.array([f"{name} {value}" for value in range(count)])[random.integers(0, count, ROWS)]
    frame = pandas.DataFrame(columns)
    score = frame["hours"] + 10 * (frame["sex"] == "sex 1") + random.normal(0, 20, ROWS)
    return frame, np.where(score > 60, ">50K", "<=50K")


def pipelines() -> dict[str, Any]:
    """Return the estimators behind one encoder, by name."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    last = {
        "random forest, 100 trees": RandomForestClassifier(100, random_state=0),
        "gradient boosting, 100 trees": HistGradientBoostingClassifier(random_state=0),
        "logistic regression": LogisticRegression(max_iter=300),
    }
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((encoder, list(TEXTS)), (StandardScaler(), list(NUMBERS)))
    return {name: make_pipeline(columns, each) for name, each in last.items()}


def typical(works: Sequence[Callable[[], Any]], times: int) -> list[tuple[float, float]]:
    """Return the medians of processor and wall time of functions that are called in turn."""
    found: list[list[tuple[float, float]]] = [[] for _ in works]
    for _ in range(times):
        for work, seconds in zip(works, found, strict=True):
            start = time.process_time(), time.perf_counter()
            work()
            seconds.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    return [(statistics.median(cpu for cpu, _ in each), statistics.median(wall for _, wall in each)) for each in found]


def run(sizes: Sizes, models: Path | None) -> PartResult:  # noqa: ARG001  # models are fitted here
    """Time each pipeline, and compare its gap with a count of its own predictions."""
    import fairchain

    frame, labels = frame_and_labels()
    rows: list[list[Cell]] = []
    checks = []
    for name, model in pipelines().items():
        model.fit(frame[:TRAINED], labels[:TRAINED])

        def check(model: Any = model) -> Any:
            return fairchain.check(model, frame, protected="sex", outcome=">50K", reading="population")

        decided, found = model.predict(frame) == ">50K", check()
        rates = [float(np.mean(decided[frame["sex"] == value])) for value in sorted(set(frame["sex"]))]
        own, whole = typical([partial(model.predict, frame), check], 15 if sizes.paper else 5)
        slow = whole[0] / own[0]
        rows.append([name, 1000 * own[0], 1000 * whole[0], slow, whole[1] / own[1]])
        off = abs(found.gap.estimate - (max(rates) - min(rates)))
        checks.append(Check(f"{name}: error of the gap", off < 1e-12, f"{off:g}", "below 1e-12"))
        what = f"{name}: time of check / time of predict"
        checks.append(Check(what, slow <= MOST, f"{slow:.2f}", f"at most {MOST:g}", enforced=False))
    columns = [Column("pipeline"), Column("predict, ms", ".0f"), Column("check, ms", ".0f"), Column("ratio", ".2f")]
    columns.append(Column("ratio of wall times", ".2f"))
    title = f"A check of {ROWS:,} rows against predict"
    return PartResult(text=TEXT, tables=[Table(title, columns, rows)], settings={"rows": ROWS}, checks=checks)
