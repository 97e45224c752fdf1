"""Verdicts and rechecks on the terminal: one line, the groups as a table with bars, the guarantee in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairchain.cli.terminal import VERDICT_COLOURS, Screen, StyledText
from fairchain.number_format import bounded
from fairchain.spec.properties import kind_of

if TYPE_CHECKING:
    from fairchain.rechecking import Recheck
    from fairchain.statistics import Interval
    from fairchain.verification.family import FamilyVerdict
    from fairchain.verification.record import Witness
    from fairchain.verification.verdict import Verdict

STOPPED = {
    "rounds": "the budget of rounds is spent",
    "seconds": "the budget of seconds is spent",
    "interrupted": "you stopped it",
    "evaluations": "the budget of evaluations is spent",
    "rows": "there are too few rows",
    "boxes": "the boxes of inputs cannot be divided further, or are too many",
    "weights": "the probabilities of the inputs are not known well enough",
}
INTERVAL_BAR_WIDTH = 24
SCALE = "0" + " " * (INTERVAL_BAR_WIDTH - 2) + "1"
MOST_PRINTED_ROWS, MOST_NAMED_LEFT_OUT = 40, 6


def show_verdict(verdict: Verdict, *, brief: bool = False) -> None:
    """Print a verdict; if `brief`, only its first line."""
    screen = Screen()
    screen.line((verdict.record.word, VERDICT_COLOURS[verdict.conclusion]), f": {verdict.headline}")
    if brief:
        return
    spec, groups = verdict.spec, verdict.groups
    kind, criterion = kind_of(spec), getattr(spec.property, "criterion", "")
    if kind == "difference" and len(spec.model.labels) == 2 and criterion != "equal_opportunity":
        # With two labels, both have the same gaps.
        groups = tuple(group for group in groups if group.outcome == groups[-1].outcome)
    several = len({group.outcome for group in groups}) > 1
    outcome = groups[0].outcome
    title = "P(outcome)" if several else f"P({outcome})" if kind == "individual" else f"P(Y={outcome})"
    headers = ["group", *(["outcome"] if several else []), title, SCALE]
    lines: list[list[StyledText]] = []
    for group in groups[:MOST_PRINTED_ROWS]:
        share = group.probability
        number = f"{share.estimate:.4f} of {group.evaluations:,}" if verdict.exact else str(share)
        lines.append([group.name, *([group.outcome] if several else []), number, rate_bar(share)])
    screen.table(headers, lines, optional=(len(headers) - 1,))
    if len(groups) > MOST_PRINTED_ROWS:
        screen.line(f"... and {len(groups) - MOST_PRINTED_ROWS} more: use --json")
    if verdict.record.widest_pair:
        screen.line(verdict.record.widest_pair)
    if verdict.left_out:
        unit = "{} ({:,.0f} rows)" if verdict.record.rows is not None else "{} (share {:.2g})"
        named = ", ".join(unit.format(name, size) for name, size in verdict.left_out[:MOST_NAMED_LEFT_OUT])
        more = len(verdict.left_out) - MOST_NAMED_LEFT_OUT
        screen.line(f"Left out as too small: {named}{f' and {more} more' if more > 0 else ''}.")
    for witness in verdict.witnesses[:1]:
        show_witness(screen, witness, f"One {'individual' if verdict.spec.text is None else 'text'}, two decisions")
    screen.line()
    screen.line((verdict.statement, "bold" if verdict.sound else "bold red"))
    if verdict.record.tipping_sentence:
        screen.line(verdict.record.tipping_sentence)
    screen.line((verdict.scope, "dim"))
    screen.lines(verdict.notes, "yellow")
    screen.lines((f"Assumed: {text}" for text in verdict.assumptions), "yellow")
    rows = verdict.record.rows
    unit = f"{rows:,} rows" if rows is not None else f"{verdict.rounds:,} rounds"
    if verdict.engine == "enumeration":
        unit = "enumeration"
    elif verdict.engine == "bounds":
        unit = f"{getattr(verdict.evidence, 'boxes', 0):,} boxes, {unit}"
    cost = f"{verdict.evaluations:,} evaluations of the model" if verdict.evaluations else "no evaluations"
    if verdict.decision_evaluations < verdict.evaluations:
        cost += f" ({verdict.decision_evaluations:,} to the verdict, the others for the intervals)"
    screen.line((f"{unit}, {cost}, {verdict.seconds:.3f} s; delta {verdict.delta:g}", "dim"))
    if verdict.decision.name == "UNDECIDED":
        screen.line(_advice(verdict))


def show_family(family: FamilyVerdict, *, brief: bool = False) -> None:
    """Print the verdict on each question in a line, then the joint statement; if `brief`, only the first line."""
    screen, record = Screen(), family.record
    count = len(record.questions) + len(record.unanswered)
    screen.line((record.verdict, VERDICT_COLOURS[record.verdict]), f": {count} questions")
    if brief:
        return
    rows: list[list[StyledText]] = [
        [(each.word, VERDICT_COLOURS[each.verdict]), bounded(each.gap), f"{each.threshold:g}", each.question]
        for each in record.questions
    ]
    rows += [["not answered", "", "", question] for question in record.unanswered]
    screen.table(["verdict", "measured", "threshold", "question"], rows)
    screen.line()
    screen.line((record.statement, "bold"))
    screen.lines(dict.fromkeys(note for each in record.questions for note in each.notes), "yellow")
    assumed = dict.fromkeys(f"Assumed: {text}" for each in record.questions for text in each.assumptions)
    screen.lines(assumed, "yellow")
    cost = f"{record.evaluations:,} evaluations of the model" if record.evaluations else "no evaluations"
    screen.line((f"{cost}, {record.seconds:.3f} s; delta {record.delta:g} for all questions together", "dim"))


def show_witness(screen: Screen, witness: Witness, title: str) -> None:
    """Print a counterfactual pair: the two decisions, and the values of the input."""
    (first, second), (one, other) = witness.groups, witness.labels
    detail = f" ({witness.values})" if witness.input else ""
    screen.line(f"{title}: {one} as {first}, {other} as {second}", (detail, "dim"))


def rate_bar(p: Interval) -> str:
    """Return the interval as a bar on a scale from 0 to 1, with the estimate marked."""
    cells = ["·"] * INTERVAL_BAR_WIDTH
    low, high = int(p.low * (INTERVAL_BAR_WIDTH - 1)), int(p.high * (INTERVAL_BAR_WIDTH - 1) + 0.999)
    for i in range(low, min(high, INTERVAL_BAR_WIDTH - 1) + 1) if p.low < p.high else ():
        cells[i] = "━"
    cells[min(INTERVAL_BAR_WIDTH - 1, round(p.estimate * (INTERVAL_BAR_WIDTH - 1)))] = "●"
    return "".join(cells)


def _advice(verdict: Verdict) -> str:
    if verdict.stopped == "rows":
        impossible = "Undecided because there are too few rows; the number needed cannot be forecast."
        return verdict.record.rows_needed or impossible
    if verdict.engine == "enumeration":
        remedy = "state them with more decimals" if verdict.stopped == "weights" else "give it more time (--seconds)"
        return f"Undecided because {STOPPED[verdict.stopped]}; {remedy}, or use --engine sampling."
    if verdict.stopped == "epsilon":
        return "Undecided: the threshold is inside the interval; give a smaller epsilon, or none."
    if verdict.unseen:
        return f"Undecided because {STOPPED[verdict.stopped]}; evaluate more of the {verdict.unseen:,} other rows."
    more = (
        f"about {verdict.forecast:,} more rounds would suffice (--rounds, --seconds)"
        if verdict.forecast
        else "the gap is so near to the threshold that no number of rounds can be forecast"
    )
    return f"Undecided because {STOPPED[verdict.stopped]}; {more}."


def show_recheck(result: Recheck, *, brief: bool = False) -> None:
    """Print which claims of a certificate hold."""
    screen = Screen()
    claims = [("", claim) for claim in result.claims]
    claims += [
        (f"question {place}: ", claim) for place, each in enumerate(result.members, start=1) for claim in each.claims
    ]
    if not brief:
        screen.table(
            [],
            [
                [("holds", "green") if claim.holds else ("FAILS", "bold red"), f"{of}{claim.name}", claim.detail]
                for of, claim in claims
            ],
        )
        for file in result.files:
            screen.line((f"{file.role}: {file.path}, sha256 {file.sha256[:16]}...", "dim"))
    failing = [f"{of}{claim.name}" for of, claim in claims if not claim.holds]
    if failing:
        screen.line(("REJECTED", "bold red"), f": failed checks: {', '.join(failing)}")
    elif result.conclusion == "CONSISTENT":
        screen.line(("CONSISTENT", "bold yellow"), f": no claim of this {result.verdict} certificate fails")
    else:
        screen.line(("CONFIRMED", "bold green"), f": every claim of this {result.verdict} certificate holds")
    if result.constant is not None and not failing:
        screen.line((f'Constant model: every tested input got the decision "{result.constant}".', "yellow"))
    screen.lines(result.remarks if not brief else (), "yellow")
