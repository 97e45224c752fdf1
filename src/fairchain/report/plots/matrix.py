"""The gap or the ratio of each pair as a table with shaded cells."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from fairchain.number_format import close_to, with_interval
from fairchain.report.markup import Markup, el, name, scrolled
from fairchain.report.plots.frame import without_prefix

# With more groups, a cell shows only the longer side of its interval.
MOST_WRITTEN = 6
Gap = tuple[float, float, float]
# The pair of the verdict, and its number as the verdict writes it.
Headline = tuple[frozenset[str], str] | None


@dataclass(frozen=True)
class _Look:
    """Format and shade of cells."""

    threshold: float
    ratio: bool
    small: bool
    above: Container[frozenset[str]]

    def side(self, row: str, column: str, gap: Gap) -> str:
        """Return the known side of the threshold."""
        known = frozenset((row, column)) in self.above
        return "fails" if known else side_of(*gap[1:], self.threshold, ratio=self.ratio)

    def shade(self, estimate: float) -> int:
        """Return a step from 0 to 10, with 5 at the threshold; it is a class of the style sheet."""
        far = (1 - estimate) / (1 - self.threshold or 1) if self.ratio else abs(estimate) / (self.threshold or 1)
        return min(int(far * 5 + 0.5), 10)

    def number(self, estimate: float) -> str:
        """Return a number with enough digits to differ from the threshold, unless they are equal."""
        places = close_to(abs(estimate), self.threshold, least=3)
        shown = f"{estimate:.{places}f}" if self.ratio else f"{estimate:+.{places}f}"
        return shown if float(shown) else shown.lstrip("+-")

    def bounds(self, estimate: float, low: float, high: float) -> Markup | None:
        """Return the bounds under the number, None if it is exact; a line may break between two bounds."""
        if low == high:
            return None
        if self.small:
            return el("small", f"±{max(estimate - low, high - estimate):.3f}")
        return el("small", el("span", f"[{self.number(low)},"), " ", el("span", f"{self.number(high)}]"))


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
    look = _Look(threshold, ratio, small=len(names) > MOST_WRITTEN, above=above)
    if look.small and any(low < high for _, low, high in gaps.values()):
        caption += " ± is the longer side of an interval; all-pairs.json has the whole interval."
    shortened = list(zip(names, without_prefix(names), strict=True))
    head = el("tr", el("td"), *(_header(each, short, "col") for each, short in shortened[:-1]))
    rows = (
        el(
            "tr",
            _header(row, short, "row"),
            *(_cell(row, column, gaps.get((row, column)), look, headline) for column in names[: place + 1]),
            *(el("td", class_="none") for _ in names[place + 1 : -1]),
        )
        for place, (row, short) in enumerate(shortened[1:])
    )
    return scrolled(
        el(
            "table",
            el("caption", caption),
            el("thead", head),
            el("tbody", *rows),
            class_="matrix small" if look.small else "matrix",
            # The style sheet divides the paper's width by both, so that no font makes the table wider than the paper.
            style=f"--columns: {len(names) - 1}; --letters: {_letters(names, gaps, look, headline)}",
        ),
        caption,
    )


def _letters(names: Sequence[str], gaps: Mapping[tuple[str, str], Gap], look: _Look, headline: Headline) -> int:
    """Return the length of the longest number in a cell: those near the threshold have more digits."""
    shown = [gap for (row, column), gap in gaps.items() if row in names and column in names]
    numbers = [look.number(gap[0]) for gap in shown]
    # A bound has a bracket or a comma next to it.
    bounds = [] if look.small else [f"[{look.number(end)}" for gap in shown for end in gap[1:]]
    told = [] if headline is None else [f"+{headline[1]}"]
    return max(map(len, [*numbers, *bounds, *told]), default=6)


def side_of(low: float, high: float, threshold: float, *, ratio: bool) -> str:
    """Return `fails`, `meets` or `open`, according to the side of the threshold that contains the whole interval."""
    if ratio:
        return "fails" if high < threshold else "meets" if low >= threshold else "open"
    return "fails" if max(low, -high) > threshold else "meets" if max(-low, high) <= threshold else "open"


def _header(whole: str, short: str, scope: str) -> Markup:
    return el("th", el("div", name(short)), scope=scope, title=whole)


def _cell(row: str, column: str, gap: Gap | None, look: _Look, headline: tuple[frozenset[str], str] | None) -> Markup:
    if gap is None:
        return el("td", "" if row == column else "–", class_="none")
    estimate = gap[0]
    between = "and" if look.ratio else "minus"
    number, bounds = look.number(estimate), look.bounds(*gap)
    told = with_interval(*gap, threshold=look.threshold)
    if headline is not None and {row, column} == headline[0]:
        sign = "" if look.ratio else number[0]
        number, told = f"{sign}{headline[1].lstrip('-')}", "as in the verdict"
        bounds = None if bounds is None else el("small", "smallest" if look.ratio else "largest")
    return el(
        "td",
        el("span", number, class_="gap"),
        bounds,
        class_=f"shade{look.shade(estimate)} {look.side(row, column, gap)}",
        title=f"{row} {between} {column}: {told}",
        data_row=row,
        data_column=column,
        data_estimate=repr(estimate),
    )
