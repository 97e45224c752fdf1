"""Draws the pictures of docs/concepts.md with the program's own bets: `python docs/pictures.py` writes the SVG files.

Everything in them is computed, with a fixed seed; a test draws them again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairchain.report.markup import Child, Markup, el, join
from fairchain.statistics.e_values import growth, log_wealth
from fairchain.statistics.paper import PaperRule

FOLDER = Path(__file__).parent
THRESHOLD, DELTA = 0.1, 1e-6
GREEN, RED, GREY, INK = "#1a7f4b", "#b3261e", "#8a8f98", "#1f2328"
Points = Sequence[tuple[float, float]]


def svg(width: int, height: int, title: str, *children: Child) -> str:
    """Return an SVG document on a white background."""
    paper = el("rect", width=width, height=height, rx=8, fill="#ffffff", stroke="#d0d7de")
    whole = el(
        "svg",
        el("title", title),
        paper,
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        role="img",
        font_family="sans-serif",
        font_size=13,
        fill=INK,
    )
    return f"{whole}\n"


def text(x: float, y: float, words: str, *, anchor: str = "start", colour: str = INK, bold: bool = False) -> Markup:
    """Return text at a position."""
    return el("text", words, x=x, y=y, text_anchor=anchor, fill=colour, font_weight="bold" if bold else None)


def line(x1: float, y1: float, x2: float, y2: float, colour: str = GREY, *, dashed: bool = False) -> Markup:
    """Return a straight line."""
    return el("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_dasharray="5 4" if dashed else None)


def curve(points: Points, colour: str) -> Markup:
    """Return a line through points."""
    return el(
        "polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), fill="none", stroke=colour, stroke_width=2
    )


def wealth_of_a_pair(gap: float, rounds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the log wealth after each round of the bets against "the gap is at least 0.1" and "at most 0.1".

    A round shows one input as both groups: 15% of the inputs have the outcome as only one of them.
    """
    chance = np.random.Generator(np.random.Philox(seed)).random(rounds)
    more, less = (0.15 + gap) / 2, (0.15 - gap) / 2
    came = np.stack([chance < less, (chance >= less) & (chance < 1 - more), chance >= 1 - more], axis=1)
    counts = came.cumsum(axis=0)
    payoffs = np.array([-1.0, 0.0, 1.0])
    fair = log_wealth(counts, growth(THRESHOLD - payoffs, 1 - THRESHOLD))
    unfair = log_wealth(counts, growth(payoffs - THRESHOLD, 1 + THRESHOLD))
    return fair, unfair


def wealth() -> str:
    """Draw the wealth of both bets in two panels: for a pair with a small gap, and for one with a large gap."""
    panels = [
        _panel(55, "A pair with a gap of 0.02", wealth_of_a_pair(0.02, 6000, 4), "FAIR"),
        _panel(405, "A pair with a gap of 0.14", wealth_of_a_pair(0.14, 6000, 4), "UNFAIR"),
    ]
    key = [
        line(150, 297, 175, 297, GREEN),
        text(182, 301, "against “0.1 or more”"),
        line(380, 297, 405, 297, RED),
        text(412, 301, "against “0.1 or less”"),
    ]
    return svg(740, 315, "The wealth of two bets over rounds, for a fair and an unfair pair", *panels, *key)


