"""The report in Markdown: for a pull request, a model card, or whoever reads it in a terminal.

Names and sentences are written so that nothing in them acts as Markdown, HTML, a link or a mention of somebody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairchain.messages import plain
from fairchain.number_format import bounded, confidence
from fairchain.report.findings import Findings, unit_name
from fairchain.statements import CONSTANT

if TYPE_CHECKING:
    from fairchain.explaining.result import Explanation
    from fairchain.repairing.result import Price, RepairRecord
    from fairchain.verification.record import GroupRate, VerdictRecord

MOST_ROWS = 40
MOST_UNITS = 10
_ACTS = re.compile(r"([\\`*_{}\[\]<>|~&#])")
# What a build server turns into a link or a message to somebody, even where Markdown does not.
_CALLS = re.compile(r"(@)(?=\w)|(:)(?=//)|(www)(?=\.)")
_NOTHING = "\N{WORD JOINER}"
MARKS = {"FAIR": "✅", "UNFAIR": "❌", "UNDECIDED": "❔", "CONSTANT": "⚠️"}


def escape(text: object) -> str:
    r"""A text in which no letter acts.

    >>> print(escape("a|b <i>"))
    a\|b \<i\>
    """
    quiet = _CALLS.sub(lambda found: found[0] + _NOTHING, one_line(text))
    return _ACTS.sub(r"\\\1", quiet)


def one_line(text: object) -> str:
    """A text without line ends and characters that act; not yet escaped."""
    return " ".join(plain(text).split())


def code(text: object) -> str:
    """A text in a fixed font, as it is.

    >>> print(code("a `b`"))
    `` a `b` ``
    """
    shown = one_line(text)
    fence, blank = fence_for(shown), " " if "`" in shown else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def fence_for(text: str, least: int = 1) -> str:
    """More backticks than stand together in a text."""
    return "`" * max(least, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


def table(headers: list[str], rows: list[list[str]]) -> str:
    """Rows under headers; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(headers) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rule, *rows))


def summary(verdict: VerdictRecord) -> str:
    """A verdict in two lines: for the top of a comment on a pull request."""
    return f"{_told(verdict)}\n\n> {escape(verdict.statement)}"


def _told(verdict: VerdictRecord) -> str:
    """Return the sentence of a verdict with a mark; only that of a constant model holds a name to be escaped."""
    told = escape(verdict.headline) if verdict.verdict == CONSTANT else verdict.headline
    return f"{MARKS[verdict.verdict]} **{verdict.word}**: {told}"


def for_pull_request(verdict: VerdictRecord, *, title: str, certificate: str | None = None) -> str:
    """One verdict as a section: for the summary page of a build, or a comment on a pull request.

    Parameters
    ----------
    verdict
        `Verdict.record`.
    title
        What was asked: the name of the spec file.
    certificate
        The name of its certificate's file, if one was written.
    """
    groups = [group for group in verdict.groups if group.outcome == verdict.gap.outcome]
    parts = [
        f"### Fairness: {escape(title)}",
        summary(verdict),
        f"Question: {code(verdict.question)}",
        groups_table(groups) if groups else "",
        *(escape(note) for note in verdict.notes),
        escape(verdict.scope),
        f"Certificate: {code(certificate)}; anybody can check it with {code('fairchain recheck')}."
        if certificate
        else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown(findings: Findings) -> str:
    """The whole report."""
    parts = [
        f"# Fairness audit: {escape(findings.title)}",
        summary(findings.verdict),
        escape(findings.verdict.scope),
        *(escape(note) for note in findings.verdict.notes),
        _groups(findings),
        _why(findings.explanation),
        _repair(findings.repair),
        _left_out(findings),
        _people(findings),
        _recheck(findings),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def groups_table(groups: Sequence[GroupRate]) -> str:
    """Every group with its interval."""
    rows = [[escape(g.name), bounded(g)] for g in groups[:MOST_ROWS]]
    more = f"\n\n... and {len(groups) - MOST_ROWS} more groups." if len(groups) > MOST_ROWS else ""
    return table(["group", f"P({escape(groups[0].outcome)})"], rows) + more


def _groups(findings: Findings) -> str:
    return f"## What each group gets\n\n{groups_table(findings.groups)}" if findings.groups else ""


def _why(explanation: Explanation | None) -> str:
    if explanation is None or not explanation.units:
        return ""
    rows = [
        [escape(unit_name(unit)), bounded(unit.effect), bounded(unit.sensitivity)]
        for unit in explanation.units[:MOST_UNITS]
    ]
    told = table(["unit", "smaller gap without it", "sensitivity"], rows)
    return f"## Why\n\n{told}\n\n{escape(explanation.statement)}"


def _repair(repair: RepairRecord | None) -> str:
    if repair is None or not repair.needed:
        return ""
    after, price = repair.after, repair.price
    title = "The repaired network" if repair.accepted else "The repair: none was accepted"
    found = "" if after is None else _told(after)
    changes = [
        [escape(each.name), f"{each.before:.4g}", f"{each.after:.4g}"] for each in repair.adjustments[:MOST_UNITS]
    ]
    more = len(repair.adjustments) - len(changes)
    parts = [
        f"## {title}",
        found,
        f"> {escape(repair.statement)}",
        _price(price) if price is not None else "",
        table(["what changed", "from", "to"], changes) if changes else "",
        f"... and {more} more." if more > 0 else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _price(price: Price) -> str:
    """What the repair costs, with its interval."""
    sure = f" (confidence {confidence(price.delta)})" if price.delta else ""
    on, change = f"on {escape(price.on)}{sure}.", price.change
    if price.measure == "agreement":
        # Against the network as it was: what is missing to 1 is decided otherwise.
        return f"Price: {bounded(price.agreement)} decided as before, {on}"
    told = f"{price.before:.4f} before, {price.after:.4f} after, change {bounded(change)}"
    return f"Price: {escape(price.measure)} {told}, {on}"


def _left_out(findings: Findings) -> str:
    """Why a part that one would expect is not there."""
    return "\n".join(f"- No {escape(part)}: {escape(why)}" for part, why in findings.left_out.items())


def _people(findings: Findings) -> str:
    verdict = findings.verdict
    seed = "" if verdict.seed is None else f" Seed {verdict.seed} ({verdict.seed_origin})."
    asked = f" {verdict.evaluations:,} evaluations of the network." if verdict.evaluations else ""
    who, question = escape(verdict.population), code(verdict.question)
    return f"## Which {verdict.inputs}\n\n{who}. The question: {question}.{seed}{asked}"


def _recheck(findings: Findings) -> str:
    if not findings.recheck:
        return ""
    commands = "\n".join(one_line(command) for command in findings.recheck)
    fence = fence_for(commands, least=3)
    return f"## Check it yourself\n\n{fence}sh\n{commands}\n{fence}"
