"""The report in Markdown, for pull requests, model cards and terminals.

Names and sentences are escaped, so that none is interpreted as Markdown, HTML, a link or a mention of a user.
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
    from fairchain.repairing.result import RepairRecord
    from fairchain.verification.family import FamilyRecord
    from fairchain.verification.record import GroupRate, VerdictRecord

MOST_PRINTED_ROWS = 40
MOST_PRINTED_UNITS = 10
_ACTS = re.compile(r"([\\`*_{}\[\]<>|~&#])")
# Links and mentions, which a build server creates even outside Markdown.
_CALLS = re.compile(r"(@)(?=\w)|(:)(?=//)|(www)(?=\.)")
_NOTHING = "\N{WORD JOINER}"
MARKS = {"FAIR": "✅", "UNFAIR": "❌", "UNDECIDED": "❔", "CONSTANT": "⚠️"}


def escape(text: object) -> str:
    r"""Return a text without characters that Markdown or HTML interpret.

    >>> print(escape("a|b <i>"))
    a\|b \<i\>
    """
    quiet = _CALLS.sub(lambda found: found[0] + _NOTHING, one_line(text))
    return _ACTS.sub(r"\\\1", quiet)


def one_line(text: object) -> str:
    """Return a text without line breaks and control characters; not yet escaped."""
    return " ".join(plain(text).split())


def code(text: object) -> str:
    """Return a text in a fixed font.

    >>> print(code("a `b`"))
    `` a `b` ``
    """
    shown = one_line(text)
    fence, blank = fence_for(shown), " " if "`" in shown else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def fence_for(text: str, least: int = 1) -> str:
    """Return a fence with more backticks than any run in a text."""
    return "`" * max(least, 1 + max((len(run) for run in re.findall("`+", text)), default=0))


def markdown_table(headers: list[str], rows: list[list[str]]) -> str:
    """Return rows under headers; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(headers) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, rule, *rows))


def joined(*parts: str) -> str:
    """Return the parts that are not empty as paragraphs."""
    return "\n\n".join(part for part in parts if part)


def summary(verdict: VerdictRecord) -> str:
    """Return a verdict and its statement, for the top of a comment on a pull request."""
    return joined(
        f"{_verdict_line(verdict)}\n\n> {escape(verdict.statement)}",
        escape(verdict.tipping_sentence or verdict.shift_sentence),
    )


def _verdict_line(verdict: VerdictRecord) -> str:
    """Return the sentence of a verdict with a mark; only that of a constant model contains a name to escape."""
    told = escape(verdict.headline) if verdict.verdict == CONSTANT else verdict.headline
    return f"{MARKS[verdict.verdict]} **{verdict.word}**: {told}"


def for_pull_request(verdict: VerdictRecord, *, title: str, certificate: str | None = None) -> str:
    """Return one verdict as a section: for the summary page of a build, or a comment on a pull request.

    `title` is the name of the spec file, and `certificate` that of the certificate's file, if one was written.
    """
    check = f"Certificate: {code(certificate)}; check it with {code('fairchain recheck')}." if certificate else ""
    groups = [group for group in verdict.groups if group.outcome == verdict.gap.outcome]
    text = joined(
        f"### Fairness: {escape(title)}",
        summary(verdict),
        f"Question: {code(verdict.question)}",
        groups_table(groups),
        *map(escape, verdict.notes),
        _assumptions(verdict),
        escape(verdict.scope),
        check,
    )
    return f"{text}\n"


def family_summary(family: FamilyRecord) -> str:
    """Return the verdicts on several questions as a table, for the top of a comment on a pull request."""
    told = f"{MARKS[family.verdict]} **{family.verdict}**: {len(family.questions) + len(family.unanswered)} questions"
    return joined(told, questions_table(family.questions, family.unanswered), f"> {escape(family.statement)}")


def questions_table(questions: Sequence[VerdictRecord], unanswered: Sequence[str] = ()) -> str:
    """Return the verdict on each question; empty without questions."""
    if not questions:
        return ""
    rows = [[code(each.question), f"{MARKS[each.verdict]} {each.word}", each.measured] for each in questions]
    rows += [[code(question), "not answered", ""] for question in unanswered]
    return markdown_table(["question", "verdict", "measured"], rows)


