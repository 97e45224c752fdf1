"""What `explain` says: every feature and every neuron with how much it has to do with the gap, and people to look at.

Frozen and made of plain numbers, so that a terminal, a notebook, a report and a repair can all read it.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Literal

from fairchain.records import Record
from fairchain.statistics import Interval
from fairchain.verification.record import Pair, Witness

Kind = Literal["feature", "neuron", "cell", "word"]
Method = Literal["resample", "mean"]
Measure = Literal["effect", "sensitivity"]
INPUTS = "inputs"


class Influence(Record, frozen=True):
    """One unit and how much it has to do with the gap.

    Parameters
    ----------
    name, layer, place
        `layer2[5]`, the layer it stands in (`inputs` for a feature), and its number there (of a feature: in the spec).
    tensor
        The layer's tensor in the ONNX file; none for a feature.
    method, held_at, held_as
        What is done to the unit: it gets its value for somebody else, or is held at this one (of a category the number
        of its value), which is called so.
    effect
        How much smaller the gap of the pair would be, if the unit were intervened on.
    remaining
        The gap of the pair that would be left; negative if the other group of the pair were then better off.
    max_gap
        The largest gap over all pairs and outcomes that would be left.
    changed
        The share of the pair's decisions that the intervention changes at all.
    sensitivity, share
        The paper's measure, and the same divided by the largest of its kind, as in the paper's figure.
    """

    name: str
    layer: str
    place: int
    kind: Kind
    tensor: str | None
    method: Method
    held_at: float | None
    held_as: str | None
    effect: Interval
    remaining: float
    max_gap: float
    changed: float
    sensitivity: Interval
    share: float


class LayerTotal(Record, frozen=True):
    """The units of a layer taken together: sums, whose intervals hold with all the others."""

    name: str
    operator: str
    width: int
    effect: Interval
    sensitivity: Interval


class Agreement(Record, frozen=True):
    """How far the two measures order the units alike: 1 the same order, 0 unrelated, -1 the reverse; None if all tie.

    `common` is how many units are among the `top` first of both.
    """

    kendall: float | None
    spearman: float | None
    top: int
    common: int


class WordEffect(Record, frozen=True):
    """A word of texts: how much leaving it out lowers the share of texts that get the outcome."""

    word: str
    texts: int
    effect: Interval


class Example(Witness, frozen=True):
    """A witness, and if a table was given how near to a real person: its row (the first is 1) and distance.

    Distance 0 is the row itself, with nothing but the protected features changed; else by how much of its range each
    feature is off on average, a category that differs counting as the whole of it.
    """

    row: int | None = None
    distance: float | None = None


class Explanation(Record, frozen=True, kw_only=True):
    """Why two groups are treated differently: the units in order of their effect on the gap.

    `gap` is that of `pair`, which was chosen on a pilot sample (for individual discrimination the share of `inputs`,
    people or texts, that are decided differently as the two); `largest` is over all pairs and outcomes. All intervals
    of effects hold together with probability 1 - delta; so do those of sensitivities, those of words, and the two of
    the gap.
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
        """The label on which the pair differs."""
        return self.pair.outcome

    @property
    def fair(self) -> bool:
        """Whether no gap is above the threshold, as far as these rounds show; only differences are judged here."""
        return self.kind == "difference" and self.largest.high <= self.threshold

    @property
    def headline(self) -> str:
        """What is explained, in a line."""
        pair = self.pair
        if self.kind == "individual":
            return f"The share of {self.inputs} decided differently as {pair.more} and as {pair.less} is {self.gap:.4f}"
        return f"{pair.more} gets {pair.outcome} more often than {pair.less}: the gap is {self.gap:.4f}"

    def ranked(self, by: Measure = "effect", *, layer: str | None = None) -> tuple[Influence, ...]:
        """The units, of one layer if it is given (`inputs` for the features), the most influential first."""
        chosen = [unit for unit in self.units if layer is None or unit.layer == layer]
        key: Callable[[Influence], float] = lambda unit: -getattr(unit, by).estimate  # noqa: E731
        return tuple(sorted(chosen, key=key))

    def __str__(self) -> str:
        first = self.units[0] if self.units else None
        return self.headline if first is None else f"{self.headline}; first {first.name}, effect {first.effect:.4f}"

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        rows = "".join(
            f"<tr><td>{html.escape(unit.name)}</td><td>{unit.effect:.4f}</td><td>{unit.share:.2f}</td></tr>"
            for unit in self.units[:20]
        )
        head = "<tr><th>unit</th><th>effect on the gap</th><th>sensitivity (relative)</th></tr>"
        return (
            f"<p>{html.escape(str(self))}<br>{html.escape(self.statement)}<br>{html.escape(self.scope)}</p>"
            f"<table>{head}{rows}</table>"
        )
