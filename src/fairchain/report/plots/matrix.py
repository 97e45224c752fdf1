"""The gap or the ratio of each pair as a table with shaded cells."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from fairchain.number_format import close_to, with_interval
from fairchain.report.markup import Markup, el, name, scrolled
from fairchain.report.plots.frame import without_prefix

# With more groups, a cell shows only the longer side of its interval.
MOST_WRITTEN = 6
Gap = tuple[float, float, float]
# The pair of the verdict, and its number as the verdict writes it.
Headline = tuple[frozenset[str], str] | None


def matrix(
    caption: str,
    names: Sequence[str],
    gaps: Mapping[tuple[str, str], Gap],
    threshold: float,
    *,
    ratio: bool = False,
    headline: Headline = None,
    above: Container[frozenset[str]] = (),
) -> Markup:
    """Return a triangular table. A cell is shaded by its size, and underlined by its side of the threshold.

    `gaps` has (estimate, low, high) for each known ordered pair, row first; each pair has one cell. `headline` is the
    pair with the verdict's number and interval: its cell has this number, and no other interval. Pairs of `above` are
    known to fail whatever their interval is.
    """
    small = len(names) > MOST_WRITTEN
    if small and any(low < high for _, low, high in gaps.values()):
        caption += " ± is the longer side of an interval; all-pairs.json has the whole interval."

    def written(number: float) -> str:
        # Enough digits to differ from the threshold, unless they are equal.
        places = close_to(abs(number), threshold, least=3)
        shown = f"{number:.{places}f}" if ratio else f"{number:+.{places}f}"
        return shown if float(shown) else shown.lstrip("+-")

    def interval(estimate: float, low: float, high: float) -> Markup | None:
        if low == high:
            return None
        if small:
            return el("small", f"±{max(estimate - low, high - estimate):.3f}")
        # A line may break between two bounds.
        return el("small", el("span", f"[{written(low)},"), " ", el("span", f"{written(high)}]"))

    def cell(row: str, column: str) -> Markup:
        gap, pair = gaps.get((row, column)), frozenset((row, column))
        if gap is None:
            return el("td", "" if row == column else "–", class_="none")
        estimate, low, high = gap
        number, bounds, told = written(estimate), interval(*gap), with_interval(*gap, threshold=threshold)
        if headline is not None and pair == headline[0]:
            sign = "" if ratio else number[0]
            number, told = f"{sign}{headline[1].lstrip('-')}", "as in the verdict"
            bounds = None if bounds is None else el("small", "smallest" if ratio else "largest")
        # A step from 0 to 10, with 5 at the threshold; it is a class of the style sheet.
        far = (1 - estimate) / (1 - threshold or 1) if ratio else abs(estimate) / (threshold or 1)
        side = "fails" if pair in above else side_of(low, high, threshold, ratio=ratio)
        return el(
            "td",
            el("span", number, class_="gap"),
            bounds,
            class_=f"shade{min(int(far * 5 + 0.5), 10)} {side}",
            title=f"{row} {'and' if ratio else 'minus'} {column}: {told}",
            data_row=row,
            data_column=column,
            data_estimate=repr(estimate),
        )

    def header(place: int, scope: str) -> Markup:
        return el("th", el("div", name(short[place])), scope=scope, title=names[place])

    short = without_prefix(names)
    rows = (
        el(
            "tr",
            header(place, "row"),
            *(cell(names[place], column) for column in names[:place]),
            *(el("td", class_="none") for _ in names[place:-1]),
        )
        for place in range(1, len(names))
    )
    # The longest number in a cell: those near the threshold have more digits. A bound has a bracket or a comma.
    known = {*names}
    shown = [gap for (row, column), gap in gaps.items() if row in known and column in known]
    numbers = [written(estimate) for estimate, _, _ in shown]
    numbers += [] if small else [f"[{written(end)}" for gap in shown for end in gap[1:]]
    numbers += [] if headline is None else [f"+{headline[1]}"]
    return scrolled(
        el(
            "table",
            el("caption", caption),
            el("thead", el("tr", el("td"), *(header(place, "col") for place in range(len(names) - 1)))),
            el("tbody", *rows),
            class_="matrix small" if small else "matrix",
            # The style sheet divides the paper's width by both, so that no font makes the table wider than the paper.
            style=f"--columns: {len(names) - 1}; --letters: {max(map(len, numbers), default=6)}",
        ),
        caption,
    )


def side_of(low: float, high: float, threshold: float, *, ratio: bool) -> str:
    """Return `fails`, `meets` or `open`, according to the side of the threshold that contains the whole interval."""
    if ratio:
        return "fails" if high < threshold else "meets" if low >= threshold else "open"
    return "fails" if max(low, -high) > threshold else "meets" if max(-low, high) <= threshold else "open"
