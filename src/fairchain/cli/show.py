"""What a person sees: the verdict in one line, the groups as a table with bars, the guarantee in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fairchain.rechecking import Recheck
from fairchain.spec import Spec
from fairchain.verdict import GroupProbability, Verdict

COLOURS = {"FAIR": "green", "UNFAIR": "red", "UNDECIDED": "yellow"}
RELATION = {"FAIR": "below", "UNFAIR": "above", "UNDECIDED": "not separated from"}
BAR = 24
MOST_ROWS = 40


def show_verdict(verdict: Verdict, *, brief: bool = False) -> None:
    """Print a verdict for people."""
    console = _console()
    name = verdict.decision.name
    mark = "" if verdict.sound else " (NOT SOUND)"
    console.print(
        f"[bold {COLOURS[name]}]{name}{mark}[/]: the largest gap is {verdict.gap}, "
        f"{RELATION[name]} the threshold {verdict.spec.property.threshold:g}"
    )
    if brief:
        return
    console.print(_groups_table(verdict))
    pair = verdict.widest
    console.print(
        f"Widest pair seen: {escape(pair.more)} gets {escape(pair.outcome)} more often than {escape(pair.less)}."
    )
    if verdict.witnesses:
        witness = verdict.witnesses[0]
        person = ", ".join(f"{key}={_value(value)}" for key, value in witness.input.items())
        console.print(
            f"The same person decided differently: {escape(witness.labels[0])} as {escape(witness.groups[0])}, "
            f"{escape(witness.labels[1])} as {escape(witness.groups[1])} [dim]({escape(person)})[/]"
        )
    console.print(f"\n{escape(verdict.statement)}", style="bold" if verdict.sound else "bold red")
    console.print(f"[dim]{escape(verdict.scope)}[/]")
    console.print(
        f"[dim]{verdict.rounds:,} rounds, {verdict.evaluations:,} evaluations of the network, "
        f"{verdict.seconds:.3f} s; delta {verdict.spec.guarantee.delta:g}[/]"
    )
    if name == "UNDECIDED":
        console.print(_advice(verdict))


def _groups_table(verdict: Verdict) -> Table:
    looked_at = verdict.groups
    if len(verdict.spec.model.labels) == 2:
        last = looked_at[-1].outcome
        looked_at = tuple(group for group in looked_at if group.outcome == last)
    several = len({group.outcome for group in looked_at}) > 1
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("group", overflow="fold")
    if several:
        table.add_column("outcome")
    title = "P(outcome)" if several else f"P(Y={escape(looked_at[0].outcome)})"
    table.add_column(title, no_wrap=True)
    table.add_column("0" + " " * (BAR - 2) + "1", no_wrap=True)
    for group in looked_at[:MOST_ROWS]:
        outcome = [escape(group.outcome)] if several else []
        table.add_row(escape(group.name), *outcome, str(group.probability), _bar(group))
    if len(looked_at) > MOST_ROWS:
        table.add_row(f"... {len(looked_at) - MOST_ROWS} more: use --json", *[""] * (len(table.columns) - 1))
    return table


def _bar(group: GroupProbability) -> str:
    """The interval on a line from 0 to 1, the estimate marked."""
    p = group.probability
    cells = ["·"] * BAR
    low, high = int(p.low * (BAR - 1)), int(p.high * (BAR - 1) + 0.999)
    for i in range(low, min(high, BAR - 1) + 1):
        cells[i] = "━"
    cells[min(BAR - 1, round(p.estimate * (BAR - 1)))] = "●"
    return "".join(cells)


def _advice(verdict: Verdict) -> str:
    reasons = {
        "rounds": "the budget of rounds is spent",
        "seconds": "the budget of seconds is spent",
        "interrupted": "you stopped it",
        "decided": "the estimate is exact enough",
    }
    more = (
        f"about {verdict.forecast:,} more rounds would decide it (--rounds, --seconds)"
        if verdict.forecast
        else "the gap is so near to the threshold that no number of rounds can be forecast"
    )
    return f"Undecided because {reasons[verdict.stopped]}; {more}."


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def show_recheck(result: Recheck, *, brief: bool = False) -> None:
    """Print which claims hold."""
    console = _console()
    if not brief:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for claim in result.claims:
            mark = "[green]holds[/]" if claim.holds else "[red]FAILS[/]"
            table.add_row(mark, claim.name, escape(claim.detail))
        console.print(table)
    failing = [claim.name for claim in result.claims if not claim.holds]
    if failing:
        console.print(f"[bold red]NOT CONFIRMED[/]: {', '.join(failing)} does not hold")
    else:
        console.print(f"[bold green]CONFIRMED[/]: every claim of this {escape(result.verdict)} certificate holds")


def show_demo_start(name: str, spec: Spec) -> None:
    """Say which question comes next."""
    console = _console()
    console.rule(f"[bold]{name}[/]", align="left")
    console.print(f"[dim]{escape(str(spec.property))}[/]")


def show_demo_end(name: str, saved: Path | None) -> None:
    """Say what one can do now."""
    console = _console()
    console.rule(align="left")
    if saved is None:
        console.print(f"To start from such a spec: fairchain demo {name} --save my-audit")
    else:
        console.print(f"Now try: fairchain verify {saved / name}.toml --certificate certificate.json")


def show_datasets(found: Sequence[Any]) -> None:
    """Print the data sets as a table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("name", "rows", "licence", "MB", "here", "what"):
        table.add_column(title)
    for each in found:
        megabytes = f"{each.download_megabytes:g}"
        table.add_row(each.name, f"{each.rows:,}", each.licence, megabytes, each.cached, each.summary)
    _console().print(table)


def _console() -> Console:
    """Colours on a terminal only (rich honours NO_COLOR); a fixed width where there is none, so nothing is cut."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 120)
