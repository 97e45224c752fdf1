"""The command line: parse, call, print. Nothing is decided here."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the `fairchain` command."""
    try:
        from fairchain.cli.guard import guarded
    except BaseException as error:
        # Nothing handles signals yet, and an import may have made another exception of a KeyboardInterrupt.
        if not any(isinstance(each, KeyboardInterrupt) for each in (error, error.__cause__, error.__context__)):
            raise
        print("fairchain: interrupted", file=sys.stderr)
        sys.exit(130)
    guarded(_work)


def _work() -> None:
    from fairchain.cli.app import run

    run()
