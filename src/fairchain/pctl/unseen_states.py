"""Which states that were never seen an answer depends on: those whose made-up rows were used to get it."""

from __future__ import annotations

import numpy as np

from fairchain.pctl.formula import Eventually, ExpectedSteps, Formula, GapQuery, LongRun, Next, Path, Probability, Until
from fairchain.pctl.graph import Mask
from fairchain.pctl.point_values import Points


def used_rows(points: Points, formula: Formula, start: Mask) -> Mask:
    """(states,): whose transitions matter for what a formula says in the states of `start`."""
    graph, every = points.graph, np.ones(points.graph.size, bool)
    if isinstance(formula, Probability | GapQuery):
        return _used_by_path(points, formula.path, start)
    if isinstance(formula, LongRun):
        touched = graph.ahead(start, every)
        return touched | used_rows(points, formula.part, touched)
    if isinstance(formula, ExpectedSteps):
        through = ~points.holds(formula.target)
        touched = graph.ahead(start, through)
        return (touched & through) | used_rows(points, formula.target, touched)
    return _used_by_parts(points, formula.parts, start)


def _used_by_parts(points: Points, parts: tuple[Formula, ...], start: Mask) -> Mask:
    used = np.zeros(points.graph.size, bool)
    for part in parts:
        used |= used_rows(points, part, start)
    return used


def _used_by_path(points: Points, path: Path, start: Mask) -> Mask:
    graph = points.graph
    if isinstance(path, Next):
        every = np.ones(graph.size, bool)
        return start | used_rows(points, path.part, graph.within(start, every, 1))
    assert isinstance(path, Eventually | Until)
    _, left, right, window = path.until
    # Before the window begins, a run goes on whether or not it is at the goal.
    through = points.holds(left) if window.low else points.holds(left) & ~points.holds(right)
    if window.high is None:
        touched = graph.ahead(start, through)
        used = touched & through
    else:
        touched = graph.within(start, through, window.high)
        used = graph.within(start, through, window.high - 1) & through if window.high else np.zeros(graph.size, bool)
    return used | _used_by_parts(points, path.parts, touched)
