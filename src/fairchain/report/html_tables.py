"""Tables of the page: a caption, headers, and rows whose first cell names them."""

from __future__ import annotations

from collections.abc import Container, Sequence

from fairchain.report.markup import Child, Markup, el, name
from fairchain.report.plots.frame import scrolled


def table(
    caption: str, headers: Sequence[str], rows: Sequence[Sequence[Child]], *, words: Container[int] = (0,)
) -> Markup:
    """A table that can be scrolled where the page is narrow; columns that are not of `words` are of numbers."""

    def number(column: int) -> str | None:
        return None if column in words else "number"

    head = [el("th", name(header), scope="col", class_=number(column)) for column, header in enumerate(headers)]
    body = [
        el("tr", el("th", first, scope="row"), *(el("td", c, class_=number(i)) for i, c in enumerate(rest, start=1)))
        for first, *rest in rows
    ]
    return scrolled(el("table", el("caption", caption), el("thead", el("tr", *head)), el("tbody", *body)), caption)
