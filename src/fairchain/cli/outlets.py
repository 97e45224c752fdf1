"""Verdicts for others: `compare` two certificates, write a `card` for a model, and files for build servers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairchain.cli.options import PATH, as_json
from fairchain.errors import FairchainError

if TYPE_CHECKING:
    from fairchain.cli.screen import Part
    from fairchain.report.comparison import Comparison
    from fairchain.verdict import Verdict

MOST_ROWS = 40
MOVED = {"up": "higher", "down": "lower", "same": "same", "": ""}

junit_file = click.option("--junit", type=PATH, help="Write the verdict to this file as JUnit XML, for build servers.")
summary_file = click.option(
    "--summary", type=PATH, help="Add the verdict to this file in Markdown, for a pull request or $GITHUB_STEP_SUMMARY."
)


@click.command(
    short_help="Two certificates side by side.",
    epilog="Example: fairchain compare certificate.json repaired-certificate.json",
)
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@as_json
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Set the certificates FIRST and SECOND side by side: before and after a repair, or two networks.

    What they say is believed here; fairchain recheck checks each. Exit code 0, or 2 for bad input.
    """
    from fairchain.report.claims import read_claims
    from fairchain.report.comparison import compare as set_side_by_side

    found = set_side_by_side(read_claims(first), read_claims(second))
    if as_json:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        same = first.name == second.name
        _show(found, str(first) if same else first.name, str(second) if same else second.name)


@click.command(
    short_help="A section for a model card, from a certificate.",
    epilog="Example: fairchain card certificate.json >> MODEL_CARD.md",
)
@click.argument("certificate", type=PATH)
def card(certificate: Path) -> None:
    """Print the section "Fairness" of a model card in Markdown, from CERTIFICATE.

    What it says is believed here; fairchain recheck checks it. Exit code 0, or 2 for bad input.
    """
    from fairchain.report.card import model_card
    from fairchain.report.claims import read_claims

    print(model_card(read_claims(certificate), source=certificate.name), end="")


def _show(found: Comparison, first: str, second: str) -> None:
    from fairchain.cli.screen import Screen
    from fairchain.cli.show import COLOURS
    from fairchain.report.markdown import one_line, word
    from fairchain.report.numbers import bounded

    screen, both = Screen(), (found.first, found.second)
    measured = "smallest ratio" if found.first["kind"] == "ratio" else "largest gap"
    summary: list[list[Part]] = [
        ["verdict", *((word(each), COLOURS[each["verdict"]]) for each in both)],
        [measured if found.first["kind"] != "individual" else "share that changes", *(bounded(e["gap"]) for e in both)],
        ["threshold", *(f"{each['threshold']:g}" for each in both)],
        ["delta", *(f"{each['delta']:g}" for each in both)],
        ["network", *(one_line(each["model_sha256"] or "-")[:16] for each in both)],
    ]
    screen.table(["", first, second], summary)
    screen.line()
    rows: list[list[Part]] = [
        [
            one_line(row.name),
            one_line(row.outcome),
            *(bounded(p) if p else "-" for p in (row.first, row.second)),
            MOVED[row.moved],
        ]
        for row in found.rows[:MOST_ROWS]
    ]
    if rows:
        screen.table(["group", "outcome", first, second, ""], rows)
    if len(found.rows) > MOST_ROWS:
        screen.line(f"... and {len(found.rows) - MOST_ROWS} more: use --json")
    screen.line()
    sentence = found.sentence
    screen.line((f"{sentence[0].upper()}{sentence[1:]}.", "bold"))
    if found.promise:
        screen.line((found.promise, "dim"))


def check_outlets(junit: Path | None, summary: Path | None) -> None:
    """Before the work, not after it: a result that cannot be written would lose it."""
    for path, option in ((junit, "--junit"), (summary, "--summary")):
        if path is None:
            continue
        ours = os.access(path if path.exists() else path.parent, os.W_OK)
        if not path.parent.is_dir() or path.is_dir() or not ours:
            raise FairchainError(f"{path}: cannot be written; {option} must name a file in a folder that exists")


def write_outlets(
    verdict: Verdict, spec: Path, junit: Path | None, summary: Path | None, certificate: Path | None
) -> None:
    """JUnit XML in one step; a summary is added to what is there, as build servers want it."""
    plain = verdict.to_dict()
    if junit is not None:
        from fairchain.certificate import write_text
        from fairchain.report.junit import junit as as_junit

        write_text(junit, as_junit({f"{spec.name}: {plain['property']}": plain}))
    if summary is not None:
        from fairchain.report.markdown import for_pull_request

        text = for_pull_request(plain, title=spec.name, certificate=certificate.name if certificate else None)
        # One write at the end of the file: of several runs at once none is lost or torn.
        with summary.open("ab", buffering=0) as file:
            file.write(f"{text}\n".encode())
