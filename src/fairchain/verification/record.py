"""The record of a verdict: the contents of `verify --json`, used by audits, certificates and reports."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairchain.number_format import bounded
from fairchain.records import Record
from fairchain.statements import (
    AMONG_ALL_ROWS,
    AMONG_ROWS,
    CONSTANT,
    IN_POPULATION,
    OF_SAMPLE,
    constant_headline,
    headline,
    shifted_populations,
    tipping_statement,
)

# Number of groups in a printed verdict.
MOST_PRINTED_GROUPS = 40


class Pair(Record, frozen=True):
    """Two groups and the outcome by which they differ; the first gets it more often, unless only one direction is
    compared.

    With a reference group, `more` is the reference; for a formula X - Y <= c it is X, for X / Y >= c it is Y.
    """

    more: str
    less: str
    outcome: str


class Gap(Record, frozen=True):
    """The largest gap (for a ratio the smallest ratio) with its interval, its groups and its outcome."""

    estimate: float
    low: float
    high: float
    more: str
    less: str
    outcome: str


class GroupRate(Record, frozen=True):
    """P(outcome | group) with its interval; the JSON key of the estimate is `probability`."""

    name: str
    outcome: str
    estimate: float = msgspec.field(name="probability")
    low: float
    high: float


class EvaluatedGroup(GroupRate, frozen=True):
    """A group rate with its number of evaluations."""

    evaluations: int


class SmallGroup(Record, frozen=True):
    """A group that was too small to be compared, with its number of rows or its share."""

    name: str
    size: float


class Witness(Record, frozen=True):
    """A counterfactual pair: an input whose decision changes with the protected feature alone."""

    groups: tuple[str, str]
    labels: tuple[str, str]
    input: dict[str, str | float]

    @property
    def values(self) -> str:
        """The values of the input, `age=39, sex=Female`."""
        return ", ".join(
            f"{key}={value if isinstance(value, str) else f'{value:g}'}" for key, value in self.input.items()
        )

    def text(self, inputs: str) -> str:
        """Return the two decisions about the input, with its values."""
        (first, second), (one, other) = self.groups, self.labels
        what = "individual" if inputs == "individuals" else "text"
        detail = f" ({self.values})" if self.input else ""
        return f"One {what}, two decisions: {one} as {first}, {other} as {second}{detail}"


class Tipping(Record, frozen=True):
    """The largest factor by which the population may change such that the verdict is known to hold.

    A population is within a factor if no input is more than that factor times as frequent, or as rare, as assumed. For
    `each_group` every group may change separately. For `all_groups_alike` the inputs of all groups change alike: the
    individuals that are shown as every group or, if groups share none, the features beside the protected ones. Then
    `all_groups_alike` is `each_group`, which is at most the true factor. The value 1 means that the verdict is known
    only for the assumed population, and 1000 means 1000 or more.
    """

    each_group: float
    all_groups_alike: float


class Shift(Record, frozen=True):
    """The populations that a verdict is about: those within a factor of the assumed one, with groups changed separately
    or alike.

    A population is within the factor if no input is more than that factor times as frequent, or as rare, as assumed.
    """

    factor: float
    of: Literal["each_group", "all_groups_alike"]


class FreeRegion(Record, frozen=True):
    """Inputs for which all groups get the same label: the range of each number, the values of each category."""

    label: str
    probability: float
    features: dict[str, tuple[str | float, ...]]


class VerdictRecord(Record, frozen=True, kw_only=True):
    """A verdict in the form of its JSON. Certificates omit fields with their default value."""

    verdict: Literal["FAIR", "UNFAIR", "UNDECIDED", "CONSTANT"]
    decision: Literal["FAIR", "UNFAIR", "UNDECIDED"]
    constant: str | None
    engine: Literal["sampling", "counting", "enumeration", "bounds"]
    kind: Literal["difference", "ratio", "individual"]
    inputs: Literal["individuals", "texts"]
    gap: Gap
    threshold: float
    delta: float
    epsilon: float | None
    question: str = msgspec.field(name="property")
    groups: tuple[EvaluatedGroup, ...]
    left_out: tuple[SmallGroup, ...]
    violators: tuple[Pair, ...]
    witnesses: tuple[Witness, ...] = ()
    free_regions: tuple[FreeRegion, ...] = ()
    rounds: int
    rows: int | None
    evaluations: int
    seconds: float = 0.0
    stopped: str
    forecast: int | None = None
    seed: int | None
    seed_origin: str | None
    rule: str
    sound: bool
    model_sha256: str
    table_sha256: str | None
    population: str
    statement: str
    scope: str
    notes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    unseen: int = 0
    tipping: Tipping | None = None
    shift: Shift | None = None
    decision_rounds: int = 0
    decision_evaluations: int = 0

    @property
    def tipping_sentence(self) -> str:
        """How far the population may change before the verdict could change; empty without a verdict."""
        if self.tipping is None:
            return ""
        tipping, base = self.tipping, IN_POPULATION
        if self.engine == "counting":
            sample = self.rule in ("fixed sample", "any time")
            base = OF_SAMPLE if sample else (AMONG_ALL_ROWS if self.unseen else AMONG_ROWS)[self.inputs]
        return tipping_statement(self.decision, tipping.each_group, tipping.all_groups_alike, self.delta, base)

    @property
    def rows_needed(self) -> str:
        """The factor by which more rows would decide the question, in a sentence; empty if that is not forecast."""
        if self.stopped != "rows" or self.forecast is None:
            return ""
        return (
            f"Undecided because there are too few rows: a new table with about {self.forecast} times as many rows "
            "would suffice, if the rates remain the same. Another test of the same table, after it has grown, adds "
            "another delta to the error probability; for a stream of decisions, use fairchain monitor."
        )

    @property
    def shift_sentence(self) -> str:
        """The populations that the verdict, but not the other numbers, is about; empty without a shift."""
        if self.shift is None:
            return ""
        which = "some population" if self.decision == "UNFAIR" else "every population"
        about = shifted_populations(which, self.shift.factor, self.shift.of)
        said = {"FAIR": "FAIR holds for", "UNFAIR": "UNFAIR is shown for"}.get(self.decision, "The question is about")
        return f"{said} {about}; rates of groups and gaps of pairs are those of the assumed population."

    @property
    def word(self) -> str:
        """FAIR, UNFAIR, UNDECIDED or CONSTANT, marked if the rule gives no valid guarantee."""
        return self.verdict if self.sound else f"{self.verdict} (NOT SOUND)"

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, identical in every output."""
        return f"{self.word}: {self.headline}"

    @property
    def measured(self) -> str:
        """The largest gap, or the smallest ratio, with its interval, as every output writes it."""
        return bounded(self.gap, least=4, threshold=self.threshold)

    @property
    def headline(self) -> str:
        """The measured value and the threshold: the line that every output shows after the verdict's word."""
        told = headline(
            self.decision,
            kind=self.kind,
            inputs=self.inputs,
            measured=self.measured,
            threshold=self.threshold,
            at_threshold=self.delta == 0
            and self.decision == "FAIR"
            and abs(self.gap.estimate - self.threshold) < 1e-12,
            shift=None if self.shift is None else self.shift.factor,
        )
        if self.verdict == CONSTANT and self.constant is not None:
            return constant_headline(self.constant, told)
        return told

    def text(self, *, most: int = MOST_PRINTED_GROUPS) -> str:
        """Return the verdict as plain text: groups, widest pair, witness, statement, notes and assumptions."""
        lines = [self.sentence]
        groups = self.shown_groups
        width = max((len(f"P({group.outcome} | {group.name})") for group in groups[:most]), default=0)
        lines += [f"  {f'P({group.outcome} | {group.name})':{width}}  {bounded(group)}" for group in groups[:most]]
        lines += [f"  ... and {len(groups) - most} more"] if len(groups) > most else []
        lines += [self.widest_pair] if self.widest_pair else []
        if self.left_out:
            named = ", ".join(group.name for group in self.left_out[:most])
            lines.append(f"Left out as too small: {named}{', ...' if len(self.left_out) > most else ''}.")
        lines += [witness.text(self.inputs) for witness in self.witnesses[:1]]
        lines += [self.statement, *([self.tipping_sentence] if self.tipping is not None else []), self.scope]
        lines += [self.rows_needed] if self.rows_needed else []
        lines += [f"Note: {note}" for note in self.notes]
        lines += [f"Assumed: {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)

    @property
    def shown_groups(self) -> tuple[EvaluatedGroup, ...]:
        """The groups without redundant ones: with two labels, the differences of both are the same."""
        outcomes = {group.outcome for group in self.groups}
        if self.kind != "difference" or len(outcomes) != 2 or "truth=" in self.question:
            return self.groups
        return tuple(group for group in self.groups if group.outcome == self.gap.outcome)

    @property
    def widest_pair(self) -> str:
        """The two groups that differ most, in a sentence; empty if no groups differ or none are compared."""
        if self.kind == "individual" or self.gap.estimate == (1.0 if self.kind == "ratio" else 0.0):
            return ""
        seen = "" if self.rule == "exact" else " seen"
        # In a one-sided comparison the largest gap may be negative.
        relation = "less" if self.gap.estimate < 0 or (self.kind == "ratio" and self.gap.estimate > 1) else "more"
        return f"Widest pair{seen}: {self.gap.more} gets {self.gap.outcome} {relation} often than {self.gap.less}."
