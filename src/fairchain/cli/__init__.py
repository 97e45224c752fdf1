"""The command line: parse, call, print. Nothing is decided here."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Entry point of the `fairchain` command."""
    from fairchain.cli.app import run

    run()
