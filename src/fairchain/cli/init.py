"""The command `init`: draft a first spec for a model and a table. Guesses are written as comments and printed."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fairchain.cli import options as shared
from fairchain.cli.options import PATH
from fairchain.cli.terminal import print_json
from fairchain.messages import in_a_line


@shared.command(
    "Write a first spec for a model and a table.", "init model.onnx data.csv --label income --protected sex"
)
@click.argument("model")
@click.argument("table", type=PATH)
@shared.output("Spec to write (.toml).", default=Path("spec.toml"), show_default=True)
@click.option("--label", help="Column with the true labels; by default fairchain guesses the column.")
@shared.protected
@shared.text
@shared.terms
@shared.outcome
@click.option("--threshold", type=float, default=0.1, show_default=True, help="Largest difference that counts as fair.")
@shared.choice(
    "--as",
    ["population", "sample", "uniform", "observed", "swapped"],
    "Meaning of the rows: a whole population, a sample, observed texts, or swapped texts. With uniform, the "
    "population is uniform, and the table only states ranges and names.  [default: sample; for texts: observed; if "
    "fairchain divides a numeric protected column into ranges: population]",
    to="reading",
)
@shared.ignore
@shared.decision
@shared.decision_threshold
@shared.labels
@shared.model_output
@shared.force
@shared.as_json
@shared.quiet
def init(
    model: str,
    table: Path,
    output: Path,
    text: str | None,
    terms: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **known: Any,
) -> None:
    """Write a first spec for MODEL (a file, or python:package.module:name) and TABLE (CSV or Parquet).

    Comments in the spec explain the values that fairchain guessed.

    \b
    Exit codes:
      0  success
      2  bad input
    """  # noqa: D301
    from fairchain.drafting import DraftOptions, NoProtectedFeatureError, draft_spec, must_be_free, save_spec
    from fairchain.models.load import PYTHON

    must_be_free(output, force=force)
    requested = DraftOptions(**known)
    if text is not None:
        from fairchain.drafting.texts import draft_text_spec

        draft = draft_text_spec(table, model, requested, text=text, terms=terms)
    else:
        try:
            draft = draft_spec(table, model, requested)
        except NoProtectedFeatureError as error:
            # A prompt prints names unescaped, so names with control characters are only listed in the message.
            if as_json or not sys.stdin.isatty() or not all(name.isprintable() for name in error.candidates):
                raise
            click.echo("No feature has a name that suggests a protected feature.", err=True)
            chosen = click.prompt("Protected feature", type=click.Choice(error.candidates), err=True)
            draft = draft_spec(table, model, replace(requested, protected=(chosen,)))
    save_spec(draft, output, force=force)
    command = ["fairchain", "verify", str(output)]
    command += ["--model", model] if model.startswith((PYTHON, "http://", "https://")) else []
    for warning in draft.warnings:
        print(f"fairchain: warning: {in_a_line(warning)}", file=sys.stderr)
    if as_json:
        guesses = [{"key": guess.key, "text": guess.text, "warning": guess.loud} for guess in draft.guesses]
        question = draft.spec.property
        known = {"protected": list(draft.spec.protected), "likely": list(draft.likely), "outcome": question.outcome}
        print_json({"spec": str(output), **known, "guesses": guesses, "next": shlex.join(command)})
        return
    if not quiet:
        keys_of: dict[str, list[str]] = {}
        for guess in draft.guesses:
            if not guess.loud:
                keys_of.setdefault(guess.text, []).append(guess.key or "model and table")
        for told, keys in keys_of.items():
            print(in_a_line(f"{', '.join(keys)}: {told}"))
        print(f"Written: {output}. Its comments state the guesses; check them, then:")
    print(shlex.join(command))