def _panel(left: float, title: str, both: tuple[np.ndarray, np.ndarray], verdict: str) -> Markup:
    width, top, height = 300, 45, 200
    bar, low, high = math.log(2 / DELTA), math.log(1e-3), math.log(2 / DELTA) + 1.5
    ends = [int(np.argmax(each >= bar)) for each in both if (each >= bar).any()]
    last = min(ends) if ends else len(both[0]) - 1

    def place(log: float) -> float:
        return top + height * (1 - (min(max(log, low), high) - low) / (high - low))

    step = max(1, last // 150)
    shown = [*range(0, last, step), last]
    lines = [
        curve([(left + width * i / last, place(float(each[i]))) for i in shown], colour)
        for each, colour in zip(both, (GREEN, RED), strict=True)
    ]
    marks = [text(left - 6, place(math.log(10.0**n)) + 4, f"10^{n}", anchor="end") for n in (-3, 0, 3, 6)]
    colour = GREEN if verdict == "FAIR" else RED
    return join(
        text(left, 28, title, bold=True),
        line(left, top, left, top + height),
        line(left, top + height, left + width, top + height),
        line(left, place(bar), left + width, place(bar), colour, dashed=True),
        text(left + 6, place(bar) - 5, f"2 / delta: {verdict}", colour=colour),
        *marks,
        *lines,
        text(left, top + height + 18, "0"),
        text(left + width, top + height + 18, f"{last + 1} rounds", anchor="end"),
    )


def wrong_by_the_papers_rule(gap: float, rounds: int, low: float = 0.4) -> float:
    """Return the exact probability of an estimate on the wrong side of the threshold, for two independent groups."""
    from scipy.stats import binom

    counts = np.arange(rounds + 1)
    # A gap is the larger minus the smaller rate, whichever group that is.
    least = np.floor(counts + THRESHOLD * rounds + 1e-9)
    first = binom.pmf(counts, rounds, low)
    above = float(first @ binom.sf(least, rounds, low + gap))
    above += float(first @ binom.cdf(np.ceil(counts - THRESHOLD * rounds - 1e-9) - 1, rounds, low + gap))
    return above if gap <= THRESHOLD else 1 - above


def false_alarms() -> str:
    """Draw the probability of a wrong verdict of the paper's rule, computed, against the true gap."""
    promised = 0.05
    rounds = math.ceil(PaperRule(2, 1, THRESHOLD, promised, 0.01, 2).needed())
    left, top, width, height, most = 60, 40, 640, 200, 0.6
    gaps = np.linspace(0.04, 0.16, 121)

    def place(gap: float, share: float) -> tuple[float, float]:
        return left + width * (gap - 0.04) / 0.12, top + height * (1 - share / most)

    # At the threshold itself it depends on the reading which answer is wrong: the two sides are drawn apart.
    sides = [gaps[gaps < THRESHOLD - 1e-9], gaps[gaps > THRESHOLD + 1e-9]]
    curves = [curve([place(g, wrong_by_the_papers_rule(float(g), rounds)) for g in side], RED) for side in sides]
    (_, at), (middle, _) = place(0.04, promised), place(THRESHOLD, 0)
    return svg(
        740,
        315,
        "Probability of a wrong verdict against the true gap",
        text(left, 25, f"Promised: at most {promised:g}. The paper’s rule stops after {rounds:,} inputs of each group.",
             bold=True),
        line(left, top, left, top + height),
        line(left, top + height, left + width, top + height),
        line(middle, top, middle, top + height, dashed=True),
        text(middle + 6, top + 14, "threshold", colour=GREY),
        line(left, at, left + width, at, GREEN, dashed=True),
line(150, 297, 175, 297, GREEN, dashed=True),
        text(182, 301, "what was promised, and what the betting rule keeps to whatever the gap", colour=GREEN),
        *curves,
        text(middle - 60, top + 60, "the paper’s rule", anchor="end", colour=RED),
        *(text(left - 6, place(0.04, share)[1] + 4, f"{share:.0%}", anchor="end") for share in (0.0, 0.25, 0.5)),
        *(text(place(gap, 0)[0], top + height + 18, f"{gap:g}", anchor="middle") for gap in (0.05, 0.075, 0.1, 0.125)),
        text(left + width / 2, top + height + 38, "true gap between two groups (one gets the outcome in 40% of cases)",
             anchor="middle"),
    )  # fmt: skip


def reading() -> str:
    """Draw three intervals of the largest gap with their verdicts."""
    left, width, top = 150, 540, 45

    def x(gap: float) -> float:
        return left + width * gap / 0.3

    rows = [("FAIR", 0.01, 0.04, 0.09, GREEN), ("UNFAIR", 0.12, 0.18, 0.26, RED), ("UNDECIDED", 0.05, 0.11, 0.19, GREY)]
    drawn = [
        join(
            text(left - 20, top + 45 * i + 19, name, anchor="end", colour=colour, bold=True),
            el(
                "line", x1=x(low), x2=x(high), y1=top + 45 * i + 15, y2=top + 45 * i + 15, stroke=colour, stroke_width=4
            ),
            el("circle", cx=x(seen), cy=top + 45 * i + 15, r=6, fill=colour),
        )
        for i, (name, low, seen, high, colour) in enumerate(rows)
    ]
    return svg(
        740,
        220,
        "An interval of the gap below, above and across the threshold",
        line(x(THRESHOLD), 25, x(THRESHOLD), 180, INK, dashed=True),
        text(x(THRESHOLD), 20, "threshold 0.1", anchor="middle"),
        *drawn,
        line(left, 180, left + width, 180),
        *(text(x(gap), 200, f"{gap:g}", anchor="middle") for gap in (0.0, 0.1, 0.2, 0.3)),
    )


PICTURES = {"wealth.svg": wealth, "false-alarms.svg": false_alarms, "reading.svg": reading}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")
