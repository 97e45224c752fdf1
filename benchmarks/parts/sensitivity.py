"""The paper's figure of sensitivities: census by sex with its own points; and credit by age, which is unfair.

Its measure is counted as it does, several times, beside what an intervention on the same feature or neuron does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

import numpy as np

from benchmarks.cases import OURS, Case, feed_forward
from benchmarks.paper import SENSITIVITIES, TABLE
from benchmarks.results import Cell, Column, PartResult, Plot, Series, Table
from benchmarks.sizes import Sizes
from fairchain import Explanation, Spec, explain
from fairchain.explaining.context import context_of
from fairchain.explaining.result import Influence
from fairchain.explaining.units import requested_units, targets_of
from fairchain.prepare import prepare

SHOWN = 10
CENSUS, CREDIT = ("census", "sex"), ("credit", "age")
# Inputs of each group: as many as the paper's traces give, and 16 times that.
INPUTS = TABLE[CENSUS].traces // 2
TIMES = (1, 16)
TEXT = """This section compares two measures of features and neurons: the paper's *sensitivity*, and the *effect* on the
gap, which fairchain measures. The first table repeats the paper's figure of sensitivities for census by sex.

**Sensitivity** is a sum over the states of a unit. Each summand multiplies two numbers: how much more often one group
reaches the state than another, and how often an input reaches the state and gets the outcome. The values in the paper's
figure are divided by the largest value, which is the value of capital gain. We divide the values of each of our runs in
the same way. The paper draws uniform inputs. No uniform feature depends on the group, so the true sensitivity of every
feature is 0, and the counted values are sampling error. To show this, we compute the paper's formula for several seeds,
with as many inputs of each group as in the paper. The paper does not state into how many states it divided each
feature. We use the states of `explain`, so the paper's values may lie outside the range of our values.

The **effect** of an intervention on a unit is the amount by which the intervention reduces the gap between the two
groups. A negative effect means that the intervention increases the gap. For uniform inputs, the intervention sets a
numeric feature to its mean. It sets a categorical feature to its first value, because all values are equally frequent.
It gives a neuron the value that this neuron has for another input. The bounds of all effects hold simultaneously with
probability 1 - 1e-6.

In our figure of the sensitivity, bars show medians, and lines extend from the smallest to the largest value. In the
other figures, lines show the bounds of the effects."""


@dataclass(frozen=True)
class Features:
    """The features of a network that are not protected: the paper's formula, counted again and again, and effects."""

    title: str
    owner: str
    found: Explanation
    runs: list[list[float]]
    more: list[list[float]]

    @property
    def units(self) -> list[Influence]:
        """The units in the order of the network, as in the paper's figure."""
        return sorted(self.found.units, key=lambda unit: unit.place)

    @property
    def shares(self) -> list[list[float]]:
        """For each feature, what it was in each run as a share of the run's largest."""
        normalised = [[value / max(run) for value in run] for run in self.runs]
        return [list(each) for each in zip(*normalised, strict=True)]

    @property
    def network(self) -> str:
        """The network in a figure."""
        return "our network" if self.owner == OURS else "the paper's network"

    @property
    def inside(self) -> int:
        """The number of the paper's points within the range of the runs."""
        return sum(min(each) <= point <= max(each) for point, each in zip(SENSITIVITIES, self.shares, strict=True))


def sensitivities(spec: Spec, seed: int, size: int) -> dict[str, float]:
    """Return the paper's formula for every feature that is not protected, from so many inputs of each group."""
    context = context_of(prepare(None, spec, seed=seed))
    groups = range(len(context.groups))
    inputs = [context.population.rounds(seed, 0, size, copy=1 + group).show(group).copy() for group in groups]
    successes = [context.model.predict(each) == context.outcomes[0] for each in inputs]
    requests, layers = requested_units(context, ["features"])
    found = {}
    for target in targets_of(context, requests, layers, "default", np.concatenate(inputs), {}):
        states = [target.state(each, {}) for each in inputs]
        parts = []
        for state in range(target.states):
            reached = [float((each == state).mean()) for each in states]
            joint = np.mean([((each == state) & label).mean() for each, label in zip(states, successes, strict=True)])
            parts.append(float(joint) * (max(reached) - min(reached)))
        found[target.name] = sum(parts)
    return found


