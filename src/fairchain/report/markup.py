"""HTML and SVG with escaped texts, and the elements of every section: figures with captions, tables.

Names come from untrusted specs. Markup in them appears as text, control characters as their pictures, and right-to-left
names do not change the direction of the line.
"""

from __future__ import annotations

import html
import math
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from fairchain.messages import plain

# Elements without an end tag.
_VOID = frozenset({"meta", "br", "hr", "link", "input"})


class Markup(NamedTuple):
    """Escaped piece of a page."""

    text: str

    def __str__(self) -> str:
        return self.text


Child = Markup | str | float | None
CellValue = str | float | bool | None


def el(tag: str, *children: Child, **attributes: CellValue) -> Markup:
    """Return an element. Texts are escaped; `class_` is the attribute class, `aria_label` aria-label; None is omitted.

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
    """Return several pieces, one after another."""
    return Markup(
        "".join(
            child.text if isinstance(child, Markup) else html.escape(_written(child))
            for child in children
            if child is not None
        )
    )


def name(text: object) -> Markup:
    """Return a name, isolated from the direction of the surrounding text."""
    return el("bdi", str(text))


def _written(value: str | float) -> str:
    """Return a value as text; coordinates to a tenth of a pixel, because more digits only enlarge the page."""
    if isinstance(value, float):
        return f"{value:.1f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"
    return plain(value)


def section(key: str, title: str, *children: Child) -> Markup:
    """Return a section of the page with a heading that can be linked to."""
    return el("section", el("h2", title, id=key), *children, aria_labelledby=key)


def definitions(terms: Mapping[str, Child]) -> Markup:
    """Return terms, each with its definition or value."""
    return el("dl", *(join(el("dt", term), el("dd", value)) for term, value in terms.items()))


def figure(content: Markup, label: str, *caption: Child) -> Markup:
    """Return a figure with its caption; it scrolls on a narrow page."""
    return el("figure", scrolled(content, label), el("figcaption", *caption))


def scrolled(content: Markup, label: str) -> Markup:
    """Return a frame that scrolls horizontally, also by keyboard, if the page is narrower than its content."""
    return el("div", content, class_="scroll", tabindex="0", role="group", aria_label=label)


def html_table(
    caption: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[Child]],
    *,
    words: Container[int] = (0,),
    tools: bool = False,
) -> Markup:
    """Return a table that scrolls on a narrow page; columns that are not in `words` contain numbers.

    With `tools` the page's script lets a reader sort it by a column and filter its rows.
    """

    def number(column: int) -> str | None:
        return None if column in words else "number"

    head = [el("th", name(header), scope="col", class_=number(column)) for column, header in enumerate(headers)]
    body = [
        el("tr", el("th", first, scope="row"), *(el("td", c, class_=number(i)) for i, c in enumerate(rest, start=1)))
        for first, *rest in rows
    ]
    content = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *head)),
        el("tbody", *body),
        data_tools="" if tools else None,
    )
    return scrolled(content, caption)


def two_lines(number: str) -> Markup:
    """Return an estimate with its interval under it, for tables with many columns."""
    estimate, _, interval = number.partition(" ")
    return join(estimate, el("small", interval) if interval else None)
