"""Near matches: what somebody who mistyped a name may have meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


def suggest(name: str, known: Sequence[str]) -> str:
    """`did you mean "x"?` if something is near, else the list of what there is."""
    near = get_close_matches(name, known, n=1)
    return f'did you mean "{near[0]}"?' if near else f"there is {', '.join(known)}"
