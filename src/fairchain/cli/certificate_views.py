"""The commands for certificates: `recheck`, `compare` (two certificates) and `card` (a section of a model card)."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from fairchain.cli import options as shared
from fairchain.cli.exit_codes import RECHECKED
from fairchain.cli.options import PATH, write_or_print
from fairchain.cli.terminal import VERDICT_COLOURS, Screen, StyledText, print_json, progress_of

MOST_PRINTED_ROWS = 40
MOVED = {"up": "higher", "down": "lower", "same": "same", "": ""}


@shared.command("Check a certificate independently.", "recheck certificate.json --model census.onnx")
@click.argument("certificate", type=PATH)
@click.option(
    "--model",
    help="Model that the certificate is about: a file, python:package.module:name, or the address of a service. "
    "Recorded decisions need no model. Earlier answers of a service are not reused.",
)
@shared.service
@click.option(
    "--data",
    type=PATH,
    help="File with the rows or texts of the population, if the certificate is about rows or texts.",
)
@click.option("--spec", type=PATH, help="Your own copy of the spec, with which the certificate must agree.")
@click.option("--full", is_flag=True, help="Repeat all evaluations, without a time limit.")
@click.option("--fresh", is_flag=True, help="Repeat the verification with another seed (--seed).")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    help="Time limit in seconds, by default 60. If the evaluation of all drawn or enumerated inputs would exceed this "
    "limit, a random sample of these inputs is evaluated instead. A new run (--fresh) also ends at this limit.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    help="Seed of the new run (--fresh), or of the random sample of inputs; by default an unpredictable number.",
)
@shared.as_json
@shared.quiet
def recheck(certificate: Path, model: str | None, data: Path | None, as_json: bool, quiet: bool, **options: Any) -> int:
    """Check CERTIFICATE without trusting its issuer.

    \b
    Exit codes:
      0  CONFIRMED: all claims hold, and no assumption remains
      1  REJECTED: a claim does not hold
      2  bad input
      3  CONSISTENT: all claims hold, but an assumption remains, for example because the issuer chose the seed
    """  # noqa: D301
    from fairchain.rechecking import recheck as run_recheck

    silent = quiet or as_json
    opened = shared.opened_model(model, options, quiet=silent)
    given = {name: value for name, value in options.items() if value is not None}
    given["report"] = None if silent else partial(print, file=sys.stderr)
    with progress_of("recheck", silent) as progress:
        result = run_recheck(certificate, opened, data=data, progress=progress, **given)
    if as_json:
        print_json(result.to_dict())
    else:
        from fairchain.cli.verdict_display import show_recheck

        show_recheck(result, brief=quiet)
    return RECHECKED[result.conclusion]


@shared.command("Compare two certificates.", "compare certificate.json repaired-certificate.json")
@click.argument("first", type=PATH)
@click.argument("second", type=PATH)
@shared.as_json
def compare(first: Path, second: Path, as_json: bool) -> None:
    """Compare the gaps and rates of the certificates FIRST and SECOND, for example from before and after a repair.

    This command does not check the certificates. To check a certificate, use fairchain recheck.

    \b
    Exit codes:
      0  success
      2  bad input
    """  # noqa: D301
    from fairchain.number_format import bounded
    from fairchain.report.comparison import compare as set_side_by_side
    from fairchain.report.comparison import read_claims
    from fairchain.report.markdown import one_line

    found = set_side_by_side(read_claims(first), read_claims(second))
    if as_json:
        print_json(found.to_dict())
        return
    names = [str(each) if first.name == second.name else each.name for each in (first, second)]
    screen, both = Screen(), (found.first, found.second)
    measured = "smallest ratio" if found.first.kind == "ratio" else "largest gap"
    summary: list[list[StyledText]] = [
        ["verdict", *((each.word, VERDICT_COLOURS[each.verdict]) for each in both)],
        [measured if found.first.kind != "individual" else "share that changes", *(bounded(e.gap) for e in both)],
        ["threshold", *(f"{each.threshold:g}" for each in both)],
        ["delta", *(f"{each.delta:g}" for each in both)],
        ["network", *(one_line(each.model_sha256 or "-")[:16] for each in both)],
    ]
    screen.table(["", *names], summary)
    screen.line()
    rows: list[list[StyledText]] = []
    for row in found.rows[:MOST_PRINTED_ROWS]:
        rates = (bounded(rate) if rate else "-" for rate in (row.first, row.second))
        rows.append([one_line(row.name), one_line(row.outcome), *rates, MOVED[row.moved]])
    if rows:
        screen.table(["group", "outcome", *names, ""], rows)
    if len(found.rows) > MOST_PRINTED_ROWS:
        screen.line(f"... and {len(found.rows) - MOST_PRINTED_ROWS} more: use --json")
    screen.line()
    sentence = found.sentence
    screen.line((f"{sentence[0].upper()}{sentence[1:]}.", "bold"))
    if found.promise:
        screen.line((found.promise, "dim"))


@shared.command("Print a model-card section from a certificate.", "card certificate.json -o fairness.md")
@click.argument("certificate", type=PATH)
@shared.output("File to write (Markdown); by default standard output.")
def card(certificate: Path, output: Path | None) -> None:
    """Print the section "Fairness" of a model card, in Markdown, from the contents of CERTIFICATE.

    This command does not check the certificate. To check a certificate, use fairchain recheck.

    \b
    Exit codes:
      0  success
      2  bad input
    """  # noqa: D301
    from fairchain.report.card import model_card
    from fairchain.report.comparison import read_claims

    write_or_print(model_card(read_claims(certificate), source=certificate.name), output)
