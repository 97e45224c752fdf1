"""The command line parses arguments, calls the package and prints results. It contains no decision logic."""

from __future__ import annotations

import sys

from fairchain.cli.exit_codes import BAD_INPUT, INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Run the `fairchain` command."""
    try:
        from fairchain.cli.guard import guarded
    except BaseException as error:
        # No signal handler is installed yet, and an import may have replaced a KeyboardInterrupt by another exception.
        stopped = any(isinstance(each, KeyboardInterrupt) for each in (error, error.__cause__, error.__context__))
        print("fairchain:", "interrupted" if stopped else f"cannot start ({error})", file=sys.stderr)
        sys.exit(INTERRUPTED if stopped else BAD_INPUT)
    guarded(_work)


def _work() -> None:
    from fairchain.cli.app import run

    run()
