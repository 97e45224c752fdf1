"""The command line: parse, call, print. Nothing is decided here."""

from __future__ import annotations

import sys

from fairchain.cli.exit_codes import BAD_INPUT, INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Run the `fairchain` command."""
    try:
        from fairchain.cli.guard import guarded
    except BaseException as error:
        # Nothing handles signals yet, and an import may have made another exception of a KeyboardInterrupt.
        stopped = any(isinstance(each, KeyboardInterrupt) for each in (error, error.__cause__, error.__context__))
        print("fairchain:", "interrupted" if stopped else f"cannot start ({error})", file=sys.stderr)
        sys.exit(INTERRUPTED if stopped else BAD_INPUT)
    guarded(_work)


def _work() -> None:
    from fairchain.cli.app import run

    run()
