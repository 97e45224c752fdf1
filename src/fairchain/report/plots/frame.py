"""Common parts of all pictures: the frame with its text alternative, axes with round numbers, names that fit."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from fairchain.messages import plain
from fairchain.number_format import Bounded
from fairchain.report.markup import Child, Markup, el, join

# Widths of letters in pixels at the size of labels: rough upper estimates.
LETTER, WIDE_LETTER = 7.2, 13.0


@dataclass(frozen=True)
class AxisScale:
    """Numbers from low to high as pixels from start to end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a number, clipped to the scale."""
        part = (value - self.low) / (self.high - self.low)
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)


def round_numbers(low: float, high: float, about: int = 5) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten between two numbers.

    >>> round_numbers(0.03, 0.21)
    [0.05, 0.1, 0.15, 0.2]
    """
    width = (high - low) / about
    unit = 10 ** math.floor(math.log10(width))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= width * 0.999)
    first = math.ceil(low / step - 1e-9)
    found = [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]
    return found or [low, high]


def around(values: list[float], *, floor: float = -math.inf) -> tuple[float, float]:
    """Return a range that contains all values, with a margin of 5% and a width of at least 0.02."""
    low, high = min(values), max(values)
    missing = max(0.02 - (high - low), 0.0) / 2
    margin = missing + 0.05 * (high - low + 2 * missing)
    return max(low - margin, floor), high + margin


def picture(title: str, about: str, width: float, height: float, *children: Child, **attributes: str) -> Markup:
    """Return an SVG that scales with the page, with a title and a description for screen readers."""
    return el(
        "svg",
        el("title", title),
        el("desc", about),
        *children,
        role="img",
        aria_label=f"{title}. {about}",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        **attributes,
    )


def label(x: float, y: float, text: str, *, space: float, **attributes: str | float | None) -> Markup:
    """Return a text in a picture, shortened to the available width; the tooltip has the whole text."""
    shown = fit(text, space)
    return el("text", el("title", text) if shown != text else None, shown, x=x, y=y, **attributes)


def bounds_data(name: str, value: Bounded) -> dict[str, str]:
    """Return the attributes from which a script or a test reads the numbers of a picture."""
    numbers = {"estimate": value.estimate, "low": value.low, "high": value.high}
    return {"data_name": name, **{f"data_{key}": repr(number) for key, number in numbers.items()}}


def fit(text: str, space: float) -> str:
    """Return a text shortened in its middle to fit, because both ends distinguish names.

    >>> fit("education=Preschool or less", 120)
    'educatio…or less'
    """
    text = plain(text).replace("\n", " ")
    if text_width(text) <= space:
        return text
    for letters in range(max(int(space / LETTER) - 1, 2), 1, -1):
        cut = f"{text[: -(-letters // 2)]}…{text[len(text) - letters // 2 :]}"
        if text_width(cut) <= space:
            break
    return cut


def text_width(text: str) -> float:
    """Return the approximate width of a text in pixels."""
    return sum(WIDE_LETTER if unicodedata.east_asian_width(letter) in "WF" else LETTER for letter in text)


def axis(scale: AxisScale, top: float, bottom: float, title: str, about: int = 5) -> Markup:
    """Return a horizontal axis with grid lines, and its title below."""
    parts = []
    for tick in round_numbers(scale.low, scale.high, about):
        x = scale(tick)
        parts.append(el("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        parts.append(el("text", f"{tick:g}", x=x, y=bottom + 16, class_="tick", text_anchor="middle"))
    middle = (scale.start + scale.end) / 2
    parts.append(el("text", title, x=middle, y=bottom + 34, class_="tick", text_anchor="middle"))
    return join(*parts)


def upright_axis(ticks: Sequence[tuple[str, float]], left: float, right: float, title: str, middle: float) -> Markup:
    """Return a vertical axis with a grid line at the height of each tick, and its title turned, at its middle."""
    return join(
        *(el("line", x1=left, x2=right, y1=y, y2=y, class_="grid") for _, y in ticks),
        *(el("text", text, x=left - 8, y=y + 4, class_="tick", text_anchor="end") for text, y in ticks),
        el("text", title, class_="tick", x=14, y=middle, transform=f"rotate(-90 14 {middle:g})", text_anchor="middle"),
    )


def without_prefix(names: Sequence[str]) -> list[str]:
    """Return names of groups without their features, if all groups have the same features.

    >>> without_prefix(["sex=Female", "sex=Male"])
    ['Female', 'Male']
    >>> without_prefix(["sex=Female & race=White", "sex=Male & race=Black"])
    ['Female & White', 'Male & Black']
    """
    parts = [[part.partition("=") for part in each.split(" & ")] for each in names]
    features = {tuple(feature for feature, _, _ in each) for each in parts}
    plain = len(features) == 1 and all(value for each in parts for _, _, value in each)
    return [" & ".join(value for _, _, value in each) for each in parts] if plain else list(names)
