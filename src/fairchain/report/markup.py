"""HTML and SVG that cannot be broken by what stands in it: elements are built, and every text in them is escaped.

Names come from anybody's spec. Markup in them appears as text, control characters as their pictures, and a name
that is written from right to left does not turn the line around it.
"""

from __future__ import annotations

import html
import math
from typing import NamedTuple

from fairchain.messages import plain

# Elements without an end.
_VOID = frozenset({"meta", "br", "hr", "link", "input"})


class Markup(NamedTuple):
    """A piece of a page that is safe to put into it."""

    text: str

    def __str__(self) -> str:
        return self.text


Child = Markup | str | float | None
Value = str | float | bool | None


def el(tag: str, *children: Child, **attributes: Value) -> Markup:
    """An element. Texts are escaped; `class_` is the attribute class, `aria_label` is aria-label; None is left out.

    >>> print(el("p", "a < b", class_="note"))
    <p class="note">a &lt; b</p>
    """
    parts = [tag]
    for name, value in attributes.items():
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(key)
        elif value is not None and value is not False:
            parts.append(f'{key}="{html.escape(_written(value))}"')
    start = f"<{' '.join(parts)}>"
    return Markup(start if tag in _VOID else f"{start}{join(*children)}</{tag}>")


def join(*children: Child) -> Markup:
    """Several pieces, one after another."""
    return Markup(
        "".join(
            child.text if isinstance(child, Markup) else html.escape(_written(child))
            for child in children
            if child is not None
        )
    )


def name(text: object) -> Markup:
    """A name, set apart from the line around it whatever its direction."""
    return el("bdi", str(text))


def _written(value: str | float) -> str:
    """Coordinates to a tenth of a pixel: more only makes the page longer."""
    if isinstance(value, float):
        return f"{value:.1f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"
    return plain(value)
