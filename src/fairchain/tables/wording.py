"""Cells and names from untrusted tables, as they stand in messages: short, printable, with what was meant nearby."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MOST_SHOWN = 40
MOST_LISTED = 12


def shown(text: str) -> str:
    """A text from a table in quotes, cut if it is long and escaped if a terminal could act on it."""
    cut = text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."
    return f'"{cut}"' if cut.isprintable() else f'"{ascii(cut)[1:-1]}"'


def near(name: str, known: Sequence[str]) -> str:
    """`did you mean "x"?` if something is near, else what there is, at most a dozen."""
    folded = {other.casefold(): other for other in reversed(known)}
    close = get_close_matches(name.casefold(), folded, n=1)
    if close:
        return f"did you mean {shown(folded[close[0]])}?"
    more = f" and {len(known) - MOST_LISTED} more" if len(known) > MOST_LISTED else ""
    return f"there is {', '.join(shown(other) for other in known[:MOST_LISTED])}{more}"


def doubled(names: Sequence[str]) -> str | None:
    """The first name that stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def many(count: int, noun: str) -> str:
    """`1 row`, `2 rows`, `1,000 rows`."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
