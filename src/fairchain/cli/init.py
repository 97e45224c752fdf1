"""The command `init`: a first spec for a model and a table; what was guessed stands in comments and on the screen."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from fairchain.cli.options import PATH, as_json, quiet
from fairchain.messages import in_a_line

if TYPE_CHECKING:
    from fairchain.drafting import Draft, DraftOptions

DECISIONS = ["argmax", "logit", "probability", "label"]


@click.command(
    short_help="A first spec for a model and a table.",
    epilog="Example: fairchain init model.onnx people.csv --label income --protected sex",
)
@click.argument("model")
@click.argument("table", type=PATH)
@click.option("-o", "--out", type=PATH, default=Path("spec.toml"), show_default=True, help="The file to write.")
@click.option("--label", help="Column with the true labels; by default guessed.")
@click.option("--protected", multiple=True, help="Feature whose groups are compared; repeat for combinations.")
@click.option("--outcome", help="The label looked at; by default one that people hope for.")
@click.option("--threshold", type=float, default=0.1, show_default=True, help="Largest difference that is fair.")
@click.option(
    "--as",
    "reading",
    type=click.Choice(["population", "sample"]),
    help="What the rows are.  [default: sample; population if ranges of a number were cut from them]",
)
@click.option("--uniform", is_flag=True, help="Take ranges and names from the table, and draw people uniformly.")
@click.option("--ignore", multiple=True, help="Column that is no input of the model; repeatable.")
@click.option("--decision", type=click.Choice(DECISIONS), help="What the output means, where it leaves a doubt.")
@click.option("--model-output", help="The network's output to read, where there are several.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@as_json
@quiet
def init(
    model: str,
    table: Path,
    out: Path,
    reading: Literal["population", "sample"] | None,
    uniform: bool,
    model_output: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    **known: Any,
) -> None:
    """Write a first spec for MODEL (a file, or python:package.module:name) and TABLE (CSV or Parquet).

    What neither tells is guessed, and every guess stands as a comment beside its key. Exit code 0 written, 2 bad input.
    """
    from fairchain.drafting import DraftOptions, must_be_free, save_spec

    if uniform and reading:
        raise click.UsageError("--uniform draws people and --as says what rows are; give one of them")
    must_be_free(out, force=force)
    wishes = DraftOptions(reading="uniform" if uniform else reading, output=model_output, **known)
    draft = _drafted(model, table, wishes, ask=sys.stdin.isatty() and not as_json)
    save_spec(draft, out, force=force)
    _show(draft, model, out, as_json=as_json, quiet=quiet)


def _drafted(model: str, table: Path, wishes: DraftOptions, *, ask: bool) -> Draft:
    """The draft; who is protected is asked only if no name tells and somebody sits at the terminal."""
    from fairchain.drafting import NobodyProtectedError, draft_spec

    try:
        return draft_spec(table, model, wishes)
    except NobodyProtectedError as error:
        # A prompt shows names as they are: those that would act on the terminal are told in the message instead.
        if not ask or not all(name.isprintable() for name in error.candidates):
            raise
        click.echo("No name of a feature says that it is protected.", err=True)
        chosen = click.prompt("Protected feature", type=click.Choice(error.candidates), err=True)
        return draft_spec(table, model, replace(wishes, protected=(chosen,)))


def _show(draft: Draft, model: str, out: Path, *, as_json: bool, quiet: bool) -> None:
    from fairchain.models.load import PYTHON

    command = ["fairchain", "verify", str(out)] + (["--model", model] if model.startswith(PYTHON) else [])
    for text in draft.warnings:
        print(f"fairchain: warning: {in_a_line(text)}", file=sys.stderr)
    if as_json:
        guesses = [{"key": guess.key, "text": guess.text, "warning": guess.loud} for guess in draft.guesses]
        asked = draft.spec.property
        found = {"protected": list(asked.protected), "likely": list(draft.likely), "outcome": asked.outcome}
        print(json.dumps({"spec": str(out), **found, "guesses": guesses, "next": shlex.join(command)}, indent=1))
        return
    if not quiet:
        for text, keys in _by_text(draft).items():
            print(in_a_line(f"{', '.join(keys)}: {text}"))
        print(f"Written: {out}. What was guessed stands there in comments; check it, then:")
    print(shlex.join(command))


def _by_text(draft: Draft) -> dict[str, list[str]]:
    """What was guessed, each sentence once, with all the keys it is about."""
    found: dict[str, list[str]] = {}
    for guess in draft.guesses:
        if not guess.loud:
            found.setdefault(guess.text, []).append(guess.key or "model and table")
    return found
