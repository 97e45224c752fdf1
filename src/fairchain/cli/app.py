"""The commands. Each imports its dependencies when it runs, so that `--help` and a first verdict are fast.

A command returns its exit code: 0 fair (or done), 1 unfair (or a claim that does not hold), 3 undecided or a constant
model (or a certificate that was not checked completely). All other codes are errors: 2 bad usage or input (also a
network that crashes the runtime, or too little memory), or a result that could not be written; 101 a bug in fairchain;
130 interrupted; 141 the reader of standard output closed it; 143 terminated.
"""

from __future__ import annotations

import json
import os
import sys
from collections import UserDict
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from fairchain._version import __version__
from fairchain.cli import options as shared
from fairchain.cli.exit_codes import BAD_INPUT, CLOSED_PIPE, INTERRUPTED, OUR_BUG, TERMINATED, Terminated
from fairchain.cli.options import RENAMED_OPTIONS, write_or_print
from fairchain.cli.output import ClosedPipeError, Output, standard_streams
from fairchain.errors import FairchainError, OutputError
from fairchain.system.isolation import NO_MEMORY, out_of_memory
from fairchain.system.user_code import described

COMPLETING = "_FAIRCHAIN_COMPLETE"
# The similarity from which an option is suggested: --metric is not --deterministic.
SIMILAR = 0.75
# click before 8.2 prints the help page itself.
NO_COMMAND: tuple[type[click.ClickException], ...] = tuple(
    filter(None, [getattr(click.exceptions, "NoArgsIsHelpError", None)])
)
# The modules of commands that are not named like their command.
HOMES = dict.fromkeys(("card", "compare", "recheck"), "certificate_views") | {"export": "query"}
COMMANDS = (
    *("audit", "card", "check", "compare", "data", "demo", "explain", "export", "init", "monitor", "plan", "query"),
    *("recheck", "repair", "subgroups", "verify"),
)


class Commands(UserDict[str, Any]):
    """The commands by name; the module of a command is imported when the command is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        if self.data[name] is None:
            self.data[name] = getattr(import_module(f"fairchain.cli.{HOMES.get(name, name)}"), name)
        found: click.Command = self.data[name]
        return found


@click.group(
    commands=Commands(dict.fromkeys(COMMANDS)),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="First time here? Example: fairchain demo",
)
@click.version_option(__version__, message="%(version)s")
def app() -> None:
    """Decide whether a model treats groups alike, with a stated error probability and a certificate."""


@shared.command("Print the JSON Schema of spec files.", "schema -o fairchain.schema.json")
@shared.output("File to write; by default standard output.")
def schema(output: Path | None) -> None:
    """Print the JSON Schema of spec files, for editors that complete and check specs."""
    from fairchain.spec import json_schema

    write_or_print(json.dumps(json_schema(), indent=1) + "\n", output)


@shared.command("Print a script for command completion in a shell.", "completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@shared.output("File to write; by default standard output.")
def completion(shell: str, output: Path | None) -> None:
    """Print a script that lets SHELL complete commands, options and file names.

    \b
    fairchain completion bash >> ~/.bashrc
    fairchain completion zsh >> ~/.zshrc
    fairchain completion fish -o ~/.config/fish/completions/fairchain.fish
    """  # noqa: D301  # \b keeps click from joining the lines
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None
    write_or_print(maker(app, {}, "fairchain", COMPLETING).source() + "\n", output)


app.add_command(schema)
app.add_command(completion)


def run() -> None:
    """Run the command line; turn each error into one message and an exit code."""
    with standard_streams() as output:
        code = _run(output)
    sys.exit(code)


def _run(output: Output) -> int:
    """Run the command and return its exit code, after its output was written or recorded as lost."""
    try:
        # The standalone mode of click would handle Ctrl-C and bad usage with its own exit codes.
        code = int(app(prog_name="fairchain", standalone_mode=False) or 0)
        output.flush()
        return code
    except ClosedPipeError:
        return CLOSED_PIPE
    except NO_COMMAND as error:
        # The message is the help page of the group of commands.
        print(error.format_message(), file=sys.stderr, flush=True)
        return BAD_INPUT
    except BaseException as error:
        if COMPLETING in os.environ and isinstance(error, SystemExit):
            # For shell completion click answers the shell and exits; no command runs.
            return int(error.code or 0)
        if os.environ.get("FAIRCHAIN_TRACEBACK") and isinstance(error, Exception):
            raise
        message, code = _explained(error)
    return _fail(output, message, code)


def _explained(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit code of an error; the code is never 0, 1 or 3, which are verdicts."""
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
    # fairchain itself raises no SystemExit or similar exception while a command runs.
    return (
        f"no verdict, because the called code tried to end the program ({described(error)}); remove this exit",
        BAD_INPUT,
    )


def _usage(error: click.ClickException) -> str:
    """Return the usage message of click, or the new name of a renamed option, with a pointer to `--help`."""
    named = " ".join(["fairchain", *(name for name in sys.argv[1:2] if name in COMMANDS)])
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else named
    if isinstance(error, click.NoSuchOption):
        if new := RENAMED_OPTIONS.get(command, {}).get(error.option_name):
            return f"{error.option_name} is now {new}; see {command} --help"
        similar = get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=SIMILAR)
        meant = f"did you mean {similar[0]}? See" if similar else "see"
        return f"unknown option {error.option_name}; {meant} {command} --help"
    return f"{error.format_message().rstrip('.')}; see {command} --help"


def _fail(output: Output, message: str, code: int) -> int:
    """Print the message, also as JSON unless a result was printed; print lost output on standard error."""
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
