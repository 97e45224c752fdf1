"""Parts that every section of the page is made of: headed sections, figures with captions, tables."""

from __future__ import annotations

from collections.abc import Container, Sequence

from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, name
from fairchain.report.plots.frame import scrolled


def section(key: str, title: str, *children: Child) -> Markup:
    """Return a section of the page with a heading that can be linked to."""
    return el("section", el("h2", title, id=key), *children, aria_labelledby=key)


def figure(content: Markup, label: str, *caption: Child) -> Markup:
    """Return a figure with its caption; it scrolls where the page is narrow."""
    return el("figure", scrolled(content, label), el("figcaption", *caption))


def not_possible(findings: Findings, what: str, key: str, title: str) -> Markup | None:
    """Return a section with the reason why a part is missing; None where no part is expected."""
    reason = findings.left_out.get(what)
    return None if reason is None else section(key, title, el("p", f"Not possible here: {reason}."))


def table(
    caption: str, headers: Sequence[str], rows: Sequence[Sequence[Child]], *, words: Container[int] = (0,)
) -> Markup:
    """Return a table that scrolls where the page is narrow; columns that are not in `words` hold numbers."""

    def number(column: int) -> str | None:
        return None if column in words else "number"

    head = [el("th", name(header), scope="col", class_=number(column)) for column, header in enumerate(headers)]
    body = [
        el("tr", el("th", first, scope="row"), *(el("td", c, class_=number(i)) for i, c in enumerate(rest, start=1)))
        for first, *rest in rows
    ]
    return scrolled(el("table", el("caption", caption), el("thead", el("tr", *head)), el("tbody", *body)), caption)
