"""Lines and tables on standard output: with colours and wrapping on a terminal, plain text in a pipe.

rich is imported for a terminal only: a program that reads our output should not wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

Part = str | tuple[str, str]


class Screen:
    """Prints lines and tables. A part of a line is text, or text with a style such as `bold red`."""

    def __init__(self) -> None:
        self._console: Any = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def line(self, *parts: Part) -> None:
        """Print one line."""
        pairs = [(part, "") if isinstance(part, str) else part for part in parts]
        if self._console is None:
            print("".join(text for text, _ in pairs))
            return
        from rich.text import Text

        self._console.print(Text.assemble(*pairs))

    def title(self, text: str = "") -> None:
        """Print a title above a rule."""
        if self._console is None:
            print(f"{text} ".ljust(80, "─") if text else "─" * 80)
            return
        self._console.rule(text, align="left")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[Part]]) -> None:
        """Print columns; no headers, no header line."""
        cells = [[(cell, "") if isinstance(cell, str) else cell for cell in row] for row in rows]
        if self._console is None:
            _print_columns([list(headers)] if headers else [], [[text for text, _ in row] for row in cells])
            return
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 2, 0, 0), show_header=bool(headers))
        for header in headers or [""] * len(cells[0]):
            table.add_column(Text(header), overflow="fold")
        for row in cells:
            table.add_row(*(Text(text, style) for text, style in row))
        self._console.print(table)


def _print_columns(header: list[list[str]], rows: list[list[str]]) -> None:
    every = header + rows
    widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))]
    for row in every:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
