"""Lines and tables on standard output: with colours and wrapping on a terminal, plain text in a pipe.

Names are sanitized: an escape code in a spec must not rewrite a verdict. rich is imported only for a terminal, because
it would delay output to a pipe.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from fairchain.messages import in_a_line

StyledText = str | tuple[str, str]


class Screen:
    """Standard output for lines and tables; a part of a line is text, or text with a style such as `bold red`."""

    def __init__(self) -> None:
        self._console: Any = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def line(self, *parts: StyledText) -> None:
        """Print one line."""
        pairs = [_shown(part) for part in parts]
        if self._console is None:
            print("".join(text for text, _ in pairs))
            return
        from rich.text import Text

        self._console.print(Text.assemble(*pairs))

    def title(self, text: str = "") -> None:
        """Print a title above a rule."""
        text = in_a_line(text)
        if self._console is None:
            print(f"{text} ".ljust(80, "─") if text else "─" * 80)
            return
        from rich.text import Text

        self._console.rule(Text(text), align="left")

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[StyledText]], *, optional: Sequence[int] = ()
    ) -> None:
        """Print columns, with a header line if headers are given. On a narrow terminal `optional` columns are left out,
        the first ones first.
        """
        cells, headers = [[_shown(cell) for cell in row] for row in rows], [in_a_line(header) for header in headers]
        if self._console is None:
            _print_columns([headers] if headers else [], [[text for text, _ in row] for row in cells])
            return
        from rich.table import Table
        from rich.text import Text

        texts = [[Text(text, style) for text, style in row] for row in cells]
        titles = [Text(header) for header in headers or [""] * len(cells[0])]
        kept = _columns_that_fit([titles, *texts], self._console.width, optional)
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=bool(headers))
        for column in kept:
            table.add_column(titles[column], overflow="fold")
        for row in texts:
            table.add_row(*(row[column] for column in kept))
        self._console.print(table)


def _shown(part: StyledText) -> tuple[str, str]:
    text, style = (part, "") if isinstance(part, str) else part
    return in_a_line(text), style


def _columns_that_fit(rows: Sequence[Sequence[Any]], width: int, optional: Sequence[int]) -> list[int]:
    """Return the columns that fit the terminal: optional ones are left out one by one until the others fit."""
    needed = [2 + max(row[column].cell_len for row in rows) for column in range(len(rows[0]))]
    without: list[int] = []
    for column in optional:
        if sum(needed) - sum(needed[each] for each in without) > width:
            without.append(column)
    return [column for column in range(len(needed)) if column not in without]


def _print_columns(header: list[list[str]], rows: list[list[str]]) -> None:
    every = header + rows
    widths = [max(len(row[column]) for row in every) for column in range(len(every[0]))]
    for row in every:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