def features_of(case: Case, sizes: Sizes) -> Features:
    """Count the paper's formula with a few seeds, and explain the network."""
    found = explain(None, case.spec, units=["features"], rounds=sizes.explained, seed=0)
    names = [unit.name for unit in sorted(found.units, key=lambda unit: unit.place)]
    few, many = (
        [[run[name] for name in names] for run in (sensitivities(case.spec, s, INPUTS * t) for s in range(sizes.seeds))]
        for t in TIMES
    )
    return Features(case.title, case.owner, found, few, many)


def run(sizes: Sizes, models: Path | None) -> PartResult:
    """Make the paper's figure of our network and of its own; explain features and neurons of the unfair case."""
    start = time.perf_counter()
    with feed_forward(models) as cases:
        census = [features_of(case, sizes) for case in cases if (case.network, case.protected) == CENSUS]
        credit = next(case for case in cases if (case.network, case.protected, case.owner) == (*CREDIT, OURS))
        unfair = features_of(credit, sizes)
        neurons = explain(None, credit.spec, units=["neurons"], rounds=sizes.explained, seed=0)
    seconds = time.perf_counter() - start
    left_out = "" if len(census) > 1 else "\n\nThe paper's own network is not here; `--models` adds it."
    return PartResult(
        text=f"{TEXT}{left_out}",
        tables=[
            _figure_table(census),
            _noise_table([*census, unfair]),
            _features_table(unfair.found),
            _neurons_table(neurons),
        ],
        plots=[
            _figure(census),
            _effects_plot(census),
            _credit_plot(unfair.found),
            _neurons_plot(neurons),
        ],
        settings={
            "rounds of an explanation": sizes.explained,
            "seeds of the paper's formula": f"0 to {sizes.seeds - 1}",
            "inputs of each group": INPUTS,
            "seconds for all": f"{seconds:.1f}",
        },
    )


def _figure_table(census: list[Features]) -> Table:
    columns = [Column("feature"), Column("the paper's figure", ".3f")]
    for each in census:
        columns += [
            Column(f"the paper's formula, {each.network}: median [smallest, largest]"),
            Column(f"effect on the gap, {each.network} [bounds]"),
        ]
    rows: list[list[Cell]] = []
    for place, unit in enumerate(census[0].units):
        row: list[Cell] = [unit.name, SENSITIVITIES[place]]
        for each in census:
            shares = each.shares[place]
            row += [f"{median(shares):.2f} [{min(shares):.2f}, {max(shares):.2f}]"]
            row += [f"{each.units[place].effect:.4f}"]
        rows.append(row)
    return Table("The paper's figure: census by sex", columns, rows, " ".join(map(_said, census)))


def _said(each: Features) -> str:
    """Return the findings on one network in words."""
    clear = [unit.name for unit in each.found.ranked() if unit.effect.low > 0 or unit.effect.high < 0]
    return (
        f"On {each.network}, the gap is {each.found.gap:.4f}. For {each.inside} of {len(SENSITIVITIES)} "
        f"features, the paper's value is within the range of our {len(each.runs)} runs. The bounds of the effect "
        f"exclude 0 for {', '.join(clear) or 'no feature'}."
    )


def _noise_table(found: list[Features]) -> Table:
    columns = [Column("case"), Column("inputs of each group", ",d"), Column("largest sensitivity, mean", ".4f")]
    columns += [Column("features with the largest sensitivity, and in how many runs")]
    rows: list[list[Cell]] = [
        [each.title, INPUTS * times, fmean(map(max, runs)), came_first(runs, [unit.name for unit in each.units])]
        for each in found
        for times, runs in zip(TIMES, (each.runs, each.more), strict=True)
    ]
    ratios = [fmean(map(max, each.more)) / fmean(map(max, each.runs)) for each in found]
    note = (
        f"With {TIMES[-1]} times as many inputs, the largest values shrink by the factors "
        f"{', '.join(f'{ratio:.2f}' for ratio in ratios)}. Sampling error is proportional to one over the square root "
        f"of the number of inputs, so the expected factor is {TIMES[-1] ** -0.5:g}."
    )
    return Table("The paper's formula for features, with more inputs", columns, rows, note)


def came_first(runs: Sequence[Sequence[float]], names: Sequence[str]) -> str:
    """Return the features with the largest value, and in how many runs."""
    first = Counter(names[max(range(len(run)), key=run.__getitem__)] for run in runs)
    return ", ".join(f"{name} {count}" for name, count in first.most_common())


