"""The result of `explain`: the effect of every feature and every neuron on the gap, and counterfactual pairs.

All results are frozen and consist of plain numbers, so that terminals, notebooks, reports and repairs can read them.
"""

from __future__ import annotations

import html
from typing import Literal

from fairchain.records import Record
from fairchain.statistics import Interval
from fairchain.verification.record import Pair, Witness

UnitKind = Literal["feature", "neuron", "cell", "word"]
Intervention = Literal["resample", "mean"]
EffectMeasure = Literal["effect", "sensitivity"]
# The layer of the features.
INPUT_LAYER = "inputs"


class Influence(Record, frozen=True):
    """A unit and its effect on the gap.

    Parameters
    ----------
    name, layer, place
        `layer2[5]`, its layer (`inputs` for a feature), and its index there (for a feature: in the spec).
    tensor
        The layer's tensor in the ONNX file; none for a feature.
    method, held_at, held_as
        The intervention: the unit gets its value for another input, or is held at this value (for a category, the index
        of the value), which the spec calls `held_as`.
    effect
        The amount by which the intervention reduces the gap of the pair.
    remaining
        The gap of the pair under the intervention; negative if the other group then has the higher rate.
    max_gap
        The largest gap over all pairs and outcomes under the intervention.
    changed
        The share of the pair's decisions that the intervention changes.
    sensitivity, share
        The paper's measure, and the same divided by the largest value of a unit of this kind, as in the paper's figure.
    """

    name: str
    layer: str
    place: int
    kind: UnitKind
    tensor: str | None
    method: Intervention
    held_at: float | None
    held_as: str | None
    effect: Interval
    remaining: float
    max_gap: float
    changed: float
    sensitivity: Interval
    share: float


class LayerTotal(Record, frozen=True):
    """Sums over the units of a layer; their intervals hold jointly with all others."""

    name: str
    operator: str
    width: int
    effect: Interval
    sensitivity: Interval


class Agreement(Record, frozen=True):
    """Agreement of the two rankings of units: 1 the same order, 0 unrelated, -1 the reverse; None if all tie.

    `common` is the number of units among the `top` first of both.
    """

    kendall: float | None
    spearman: float | None
    top: int
    common: int


class WordEffect(Record, frozen=True):
    """A word, and the amount by which removing it lowers the share of its texts with the outcome."""

    word: str
    texts: int
    effect: Interval


class Example(Witness, frozen=True):
    """A witness and, if a table was given, its nearest row (the first is 1) with the distance.

    Distance 0 means the row itself, with only the protected features changed; otherwise the distance is the mean
    difference of the features relative to their ranges, where a different category counts as the whole range.
    """

    row: int | None = None
    distance: float | None = None


class Flips(Record, frozen=True):
    """Counts of `inputs` that get the outcome as one of two groups only, `along` the gap or against it."""

    along: int
    against: int
    inputs: int


class Explanation(Record, frozen=True, kw_only=True):
    """The result of `explain`: units in the order of their effect on the gap between two groups.

    `pair` contains two groups and an outcome, all selected on a pilot sample. `gap` is the gap between
    these groups. For individual discrimination, `gap` is the share of inputs whose decision differs between the two
    groups. `inputs` states whether the inputs are individuals or texts. `largest` is the largest gap over all pairs and
    outcomes. For individual discrimination, `largest` equals `gap`. The intervals form four sets: of the effects, of
    the sensitivities, of the effects of words (for texts), and of `gap` and `largest`. All intervals of one set hold
    simultaneously with probability at least 1 - delta.
    """

    pair: Pair
    gap: Interval
    largest: Interval
    threshold: float
    kind: str = "difference"
    inputs: str = "individuals"
    units: tuple[Influence, ...]
    layers: tuple[LayerTotal, ...]
    agreement: Agreement
    witnesses: tuple[Example, ...]
    flips: Flips | None = None
    words: tuple[WordEffect, ...] = ()
    method: str
    rounds: int
    seed: int
    seed_origin: str = "derived"
    delta: float
    evaluations: int
    seconds: float = 0.0
    population: str
    model_sha256: str
    statement: str
    scope: str
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The outcome whose rates differ between the two groups."""
        return self.pair.outcome

    @property
    def fair(self) -> bool:
        """True if the property is a difference and the rounds of this explanation show that every gap is at most the
        threshold.
        """
        return self.kind == "difference" and self.largest.high <= self.threshold

    @property
    def headline(self) -> str:
        """The gap that is explained, in one line."""
        pair = self.pair
        if self.kind == "individual":
            return f"The share of {self.inputs} decided differently as {pair.more} and as {pair.less} is {self.gap:.4f}"
        return f"{pair.more} gets {pair.outcome} more often than {pair.less}: the gap is {self.gap:.4f}"

    def ranked(self, by: EffectMeasure = "effect", *, layer: str | None = None) -> tuple[Influence, ...]:
        """Return the units, or those of one layer (for features, the layer "inputs"), with the largest effect first."""
        chosen = [unit for unit in self.units if layer is None or unit.layer == layer]
        return tuple(sorted(chosen, key=lambda unit: -getattr(unit, by).estimate))

    def __repr__(self) -> str:
        return f"<Explanation {self}>"

    def __str__(self) -> str:
        first = self.units[0] if self.units else None
        return self.headline if first is None else f"{self.headline}; first {first.name}, effect {first.effect:.4f}"

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(unit.name)}</td><td>{unit.effect:.4f}</td><td>{unit.share:.2f}</td></tr>"
            for unit in self.units[:20]
        )
        head = "<tr><th>unit</th><th>effect on the gap</th><th>sensitivity (relative)</th></tr>"
        return (
            f"<p>{html.escape(str(self))}<br>{html.escape(self.statement)}<br>{html.escape(self.scope)}</p>"
            f"<table>{head}{rows}</table>"
        )
