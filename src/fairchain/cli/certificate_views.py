"""Verdicts for others: `compare` two certificates, write a `card` for a model, and files for build servers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairchain.cli.options import PATH, as_json

if TYPE_CHECKING:
    from fairchain.cli.terminal import Part
    from fairchain.report.comparison import CertificateComparison
    from fairchain.verification.verdict import Verdict

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
    from fairchain.report.certificate_contents import read_claims
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
    from fairchain.report.certificate_contents import read_claims

    print(model_card(read_claims(certificate), source=certificate.name), end="")


def _show(found: CertificateComparison, first: str, second: str) -> None:
    from fairchain.cli.terminal import Screen
    from fairchain.cli.verdict_display import COLOURS
    from fairchain.number_format import bounded
    from fairchain.report.markdown import one_line

    screen, both = Screen(), (found.first, found.second)
    measured = "smallest ratio" if found.first.kind == "ratio" else "largest gap"
    summary: list[list[Part]] = [
        ["verdict", *((each.word, COLOURS[each.verdict]) for each in both)],
        [measured if found.first.kind != "individual" else "share that changes", *(bounded(e.gap) for e in both)],
        ["threshold", *(f"{each.threshold:g}" for each in both)],
        ["delta", *(f"{each.delta:g}" for each in both)],
        ["network", *(one_line(each.model_sha256 or "-")[:16] for each in both)],
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


def write_junit(verdict: Verdict, spec: Path, path: Path) -> None:
    """Write the verdict as JUnit XML, in one step."""
    from fairchain.report.junit import junit
    from fairchain.system.atomic_write import place

    place({path: junit({f"{spec.name}: {verdict.record.question}": verdict.record}).encode()})


def write_summary(verdict: Verdict, spec: Path, path: Path, certificate: Path | None) -> None:
    """Add the verdict in Markdown to what is in the file, as build servers want it."""
    from fairchain.report.markdown import for_pull_request
    from fairchain.system.atomic_write import append

    name = certificate.name if certificate is not None else None
    text = for_pull_request(verdict.record, title=spec.name, certificate=name)
    append(path, f"{text}\n".encode())
