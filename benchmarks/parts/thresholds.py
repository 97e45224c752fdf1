"""Decision thresholds for a boosted classifier of the census, beside fairlearn's ThresholdOptimizer.

Both see the same rows: the classifier is fitted on the official training rows, thresholds are chosen on one half of
the test rows, and everything in the table is counted on the other half. fairlearn's thresholds are randomised; its gap
has no bounds. Ours are deterministic, and the gap is verified.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.results import Cell, Check, Column, PartResult, Table
from benchmarks.sizes import Sizes
from fairchain import Repair, Spec, example, load_spec, repair
from fairchain.datasets import here
from fairchain.datasets.tables import data_set_table
from fairchain.errors import FairchainError
from fairchain.prepare import read_rows
from fairchain.spec import CategoryFeature, revise

TRAINED = 32_561
DELTA, THRESHOLD, MOST_LOST = 0.05, 0.05, 0.01
TEXT = f"""This section compares two methods that choose a decision threshold for each sex, for the same boosted
classifier of the census. fairlearn's `ThresholdOptimizer` aims at a gap of 0 on the rows on which it is fitted.
fairchain aims at the verdict FAIR, with threshold {THRESHOLD:g} and delta {DELTA:g}, on rows that the search has not
used. Both methods choose their decision thresholds on the same rows. The table shows the gap and the accuracy on other
rows (*rows judged on*). The brackets show the bounds of the gap that fairchain verified."""


def run(sizes: Sizes, _models: Path | None) -> PartResult:
    """Choose thresholds both ways."""
    try:
        names, table = data_set_table("census", here("census"), encoded=True)
    except FairchainError as error:
        return PartResult(text=f"{TEXT}\n\nNot run: {error}.", tables=[], checks=[])
    spec, values, truth = _question(names, table)
    test = np.arange(TRAINED, len(values))
    mixed = np.random.default_rng(0).permutation(test if sizes.paper else test[:4000])
    searched, judged = np.array_split(mixed, 2)
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(max_iter=100 if sizes.paper else 20, random_state=0)
    model.fit(values[:TRAINED], truth[:TRAINED])
    rows = [
        _before(model, values[judged], truth[judged], spec),
        _fairlearn(model, values, truth, searched, judged, spec),
    ]
    start = time.perf_counter()
    result = repair(
        model,
        revise(spec, guarantee__delta=DELTA),
        data=_part(names, table, searched),
        held_out=_part(names, table, judged),
        change="group-thresholds",
        iterations=sizes.iterations,
        seed=0,
    )
    rows.append(_ours(result, time.perf_counter() - start))
    columns = [Column("method"), Column("gap"), Column("accuracy", ".4f"), Column("seconds", ".2f")]
    lost = float(rows[1][2]) - float(rows[2][2])  # type: ignore[arg-type]
    return PartResult(
        text=TEXT,
        tables=[Table("Thresholds for each group of the census by sex", columns, rows)],
        checks=[
            Check("fairchain accepts its thresholds", result.accepted, str(result.accepted), "True", sizes.paper),
            Check(
                "accuracy of fairlearn's classifier minus accuracy of fairchain's classifier",
                lost <= MOST_LOST,
                f"{lost:+.4f}",
                f"at most {MOST_LOST:g}",
                sizes.paper,
            ),
        ],
        settings={"rows searched on": len(searched), "rows judged on": len(judged)},
    )


def _question(names: Sequence[str], table: Sequence[Sequence[object]]) -> tuple[Spec, Any, Any]:
    """Return the spec about a sample of rows, the features as numbers, and the labels."""
    spec = revise(
        load_spec(example("census")),
        property__protected=["sex"],
        property__outcome=">50K",
        property__threshold=THRESHOLD,
        model__path=None,
        population={"kind": "table", "as": "sample", "label": names[-1]},
    )
    # The table has the numbers of categories.
    described = tuple(
        replace(each, aliases=tuple(range(len(each.values)))) if isinstance(each, CategoryFeature) else each
        for each in spec.described
    )
    spec = replace(spec, described=described)
    rows = read_rows(spec, _part(names, table, np.arange(len(table))))
    assert rows is not None
    return spec, rows.values, rows.truth


def _part(names: Sequence[str], table: Sequence[Sequence[object]], places: Any) -> dict[str, list[Any]]:
    return {name: [table[row][place] for row in places] for place, name in enumerate(names)}


def _sex(spec: Spec, values: Any) -> Any:
    return values[:, [feature.name for feature in spec.features].index("sex")]


def _counted(decided: Any, truth: Any, sex: Any) -> tuple[str, float]:
    """Return the gap between the sexes and the accuracy, as they are in these rows."""
    rates = [float(np.mean(decided[sex == group])) for group in (0, 1)]
    return f"{abs(rates[0] - rates[1]):.4f}", float(np.mean(decided == truth))


def _before(model: Any, values: Any, truth: Any, spec: Spec) -> list[Cell]:
    return ["original classifier", *_counted(model.predict(values), truth, _sex(spec, values)), None]


def _fairlearn(model: Any, values: Any, truth: Any, searched: Any, judged: Any, spec: Spec) -> list[Cell]:
    optimizer = import_module("fairlearn.postprocessing").ThresholdOptimizer
    start = time.perf_counter()
    other = optimizer(estimator=model, constraints="demographic_parity", prefit=True, predict_method="auto")
    other.fit(values[searched], truth[searched], sensitive_features=_sex(spec, values[searched]))
    seconds = time.perf_counter() - start
    sex = _sex(spec, values[judged])
    decided = other.predict(values[judged], sensitive_features=sex, random_state=0)
    return ["fairlearn ThresholdOptimizer", *_counted(decided, truth[judged], sex), seconds]


def _ours(result: Repair, seconds: float) -> list[Cell]:
    assert result.after is not None
    assert result.price is not None
    return ["fairchain, verified", f"{result.after.gap:.4f}", result.price.after, seconds]
