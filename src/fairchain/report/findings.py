"""What a report is made from: the results of an audit as plain values, so that it can be written again at any time.

What several parts of a report use is computed once: with hundreds of groups there are tens of thousands of pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fairchain.chain import Chain

Plain = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Findings:
    """Everything that a report says.

    Parameters
    ----------
    title
        What the report is about: the name of the spec file.
    verdict
        `Verdict.to_dict()`.
    survey
        `Survey.to_dict()`: every group and every pair, from people of their own.
    chain
        The learned chain, with the states that carry most of the gap.
    explanation, repair
        `Explanation.to_dict()` and `Repair.to_dict()`, where there is something to explain and to repair.
    recheck
        Commands with which somebody else can check it.
    files
        Names of the other files of the audit, and what each is.
    versions
        Of the software.
    left_out
        Why there is no explanation, chain or repair, where one would have been expected.
    """

    title: str
    verdict: Plain
    survey: Plain | None = None
    chain: Chain | None = None
    explanation: Plain | None = None
    repair: Plain | None = None
    recheck: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def inputs(self) -> str:
        """What the network is shown: people or texts."""
        return str(self.verdict["inputs"])

    @property
    def decision(self) -> str:
        """FAIR, UNFAIR, UNDECIDED or CONSTANT."""
        return str(self.verdict["verdict"])

    @cached_property
    def widest(self) -> tuple[str, str, str]:
        """The pair and outcome with the largest gap seen: who gets it more, who less, and what.

        A verdict that no longer asks some groups may have seen less of them than the survey.
        """
        gap = self.verdict["gap"]
        if not self.pairs:
            return gap["more"], gap["less"], gap["outcome"]
        widest = max(self.pairs, key=self.size)
        shares = {each["name"]: each["probability"] for each in self.groups}
        less, more = sorted((widest["second"], widest["first"]), key=shares.__getitem__)
        return more, less, gap["outcome"]

    @cached_property
    def pairs(self) -> list[Plain]:
        """Every pair of the survey for the outcome with the largest gap; empty without a survey."""
        outcome = self.verdict["gap"]["outcome"]
        return [pair for pair in (self.survey or {}).get("pairs", ()) if pair["outcome"] == outcome]

    def size(self, pair: Plain) -> float:
        """How large the gap of a pair is, or how small its ratio: the larger, the less fair."""
        estimate: float = pair["estimate"]
        return -estimate if self.verdict["kind"] == "ratio" else abs(estimate)

    @cached_property
    def groups(self) -> list[Plain]:
        """Every group's probability of the outcome with the largest gap, from the survey if there is one."""
        source = self.survey or self.verdict
        return [group for group in source["groups"] if group["outcome"] == self.verdict["gap"]["outcome"]]


def unit_name(unit: Plain) -> str:
    """A unit of an explanation, with the value that it is held at."""
    return str(unit["name"]) if unit.get("held_as") is None else f"{unit['name']} = {unit['held_as']}"
