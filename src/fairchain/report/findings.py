"""The input of a report: the records of an audit, read from its files.

Values that several sections use are computed once: hundreds of groups have tens of thousands of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from fairchain.report.markup import Markup, el, section
from fairchain.report.selection_table import RowFacts, SelectionTable, selection_table

if TYPE_CHECKING:
    from fairchain.chain import Chain
    from fairchain.explaining.result import Explanation, Influence
    from fairchain.repairing.result import RepairRecord
    from fairchain.spec.schema import About
    from fairchain.verification.all_pairs import AllPairs, PairGap
    from fairchain.verification.record import EvaluatedGroup, VerdictRecord


@dataclass(frozen=True, eq=False)
class Findings:
    """The results that a report shows; of several questions, `verdict` is the one furthest from being met."""

    # The name of the spec file.
    title: str
    verdict: VerdictRecord
    # The gap of every pair, from the evidence of the verdict.
    all_pairs: AllPairs | None = None
    # The learned chain, with the units that have the largest effects as states.
    chain: Chain | None = None
    explanation: Explanation | None = None
    repair: RepairRecord | None = None
    # Commands that check the certificates.
    recheck: tuple[str, ...] = ()
    # Names of the other files of the audit with a description of each.
    files: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    # Reasons for a missing explanation, chain or repair that a reader would expect.
    left_out: dict[str, str] = field(default_factory=dict)
    # The verdicts on all questions, if there are several, and those on the repaired network.
    questions: tuple[VerdictRecord, ...] = ()
    questions_after: tuple[VerdictRecord, ...] = ()
    about: About | None = None
    # The name of the model's file, or what Python calls the model; empty for recorded decisions.
    model: str = ""
    # For each question the facts about its rows beside the verdict: labelled rows, accuracy, scores, rows left out.
    facts: dict[str, RowFacts] = field(default_factory=dict)
    # Name, kind and range of each feature, and the meaning of its codes, if the spec names them.
    features: tuple[tuple[str, str, str], ...] = ()
    codes: dict[str, dict[float, str]] = field(default_factory=dict)
    # The mapping from scores to decisions, if stated.
    decision_rule: str = ""

    @property
    def inputs(self) -> str:
        """The name of the model's inputs on the page: profiles (drawn inputs), rows or texts."""
        if self.verdict.inputs == "texts":
            return "texts"
        return "profiles" if self.verdict.rows is None else "rows"

    @property
    def input(self) -> str:
        """The singular of `inputs`."""
        return self.inputs[:-1]

    @property
    def recorded(self) -> bool:
        """Whether the decisions are recorded, so that there is no model to explain or repair."""
        return not self.verdict.model_sha256 and not self.verdict.evaluations

    @property
    def outcome(self) -> str:
        """The outcome with the largest gap, the subject of all sections."""
        return self.verdict.gap.outcome

    @cached_property
    def pairs(self) -> list[PairGap]:
        """Every pair, for the outcome with the largest gap; empty if groups are not compared with each other."""
        return [pair for pair in (self.all_pairs.pairs if self.all_pairs else ()) if pair.outcome == self.outcome]

    def size(self, pair: PairGap) -> float:
        """Return a sort key that grows with the gap of a pair, or as its ratio falls."""
        return -pair.estimate if self.verdict.kind == "ratio" else abs(pair.estimate)

    @cached_property
    def groups(self) -> list[EvaluatedGroup]:
        """The probability of the outcome with the largest gap, for every group."""
        return [group for group in self.verdict.groups if group.outcome == self.outcome]

    @cached_property
    def selection(self) -> SelectionTable | None:
        """The selection rates of the groups for the outcome with the largest gap; None if no rates are compared."""
        return selection_table(self.verdict, self.facts.get(self.verdict.question))

    @cached_property
    def selection_after(self) -> SelectionTable | None:
        """The same for the repaired model; None without an accepted one."""
        if self.repair is None or not self.repair.accepted or self.repair.after is None:
            return None
        of_outcome = [each for each in self.repair.groups if each.outcome == self.outcome]
        moved = {each.group: (each.gained, each.lost, each.inputs) for each in of_outcome}
        return selection_table(self.repair.after, outcome=self.outcome, moved=moved)

    @property
    def all_selections(self) -> list[SelectionTable]:
        """The selection rates of every question."""
        found = [selection_table(each, self.facts.get(each.question)) for each in self.questions or (self.verdict,)]
        return [table for table in found if table is not None]

    @cached_property
    def answers_after(self) -> tuple[VerdictRecord, ...]:
        """The verdicts on all questions about the repaired model, with the verdict that accepted it for its own."""
        if self.repair is None or self.repair.after is None:
            return self.questions_after
        own = self.repair.after
        return tuple(own if each.question == own.question else each for each in self.questions_after)

    @property
    def all_selections_after(self) -> list[SelectionTable]:
        """The same for the repaired model."""
        found = (
            [selection_table(each) for each in self.answers_after] if self.questions_after else [self.selection_after]
        )
        return [table for table in found if table is not None]

    def missing(self, part: str, key: str, title: str) -> Markup | None:
        """Return a section with the reason for a missing part; None if no part is expected."""
        reason = None if self.recorded else self.left_out.get(part)
        return None if reason is None else section(key, title, el("p", f"Not possible here: {reason}."))


def unit_name(unit: Influence, codes: Mapping[str, Mapping[float, str]] | None = None) -> str:
    """Return the name of a unit, with the value at which the intervention holds it, and the meaning of a code."""
    if unit.held_as is None:
        return unit.name
    meant = (codes or {}).get(unit.name, {}).get(unit.held_at) if unit.held_at is not None else None
    return f"{unit.name} = {unit.held_as}" if meant is None else f"{unit.name} = {meant}"