def markdown(findings: Findings) -> str:
    """Return the whole report."""
    verdict, explanation = findings.verdict, findings.explanation
    groups = groups_table(findings.groups)
    why = ""
    if explanation is not None and explanation.units:
        rows = [
            [escape(unit_name(unit, findings.codes)), bounded(unit.effect), bounded(unit.sensitivity)]
            for unit in explanation.units[:MOST_PRINTED_UNITS]
        ]
        effects = markdown_table(["unit", "reduction of the gap without it", "sensitivity"], rows)
        why = joined("## Why", effects, escape(explanation.statement))
    seed = "" if verdict.seed is None else f" Seed {verdict.seed} ({verdict.seed_origin})."
    cost = f" {verdict.evaluations:,} evaluations of the model." if verdict.evaluations else ""
    question = f"{escape(verdict.population)}. The question: {code(verdict.question)}.{seed}{cost}"
    commands = "\n".join(one_line(command) for command in findings.recheck)
    fence = fence_for(commands, least=3)
    text = joined(
        f"# Fairness audit: {escape(findings.title)}",
        questions_table(findings.questions),
        summary(verdict),
        escape(verdict.scope),
        *map(escape, verdict.notes),
        _assumptions(verdict),
        f"## Rates of the groups\n\n{groups}" if groups else "",
        why,
        _repair(findings.repair),
        "\n".join(f"- No {escape(part)}: {escape(reason)}" for part, reason in findings.left_out.items()),
        f"## Which {verdict.inputs}\n\n{question}",
        f"## Check it yourself\n\n{fence}sh\n{commands}\n{fence}" if commands else "",
    )
    return f"{text}\n"


def _assumptions(verdict: VerdictRecord) -> str:
    """Return the assumptions as a list; empty without assumptions."""
    return "\n".join(f"- Assumed: {escape(text)}" for text in verdict.assumptions)


def groups_table(groups: Sequence[GroupRate]) -> str:
    """Return every group with its interval; empty without groups."""
    if not groups:
        return ""
    rows = [[escape(g.name), bounded(g)] for g in groups[:MOST_PRINTED_ROWS]]
    more = f"... and {len(groups) - MOST_PRINTED_ROWS} more groups." if len(groups) > MOST_PRINTED_ROWS else ""
    return joined(markdown_table(["group", f"P({escape(groups[0].outcome)})"], rows), more)


def _repair(repair: RepairRecord | None) -> str:
    if repair is None or not repair.needed:
        return ""
    changes = [
        [escape(each.name), f"{each.before:.4g}", f"{each.after:.4g}"]
        for each in repair.adjustments[:MOST_PRINTED_UNITS]
    ]
    more = len(repair.adjustments) - len(changes)
    groups = repair.groups[:MOST_PRINTED_ROWS] if repair.price is not None else ()
    outcome = escape(groups[0].outcome) if groups else ""
    moved = [[escape(g.group), f"{g.gained:,}", f"{g.lost:,}", f"{g.inputs:,}"] for g in groups]
    price = ""
    if (paid := repair.price) is not None:
        told = f"{escape(paid.measure)} {paid.before:.4f} before, {paid.after:.4f} after, change {bounded(paid.change)}"
        told = f"the share of unchanged decisions is {bounded(paid.agreement)}" if paid.measure == "agreement" else told
        sure = f" (confidence {confidence(paid.delta)})" if paid.delta else ""
        price = f"Price: {told}, on {escape(paid.on)}{sure}."
    return joined(
        "## The repaired model" if repair.accepted else "## The repair: none was accepted",
        "" if repair.after is None else _verdict_line(repair.after),
        f"> {escape(repair.statement)}",
        price,
        markdown_table(["group", f"gained {outcome}", f"lost {outcome}", "of"], moved) if moved else "",
        markdown_table(["what changed", "from", "to"], changes) if changes else "",
        f"... and {more} more." if more > 0 else "",
        *map(escape, repair.notes),
    )
