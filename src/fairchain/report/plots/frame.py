"""What all pictures share: the frame with its text alternative, axes with round numbers, and names that fit."""

from __future__ import annotations

import math
import unicodedata
from dataclasses import dataclass

from fairchain.messages import plain
from fairchain.report.markup import Child, Markup, el, join

# Widths of letters in pixels at the size of labels: rough, and on the safe side.
LETTER, WIDE_LETTER = 7.2, 13.0


@dataclass(frozen=True)
class AxisScale:
    """Numbers from low to high as pixels from start to end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where a number stands, kept inside."""
        part = (value - self.low) / (self.high - self.low)
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Round numbers along the scale."""
        return round_numbers(self.low, self.high, about)


def round_numbers(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers.

    >>> round_numbers(0.03, 0.21)
    [0.05, 0.1, 0.15, 0.2]
    """
    width = (high - low) / about
    unit = 10 ** math.floor(math.log10(width))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= width * 0.999)
    first = math.ceil(low / step - 1e-9)
    found = [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]
    return found or [low, high]


def around(values: list[float], *, least: float, room: float = 0.05, floor: float = -math.inf) -> tuple[float, float]:
    """A range that shows all values with some room, and is never narrower than `least`."""
    low, high = min(values), max(values)
    missing = max(least - (high - low), 0.0) / 2
    width = high - low + 2 * missing
    return max(low - missing - room * width, floor), high + missing + room * width


def picture(title: str, about: str, width: float, height: float, *children: Child, **attributes: str) -> Markup:
    """An SVG that grows with the page, with a title and a description for those who do not see it."""
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


def scrolled(content: Markup, label: str) -> Markup:
    """A frame that can be scrolled sideways, also by keyboard, where a page is narrower than what it holds."""
    return el("div", content, class_="scroll", tabindex="0", role="group", aria_label=label)


def label(x: float, y: float, text: str, *, room: float | None = None, **attributes: str | float | None) -> Markup:
    """A text in a picture, cut to the room there is; the whole of it stands in its tooltip."""
    shown = text if room is None else fit(text, room)
    whole = el("title", text) if shown != text else None
    return el("text", whole, shown, x=x, y=y, **attributes)


def fit(text: str, room: float) -> str:
    """As much of a text as fits, the middle left out: both ends tell names apart.

    >>> fit("education=Preschool or less", 120)
    'educatio…or less'
    """
    text = plain(text).replace("\n", " ")
    if text_width(text) <= room:
        return text
    letters = max(int(room / LETTER) - 1, 2)
    while letters > 2:
        head, tail = text[: -(-letters // 2)], text[len(text) - letters // 2 :]
        if text_width(head + "…" + tail) <= room:
            break
        letters -= 1
    return f"{text[: -(-letters // 2)]}…{text[len(text) - letters // 2 :]}"


def text_width(text: str) -> float:
    """About how many pixels a text takes."""
    return sum(WIDE_LETTER if unicodedata.east_asian_width(letter) in "WF" else LETTER for letter in text)


def axis(scale: AxisScale, top: float, bottom: float, title: str, about: int = 5) -> Markup:
    """A horizontal axis with its lines behind the picture, and its title below."""
    parts = []
    for tick in scale.ticks(about):
        x = scale(tick)
        parts.append(el("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        parts.append(el("text", f"{tick:g}", x=x, y=bottom + 16, class_="tick", text_anchor="middle"))
    middle = (scale.start + scale.end) / 2
    parts.append(el("text", title, x=middle, y=bottom + 34, class_="tick", text_anchor="middle"))
    return join(*parts)