def _features_table(found: Explanation) -> Table:
    columns = [Column("feature"), Column("effect on the gap [bounds]"), Column("gap after the intervention", ".4f")]
    rows: list[list[Cell]] = [[unit.name, f"{unit.effect:.4f}", unit.remaining] for unit in found.ranked()]
    note = f"{_gap_of(found)}. Inputs are uniform, so the true sensitivity of every feature is 0."
    return Table("Credit by age: features", columns, rows, note)


def _gap_of(found: Explanation) -> str:
    return f"The gap is {found.gap:.4f} ({found.pair.more} against {found.pair.less})"


def _first(found: Explanation) -> list[Influence]:
    """Return the first units by either measure, whatever the sign of the effect."""
    by_effect = sorted(found.units, key=lambda unit: abs(unit.effect.estimate), reverse=True)[:SHOWN]
    chosen = {unit.name for unit in (*by_effect, *found.ranked("sensitivity")[:SHOWN])}
    return [unit for unit in found.ranked() if unit.name in chosen]


def _neurons_table(found: Explanation) -> Table:
    columns = [Column("neuron"), Column("effect on the gap [bounds]"), Column("gap after the intervention", ".4f")]
    columns += [Column("the paper's sensitivity", ".4f"), Column("sensitivity / largest sensitivity", ".2f")]
    units = _first(found)
    rows: list[list[Cell]] = [
        [unit.name, f"{unit.effect:.4f}", unit.remaining, unit.sensitivity.estimate, unit.share] for unit in units
    ]
    note = (
        f"{_gap_of(found)}. The table shows the first {SHOWN} neurons by each measure, which are {len(units)} "
        f"of all {len(found.units)} neurons."
    )
    agreed = found.agreement
    if agreed.kendall is not None:
        note += (
            f" The two measures share {agreed.common} of their first {agreed.top} neurons. Kendall's rank correlation "
            f"over all neurons is {agreed.kendall:.2f}."
        )
    return Table("Credit by age: neurons", columns, rows, note)


def _figure(census: list[Features]) -> Plot:
    series = [Series("the paper's figure", list(enumerate(SENSITIVITIES)))]
    for each in census:
        middle = [(float(place), median(shares)) for place, shares in enumerate(each.shares)]
        name = f"its formula, {len(each.runs)} counts of {each.network}"
        series.append(Series(name, middle, spread=[(min(shares), max(shares)) for shares in each.shares]))
    names = [unit.name for unit in census[0].units]
    title = "Census by sex: the paper's sensitivity of features"
    return Plot("sensitivity-census.svg", title, "", "share of the largest", series, bars=names)


def _effects_plot(census: list[Features]) -> Plot:
    series = [_effects(each.network, each.units) for each in census]
    names = [unit.name for unit in census[0].units]
    title = "Census by sex: effect of each feature on the gap"
    return Plot("sensitivity-effects.svg", title, "", "effect on the gap", series, bars=names)


def _effects(name: str, units: Sequence[Influence], unit_of: float = 1.0) -> Series:
    bounds = [(unit.effect.low / unit_of, unit.effect.high / unit_of) for unit in units]
    return Series(name, [(place, unit.effect.estimate / unit_of) for place, unit in enumerate(units)], spread=bounds)


def _credit_plot(found: Explanation) -> Plot:
    units = found.ranked()
    title = f"Credit by age: effect of each feature on the gap of {found.gap.estimate:.3f}"
    series = [_effects("effect on the gap, with bounds", units)]
    names = [unit.name for unit in units]
    return Plot("sensitivity-features.svg", title, "", "effect on the gap", series, bars=names)


def _neurons_plot(found: Explanation) -> Plot:
    units = _first(found)
    most = max((abs(unit.effect.estimate) for unit in units), default=0.0) or 1.0
    series = [
        _effects("effect on the gap, with bounds", units, most),
        Series("the paper's sensitivity", [(place, unit.share) for place, unit in enumerate(units)]),
    ]
    title = f"Credit by age: the first {SHOWN} neurons by either measure"
    names = [unit.name for unit in units]
    return Plot("sensitivity-neurons.svg", title, "", "share of the largest", series, bars=names)
