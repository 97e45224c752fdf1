"""Lines, tables and JSON on standard output, and progress on standard error.

A terminal gets colours and wrapping, a pipe plain text. Progress is shown only on a terminal, only after a second, and
never mixed with the output. Names are sanitized: an escape code in a spec must not rewrite a verdict. rich is imported
only for a terminal, because it would delay output to a pipe.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fairchain.messages import in_a_line

StyledText = str | tuple[str, str]
VERDICT_COLOURS = {"FAIR": "bold green", "UNFAIR": "bold red", "UNDECIDED": "bold yellow", "CONSTANT": "bold yellow"}
# The text of a progress step, for each kind of work.
PROGRESS_TEXTS: dict[str, Callable[..., str]] = {
    "verify": lambda progress: str(progress.text),
    "learn": lambda done, _: f"{done:,} rounds",
    "explain": lambda done, total: f"{done:,} of {total:,} rounds",
    "repair": lambda progress: (
        f"generation {progress.iteration}, {progress.candidates:,} candidates; best so far: gap {progress.gap:.4f}, "
        f"accuracy {progress.accuracy:.4f}  (Ctrl-C: verify the best)"
    ),
    "recheck": lambda done, total: (
        f"re-run: {done:,} of {total:,} evaluations" if total else f"fresh run: {done:,} evaluations"
    ),
}


def print_json(values: object) -> None:
    """Print plain values as one JSON object."""
    print(json.dumps(values, indent=1))


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

    def lines(self, texts: Iterable[str], style: str = "") -> None:
        """Print each text on its own line."""
        for text in texts:
            self.line((text, style))

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
        """Print columns, below headers if given; a narrow terminal omits `optional` ones, the first ones first."""
        cells, headers = [[_shown(cell) for cell in row] for row in rows], [in_a_line(header) for header in headers]
        if self._console is None:
            every = [*([headers] if headers else []), *([text for text, _ in row] for row in cells)]
            widths = [max(map(len, column)) for column in zip(*every, strict=True)]
            for line in every:
                print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
            return
        from rich.table import Table
        from rich.text import Text

        texts = [[Text(text, style) for text, style in row] for row in cells]
        titles = [Text(header) for header in headers or [""] * len(cells[0])]
        widths = [2 + max(row[column].cell_len for row in (titles, *texts)) for column in range(len(titles))]
        kept = list(range(len(titles)))
        for column in optional:
            if sum(widths[each] for each in kept) > self._console.width:
                kept.remove(column)
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=bool(headers))
        for column in kept:
            table.add_column(titles[column], overflow="fold")
        for row in texts:
            table.add_row(*(row[column] for column in kept))
        self._console.print(table)


def _shown(part: StyledText) -> tuple[str, str]:
    text, style = (part, "") if isinstance(part, str) else part
    return in_a_line(text), style


def wanted(quiet: bool) -> bool:
    """Return whether standard error is a terminal that can show progress."""
    from fairchain.verification.progress import has_terminal

    return not quiet and has_terminal()


@contextmanager
def progress_of(work: str, quiet: bool = False) -> Iterator[Callable[..., None] | None]:
    """Yield a function that shows each step of a task; None without a terminal."""
    if not wanted(quiet):
        yield None
        return
    status: Any = None

    def show(*step: Any) -> None:
        nonlocal status
        text = PROGRESS_TEXTS[work](*step)
        if text and status is None:
            from rich.console import Console

            status = Console(stderr=True).status(text)
            status.start()
        elif text:
            status.update(text)

    try:
        yield show
    finally:
        if status is not None:
            status.stop()
