"""What a report is made from: the results of an audit as plain values, so that it can be written again at any time."""

from __future__ import annotations

from dataclasses import dataclass, field
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

    @property
    def widest(self) -> tuple[str, str, str]:
        """The pair and outcome with the largest gap seen: who gets it more, who less, and what.

        A verdict that no longer asks some groups may have seen less of them than the survey.
        """
        gap = self.verdict["gap"]
        pairs = [pair for pair in (self.survey or {}).get("pairs", ()) if pair["outcome"] == gap["outcome"]]
        if not pairs:
            return gap["more"], gap["less"], gap["outcome"]
        ratio = self.verdict["kind"] == "ratio"
        widest = max(pairs, key=lambda pair: -pair["estimate"] if ratio else abs(pair["estimate"]))
        shares = {each["name"]: each["probability"] for each in self.groups}
        less, more = sorted((widest["second"], widest["first"]), key=shares.__getitem__)
        return more, less, gap["outcome"]

    @property
    def groups(self) -> list[Plain]:
        """Every group's probability of the outcome with the largest gap, from the survey if there is one."""
        source = self.survey or self.verdict
        return [group for group in source["groups"] if group["outcome"] == self.verdict["gap"]["outcome"]]


def unit_name(unit: Plain) -> str:
    """A unit of an explanation, with the value that it is held at."""
    return str(unit["name"]) if unit.get("held_as") is None else f"{unit['name']} = {unit['held_as']}"
