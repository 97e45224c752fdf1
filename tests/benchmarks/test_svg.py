"""Figures: everything inside the frame, the legend apart from what is drawn, ticks where the values are."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import pytest


def module(name: str) -> Any:
    return import_module(f"benchmarks.{name}")


def series(name: str, points: list[tuple[float, float]], spread: list[tuple[float, float]] | None = None) -> Any:
    return module("results").Series(name, points, spread=spread)


def lines(*every: Any) -> Any:
    return module("results").Plot("a", "A < B", "x", "y", list(every), log_x=True, log_y=True)


def bars(names: list[str], *every: Any) -> Any:
    return module("results").Plot("b", "B", "", "y", list(every), bars=names)


def drawn(plot: Any) -> ElementTree.Element:
    return ElementTree.fromstring(module("svg").draw(plot))


def of(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [each for each in root.iter() if each.tag.endswith(f"}}{kind}")]


def spots(root: ElementTree.Element) -> list[tuple[float, float]]:
    """The corners and middles of everything that stands for a value, and of the legend."""
    found = [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in of(root, "circle")]
    for each in of(root, "rect")[1:]:
        x, y, wide, high = (float(each.get(key, "")) for key in ("x", "y", "width", "height"))
        found += [(x, y), (x + wide, y + high)]
    for each in (*of(root, "polygon"), *of(root, "polyline")):
        found += [tuple(map(float, pair.split(","))) for pair in each.get("points", "").split()]  # type: ignore[misc]
    for each in of(root, "path"):
        found += [(float(x), float(y)) for x, y in re.findall(r"M([\d.-]+),([\d.-]+)", each.get("d", ""))]
    return found


def test_everything_stays_inside_the_picture() -> None:
    svg = module("svg")
    many = [series(f"a rather long name of a series {place}", [(1.0, 1e-4), (1e6, 7.0)]) for place in range(7)]
    spread = series("s", [(0, -0.2), (1, 1.0)], [(-0.9, 0.1), (0.5, 3.0)])
    for plot in (lines(*many), lines(series("s", [(1.0, 0.97), (3.0, 1.0)])), bars(["u", "v"], spread)):
        for x, y in spots(drawn(plot)):
            assert 0 <= x <= svg.WIDTH
            assert 0 <= y <= svg.HEIGHT


def test_names_of_series_stand_above_what_is_drawn() -> None:
    every = [series(f"a rather long name of a series {place}", [(1.0, 1.0), (1e6, 7.0)]) for place in range(7)]
    root = drawn(lines(*every))
    names = [float(each.get("y", "")) for each in of(root, "text") if (each.text or "").startswith("a rather")]
    top = min(float(pair.split(",")[1]) for each in of(root, "polyline") for pair in each.get("points", "").split())
    assert len(names) == 7
    assert max(names) < top


def test_each_series_has_a_mark_of_its_own() -> None:
    root = drawn(lines(*(series(str(place), [(1.0, 2.0), (3.0, 4.0)]) for place in range(7))))
    shapes = set()
    for each in of(root, "polygon"):
        corners = [tuple(map(float, pair.split(","))) for pair in each.get("points", "").split()]
        shapes.add(tuple((round(x - corners[0][0], 1), round(y - corners[0][1], 1)) for x, y in corners))
    assert len(shapes) == 6
    assert len(of(root, "circle")) == 3


def test_bounds_are_drawn_with_their_bars() -> None:
    plot = bars(["u", "v"], series("known", [(0, 1.0), (1, 0.5)], [(0.5, 1.5), (0.4, 0.6)]), series("not", [(0, 1.0)]))
    assert len(of(drawn(plot), "path")) == 2


@pytest.mark.parametrize(
    ("values", "ticks", "ends"),
    [
        ((1.0, 3.7), [1, 2, 5], (1, 5)),
        # A little below the start is noise, more is not.
        ((0.97, 3.7), [1, 2, 5], (1, 5)),
        ((0.9, 3.7), [0.5, 1, 2, 5], (0.5, 5)),
        ((0.4, 1278.0), [1, 10, 100, 1000], (0.2, 2000)),
        ((1.0, 1.0), [1, 2], (1, 2)),
    ],
)
def test_logarithmic_axes_begin_and_end_near_the_values(
    values: tuple[float, float], ticks: list[float], ends: tuple[float, float]
) -> None:
    assert module("svg")._logarithmic(*values) == (ticks, *ends)
