"""The paper's figure of sensitivities: the credit network by age, its measure beside what an intervention does."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.suite.outcome import Cell, Column, Found, Plot, Series, Table
from benchmarks.suite.sizes import Sizes
from fairchain import Explanation, example, explain
from fairchain.explaining.result import Influence

SHOWN = 15
TEXT = """The credit network by age is the one feed-forward case that is unfair. The paper ranks features and neurons
by a *sensitivity*: how much more often a group reaches a state, times how often the state reaches the outcome.
fairchain measures the *effect*: by how much the gap between the two groups shrinks when the unit is intervened on,
with bounds that hold together. Both are shown as shares of the largest of their kind, as in the paper's figure. Under
uniform inputs features do not depend on the group, so the paper's measure is 0 for every feature; what its own
program shows there is noise (`python -m benchmarks.feature_noise`)."""


def run(sizes: Sizes, models: Path | None) -> Found:  # noqa: ARG001  # the embedded network
    """Features and neurons, each as a table and bars."""
    start = time.perf_counter()
    features = explain(None, example("credit"), units=["features"], rounds=sizes.explained)
    neurons = explain(None, example("credit"), units=["neurons"], rounds=sizes.explained)
    seconds = time.perf_counter() - start
    agreed = neurons.agreement
    text = TEXT
    if agreed is not None and agreed.kendall is not None:
        text += (
            f"\n\nOf the {agreed.top} first neurons by either measure {agreed.common} are common to both; Kendall's "
            f"rank correlation over all {len(neurons.units)} is {agreed.kendall:.2f}."
        )
    return Found(
        text=text,
        tables=[_table(features, "Features"), _table(neurons, "Neurons")],
        plots=[
            _plot(features, "sensitivity-features.svg", "Credit by age: features"),
            _plot(neurons, "sensitivity-neurons.svg", "Credit by age: neurons with the largest effect"),
        ],
        checks=[],
        used={"rounds": sizes.explained, "seconds for both": f"{seconds:.1f}"},
        behind=[],
    )


def _largest(found: Explanation) -> list[Influence]:
    return sorted(found.units, key=lambda unit: unit.effect.estimate, reverse=True)[:SHOWN]


def _table(found: Explanation, title: str) -> Table:
    columns = [Column("unit"), Column("effect on the gap [bounds]"), Column("gap left", ".4f")]
    columns += [Column("the paper's sensitivity", ".5f"), Column("as a share of the largest", ".2f")]
    rows: list[list[Cell]] = [
        [unit.name, f"{unit.effect:.4f}", unit.remaining, unit.sensitivity.estimate, unit.share]
        for unit in _largest(found)
    ]
    pair = f"{found.pair.more} against {found.pair.less}"
    note = f"The gap is {found.gap:.4f} ({pair}); {len(found.units)} units, the first {SHOWN} shown."
    return Table(title, columns, rows, note)


def _plot(found: Explanation, file: str, title: str) -> Plot:
    units = _largest(found)
    most = max((abs(unit.effect.estimate) for unit in found.units), default=0.0) or 1.0
    series = [
        Series("effect on the gap", [(place, unit.effect.estimate / most) for place, unit in enumerate(units)]),
        Series("the paper's sensitivity", [(place, unit.share) for place, unit in enumerate(units)]),
    ]
    return Plot(file, title, "", "share of the largest", series, bars=[unit.name for unit in units])
