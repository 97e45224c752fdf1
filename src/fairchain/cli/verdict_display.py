"""What a person sees: the verdict in one line, the groups as a table with bars, the guarantee in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairchain.cli.terminal import Part, Screen
from fairchain.spec.properties import kind_of

if TYPE_CHECKING:
    from fairchain.datasets import Description
    from fairchain.rechecking import Recheck
    from fairchain.spec import Spec
    from fairchain.statistics import Interval
    from fairchain.verification.verdict import GroupProbability, Verdict

COLOURS = {"FAIR": "bold green", "UNFAIR": "bold red", "UNDECIDED": "bold yellow", "CONSTANT": "bold yellow"}
STOPPED = {
    "rounds": "the budget of rounds is spent",
    "seconds": "the budget of seconds is spent",
    "interrupted": "you stopped it",
    "rows": "there are too few rows",
}
BAR = 24
SCALE = "0" + " " * (BAR - 2) + "1"
MOST_ROWS, MOST_NAMED = 40, 6
ROWS = ("exact", "fixed sample")


def show_verdict(verdict: Verdict, *, brief: bool = False) -> None:
    """Print a verdict for people."""
    screen = Screen()
    screen.line((verdict.record.word, COLOURS[verdict.conclusion]), f": {verdict.headline}")
    if brief:
        return
    _show_groups(screen, verdict)
    pair = verdict.widest
    if _alike(verdict) and kind_of(verdict.spec) != "individual":
        seen = "" if verdict.exact else " seen"
        screen.line(f"Widest pair{seen}: {pair.more} gets {pair.outcome} more often than {pair.less}.")
    if verdict.left_out:
        screen.line(f"Left out as too small: {_left_out(verdict)}.")
    for witness in verdict.witnesses[:1]:
        (first, second), (one, other) = witness.groups, witness.labels
        person = ", ".join(f"{key}={_value(value)}" for key, value in witness.input.items())
        detail = f" ({person})" if person else ""
        who = "person" if verdict.spec.text is None else "text"
        screen.line(f"One {who}, two decisions: {one} as {first}, {other} as {second}", (detail, "dim"))
    screen.line()
    screen.line((verdict.statement, "bold" if verdict.sound else "bold red"))
    screen.line((verdict.scope, "dim"))
    for note in verdict.notes:
        screen.line((note, "yellow"))
    screen.line((_cost(verdict), "dim"))
    if verdict.decision.name == "UNDECIDED":
        screen.line(_advice(verdict))


def _alike(verdict: Verdict) -> bool:
    """Whether there is a gap to speak of."""
    none = 1.0 if kind_of(verdict.spec) == "ratio" else 0.0
    return verdict.gap.estimate != none


def _left_out(verdict: Verdict) -> str:
    shown = [
        f"{name} ({size:,.0f} rows)" if verdict.rule in ROWS else f"{name} (share {size:.2g})"
        for name, size in verdict.left_out[:MOST_NAMED]
    ]
    more = len(verdict.left_out) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _cost(verdict: Verdict) -> str:
    """What the answer took."""
    rows = verdict.record.rows
    unit = f"{rows:,} rows" if rows is not None else f"{verdict.rounds:,} rounds"
    asked = f"{verdict.evaluations:,} evaluations of the network" if verdict.evaluations else "no network asked"
    return f"{unit}, {asked}, {verdict.seconds:.3f} s; delta {verdict.delta:g}"


def _show_groups(screen: Screen, verdict: Verdict) -> None:
    looked_at = verdict.groups
    if _one_is_enough(verdict):
        looked_at = tuple(group for group in looked_at if group.outcome == looked_at[-1].outcome)
    several = len({group.outcome for group in looked_at}) > 1
    outcome = looked_at[0].outcome
    title = "P(outcome)" if several else f"P({outcome})" if kind_of(verdict.spec) == "individual" else f"P(Y={outcome})"
    headers = ["group", *(["outcome"] if several else []), title, SCALE]
    rows: list[list[Part]] = [
        [group.name, *([group.outcome] if several else []), _number(verdict, group), bar(group.probability)]
        for group in looked_at[:MOST_ROWS]
    ]
    screen.table(headers, rows, optional=(len(headers) - 1,))
    if len(looked_at) > MOST_ROWS:
        screen.line(f"... and {len(looked_at) - MOST_ROWS} more: use --json")


def _one_is_enough(verdict: Verdict) -> bool:
    """Whether the other of two labels says the same: of a difference, unless each is looked at among its own people."""
    spec = verdict.spec
    among_their_own = getattr(spec.property, "criterion", "") == "equal_opportunity"
    return kind_of(spec) == "difference" and len(spec.model.labels) == 2 and not among_their_own


def _number(verdict: Verdict, group: GroupProbability) -> str:
    return f"{group.probability.estimate:.4f} of {group.evaluations:,}" if verdict.exact else str(group.probability)


def bar(p: Interval) -> str:
    """The interval on a line from 0 to 1, the estimate marked."""
    cells = ["·"] * BAR
    low, high = int(p.low * (BAR - 1)), int(p.high * (BAR - 1) + 0.999)
    for i in range(low, min(high, BAR - 1) + 1) if p.low < p.high else ():
        cells[i] = "━"
    cells[min(BAR - 1, round(p.estimate * (BAR - 1)))] = "●"
    return "".join(cells)


def _advice(verdict: Verdict) -> str:
    if verdict.stopped == "rows":
        if verdict.forecast is None:
            return "Undecided because there are too few rows; how many would do cannot be forecast."
        return (
            f"Undecided because there are too few rows: about {verdict.forecast} times as many, in a new table, would "
            "decide it if the rates stay as they are. Looking again at a table that grew spends delta again; for "
            "decisions that keep coming use fairchain monitor."
        )
    if verdict.stopped == "epsilon":
        return "Undecided: the threshold lies inside the interval; ask for a smaller epsilon, or leave epsilon out."
    more = (
        f"about {verdict.forecast:,} more rounds would decide it (--rounds, --seconds)"
        if verdict.forecast
        else "the gap is so near to the threshold that no number of rounds can be forecast"
    )
    return f"Undecided because {STOPPED[verdict.stopped]}; {more}."


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def show_recheck(result: Recheck, *, brief: bool = False) -> None:
    """Print which claims hold."""
    screen = Screen()
    if not brief:
        screen.table(
            [],
            [
                [("holds", "green") if claim.holds else ("FAILS", "bold red"), claim.name, claim.detail]
                for claim in result.claims
            ],
        )
        for file in result.files:
            screen.line((f"{file.role}: {file.path}, sha256 {file.sha256[:16]}...", "dim"))
    failing = [claim.name for claim in result.claims if not claim.holds]
    if failing:
        screen.line(("REJECTED", "bold red"), f": failed checks: {', '.join(failing)}")
    elif result.conclusion == "CONSISTENT":
        screen.line(("CONSISTENT", "bold yellow"), f": no claim of this {result.verdict} certificate fails")
    else:
        screen.line(("CONFIRMED", "bold green"), f": every claim of this {result.verdict} certificate holds")
    if result.constant is not None and not failing:
        screen.line((f'Constant model: every input that was tried got the decision "{result.constant}".', "yellow"))
    for remark in result.remarks if not brief else ():
        screen.line((remark, "yellow"))


def show_demo_start(name: str, spec: Spec) -> None:
    """Say which question comes next."""
    screen = Screen()
    screen.title(name)
    screen.line((str(spec.property), "dim"))


def show_demo_end(name: str, spec: str, saved: Path | None, *, reported: bool) -> None:
    """Say what one can do now."""
    screen = Screen()
    screen.title()
    if not reported:
        screen.line(f"To repair it if it is unfair, with a report to read: fairchain demo {name} --report demo-report")
    if saved is None:
        screen.line(f"To start from such a spec: fairchain demo {name} -o my-audit")
    else:
        screen.line(f"Now try: fairchain verify {saved / spec}.toml --certificate certificate.json")


def show_datasets(found: Sequence[Description]) -> None:
    """Print the data sets as a table."""
    Screen().table(
        ["name", "rows", "licence", "MB", "here", "what"],
        [
            [each.name, f"{each.rows:,}", each.licence, f"{each.download_megabytes:g}", each.cached, each.summary]
            for each in found
        ],
    )
